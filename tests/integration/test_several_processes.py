"""Several processes that train one model: the same gradients, the same weights, the same log as one process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import (
    FirstOfTwo,
    TinyProject,
    assert_same_run,
    gradients,
    newest_state,
    rows,
    sigterm,
    stop,
    trainer_of,
    update,
    write_split,
)

from translate.distributed.processes import SINGLE_PROCESS
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.system.storage import read_tensors
from translate.training.progress import Progress
from translate.training.states import pack

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow

# Settings of runs without dropout, which have to end as they do in one process.
RUNS = {
    "plain": (),
    "accumulation": ("training.batch.max_tokens=60", "training.batch.accumulate=3"),
    "batches of one pair": ("training.batch.max_sentences=1", "training.max_steps=6", "training.validate_every=3"),
    # Few updates: orthogonalized in bfloat16, they differ more.
    "Muon": ("training.optimizer.kind=muon", "training.max_steps=3"),
    "Muon, FSDP": ("training.optimizer.kind=muon", "training.max_steps=3", "training.parallel=fsdp"),
}
# The bias of keys has no influence: its gradient is nothing but rounding, which Adam makes as large as any other.
WITHOUT_DROPOUT = ("model.dropout=0", "model.qkv_bias=false")
# With dropout where nothing else is said, and with the mean of the last weights.
AVERAGED = ("training.average_last=2", "training.max_steps=6", "training.validate_every=3")
INTERRUPTED = {
    "DDP": ("training.parallel=ddp", *AVERAGED),
    "FSDP": ("training.parallel=fsdp", *AVERAGED),
}
# Pairs of the batches of an update: a lot, an odd number, one alone, and some after the other.
GRADIENTS = [[range(40)], [range(7)], [range(5, 6)], [range(3), range(3, 40), range(40, 41)]]
MODELS = {
    "plain": (),
    "tied, learned positions": ("model.tie=all", "text.joint_vocabulary=true", "model.positions=learned"),
    "tied, fewer words in the target": ("model.tie=all", "text={joint_vocabulary: true, target_min_freq: 24}"),
    "rotary positions": ("model.positions=rotary", "model.qk_norm=true"),
    "activation checkpointing": ("training.activation_checkpointing=true",),
}
# What only the second process is given.
DIFFERENT = ("training.max_steps=4", "training.optimizer.lr=0.1", "data.valid=train")


def launch(
    count: int, *arguments: object, folder: Path, further: Sequence[Sequence[str]] = ()
) -> list["subprocess.Popen[bytes]"]:
    """As many processes of a Python program as torchrun would start, with what they say in files.

    `further` are arguments that each of them gets alone.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "WORLD_SIZE": str(count)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = []
    for rank in range(count):
        with (folder / f"stderr-{rank}").open("wb") as stderr:
            command = [sys.executable, *map(str, arguments), *(further[rank] if further else ())]
            environment = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, stdout=stderr, stderr=stderr, env=environment))
    return processes


def ended(processes: list["subprocess.Popen[bytes]"], folder: Path) -> tuple[list[int], list[str]]:
    """Exit codes, and what each said."""
    try:
        codes = [process.wait(timeout=200) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return codes, [(folder / f"stderr-{rank}").read_text(encoding="utf-8") for rank in range(len(processes))]


def in_processes(count: int, tiny: TinyProject, jobs: list[tuple[str, dict[str, Any]]]) -> None:
    """One job of process.py after the other."""
    config, file = tiny.folder / "tiny.yaml", tiny.folder / "jobs.json"
    tiny.config()  # writes the file
    file.write_text(json.dumps(jobs), encoding="utf-8")
    processes = launch(count, Path(__file__).with_name("process.py"), config, file, folder=tiny.folder)
    codes, said = ended(processes, tiny.folder)
    assert codes == [0] * count, "\n\n".join(said)
    assert said[1:] == [""] * (count - 1)  # The first speaks for all.


@pytest.fixture(scope="module")
def two(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    """A folder with all that two processes have done, one job after the other, so that they start only once."""
    tiny = TinyProject(tiny_corpus, tmp_path_factory.mktemp("two"))
    jobs: list[tuple[str, dict[str, Any]]] = []

    def run(name: str, *overrides: str, **how: Any) -> None:
        jobs.append(("run", {"overrides": [f"output={tiny.folder}/{name}", *overrides], **how}))

    for mode in ("ddp", "fsdp"):
        for model, settings in MODELS.items():
            folder = tiny.folder / f"gradients {mode} {model}"
            overrides = [f"output={folder}", *WITHOUT_DROPOUT, *settings, f"training.parallel={mode}"]
            updates = [[list(batch) for batch in batches] for batches in GRADIENTS]
            jobs.append(("gradients", {"overrides": overrides, "updates": updates, "folder": str(folder)}))
    own: list[list[str]] = [["threads=1", f"data.cache={tiny.folder}/other"], []]
    for name, settings in RUNS.items():
        run(name, *WITHOUT_DROPOUT, *settings, own=own)
    for name, settings in INTERRUPTED.items():
        run(f"uninterrupted {name}", *settings)
        run(f"interrupted {name}", *settings, stop=[1, 4])
        run(f"interrupted {name}", *settings, resume=True)
        run(f"failed {name}", *settings, fail=2)
        run(f"failed {name}", *settings, resume=True)
        run(f"two, then one, {name}", *WITHOUT_DROPOUT, *settings, stop=[0, 4])
        one = TinyProject(tiny_corpus, tiny.folder)
        output = f"output={tiny.folder}/one, then two, {name}"
        stop(sigterm, update(4), one, output, *WITHOUT_DROPOUT, *settings)
        run(f"one, then two, {name}", *WITHOUT_DROPOUT, *settings, resume=True)
    run("little memory", *WITHOUT_DROPOUT, room=[1, 75])
    # Parts of the same shape take as many random numbers: only another seed makes another state.
    for split in ("train", "val"):
        write_split(tiny.folder / "pairs", split, ["bako fide"] * 40, ["koba defi"] * 40)
    run("even", f"data.root={tiny.folder}/pairs", "training.max_steps=2")
    for setting in DIFFERENT:
        folder = tiny.folder / f"different {setting}"
        given = {"overrides": [f"output={folder}"], "own": [own[0], [setting]], "folder": str(folder)}
        jobs.append(("refused", given))
    in_processes(2, tiny, jobs)
    return tiny


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_gradients_are_those_of_one_process(mode: str, model: str, two: TinyProject, tiny: TinyProject) -> None:
    trainer = trainer_of(tiny.config(*WITHOUT_DROPOUT, *MODELS[model]))
    for number, batches in enumerate(GRADIENTS):
        one = gradients(trainer, [np.array(batch) for batch in batches])
        found, _ = read_tensors(two.folder / f"gradients {mode} {model}" / f"{number}.safetensors")
        assert found.keys() == one.keys() == dict(trainer.learner.model.named_parameters()).keys()
        for name, gradient in one.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=f"{number}: {name}")


def assert_close_run(found: RunFolder, wanted: RunFolder) -> None:
    """The same up to rounding: weights and optimizer state, and every row of the log, each of them once."""
    (tensors, progress), (wanted_tensors, wanted_progress) = newest_state(found), newest_state(wanted)
    assert progress["step"] == wanted_progress["step"] > 0
    assert progress["target_tokens"] == wanted_progress["target_tokens"]
    assert progress["best_step"] == wanted_progress["best_step"]
    names = [name for name in wanted_tensors if not name.startswith("random")]
    assert names
    for name in names:
        torch.testing.assert_close(tensors[name], wanted_tensors[name], rtol=2e-3, atol=2e-4, msg=name)
    for row, wanted_row in zip(rows(found), rows(wanted), strict=True):
        for name in ("kind", "samples", "warning"):  # which are no numbers
            assert row.pop(name, None) == wanted_row.pop(name, None)
        assert row == pytest.approx(wanted_row, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_as_in_one_process(name: str, two: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    assert_close_run(RunFolder(two.folder / name), uninterrupted(*WITHOUT_DROPOUT, *RUNS[name]))


def test_all_processes_split_their_batches_if_one_has_little_memory(
    two: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    assert_close_run(RunFolder(two.folder / "little memory"), uninterrupted(*WITHOUT_DROPOUT))
    said = re.findall("out of memory at update 1: .* split into (.*?) micro-", (two.folder / "stderr-0").read_text())
    assert said == ["2", "4"]


def test_three_processes_share_matrices_of_the_same_shape(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    """Among more than two, PyTorch may divide a stack of matrices by matrices instead of by rows."""
    overrides = [
        *WITHOUT_DROPOUT,
        *RUNS["Muon, FSDP"],
        "model.d_model=128",
        "model.heads=4",
        "model.encoder_layers=2",
        "model.decoder_layers=2",
    ]
    in_processes(3, tiny, [("run", {"overrides": [f"output={tiny.folder}/run", *overrides]})])
    assert_close_run(RunFolder(tiny.folder / "run"), uninterrupted(*overrides))


@pytest.mark.parametrize("how", ["interrupted", "failed"])
@pytest.mark.parametrize("name", INTERRUPTED)
def test_resumed_by_as_many_processes(name: str, how: str, two: TinyProject) -> None:
    assert_same_run(RunFolder(two.folder / f"{how} {name}"), RunFolder(two.folder / f"uninterrupted {name}"))


def test_processes_draw_their_own_dropout(two: TinyProject) -> None:
    tensors, _ = newest_state(RunFolder(two.folder / "even"))
    assert not torch.equal(tensors["random.cpu"], tensors["random.cpu.1"])


@pytest.mark.parametrize("setting", DIFFERENT)
def test_different_settings_or_text_are_refused_by_all(setting: str, two: TinyProject) -> None:
    """But not different caches and numbers of threads, which these processes also have in RUNS."""
    for rank in range(2):
        assert (two.folder / f"different {setting}" / f"refusal-{rank}").read_text(encoding="utf-8") == (
            "the processes of this run have different settings, text or models to start from; give all of them the "
            "same config, overrides and files"
        )


def test_another_number_of_processes_draws_anew_after_each_update(tiny: TinyProject) -> None:
    drawn = []
    for seed in (1, 2):
        trainer = trainer_of(tiny.config(f"seed={seed}", f"output={tiny.folder}/{seed}"))
        tensors = pack(trainer.learner.parallel, trainer.learner.update.optimizers, SINGLE_PROCESS)
        trainer.learner.processes = FirstOfTwo()
        for step in (3, 3, 4):
            trainer.resume(tensors, Progress(step=step))
            drawn.append(tuple(torch.rand(3).tolist()))
    assert drawn[0] == drawn[1]
    assert drawn[3] == drawn[4]
    assert len(set(drawn)) == 4


@pytest.mark.parametrize("name", INTERRUPTED)
def test_resumed_by_more_processes(name: str, two: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    run = RunFolder(two.folder / f"one, then two, {name}")
    assert_close_run(run, uninterrupted(*WITHOUT_DROPOUT, *INTERRUPTED[name]))


@pytest.mark.parametrize("name", INTERRUPTED)
def test_resumed_by_fewer_processes(name: str, two: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    output = f"output={two.folder}/two, then one, {name}"
    run = train(two.config(output, *WITHOUT_DROPOUT, *INTERRUPTED[name]), resume=True)
    assert_close_run(run, uninterrupted(*WITHOUT_DROPOUT, *INTERRUPTED[name]))


# --- the script ------------------------------------------------------------------------------------------------------

HAS_DIED = (
    "error: another process of this run has ended, and this one cannot continue without it; see its error message, or "
    "torchrun's report. Without either, it was killed, for example because memory ran out. Continue with the same "
    "command and --resume-or-start (not --overwrite)"
)
ENDLESS = ("training.max_epochs=10000", "training.validate_every=20")


def wait_for_a_state(tiny: TinyProject, process: "subprocess.Popen[Any]") -> None:
    """Until one is written: a run that is stopped before keeps that one, and not where it stopped."""
    states = tiny.folder / "run/states"
    while not (any(states.glob("step-*")) and not any(states.glob(".step-*"))) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.2)  # What is left to do is to look for older ones.


def test_a_signal_to_any_process_stops_all(tiny: TinyProject) -> None:
    tiny.config()  # writes the file
    script = (ROOT / "scripts/train.py", "--config", tiny.folder / "tiny.yaml", *ENDLESS)
    processes = launch(2, *script, folder=tiny.folder)
    wait_for_a_state(tiny, processes[0])
    processes[1].terminate()
    codes, said = ended(processes, tiny.folder)
    assert codes == [143, 143], said
    assert said[0].endswith("\nstopped by SIGTERM; the run is saved. Continue with the same command and --resume\n")
    assert said[1] == ""
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] > 20


def test_a_signal_stops_a_process_that_waits_for_the_others(tiny: TinyProject) -> None:
    """The first process of one run and the second of another, at once: they say so only after a while."""
    tiny.config()
    with waiting_for_others(0, tiny) as (first, says_first), waiting_for_others(1, tiny) as (second, says_second):
        for process, says in ((first, says_first), (second, says_second)):
            assert process.stderr is not None
            assert process.stderr.readline() == says
            process.terminate()
            assert process.communicate(timeout=10)[1] == "stopped\n"
            assert process.returncode == 128 + signal.SIGTERM


@contextmanager
def waiting_for_others(rank: int, tiny: TinyProject) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """One of two processes, of which the other never comes, and what it says of that."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = {"WORLD_SIZE": "2", "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, str(ROOT / "scripts/train.py"), "--config", "tiny.yaml"]
    environment = {**os.environ, **given}
    with subprocess.Popen(
        command, cwd=tiny.folder, env=environment, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            yield process, f"waiting for the other processes of this run, 2 in all, at 127.0.0.1:{port}\n"
        finally:
            process.kill()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_dies_ends_all(rank: int, tiny: TinyProject) -> None:
    tiny.config()
    script = (ROOT / "scripts/train.py", "--config", tiny.folder / "tiny.yaml", *ENDLESS)
    processes = launch(2, *script, folder=tiny.folder)
    wait_for_a_state(tiny, processes[0])
    processes[rank].kill()
    codes, said = ended(processes, tiny.folder)
    assert codes[rank] == -signal.SIGKILL, said
    assert codes[1 - rank] == 2, said
    assert "Traceback" not in "".join(said)
    assert [line for line in "".join(said).split("\n") if line.startswith("error: ")] == [HAS_DIED]


def test_ctrl_c_after_the_last_message_changes_nothing(tiny: TinyProject) -> None:
    """While the processes end, which takes a moment."""
    tiny.config()
    program = """
import signal, sys
from translate.distributed.group import Group
signal.signal(signal.SIGINT, signal.default_int_handler)
wait = Group.await_last_message
def await_last_message(self):
    signal.raise_signal(signal.SIGINT)
    wait(self)
Group.await_last_message = await_last_message
from translate.commands.train import main
sys.exit(main())
"""
    script = ("-c", program, "--config", tiny.folder / "tiny.yaml", "training.max_steps=1")
    codes, said = ended(launch(2, *script, folder=tiny.folder), tiny.folder)
    assert codes == [0, 0], said
    assert said[0].split("\n")[-2].startswith("the best model is "), said
    assert said[1] == ""


def test_a_failure_is_reported_once_even_if_one_process_is_slow(tiny: TinyProject) -> None:
    """And Python does not shut down around open connections: their threads may end a process by SIGABRT then.

    Here, whatever still exists then does.
    """
    tiny.config()
    program = """
import os, sys, time
class Late:
    def __del__(self, abort=os.abort):
        abort()
sys.late = Late()
from translate.distributed.group import Group
ask = Group.is_first_to_report
def ask_late(self, message):
    time.sleep(int(os.environ["RANK"]))
    return ask(self, message)
Group.is_first_to_report = ask_late
from translate.commands.train import main
sys.exit(main())
"""
    script = ("-c", program, "--config", tiny.folder / "tiny.yaml")
    codes, said = ended(launch(2, *script, folder=tiny.folder, further=[(), ("seed=2",)]), tiny.folder)
    assert codes == [2, 2], said
    assert "".join(said).count("error: ") == 1


def test_what_the_first_alone_refuses_is_said_once(tiny: TinyProject) -> None:
    """While the other one waits for it, and would say that a process has ended."""
    train(tiny.config("training.max_steps=1"))
    script = (ROOT / "scripts/train.py", "--config", tiny.folder / "tiny.yaml", "training.max_steps=1")
    codes, said = ended(launch(2, *script, folder=tiny.folder), tiny.folder)
    assert codes == [2, 2], said
    (error,) = (line for line in "".join(said).split("\n") if line.startswith("error: "))
    assert "already holds a run" in error


@contextmanager
def under_torchrun(*arguments: object, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """torchrun with two processes of train.py. It ends them before it ends."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with TemporaryDirectory() as logs:  # torchrun would leave one of its own behind.
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        command += [f"--log-dir={logs}", str(ROOT / "scripts/train.py"), *map(str, arguments)]
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, encoding="utf-8"
        ) as process:
            try:
                yield process
            finally:
                process.terminate()


def torchrun(*arguments: object, folder: Path) -> "subprocess.CompletedProcess[str]":
    with under_torchrun(*arguments, folder=folder) as process:
        out, said = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, said)


def test_torchrun_from_another_folder(tiny: TinyProject) -> None:
    tiny.config()
    done = torchrun("--config", tiny.folder / "tiny.yaml", "training.max_steps=3", folder=ROOT / "scripts")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_mistake_is_answered_once(tiny: TinyProject) -> None:
    tiny.config()
    done = torchrun("--config", "tiny.yaml", "training.max_step=3", folder=tiny.folder)
    assert done.returncode == 1  # that of torchrun
    lines = done.stderr.split("\n")
    assert len([line for line in lines if line.startswith("error: 1 problem in ")]) == 1, done.stderr
    # torchrun's report names the cause.
    assert len([line for line in lines if line.startswith("  traceback : error: 1 problem in ")]) >= 1, done.stderr


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_of_torchrun_that_is_killed_ends_all_and_the_run_goes_on_in_one(rank: int, tiny: TinyProject) -> None:
    tiny.config()
    with under_torchrun("--config", "tiny.yaml", *ENDLESS, folder=tiny.folder) as process:
        wait_for_a_state(tiny, process)
        workers = sorted(spawned_by(process))  # started in the order of their ranks
        assert len(workers) == 2
        os.kill(workers[rank], signal.SIGKILL)
        _, said = process.communicate(timeout=60)  # until all that hold its streams have ended
    assert process.returncode == 1, said
    errors = [line for line in said.split("\n") if line.startswith("error: ")]
    assert errors == [HAS_DIED], said
    saved = newest_state(RunFolder(tiny.folder / "run"))[1]["step"]
    run = train(tiny.config(*ENDLESS, f"training.max_steps={saved + 5}"), resume=True)
    assert newest_state(run)[1]["step"] == saved + 5


def test_a_signal_to_torchrun_and_its_processes_at_once_saves_the_run(tiny: TinyProject) -> None:
    """As some queues stop a job. torchrun passes it on, so that its processes get it twice."""
    tiny.config()
    with under_torchrun("--config", "tiny.yaml", *ENDLESS, folder=tiny.folder) as process:
        wait_for_a_state(tiny, process)
        before = newest_state(RunFolder(tiny.folder / "run"))[1]["step"]
        for number in (*spawned_by(process), process.pid):
            os.kill(number, signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert "stopped by SIGTERM; the run is saved" in said
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] > before


# --- processes that the first one starts -----------------------------------------------------------------------------


@contextmanager
def started(tiny: TinyProject, *overrides: str, stderr: int = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    """train.py with the tiny settings, in a process group of its own, as a shell would start it."""
    tiny.config()  # writes the file
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "scripts/train.py"), "--config", str(tiny.folder / "tiny.yaml"), *overrides],
        stdout=subprocess.PIPE,
        stderr=stderr,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def spawned_by(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that it has started, as Linux lists them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # It has just ended.
            _, parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(parent) == process.pid:
                found.append(int(folder.name))
    return found


def test_one_command_starts_all_processes(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    with started(tiny, "processes=2", *WITHOUT_DROPOUT) as process:
        out, said = process.communicate(timeout=200)
    assert (process.returncode, out) == (0, "")
    assert "; training on cpu, 2 processes (ddp) of 1 CPU thread(s), in float32\n" in said
    assert said.count("the best model is ") == 1
    assert re.search(
        r"^memory: about \d+ MiB for each of 2 processes, in addition to Python and the text: ", said, re.M
    )
    assert_close_run(RunFolder(tiny.folder / "run"), uninterrupted(*WITHOUT_DROPOUT))


def test_ctrl_c_reaches_all_of_them_and_is_answered_once(tiny: TinyProject) -> None:
    with started(tiny, "processes=2", *ENDLESS) as process:
        wait_for_a_state(tiny, process)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=200)
    assert process.returncode == 130, said
    assert said.endswith("\nstopped by SIGINT; the run is saved. Continue with the same command and --resume\n")
    assert said.count("stopped") == 1
    assert "Traceback" not in said
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] > 20


def test_a_closed_terminal_saves_the_run(tiny: TinyProject) -> None:
    """Nothing can be written to it any more, and all processes hear of it, from the kernel and from the shell."""
    ours, theirs = pytest.importorskip("pty", reason="no terminals on this system").openpty()
    closes = threading.Event()

    def read() -> None:
        while not closes.is_set():
            os.read(ours, 1000)

    reader = threading.Thread(target=read)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # if the tests run under nohup; processes inherit that
    with started(tiny, "processes=2", *ENDLESS, stderr=theirs) as process:
        signal.signal(signal.SIGHUP, ignored)
        reader.start()
        wait_for_a_state(tiny, process)
        before = newest_state(RunFolder(tiny.folder / "run"))[1]["step"]
        closes.set()
        os.write(theirs, b".")  # so that the reader looks
        reader.join()
        os.close(theirs)
        os.close(ours)
        time.sleep(0.5)
        for _ in range(2):
            os.killpg(process.pid, signal.SIGHUP)
        process.communicate(timeout=200)
    assert process.returncode == 129
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] > before


def test_a_spawned_process_that_dies_ends_all(tiny: TinyProject) -> None:
    with started(tiny, "processes=2", *ENDLESS) as process:
        wait_for_a_state(tiny, process)
        (spawned,) = spawned_by(process)
        os.kill(spawned, signal.SIGKILL)
        _, said = process.communicate(timeout=200)
    assert process.returncode == 2, said
    assert said.count("error: ") == 1
    assert said.endswith(f"\n{HAS_DIED}\n")
    assert "Traceback" not in said


def test_spawned_processes_do_not_outlive_the_first(tiny: TinyProject) -> None:
    """One of them says why they end, and PyTorch nothing."""
    with started(tiny, "processes=3", *ENDLESS) as process:
        wait_for_a_state(tiny, process)
        process.kill()
        _, said = process.communicate(timeout=60)  # until all that hold its streams have ended
    assert [line for line in said.split("\n") if line.startswith("error: ")] == [HAS_DIED]
    assert said.endswith(f"\n{HAS_DIED}\n")
    assert "frame #" not in said


def test_nor_do_those_that_have_not_met_it(tiny: TinyProject) -> None:
    with started(tiny, "processes=2", *ENDLESS) as process:
        while not spawned_by(process):
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=40)


def test_what_the_first_refuses_is_said_once(tiny: TinyProject) -> None:
    train(tiny.config("training.max_steps=1"))
    with started(tiny, "processes=2", "training.max_steps=1") as process:
        _, said = process.communicate(timeout=200)
    assert process.returncode == 2
    assert said == (
        f"error: {tiny.folder}/run already holds a run; --resume continues it, --overwrite replaces it, "
        "output=… uses another folder\n"
    )
