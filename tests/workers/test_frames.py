"""Messages through a pipe: whole, or known to be none."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator

import pytest

from dpframe.workers.program import frames
from dpframe.workers.program.frames import Frame, NoFrameError

MESSAGES = [
    Frame({}),
    Frame({"tell": "outputs", "shape": [2, 1], "why": "ε\n\0"}, b"\0\xff" * 9),
    Frame({"tell": "done"}, bytes(1 << 20)),
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


WHOLE = written(MESSAGES[1])


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_one_that_breaks_off_is_none(length: int, pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.write(write, WHOLE[:length])
    os.close(write)
    assert frames.read(read) is None


MARK = WHOLE[:4]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello, world: I am a box that prints",
        b"{}" * 50,
        b"\0" * 64,
        MARK + struct.pack("!IQ", 1 << 31, 0) + b"{}",
        MARK + struct.pack("!IQ", 2, 1 << 62) + b"{}",
        MARK + struct.pack("!IQ", 2, 0) + b"[]",
        MARK + struct.pack("!IQ", 2, 0) + b"\xff\xff",
        MARK + struct.pack("!IQ", 9, 0) + b"[" * 9,
    ],
)
def test_what_is_no_message_is_known_at_once(nonsense: bytes, pipe: tuple[int, int]) -> None:
    """And not waited for: the pipe stays open."""
    read, write = pipe
    os.write(write, nonsense)
    with pytest.raises(NoFrameError):
        frames.read(read)


def test_a_header_nested_beyond_measure_is_none(pipe: tuple[int, int]) -> None:
    read, write = pipe
    deep = b"[" * 50_000
    os.write(write, MARK + struct.pack("!IQ", len(deep), 0) + deep)
    with pytest.raises(NoFrameError):
        frames.read(read)


def test_nobody_reads(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.close(read)
    with pytest.raises(OSError, match="Broken pipe"):
        frames.write(write, MESSAGES[0])
