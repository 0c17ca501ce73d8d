"""Training loops that this project is compared with: plain PyTorch, and other toolkits where they are installed.

    python benchmarks/loops.py JOB.json NAME

runs one loop in a process of its own, as benchmarks/peers.py starts it: each line of standard input asks for one pass
over new pairs, and is answered by a line of JSON. A loop needs PyTorch and its toolkit, and knows nothing of this
project: toolkits may live in another environment.

Dimension letters in names: B pairs, S source positions, T target positions, D width, V target vocabulary.
"""

import argparse
import contextlib
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor, nn, optim
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

UNK, PAD, BOS, EOS = range(4)  # In this project, and in JoeyNMT.
SIDE = {"cpu": 2048, "cuda": 8192}  # of the matrices with which the ceiling is measured

Pass = dict[str, Any]  # the figures of one
Batches = list[list[int]]  # each a list of pair numbers


class Sizes(Protocol):
    """What a model is made for: dimensions, by the names that they have in a config, and sizes of the vocabularies."""

    @property
    def model(self) -> SimpleNamespace: ...

    @property
    def source_words(self) -> int: ...

    @property
    def target_words(self) -> int: ...


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


class PlainTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, learned positions and a projection, as tutorials put them together."""

    def __init__(self, job: Sizes) -> None:
        super().__init__()
        sizes = job.model
        self.source = nn.Embedding(job.source_words, sizes.d_model)
        self.target = nn.Embedding(job.target_words, sizes.d_model)
        self.source_positions = nn.Embedding(sizes.max_positions, sizes.d_model)
        self.target_positions = nn.Embedding(sizes.max_positions, sizes.d_model)
        self.dropout = nn.Dropout(sizes.dropout)
        self.transformer = nn.Transformer(
            sizes.d_model,
            sizes.heads,
            sizes.encoder_layers,
            sizes.decoder_layers,
            sizes.ffn,
            sizes.dropout,
            batch_first=True,
        )
        self.projection = nn.Linear(sizes.d_model, job.target_words)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        ahead_TT = nn.Transformer.generate_square_subsequent_mask(target_BT.shape[1], target_BT.device).isinf()
        out_BTD = self.transformer(
            self.embed_source(source_BS),
            self.embed_target(target_BT),
            tgt_mask=ahead_TT,
            src_key_padding_mask=source_BS == PAD,
            tgt_key_padding_mask=target_BT == PAD,
            memory_key_padding_mask=source_BS == PAD,
        )
        logits_BTV: Tensor = self.projection(out_BTD)
        return logits_BTV

    def embed_source(self, source_BS: Tensor) -> Tensor:
        return self._embed(self.source, self.source_positions, source_BS)

    def embed_target(self, target_BT: Tensor) -> Tensor:
        return self._embed(self.target, self.target_positions, target_BT)

    def _embed(self, tokens: nn.Embedding, positions: nn.Embedding, ids_BT: Tensor) -> Tensor:
        places_T = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        embedded: Tensor = self.dropout(tokens(ids_BT) * math.sqrt(tokens.embedding_dim) + positions(places_T))
        return embedded


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


def marian_model(job: Sizes) -> nn.Module:
    """The toolkit's model, with fresh weights."""
    transformers = importlib.import_module("transformers")
    sizes = job.model
    config = transformers.MarianConfig(
        vocab_size=job.source_words,
        decoder_vocab_size=job.target_words,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        d_model=sizes.d_model,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        encoder_ffn_dim=sizes.ffn,
        decoder_ffn_dim=sizes.ffn,
        activation_function="relu",
        dropout=sizes.dropout,
        attention_dropout=sizes.dropout,
        activation_dropout=sizes.dropout,
        max_position_embeddings=sizes.max_positions,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )
    model: nn.Module = transformers.MarianMTModel(config)
    return model


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


def joey_model(job: Sizes) -> Any:
    """The toolkit's model, with fresh weights."""
    models, vocabularies = (importlib.import_module(f"joeynmt.{name}") for name in ("model", "vocabulary"))
    special = SimpleNamespace(
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        unk_id=UNK,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        lang_tags=[],
    )
    sizes = job.model

    def stack(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": sizes.heads,
            "embeddings": {"embedding_dim": sizes.d_model, "scale": True, "dropout": sizes.dropout},
            "hidden_size": sizes.d_model,
            "ff_size": sizes.ffn,
            "dropout": sizes.dropout,
            "layer_norm": sizes.norm,
        }

    return models.build_model(
        {"encoder": stack(sizes.encoder_layers), "decoder": stack(sizes.decoder_layers)},
        *(
            vocabularies.Vocabulary([f"w{number}" for number in range(EOS + 1, words)], special)
            for words in (job.source_words, job.target_words)
        ),
    )


def joey_batch(source_BS: Tensor, framed_BT: Tensor | None) -> Any:
    """A batch as the toolkit's own: source with EOS, and target between BOS and EOS, or none."""
    return importlib.import_module("joeynmt.batch").Batch(
        src=source_BS,
        src_length=(source_BS != PAD).sum(1),
        src_prompt_mask=None,
        trg=framed_BT,
        trg_prompt_mask=None,
        indices=torch.arange(len(source_BS), device=source_BS.device),
        device=source_BS.device,
        pad_index=PAD,
        eos_index=EOS,
    )


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


# --- a process -------------------------------------------------------------------------------------------------------


def serve(passes: Iterator[Pass], device: str) -> None:
    """Answer each line of standard input with the figures of one more pass, or with what is not installed."""
    for _ in sys.stdin:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # where toolkits may log what they like
                found: dict[str, Any] = next(passes)
                found.setdefault("peak", peak_memory(device))
        except ImportError as error:
            found = {"missing": str(error)}
        print(json.dumps(found), flush=True)


def peak_memory(device: str) -> float:
    """The most bytes that this process has held at once: of a GPU, or as Linux counts them; NaN elsewhere.

    getrusage would include what the process that started this one held.
    """
    if device == "cuda":
        return float(torch.cuda.max_memory_reserved())
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), math.nan)


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
