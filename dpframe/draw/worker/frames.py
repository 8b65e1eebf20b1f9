"""Messages between a run and its worker processes.

A message is a mark (4 bytes), the lengths of its header (4) and of its content (8), the header as
JSON, and the content: the bytes of an array whose type and shape are in the header, or of data. So
nothing but built-in types arrives, and any program that uses this format can be a worker.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, NamedTuple

_HEAD = struct.Struct("<4sIQ")
_MARK = b"dpf\x03"
_PIECE = 1 << 20  # bytes read at once, because a stated length may be wrong
_MOST_HEADER, _MOST_CONTENT = 1 << 26, 1 << 40  # bytes


class NoFrameError(Exception):
    """The bytes are not a message, or the message is too large for this process."""


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]  # its kind under "reply" or "do", and its fields
    content: bytes | bytearray | memoryview = b""


def write(descriptor: int, frame: Frame) -> None:
    """Write a whole message; raise OSError if the other end is closed."""
    header = json.dumps(frame.header).encode()
    head = _HEAD.pack(_MARK, len(header), len(frame.content))
    for part in (head + header, frame.content):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def read(descriptor: int) -> Frame | None:
    """Return the next message; None at the end.

    Raises NoFrameError for other bytes; then later bytes cannot be read either.
    """
    head = _exactly(descriptor, _HEAD.size)
    if head is None:
        return None
    mark, size, nbytes = _HEAD.unpack(head)
    if mark != _MARK or size > _MOST_HEADER:
        raise NoFrameError("the black box wrote between its answers")
    try:
        if nbytes > _MOST_CONTENT:
            raise MemoryError
        header, content = _exactly(descriptor, size), _exactly(descriptor, nbytes)
    except (MemoryError, OverflowError):
        raise NoFrameError(f"its answer of {nbytes:,} bytes does not fit") from None
    if header is None or content is None:
        return None
    try:
        fields = json.loads(bytes(header))
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NoFrameError("the black box wrote between its answers")
    return Frame(fields, content)


def _exactly(descriptor: int, number: int) -> bytearray | None:
    content = bytearray()
    while len(content) < number:
        try:
            piece = os.read(descriptor, min(number - len(content), _PIECE))
        except OSError:
            return None
        if not piece:
            return None
        content += piece
    return content
