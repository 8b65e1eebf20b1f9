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
MOST_HEADER = 1 << 20
"""Bytes."""


class NoFrameError(Exception):
    """What came is no message, or one that this process cannot take in."""


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]
    """Plain JSON values."""
    content: bytes | bytearray = b""


def write(descriptor: int, frame: Frame) -> None:
    """Writes a message whole; raises OSError where nobody reads."""
    header = json.dumps(frame.header).encode()
    lengths = _LENGTHS.pack(_MARK, len(header), len(frame.content))
    for part in (lengths, header, frame.content):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def read(descriptor: int) -> Frame | None:
    """The next message; None where there will be none.

    Raises:
        NoFrameError: something else came, after which nothing can be made sense of.
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
    return Frame(_table(header), content)


def _table(header: bytes | bytearray) -> dict[str, Any]:
    try:
        found = json.loads(header)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NoFrameError("the box wrote between its answers")
    return found


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
