"""Single values that break libraries, for each kind of column, the most telling first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.builtin.pairs._plain import same_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.builtin.neighbourhoods._columns import Known


class Breaker(NamedTuple):
    """A value, and what it is in words."""

    value: Any
    words: str


LONG = "long " * 400
"""A text that no fixed field holds."""


def of_number(column: Known) -> Iterator[Breaker]:
    """Values for a column of numbers."""
    far = 1000 * max(column.width, 1.0)
    yield Breaker(math.nan, "NaN")
    yield Breaker(1e30, "1e30")
    yield Breaker(math.inf, "inf")
    yield Breaker(column.number(column.high + far), "far above its bounds")
    yield Breaker(None, "a missing value")
    if column.whole:
        yield Breaker(column.number(column.high + 1), "a value that no other record has")
    yield Breaker(column.number(column.low - far), "far below its bounds")
    yield Breaker(-1e30, "−1e30")
    yield Breaker(-math.inf, "−inf")
    if column.whole:
        yield Breaker(2**63 - 1, "2^63 − 1")
        yield Breaker(2**31, "2^31")
        yield Breaker(-(2**63), "−2^63")
        yield Breaker(2**53 + 1, "2^53 + 1")
        yield Breaker(column.low + 0.5, "a fraction among whole numbers")
        yield Breaker(2**31 - 1, "2^31 − 1")
        yield Breaker(2**64 - 1, "2^64 − 1")
    yield Breaker(1.7976931348623157e308, "the largest float")
    yield Breaker("a", "a text among numbers")
    yield Breaker(-0.0, "−0.0")
    yield Breaker(5e-324, "the smallest float")
    yield Breaker(-1.7976931348623157e308, "the most negative float")
    yield Breaker(math.nextafter(column.high, math.inf), "just above its bounds")
    yield Breaker(math.nextafter(column.low, -math.inf), "just below its bounds")
    yield Breaker(2.0**64, "2^64")
    yield Breaker(1e39, "more than float32 holds")
    yield Breaker("", "an empty text among numbers")
    yield Breaker(True, "a boolean among numbers")
    yield Breaker("1", "a number written as a text")
    yield Breaker(2.0**53 + 2, "2^53 + 2")
    yield Breaker(1e-40, "a float32 denormal")


def of_category(column: Known) -> Iterator[Breaker]:
    """Values for a column of categories: first those that it has not, then odd ones."""
    kinds = {type(one) for one in column.categories}
    if kinds <= {int}:
        yield Breaker(max(column.categories, default=0) + 1, "an unknown category")
    elif kinds <= {int, float}:
        yield Breaker(float(max(column.categories)) + 1.0, "an unknown category")
    elif bool in kinds:
        yield Breaker(2, "no boolean")
    else:
        yield Breaker("unknown", "an unknown category")
    yield Breaker(None, "a missing value")
    yield Breaker("", "an empty text")
    yield Breaker(math.nan, "NaN")
    if str in kinds:
        first = next(one for one in column.categories if isinstance(one, str))
        yield Breaker(LONG, "a very long text")
        yield Breaker(0, "a number among texts")
        for value, words in (
            (f"{first} ", "a category with a blank after it"),
            (first.swapcase(), "a category in other letters"),
            ('a,"b"\n', "a text with a comma, quotes and a new line"),
            ("nan", "the text nan"),
            ("Ünïcödé \U0001f600", "a text beyond ASCII"),
            ("\x00", "a null character"),
            ("0001-01-01", "a date long ago"),
        ):
            if not any(same_cell(value, one) for one in column.categories):
                yield Breaker(value, words)
    else:
        yield Breaker(-1, "−1")
        yield Breaker(10**6, "a category far beyond the others")
        yield Breaker(0.5, "a category between two others")
        yield Breaker("a", "a text among numbers")


def breakers(column: Known) -> Iterator[Breaker]:
    """Values for any column; none for the one that says whose a record is."""
    if column.kind == "number":
        yield from of_number(column)
    elif column.kind == "category":
        yield from of_category(column)
