"""Messages between a run and its worker processes: a JSON header and bytes.

Whatever speaks this can be a worker. A frame is a mark (4 bytes), the length of the header (4
bytes) and of the rest (8 bytes), both with the most significant byte first, then the header, then
the rest. A box may write into any pipe that it finds: what has no mark is no frame.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, NamedTuple

_LENGTHS = struct.Struct("!4sIQ")
_MARK = b"dpf\x01"
MOST_HEADER = 1 << 20  # bytes


class NoFrameError(Exception):
    """Bytes that are no message, or a message too large for this process."""


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]  # plain JSON values
    content: bytes | bytearray = b""


def write(descriptor: int, frame: Frame) -> None:
    """Write a whole message; raise OSError if the other end is closed."""
    header = json.dumps(frame.header).encode()
    lengths = _LENGTHS.pack(_MARK, len(header), len(frame.content))
    for part in (lengths, header, frame.content):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def read(descriptor: int) -> Frame | None:
    """Return the next message; None at the end.

    Raises:
        NoFrameError: something else came; nothing after it can be understood either.
    """
    lengths = _exactly(descriptor, _LENGTHS.size)
    if lengths is None:
        return None
    mark, header_length, content_length = _LENGTHS.unpack(lengths)
    if mark != _MARK or header_length > MOST_HEADER:
        raise NoFrameError("the box wrote between its answers")
    try:
        header = _exactly(descriptor, header_length)
        content = _exactly(descriptor, content_length)
    except (MemoryError, OverflowError):
        raise NoFrameError(f"its answer of {content_length:,} bytes does not fit") from None
    if header is None or content is None:
        return None
    try:
        table = json.loads(header.decode())
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise NoFrameError("the box wrote between its answers")
    return Frame(table, content)


def _exactly(descriptor: int, number: int) -> bytearray | None:
    found = bytearray(number)
    left = memoryview(found)
    while left:
        try:
            got = os.readv(descriptor, [left])
        except OSError:
            return None
        if not got:
            return None
        left = left[got:]
    return found
