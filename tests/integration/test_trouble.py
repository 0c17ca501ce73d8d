"""Gradients that are no numbers, a device without memory, a disk without space: skipped, or explained."""

import json
import math
import re
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import (
    FirstOfTwo,
    TinyProject,
    assert_same_run,
    assert_same_tensors,
    at_call,
    gradients,
    newest_state,
    rows,
    sigterm,
    stop,
    trainer_of,
)
from torch import Tensor

from translate.errors import DataError, TrainingError
from translate.model.transformer import Transformer
from translate.model_file import SavedModel, fresh_model
from translate.optimization import objective as objective_module
from translate.optimization.update import Update
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.runs.preparing import prepare_text
from translate.runs.starting import refuse_too_large
from translate.system.storage import read_tensors
from translate.training.memory import unsharded_bytes
from translate.training.states import States
from translate.training.tracking import NoBar, NoMetrics
from translate.training.trainer import Trainer

pytestmark = pytest.mark.slow


def spoil_updates(patch: pytest.MonkeyPatch, *numbers: int, value: float = math.nan) -> None:
    """Make the loss of the updates with these numbers, counted from 1, worthless."""
    update, loss = Trainer._update, objective_module.smoothed_loss_
    now = 0

    def counted(self: Trainer, *given: Any) -> None:
        nonlocal now
        now = self.progress.step + 1
        update(self, *given)

    def spoiled(*arguments: Any, **keywords: Any) -> tuple[Tensor, Tensor]:
        smoothed, sums = loss(*arguments, **keywords)
        return (smoothed * value, sums * value) if now in numbers else (smoothed, sums)

    patch.setattr(Trainer, "_update", counted)
    patch.setattr(objective_module, "smoothed_loss_", spoiled)


# --- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_accumulated_batches_have_the_gradient_of_one_large_batch(smoothing: float, tiny: TinyProject) -> None:
    trainer = trainer_of(tiny.config("model.dropout=0", f"training.label_smoothing={smoothing}"))
    # Of unequal numbers of tokens, so that a mean of means would be something else.
    short, long = np.arange(3), np.arange(3, 40)
    together = gradients(trainer, [np.concatenate([short, long])])
    apart = gradients(trainer, [short, long])
    assert together.keys() == apart.keys() == dict(trainer.learner.model.named_parameters()).keys()
    for name, gradient in together.items():
        torch.testing.assert_close(apart[name], gradient, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_skipped_and_named(
    value: float, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights: list[dict[str, Tensor]] = []
    update = Trainer._update

    def spy(self: Trainer, *given: Any) -> None:
        update(self, *given)
        weights.append({name: p.detach().clone() for name, p in self.learner.model.named_parameters()})

    monkeypatch.setattr(Trainer, "_update", spy)
    spoil_updates(monkeypatch, 3, 4, 9, value=value)
    run = train(tiny.config())
    said = [line for line in capsys.readouterr().err.split("\n") if "skipped" in line]
    assert said == [f"update {n} skipped: its gradient norm is nan" for n in (3, 4, 9)]
    assert_same_tensors(weights[1], weights[2])
    assert_same_tensors(weights[1], weights[3])
    assert any(not torch.equal(weights[3][name], weights[4][name]) for name in weights[3])
    assert all(weight.isfinite().all() for weight in read_tensors(run.model)[0].values())
    # Neither do they spoil the log.
    assert all(math.isfinite(row[name]) for row in rows(run) if row["kind"] == "train" for name in ("loss", "nll"))


def test_a_gradient_too_long_to_measure_is_skipped(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number of it is finite, but the sum of their squares is not."""
    spoil_updates(monkeypatch, *range(1, 11), value=1e30)
    with pytest.raises(TrainingError, match="the gradient was infinite or NaN in 10 updates in a row"):
        train(tiny.config())
    assert "update 1 skipped: its gradient norm is inf\n" in capsys.readouterr().err


def test_skipped_updates_have_read_their_tokens(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = newest_state(train(tiny.config()))[1]["target_tokens"]
    spoil_updates(monkeypatch, 3, 9)
    assert newest_state(train(tiny.config(), overwrite=True))[1]["target_tokens"] == tokens


def test_what_else_helps_against_bad_gradients_is_told(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_updates(monkeypatch, *range(1, 22))
    with pytest.raises(TrainingError) as caught:
        train(tiny.config("training.clip_norm=null", "training.precision=bfloat16"))
    assert str(caught.value).endswith(
        "raise training.schedule.warmup_steps, set training.clip_norm, or use training.precision=float32, in a new run"
    )


def test_nine_in_a_row_are_forgiven_and_ten_are_not(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_updates(monkeypatch, *range(2, 11), *range(12, 22))
    with pytest.raises(TrainingError) as caught:
        train(tiny.config())
    assert str(caught.value) == (
        "the gradient was infinite or NaN in 10 updates in a row; "
        "lower training.optimizer.lr, or raise training.schedule.warmup_steps, in a new run"
    )


def test_one_good_update_forgives_those_before_it(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_updates(monkeypatch, *range(2, 11), *range(12, 21))
    progress = newest_state(train(tiny.config()))[1]
    assert (progress["step"], progress["non_finite"]) == (21, 0)


def test_the_count_of_bad_updates_survives_a_resume(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_updates(monkeypatch, *range(3, 22))
    with pytest.raises(TrainingError):
        train(tiny.config())
    with pytest.raises(TrainingError):
        train(tiny.config(), resume=True)
    # The state is that of update 7, after 5 bad ones. With five more the run ends, long before the next validation.
    assert max(row["step"] for row in rows(RunFolder(tiny.folder / "run"))) == 7


def test_a_model_blown_up_leaves_a_log_that_is_json(tiny: TinyProject) -> None:
    with pytest.raises(TrainingError):
        train(tiny.config("training.optimizer.lr=1e38", "training.schedule={kind: constant}"))

    def refuse(name: str) -> None:
        pytest.fail(f"{name} is not JSON")

    lines = RunFolder(tiny.folder / "run").metrics.read_text(encoding="utf-8").split("\n")[:-1]
    validations = [row for line in lines if (row := json.loads(line, parse_constant=refuse))["kind"] == "validation"]
    assert [row["nll"] for row in validations] == [None]


def test_a_validation_that_is_no_number_is_the_worst_there_is(tiny: TinyProject) -> None:
    blown_up = ("training.optimizer.lr=1e38", "training.schedule={kind: constant}", "training.max_steps=3")
    for best in ("loss", "bleu"):
        with pytest.raises(TrainingError, match="the model is useless"):
            train(tiny.config(*blown_up, f"training.best={best}"), overwrite=True)
        assert SavedModel.load(RunFolder(tiny.folder / "run").model).about["validation"]["nll"] is None


# --- memory and disk -------------------------------------------------------------------------------------------------


REMEDIES = (
    "set training.activation_checkpointing: true, "
    "or in a new run lower training.batch.max_tokens (now 200) and raise training.batch.accumulate to make up for it"
)


def losses(run: RunFolder) -> list[float]:
    return [row["loss"] for row in rows(run) if row["kind"] == "train"]


def full(*_: object, **__: object) -> None:
    torch.empty(2**50, dtype=torch.uint8)


@pytest.mark.parametrize("update", [1, 4])
def test_out_of_memory_goes_on_in_pieces(
    update: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passes = 1 if update == 1 else 1 + update  # The first is before the first update.
    settings = ("model.dropout=0.0",)
    undisturbed = losses(train(tiny.config(*settings)))
    at_call(monkeypatch, Transformer, "forward", passes, full)
    disturbed = losses(train(tiny.config(*settings), overwrite=True))
    said = [line for line in capsys.readouterr().err.split("\n") if "out of memory" in line]
    assert said == [
        f"out of memory at update {update}: from now on each batch is split into 2 micro-batches that add up to the "
        f"same gradient; to avoid this, {REMEDIES}"
    ]
    assert disturbed == pytest.approx(undisturbed, rel=1e-4)
    assert disturbed != undisturbed


def test_pieces_get_smaller_until_they_fit(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forward = Transformer.forward

    def limited(self: Transformer, source_BS: Tensor, *others: Any, **options: bool) -> Tensor:
        if self.training and source_BS.numel() > 60:
            full()
        return forward(self, source_BS, *others, **options)

    monkeypatch.setattr(Transformer, "forward", limited)
    train(tiny.config("training.max_steps=5"))
    said = capsys.readouterr().err.split("\n")
    pieces = [line.split(" micro-batches")[0].split()[-1] for line in said if "out of memory" in line]
    assert pieces == ["2", "4"]
    # What is told is what a piece takes.
    (rows_told,) = [int(told[1]) for line in said if (told := re.search(r"activations of (\d+) rows of", line))]
    assert rows_told < 20


def test_what_was_added_up_before_memory_ran_out_does_not_count_twice(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("model.dropout=0.0", "training.batch.max_tokens=60", "training.batch.accumulate=3")
    settings += ("training.max_steps=4", "training.optimizer={kind: adam, lr: 1e-3}", "training.clip_norm=null")
    undisturbed = newest_state(train(tiny.config(*settings)))[0]
    at_call(monkeypatch, Transformer, "forward", 1 + 3 + 3, full)  # the last of three batches of update 2
    disturbed = newest_state(train(tiny.config(*settings), overwrite=True))[0]
    moments = [name for name in undisturbed if name.endswith(("exp_avg", "exp_avg_sq"))]
    assert moments
    for name in moments:
        torch.testing.assert_close(disturbed[name], undisturbed[name], rtol=1e-3, atol=1e-7, msg=name)


def test_several_processes_out_of_memory_may_be_fewer(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(tiny.config())
    trainer.learner.processes = FirstOfTwo()
    at_call(monkeypatch, Transformer, "forward", 2, full)
    with pytest.raises(TrainingError, match=r"out of memory at update 1; .*, or train with fewer than 2 processes, "):
        trainer.train(NoMetrics(), NoBar())


@pytest.mark.parametrize("update", [1, 4])
def test_where_not_even_one_pair_fits_the_error_says_what_to_change(
    update: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, uninterrupted: Callable[..., RunFolder]
) -> None:
    forward, passes = Transformer.forward, []

    def limited(self: Transformer, *inputs: Any, **options: bool) -> Tensor:
        passes.append(1)
        if len(passes) >= (1 if update == 1 else 1 + update):
            full()
        return forward(self, *inputs, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Transformer, "forward", limited)
        with pytest.raises(TrainingError) as caught:
            train(tiny.config())
    saved = "" if update == 1 else ". The run is saved; continue with the same command and --resume"
    assert str(caught.value) == (
        f"out of memory at update {update}; {REMEDIES}; weights, gradients, optimizer and write buffers alone take "
        f"0 MiB, which a smaller model.d_model, model.ffn or vocabulary lowers{saved}"
    )
    run = RunFolder(tiny.folder / "run")
    assert run.has_states() == bool(saved)
    if saved:
        assert newest_state(run)[1]["step"] == update - 1
        assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_no_memory_even_to_save_the_run(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    at_call(monkeypatch, Trainer, "_update", 4, lambda: monkeypatch.setattr(Transformer, "forward", full))
    monkeypatch.setattr(States, "save_before_stopping", full)
    with pytest.raises(TrainingError, match=r"^out of memory at update 4; .* or vocabulary lowers$"):
        train(tiny.config())


def test_too_little_memory_for_the_model(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.runs.starting.fresh_model", lambda *_: full())
    with pytest.raises(TrainingError, match=r"^out of memory for the model's weights; lower model\.d_model"):
        train(tiny.config())


def test_weights_larger_than_memory_are_refused_before_they_are_drawn(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.runs.starting.free_memory", lambda _: 1.5 * 2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TrainingError) as caught:
        train(tiny.config("model.d_model=8192", "model.ffn=8192"))
    assert re.fullmatch(
        r"the model's weights take \d\.\d GiB, and 1\.5 GiB are free; "
        r"lower model\.d_model, model\.ffn or the vocabulary",
        str(caught.value),
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 2**10  # in KiB


def test_processes_share_the_memory_for_weights(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny.config()
    text = prepare_text(config, None)
    weights = unsharded_bytes(fresh_model(config, *text.codecs).parameters())
    monkeypatch.setattr("translate.runs.starting.free_memory", lambda _: 2.5 * weights)
    refuse_too_large(config, text, 2)
    with pytest.raises(TrainingError, match=r"^the model's weights of 3 processes take "):
        refuse_too_large(config, text, 3)


@pytest.mark.parametrize("method", ["forward", "start"])
def test_too_little_memory_for_a_validation_loses_nothing(
    method: str, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, uninterrupted: Callable[..., RunFolder]
) -> None:
    work = getattr(Transformer, method)

    def limited(self: Transformer, *inputs: Any, **options: bool) -> Any:
        if not self.training:
            full()
        return work(self, *inputs, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Transformer, method, limited)
        with pytest.raises(DataError, match=r"^out of memory with a single sentence; .*\. The run is saved; continue "):
            train(tiny.config())
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == 7
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_a_validation_may_have_the_memory_of_faster_updates(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, uninterrupted: Callable[..., RunFolder]
) -> None:
    freed: list[bool] = []
    work = Transformer.start

    def limited(self: Transformer, *inputs: Any, **options: bool) -> Any:
        if not freed:
            full()
        return work(self, *inputs, **options)

    monkeypatch.setattr(Transformer, "start", limited)
    monkeypatch.setattr(Update, "give_up_memory", lambda self: freed.append(True) or True)
    assert_same_run(train(tiny.config()), uninterrupted())
    assert freed == [True]


@pytest.mark.parametrize(
    ("work", "when"),
    [("learner.build_parallel", "before training"), ("states.unpack", "while the training state is loaded")],
)
def test_too_little_memory_to_begin(work: str, when: str, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    stop(sigterm, (Trainer, "_update", 5), tiny)
    monkeypatch.setattr(f"translate.training.{work}", lambda *_: full())
    with pytest.raises(TrainingError, match=rf"^out of memory {when}; set training\.activation_checkpointing: true"):
        train(tiny.config(), resume=True)


def test_another_error_stays_what_it_is(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise RuntimeError("shapes cannot be multiplied")

    at_call(monkeypatch, Transformer, "forward", 3, wrong)
    with pytest.raises(RuntimeError, match=r"^shapes cannot be multiplied$"):
        train(tiny.config())
