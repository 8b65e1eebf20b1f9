"""The bytes of exact values, the codes that stand for them, and numbers as floats."""

from __future__ import annotations

import hashlib
import struct
import sys
from typing import Any

ABSENT = 0x7FF80000_0000AB5E
"""Bits of the NaN that stands where an answer has no number."""

ABSENT_NUMBER: float = struct.unpack("<d", struct.pack("<Q", ABSENT))[0]
"""The same as a float; told from other NaNs by identity."""

NAN: float = struct.unpack("<d", struct.pack("<Q", 0x7FF80000_00000000))[0]
"""Every NaN of an answer, in its numbers; the value keeps which one it was."""

MOST_NUMBERS = 8192
"""Numbers of one answer; what lies beyond is only part of the value."""

WHOLE = 1 << 16
"""Bytes above which a value holds the digest of a text or an array."""


class UnreadableError(Exception):
    """An answer of which nothing can be told."""


def code(text: str | bytes) -> int:
    """64 bits that stand for a text or bytes, the same in every process."""
    content = bytes_of(text) if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def bytes_of(text: str) -> bytes:
    """A text as bytes, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def sized_prefix(length: int) -> bytes:
    """What stands before so many bytes, at most `WHOLE`."""
    return b"=" + struct.pack("<Q", length)


def sized(content: bytes) -> bytes:
    """Bytes with their length before them; of many a digest."""
    if len(content) > WHOLE:
        digest = hashlib.blake2b(content, digest_size=32).digest()
        return b"#" + struct.pack("<Q", len(content)) + digest
    return sized_prefix(len(content)) + bytes(content)


def of_int(value: int) -> bytes:
    """A whole number of any size."""
    return sized(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def number_of(x: Any) -> float:
    """The float nearest to a number of any size."""
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -sys.float_info.max
