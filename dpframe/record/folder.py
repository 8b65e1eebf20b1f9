"""The folder of a run: one run at a time, no link followed, no half-written file.

What lies there may be anybody's. Only files that a run makes itself are opened for writing, under
names of its own, and nothing is written, or deleted, through a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from typing import TYPE_CHECKING

from dpframe.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Not on every system; nor would a pipe be opened without someone at its other end.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def made(directory: Path) -> Path:
    """A directory for a run, made if it is not there.

    Raises:
        OutputError: it cannot be made or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise OutputError(f"{directory}: cannot write there: {error.strerror}") from error
    return directory


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds a directory inside a run's for one run; the lock goes with the process.

    Raises:
        OutputError: another run holds it, it cannot be written to, or it leads elsewhere.
    """
    if directory.is_symlink():
        raise OutputError(f"{directory}: a link, and a run does not follow links in its directory")
    made(directory)
    with _opened(directory / "lock") as lock:
        try:
            import fcntl
        except ImportError:  # a system without such locks
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"{directory.parent}: another run is using this directory") from None
        yield


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[int]:
    try:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o644)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OutputError(f"{file}: not a file of dpframe; move it away")
    except OSError as error:
        if file.is_symlink():
            raise OutputError(f"{file}: a link, which a run does not follow") from error
        raise OutputError(f"{file.parent}: cannot write there: {error.strerror}") from error
    try:
        yield opened
    finally:
        os.close(opened)


def read(file: Path) -> bytes:
    """The content of a regular file, not of one that a link leads to.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | _NO_LINK), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return opened.read()


def replace(file: Path, content: str) -> None:
    """Writes a file under another name and renames it, so that it is never half there.

    Raises:
        OSError: it cannot be written; the old one, if there is one, is as it was.
    """
    temporary = file.with_name(f".{file.name}.part")
    temporary.unlink(missing_ok=True)  # a link too: itself, not what it leads to
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644)
    with os.fdopen(opened, "w", encoding="utf-8", newline="") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


def append(file: Path, content: str, *, durable: bool = True) -> None:
    """Adds to a file, on the disk when it returns; what was there is never touched.

    Args:
        file: where.
        content: what.
        durable: False: with the system when it returns, on the disk when that likes.

    Raises:
        OSError: it cannot be written; then nothing was added.
    """
    opened = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINK, 0o644)
    with os.fdopen(opened, "rb+", buffering=0) as out:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        before = out.seek(0, os.SEEK_END)
        try:
            data = content.encode()
            while data:
                data = data[out.write(data) :]
            if durable:
                os.fsync(opened)
        except BaseException:
            out.truncate(before)
            raise
