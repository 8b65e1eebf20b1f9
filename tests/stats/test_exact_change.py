"""Changes between floats, exactly: compared with fractions, and where rounding would lie."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as some

from dpframe.draw.sensitivity import change, finite_parts, unlike

FLOATS = some.floats(allow_nan=False, allow_infinity=False)
PAIRS = some.lists(some.tuples(FLOATS, FLOATS | some.integers() | some.fractions()), max_size=5)


@given(PAIRS)
def test_as_fractions_say(pairs: list[tuple[float, float]]) -> None:
    before, after = [x for x, _ in pairs], [y for _, y in pairs]
    apart = [abs(Fraction(x) - Fraction(y)) for x, y in pairs]
    assert change(before, after, 1).power == sum(apart)
    assert change(before, after, 2).power == sum(d * d for d in apart)
    assert change(before, after, math.inf).power == max(apart, default=0)


def test_rounding_is_no_excess_and_nothing_is_rounded() -> None:
    found = change([0.1 + 0.2], [0.0], 1)  # 0.30000000000000004
    assert found.exceeds(0.3, Fraction(0))
    assert not found.exceeds(0.3)
    assert 1 < found.factor(0.3) < 1 + 1e-15
    big = change([2.0**53], [2.0**53 + 2], 1)  # a neighbour of 1 apart, and the sum moves by 2
    assert big.factor(1.0) == 2
    assert big.exceeds(1.0)
    assert change([1.0], [0.0], 1).exceeds(1 - 2e-6)
    assert not change([1.0], [0.0], 1).exceeds(1 - 0.5e-6)


def test_the_euclidean_norm_is_compared_by_its_square() -> None:
    found = change([3.0, 0.0], [0.0, 4.0], 2)
    assert (found.size, found.factor(2.5)) == (5.0, 2.0)
    assert not found.exceeds(5.0, Fraction(0))
    assert found.exceeds(math.nextafter(5.0, 0), Fraction(0))


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_the_largest_and_the_smallest(norm: float) -> None:
    assert change([1e308] * 4, [-1e308] * 4, norm).size == math.inf
    assert change([1e308] * 4, [-1e308] * 4, norm).exceeds(1.7e308)
    assert change([5e-324], [0.0], norm).size == 5e-324
    assert change([5e-324], [0.0], norm).factor(0.0) == math.inf
    assert change([5e-324], [0.0], norm).exceeds(0.0)
    assert not change([7.0], [7.0], norm).exceeds(0.0)
    assert change([7.0], [7.0], norm).factor(0.0) == 0


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ([1.0, math.nan], [2.0, math.nan], None),
        ([1.0, math.nan], [2.0, 3.0], 1),
        ([math.inf], [math.inf], None),
        ([math.inf], [-math.inf], 0),
        ([math.inf], [math.nan], 0),
        ([1], [math.inf], 0),
    ],
)
def test_what_is_no_number_on_one_side(
    before: list[float], after: list[float], place: int | None
) -> None:
    assert unlike(before, after) == place


def test_only_what_is_finite_on_both_sides_is_measured() -> None:
    assert finite_parts([1.0, math.nan, 3], [2.0, 2.0, 5]) == ([1.0, 3], [2.0, 5])


def test_other_norms_are_not_known() -> None:
    with pytest.raises(ValueError, match="norm"):
        change([1.0], [0.0], 3)
