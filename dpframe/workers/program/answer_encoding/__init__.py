"""One answer of a black box as its kind, its exact value and its numbers.

These files are also sent to interpreters that have neither dpframe nor NumPy: Python 3.8 and its
standard library are all that they use, they import each other as neighbours, and what belongs to
NumPy, pandas and others is known by how it looks. Nothing here depends on the process: no `hash`,
no `id`, no `repr` of somebody's class.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from dpframe.workers.program.answer_encoding.arrays import of_array
from dpframe.workers.program.answer_encoding.content import (
    ABSENT,
    ABSENT_NUMBER,
    MOST_NUMBERS,
    NAN,
    WHOLE,
    UnreadableError,
    bytes_of,
    code,
    sized,
    sized_prefix,
)
from dpframe.workers.program.answer_encoding.kinds import (
    RAISES,
    code_of_kind,
    flags,
    name_of,
    plain,
    short,
)
from dpframe.workers.program.answer_encoding.layouts import FLAT, laid_out, layout_of
from dpframe.workers.program.answer_encoding.reader import Reader
from dpframe.workers.program.answer_encoding.texts import (
    ADDRESS,
    MOST_READ,
    NUMBER,
    SEVERAL,
    float_of,
    numbers_in,
)
from dpframe.workers.program.answer_encoding.words import LONGEST, in_short, in_words, texts_in

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = [
    "ABSENT",
    "ABSENT_NUMBER",
    "LONGEST",
    "MOST_NUMBERS",
    "NAN",
    "WHOLE",
    "UnreadableError",
    "code",
    "code_of_kind",
    "encode",
    "encode_raised",
    "flags",
    "in_short",
    "in_words",
    "of_array",
    "row",
    "short",
    "sized_prefix",
    "texts_in",
]


def encode(answer: Any, attributes: Sequence[str] = ()) -> tuple[str, bytes, list[float]]:
    """What can be told of an answer.

    Args:
        answer: any Python value.
        attributes: names of what is read of objects of unknown classes; default: what their
            `__dict__` or `__slots__` hold in public.

    Returns:
        The kind in words; the exact value with its types as bytes, the same for two answers if and
        only if they are the same to the bit; and the numbers, at most `MOST_NUMBERS`.

    Raises:
        UnreadableError: an object shows nothing, or the answer is too large or too deep.
    """
    if type(answer) in FLAT and (known := layout_of(answer)) is not None:
        return laid_out(answer, known)
    reader = Reader(attributes)
    kind = reader.read(answer)
    if reader.of_texts and type(answer) is str:  # a report: its numbers, without a marker
        reader.numbers = []
        kind = "str like " + " ".join(numbers_in(answer)[1].split())
    reader.add_all(reader.of_texts)
    return short(kind + flags(reader.numbers)), b"".join(reader.parts), plain(reader.numbers)


def encode_raised(error: BaseException) -> tuple[str, bytes, list[float]]:
    """What can be told of an exception that a box raised, like `encode`.

    The kind is its class and its message without numbers; the numbers are those of the message.
    Addresses of objects are left out everywhere.
    """
    name = name_of(type(error))
    try:
        text = str(error)
    except Exception:  # a message that cannot be made
        text = ""
    text = ADDRESS.sub("0x", text)
    value = [b"!", sized(name.encode()), sized(bytes_of(text))]
    found = [float_of(number) for number in NUMBER.findall(text[:MOST_READ])]
    words = SEVERAL.sub("#", NUMBER.sub("#", " ".join(text.split())))
    kind = RAISES + name + (": " + words if words else "")
    return short(kind), b"".join(value), found[:MOST_NUMBERS]


def row(
    kind: str, value: bytes, numbers: Sequence[float], width: int, seconds: float = 0.0
) -> bytes:
    """One row of an array of answers as bytes: what `encode` gave, `width` numbers, and a time.

    Returns:
        8 × (3 + width) bytes, of 64-bit words with the least significant byte first.
    """
    padded = list(numbers[:width]) + [ABSENT_NUMBER] * (width - len(numbers))
    return struct.pack(f"<QQd{width}d", code_of_kind(kind), code(value), seconds, *padded)
