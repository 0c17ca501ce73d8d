"""Which settings may change when a run is resumed."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from translate.config.keys import all_sections
from translate.config.loading import config_to_dict
from translate.config.schema import Config
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.errors import CheckpointError
from translate.runs import resuming
from translate.runs.folder import RunFolder
from translate.training.checkpoint import SavedState
from translate.training.progress import Progress


def test_all_other_settings_are_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those that are written out here, whatever the schema may get."""
    keys = {f"{path}.{name}".lstrip(".") for path, section in all_sections() for name in section.model_fields}

    def free_in(training: dict[str, Any]) -> set[str]:
        identity = {"config": {"training": training}, "train": [], "valid": [], "codecs": []}
        free = set()
        for key in (key for key in keys if not key.startswith(("data.train", "data.valid"))):  # compared by their text
            monkeypatch.setattr(resuming, "differences", lambda *_, key=key: {key: f"{key}: 1 → 2"})
            with suppress(CheckpointError):
                resuming.refuse_changes(identity, identity)
                free.add(key)
        return free

    places = {"output", "data.root", "data.cache", "data.download", "training.start_from"}
    work = {"device", "processes", "threads", "training.parallel", "training.activation_checkpointing"}
    shown = {"training.samples", "training.checkpoint_every", "training.keep_last", "training.log_every"}
    sampling = ("temperature", "top_k", "seed")
    search = {f"decoding.{key}" for key in ("search", "beam_size", "length_penalty", "batch_tokens", *sampling)}
    length = {f"training.{key}" for key in ("max_epochs", "max_steps", "patience")}
    always = places | work | shown | search
    assert free_in({}) == free_in({"schedule": {"kind": "constant"}}) == always | length
    for kind in ("cosine", "linear"):
        assert free_in({"schedule": {"kind": kind}}) == always | {"training.patience"}
    assert free_in({"average_last": 2}) == always


def test_whether_a_run_started_from_a_model_may_not_change_but_the_model_may_be_moved() -> None:
    def identity(start: str | None) -> dict[str, Any]:
        config = config_to_dict(Config())
        config["training"]["start_from"] = start
        return {"config": config, "train": [], "valid": [], "codecs": []}

    resuming.refuse_changes(identity("/one/model.safetensors"), identity("/two/model.safetensors"))
    for before, now, shown in ((None, "/one", "null → '/one'"), ("/one", None, "'/one' → null")):
        with pytest.raises(CheckpointError, match=f"since the run began:\n  training.start_from: {shown}"):
            resuming.refuse_changes(identity(before), identity(now))


def test_a_state_that_names_no_vocabularies_is_resumed() -> None:
    now = {"config": config_to_dict(Config()), "train": [], "valid": [], "codecs": ["1", "2"]}
    resuming.refuse_changes({key: value for key, value in now.items() if key != "codecs"}, now)


def test_a_state_of_another_version_is_told_to_be_one() -> None:
    config = config_to_dict(Config())
    same = {"train": [], "valid": [], "codecs": []}
    before = {**same, "config": {**config, "training": {**config["training"], "gone": 1}}}
    with pytest.raises(CheckpointError) as caught:
        resuming.refuse_changes(before, {**same, "config": config})
    assert str(caught.value).startswith(
        "the run was started by another version of this project: 1 problem in the stored config:\n"
        "  stored config: training.gone: unknown key"
    )


@pytest.mark.parametrize("progress", [{**Progress().to_dict(), "gone": 1}, {}])
def test_progress_of_another_version_is_told_to_be_such(progress: dict[str, Any], tmp_path: Path) -> None:
    config = Config()
    identity = {"config": config_to_dict(config), "train": [], "valid": [], "codecs": []}
    saved = SavedState({}, progress, identity)
    with pytest.raises(CheckpointError, match=r"the run was started by another version of this project: .*\n.*output="):
        resuming.progress_to_resume(RunFolder(tmp_path), saved, identity, config.training, 10, SINGLE_PROCESS)


def test_processes_that_find_different_states_are_told_so_before_one_takes_the_run_for_finished(tmp_path: Path) -> None:
    class Two(Processes):
        """The first process, which has found the state of a run that is over; the other has found an earlier one."""

        def gather(self, *numbers: float) -> NDArray[np.float64]:
            return np.array([numbers, [number - 7 for number in numbers]])

    config, run = Config(), RunFolder(tmp_path)
    identity = {"config": config_to_dict(config), "train": [], "valid": [], "codecs": []}
    saved = SavedState({}, Progress(step=100).to_dict(), identity)
    run.finish({"updates": 100})
    assert resuming.progress_to_resume(run, saved, identity, config.training, 10, SINGLE_PROCESS) is None
    with pytest.raises(
        CheckpointError, match="the processes find different training states; they must share one output"
    ):
        resuming.progress_to_resume(run, saved, identity, config.training, 10, Two())
