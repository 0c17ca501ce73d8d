"""Downloading, against a server on this machine that misbehaves on purpose."""

import errno
import gzip
import logging
import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from translate.data.digest import text_sha256
from translate.data.fetch import MIRRORS, MULTI30K_FILES, TRIES, download_multi30k, is_to_be_downloaded
from translate.data.lines import read_lines
from translate.errors import DataError

# Random, so that the compressed text is long enough to be cut in the middle.
LINES = [f"Zeile {random.Random(i).getrandbits(256):x}" for i in range(2000)]
BODY = gzip.compress(("\n".join(LINES) + "\n").encode("utf-8"), mtime=0)
FILES = {"small.de.gz": text_sha256(LINES)}
OTHER = gzip.compress(b"another text\n")
HALF = len(BODY) // 2


class Server(ThreadingHTTPServer):
    """Answers /BEHAVIOUR/FILE; remembers what was asked for, with the Range header."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.released = Event()

    def mirror(self, behaviour: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{behaviour}"

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        return [(path.split("/")[1], byte_range) for path, byte_range in self.requests]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        byte_range = self.headers["Range"]
        self.server.requests.append((self.path, byte_range))
        start = int(byte_range.removeprefix("bytes=").removesuffix("-")) if byte_range else 0
        match self.path.split("/")[1]:
            case "good" | "other" | "empty" | "page" as behaviour:
                self.answer({"good": BODY, "other": OTHER, "empty": b"", "page": b"<html></html>"}[behaviour], start)
            case "cut":  # delivers at most half of the file at a time
                self.answer(BODY, start, send=HALF)
            case "drip":  # delivers too little for all tries together
                self.answer(BODY, start, send=100)
            case "stuck":  # announces everything, delivers half, then keeps silent
                self.answer(BODY, start, send=HALF)
                self.server.released.wait(10)
            case "silent":
                self.server.released.wait(10)
            case "no-range":
                self.answer(BODY, 0)
            case "no-number":  # says in words how much it delivers
                self.answer(BODY, start, length="everything")
            case "gibberish":
                self.wfile.write(b"SSH-2.0")
            case "nowhere":
                self.send_response(302)
                self.send_header("Location", "http://[")
                self.end_headers()
            case _:
                self.send_error(404)

    def answer(self, body: bytes, start: int, send: int | None = None, length: str = "") -> None:
        if start >= len(body) > 0:
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", length or str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][:send])
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def download(root: Path, *mirrors: str, timeout: float = 5.0) -> None:
    download_multi30k(root, mirrors, timeout, FILES)


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_good_file(tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "new" / "folder"
    with caplog.at_level(logging.INFO):
        download(root, server.mirror("good"))
    assert caplog.messages == [f"downloading {server.mirror('good')}/small.de.gz"]
    assert names(root) == ["small.de.gz"]
    assert read_lines(root / "small.de.gz") == LINES


def test_two_processes_download_once(tmp_path: Path, server: Server) -> None:
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda root: download(root, server.mirror("good")), (tmp_path, tmp_path)))
    assert len(server.requests) == 1
    assert names(tmp_path) == ["small.de.gz"]


def test_a_length_that_is_no_number_tells_nothing(tmp_path: Path, server: Server) -> None:
    download(tmp_path, server.mirror("no-number"))
    assert server.asked == [("no-number", None)]
    assert read_lines(tmp_path / "small.de.gz") == LINES


@pytest.mark.parametrize("name", ["small.de", "small.de.gz"])
def test_no_request_when_the_text_is_there(tmp_path: Path, server: Server, name: str) -> None:
    content = ("\n".join(LINES) + "\n").encode("utf-8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    download(tmp_path, server.mirror("good"))
    assert server.requests == []


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (
            "other",
            f"unexpected content: sha256 {text_sha256(['another text'])[:8]}… instead of {FILES['small.de.gz'][:8]}…",
        ),
        ("empty", "an empty file"),
        ("page", "not a valid gzip file of UTF-8 text"),
        ("missing", "HTTP 404 Not Found"),
        ("nowhere", "Invalid IPv6 URL"),
        ("gibberish", "SSH-2.0"),
    ],
)
def test_what_is_wrong_is_not_kept_and_the_next_mirror_is_asked(
    tmp_path: Path, server: Server, behaviour: str, reason: str
) -> None:
    with pytest.raises(DataError, match=re.escape(f"{server.mirror(behaviour)}/small.de.gz: {reason}\n")):
        download(tmp_path, server.mirror(behaviour))
    assert names(tmp_path) == []
    assert server.asked == [(behaviour, None)]

    download(tmp_path, server.mirror(behaviour), server.mirror("good"))
    assert server.asked[1:] == [(behaviour, None), ("good", None)]
    assert names(tmp_path) == ["small.de.gz"]
    assert read_lines(tmp_path / "small.de.gz") == LINES


def test_cut_off_transfer_is_resumed(tmp_path: Path, server: Server) -> None:
    download(tmp_path, server.mirror("cut"))
    ranges = [byte_range for _, byte_range in server.asked]
    assert ranges[:2] == [None, f"bytes={HALF}-"]
    assert len(ranges) <= TRIES
    assert names(tmp_path) == ["small.de.gz"]
    assert read_lines(tmp_path / "small.de.gz") == LINES


def test_what_is_cut_off_at_every_try_gets_no_name(tmp_path: Path, server: Server) -> None:
    with pytest.raises(DataError, match=r"/drip/small\.de\.gz: cut off after 100 of \d+ bytes\n"):
        download(tmp_path, server.mirror("drip"))
    assert [byte_range for _, byte_range in server.asked] == [None, "bytes=100-", "bytes=200-"]
    assert names(tmp_path) == ["small.de.part.gz"]


@pytest.mark.parametrize("error", [ConnectionResetError(errno.ECONNRESET, "reset by peer"), IncompleteRead(b"")])
def test_a_broken_transfer_is_tried_again(
    error: Exception, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, read = [error], HTTPResponse.read

    def broken_at_first(response: HTTPResponse, size: int) -> bytes:
        if errors:
            raise errors.pop()
        return read(response, size)

    monkeypatch.setattr(HTTPResponse, "read", broken_at_first)
    download(tmp_path, server.mirror("good"))
    assert server.asked == [("good", None)] * 2
    assert read_lines(tmp_path / "small.de.gz") == LINES


def test_cut_off_transfer_is_resumed_by_a_later_call(tmp_path: Path, server: Server) -> None:
    (tmp_path / "small.de.part.gz").write_bytes(BODY[:100])
    download(tmp_path, server.mirror("good"))
    assert server.asked == [("good", "bytes=100-")]
    assert names(tmp_path) == ["small.de.gz"]
    assert read_lines(tmp_path / "small.de.gz") == LINES


def test_a_server_that_cannot_resume_sends_all(tmp_path: Path, server: Server) -> None:
    (tmp_path / "small.de.part.gz").write_bytes(BODY[:100])
    download(tmp_path, server.mirror("no-range"))
    assert server.asked == [("no-range", "bytes=100-")]
    assert read_lines(tmp_path / "small.de.gz") == LINES


@pytest.mark.parametrize("left", [b"x" * 100, BODY, BODY + b"x"])
def test_a_useless_rest_is_thrown_away(tmp_path: Path, server: Server, left: bytes) -> None:
    (tmp_path / "small.de.part.gz").write_bytes(left)
    download(tmp_path, server.mirror("good"))
    assert server.asked == [("good", f"bytes={len(left)}-"), ("good", None)]
    assert names(tmp_path) == ["small.de.gz"]
    assert read_lines(tmp_path / "small.de.gz") == LINES


@pytest.mark.parametrize("behaviour", ["silent", "stuck"])
def test_time_out(tmp_path: Path, server: Server, behaviour: str) -> None:
    reason = f"{server.mirror(behaviour)}/small.de.gz: no answer within 0.2 s"
    with pytest.raises(DataError, match=re.escape(reason)):
        download(tmp_path, server.mirror(behaviour), timeout=0.2)
    assert not (tmp_path / "small.de.gz").exists()


def test_what_arrived_before_a_time_out_is_used(tmp_path: Path, server: Server) -> None:
    download(tmp_path, server.mirror("stuck"), server.mirror("good"), timeout=1.0)
    (_, (behaviour, byte_range)) = server.asked
    assert behaviour == "good"
    assert byte_range is not None
    assert read_lines(tmp_path / "small.de.gz") == LINES


def test_no_server(tmp_path: Path, server: Server) -> None:
    with Server() as closed:
        address = closed.mirror("good")
    with pytest.raises(DataError, match=f"{address}/small.de.gz: .*refused"):
        download(tmp_path, address)
    with pytest.raises(DataError, match=r"small\.de\.gz could not be downloaded"):
        download(tmp_path / "a slip", address)
    assert not (tmp_path / "a slip").exists()


def test_every_reason_every_name_and_the_place_are_told(tmp_path: Path, server: Server) -> None:
    files = {"here.de.gz": text_sha256(["another text"]), "small.de.gz": FILES["small.de.gz"], "small.en.gz": "0" * 64}
    mirrors = [server.mirror("other"), server.mirror("missing")]
    with pytest.raises(DataError) as caught:
        download_multi30k(tmp_path, mirrors, 5.0, files)
    first, other, missing, last = str(caught.value).split("\n")
    assert first == "small.de.gz could not be downloaded:"
    assert other.startswith(f"  {mirrors[0]}/small.de.gz: unexpected content")
    assert missing == f"  {mirrors[1]}/small.de.gz: HTTP 404 Not Found"
    assert last == (
        "Put small.de.gz, small.en.gz (from github.com/multi30k/dataset, folder data/task1/raw) into "
        f"{tmp_path} by hand, or set data.root to a folder that has them."
    )


@pytest.mark.parametrize("content", [b"", BODY[:HALF]])
def test_a_damaged_file_is_replaced(tmp_path: Path, server: Server, content: bytes) -> None:
    (tmp_path / "small.de.gz").write_bytes(content)
    download(tmp_path, server.mirror("good"))
    assert read_lines(tmp_path / "small.de.gz") == LINES


@pytest.mark.parametrize("name", ["small.de", "small.de.gz"])
def test_another_text_is_not_overwritten(tmp_path: Path, server: Server, name: str) -> None:
    content = b"of the user\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DataError, match=re.escape(f"{path} differs from Multi30k's file of that name. Move it away")):
        download(tmp_path, server.mirror("good"))
    assert read_lines(path) == ["of the user"]
    assert server.requests == []


def test_folder_without_permission(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    root = tmp_path / "new"
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DataError, match=re.escape(f"Cannot write into {root}: Permission denied. Set data.root")):
        download(root, server.mirror("good"))
    assert server.requests == []


def test_a_full_disk_is_not_the_fault_of_the_mirror(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(DataError, match=re.escape(f"Cannot write into {tmp_path}: No space left on device. Set")):
        download(tmp_path, server.mirror("good"), server.mirror("other"))
    assert server.asked == [("good", None)]
    assert not (tmp_path / "small.de.gz").exists()


def test_file_instead_of_folder(tmp_path: Path, server: Server) -> None:
    root = tmp_path / "file"
    root.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(f"Cannot write into {root}: File exists")):
        download(root, server.mirror("good"))


def test_the_published_files() -> None:
    assert sorted(MULTI30K_FILES) == [
        "test_2016_flickr.de.gz",
        "test_2016_flickr.en.gz",
        "train.de.gz",
        "train.en.gz",
        "val.de.gz",
        "val.en.gz",
    ]
    assert len(set(MULTI30K_FILES.values())) == 6
    assert all(mirror.startswith("https://") for mirror in MIRRORS)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (None, True),
        ([], True),
        (["train.de.part.gz"], True),
        ([".download", "train.de.part.gz"], True),  # left by a process that was killed
        (["train.de.gz", "train.en.gz"], True),
        (sorted(MULTI30K_FILES), False),
        ([".download", *MULTI30K_FILES], False),
        (["train.de.gz", "notes.txt"], False),
    ],
)
def test_only_a_folder_of_ours_is_to_be_downloaded(tmp_path: Path, there: list[str] | None, expected: bool) -> None:
    root = tmp_path / "root"
    if there is not None:
        root.mkdir()
        for name in there:
            (root / name).write_bytes(BODY if name != ".download" else b"")
    assert is_to_be_downloaded(root) is expected


def test_a_link_to_nothing_is_no_missing_folder(tmp_path: Path) -> None:
    for name in ("train.de", "train.en"):
        (tmp_path / name).write_bytes(BODY)
    (tmp_path / "old.de").symlink_to(tmp_path / "nowhere")
    assert not is_to_be_downloaded(tmp_path)


def test_an_empty_file_is_to_be_downloaded_again(tmp_path: Path) -> None:
    for name in MULTI30K_FILES:
        (tmp_path / name).write_bytes(BODY if name != "val.en.gz" else b"")
    assert is_to_be_downloaded(tmp_path)
