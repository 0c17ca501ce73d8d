"""Download Multi30k: from the first mirror that delivers, and only what is missing; no file gets its name unchecked."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from translate.data.digest import text_sha256
from translate.data.lines import read_lines
from translate.data.multi30k import DOWNLOADED_SPLITS, KNOWN_TEXTS
from translate.errors import DataError
from translate.system.files import wait_for_lock
from translate.system.paths import exists

# Three addresses of the files in the authors' repository. A branch is enough, because each file's content is verified.
MIRRORS = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
    "https://cdn.jsdelivr.net/gh/multi30k/dataset@master/data/task1/raw",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
)
# File name → sha256 of the text inside; one text can be compressed in many ways.
MULTI30K_FILES = {
    f"{text.split}.{text.language}.gz": text.sha256
    for text in KNOWN_TEXTS
    if text.split in DOWNLOADED_SPLITS and not text.edition
}
TRIES = 3  # for one file at one mirror, if trying again can help
CHUNK = 1 << 14  # bytes
LOCK = ".download"

log = logging.getLogger("translate")


class _MirrorError(Exception):
    """Why a mirror did not deliver."""


class _TryAgainError(_MirrorError):
    """The same, but another try may succeed: it resumes the transfer, or starts anew after a bad part was deleted."""


def download_multi30k(
    root: Path,
    mirrors: Sequence[str] = MIRRORS,
    timeout: float = 30.0,
    files: Mapping[str, str] = MULTI30K_FILES,
) -> None:
    """Make sure that `root` holds `files` (name → sha256 of the text); `timeout` is in seconds, for each answer.

    A transfer that was cut off resumes where it stopped, even in a later call. A file with another text is never
    overwritten. With several processes, one downloads and the others wait for it.

    Raises:
        DataError: no mirror delivers a file, another text has its name, or the folder cannot be written.
    """
    is_new = not root.exists()
    try:
        with wait_for_lock(root / LOCK, f"downloading into {root}"):
            _fetch_missing(root, files, mirrors, timeout)
    except DataError:
        if is_new:  # If nothing has arrived, leave nothing behind: the path may have been a typo.
            with suppress(OSError):
                root.rmdir()
        raise
    except OSError as error:
        raise DataError(
            f"Cannot write into {root}: {error.strerror or error}. Set data.root to a writable folder."
        ) from None


def is_to_be_downloaded(root: Path) -> bool:
    """Whether `root` is missing, or holds only part of what an interrupted download was to bring."""
    try:
        there = {path.name for path in root.iterdir()}
    except FileNotFoundError:
        return True
    except OSError:  # Reading from it will report the reason.
        return False
    downloaded = {LOCK, *MULTI30K_FILES, *(_part(Path(file)).name for file in MULTI30K_FILES)}
    return there <= downloaded and not all(
        exists(file) and file.stat().st_size for file in map(root.joinpath, MULTI30K_FILES)
    )


def _fetch_missing(root: Path, files: Mapping[str, str], mirrors: Sequence[str], timeout: float) -> None:
    missing = [name for name, sha256 in files.items() if not _is_there(root / name, sha256)]
    for position, name in enumerate(missing):
        if failures := _fetch(root / name, files[name], mirrors, timeout):
            raise DataError(
                f"{name} could not be downloaded:\n"
                + "".join(f"  {failure}\n" for failure in failures)
                + f"Put {', '.join(missing[position:])} (from github.com/multi30k/dataset, folder data/task1/raw) "
                f"into {root} by hand, or set data.root to a folder that has them."
            )


def _is_there(path: Path, sha256: str) -> bool:
    """Whether the text is there, compressed or plain. A file without readable text counts as missing."""
    for candidate in (path.with_suffix(""), path):
        try:
            lines = read_lines(candidate)
        except DataError:
            continue
        if not lines:
            continue
        if text_sha256(lines) != sha256:
            raise DataError(
                f"{candidate} differs from Multi30k's file of that name. Move it away, or change data.root; to train "
                "on it, set data.download=false."
            )
        return True
    return False


def _part(path: Path) -> Path:
    """The file that grows during a transfer."""
    return path.with_suffix(".part.gz")


def _fetch(path: Path, sha256: str, mirrors: Sequence[str], timeout: float) -> list[str]:
    """Download one file. Returns an empty list on success, else why each mirror failed."""
    part = _part(path)
    failures = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{path.name}"
        log.info("downloading %s", url)
        try:
            _fetch_verified(url, part, sha256, timeout)
        except _MirrorError as error:
            failures.append(f"{url}: {error}")
        else:
            part.replace(path)
            return []
    return failures


def _fetch_verified(url: str, part: Path, sha256: str, timeout: float) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            resumed = _transfer(url, part, timeout)
            _verify(part, sha256, resumed)
            return
        except _TryAgainError:
            if not tries_left:
                raise


def _transfer(url: str, part: Path, timeout: float) -> bool:
    """Get what `part` still lacks, or all of it if the server cannot resume. Returns whether it resumed."""
    have = part.stat().st_size if part.exists() else 0
    try:
        response = urlopen(Request(url, headers={"Range": f"bytes={have}-"} if have else {}), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
            raise _TryAgainError("nothing to resume") from None
        raise _MirrorError(f"HTTP {error.code} {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:  # ValueError: redirected to what is no address
        raise _MirrorError(_explain(error, timeout)) from None
    resumed: bool = response.status == HTTPStatus.PARTIAL_CONTENT
    arrived = 0
    with response, part.open("ab" if resumed else "wb") as file:
        for chunk in _chunks(response, timeout):
            arrived += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if missing := response.length:  # None if the mirror has not announced how much there is
        raise _TryAgainError(f"cut off after {arrived} of {arrived + missing} bytes")
    return resumed


def _chunks(response: HTTPResponse, timeout: float) -> Iterator[bytes]:
    """The body in pieces. Only network errors become mirror errors; disk errors are not the mirror's fault."""
    while True:
        try:
            chunk = response.read(CHUNK)
        except TimeoutError as error:
            raise _MirrorError(_explain(error, timeout)) from None
        except (OSError, HTTPException) as error:
            raise _TryAgainError(_explain(error, timeout)) from None
        if not chunk:
            return
        yield chunk


def _explain(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    return f"no answer within {timeout:g} s" if isinstance(cause, TimeoutError) else str(cause)


def _verify(part: Path, sha256: str, resumed: bool) -> None:
    """Delete the file and raise unless it holds the text. If its transfer was resumed, a fresh start may help."""
    try:
        lines = read_lines(part)
    except DataError:
        flaw = "not a valid gzip file of UTF-8 text"
    else:
        found = text_sha256(lines)
        if found == sha256:
            return
        flaw = f"unexpected content: sha256 {found[:8]}… instead of {sha256[:8]}…" if lines else "an empty file"
    part.unlink()
    raise _TryAgainError(flaw) if resumed else _MirrorError(flaw)
