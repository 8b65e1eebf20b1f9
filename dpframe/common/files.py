"""Read files that a user names, and write files whole or not at all."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpframe.errors import OutputError

_AT_A_TIME = 1 << 20  # bytes; otherwise Python would allocate `most` bytes at once


class NotReadableError(Exception):
    """A file cannot be read; the message is the reason."""


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a whole regular file, without waiting for pipes or devices.

    Args:
        path: a regular file, or a link to one.
        most: bytes it may have.

    Raises:
        FileNotFoundError: there is none.
        IsADirectoryError: it is a directory.
        NotReadableError: it is not a regular file, is too large, or cannot be read.
    """
    try:
        # Without waiting, because opening a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, IsADirectoryError):
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise NotReadableError(f"cannot be read: {_reason(error)}") from error
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            raise NotReadableError("is not a regular file")
        parts, size = [], 0
        try:
            while size <= most and (part := file.read(_AT_A_TIME)):
                parts.append(part)
                size += len(part)
        except OSError as error:
            raise NotReadableError(f"cannot be read: {_reason(error)}") from error
    if size > most:
        raise NotReadableError(f"has more than {most:,} bytes")
    return b"".join(parts)


def write_whole(file: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file under another name, then rename it to replace the old one.

    Args:
        file: the file; its directory exists.
        data: its new content.
        mode: its permissions.

    Raises:
        OSError: it cannot be written; the old file is unchanged.
    """
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as part:
            part.write(data)
        if mode != 0o600:  # the mode of a temporary file
            temporary.chmod(mode)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


# Files in the folder of a run, where other programs and users may have files too.
#
# A run opens only files of its own names for writing, and follows no link to write or delete.


# Some systems lack these flags. O_NONBLOCK: opening a pipe must not wait for its other end.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def made(directory: Path) -> Path:
    """Make a directory for a run, unless it exists.

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
    """Hold a directory inside a run's for one run; the lock ends with the process.

    Raises:
        OutputError: another run holds it, it cannot be written to, or it leads elsewhere.
    """
    if directory.is_symlink():
        raise OutputError(f"{directory}: is a link; a run does not follow links in its directory")
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
            raise OutputError(f"{file}: not written by dpframe; move it elsewhere")
    except OSError as error:
        if file.is_symlink():
            raise OutputError(f"{file}: a link, which a run does not follow") from error
        raise OutputError(f"{file.parent}: cannot write there: {error.strerror}") from error
    try:
        yield opened
    finally:
        os.close(opened)


def read_folder(file: Path) -> bytes:
    """Return the content of a regular file without following links.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | _NO_LINK), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return opened.read()


def replace(file: Path, content: str) -> None:
    """Write a file under another name and rename it, so that it is never half written.

    Raises:
        OSError: it cannot be written; an old file is unchanged.
    """
    temporary = file.with_name(f".{file.name}.part")
    temporary.unlink(missing_ok=True)  # replaces a link itself, not the file that it points to
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644)
    with os.fdopen(opened, "w", encoding="utf-8", newline="") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


def append(file: Path, content: str, *, durable: bool = True) -> None:
    """Append to a file; its content so far stays unchanged.

    Args:
        file: the file.
        content: text to append.
        durable: wait until the text is on disk; False leaves that to the system.

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
