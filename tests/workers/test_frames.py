"""Messages through a pipe: whole, or known to be none."""

from __future__ import annotations

import os
import random
import struct
import threading
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest

from dpframe.errors import SampleError
from dpframe.sampling.address import Asking, Shape, Stream, of_answers
from dpframe.workers.program import frames
from dpframe.workers.program.frames import Frame, NoFrameError, Packet
from dpframe.workers.program.query import Refused, heard
from dpframe.workers.requests import Request, drawn, told_in

MESSAGES = [
    Frame({"tell": "ready"}),
    Frame({"tell": "refused", "why": "ε\n\0\ud800"}, b"\0\xff" * 9),
    Frame({"tell": "done"}, bytes(1 << 21)),
    Frame(
        {
            **{"tell": "outputs", "chunks": 2, "shape": [2, 1], "dtype": "<f8"},
            **{"answering": True, "natives": [None, [], [2, 3]], "paces": [0.5, 1e-9]},
            "words": {(1 << 64) - 1: "a", 0: ""},
        },
        b"content",
    ),
    Frame({"do": "draw", "key": bytes(16), "rows": 3, "answers": {"limit": None, "x": [1.5]}}),
    Frame(
        {
            **{"tell": "queried", "raised": None, "form": "", "sensitivity": "1/3"},
            "numbers": ["1", "nan"],
        }
    ),
    Frame({"tell": "spoiled", "what": []}),
    Frame({"tell": "raised", "type": "", "blame": "x"}),
]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    both = os.pipe()
    yield both
    for end in both:
        try:
            os.close(end)
        except OSError:
            continue


def test_messages_come_whole_and_in_order(pipe: tuple[int, int]) -> None:
    read, write = pipe

    def speak() -> None:
        for message in MESSAGES:
            frames.write(write, message)
        os.close(write)

    speaker = threading.Thread(target=speak)
    speaker.start()
    for message in MESSAGES:
        assert frames.read(read) == message
    assert frames.read(read) is None
    speaker.join()


def written(message: Frame) -> bytes:
    read, write = os.pipe()
    frames.write(write, message)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        return file.read()


KEY = bytes(range(16))
WHOLE = written(MESSAGES[1])


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_one_that_breaks_off_is_none(length: int, pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.write(write, WHOLE[:length])
    os.close(write)
    assert frames.read(read) is None


MARK = WHOLE[:4]


def headed(*, mark: bytes = MARK, kind: int = 18, fields: int = 0, content: int = 0) -> bytes:
    return mark + bytes([kind]) + bytes(16) + struct.pack("<QQ", fields, content)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello, world: I am a box that prints much",
        b"{}" * 50,
        b"\0" * 64,
        headed(fields=1 << 27),
        headed(content=1 << 62),
        headed(mark=b"dpf\x01"),
        headed(),
        headed(kind=0),
        headed(kind=255, fields=2) + b"[]",
    ],
)
def test_what_is_no_message_is_known_at_once(nonsense: bytes, pipe: tuple[int, int]) -> None:
    """And not waited for: the pipe stays open."""
    read, write = pipe
    os.write(write, nonsense)
    with pytest.raises(NoFrameError):
        frames.read(read)


def test_a_message_answers_one_request_alone() -> None:
    packet = packed(MESSAGES[1], KEY)
    assert frames.unpack(packet, KEY) == MESSAGES[1]
    for other in (frames.NO_KEY, KEY[::-1]):
        with pytest.raises(NoFrameError):
            frames.unpack(packet, other)


def test_nobody_reads(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.close(read)
    with pytest.raises(OSError, match="Broken pipe"):
        frames.write(write, MESSAGES[0])


# Forgeries: the key is that of the request, as a box could find it in its process.


LEFT = Request(0, 0, Stream(0, "g", 0, "eval"), 0, 0, 4, 8)
SHAPES = {
    "numbers": Shape((3,), np.dtype("<f8")),
    "answers": of_answers(Asking(), 3, None),
    "unknown": None,
}
OUTPUTS = {
    "tell": "outputs",
    **{"chunks": 2, "shape": [16, 3], "dtype": "<f8", "answering": False},
    **{"natives": [], "paces": [], "words": {}},
}


def packed(frame: Frame, key: bytes = frames.NO_KEY) -> Packet:
    head, fields, content = map(bytes, frames.pack(frame, key))
    return Packet(head, bytearray(fields + content))


def outputs_of(shape: Shape | None) -> Frame:
    """A message that is right."""
    if shape is None or shape.asking is None:
        return Frame(OUTPUTS, np.ones((16, 3)).tobytes())
    rows = np.ones((16, *shape.dims), np.uint64)
    rows[:, 2] = 0
    told = {"shape": [16, shape.dims[0]], "dtype": "<u8", "answering": True}
    words = {"words": {3: "a", 5: "bc"}, "natives": [[3], None], "paces": [0.5]}
    return Frame({**OUTPUTS, **told, **words}, rows.tobytes())


def takes(packet: Packet, shape: Shape | None, key: bytes = KEY) -> bool:
    """True if a run counts what is in a message; nothing but its own errors may come."""
    try:
        frame = frames.unpack(packet, key)
        return (
            drawn(frame, LEFT._replace(shape=shape), "sample") is not None
            and told_in(frame) is not None
        )
    except (NoFrameError, SampleError):
        return False


WRONG: dict[str, list[Any]] = {
    "tell": ["done", "loaded", "ready", "spoiled", "refused", "raised", "queried", "load", "draw"],
    "chunks": [0, 1, 3, 5, 1 << 63],
    "shape": [[], [16], [3, 16], [16, 3, 1 << 62], [16, 1 << 60], [15, 3], [8, 6], [1 << 63, 0]],
    "dtype": [*("O", "", "|O8", "<f4", ">f4", "<U2", "V8", "M8[s]", "f8,f8", "<i8", "<c16")],
    "answering": [True],
}


def forged(rng: random.Random, frame: Frame, key: bytes) -> Packet:
    """A message that is wrong in one of many ways."""
    way = rng.randrange(6)
    if way == 0:  # a field that does not fit, with the right tag
        name = rng.choice([*WRONG])
        value = rng.choice(WRONG[name])
        if name == "answering":
            value = not frame.header[name]
        header = {**frame.header, name: value}
        if header == frame.header or (name == "dtype" and value == frame.header["dtype"]):
            header["chunks"] = 0
        return packed(Frame(header, frame.content), key)
    if way == 1:  # more or less content, with the right tag
        content = bytes(frame.content)
        cut = content[: rng.randrange(len(content))] if rng.random() < 0.5 else content + b"\0"
        return packed(Frame(frame.header, cut), key)
    if way == 2:  # the answer to another request
        return packed(frame, bytes(rng.randrange(256) for _ in range(16)))
    found = packed(frame, key)
    head, rest = bytearray(found.head), bytearray(found.rest)
    if way == 3:  # flipped bits
        for _ in range(rng.choice([1, 1, 2, 50])):
            part = rng.choice([head, rest])
            place = rng.randrange(4, len(part)) if part is head else rng.randrange(len(part))
            part[place] ^= 1 << rng.randrange(8)
        if (head, rest) == (bytearray(found.head), found.rest):
            rest[0] ^= 1
        return Packet(bytes(head), rest)
    if way == 4:  # fields of another kind or of nothing, with the right tag
        fields = bytes(rng.randrange(256) for _ in range(rng.randrange(80)))
        kind = rng.choice([1, 2, 3, *range(16, 24)])
        lengths = struct.pack("<QQ", len(fields), 0)
        tag = blake2b(bytes([kind]) + lengths + fields, digest_size=16, key=key).digest()
        return Packet(MARK + bytes([kind]) + tag + lengths, bytearray(fields))
    return Packet(bytes(head[:21]) + rng.randbytes(16), rest[: rng.randrange(len(rest))])


def forge(number: int, seed: int) -> int:
    """Return how many of some forgeries are taken."""
    rng = random.Random(seed)
    right = [(outputs_of(shape), shape) for shape in SHAPES.values()]
    assert all(takes(packed(frame, KEY), shape) for frame, shape in right)
    taken = 0
    for _ in range(number):
        frame, shape = rng.choice(right)
        packet = forged(rng, frame, KEY)
        if shape is None and frames_differ_only_in_form(packet):
            continue
        taken += takes(packet, shape)
    return taken


def frames_differ_only_in_form(packet: Packet) -> bool:
    """True if a message is right for a box of which no output is known yet."""
    try:
        found = frames.unpack(packet, KEY)
        array = np.frombuffer(found.content, found.header["dtype"]).reshape(found.header["shape"])
        return array.dtype.kind in "biufc" and len(array) == 8 * found.header["chunks"] > 0
    except Exception:
        return False


def test_no_forged_message_is_taken() -> None:
    assert forge(3_000, 1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_none_of_a_million_forged_messages_is_taken(seed: int) -> None:
    assert forge(100_000, seed) == 0


@pytest.mark.parametrize(
    ("column", "bits"), [(2, 0x7FF8 << 48), (2, 0x7FF0 << 48), (2, 0xBFF0 << 48)]
)
def test_a_time_is_a_number_of_seconds(column: int, bits: int) -> None:
    right = outputs_of(SHAPES["answers"])
    rows = np.frombuffer(right.content, np.uint64).reshape(16, -1).copy()
    rows[3, column] = bits
    assert not takes(packed(Frame(right.header, rows.tobytes()), KEY), SHAPES["answers"])
    paces = {**right.header, "paces": [struct.unpack("<d", struct.pack("<Q", bits))[0]]}
    assert not takes(packed(Frame(paces, right.content), KEY), SHAPES["answers"])


def test_booleans_are_true_or_false() -> None:
    shape = Shape((3,), np.dtype("?"))
    told = {**OUTPUTS, "dtype": "|b1"}
    assert takes(packed(Frame(told, bytes([0, 1, 1] * 16)), KEY), shape)
    assert not takes(packed(Frame(told, bytes([0, 1, 2] * 16)), KEY), shape)


def test_the_end_comes_after_the_last_chunk_and_not_before() -> None:
    done = Frame({"tell": "done"})
    assert drawn(done, LEFT._replace(first=4), "sample") is None
    for first in (0, 3):
        with pytest.raises(NoFrameError):
            drawn(done, LEFT._replace(first=first), "sample")


def test_no_more_chunks_come_than_are_left() -> None:
    for chunks in (4, 5):
        told = {**OUTPUTS, "chunks": chunks, "shape": [8 * chunks, 3]}
        frame = Frame(told, np.ones((8 * chunks, 3)).tobytes())
        assert takes(packed(frame, KEY), SHAPES["numbers"]) == (chunks == 4)


def test_fields_end_where_they_should() -> None:
    content = b"beyond"
    lengths = struct.pack("<QQ", len(content), 0)
    tag = blake2b(bytes([18]) + lengths + content, digest_size=16, key=KEY).digest()
    with pytest.raises(NoFrameError):
        frames.unpack(Packet(MARK + bytes([18]) + tag + lengths, bytearray(content)), KEY)


@pytest.mark.parametrize("number", ["x", "1/0", "0x1p99999", "1" * 9999, "nan/2", ""])
def test_what_a_query_tells_is_a_number(number: str) -> None:
    told = {"tell": "queried", "raised": None, "form": "a number", "numbers": [number]}
    with pytest.raises(Refused, match="something else"):
        heard(Frame(told))
