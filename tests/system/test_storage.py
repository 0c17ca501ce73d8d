"""Files of tensors and values: whole or not there, and damage of any kind is noticed and named."""

import errno
import os
import pickle
import re
import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from translate.errors import CheckpointError
from translate.system import storage
from translate.system.files import atomic_file
from translate.system.storage import read_tensors, tensor_files, write_tensors

VALUES: dict[str, Any] = {"name": "Hündin 犬", "list": [1, 2.5, None, True], "inner": {"empty": {}, "quote": '"\\\n'}}


def tensors() -> dict[str, Tensor]:
    return {
        "matrix": torch.arange(6.0).reshape(2, 3),
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "half": torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16),
        "count": torch.tensor(2**40),
        "flags": torch.tensor([True, False]),
        "none": torch.empty(0, 3),
        "trained": torch.nn.Parameter(torch.ones(2)),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file.safetensors"
    write_tensors(path, tensors(), VALUES)
    return path


def test_round_trip(path: Path) -> None:
    found, values = read_tensors(path)
    assert values == VALUES
    assert found.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert found[name].dtype is tensor.dtype
        torch.testing.assert_close(found[name], tensor.detach(), rtol=0, atol=0, equal_nan=True)
        assert not found[name].requires_grad
    assert [file.name for file in path.parent.iterdir()] == ["file.safetensors"]


def test_writing_replaces_what_stood_there(path: Path) -> None:
    write_tensors(path, {"other": torch.ones(1)}, {})
    found, values = read_tensors(path)
    assert (list(found), values) == (["other"], {})


def test_what_gets_the_name_has_reached_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safetensors 0.8 puts another file in the place of the one that it is given."""
    synced, fsync = [], os.fsync

    def noted(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_tensors(path, tensors(), VALUES)
    assert (path.stat().st_ino, path.stat().st_size) in synced


def test_a_file_that_is_being_written_has_no_much_longer_path(tmp_path: Path) -> None:
    """A path on Windows has 259 characters at most, also that of the folder of encoded text."""
    path = tmp_path / f"text-{64 * '0'}-source-offsets.npy"
    with atomic_file(path) as file:
        assert len(str(file)) < len(str(path)) + 20
    assert path.is_file()


def test_a_name_that_is_too_long_is_noticed_before_there_is_something_to_write(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"), atomic_file(tmp_path / ("x" * 256)):
        pytest.fail("the file was to be filled")
    assert not list(tmp_path.iterdir())


def test_its_mode_is_that_of_other_files(path: Path) -> None:
    (path.parent / "other").touch()
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_its_mode_is_that_of_the_file_that_it_replaces(path: Path) -> None:
    path.chmod(0o640)
    with atomic_file(path) as new:
        new.write_bytes(b"for the same people")
        assert new.parent.stat().st_mode & 0o077 == 0  # Nobody else reads it before.
    assert path.read_bytes() == b"for the same people"
    assert path.stat().st_mode & 0o777 == 0o640


# --- damage ----------------------------------------------------------------------------------------------------------


def test_one_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    write_tensors(path, {"a": torch.ones(2, 2), "b": torch.tensor(3)}, {"words": ["ä", "b"], "step": 12})
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(
            CheckpointError, match=f"^{re.escape(str(path))} is (damaged|a safetensors file, but was not)"
        ):
            read_tensors(path)


def test_a_flipped_bit_in_a_tensor(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value) == f"{path} is damaged, or was changed by another program: its checksum does not match"


def test_a_file_that_is_replaced_while_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = storage.tensors_sha256

    def replace_first(*content: Any) -> str:
        monkeypatch.undo()
        written = path.stat().st_mtime_ns
        write_tensors(path, {"weight": torch.ones(3)}, {"name": "newer"})
        os.utime(path, ns=(written + 1, written + 1))  # Clocks of file systems may be coarse.
        return "of neither" + digest(*content)

    monkeypatch.setattr(storage, "tensors_sha256", replace_first)
    found, values = read_tensors(path)
    assert (found["weight"].tolist(), values) == ([1, 1, 1], {"name": "newer"})


def test_a_file_that_is_replaced_by_a_shorter_one_while_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = storage.safe_open

    def replace_first(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        found = opened(*arguments, **options)
        written = path.stat().st_mtime_ns
        write_tensors(path, {"weight": torch.ones(1)}, {})
        os.utime(path, ns=(written + 1, written + 1))
        raise RuntimeError(f"file is smaller than the required mapping size of {found}")

    monkeypatch.setattr(storage, "safe_open", replace_first)
    assert read_tensors(path)[0]["weight"].tolist() == [1]


def test_a_lack_of_memory_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("unable to mmap")

    monkeypatch.setattr(storage, "safe_open", fail)
    with pytest.raises(RuntimeError, match="unable to mmap"):
        read_tensors(path)


@pytest.mark.parametrize(("before", "after"), [(b'"I64"', b'"U64"'), (b"[2,3]", b"[3,2]")], ids=["type", "shape"])
def test_another_type_or_shape_of_the_same_size(before: bytes, after: bytes, path: Path) -> None:
    content = path.read_bytes()
    assert content.count(before) == 1
    path.write_bytes(content.replace(before, after))
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value) == f"{path} is damaged, or was changed by another program: its checksum does not match"


def test_a_flipped_bit_that_breaks_the_values(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(rb"{\"name\"", rb"[\"name\"", 1))
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value).startswith(f"{path} is damaged: its metadata cannot be read (")


@pytest.mark.parametrize("share", [0.0, 0.005, 0.2, 0.7, 0.99])
def test_truncated(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value).startswith(f"{path} is damaged, or not a safetensors file: ")


def test_trailing_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CheckpointError, match="is damaged, or not a safetensors file: "):
        read_tensors(path)


# --- other files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"translate": "{}"}, {"sha256": "0"}])
def test_a_foreign_safetensors_file(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.ones(2)}, path, metadata)
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value) == f"{path} is a safetensors file, but was not written by this project"


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("kind", ["pickle", "torch.save", "text"])
def test_other_formats_are_refused_and_no_pickle_is_read(tmp_path: Path, kind: str) -> None:
    path, sprung = tmp_path / "model.safetensors", tmp_path / "sprung"
    match kind:
        case "pickle":
            path.write_bytes(pickle.dumps(Trap(sprung)))
        case "torch.save":
            torch.save({"weight": torch.ones(2), "trap": Trap(sprung)}, path)
        case _:
            path.write_text("Ein Hund bellt.\n" * 9, encoding="utf-8")
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value).startswith(f"{path} is damaged, or not a safetensors file: ")
    assert not sprung.exists()


def test_a_model_of_another_toolkit(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint_best.pt"
    torch.save({"model": {"weight": torch.ones(2)}}, path)
    with pytest.raises(CheckpointError, match=r"safetensors file: .*\. Models of other toolkits cannot be read$"):
        read_tensors(path)


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_tensors(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a folder; give a .safetensors file"
    with pytest.raises(CheckpointError) as caught:
        read_tensors(tmp_path / "absent")
    assert str(caught.value) == f"{tmp_path / 'absent'} is missing; give a .safetensors file"
    with pytest.raises(CheckpointError) as caught:
        read_tensors(Path(os.devnull))
    assert str(caught.value) == f"{os.devnull} is not a regular file; give a .safetensors file"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "private").touch()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError) as caught:
        read_tensors(tmp_path / "private")
    assert str(caught.value) == f"{tmp_path / 'private'} cannot be read: Permission denied"


@pytest.mark.parametrize("hides", [False, True])
def test_a_name_that_is_too_long_is_no_damage(hides: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if hides:  # as Python does since 3.14
        monkeypatch.setattr(Path, "is_file", os.path.isfile)
        monkeypatch.setattr(Path, "is_dir", os.path.isdir)
        monkeypatch.setattr(Path, "exists", os.path.exists)
    path = tmp_path / ("x" * 300)
    with pytest.raises(CheckpointError) as caught:
        read_tensors(path)
    assert str(caught.value) == f"{path} cannot be read: File name too long"


def test_the_folder_of_a_run_in_place_of_its_model(tmp_path: Path) -> None:
    inside = tmp_path / "model.safetensors"
    inside.touch()
    with pytest.raises(CheckpointError) as caught:
        read_tensors(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a folder; did you mean {inside}?"


def test_the_files_of_a_folder_that_hold_tensors(path: Path) -> None:
    text = path.with_name("text.txt")
    for other in (text, path.with_name(f".{path.name}.0a")):
        other.touch()
    assert tensor_files(path.parent) == [path]
    assert tensor_files(text) == tensor_files(path.parent / "absent") == []
    loop = path.with_name("loop")
    loop.symlink_to(loop)
    with pytest.raises(CheckpointError, match=f"^the folder {re.escape(str(loop))} cannot be read: "):
        tensor_files(loop)


# --- where nothing can be written ------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["os.fsync", "pathlib.Path.replace"])
def test_a_full_disk_leaves_the_former_file(path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    before = path.read_bytes()

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(broken, full)
    with pytest.raises(CheckpointError) as caught:
        write_tensors(path, {"other": torch.ones(1)}, {})
    assert str(caught.value) == (
        f"cannot write {path}: No space left on device; free some space, or choose another place (of a run: output=…)"
    )
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["file.safetensors"]


def test_a_write_cut_short_by_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing, in small: a limit on the size of files."""
    resource = pytest.importorskip("resource", reason="no limits on this system")
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"cannot write .*File too large.*; free some space"):
            write_tensors(path, {"large": torch.ones(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["file.safetensors"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "model.safetensors"
    with pytest.raises(CheckpointError) as caught:
        write_tensors(path, {}, {})
    assert re.fullmatch(
        rf"cannot write {re.escape(str(path))}: (File exists|Not a directory); "
        r"free some space, or choose another place \(of a run: output=…\)",
        str(caught.value),
    )


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "moved" / "model.safetensors"
    with pytest.raises(CheckpointError) as caught:
        write_tensors(path, {}, {})
    assert str(caught.value) == (
        f"cannot write {path}: its folder does not exist; create it or, if that of a run was moved, continue there "
        "with --resume and output=…"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_not_utf8_is_no_damage(path: Path) -> None:
    moved = path.rename(path.with_name(os.fsdecode(b"m\xff.safetensors")))
    with pytest.raises(CheckpointError, match="this path is not UTF-8; rename that file or folder"):
        read_tensors(moved)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="whoever is root may write anywhere")
def test_an_unwritable_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match=r"cannot write .*: Permission denied; free some space, or choose"):
            write_tensors(tmp_path / "model.safetensors", {}, {})
    finally:
        tmp_path.chmod(0o700)
