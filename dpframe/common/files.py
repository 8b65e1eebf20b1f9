"""Read files that a user names, and write files whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

_AT_A_TIME = 1 << 20  # bytes; Python would make room for all that a file may have


class NotReadableError(Exception):
    """A file cannot be read; the message is the reason."""


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a whole file, and never wait for one that has no end.

    Args:
        path: a regular file, or a link to one.
        most: bytes it may have.

    Raises:
        FileNotFoundError: there is none.
        IsADirectoryError: it is a directory.
        NotReadableError: it is no regular file, too large, or cannot be read.
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
    """Write a file under another name first, then replace what was there before.

    Args:
        file: the file; its directory exists.
        data: its new content.
        mode: its permissions.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as part:
            part.write(data)
        if mode != 0o600:  # it has that already
            temporary.chmod(mode)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
