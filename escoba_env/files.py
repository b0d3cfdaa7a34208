"""Files: ``read_whole`` reads regular files of a bounded size, ``write_whole`` writes in one step.

A reader of what ``write_whole`` writes sees the old file or the new one, never a half.
``check_writable`` says beforehand whether it will be able to.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from escoba_env.checks import path_of

MAX_TEXT = 1 << 20
"""Largest config or other settings, in bytes."""
MAX_LINES = 1 << 30
"""Largest file with a line for each result."""
MAX_TENSORS = 1 << 34
"""Largest file of weights, labels or of a run that can be resumed."""
SCRATCH = ".escoba-part"
"""How the names of files end that are being written."""
_ABANDONED = 3600.0
"""Seconds after which a scratch file is that of a killed process: a write takes a few."""
_PATIENCE = 2.0

T = TypeVar("T")


def brief(text: str, most: int = 200) -> str:
    """Returns a text for a message, without its middle where it is longer than ``most``."""
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def read_whole(path: str | Path, most: int, *, name: str = "file") -> bytes:
    """Reads a regular file of a bounded size.

    A device may have no end, and opening a pipe may wait for ever.

    Args:
        path: The file, or a link to it.
        most: Largest size, in bytes.
        name: What it is called in messages.

    Raises:
        ValueError: If it cannot be read, is larger, or is a folder, device, pipe or socket.
    """
    file = path_of(name, path)
    called = f"{name} {brief(str(file))}"

    def read() -> bytes:
        _check_kind(called, file.stat(), most)
        # What it is may have changed since: such a pipe must not wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(file, flags), "rb") as opened:
            status = os.fstat(opened.fileno())
            _check_kind(called, status, most)
            return opened.read(status.st_size)

    try:
        return patiently(read)
    except OSError as error:
        raise ValueError(f"{called} cannot be read: {error.strerror or error}") from None


def check_regular(path: str | Path, most: int, *, name: str = "file") -> None:
    """Checks that ``read_whole`` would read a file, for a reader that opens files itself.

    Raises:
        ValueError: As for ``read_whole``.
    """
    file = path_of(name, path)
    called = f"{name} {brief(str(file))}"
    try:
        _check_kind(called, file.stat(), most)
    except OSError as error:
        raise ValueError(f"{called} cannot be read: {error.strerror or error}") from None


def _check_kind(called: str, status: os.stat_result, most: int) -> None:
    kind = kind_of(status)
    if kind != "a file":
        raise ValueError(f"{called} cannot be read: it is {kind}; allowed: a regular file")
    if status.st_size > most:
        raise ValueError(f"{called} is larger than {most} bytes")


def kind_of(status: os.stat_result) -> str:
    """Says in words what kind of file something is: ``"a file"`` for a regular one."""
    mode = status.st_mode
    kinds = {stat.S_ISREG: "a file", stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe"}
    kinds[stat.S_ISSOCK] = "a socket"
    return next((word for is_it, word in kinds.items() if is_it(mode)), "a device")


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Writes a file whole; its folder is made if there is none.

    Raises:
        ValueError: If it cannot be written there.
    """
    target = path_of("file", path)
    data = content.encode() if isinstance(content, str) else content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_target(target)
        remove_abandoned(target.parent)
        handle, name = tempfile.mkstemp(SCRATCH, f".{target.name[:100]}-", target.parent)
        scratch = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.chmod(0o644)
            patiently(lambda: scratch.replace(target))
        finally:
            scratch.unlink(missing_ok=True)
        sync_folder(target.parent)
    except OSError as error:
        raise ValueError(
            f"{brief(str(target))} cannot be written: {error.strerror or error}"
        ) from None


def check_writable(path: str | Path) -> None:
    """Checks that a file can be written, before work is done for it; its folder may still lack.

    Raises:
        ValueError: If it cannot.
    """
    target = path_of("file", path)
    try:
        _check_target(target)
        place = target.parent
        while not place.exists() and place != place.parent:
            place = place.parent
        # Permissions do not say everything: a file system may be read-only, or no real one.
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise ValueError(
            f"{brief(str(target))} cannot be written: {error.strerror or error}"
        ) from None


def _check_target(target: Path) -> None:
    """Checks that nothing but a regular file would be replaced.

    Raises:
        ValueError: If the target is there and is a folder, device, pipe or socket.
    """
    with suppress(FileNotFoundError):
        kind = kind_of(target.stat())
        if kind != "a file":
            raise ValueError(f"{brief(str(target))} cannot be written: it is {kind}")


def remove_abandoned(folder: Path) -> None:
    """Removes what killed processes left in a folder when they wrote something there."""
    with suppress(OSError):
        for scratch in folder.glob(f".*{SCRATCH}"):
            # Another process may be writing, or removing the same.
            with suppress(OSError):
                if time.time() - scratch.lstat().st_mtime <= _ABANDONED:
                    continue
                if scratch.is_dir() and not scratch.is_symlink():
                    shutil.rmtree(scratch)
                else:
                    scratch.unlink()


def sync_folder(folder: Path) -> None:
    """Makes sure that names in a folder outlast a loss of power, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Not every file system knows it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def patiently(act: Callable[[], T]) -> T:
    """Does something with a file; on Windows tries for a while.

    There a file that another process has open at this moment can be neither replaced nor, while it
    is being replaced, read.
    """
    if os.name != "nt":
        return act()
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return act()
        except PermissionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lets one process at a time change a folder; a killed process leaves no lock."""
    if sys.platform == "win32":
        import msvcrt

        # Folders have no locks here; the file goes with its last handle.
        flags = os.O_RDWR | os.O_CREAT | os.O_TEMPORARY
        handle = patiently(lambda: os.open(folder / ".lock", flags))
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            yield
        finally:
            os.close(handle)
    else:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        try:
            # Some network file systems have no locks; one process alone needs none.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
