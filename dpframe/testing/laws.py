"""Laws of random outputs that can be tried out.

Each accuses a correct plugin with a probability below `ERROR`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.types import Floats, HostArray

ERROR = 1e-6
"""Probability that one law accuses a plugin that keeps it."""

COORDINATES = 8
"""Of an output, that are looked at."""


def demand_same_law(one: HostArray, other: HostArray, how: str) -> None:
    """Asserts that two samples are of one distribution, coordinate by coordinate.

    Massart's inequality for each empirical distribution function, at half of the error
    [Massart1990, corollary 1].

    Args:
        one: shape [n, *dims].
        other: shape [m, *dims].
        how: says how the first was made.
    """
    pairs = list(zip(_columns(one), _columns(other), strict=True))
    log = math.log(4 * len(pairs) / ERROR)
    limit = math.sqrt(log / (2 * len(one))) + math.sqrt(log / (2 * len(other)))
    for number, (x, y) in enumerate(pairs):
        points = np.sort(np.concatenate([x, y]))
        below = [np.searchsorted(np.sort(part), points, "right") / len(part) for part in (x, y)]
        gap = float(np.abs(below[0] - below[1]).max())
        assert gap <= limit, (
            f"{how} its outputs follow another law than together: their distribution functions "
            f"are {gap:.2f} apart in coordinate {number}"
        )


def demand_ratio(on_zero: HostArray, on_one: HostArray) -> None:
    """Asserts that log-ratios of densities are those of the outputs that they are taken at.

    With r = p′/p and any set B of values of r, E[min(1, r); r ∈ B] over D is E[min(1, 1/r); r ∈ B]
    over D′; r above and below some values is tried. Hoeffding's inequality for means within [0, 1]
    [Hoeffding1963, theorem 1].

    Args:
        on_zero: ln p′/p at outputs on D, shape [n].
        on_one: the same on D′.
    """
    ratios = [np.asarray(ratio, np.float64) for ratio in (on_zero, on_one)]
    for ratio, name in zip(ratios, ("D", "D′"), strict=True):
        assert not np.isnan(ratio).any(), f"log_density is NaN at an output on {name}"
    weights = [np.exp(np.minimum(0, ratio)) for ratio in (ratios[0], -ratios[1])]
    zero, one = (
        np.bincount(np.digitize(ratio, EDGES), weight, len(EDGES) + 1) / len(ratio)
        for ratio, weight in zip(ratios, weights, strict=True)
    )
    gaps = [np.cumsum(zero - one), np.cumsum((zero - one)[::-1])]
    log = math.log(4 * 2 * len(zero) / ERROR)
    limit = sum(math.sqrt(log / (2 * len(ratio))) for ratio in ratios)
    worst = float(np.abs(gaps).max())
    assert worst <= limit, (
        "log_density is not that of the outputs: the overlap of D and D′ where the likelihood "
        f"ratio is large, or small, differs by {worst:.2f} as outputs on D and on D′ see it"
    )


def demand_distribution(ordered: HostArray, cdf: HostArray) -> None:
    """Asserts that a distribution function is that of a sample.

    [Massart1990, corollary 1], at half of the error for each of two datasets. Tells apart what
    differs by more than .05 at a few thousand numbers.

    Args:
        ordered: the sample, ascending with NaN last, shape [n].
        cdf: P(output ≤ x) at these numbers, shape [n]; not looked at where they are NaN.
    """
    shape = np.shape(cdf)
    assert shape == ordered.shape, f"cdf gave shape {shape} for {len(ordered)} numbers"
    numbers = ordered[~np.isnan(ordered)]
    share = np.searchsorted(numbers, numbers, "right") / len(ordered)
    limit = math.sqrt(math.log(4 / ERROR) / (2 * len(ordered)))
    gap = float(np.abs(share - np.asarray(cdf)[: len(numbers)]).max(initial=0.0))
    assert gap <= limit, (
        f"cdf is not that of the outputs: it differs by {gap:.2f} from the share of them"
    )


EDGES = (-2.9, -1.618, -0.731, -1e-4, 1e-4, 0.731, 1.618, 2.9)
"""Values of ln r; no round ones, because r is constant on sets of outputs for some mechanisms."""


def close(one: HostArray, other: HostArray) -> HostArray:
    """Which rows are alike but for rounding."""
    x, y = (_flat(part) for part in (one, other))
    return np.asarray(np.isclose(x, y, rtol=1e-4, atol=1e-6, equal_nan=True).all(axis=1))


def _flat(outputs: HostArray) -> Floats:
    return np.asarray(outputs, np.float64).reshape(len(outputs), -1)


def _columns(outputs: HostArray) -> Iterator[Floats]:
    """Coordinates, evenly spread over all of them; NaN is below everything."""
    flat = _flat(outputs)
    chosen = np.unique(np.linspace(0, flat.shape[1] - 1, COORDINATES).astype(int))
    for column in chosen if flat.shape[1] else ():
        yield np.nan_to_num(flat[:, column], nan=-np.inf, posinf=np.inf, neginf=-1e300)
