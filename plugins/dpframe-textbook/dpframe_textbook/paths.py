"""Exact probabilities of the outputs of a sparse vector technique."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpframe.plugins import Floats
from dpframe_textbook.quadrature import LAPLACE, NO_NOISE, REACH, Law, nodes

MOST_PATHS = 5000
"""Largest number of outputs for which probabilities are computed."""


@dataclasses.dataclass(frozen=True)
class Noises:
    """The noise of a threshold at 0 and of the answers."""

    threshold: float
    """Scale of the noise of the threshold."""
    answer: float
    """Scale of the noise of an answer; 0 for none."""
    renews: bool = False
    """True if the threshold gets new noise after every answer above it."""
    law: Law = LAPLACE
    """The distribution of both noises."""

    def probabilities(self, answers: Floats, cutoff: int) -> tuple[Floats, Floats]:
        """Step through the queries, keeping the density of the threshold's noise for each output.

        Args:
            answers: minus the threshold, shape [queries].
            cutoff: number of answers above after which it stops.

        Returns:
            All outputs of 1 (above), 0 (below) and −1 (stopped), shape [outputs, queries], and
            their probabilities.
        """
        at, density = self._density(answers)
        law, unit = (self.law, self.answer) if self.answer else (NO_NOISE, 1.0)
        ends: list[tuple[tuple[int, ...], Floats]] = [((), density)]
        for answer in answers:
            below = law.below((at - answer) / unit)
            further = []
            for output, probability in ends:
                if output.count(1) >= cutoff:
                    further.append(((*output, -1), probability))
                    continue
                above = probability * (1 - below)
                if self.renews:
                    above = above.sum() * density
                further += [((*output, 0), probability * below), ((*output, 1), above)]
            ends = further
        outputs = np.array([output for output, _ in ends], np.float64)
        return outputs, np.array([probability.sum() for _, probability in ends])

    def _density(self, answers: Floats) -> tuple[Floats, Floats]:
        """Return nodes of the threshold's noise, and its probability at each."""
        unit = min(self.threshold, self.answer or self.threshold)
        kinks = np.append(answers, 0.0) / unit
        at, weights = nodes(kinks, REACH * self.threshold / unit)
        density = self.law.density(at * unit / self.threshold) * unit / self.threshold
        return at * unit, density * weights


def paths(queries: int, cutoff: int) -> int:
    """Count the outputs."""
    most = min(cutoff, queries)
    stopped = sum(math.comb(last, most - 1) for last in range(queries))
    return stopped + sum(math.comb(queries, above) for above in range(most))
