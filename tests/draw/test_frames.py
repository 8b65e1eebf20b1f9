"""Messages through a pipe: whole, or known to be none."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpframe.draw.requests import Request, drawn
from dpframe.draw.streams import Asking, Shape, Stream, of_answers
from dpframe.draw.worker import frames
from dpframe.draw.worker.frames import Frame, NoFrameError
from dpframe.draw.worker.query import Refused, parse_reply
from dpframe.errors import SampleError

MESSAGES = [
    Frame({"reply": "ready"}),
    Frame({"reply": "refused", "why": "ε\n\0\ud800"}, b"\0\xff" * 9),
    Frame({"reply": "done"}, bytes(1 << 21)),
    Frame(
        {
            "words": [[(1 << 64) - 1, "a"], [0, ""]],
            "durations": [0.1, 1e-9],
            "natives": [None, []],
        }
    ),
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


def test_a_message_that_breaks_off_is_none() -> None:
    for length in range(len(WHOLE)):
        read, write = os.pipe()
        os.write(write, WHOLE[:length])
        os.close(write)
        assert frames.read(read) is None
        os.close(read)


def headed(*, header: bytes = b"{}", size: int | None = None, content: int = 0) -> bytes:
    return struct.pack("<4sIQ", WHOLE[:4], len(header) if size is None else size, content) + header


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello, world: I am a box that prints much",
        b"\0" * 64,
        headed(size=1 << 27),
        headed(content=1 << 62),
        headed(header=b"[]"),
        headed(header=b"{"),
    ],
)
def test_other_bytes_are_noticed_at_once(nonsense: bytes, pipe: tuple[int, int]) -> None:
    """And not waited for: the pipe stays open."""
    read, write = pipe
    os.write(write, nonsense)
    with pytest.raises(NoFrameError):
        frames.read(read)


def test_writing_fails_if_the_other_end_is_closed(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.close(read)
    with pytest.raises(OSError, match="Broken pipe"):
        frames.write(write, MESSAGES[0])


# Answers that do not fit the request.


LEFT = Request(0, 0, Stream(0, "g", 0, "eval"), 0, 0, 4, 8)
NUMBERS = Shape((3,), np.dtype("<f8"))
ANSWERS = of_answers(Asking(), 3, None)
OUTPUTS: dict[str, Any] = {"reply": "outputs", "chunks": 2, "shape": [16, 3], "dtype": "<f8"}


def taken(header: dict[str, Any], shape: Shape | None, content: bytes | None = None) -> Any:
    content = np.ones((16, 3)).tobytes() if content is None else content
    return drawn(Frame(header, content), LEFT._replace(shape=shape), "sample")


def test_an_answer_that_fits_is_taken() -> None:
    assert taken(OUTPUTS, NUMBERS).outputs.shape == (16, 3)
    rows = np.ones((16, *ANSWERS.dims), np.uint64)
    more = {"shape": [*rows.shape], "dtype": "<u8", "answering": True, "words": [[3, "a"]]}
    found = taken({**OUTPUTS, **more, "natives": [[3], None]}, ANSWERS, rows.tobytes())
    assert found.words == {3: "a"}
    assert found.natives == {(3,), None}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"reply": tell} for tell in ("done", "loaded", "queried")),
        *({"chunks": chunks} for chunks in (0, 1, 5, None, "2")),
        *({"shape": shape} for shape in ([], [16], [3, 16], [16, 1 << 60], [15, 3], None)),
        *({"dtype": dtype} for dtype in ("O", "?!", "<f4", "<i8", None)),
        {"answering": True},
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(NoFrameError):
        taken({**OUTPUTS, **wrong}, NUMBERS)


def test_a_short_content_is_refused() -> None:
    with pytest.raises(NoFrameError):
        taken(OUTPUTS, NUMBERS, bytes(8))


def test_a_report_of_an_error_is_raised() -> None:
    with pytest.raises(SampleError, match="sample raised KeyError"):
        taken({"reply": "raised", "type": "KeyError", "error": "KeyError: 1"}, NUMBERS)


def test_a_query_that_is_not_of_numbers_is_refused() -> None:
    with pytest.raises(Refused):
        parse_reply(Frame({"raised": None, "form": "a number", "numbers": ["1.5x"]}))
