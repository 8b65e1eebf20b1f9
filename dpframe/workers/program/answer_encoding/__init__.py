"""Encode one answer of a black box as its kind, its exact value and its numbers.

Nothing here depends on the process: no `hash`, no `id`, no `repr` of an object of unknown class.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack
from typing import Any

from .codes import ABSENT_NUMBER, flags, number_of, numbers_in, of_int, plain, short
from .reader import Reader


def encode(answer: Any, attributes: Sequence[str] = ()) -> tuple[str, bytes, list[float]]:
    """Encode an answer: any Python value.

    From objects of unknown classes, `attributes` are read; default: the public names in their
    `__dict__` or `__slots__`.

    Returns:
        The kind in words; the exact value with its types as bytes, equal for two answers if and
        only if the answers are equal bit for bit; and the numbers, at most `MOST_NUMBERS`.

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


def packed(kind: int, value: int, numbers: Sequence[float], width: int, seconds: float) -> bytes:
    """Return one row of answers: the codes of kind and value, `width` numbers, and a time.

    It has 8 × (3 + width) bytes, of 64-bit words with the least significant byte first.
    """
    padded = list(numbers[:width]) + [ABSENT_NUMBER] * (width - len(numbers))
    return pack(f"<QQd{width}d", kind, value, seconds, *padded)


# Small tables, lists and tuples of numbers: most mechanisms always answer in the same form.

FLAT = (dict, list, tuple)
_MOST_FLAT = 32  # values in an answer whose layout is remembered
_MOST_LAYOUTS = 1 << 10
_ONES = {float, int, bool, type(None)}

_layouts: dict[Any, Any] = {}
"""By types and keys: the bytes before the values, the keys in the order of the numbers (None for a
list of floats), and the kind. None stands for an answer that is read like any other."""


def layout_of(answer: Any) -> Any:
    """Return the layout of a small table, list or tuple of numbers; None if it has none."""
    if not 0 < len(answer) <= _MOST_FLAT:
        return None
    if type(answer) is dict:
        if set(map(type, answer)) != {str}:
            return None
        look: Any = (tuple(map(type, answer.values())), tuple(answer))
    else:
        look = (tuple(map(type, answer)), type(answer))
    if look not in _layouts:
        if len(_layouts) >= _MOST_LAYOUTS:
            return None
        _layouts[look] = _new_layout(answer) if set(look[0]) <= _ONES else None
    return _layouts[look]


def _new_layout(answer: Any) -> Any:
    """Learn a layout from the reader, so that both give the same bytes."""
    keys = list(answer) if type(answer) is dict else list(range(len(answer)))
    floats = type(answer) is not dict and set(map(type, answer)) == {float}

    def read(values: Any) -> tuple[Reader, str]:
        reader = Reader(())
        like = dict(zip(keys, values)) if type(answer) is dict else type(answer)(values)
        return reader, reader.read(like)

    plain, _ = read([0.0 if floats else None] * len(keys))
    before = b"".join(plain.parts)[: -len(keys) * (8 if floats else 1)]
    # The number under each key is its place; the None keeps it from being a list of floats.
    places, _ = read([*map(float, range(len(keys) - 1)), None])
    order = [keys[-1 if x is ABSENT_NUMBER else int(x)] for x in places.numbers]
    return before, None if floats else order, Reader(()).read(answer)


def laid_out(answer: Any, layout: Any) -> tuple[str, bytes, list[float]]:
    """Encode an answer by its layout, like `encode`."""
    before, order, kind = layout
    if order is None:
        numbers = list(answer)
        value = before + pack(f"<{len(numbers)}d", *numbers)
    else:
        parts, numbers = [before], []
        for key in order:
            part, number = _one(answer[key])
            parts.append(part)
            numbers.append(number)
        value = b"".join(parts)
    marks = flags(numbers)
    return short(kind + marks), value, plain(numbers) if marks else numbers


def _one(x: Any) -> tuple[bytes, float]:
    of = type(x)
    if of is float:
        return _FLOAT(b"f", x), x
    if of is int:
        return b"i" + of_int(x), number_of(x)
    if of is bool:
        return (b"t", 1.0) if x else (b"u", 0.0)
    return b"n", ABSENT_NUMBER


_FLOAT = Struct("<cd").pack
