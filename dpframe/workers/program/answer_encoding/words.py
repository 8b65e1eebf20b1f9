"""A few words for short answers, and for texts in them."""

from __future__ import annotations

from typing import Any

from dpframe.workers.program.answer_encoding.content import code
from dpframe.workers.program.answer_encoding.texts import numbers_in


def in_short(answer: Any) -> str | None:
    """A few words for an answer, where its class is one of Python's own; else None."""
    if type(answer) in (float, int, bool, str, bytes, type(None)):
        try:
            text = repr(answer)
        except ValueError:  # an integer of thousands of digits
            return None
        return text if len(text) <= 60 else text[:57] + "…"
    return None


MOST_ITEMS = 32
"""Of an answer that is told in words, those of its lists and tables among them."""

LONGEST = 120
"""Characters of it."""


def in_words(answer: Any) -> str | None:
    """The same, also for a few such values in lists, tuples, tables and arrays."""
    text = _in_words(answer, [MOST_ITEMS])
    return text if text is None or len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _in_words(answer: Any, left: list[int]) -> str | None:
    kind = type(answer)
    if kind.__module__ == "numpy" and hasattr(answer, "tolist"):
        if getattr(answer, "size", MOST_ITEMS + 1) > left[0]:
            return None
        answer = answer.tolist()
        kind = type(answer)
    if kind not in (list, tuple, dict, set, frozenset):
        return in_short(answer)
    left[0] -= len(answer)
    if left[0] < 0:
        return None
    parts = []
    for each in answer.items() if kind is dict else answer:
        texts = [_in_words(one, left) for one in (each if kind is dict else (each,))]
        if None in texts:
            return None
        parts.append(": ".join(map(str, texts)))
    if kind in (set, frozenset):
        parts.sort()  # their order means nothing
    brackets = "[]" if kind is list else "()" if kind is tuple else "{}"
    return brackets[0] + ", ".join(parts) + brackets[1]


def texts_in(answer: Any) -> dict[int, str]:
    """Short texts in a list or a table, by the codes that their markers are made of."""
    found: dict[int, str] = {}
    rest, seen = [answer], 0
    while rest and seen < MOST_ITEMS:
        value = rest.pop(0)
        seen += 1
        if type(value) is str:
            numbers, plain = numbers_in(value)
            found[code(plain if numbers else value)] = str(in_short(value))
        elif type(value) in (list, tuple):
            rest.extend(value[:MOST_ITEMS])
        elif type(value) is dict and len(value) <= MOST_ITEMS:
            rest.extend(value.values())
    return found
