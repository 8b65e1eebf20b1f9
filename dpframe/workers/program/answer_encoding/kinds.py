"""Kinds of answers in words."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dpframe.workers.program.answer_encoding.content import ABSENT_NUMBER, NAN, code

MOST_TEXT = 240
"""Characters of a kind in words."""

PLACES = 16
"""Numbers of which the kind says where NaN and infinities are; above, only whether there are."""

RAISES = "raises "
"""How the kind of an exception begins, and no other."""

_INF = float("inf")


@lru_cache(maxsize=1 << 12)
def code_of_kind(kind: str) -> int:
    """64 bits that stand for a kind; the last one says whether it is an exception."""
    return code(kind) & ~1 | kind.startswith(RAISES)


def name_of(kind: Any) -> str:
    """Of a class; modules are left out, since a box may be loaded under another name."""
    if kind is dict or kind is list or kind is tuple:
        return str(kind.__name__)
    return str(getattr(kind, "__qualname__", kind.__name__)).rsplit("<locals>.", 1)[-1]


def short(kind: str) -> str:
    """A kind in words, cut where it is long; what is cut off still makes a difference."""
    if len(kind) <= MOST_TEXT:
        return kind
    return f"{kind[:MOST_TEXT]}… ({code(kind) >> 32:08x})"


def flags(numbers: list[float]) -> str:
    """Where the numbers are none, or infinite, in words."""
    total = sum(numbers)
    if total - total == 0:  # the fast way for most
        return ""
    found = []
    for what, where in (
        ("NaN", [i for i, x in enumerate(numbers, 1) if x != x and x is not ABSENT_NUMBER]),
        ("inf", [i for i, x in enumerate(numbers, 1) if x == _INF]),
        ("-inf", [i for i, x in enumerate(numbers, 1) if x == -_INF]),
    ):
        if where and len(numbers) == 1:
            return ", " + what
        if where and len(numbers) <= PLACES:
            found.append(what + " at " + ", ".join(map(str, where)))
        elif where:
            found.append(what)
    return " with " + " and ".join(found) if found else ""


def plain(numbers: list[float]) -> list[float]:
    """With one NaN in place of all that are the answer's own."""
    return [x if x == x or x is ABSENT_NUMBER else NAN for x in numbers]


def listed(kinds: list[str]) -> str:
    """What a sequence holds, in words."""
    if not kinds:
        return ""
    if len(set(kinds)) == 1:
        return " " + kinds[0]
    return " (" + ", ".join(kinds) + ")"
