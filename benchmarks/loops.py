"""Training loops that this project is compared with: plain PyTorch, and other toolkits where they are installed.

    python benchmarks/loops.py JOB.json NAME

runs one loop in a process of its own, as benchmarks/peers.py starts it: each line of standard input asks for one pass
over new pairs, and is answered by a line of JSON. A loop needs PyTorch and its toolkit, and knows nothing of this
project: toolkits may live in another environment.

Dimension letters in names: B pairs, S source positions, T target positions, V target vocabulary.
"""

import argparse
import importlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from peer_models import BOS, EOS, PAD, PlainTransformer, joey_batch, joey_model, marian_model
from torch import Tensor, nn, optim
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from turns import Pass, serve

SIDE = {"cpu": 2048, "cuda": 8192}  # of the matrices with which the ceiling is measured

Batches = list[list[int]]  # each a list of pair numbers


@dataclass(frozen=True)
class Job:
    """What all loops train, and on what.

    Args:
        config: the settings of this project as plain values.
        device: cpu or cuda.
        arithmetic: float32 or bfloat16, whichever is faster here.
        source, target: ids of each sentence, without BOS and EOS.
        shuffled: the batches of each pass, of pairs in random order.
        bucketed: as many batches, each of sentences of similar length, with pairs of their own in `source`.
    """

    config: dict[str, Any]
    device: str
    arithmetic: str
    threads: int
    source_words: int
    target_words: int
    source: list[list[int]]
    target: list[list[int]]
    shuffled: list[Batches]
    bucketed: list[Batches]

    @classmethod
    def read(cls, path: Path) -> "Job":
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def model(self) -> SimpleNamespace:
        """The dimensions, by the names that they have in a config."""
        return SimpleNamespace(**self.config["model"])

    @property
    def rate(self) -> float:
        return float(self.config["training"]["optimizer"]["lr"])

    @property
    def clip_norm(self) -> float:
        return float(self.config["training"]["clip_norm"] or math.inf)

    def padded(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Source with EOS (B, S), and target between BOS and EOS (B, T + 1)."""
        source = [torch.tensor([*self.source[row], EOS]) for row in rows]
        target = [torch.tensor([BOS, *self.target[row], EOS]) for row in rows]
        return pad_sequence(source, True, PAD).to(self.device), pad_sequence(target, True, PAD).to(self.device)


def train(
    job: Job,
    passes: list[Batches],
    model: nn.Module,
    optimizer: optim.Optimizer,
    loss_of: Callable[[Tensor, Tensor], Tensor],
) -> Iterator[Pass]:
    """One pass after the other; `loss_of` returns the mean loss per target token of a batch that `Job.padded` made."""
    for batches in passes:
        started = time.perf_counter()
        losses, counts = [], []
        for rows in batches:
            optimizer.zero_grad()
            loss = loss_of(*job.padded(rows))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), job.clip_norm)
            optimizer.step()
            losses.append(loss.detach())
            counts.append(sum(len(job.target[row]) + 1 for row in rows))
        # Once per pass: each look at a loss would wait for a GPU.
        summed = sum(mean * count for mean, count in zip(torch.stack(losses).tolist(), counts, strict=True))
        yield {"seconds": time.perf_counter() - started, "tokens": sum(counts), "loss": summed / sum(counts)}


# --- PyTorch ---------------------------------------------------------------------------------------------------------


def plain(job: Job) -> Iterator[Pass]:
    """What a tutorial writes: float32, batches in random order, each padded to its longest sentence."""
    model = PlainTransformer(job).to(job.device).train()
    optimizer = optim.Adam(model.parameters(), lr=job.rate)

    def loss_of(source_BS: Tensor, framed_BT: Tensor) -> Tensor:
        logits_BTV = model(source_BS, framed_BT[:, :-1])
        return cross_entropy(logits_BTV.flatten(0, 1), framed_BT[:, 1:].flatten(), ignore_index=PAD)

    yield from train(job, job.shuffled, model, optimizer, loss_of)


def tuned(job: Job) -> Iterator[Pass]:
    """The same module with what is known to help: sentences of similar length together, autocast, a fused optimizer.

    On a CPU benchmarks/peers.py starts it with glibc's settings for keeping memory; on a GPU it does without cuDNN's
    attention, which makes a plan for every new shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = PlainTransformer(job).to(job.device).train()
    optimizer = optim.Adam(model.parameters(), lr=job.rate, fused=True)

    def loss_of(source_BS: Tensor, framed_BT: Tensor) -> Tensor:
        with torch.autocast(job.device, torch.bfloat16, enabled=job.arithmetic == "bfloat16"):
            logits_BTV = model(source_BS, framed_BT[:, :-1])
        return cross_entropy(logits_BTV.float().flatten(0, 1), framed_BT[:, 1:].flatten(), ignore_index=PAD)

    yield from train(job, job.bucketed, model, optimizer, loss_of)


def ceiling(job: Job) -> Iterator[Pass]:
    """Operations a second (two for each multiplication and addition) of large matrix products, for each arithmetic.

    Only those that are trained in: bfloat16 can take a hundred times as long on a CPU that has no instructions for it.
    """
    side = SIDE[job.device]
    while True:
        found = {}
        for arithmetic in sorted({"float32", job.arithmetic}):
            dtype = getattr(torch, arithmetic)
            a, b = (torch.rand(side, side, device=job.device).to(dtype) for _ in range(2))
            out = torch.empty_like(a)
            seconds = []
            for _ in range(6):
                started = time.perf_counter()
                torch.mm(a, b, out=out)
                out[0, 0].item()  # Waits for a GPU.
                seconds.append(time.perf_counter() - started)
            found[arithmetic] = 2 * side**3 / min(seconds)
        yield found


# --- toolkits --------------------------------------------------------------------------------------------------------
# All in float32, the default of each of them.


def marian(job: Job) -> Iterator[Pass]:
    """MarianMTModel of Hugging Face's transformers, by a loop that does what its Trainer does by default.

    That is: batches in random order, its fused AdamW without weight decay. Only the loop is timed here: the Trainer
    has further costs of its own.
    """
    model = marian_model(job).to(job.device).train()
    optimizer = optim.AdamW(model.parameters(), lr=job.rate, weight_decay=0.0, fused=True)

    def loss_of(source_BS: Tensor, framed_BT: Tensor) -> Tensor:
        labels_BT = framed_BT[:, 1:].masked_fill(framed_BT[:, 1:] == PAD, -100)
        attended_BS = (source_BS != PAD).long()
        loss: Tensor = model(input_ids=source_BS, attention_mask=attended_BS, labels=labels_BT, use_cache=False).loss
        return loss

    yield from train(job, job.shuffled, model, optimizer, loss_of)


def joey(job: Job) -> Iterator[Pass]:
    """JoeyNMT's model, batches and loss, by the steps of its TrainManager; it reads in random order, too."""
    model = joey_model(job).to(job.device).train()
    model.loss_function = ("crossentropy", 0.0)
    optimizer = optim.Adam(model.parameters(), lr=job.rate)

    def loss_of(source_BS: Tensor, framed_BT: Tensor) -> Tensor:
        batch = joey_batch(source_BS, framed_BT)
        batch.sort_by_src_length()
        summed, _, _, _ = model(return_type="loss", **vars(batch))
        loss: Tensor = batch.normalize(summed, "tokens")
        return loss

    yield from train(job, job.shuffled, model, optimizer, loss_of)


def opennmt(job: Job) -> Iterator[Pass]:
    """OpenNMT-py's own model and Trainer, on sentences of similar length together, as its own iterator batches them.

    It has pre-norm only. Here it is trained on CPUs only.
    """
    model_builder, trainers, parsing, options, inputter, optimizers = (
        importlib.import_module(f"onmt.{name}")
        for name in ("model_builder", "trainer", "utils.parse", "opts", "inputters.inputter", "utils.optimizers")
    )
    sizes = job.model
    parser = parsing.ArgumentParser()
    options.train_opts(parser)
    chosen = {
        "data": "{}",
        "src_vocab": "none",
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": sizes.encoder_layers,
        "dec_layers": sizes.decoder_layers,
        "hidden_size": sizes.d_model,
        "word_vec_size": sizes.d_model,
        "transformer_ff": sizes.ffn,
        "heads": sizes.heads,
        "dropout": sizes.dropout,
        "attention_dropout": sizes.dropout,
        "position_encoding_type": "SinusoidalInterleaved",
        "param_init": 0,
        "optim": "adam",
        "learning_rate": job.rate,
        "max_grad_norm": 0 if math.isinf(job.clip_norm) else job.clip_norm,
        "normalization": "tokens",
        "report_every": 10**9,
    }
    words = [f"--{name}={value}" for name, value in chosen.items()]
    opt, _ = parser.parse_known_args([*words, "--position_encoding", "--param_init_glorot"])
    opt.data = {}
    parsing.ArgumentParser.update_model_opts(opt)
    parsing.ArgumentParser.validate_model_opts(opt)
    special = ["<unk>", "<blank>", "<s>", "</s>"]
    vocabularies = inputter.dict_to_vocabs(
        {
            "data_task": "seq2seq",
            "src": special + [f"s{number}" for number in range(EOS + 1, job.source_words)],
            "tgt": special + [f"t{number}" for number in range(EOS + 1, job.target_words)],
        }
    )
    model = model_builder.build_model(opt, opt, vocabularies, None, -1)
    trainer = trainers.build_trainer(opt, -1, model, vocabularies, optimizers.Optimizer.from_opt(model, opt))

    def fed(batches: Batches) -> Iterable[tuple[dict[str, Tensor], int]]:
        for rows in batches:
            source_BS, framed_BT = job.padded(rows)
            lengths_B = (source_BS != PAD).sum(1)
            yield {"src": source_BS[:, :, None], "srclen": lengths_B, "tgt": framed_BT[:, :, None]}, 0

    for batches in job.bucketed:
        started = time.perf_counter()
        statistics = trainer.train(fed(batches), 0, valid_steps=10**9)
        seconds = time.perf_counter() - started
        yield {"seconds": seconds, "tokens": float(statistics.n_words), "loss": statistics.xent()}


LOOPS: dict[str, Callable[[Job], Iterator[Pass]]] = {
    "ceiling": ceiling,
    "plain": plain,
    "tuned": tuned,
    "marian": marian,
    "joey": joey,
    "opennmt": opennmt,
}


def main() -> None:
    """Serve one loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path, metavar="JOB.json")
    parser.add_argument("name", choices=LOOPS, metavar="NAME", help=f"one of {', '.join(LOOPS)}")
    args = parser.parse_args()
    try:
        job = Job.read(args.job)
    except (OSError, ValueError, TypeError) as error:
        parser.error(f"{args.job} is not a job that peers.py has written: {error}")
    torch.set_num_threads(job.threads)
    torch.manual_seed(1)
    serve(LOOPS[args.name](job), job.device)


if __name__ == "__main__":
    main()
