"""What benchmarks/peers.py counts, and that its loops do the same work. How fast they are is no matter of tests."""

import io
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from loops import LOOPS, Job
from peer_models import PlainTransformer
from peers import begin_like_pytorch, flops_per_token, main, make_job, this_project
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode
from turns import Contender, Pass, serve

from translate.config.loading import config_from_dict, config_to_dict, load_config
from translate.distributed.processes import SINGLE_PROCESS
from translate.model.build import build_model

ROOT = Path(__file__).resolve().parents[2]
PAIRS, PASSES, ROWS = 24, 4, 8

OWN_LOOPS: dict[str, Callable[[Job], Iterator[Pass]]] = {
    "plain": LOOPS["plain"],
    "tuned": LOOPS["tuned"],
    "this project": lambda job: this_project(job, job.bucketed, torch.float32, SINGLE_PROCESS),
}


@pytest.fixture(scope="module")
def job() -> Job:
    """The same few pairs in each pass: a target repeats its source."""
    small = ["d_model=32", "ffn=48", "heads=4", "dropout=0", "attention_dropout=0", "ffn_dropout=0"]
    overrides = [f"model.{setting}" for setting in small]
    overrides += [f"training.batch.max_sentences={ROWS}", "training.optimizer.lr=5e-3"]
    config = load_config(ROOT / "configs" / "tutorial.yaml", overrides)
    rng = np.random.default_rng(1)
    lines = [rng.integers(4, 20, size=rng.integers(1, 7)).tolist() for _ in range(PAIRS)] * PASSES
    shuffled = [np.arange(PAIRS * number, PAIRS * (number + 1)).reshape(-1, ROWS).tolist() for number in range(PASSES)]
    return Job(config_to_dict(config), "cpu", "float32", 1, 20, 23, lines, lines, shuffled, shuffled)


def test_batches_are_those_of_an_epoch(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for language in ("de", "en"):
        lines = ["x" * length for length in rng.integers(1, 100, size=200)]
        (tmp_path / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = tmp_path / "small.yaml"
    config.write_text(
        f"extends: {ROOT / 'configs' / 'tutorial.yaml'}\n"
        f"data: {{cache: {tmp_path}}}\ntext: {{tokenizer: {{kind: char}}}}\n"
        f"training: {{batch: {{max_sentences: {ROWS}}}}}\n",
        encoding="utf-8",
    )
    made = make_job(Namespace(data=tmp_path, config=config, threads=1, device="cpu", pairs=PAIRS, rounds=PASSES - 1))
    for passes in (made.shuffled, made.bucketed):
        assert np.shape(passes) == (PASSES, PAIRS // ROWS, ROWS)
        assert len(set(chain(*chain(*passes)))) == PAIRS * PASSES
    widths = np.array([len(line) for line in made.source])
    # Of 200 lengths up to 99, eight neighbours are some four apart.
    assert np.ptp(widths[made.bucketed], axis=-1).max() < 10 < np.ptp(widths[made.shuffled], axis=-1).min()


@pytest.mark.slow
@pytest.mark.parametrize("loop", OWN_LOOPS)
def test_a_loop_learns(loop: str, job: Job) -> None:
    torch.manual_seed(1)
    passes = list(OWN_LOOPS[loop](job))
    assert len(passes) == PASSES
    assert all(one["seconds"] > 0 for one in passes)
    assert [one["tokens"] for one in passes] == [sum(len(line) + 1 for line in job.target[:PAIRS])] * PASSES
    assert 2.5 < passes[0]["loss"] < 4  # Of 23 words that are equally probable, the logarithm is 3.1.
    assert passes[-1]["loss"] < passes[0]["loss"] - 0.3


def test_weights_begin_as_large_as_those_of_the_plain_loop(job: Job) -> None:
    torch.manual_seed(1)
    config = config_from_dict(job.config)
    sizes = {"source_size": job.source_words, "target_size": job.target_words}
    ours = build_model(config.model, **sizes)
    begin_like_pytorch(ours)
    plain = PlainTransformer(job).transformer.encoder.layers[0].self_attn
    attention = ours.encoder[0].self_attention
    for found, wanted in zip(
        (attention.query, attention.key, attention.value), plain.in_proj_weight.chunk(3), strict=True
    ):
        assert found.weight.max().item() == pytest.approx(wanted.max().item(), rel=0.01)
    assert attention.output.weight.max().item() == pytest.approx(plain.out_proj.weight.max().item(), rel=0.01)


def test_operations_are_those_that_pytorch_counts(job: Job) -> None:
    source_BS, framed_BT = job.padded([0, 0, 0])
    model = PlainTransformer(job)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        logits_BTV = model(source_BS, framed_BT[:, :-1])
        cross_entropy(logits_BTV.flatten(0, 1), framed_BT[:, 1:].flatten()).backward()
    source, target = np.array([source_BS.shape[1]] * 3), np.array([framed_BT.shape[1] - 1] * 3)
    wanted = flops_per_token(job.model, job.target_words, source, target)
    assert counter.get_total_flops() / target.sum() == pytest.approx(wanted)


def test_the_tutorial_takes_32_million_operations_a_token(job: Job) -> None:
    """As worked out by hand for vocabularies of 5,893 words, and sentences of 13 and 14 tokens."""
    config = config_to_dict(load_config(ROOT / "configs" / "tutorial.yaml"))
    model = Job(config, "cpu", "float32", 1, 1, 1, [], [], [], []).model
    by_hand = 6 * (3 * 524_288 * 13 / 14 + 3 * 655_360 + 3 * 131_072 * 13 / 14 + 256 * 5893)
    assert flops_per_token(model, 5893, np.array([13]), np.array([14])) == pytest.approx(by_hand, rel=0.02)


def test_the_ceiling_is_that_of_the_arithmetics_trained_in(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loops.SIDE", {"cpu": 64})
    (found,) = islice(LOOPS["ceiling"](job), 1)
    assert found.keys() == {"float32"}
    assert found["float32"] > 0


def test_each_line_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def passes() -> Iterator[Pass]:
        print("a toolkit talks")
        yield {"seconds": 1.0, "loss": 2.0}
        raise ModuleNotFoundError("No module named 'toolkit'")

    monkeypatch.setattr("sys.stdin", io.StringIO("go\ngo\n"))
    serve(passes(), "cpu")
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"seconds": 1.0, "loss": 2.0, "peak": first["peak"]}
    assert second == {"missing": "No module named 'toolkit'"}


@pytest.mark.parametrize("missing", ["ceiling", "plain", "tuned"])
def test_nothing_is_compared_without_the_ceiling_or_the_plain_loop(
    missing: str, job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"float32": 1e9, "seconds": 1.0, "tokens": 5.0, "loss": 2.0, "peak": 1.0}
    answer = f"import sys\nfor _ in sys.stdin: print({json.dumps(figures)!r}, flush=True)"
    monkeypatch.setattr("peers.make_job", lambda args: job)
    monkeypatch.setattr(
        "peers.contenders",
        lambda *_: [
            Contender(title, "float32", [sys.executable, "-c", "" if title == missing else answer])
            for title in ("ceiling", "plain", "tuned", "this project")
        ],
    )
    monkeypatch.setattr(sys, "argv", ["peers.py", "--data", "nowhere", "--rounds", "1"])
    if missing == "tuned":
        main()
        printed = capsys.readouterr().out
        assert "tuned is left out: it stopped: it said nothing" in printed
        assert "this project" in printed
    else:
        with pytest.raises(SystemExit, match=f"nothing can be compared without {missing}: it stopped"):
            main()
        assert capsys.readouterr().out == ""
