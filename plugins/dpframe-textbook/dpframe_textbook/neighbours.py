"""How far apart two vectors of query answers are, in neighbours, and what is claimed for that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np

from dpframe import Gt, Mechanism, PureDP

if TYPE_CHECKING:
    from dpframe import Floats, Pair

ROUNDING = 1e-6
"""By how much a difference may pass a whole number and still be rounding."""


class EachByOne(Mechanism):
    """A mechanism on answers of which one person changes each by up to 1.

    It claims ε for neighbours and kε for answers that k steps between neighbours connect.
    """

    epsilon: Annotated[float, Gt(0)] = 0.1
    """The claim for neighbours."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon * each_by_one(pair))


class OneByOne(Mechanism):
    """A mechanism on answers of which one person changes a single one, by up to 1.

    It claims ε for neighbours and kε for answers that k steps between neighbours connect.
    """

    epsilon: Annotated[float, Gt(0)] = 0.1
    """The claim for neighbours."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon * one_by_one(pair))


def each_by_one(pair: Pair) -> int:
    """Steps from D to D′ if each changes every coordinate by up to 1."""
    return math.ceil(float(_differences(pair).max(initial=0.0)) - ROUNDING)


def one_by_one(pair: Pair) -> int:
    """Steps from D to D′ if each changes one coordinate by up to 1."""
    return int(np.ceil(_differences(pair) - ROUNDING).sum())


def _differences(pair: Pair) -> Floats:
    return np.abs(np.asarray(pair.d1, np.float64) - np.asarray(pair.d0, np.float64))
