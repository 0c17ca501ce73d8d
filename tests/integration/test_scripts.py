"""The scripts as a user runs them: processes of their own, in any folder, in any locale, with pipes and signals."""

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_runs import TinyProject, newest_state, sentences, write_split

from translate.data.lines import read_lines
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.translator import Translator

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("train", "translate", "evaluate", "split")
# An ASCII locale, without the help that Python has for it.
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

# Trains with a library that takes an hour to learn subwords, and does not look for signals meanwhile.
LEARNS_FOR_AN_HOUR = """
import hashlib, sys
from translate.commands.train import main
from translate.text import piece_learning

class Slow:
    def train_from_iterator(self, texts, trainer):
        print("learning", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

piece_learning._with_pre_tokenizer = lambda model: Slow()
sys.exit(main(sys.argv[1:]))
"""

pytestmark = pytest.mark.slow


def command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Streams buffered as usual, and one thread."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONPATH")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def run(
    script: str, *arguments: object, folder: Path, stdin: bytes = b"", variables: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        command(script, *arguments), input=stdin, capture_output=True, cwd=folder, env=environment(**variables or {})
    )


@contextmanager
def started(script: str, *arguments: object, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A script under way, with pipes to all its streams."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(script, *arguments), stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environment()
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    while not condition() and process.poll() is None:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def model(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model, alone in its folder."""
    folder = tmp_path_factory.mktemp("trained")
    return train(TinyProject(tiny_corpus, folder).config()).model.rename(folder / "model.safetensors")


# --- streams ---------------------------------------------------------------------------------------------------------


def test_output_that_was_closed_is_nowhere(model: Path, tmp_path: Path) -> None:
    named = ["--checkpoint", model, "--output", tmp_path / "out.txt", "bako"]
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&- 2>&-', "sh", *command("translate", *named)], cwd=tmp_path, env=environment()
    )
    assert closed.returncode == 0
    assert len((tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")) == 2


def test_whoever_waits_for_an_answer_to_each_line_gets_it(model: Path, tmp_path: Path) -> None:
    with started("translate", "--checkpoint", model, folder=tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for line in (b"bako", b"defi", b"lu"):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.stdin.write(b"mo")
        process.stdin.close()
        assert process.stdout.read().endswith(b"\n")
        assert process.wait() == 0
    together = run("translate", "--checkpoint", model, folder=tmp_path, stdin=b"bako\ndefi\nlu\n")
    assert together.stdout == b"".join(answers)


# --- from anywhere ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("folder", ["/", "scripts", "translate"])
def test_help(script: str, folder: str) -> None:
    done = run(script, "--help", folder=ROOT / folder, variables=C_LOCALE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(f"usage: {script}.py ".encode())


@pytest.mark.parametrize("script", SCRIPTS)
def test_commands_as_modules(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"translate.commands.{script}", "--help"], cwd=ROOT, capture_output=True
    )
    assert done.stdout.startswith(f"usage: {script}.py ".encode())


def test_console_entry_points() -> None:
    entries = importlib.metadata.distribution("translate").entry_points
    found = {entry.name: entry.value for entry in entries if entry.group == "console_scripts"}
    names = {"translate": "translate-text"}
    assert found == {
        names.get(script, f"translate-{script}"): f"translate.commands.{script}:main" for script in SCRIPTS
    }
    assert all(callable(entry.load()) for entry in entries)


def test_train_then_translate_then_evaluate(tmp_path: Path) -> None:
    write_split(tmp_path / "Käse/corpus", "train", *sentences(60, seed=1))
    write_split(tmp_path / "Käse/corpus", "val", *sentences(9, seed=2))
    (tmp_path / "Käse/small.yaml").write_text(
        "output: run\ndata: {root: corpus, cache: cache}\n"
        "model: {d_model: 16, ffn: 32, heads: 2, encoder_layers: 1, decoder_layers: 1}\n"
        "training: {max_epochs: 1, precision: float32}\n"
        "decoding: {max_ratio: 1, max_extra: 1}\n",
        encoding="utf-8",
    )
    trained = run("train", "--config", "Käse/small.yaml", "seed=3", "--overwrite", folder=tmp_path)
    assert (trained.returncode, trained.stdout) == (0, b"")
    assert trained.stderr.decode().endswith(
        f"the best model is {tmp_path}/Käse/run/model.safetensors (outside checkpoints/: name it with --checkpoint)\n"
    )
    assert "Traceback" not in trained.stderr.decode()

    with_model = ("--checkpoint", "Käse/run/model.safetensors")
    source, output = "Käse/corpus/train.de", "new/train.en"
    translated = run("translate", *with_model, "--input", source, "--output", output, folder=tmp_path)
    assert (translated.returncode, translated.stdout) == (0, b"")
    assert len(read_lines(tmp_path / output)) == 60

    scored = run("evaluate", *with_model, "--source", source, "--reference", output, folder=tmp_path)
    assert scored.returncode == 0
    assert scored.stdout.startswith(b"BLEU              100.00 ")
    assert scored.stderr.decode().endswith("; report: Käse/run/train.de.json\n")
    assert read_lines(tmp_path / "Käse/run/train.de.txt") == read_lines(tmp_path / output)
    assert json.loads((tmp_path / "Käse/run/train.de.json").read_text(encoding="utf-8"))["sentences"] == 60


def test_a_locale_of_ascii(model: Path, tmp_path: Path) -> None:
    arguments = ("--checkpoint", model, "--unknown", "--n-best", "1")
    asked = run("translate", *arguments, "bako größer", "bako 猫", folder=tmp_path, variables=C_LOCALE)
    assert asked.returncode == 0
    assert asked.stderr.decode() == "line 1: unknown: größer\nline 2: unknown: 猫\n"
    piped = run("translate", *arguments, stdin="bako größer\nbako 猫".encode(), folder=tmp_path, variables=C_LOCALE)
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, asked.stdout, asked.stderr)


# --- pipes and signals -----------------------------------------------------------------------------------------------


def test_the_reader_leaves(model: Path, tmp_path: Path) -> None:
    with started("translate", "--checkpoint", model, "--search", "greedy", folder=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(b"bako\n" * 1500)
        process.stdin.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_ctrl_c_while_translating(model: Path, tmp_path: Path) -> None:
    arguments = ("--checkpoint", model, "--search", "greedy")
    with started("translate", *arguments, folder=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(b"bako\n" * 1000)
        process.stdin.flush()
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)  # It waits for more.
        said = process.stderr.read()
    assert (process.returncode, said) == (130, b"stopped\n")
    assert first.decode() == Translator.load(model, "cpu").translate(["bako"], search="greedy")[0] + "\n"


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_while_translating_leaves_nothing_behind(name: str, code: int, model: Path, tmp_path: Path) -> None:
    number = getattr(signal, name)
    (tmp_path / "out.txt").write_text("as it was\n")
    arguments = ("--checkpoint", model, "--search", "greedy", "--output", "out.txt")
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # if the tests run under nohup; processes inherit that
    with started("translate", *arguments, folder=tmp_path) as process:
        signal.signal(signal.SIGHUP, ignored)
        assert process.stdin
        assert process.stderr
        process.stdin.write(b"bako")
        process.stdin.flush()
        wait_for(lambda: len(list(tmp_path.iterdir())) > 1, process)
        process.send_signal(number)  # It waits for the rest of the line, so none is done.
        said = process.stderr.read()
    assert (process.returncode, said) == (code, b"stopped\n")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["as it was\n"]


def test_a_signal_while_text_is_encoded_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    write_split(tmp_path, "train", *(["bako fide " * 20] * 100_000,) * 2)
    write_split(tmp_path, "val", *sentences(5, seed=2))
    settings = f"data: {{root: {tmp_path}, cache: {tmp_path}/cache}}\ntext: {{tokenizer: {{kind: byte}}}}\nprocesses: 1"
    (tmp_path / "mine.yaml").write_text(settings)
    with started("train", "--config", "mine.yaml", f"output={tmp_path}/run", folder=tmp_path) as process:
        # Not only for the lock, which stays if the signal comes in the moment after its file is made.
        wait_for(lambda: any(path.is_dir() for path in (tmp_path / "cache").glob(".text-*")), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    assert list((tmp_path / "cache").glob(".*")) == []


def test_a_signal_while_a_vocabulary_is_learned(tiny: TinyProject) -> None:
    tiny.config()  # writes the file
    settings = ("--config", f"{tiny.folder}/tiny.yaml", "text.tokenizer={kind: bpe, vocab_size: 60}", "processes=1")
    program = [sys.executable, "-c", LEARNS_FOR_AN_HOUR, *settings]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout
        assert process.stderr
        try:
            assert process.stdout.readline() == b"learning\n"
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1].decode()
        finally:
            process.kill()
    assert (process.returncode, said.splitlines()[-1]) == (143, "stopped")
    assert not (tiny.folder / "run").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_behind_standard_output(model: Path, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("translate", "--checkpoint", model, "bako"),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (2, b"error: the disk is full\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_training(number: signal.Signals, code: int, tiny: TinyProject) -> None:
    tiny.config()  # writes the file
    arguments = ("--config", tiny.folder / "tiny.yaml", "training.max_epochs=1000", "training.validate_every=50")
    with started("train", *arguments, folder=tiny.folder) as process:
        assert process.stdout
        assert process.stderr
        wait_for((tiny.folder / "run/model.safetensors").exists, process)
        process.send_signal(number)
        out, said = process.stdout.read(), process.stderr.read().decode()
    assert (process.returncode, out) == (code, b"")
    assert said.endswith(f"stopped by {number.name}; the run is saved. Continue with the same command and --resume\n")
    assert "Traceback" not in said
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] >= 50
