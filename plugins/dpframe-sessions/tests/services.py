"""Services that answer one query after another, correct and with planted mistakes."""

from __future__ import annotations

import numpy as np

EPSILON = 1.0
"""The claim of every session."""

PAIR = np.array([0.0, 1.0]), np.array([1.0, 1.0])
"""Two neighbours: one value of [0, 1] is replaced."""


class SpentError(Exception):
    """The budget does not allow another answer."""


class Filter:
    """A privacy filter: noisy sums, until their ε would add up to more than the claim."""

    costs = (0.4, 0.5, 1.0)

    def __init__(self, data):
        self.total, self.spent = np.clip(data, 0, 1).sum(), 0.0

    def ask(self, cost, rng):
        if self.spent + cost > EPSILON:
            raise SpentError
        self.spent += cost
        return float(self.total + rng.laplace(scale=1 / cost))


class ChargesAfter(Filter):
    """Checks the budget before charging, so the last answer may cost any amount."""

    def ask(self, cost, rng):
        if self.spent >= EPSILON:
            raise SpentError
        self.spent += cost
        return float(self.total + rng.laplace(scale=1 / cost))


class OffByOne(Filter):
    """Answers three queries of ε = 0.5."""

    costs = (0.5,)
    asked = 0

    def ask(self, cost, rng):
        self.asked += 1
        if self.asked > EPSILON / cost + 1:
            raise SpentError
        return float(self.total + rng.laplace(scale=1 / cost))


class FailsFree(Filter):
    """Refuses small sums after looking at them, without charging for the refusal."""

    def ask(self, cost, rng):
        if self.spent + cost > EPSILON:
            raise SpentError
        noisy = float(self.total + rng.laplace(scale=1 / cost))
        if noisy < 1:
            raise ValueError("too small")
        self.spent += cost
        return noisy


class TellsInWords(Filter):
    """Tells the exact sum in the message of a refusal."""

    def ask(self, cost, rng):
        if self.spent + cost > EPSILON:
            raise SpentError(f"no budget is left for the sum {self.total}")
        return super().ask(cost, rng)


class ReusesNoise:
    """Answers a sum and a count with the same draw of noise."""

    costs = ("sum", "count")

    def __init__(self, data):
        self.data, self.noise = np.clip(data, 0, 1), None

    def ask(self, query, rng):
        if self.noise is None:
            self.noise = rng.laplace(scale=2.0)
        return float((self.data.sum() if query == "sum" else len(self.data)) + self.noise)


class SparseVector:
    """Above-threshold on a stream of sums, up or down: stops at the first one above."""

    costs = (1.0, -1.0)
    stops = True

    def __init__(self, data):
        self.total, self.threshold = np.clip(data, 0, 1).sum() - 1.5, None

    def ask(self, sign, rng):
        if self.threshold is None:
            self.threshold = rng.laplace(scale=2 / EPSILON)
        elif self.threshold == np.inf:
            raise SpentError
        above = bool(sign * self.total + rng.laplace(scale=4 / EPSILON) >= self.threshold)
        if above and self.stops:
            self.threshold = np.inf
        return above


class NeverStops(SparseVector):
    """Continues after the first answer above the threshold."""

    stops = False


class Buckets:
    """Counts of intervals in four buckets with a budget each; `good` charges every bucket read."""

    def __init__(self, data, good=False):
        self.ids, self.spent, self.good = np.asarray(data, float), np.zeros(4), good

    def ask(self, query, rng):
        start, width = query
        low = np.arange(4) / 4
        begun = low + 0.25 > start if self.good else low >= start
        charged = (low < start + width) & begun
        if np.any(self.spent[charged] + 0.5 > 1):
            raise SpentError
        self.spent[charged] += 0.5
        inside = (self.ids >= start) & (self.ids < start + width)
        return int(np.sum(inside) + np.round(rng.laplace(scale=2)))


RIGHT = Filter, SparseVector
WRONG = ChargesAfter, OffByOne, FailsFree, ReusesNoise, NeverStops


def step(rng, state, query):
    return state.ask(query, rng)
