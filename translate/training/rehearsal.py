"""The batch that needs most memory, run before the first update: a lack of memory shows at once, not in an hour."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from translate.data.batching import Batch, BatchPlan, Shapes, make_batch
from translate.data.dataset import Indices, Pairs
from translate.model.attention import MultiHeadAttention
from translate.model.layers import DecoderLayer, EncoderLayer, blocks_of
from translate.system.allocation import is_out_of_memory, release_memory
from translate.system.free_memory import free_memory
from translate.training.learner import Learner
from translate.training.memory import TensorMemory, human_size
from translate.training.micro_batches import MicroBatches

# How much a process on a CPU may grow for each byte of tensors: what is freed leaves gaps in the C library's heap. It
# was 1.3 to 1.8 times as much, most with long lines in two workers.
GROWTH = 1.75


@dataclass(frozen=True)
class LargestBatch:
    """The pairs of a batch, by index, and the positions of its longer side: tokens, including eos, and any padding."""

    indices: Indices
    longest: int


def largest_batch(plan: BatchPlan, epoch: int, model: nn.Module, padded: Callable[[Shapes], Shapes]) -> LargestBatch:
    """The batch of an epoch whose activations take most memory; other epochs have batches of the same shapes.

    The estimate counts inputs and outputs of linear layers, and the attention weights that are kept. It uses the
    lengths without BPE-dropout, which makes them longer, as the log says.

    Args:
        padded: maps the shapes of batches to those that they are padded to (see `Update.padded`).
    """
    encoder = [block for block in blocks_of(model) if isinstance(block, EncoderLayer)]
    decoder = [block for block in blocks_of(model) if isinstance(block, DecoderLayer)]
    per_source, per_target = features(encoder), features(decoder)
    per_prediction = features([model]) - per_source - per_target  # the projection to the vocabulary

    rows, source, target, _, predictions = padded(plan.shapes(epoch))
    of_a_row = source * per_source + target * per_target
    of_a_row += kept_weights([block.self_attention for block in encoder], source, source)
    of_a_row += kept_weights([block.self_attention for block in decoder], target, target)
    of_a_row += kept_weights([block.cross_attention for block in decoder], target, source)
    largest = int((rows * of_a_row + predictions * per_prediction).argmax())
    return LargestBatch(plan.epoch(epoch).batch(largest), int(max(source[largest], target[largest])))


def features(modules: Sequence[nn.Module]) -> int:
    """The sum of input and output features over all linear layers of these modules."""
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, nn.Linear)]
    return sum(layer.in_features + layer.out_features for layer in layers)


def kept_weights(
    attentions: Sequence[MultiHeadAttention], queries: NDArray[np.integer], keys: NDArray[np.integer]
) -> NDArray[np.integer]:
    """How many attention weights are kept for the backward pass, for rows of so many queries and keys."""
    weights = queries * keys
    kept = [attention.heads * np.where(weights <= attention.max_kept_weights, weights, 0) for attention in attentions]
    return sum(kept, np.zeros_like(weights))


def rehearse(micro_batches: MicroBatches, largest: LargestBatch, pairs: Pairs) -> None:
    """Run this batch once and discard the result; if memory runs out, in as many micro-batches as it takes to fit."""
    learner = micro_batches.learner
    learner.largest_alone = tokens_alone(make_batch(pairs, largest.indices), learner.config.batch.max_tokens)
    learner.model.train()
    # First, several processes agree on pieces: in passes that sum no gradients, none waits for one without memory.
    if learner.processes.count > 1 and learner.parallel.passes_alone:
        while micro_batches.count < len(largest.indices) and _any_lacks_memory(micro_batches, largest, pairs):
            micro_batches.double()

    def measured_pass() -> None:
        part = _part_of(micro_batches, largest)
        with reporting_memory(learner, len(part), largest.longest):
            learner.update.accumulate(make_batch(pairs, part), 1.0, last=True)

    micro_batches.until_it_fits(measured_pass, [largest.indices])


def tokens_alone(batch: Batch, max_tokens: int) -> int | None:
    """The tokens of the longer side of a batch, without eos, if it is a single line and has more than `max_tokens`."""
    rows, *widths = batch.shape
    return max(widths) - 1 if rows == 1 and max(widths) > max_tokens else None


def _any_lacks_memory(micro_batches: MicroBatches, largest: LargestBatch, pairs: Pairs) -> bool:
    """Whether memory runs out in any process while all run a pass over their part of this batch."""
    learner = micro_batches.learner
    lacks = False
    with torch.random.fork_rng([learner.device] if learner.device.type == "cuda" else []):
        try:
            learner.update.accumulate(make_batch(pairs, _part_of(micro_batches, largest)), 1.0, last=False)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            lacks = True
    learner.model.zero_grad()
    return bool(learner.processes.gather(lacks).any())


def _part_of(micro_batches: MicroBatches, largest: LargestBatch) -> Indices:
    """What a worker gets at a time if all batches of an update are as large as this one."""
    learner = micro_batches.learner
    # Each worker gets whole batches if an update has at least one for every worker of all processes; if not, parts.
    all_workers = learner.processes.count * learner.update.workers
    batches = [largest.indices] * (all_workers if learner.config.batch.accumulate >= all_workers else 1)
    return micro_batches.of(batches)[0][0].indices


@contextmanager
def reporting_memory(learner: Learner, pairs: int, longest: int) -> Iterator[None]:
    """Report the memory that training takes, measured while the body runs a pass; warn if less may be free.

    The pass is over this number of `pairs`, the longest side of which has `longest` tokens, including eos.

    Only tensors are counted. The warning leaves room for what a process on a CPU may take besides: it comes before that
    much is taken, because a container's limit, or Linux, may end the process without a message.

    All workers of all processes run such a pass at the same time, each worker with its own gradients. The processes of
    one machine share its memory if they compute on CPUs. Gradients are cleared afterwards, and the random state is
    restored.
    """
    model, device, say = learner.model, learner.device, learner.bar.say
    workers = learner.update.workers
    each = f" for each of {learner.sharing} processes" if learner.sharing > 1 else ""
    lasting, free = learner.lasting_memory(), free_memory(device) / learner.sharing
    for_tensors = (free / GROWTH if device.type == "cpu" else free) - lasting.to_come

    def warn() -> None:
        say(f"warning: training may need more than the {human_size(free)} of free memory{each}; {learner.remedies()}")

    for parameter in model.parameters():  # Allocated before measuring: they are not activations.
        parameter.grad = torch.zeros_like(parameter)
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices), TensorMemory(for_tensors / workers, warn) as activations:
            yield
    finally:
        model.zero_grad()
    release_memory()
    times = "" if workers == 1 else f"{workers} times "
    rows = f"{times}{pairs} {'row' if pairs == 1 else 'rows'}"
    parts = {**lasting.parts, f"activations of {rows} of {longest} tokens": workers * activations.peak}
    shares = ", ".join(f"{name} {human_size(number)}" for name, number in parts.items() if number)
    say(f"memory: about {human_size(sum(parts.values()))}{each}, in addition to Python and the text: {shares}")
