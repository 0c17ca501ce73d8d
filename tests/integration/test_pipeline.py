"""What a run computes, says and leaves behind."""

import errno
import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from saved_models import save_model
from tiny_runs import TinyProject, assert_same_tensors, at_call, calls_of, newest_state, rows, sentences, trainer_of
from torch import Tensor

from translate import pipeline
from translate.config.data import ParallelDataConfig
from translate.config.loading import config_to_dict, load_config
from translate.config.schema import Config
from translate.data.dataset import Dataset
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.errors import CheckpointError, ConfigError
from translate.evaluation.validation import Validator
from translate.model.attention import MultiHeadAttention
from translate.model_file import SavedModel
from translate.optimization.update import Update
from translate.pipeline import train
from translate.runs import resuming
from translate.runs.folder import RunFolder
from translate.system.storage import read_tensors
from translate.training import trainer as trainer_module
from translate.training.model_selection import Validation
from translate.training.trainer import Trainer

# --- what a run leaves behind ----------------------------------------------------------------------------------------


def test_a_run_leaves_its_model_its_settings_its_log_and_its_states(tiny: TinyProject) -> None:
    config = tiny.config()
    run = train(config)
    assert run.path == tiny.folder / "run"
    assert sorted(path.relative_to(run.path).as_posix() for path in run.path.rglob("*")) == [
        ".lock",
        "config.yaml",
        "finished.json",
        "metrics.jsonl",
        "model.safetensors",
        "states",
        "states/step-00000014.safetensors",
        "states/step-00000021.safetensors",
    ]
    assert load_config(run.config) == config
    assert SavedModel.load(run.model).config == config


def test_from_python_too_no_other_training_may_use_the_folder(tiny: TinyProject) -> None:
    config = tiny.config()
    message = "^another training run is using .*; wait until it ends, or choose another folder: output=…$"
    with RunFolder.of(config).exclusive(), pytest.raises(CheckpointError, match=message):
        train(config)


def test_training_in_a_thread_of_a_program(tiny: TinyProject) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train, tiny.config("training.max_steps=1")).result().model.is_file()


def test_attention_on_a_gpu_does_without_cudnn(tiny: TinyProject) -> None:
    """It would build a plan for the shape of each batch."""
    usual = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        pipeline.prepare_device(tiny.config(), SINGLE_PROCESS)
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(usual)


@pytest.mark.parametrize("settings", [{"precision": "float32", "r_drop": 1.0}, {"precision": "bfloat16"}])
def test_a_callers_autocast_changes_no_training(settings: dict[str, Any], tiny: TinyProject) -> None:
    config = tiny.config("training.max_steps=6", *(f"training.{key}={value}" for key, value in settings.items()))
    weights = SavedModel.load(train(config).model).weights
    with torch.autocast("cpu", torch.bfloat16):
        assert_same_tensors(SavedModel.load(train(config, overwrite=True).model).weights, weights)


@contextmanager
def float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "setting", [torch.no_grad, torch.inference_mode, float64_by_default, partial(torch.device, "meta")]
)
def test_what_a_caller_has_set_in_pytorch_changes_no_training(
    setting: Callable[[], AbstractContextManager[Any]], tiny: TinyProject
) -> None:
    """As in a notebook; an error would come after the model that is overwritten is gone."""
    config = tiny.config("training.max_steps=2")
    weights = SavedModel.load(train(config).model).weights
    with setting():
        train(config, overwrite=True)
    assert_same_tensors(SavedModel.load(RunFolder.of(config).model).weights, weights)


def test_a_run_cannot_go_on_and_start_over(tiny: TinyProject) -> None:
    with pytest.raises(ValueError, match="choose one of them"):
        train(tiny.config(), resume=True, overwrite=True)


def test_from_python_a_run_may_go_on(tiny: TinyProject) -> None:
    run = train(tiny.config("training.max_steps=2"))
    with pytest.raises(CheckpointError, match="already holds a run"):
        train(tiny.config("training.max_steps=4"))
    train(tiny.config("training.max_steps=4"), resume=True)
    assert json.loads(run.finished.read_bytes())["resumed_after"] == 2


@pytest.mark.usefixtures("two_threads")
def test_from_python_one_process_trains_and_has_as_many_threads_afterwards_as_before(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    train(tiny.config("training.max_steps=1", "processes=2", "threads=1"))
    assert caplog.messages[0] == "processes: 2 is for scripts/train.py; from Python, one process trains"
    assert torch.get_num_threads() == 2


def test_a_config_without_defaults_for_its_paths_is_not_trained(tmp_path: Path) -> None:
    for missing in ({"output": None}, {"data": ParallelDataConfig()}):
        with pytest.raises(ConfigError, match=r"^output or data\.cache is not set, and only load_config has defaults"):
            train(Config(output=tmp_path / "run", data=ParallelDataConfig(cache=tmp_path)).model_copy(update=missing))
    assert not (tmp_path / "run").exists()


def test_the_log_has_every_update_once_and_every_validation(tiny: TinyProject) -> None:
    run = train(tiny.config())
    log = rows(run)
    assert [row["step"] for row in log if row["kind"] == "train"] == [4, 7, 8, 12, 14, 16, 20, 21]
    assert [(row["step"], row["epoch"]) for row in log if row["kind"] == "validation"] == [(7, 1), (14, 2), (21, 3)]
    last = [row for row in log if row["kind"] == "train"][-1]
    assert last["target_tokens"] == 3 * sum(len(line.split()) + 1 for line in sentences(240, seed=1)[1])


def test_the_end_of_a_run_says_what_came_out(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="translate")
    began = time.perf_counter()
    run = train(tiny.config("training.best=loss"))
    finished = json.loads(run.finished.read_text(encoding="utf-8"))
    assert finished["seconds"] <= time.perf_counter() - began + 0.1
    validations = [row for row in rows(run) if row["kind"] == "validation"]
    best = min(validations, key=lambda row: row["nll"])
    assert finished["updates"] == 21
    assert finished["best_update"] == best["step"]
    assert finished["best_loss"] == best["nll"]
    lines = run.metrics.read_text(encoding="utf-8").splitlines()
    clock = [row for line in lines if (row := json.loads(line))["kind"] == "train"][-1]["timing"]["seconds"]
    assert finished["update_seconds"] == pytest.approx(clock, abs=0.051)
    assert 0 <= finished["text_seconds"] <= finished["seconds"] - finished["update_seconds"] + 0.2
    assert f"finished in {finished['seconds']} s: {finished['text_seconds']} s for preparing the text, " in caplog.text
    about = SavedModel.load(run.model).about
    assert about["validation"]["nll"] == best["nll"]
    assert {name: about[name] for name in ("device", "dtype")} == {"device": "cpu", "dtype": "float32"}
    assert "sha256" in about["train"]


def test_the_end_of_a_run_says_where_the_time_went(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    validate = Validator.__call__

    def slowly(self: Validator, *arguments: Any) -> Validation:
        time.sleep(0.2)
        return validate(self, *arguments)

    monkeypatch.setattr(Validator, "__call__", slowly)
    at_call(monkeypatch, trainer_module, "rehearse", 1, lambda: time.sleep(0.3))
    run = train(tiny.config())
    finished = json.loads(run.finished.read_bytes())
    assert finished["validation_seconds"] >= 0.6
    assert finished["rehearsal_seconds"] >= 0.3
    parts = ("text", "rehearsal", "update", "validation")
    assert sum(finished[f"{part}_seconds"] for part in parts) <= finished["seconds"] + 0.3


def test_subnormals_are_zero_in_updates_and_not_afterwards(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    subnormal, seen = torch.tensor(1e-40), []
    at_call(monkeypatch, Trainer, "_update", 1, lambda: seen.append(float(subnormal * 0.5)))
    train(tiny.config("training.max_steps=1"))
    assert seen == [0.0]
    assert float(subnormal * 0.5) > 0.0


def test_the_best_model_may_be_the_one_with_most_tokens_right(tiny: TinyProject) -> None:
    run = train(tiny.config("training.best=accuracy"))
    best = max(row["accuracy"] for row in rows(run) if row["kind"] == "validation")
    assert json.loads(run.finished.read_text(encoding="utf-8"))["best_accuracy"] == best
    assert SavedModel.load(run.model).about["validation"]["accuracy"] == best


def test_the_same_run_twice_is_the_same(tiny: TinyProject) -> None:
    one, two = train(tiny.config(f"output={tiny.folder}/one")), train(tiny.config(f"output={tiny.folder}/two"))
    assert rows(one) == rows(two)
    assert_same_tensors(newest_state(one)[0], newest_state(two)[0])


def test_another_seed_is_another_run(tiny: TinyProject) -> None:
    one, two = (
        train(tiny.config(f"output={tiny.folder}/one")),
        train(tiny.config(f"output={tiny.folder}/two", "seed=2")),
    )
    assert rows(one) != rows(two)


@pytest.mark.parametrize(("every", "validations"), [("null", [7, 10]), ("4", [4, 8, 10])])
def test_a_run_ends_in_the_middle_of_an_epoch_at_max_steps(
    every: str, validations: list[int], tiny: TinyProject
) -> None:
    run = train(tiny.config("training.max_steps=10", f"training.validate_every={every}"))
    assert newest_state(run)[1]["step"] == 10
    assert [row["step"] for row in rows(run) if row["kind"] == "validation"] == validations


def test_the_rate_follows_the_schedule_over_the_whole_run(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = calls_of(monkeypatch, Update, "step", lambda _, rate: rate)
    run = train(tiny.config("training.schedule={kind: linear, warmup_steps: 0}", "training.log_every=1"))
    assert rates == pytest.approx([0.005 * (1 - number / 21) for number in range(1, 22)])
    assert [row["learning_rate"] for row in rows(run) if row["kind"] == "train"] == rates


def test_the_log_has_the_gradient_norm_before_clipping(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    def norm(update: Update) -> float:
        return float(torch.cat([weight.grad.flatten() for weight in update.parallel.model.parameters()]).norm())

    norms = calls_of(monkeypatch, Update, "clip", norm)
    run = train(tiny.config("training.clip_norm=0.01", "training.log_every=2", "training.max_steps=4"))
    assert [row["gradient_norm"] for row in rows(run) if row["kind"] == "train"] == pytest.approx([norms[1], norms[3]])
    assert min(norms) > 0.01


@pytest.mark.parametrize("limit", ["max_epochs", "max_steps"])
def test_a_limit_may_be_out_of_reach(limit: str, tiny: TinyProject) -> None:
    """Whoever wants patience alone to end a run may give any number."""
    limits = ("training.max_epochs=null", f"training.{limit}={10**20}")  # more than 64 bits hold
    patience = ("training.patience=1", "training.validate_every=1", "training.optimizer.lr=1e-15")
    assert newest_state(train(tiny.config(*limits, *patience)))[1]["step"] == 2


def test_each_epoch_reads_its_own_pairs(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Dataset, "epoch", lambda self, number: asked.append(number) or self)
    train(tiny.config())
    assert asked[-21:] == [*[0] * 7, *[1] * 7, *[2] * 7]


def test_each_epoch_has_all_pairs_once_and_batches_of_its_own(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = calls_of(monkeypatch, Trainer, "_update", lambda _, batches, *__: batches)
    train(tiny.config())
    taken = [sorted(batch.tolist()) for batches in updates for batch in batches]
    epochs = [taken[start : start + 7] for start in (0, 7, 14)]
    assert [sorted(itertools.chain.from_iterable(epoch)) for epoch in epochs] == [list(range(240))] * 3
    assert not any(sorted(one) == sorted(other) for one, other in itertools.combinations(epochs, 2))


def test_validation_is_without_dropout_and_training_with_it(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[bool] = []
    calls_of(monkeypatch, Validator, "__call__", lambda _, model, *__: modes.append(model.training))
    calls_of(monkeypatch, Update, "accumulate", lambda update, *_, **__: modes.append(update.parallel.model.training))
    train(tiny.config("training.max_steps=2", "training.validate_every=1"))
    assert modes[-4:] == [True, False, True, False]


@pytest.mark.parametrize(("r_drop", "rows_at_once"), [(0.0, 200), (1.0, 400)])
def test_the_arithmetic_is_measured_for_the_rows_of_a_pass(
    r_drop: float, rows_at_once: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pipeline, "resolve_precision", lambda *_, rows, width: asked.append(rows) or torch.float32)
    train(tiny.config(f"training.r_drop={r_drop}", "training.max_steps=1"))
    assert asked == [rows_at_once]


def test_all_processes_compute_in_what_the_first_has_measured(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Second(Processes):
        def on_first(self, work: Callable[[], Any]) -> Any:
            found = work()
            return torch.bfloat16 if isinstance(found, torch.dtype) else found

    monkeypatch.setattr("translate.system.precision._speed_up_of_bfloat16", lambda rows, width: 0.5)
    trainer = trainer_of(tiny.config("training.precision=auto"), Second())
    assert trainer.learner.update.dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("plain", "precision", "heaps"),
    [("[]", "float32", [True]), ("[]", "bfloat16", [False]), ("[memory]", "float32", [])],
)
def test_memory_is_kept_unless_the_settings_forbid_it_and_in_float32_in_one_heap(
    plain: str, precision: str, heaps: list[bool], tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    monkeypatch.setattr(pipeline, "keep_memory", lambda *, one_heap: kept.append(one_heap))
    train(tiny.config("training.max_steps=1", f"training.plain={plain}", f"training.precision={precision}"))
    assert kept == heaps


def test_free_memory_is_returned_every_now_and_then(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[None] = []
    monkeypatch.setattr("translate.training.trainer.RELEASE_EVERY", 3)
    monkeypatch.setattr("translate.training.trainer.release_memory", lambda: returned.append(None))
    train(tiny.config("training.max_epochs=1"))
    assert len(returned) == 2


@pytest.mark.parametrize(("plain", "explicit"), [("[]", {True}), ("[attention]", {False})])
def test_training_uses_the_model_without_what_the_settings_switch_off(
    plain: str, explicit: set[bool], tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attentions(update: Update, *_: Any, **__: Any) -> list[bool]:
        return [module.explicit for module in update.parallel.model.modules() if isinstance(module, MultiHeadAttention)]

    found = calls_of(monkeypatch, Update, "accumulate", attentions)
    train(tiny.config("training.max_steps=1", f"training.plain={plain}"))
    assert set(itertools.chain.from_iterable(found)) == explicit


def test_the_arithmetic_of_a_run_is_said(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    train(tiny.config("training.max_steps=1", "training.precision=bfloat16"))
    assert "; training on cpu, 1 CPU thread(s), in bfloat16\n" in caplog.text


def test_a_warm_up_without_an_end_is_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    for steps, warned in (5, False), (4, True):
        train(tiny.config(f"training.max_steps={steps}"), overwrite=True)
        warning = f"training.schedule.warmup_steps is 5, above the number of updates, which is {steps}: lower "
        assert (warning in caplog.text) == warned


@pytest.mark.parametrize(
    ("settings", "validations", "remedy"),
    [
        (("training.max_steps=5", "training.validate_every=2"), 3, ", or set training.validate_every to 1 or less"),
        (("training.max_steps=5",), 1, ", or set training.validate_every to 2 or less"),
        (("training.max_steps=2",), 1, ", or set training.validate_every to 1 or less"),
        (("training.max_epochs=2",), 2, ", or set training.validate_every to 4 or less"),
        (("training.max_steps=2", "training.validate_every=1"), 2, ""),
    ],
)
def test_a_mean_of_more_validations_than_there_are_is_warned_of(
    settings: tuple[str, ...], validations: int, remedy: str, tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    for last in (max(2, validations), validations + 1):
        caplog.clear()
        train(tiny.config(*settings, f"training.average_last={last}"), overwrite=True)
        warning = f"training.average_last is {last}, but the number of validations is {validations}: lower it{remedy}\n"
        assert (warning in caplog.text) == (last > validations)


def test_settings_that_do_nothing_are_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    train(tiny.config("training.max_epochs=1", "training.max_steps=50", "training.r_drop=1", "model.dropout=0"))
    assert "training.max_epochs (1) ends this run after 7 updates, before training.max_steps (50); " in caplog.text
    assert "training.r_drop compares two passes with different dropout, but the model has none" in caplog.text
    caplog.clear()
    further = ("training.max_epochs=1", "training.max_steps=7", "training.r_drop=1")
    for kind in ("dropout", "attention_dropout", "ffn_dropout"):
        train(tiny.config(*further, "model.dropout=0", f"model.{kind}=0.1"), overwrite=True)
    assert "training.max_steps" not in caplog.text
    assert "training.r_drop" not in caplog.text


@pytest.mark.parametrize(
    ("kind", "steps", "warned"), [("cosine", 1, True), ("cosine", 2, False), ("constant", 1, False)]
)
def test_a_run_that_learns_nothing_is_warned_of(
    kind: str, steps: int, warned: bool, tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = f"training.schedule={{kind: {kind}, warmup_steps: 0}}"
    train(tiny.config(f"training.max_steps={steps}", schedule))
    assert ("the learning rate falls to 0 at the first update: this run learns nothing; " in caplog.text) == warned


# --- a folder that cannot be written ---------------------------------------------------------------------------------


UNWRITABLE = r"cannot write .*run.*; choose another folder: output=…"


@pytest.mark.parametrize("obstacle", ["run", "run/states"])
def test_a_file_where_a_folder_should_be(obstacle: str, tiny: TinyProject) -> None:
    file = tiny.folder / obstacle
    file.parent.mkdir(exist_ok=True)
    file.write_text("in the way", encoding="utf-8")
    with pytest.raises(CheckpointError, match=UNWRITABLE):
        train(tiny.config())


@pytest.mark.parametrize("obstacle", ["config.yaml", "metrics.jsonl", "finished.json"])
def test_a_folder_where_a_file_should_be(obstacle: str, tiny: TinyProject) -> None:
    (tiny.folder / "run" / obstacle).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=UNWRITABLE):
        train(tiny.config("training.max_epochs=1"))


@pytest.mark.parametrize(("name", "write"), [("config.yaml", "begin"), ("finished.json", "finish")])
def test_a_full_disk(name: str, write: str, tiny: TinyProject) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, RunFolder, write, 1, lambda: patch.setattr("translate.system.files.os.fsync", full))
        with pytest.raises(CheckpointError, match=r"cannot write to .*run: No space left on device"):
            train(tiny.config())
    assert not (tiny.folder / "run" / name).exists()


# --- the best model, and the mean of the last ones --------------------------------------------------------------------


def weights_after(run: RunFolder, step: int) -> dict[str, Tensor]:
    state = read_tensors(run.states / f"step-{step:08d}.safetensors")[0]
    return {name.removeprefix("model."): tensor for name, tensor in state.items() if name.startswith("model.")}


def test_a_model_file_holds_the_weights_of_its_step(tiny: TinyProject) -> None:
    run = train(tiny.config("training.best=loss", "training.keep_last=9"))
    step = SavedModel.load(run.model).about["validation"]["step"]
    assert_same_tensors(read_tensors(run.model)[0], weights_after(run, step))


def test_where_patience_ends_a_run_the_mean_is_measured_too(
    tiny: TinyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(tiny.config("training.optimizer.lr=1e-15", "training.patience=2", "training.average_last=2"))
    assert [row["kind"] for row in rows(run)][-1] == "validation of the mean"
    assert newest_state(run)[1]["step"] == 21
    said = capsys.readouterr().err
    assert "average of the weights at the last 2 validations:" in said
    assert "training.average_last" not in said


class Recorder(Processes):
    """Keeps the numbers that the processes are to agree on."""

    def __init__(self) -> None:
        self.numbers: list[float] = []

    def agree_on(self, number: float) -> bool:
        self.numbers.append(number)
        return True


def test_processes_may_be_given_other_places_and_nothing_else(tiny: TinyProject) -> None:
    processes = Recorder()
    places = (f"output={tiny.folder}/other", f"data.cache={tiny.folder}/cache", "data.root=elsewhere", "threads=3")
    for overrides in ((), places, ("data.filter.max_tokens=9",), ("training.checkpoint_every=5",)):
        identity = {"config": config_to_dict(tiny.config(*overrides)), "train": ["1"]}
        resuming.refuse_different(identity, None, processes)
    resuming.refuse_different({"config": config_to_dict(tiny.config()), "train": ["2"]}, None, processes)
    assert processes.numbers[0] == processes.numbers[1]
    assert len(set(processes.numbers)) == 4


def test_processes_start_from_one_model_all_or_none(tiny: TinyProject) -> None:
    """Which is validated before training; it may lie elsewhere for each of them."""
    processes = Recorder()
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        model = save_model(tiny.folder / f"{name}.safetensors", seed)
        config = tiny.config(f"training.start_from={model}")
        resuming.refuse_different({"config": config_to_dict(config)}, SavedModel.load(model), processes)
    resuming.refuse_different({"config": config_to_dict(tiny.config())}, None, processes)
    assert processes.numbers[0] == processes.numbers[1]
    assert len(set(processes.numbers)) == 3
