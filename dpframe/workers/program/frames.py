"""Binary messages between a run and its worker processes.

A frame is a mark (4 bytes), the number of its kind (1), a tag (16), the lengths of its fields (8)
and of its content (8), and then both. The table `KINDS` has the fields of each kind in their order;
other bytes are rejected. The tag is a digest of everything after it, under the key of the request:
a box may write into any pipe that it finds, and an answer to one request must not answer another.

Any program that uses this format can be a worker. A box may replace names in modules, so names of
other modules are taken here once, before its code runs.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

_HEAD = struct.Struct("<4sB16s16s")
_LENGTHS, _WHOLE, _FLOAT = struct.Struct("<QQ"), struct.Struct("<Q"), struct.Struct("<d")
_MARK = b"dpf\x02"
_readv, _write = os.readv, os.write
_to_json, _from_json = json.JSONEncoder().encode, json.JSONDecoder().decode
_PIECE = 1 << 20  # bytes read at once, because a stated length may be wrong
_MOST_FIELDS, _MOST_CONTENT = 1 << 26, 1 << 40  # bytes
NO_KEY = bytes(16)  # of requests, and of a worker's message before the first request

# By kind: its number, below 16 if a header names it under "do" and not under "tell", and the types
# of its fields.
KINDS: dict[str, tuple[int, dict[str, str]]] = {
    "load": (1, {"key": "key", "about": "json"}),
    "draw": (2, {"key": "key", "about": "json"}),
    "query": (3, {"key": "key", "about": "json"}),
    "ready": (16, {}),
    "loaded": (17, {}),
    "done": (18, {}),
    "spoiled": (19, {"what": "texts"}),
    "refused": (20, {"why": "text"}),
    "raised": (21, {"type": "text", "blame": "text"}),
    "queried": (
        22,
        {"raised": "text?", "form": "text", "sensitivity": "text?", "numbers": "texts"},
    ),
    "outputs": (
        23,
        {
            **{"chunks": "whole", "shape": "wholes", "dtype": "text", "answering": "flag"},
            **{"natives": "wholes?s", "paces": "floats", "words": "table"},
        },
    ),
}
_BY_NUMBER = {number: kind for kind, (number, _) in KINDS.items()}


class NoFrameError(Exception):
    """The bytes are not a message, or the message is too large for this process."""


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]  # its kind under "tell" or "do", and its fields
    content: bytes | bytearray | memoryview = b""


class Packet(NamedTuple):
    """The bytes of one message, not checked yet."""

    head: bytes | bytearray
    rest: bytearray


def pack(frame: Frame, key: bytes = NO_KEY) -> list[bytes | bytearray | memoryview]:
    """Return the parts of a message; `key` is that of the request that it answers.

    Missing fields are empty.
    """
    header = frame.header
    number, types = KINDS[header["tell"] if "tell" in header else header["do"]]
    parts: list[bytes] = []
    for name, kind in types.items():
        value = header.get(name)
        if kind == "json":
            value = {k: v for k, v in header.items() if k not in ("do", *types)}
        _say(kind, value, parts.append)
    fields = b"".join(parts)
    lengths = _LENGTHS.pack(len(fields), len(frame.content))
    tag = _tag(key, number, lengths, fields, frame.content)
    return [_HEAD.pack(_MARK, number, tag, lengths), fields, frame.content]


def unpack(packet: Packet, key: bytes = NO_KEY) -> Frame:
    """Return the message that answers the request with a key; raise NoFrameError for any other."""
    _, number, tag, lengths = _HEAD.unpack(packet.head)
    size, _ = _LENGTHS.unpack(lengths)
    whole = memoryview(packet.rest)
    fields, content = whole[:size], whole[size:]
    if number not in _BY_NUMBER or tag != _tag(key, number, lengths, fields, content):
        raise NoFrameError("the box wrote between its answers")
    kind = _BY_NUMBER[number]
    header: dict[str, Any] = {"do" if number < 16 else "tell": kind}
    reader = _FieldReader(bytes(fields))
    try:
        for name, of in KINDS[kind][1].items():
            value = reader.read(of)
            if of == "json":
                header.update(value)
            else:
                header[name] = value
    except (ValueError, RecursionError, TypeError):
        raise NoFrameError("the box wrote between its answers") from None
    if reader.at != len(reader.content):
        raise NoFrameError("the box wrote between its answers")
    return Frame(header, content)


def write(descriptor: int, frame: Frame, key: bytes = NO_KEY) -> None:
    """Write a whole message; raise OSError if the other end is closed."""
    for part in pack(frame, key):
        left = memoryview(part)
        while left:
            left = left[_write(descriptor, left) :]


def receive(descriptor: int) -> Packet | None:
    """Return the next message without checking it; None at the end.

    Raises NoFrameError for other bytes; then later bytes cannot be read either.
    """
    head = _exactly(descriptor, _HEAD.size)
    if head is None:
        return None
    mark, _, _, lengths = _HEAD.unpack(head)
    fields, content = _LENGTHS.unpack(lengths)
    if mark != _MARK or fields > _MOST_FIELDS:
        raise NoFrameError("the box wrote between its answers")
    try:
        if content > _MOST_CONTENT:
            raise MemoryError
        rest = _exactly(descriptor, fields + content)
    except (MemoryError, OverflowError):
        raise NoFrameError(f"its answer of {content:,} bytes does not fit") from None
    return None if rest is None else Packet(head, rest)


def read(descriptor: int, key: bytes = NO_KEY) -> Frame | None:
    """Return the next message; None at the end; raise NoFrameError like `receive` and `unpack`."""
    packet = receive(descriptor)
    return None if packet is None else unpack(packet, key)


def _tag(key: bytes, number: int, lengths: bytes, *parts: bytes | bytearray | memoryview) -> bytes:
    hasher = blake2b(bytes([number]) + lengths, digest_size=16, key=key)
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def _exactly(descriptor: int, number: int) -> bytearray | None:
    found = bytearray()
    while len(found) < number:
        piece = bytearray(min(number - len(found), _PIECE))
        try:
            got = _readv(descriptor, [piece])
        except OSError:
            return None
        if not got:
            return None
        found += piece if got == len(piece) else piece[:got]
    return found


def _say(of: str, value: Any, tell: Callable[[bytes], object]) -> None:
    """Write a field of a type; "s" after a type stands for several values, "?" for one or none."""
    if of == "text":
        content = (value or "").encode("utf-8", "surrogatepass")
        tell(_WHOLE.pack(len(content)))
        tell(content)
    elif of == "whole":
        tell(_WHOLE.pack(value or 0))
    elif of == "float":
        tell(_FLOAT.pack(value))
    elif of == "flag":
        tell(b"\1" if value else b"\0")
    elif of == "key":
        tell(value or NO_KEY)
    elif of == "json":
        _say("text", _to_json(value), tell)
    elif of == "word":
        _say("whole", value[0], tell)
        _say("text", value[1], tell)
    elif of == "table":
        _say("words", (value or {}).items(), tell)
    elif of.endswith("?"):
        _say("flag", value is not None, tell)
        if value is not None:
            _say(of[:-1], value, tell)
    else:
        values, each = list(value or ()), of[:-1]
        tell(_WHOLE.pack(len(values)))
        for one in values:
            _say(each, one, tell)


class _FieldReader:
    """Reads fields from front to back; raises ValueError if bytes are missing."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, number: int) -> bytes:
        found = self.content[self.at : self.at + number]
        if len(found) != number:
            raise ValueError
        self.at += number
        return found

    def read(self, of: str) -> Any:
        """Read a field of a type, as `_say` has written it."""
        if of == "text":
            return self.take(self.read("whole")).decode("utf-8", "surrogatepass")
        if of == "whole":
            return _WHOLE.unpack(self.take(8))[0]
        if of == "float":
            return _FLOAT.unpack(self.take(8))[0]
        if of == "flag":
            told = self.take(1)
            if told not in (b"\0", b"\1"):
                raise ValueError
            return told == b"\1"
        if of == "key":
            return self.take(16)
        if of == "json":
            found = _from_json(self.read("text"))
            if not isinstance(found, dict):
                raise ValueError
            return found
        if of == "word":
            return self.read("whole"), self.read("text")
        if of == "table":
            return dict(self.read("words"))
        if of.endswith("?"):
            return self.read(of[:-1]) if self.read("flag") else None
        number, each = self.read("whole"), of[:-1]
        if number > len(self.content):  # each has a byte at least
            raise ValueError
        return [self.read(each) for _ in range(number)]
