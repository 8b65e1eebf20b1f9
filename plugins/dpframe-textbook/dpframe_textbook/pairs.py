"""Pairs of query answers from neighbouring datasets, and pairs of words."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np

from dpframe.plugins import Floats, Ge, Pair

Name = Literal[
    "one-above",
    "one-below",
    "one-above-rest-below",
    "one-below-rest-above",
    "half-half",
    "all-above",
    "all-below",
    "x-shape",
]


class QueryPattern(Pair, name="query-pattern"):
    """One of the eight patterns of [Ding2018], for `length` queries.

    D is 1 everywhere; D′ is 2 for the answers "above" and 0 for those "below". x-shape: D is 1 in
    the first half and 0 in the second, D′ the reverse. One answer differs in the first two
    patterns, and all answers differ in the others. Answers are clipped to [low, high].
    """

    adjacency: ClassVar[str] = "answers of a query change by up to 1"
    parameters_say_all: ClassVar[bool] = True

    length: Annotated[int, Ge(1)]
    """Number of queries."""
    pattern: Name = "one-above"
    """The pattern of the answers on D and D′."""
    swapped: bool = False
    """True to swap D and D′."""
    low: float = -10.0
    """Lower bound; smaller answers are raised to it."""
    high: float = 10.0
    """Upper bound; larger answers are lowered to it."""

    def check(self) -> None:
        if self.low >= self.high:
            raise ValueError("low must be below high")

    @property
    def d0(self) -> Floats:
        return self._clipped(self._both()[self.swapped])

    @property
    def d1(self) -> Floats:
        return self._clipped(self._both()[not self.swapped])

    def _clipped(self, answers: Floats) -> Floats:
        return np.clip(answers, self.low, self.high)

    def _both(self) -> tuple[Floats, Floats]:
        first = np.arange(self.length) == 0
        half = np.arange(self.length) < self.length // 2
        ones = np.ones(self.length)
        changed = {
            "one-above": np.where(first, 2.0, 1.0),
            "one-below": np.where(first, 0.0, 1.0),
            "one-above-rest-below": np.where(first, 2.0, 0.0),
            "one-below-rest-above": np.where(first, 0.0, 2.0),
            "half-half": np.where(half, 2.0, 0.0),
            "all-above": 2 * ones,
            "all-below": 0 * ones,
        }
        if self.pattern == "x-shape":
            return half * ones, ~half * ones
        return ones, changed[self.pattern]


class Words(Pair, name="words"):
    """Two words of a vocabulary, by their numbers."""

    adjacency: ClassVar[str] = "any two words"
    parameters_say_all: ClassVar[bool] = True

    first: Annotated[int, Ge(0)] = 0
    """The word of D."""
    second: Annotated[int, Ge(0)] = 1
    """The word of D′."""

    @property
    def d0(self) -> Floats:
        return np.array([self.first], np.float64)

    @property
    def d1(self) -> Floats:
        return np.array([self.second], np.float64)
