"""The distance between two vectors of query answers in steps between neighbours, and its claim."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from dpframe.plugins import ApproxDP, Floats, Gt, Mechanism, Pair, PureDP

DIFFERENCE_ROUNDING = 1e-6
"""Largest excess of a difference over an integer that counts as rounding."""


class EachByOne(Mechanism):
    """A mechanism on answers, each of which one person changes by up to 1.

    It claims ε for neighbours, and kε for answers that are k neighbour steps apart.
    """

    epsilon: Annotated[float, Gt(0)] = 0.1
    """The claim for neighbours."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon * each_by_one(pair))


class OneByOne(Mechanism):
    """A mechanism on answers, of which one person changes only one, by up to 1.

    It claims ε for neighbours, and kε for answers that are k neighbour steps apart.
    """

    epsilon: Annotated[float, Gt(0)] = 0.1
    """The claim for neighbours."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon * one_by_one(pair))


def each_by_one(pair: Pair) -> int:
    """Return the number of steps from D to D′ if each changes every coordinate by up to 1."""
    return math.ceil(float(_differences(pair).max(initial=0.0)) - DIFFERENCE_ROUNDING)


def one_by_one(pair: Pair) -> int:
    """Return the number of steps from D to D′ if each changes one coordinate by up to 1."""
    return int(np.ceil(_differences(pair) - DIFFERENCE_ROUNDING).sum())


def of_steps(epsilon: float, delta: float, steps: int) -> ApproxDP | None:
    """Return the claim that (ε, δ)-DP makes for datasets `steps` apart; None if it makes none."""
    whole = delta * sum(math.exp(min(step * epsilon, 700.0)) for step in range(steps))
    return ApproxDP(steps * epsilon, whole) if whole < 1 else None


def changed(pair: Pair) -> int:
    """Count coordinates that differ."""
    return int(np.count_nonzero(_differences(pair)))


def _differences(pair: Pair) -> Floats:
    return np.abs(np.asarray(pair.d1, np.float64) - np.asarray(pair.d0, np.float64))
