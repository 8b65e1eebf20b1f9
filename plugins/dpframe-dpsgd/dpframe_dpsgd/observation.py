"""Exact tests of what the steps of a training release: noise that is too small or repeated.

The release of a step is the sum of clipped gradients plus noise N(0, σ²C²) that is independent of
everything before. So for any prediction of a release from earlier ones, the sum of squared errors
in d coordinates is, in units of σ²C², stochastically at least χ² with d degrees of freedom,
whatever the gradients are; over the steps the degrees add up. A sum that is too small for χ²
refutes the noise. A prediction by 0, or by the mean of earlier releases, tests its size; one by the
release k steps before shows noise that is used again; and one by another array of parameters in the
same step shows noise that arrays share.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from scipy import special

from dpframe.plugins import Floats
from dpframe.stats.sampling import RARE

COORDINATES = 1_024  # without canaries, in which the size of the noise is measured, at most
OF_LAGS = 64  # of them, in which steps are compared
LAGS = 256  # steps
MEMORY = 50.0  # steps in the mean that predicts the next one
START = 10.0  # steps of zeros before the first one, in this mean
ROUNDING = 1e-3  # of a sum of squares, at most
FEWEST = 8  # coordinates


class SquaredErrors:
    """Squared errors of k predictions: their sums over the steps, and the rarest.

    Args:
        number: k.
    """

    def __init__(self, number: int) -> None:
        self.sums, self.degrees = np.zeros(number), np.zeros(number)
        self.tests = 0  # of single steps
        self.least = np.ones(number)  # p-values of single steps

    def update(self, errors: Floats, degrees: int) -> None:
        """Add a step.

        Args:
            errors: sums of squares of the first predictions, in units of σ²C², shape [at most k].
            degrees: number of coordinates.
        """
        self.sums[: len(errors)] += errors
        self.degrees[: len(errors)] += degrees
        if not len(errors) or degrees < FEWEST:
            return
        p_values = special.chdtr(degrees, errors * (1 + ROUNDING))
        self.tests += len(errors)
        np.minimum(self.least[: len(errors)], p_values, out=self.least[: len(errors)])

    def p_value(self) -> float:
        """Return the p-value of the stated noise: that of the rarest result, for all together."""
        tested = self.degrees > 0
        if not tested.any():
            return 1.0
        sums = self.sums[tested] * (1 + ROUNDING)
        whole = float(special.chdtr(self.degrees[tested], sums).min()) * int(tested.sum())
        return min(1.0, 2 * min(whole, float(self.least.min()) * self.tests))

    @property
    def first(self) -> int:
        """Return the number of the first prediction that refutes the noise, or nearly does."""
        rejecting = np.flatnonzero(self.least * self.tests < RARE)
        return int(rejecting[0] if len(rejecting) else self.least.argmin())


class NoiseTest:
    """Squared errors of predictions of the releases, step by step."""

    def __init__(self) -> None:
        self.steps = 0
        self._mean: Floats | None = None
        self._earlier: deque[Floats] = deque(maxlen=LAGS)
        self.by_zero, self.by_mean = SquaredErrors(1), SquaredErrors(1)
        self.by_earlier, self.by_arrays = SquaredErrors(LAGS), SquaredErrors(1)

    def update(self, spare: Floats, differences: Floats) -> None:
        """Add a step.

        Args:
            spare: the release in coordinates without canaries, in units of σC, shape [n].
            differences: between arrays of parameters, in the same units.
        """
        self.steps += 1
        self.by_arrays.update(np.array([differences @ differences]), len(differences))
        if len(spare) < FEWEST:
            return
        mean = np.zeros(len(spare)) if self._mean is None else self._mean
        self.by_zero.update(np.array([spare @ spare]), len(spare))
        self.by_mean.update(np.array([(spare - mean) @ (spare - mean)]), len(spare))
        self._mean = mean + (spare - mean) / min(self.steps + START, MEMORY)
        few = spare[:OF_LAGS].copy()
        if self._earlier:
            errors = few - np.array(self._earlier)[::-1]
            self.by_earlier.update(np.sum(errors**2, axis=1), len(few))
        self._earlier.append(few)

    @property
    def spread(self) -> float:
        """Return the root mean square of the releases in units of σC; at least about 1."""
        return _root_mean(self.by_zero)

    @property
    def rest(self) -> float:
        """Return the root mean square of the errors of the mean of earlier releases."""
        return _root_mean(self.by_mean)

    def p_value(self) -> float:
        """Return the p-value of the stated noise in all four tests."""
        tests = (self.by_zero, self.by_mean, self.by_earlier, self.by_arrays)
        return min(1.0, len(tests) * min(one.p_value() for one in tests))

    def warnings(self) -> list[str]:
        """Return a warning if the noise is not as stated; right noise causes it once in 10⁶ times.

        Small noise is also predicted well by earlier noise, so the first test to reject is named.
        """
        by_zero, by_mean, by_earlier, by_arrays = (
            4 * one.p_value() < RARE
            for one in (self.by_zero, self.by_mean, self.by_earlier, self.by_arrays)
        )
        if by_zero and not self.by_zero.sums[0]:
            return [
                "nothing was released in the largest arrays of parameters, neither gradients nor "
                "noise: call the loss with the parameters that are trained as its first argument"
            ]
        if by_zero or (by_mean and not by_earlier):
            return [
                f"the noise is too small: releases vary by {min(self.spread, self.rest):.2g} of "
                "the stated standard deviation, gradients included (or noise_multiplier, clip or "
                "divided_by is another)"
            ]
        if by_earlier:
            lag = self.by_earlier.first + 1
            return [
                f"noise is used again, such as {lag:,} step{'s' * (lag > 1)} later: split the key "
                "for every step"
            ]
        if by_arrays:
            return ["arrays of parameters get the same noise: split the key for every array"]
        return []


def _root_mean(errors: SquaredErrors) -> float:
    return math.sqrt(errors.sums[0] / errors.degrees[0]) if errors.degrees[0] else math.nan


class ResponseTest:
    """By how much a release changes in a canary's direction if the canary is in the batch, over C.

    Subtract 1 from the release in the directions of canaries that are in. If a canary changes the
    release by C, the rest does not depend on its coin, and its sum over canaries weighted by coin −
    q has mean 0. It is compared with its own squares; that the ratio is normal is approximate.
    """

    LARGEST_Z = 6.0
    TOLERANCE = 0.1

    def __init__(self) -> None:
        self.weighted = self.squares = self.weight = 0.0

    def update(self, released: Floats, included: Floats, rate: float) -> None:
        """Add a step.

        Args:
            released: in the directions of the canaries, in units of C, shape [m].
            included: 1 for canaries in the batch, else 0, shape [m].
            rate: q.
        """
        terms = (included - rate) * (released - included)
        self.weighted += float(terms.sum())
        self.squares += float(terms @ terms)
        self.weight += float(((included - rate) * included).sum())

    @property
    def value(self) -> float:
        """Return the estimate; NaN if no canary was in a batch."""
        return 1 + self.weighted / self.weight if self.weight > 0 else math.nan

    @property
    def z(self) -> float:
        """Return the distance from 1 in standard deviations."""
        return self.weighted / math.sqrt(self.squares) if self.squares > 0 else 0.0

    def warnings(self) -> list[str]:
        """Return a warning if the response is not 1."""
        if not abs(self.z) > self.LARGEST_Z or abs(self.value - 1) < self.TOLERANCE:
            return []
        if abs(self.value) < self.TOLERANCE:
            why = (
                "the gradients come from another loss than canaries.loss(…), or the batches are "
                "not those that step() was given"
            )
        elif self.value > 1:
            why = "gradients of single records are not clipped to clip, or divided_by is another"
        else:
            why = (
                "clip or divided_by is another, batches are not those that step() was given, or "
                "averages are clipped instead of records"
            )
        return [
            f"a canary in a batch changes the release by {self.value:.2g} clipping norms instead "
            f"of 1: {why}"
        ]
