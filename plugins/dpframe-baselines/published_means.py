"""Draws until sequential tests refute the wrong private means of González et al. (2025)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from bench import CONFIDENCE, at_any_time
from bench_mechanisms import FINE, Case, cells, distance_to_claim, laplace_below
from scipy import special

from dpframe.plugins import ApproxDP, Claim, Floats, PureDP, find_plugin

MEANS = 0.0, 0.5  # of {0} and of {0, 1}
MOST, AUDITS = 2000, 20
REACH = 30.0  # scales of noise


def noises(epsilon: float) -> tuple[float, float]:
    """Return the scales 2/(n ε) of the noise on both datasets, of n = 1 and n = 2 records."""
    return 2 / epsilon, 1 / epsilon


def claim_of(epsilon: float, delta: float) -> Claim:
    """Return the claim of a row."""
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def optimum(noise: str, epsilon: float, delta: float) -> float:
    """Return the draws that the best bet of all needs."""
    below: Callable[[Floats], Floats] = (
        special.ndtr if noise == "normal" else lambda x: laplace_below(x, 1.0)
    )
    scales = noises(epsilon)
    laws = [
        cells(lambda x, a=mean, s=scale: below((x - a) / s), scales[1] * FINE, scales[0] * REACH)
        for mean, scale in zip(MEANS, scales, strict=True)
    ]
    return -math.log(1 - CONFIDENCE) / distance_to_claim(laws[0], laws[1], epsilon, delta)


def score(noise: str, epsilon: float, x: Floats) -> Floats:
    """Return the log-likelihood ratio of outputs."""
    zero, one = ((x - a) / s for a, s in zip(MEANS, noises(epsilon), strict=True))
    gain = (zero**2 - one**2) / 2 if noise == "normal" else np.abs(zero) - np.abs(one)
    return np.asarray(gain + math.log(2))


def draws(
    method: str, noise: str, epsilon: float, delta: float, audits: int = AUDITS
) -> Iterator[float]:
    """Yield the draws on each dataset until a method refutes the claim; inf if 2,000 do not.

    `sequential-mmd` gets the outputs themselves, as in the paper; the others get the best score.
    """
    case = Case(noise, claim_of(epsilon, delta), math.inf, lambda rng, side, n: np.zeros(n))
    for audit in range(audits):
        rng = np.random.default_rng([2025, audit])
        outputs = [
            getattr(rng, noise)(mean, scale, MOST)
            for mean, scale in zip(MEANS, noises(epsilon), strict=True)
        ]
        if method != "sequential-mmd":
            outputs = [score(noise, epsilon, own) for own in outputs]
        scores = [np.asarray(own, np.float32) for own in outputs]
        yield at_any_time(case, find_plugin("estimator", method)(), scores, 0)[1]
