"""Messages between a run and its worker processes: a JSON header and bytes.

Whatever speaks this can be a worker. A frame is the length of the header (4 bytes) and of the rest
(8 bytes), both with the most significant byte first, then the header, then the rest.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, NamedTuple

_LENGTHS = struct.Struct("!IQ")


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]
    """Plain JSON values."""
    content: bytes | bytearray = b""


def write(descriptor: int, frame: Frame) -> None:
    """Writes a message whole; raises OSError where nobody reads."""
    header = json.dumps(frame.header).encode()
    for part in (_LENGTHS.pack(len(header), len(frame.content)), header, frame.content):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def read(descriptor: int) -> Frame | None:
    """The next message; None where there will be none."""
    lengths = _exactly(descriptor, _LENGTHS.size)
    if lengths is None:
        return None
    header_length, content_length = _LENGTHS.unpack(lengths)
    header = _exactly(descriptor, header_length)
    content = _exactly(descriptor, content_length)
    if header is None or content is None:
        return None
    return Frame(json.loads(header), content)


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
