"""Small tables, lists and tuples of numbers: most boxes answer alike always."""

from __future__ import annotations

import struct
from typing import Any

from dpframe.workers.program.answer_encoding.content import ABSENT_NUMBER, number_of, of_int
from dpframe.workers.program.answer_encoding.kinds import flags, plain, short
from dpframe.workers.program.answer_encoding.reader import Reader

MOST_FLAT = 32
"""Values of a small table or list whose layout is remembered."""

MOST_LAYOUTS = 1 << 10

FLAT = (dict, list, tuple)

_ONES = {float, int, bool, type(None)}

_layouts: dict[Any, Any] = {}
"""By all but the values: what stands before these, the keys in the order of the numbers (None where
all are floats of a list), and the kind. None: read it as any other."""


def layout_of(answer: Any) -> Any:
    """How a small table, list or tuple of numbers is laid out: most boxes answer alike always."""
    if not 0 < len(answer) <= MOST_FLAT:
        return None
    if type(answer) is dict:
        if set(map(type, answer)) != {str}:
            return None
        look: Any = (tuple(map(type, answer.values())), tuple(answer))
    else:
        look = (tuple(map(type, answer)), type(answer))
    if look not in _layouts:
        if len(_layouts) >= MOST_LAYOUTS:
            return None
        _layouts[look] = _new_layout(answer) if set(look[0]) <= _ONES else None
    return _layouts[look]


def _new_layout(answer: Any) -> Any:
    """Asks the reader for answers of the same look, so that both tell the same."""
    keys = list(answer) if type(answer) is dict else list(range(len(answer)))
    floats = type(answer) is not dict and set(map(type, answer)) == {float}

    def read(values: Any) -> tuple[Reader, str]:
        reader = Reader(())
        like = dict(zip(keys, values)) if type(answer) is dict else type(answer)(values)
        return reader, reader.read(like)

    plain, _ = read([0.0 if floats else None] * len(keys))
    before = b"".join(plain.parts)[: -len(keys) * (8 if floats else 1)]
    # Whole numbers and None, so that it is no list of floats.
    places, _ = read([*map(float, range(len(keys) - 1)), None])
    order = [keys[-1 if x is ABSENT_NUMBER else int(x)] for x in places.numbers]
    return before, None if floats else order, Reader(()).read(answer)


def laid_out(answer: Any, layout: Any) -> tuple[str, bytes, list[float]]:
    """What `encode` gives, by a layout that is known."""
    before, order, kind = layout
    if order is None:
        numbers = list(answer)
        value = before + struct.pack(f"<{len(numbers)}d", *numbers)
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


_FLOAT = struct.Struct("<cd").pack
