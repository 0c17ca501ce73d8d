"""train.py: a run by the command, how it is stopped and resumed, and what is refused before anything is computed."""

import errno
import os
import re
import shutil
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_project import Call, Outcome, Project, write_lines

from translate.commands import spawn, train
from translate.commands.train import main
from translate.config.loading import load_config
from translate.distributed.processes import Processes
from translate.errors import CheckpointError, ConfigError
from translate.model_file import SavedModel
from translate.runs.folder import RunFolder
from translate.runs.result import BestModel
from translate.system.paths import is_for_one_process
from translate.training.checkpoint import StateStore
from translate.training.trainer import Trainer

Run = Callable[..., Outcome]


@pytest.fixture
def run(call: Call, untrained: Project) -> Run:
    """The command with the config of the project that may be spoilt, and one epoch where it comes so far."""
    return lambda *arguments: call(main, "--config", untrained.config, "training.max_epochs=1", *arguments)


def best_model(project: Project) -> str:
    """What is said at the end."""
    return f"the best model is {project.model} (outside checkpoints/: name it with --checkpoint)\n"


def refused(said: Outcome, message: str) -> None:
    """Nothing but the message, after what was read without fault."""
    assert said.code == 2
    assert said.out == ""
    before, _, error = said.err.partition("error: ")
    assert error == f"{message}\n"
    assert "Traceback" not in before


# --- runs ------------------------------------------------------------------------------------------------------------


def test_what_is_said_goes_to_standard_error(run: Run, untrained: Project) -> None:
    said = run()
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith("train: 200 pairs, sha256 ")
    assert said.err.endswith(best_model(untrained))


def test_files_by_name(run: Run, untrained: Project) -> None:
    corpus = untrained.corpus
    for split in ("train", "val"):
        for language in ("es", "it"):
            (corpus / f"{split}.{language}").rename(corpus / f"{split}, by name.{language}.txt")
    files = [
        f"data.{key}={{source: '{corpus}/{split}, by name.es.txt', target: '{corpus}/{split}, by name.it.txt'}}"
        for key, split in (("train", "train"), ("valid", "val"))
    ]
    said = run(*files)
    assert said.code == 0
    assert said.err.startswith("train, by name.es.txt / train, by name.it.txt: 200 pairs, ")
    said = run(*files, "data.root=another", "--overwrite")
    assert said.code == 0
    assert said.err.startswith(f"training does not read data.root ({Path.cwd() / 'another'}), because data.train and ")
    said = run(files[0], f"data.root={corpus}", "--overwrite")  # Validation text is a split, which is missing.
    assert said.err.startswith("error: No split 'val'")


def test_files_without_validation_text_of_their_own(run: Run, untrained: Project) -> None:
    # Otherwise the corpus in data/ would be translated to choose the best model, without a word.
    config = re.sub(r"root: [^,}\n]*", "download: false", untrained.config.read_text(encoding="utf-8"))
    untrained.config.write_text(config, encoding="utf-8")
    for files in ("{source: a.es, target: a.it}", "[{source: '*.es', target: '*.it', weight: 2}]"):
        refused(
            run(f"data.train={files}"),
            "data.train names files, but data.valid is 'val' of the demo corpus, because no other data.root is given; "
            "name two files for it, too: data.valid={source: FILE, target: FILE}, or its folder: data.root=FOLDER",
        )


def test_a_package_that_is_missing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("translate.config.loading.load_config", without)
    refused(
        call(main, "--config", "x.yaml"),
        f"the package 'torch' is not installed for {sys.executable}; use the environment of the README, "
        ".venv/bin/python, or install it there",
    )


def test_a_signal_then_a_resume(run: Run, untrained: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        update = Trainer._update

        def interrupted(self: Trainer, *given: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            update(self, *given)

        patch.setattr(Trainer, "_update", interrupted)
        said, other, either = run(), run("--overwrite"), run("--resume-or-start")
    assert (said.code, said.out) == (130, "")
    assert said.err.endswith("stopped by SIGINT; the run is saved. Continue with the same command and --resume\n")
    assert other.err.endswith("Continue with the same command and --resume in place of --overwrite\n")
    assert either.err.endswith("Continue with the same command\n")
    assert not untrained.model.exists()
    said = run("--resume")
    assert said.code == 0
    assert "\nresuming after update 2 of " in said.err
    assert said.err.endswith(best_model(untrained))
    assert run("--resume").err.endswith(
        f"{untrained.model.parent} is finished: there is nothing to resume\n{best_model(untrained)}"
    )


def test_a_signal_while_the_end_is_written_comes_too_late(
    run: Run, untrained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = RunFolder.finish

    def interrupted(self: RunFolder, summary: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        finish(self, summary)

    monkeypatch.setattr(RunFolder, "finish", interrupted)
    said = run()
    assert (said.code, said.out) == (0, "")
    assert said.err.endswith(best_model(untrained))
    assert "stopped" not in said.err


def test_ctrl_c_before_there_is_anything_to_save(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("translate.data.corpora.ParallelCorpora.open_train", interrupted)
    assert run() == Outcome(130, "", "stopped\n")


# --- options and text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the following arguments are required: --config"),
        (("--config", "x", "--resume", "--overwrite"), "argument --overwrite: not allowed with argument --resume"),
        (("--config", "x", "--resmue"), "unrecognized arguments: --resmue; settings are given as section.key=value"),
        (
            ("--config", "x", "--max-epochs", "3"),
            "unrecognized arguments: --max-epochs; settings are given as section.key=value",
        ),
        (
            ("--config", "x", "--training.max_steps=3", "seed=2", "--x", "--data.root", "y.z"),
            "unrecognized arguments: --training.max_steps=3 --x --data.root y.z; settings have no dashes: "
            "training.max_steps=3 data.root=…",
        ),
    ],
)
def test_options_that_are_none(options: tuple[str, ...], message: str, call: Call) -> None:
    said = call(main, *options)
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(f"error: {message}\n")


def test_files_of_swapped_languages(run: Run, untrained: Project) -> None:
    source, target = untrained.corpus / "train.it", untrained.corpus / "train.es"
    refused(
        run(f"data.train={{source: {source}, target: {target}}}"),
        f"the source language is 'es', but the source is {source}, and its translation is {target}; swap the two "
        "files, or data.source and data.target",
    )


# --- the folder of the run -------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written(run: Run, untrained: Project) -> None:
    file = write_lines(untrained.folder / "file", [])
    refused(run(f"output={file}/run"), f"cannot write to {file}/run: Not a directory; choose another folder: output=…")


def test_a_folder_that_cannot_be_looked_at(run: Run, untrained: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at, stat = untrained.folder / "private/run", Path.stat

    def refuse(path: Path, **how: Any) -> os.stat_result:
        if path == looked_at:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", refuse)
    refused(run(f"output={looked_at}", "--resume"), f"The folder {looked_at} cannot be read: Permission denied.")


def test_a_used_folder(run: Run, untrained: Project) -> None:
    assert run().code == 0
    used = untrained.model.parent
    before = untrained.model.read_bytes()
    refused(
        run("seed=2"),
        f"{used} already holds a run; --resume continues it, --overwrite replaces it, output=… uses another folder",
    )
    refused(
        run("seed=2", "--resume"),
        "cannot resume: settings or text have changed since the run began:\n  seed: 1 → 2\n"
        "undo these changes, or start a new run with output=… (if model and tokens stay the same, with the weights "
        "of this one: training.start_from=…/model.safetensors)",
    )
    assert untrained.model.read_bytes() == before
    assert run("seed=2", "--overwrite").code == 0
    assert untrained.model.read_bytes() != before
    with (untrained.corpus / "val.es").open("a", encoding="utf-8") as source:
        source.write("el gato\n")
    with (untrained.corpus / "val.it").open("a", encoding="utf-8") as target:
        target.write("il gatto\n")
    refused(
        run("seed=2", "--resume"),
        "cannot resume: settings or text have changed since the run began:\n  the valid text has changed: "
        "source and target\n"
        "undo these changes, or start a new run with output=… (if model and tokens stay the same, with the weights "
        "of this one: training.start_from=…/model.safetensors)",
    )


def test_a_folder_in_which_another_training_is_at_work(run: Run, untrained: Project) -> None:
    folder = untrained.model.parent
    with RunFolder(folder).exclusive():
        for how in ((), ("--resume",), ("--overwrite",)):
            refused(
                run(*how),
                f"another training run is using {folder}; wait until it ends, or choose another folder: output=…",
            )
        assert run(f"output={untrained.folder}/elsewhere").code == 0
    assert run().code == 0


def test_no_number_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    refused(
        run(),
        "the environment sets WORLD_SIZE='two', which is not a number; start the processes with torchrun, or unset "
        "WORLD_SIZE",
    )


def test_a_launcher_of_one_process_changes_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(spawn, "START", "raise SystemExit(7)")
    said = run("processes=2")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith("error: another process of this run ended with exit code 7")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # How many processes there are is then for torchrun to say.
    assert run("processes=2").code == 0


def test_standard_input_is_read_once(call: Call, untrained: Project) -> None:
    link = Path(f"/dev/fd/{os.open(untrained.config, os.O_RDONLY)}")  # a regular file, as behind `< FILE`
    try:
        said = call(main, "--config", link, "processes=2", f"output={untrained.folder}/run")
    finally:
        os.close(int(link.name))
    refused(said, f"{link} is a pipe, but each process has to read it; save it as a file")


def test_files_in_memory_are_read_by_every_process() -> None:
    memory = Path("/dev/shm")  # on Linux
    with tempfile.NamedTemporaryFile(dir=memory if memory.is_dir() else None) as file:
        assert not is_for_one_process(Path(file.name))


def test_a_pipe_is_read_once(call: Call, untrained: Project) -> None:
    pipe = untrained.folder / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(pipe.write_bytes, untrained.config.read_bytes())
        said = call(main, "--config", pipe, "processes=2")
        written.result()
    refused(said, f"{pipe} is a pipe, but each process has to read it; save it as a file")


def test_nothing_to_resume(run: Run, untrained: Project) -> None:
    folder = untrained.folder / "run"
    refused(
        run("--resume"),
        f"there is no run to resume in {folder}; leave out --resume to start one or, if the run was moved, "
        "name its folder: output=FOLDER",
    )
    assert not folder.exists()


def test_a_model_without_states_is_no_missing_run(run: Run, untrained: Project) -> None:
    assert run("training.max_steps=1").code == 0
    shutil.rmtree(untrained.model.parent / "states")
    refused(
        run("--resume"),
        f"no usable training state in {untrained.model.parent}/states; start over with --overwrite, or elsewhere with "
        "output=…",
    )


def test_a_run_that_a_start_has_refused_is_none(run: Run, untrained: Project) -> None:
    (untrained.corpus / "val.it").rename(untrained.corpus / "x")
    folder = untrained.folder / "run"
    assert not folder.exists()
    assert run().code == 2
    assert not folder.exists()
    assert "there is no run to resume in" in run("--resume").err
    folder.mkdir()
    assert run().code == 2
    assert folder.exists()  # Whoever made it wants it.
    assert "there is no run to resume in" in run("--resume").err


def test_a_run_cut_off_before_its_first_state_begins_anew(
    run: Run, untrained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = untrained.folder / "run"

    def full(*_: Any) -> None:
        raise CheckpointError("cannot write it: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(StateStore, "_write", full)
        assert "the disk is full" in run("training.max_steps=2").err
    assert (folder / "model.safetensors").exists()
    kept = f"{folder} already holds a run; --overwrite replaces it, output=… uses another folder"
    refused(run("training.max_steps=2"), kept)
    refused(run("--resume-or-start", "training.max_steps=3"), kept)  # Perhaps somebody else's model.
    assert run("--resume-or-start", "training.max_steps=2").code == 0


def test_processes_need_the_same_options(untrained: Project) -> None:
    """Otherwise each would ask the others for something else, and wait for them."""
    given: set[float] = set()

    class Disagreeing(Processes):
        def agree_on(self, number: float) -> bool:
            given.add(number)
            return False

    for options in ([], ["--resume"], ["--resume-or-start"], ["--overwrite"]):
        args = train.parse(["--config", str(untrained.config), *options])
        with pytest.raises(ConfigError, match=r"different options; give all of them --resume, .*or none"):
            train.train_as(args, load_config(untrained.config), Disagreeing())
    assert len(given) == 4
    assert not untrained.model.parent.exists()


def test_a_finished_run_without_states_stays(run: Run, untrained: Project) -> None:
    """Job queues start again what is finished, and finished.json says that it is."""
    folder, model = untrained.model.parent, untrained.model
    assert run("training.max_steps=2").code == 0
    shutil.rmtree(folder / "states")
    result = model.read_bytes()
    for how in ("--resume", "--resume-or-start"):
        said = run(how, "training.max_steps=2")
        assert said.code == 0
        assert said.err == f"{folder} is finished: there is nothing to resume\n{best_model(untrained)}"
    kept = f"{folder} already holds a run; --overwrite replaces it, output=… uses another folder"
    refused(run("--resume-or-start", "training.max_steps=3"), kept)
    (folder / "finished.json").unlink()
    assert "no usable training state" in run("--resume", "training.max_steps=2").err
    (folder / "finished.json").write_text("{}")
    assert model.read_bytes() == result
    model.write_bytes(result[:-1])
    assert "no usable training state" in run("--resume", "training.max_steps=2").err
    refused(run("--resume-or-start", "training.max_steps=2"), kept)


@pytest.mark.parametrize("how", [(), ("--overwrite",), ("--resume-or-start",)])
def test_somebodys_own_config_is_not_replaced(how: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own" / "config.yaml"
    own.parent.mkdir()
    own.write_text("# my notes\n")
    said = run(f"output={own.parent}", "training.max_steps=1", *how)
    refused(said, would_be_replaced(own))
    assert own.read_text() == "# my notes\n"


def test_nor_is_anything_else_of_somebody(run: Run, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("precious\n")
    refused(run(f"output={tmp_path}", "training.max_steps=1"), would_be_replaced(tmp_path / "metrics.jsonl"))
    assert (tmp_path / "metrics.jsonl").read_text() == "precious\n"


def would_be_replaced(file: Path) -> str:
    return f"{file} would be overwritten or removed by the run; move it, or use another folder: output=…"


@pytest.mark.parametrize("origin", ["somebody's own", "copied from a run"])
def test_a_config_cannot_be_replaced_by_its_own_run(
    origin: str, call: Call, untrained: Project, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "exp" / "config.yaml"
    own.parent.mkdir()
    given = untrained.config if origin == "somebody's own" else project.model.parent / "config.yaml"
    settings = re.sub(r"(?m)^output: .*$", "", given.read_text(encoding="utf-8"))
    asked = (main, "training.max_steps=1", f"data.root={load_config(given).data.root}", "--config")
    own.write_text(f"{settings}\noutput: {own.parent}\n")
    before = own.read_bytes()
    for path in (own, "exp/config.yaml"):
        refused(call(*asked, path), would_be_replaced(own))
        assert own.read_bytes() == before
    own.write_text(f"{settings}\noutput: {own.parent}/run\n")
    assert call(*asked, own).code == 0


def test_what_is_left_of_a_finished_run_is_not_replaced(run: Run, untrained: Project) -> None:
    folder = untrained.folder / "run"
    assert run("training.max_steps=1").code == 0
    (folder / "model.safetensors").rename(untrained.folder / "archived.safetensors")
    shutil.rmtree(folder / "states")
    before = (folder / "metrics.jsonl").read_bytes()
    kept = f"{folder} already holds a run; --overwrite replaces it, output=… uses another folder"
    refused(run("training.max_steps=1", "seed=9"), kept)
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert run("training.max_steps=1", "seed=9", "--overwrite").code == 0


def test_closed_streams_are_open_before_anything_else_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []

    @contextmanager
    def spy() -> Iterator[None]:
        found.append(sys.stderr is not None)
        yield

    monkeypatch.setattr(train, "second_signal_ends", spy)
    monkeypatch.setattr(sys, "stderr", None)
    assert run("training.max_steps=x").code == 2
    assert found == [True]


def test_a_run_is_resumed_where_there_is_something_and_else_begun(run: Run, untrained: Project) -> None:
    states = untrained.folder / "run" / "states"
    states.mkdir(parents=True)  # as a process leaves it that was killed before its first state
    assert "resuming after" not in run("--resume-or-start", "training.max_steps=2").err
    [newest, *_] = sorted(path.name for path in states.iterdir())
    said = run("--resume-or-start", "training.max_steps=3")
    assert (said.code, "resuming after update 2 of 3" in said.err) == (0, True)
    assert newest == "step-00000002.safetensors"


def test_a_search_that_was_changed_when_resuming_is_that_of_the_model(
    run: Run, untrained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("training.max_steps=1").code == 0
    model = SavedModel.load(str(untrained.model))
    monkeypatch.setattr(BestModel, "__call__", lambda *_: None)  # as if none were better
    assert run("--resume", "training.max_steps=2", "decoding.beam_size=4").code == 0
    found = SavedModel.load(untrained.model)
    assert (model.config.decoding.beam_size, found.config.decoding.beam_size) == (3, 4)
    assert all(torch.equal(found.weights[name], weight) for name, weight in model.weights.items())


def which_is_meant(copy: Path, original: Path) -> str:
    return (
        f"{copy}/config.yaml is in one run's folder, but its output is another, {original}; choose one: "
        f"output={copy} or output={original}"
    )


@pytest.mark.parametrize("how", ["--resume", "--resume-or-start", "--overwrite"])
def test_a_copy_of_a_run_leaves_the_original_alone(how: str, call: Call, project: Project, tmp_path: Path) -> None:
    original, copy = project.model.parent, tmp_path / "copy"
    shutil.copytree(original, copy)
    before = {path: path.stat().st_mtime_ns for path in original.rglob("*")}
    refused(
        call(main, "--config", copy / "config.yaml", how),
        which_is_meant(copy, original),
    )
    said = call(main, "--config", copy / "config.yaml", how, f"output={copy}", "training.max_steps=1")
    assert said.code == (0 if how == "--overwrite" else 2)  # The run was to end later: refused, but as this run.
    assert str(original) not in said.err
    assert {path: path.stat().st_mtime_ns for path in original.rglob("*")} == before


@pytest.mark.parametrize("override", ["output={}", "output = {}"])
def test_the_config_in_a_copy_serves_the_original_where_that_is_named(
    override: str, call: Call, project: Project, tmp_path: Path
) -> None:
    original, copy = project.model.parent, tmp_path / "copy"
    shutil.copytree(original, copy)
    said = call(main, "--config", copy / "config.yaml", "--resume", override.format(original))
    assert said.code == 0
    assert f"{original} is finished: there is nothing to resume" in said.err


@pytest.mark.parametrize("kept", ["states", "model.safetensors", "metrics.jsonl"])
def test_part_of_a_copy_is_a_copy(kept: str, call: Call, project: Project, tmp_path: Path) -> None:
    original, copy = project.model.parent, tmp_path / "copy"
    copy.mkdir()
    for name in ("config.yaml", kept):
        (shutil.copytree if (original / name).is_dir() else shutil.copy)(original / name, copy / name)
    refused(call(main, "--config", copy / "config.yaml", "--resume"), which_is_meant(copy, original))


def test_another_config_in_the_folder_of_a_run_is_no_copy(call: Call, project: Project, tmp_path: Path) -> None:
    original, copy = project.model.parent, tmp_path / "copy"
    shutil.copytree(original, copy)
    shutil.copy(copy / "config.yaml", copy / "mine.yaml")
    said = call(main, "--config", copy / "mine.yaml", "--resume")
    assert said.code == 0
    assert f"{original} is finished: there is nothing to resume" in said.err


def test_labelled_text_is_always_in_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_lines(tmp_path / "x.yaml", ["data: {kind: labelled}", "model: {kind: classifier}"])
    overrides = [f"data.root={tmp_path}"]
    train.warn_of_idle_folder(Namespace(overrides=overrides), load_config(path, overrides))
    assert caplog.messages == []


def test_no_cuda(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = "device: cuda requested, but PyTorch finds no CUDA device; use device: auto or device: cpu"
    refused(run("device=cuda"), message)
