"""The results that LDP-Auditor is expected to print, to compare it with an audit by dpframe.

LDP-Auditor [Arcolezi2024] asks a client for n reports about each of two of k values. From each
report its attack guesses a value: one at random of those that the report supports, or of all k if
it supports none. Its result is the logarithm of a ratio: how often the guess is the first value,
bounded from below for reports about it, and from above for reports about the second value. The
paper prints these results as figures without numbers, so they are computed here, exactly except for
the randomness of the n reports.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, optimize, stats

from dpframe.plugins import Values
from dpframe_local import protocols
from dpframe_local.protocols import Protocol


def expected_epsilon(right: float, k: int, trials: int = 10**6, alpha: float = 0.01) -> float:
    """Return the result of LDP-Auditor if each guess is as frequent as expected.

    Args:
        right: probability that the attack guesses the user's own value.
        k: number of values; all others are guessed equally often.
        trials: n, for each of the two values.
        alpha: α. LDP-Auditor passes α/2 to a two-sided Clopper-Pearson interval for each of the two
            rates and uses one end, so each bound fails with probability at most α/4.
    """
    hits, misses = trials * right, trials * (1 - right) / (k - 1)
    low = stats.beta.ppf(alpha / 4, hits, trials - hits + 1)
    high = stats.beta.ppf(1 - alpha / 4, misses + 1, trials - misses)
    return math.log(low / high)


def guess_rate(protocol: Protocol) -> float:
    """Return the probability that the attack guesses the user's own value.

    Ties of SHE are broken at random here. LDP-Auditor's rounding breaks them and favours some
    values, but in both of its rates, so its result differs little.

    Raises:
        ValueError: the attack of this protocol is not known.
    """
    pair = Values(d0=[0.0], d1=[protocol.k - 1.0], adjacency="replace a user")
    own = protocol.resolve(pair)
    if isinstance(own, protocols.GRR):
        return float(protocols.grr_rates(own.epsilon, own.k, np)[0])
    if isinstance(own, protocols.SubsetSelection):
        return float(own.rate(np)) / (own.omega or 1)
    if isinstance(own, protocols.LocalHashing):
        keep, _ = protocols.grr_rates(own.epsilon, own.size(), np)
        return supported_rate(float(keep), 1 / own.size(), own.k)
    if isinstance(own, protocols.Unary):
        p, q = own.rates(np)
        return supported_rate(float(p), float(q), own.k)
    if isinstance(own, protocols.SHE):
        return _most_likely(own.epsilon, own.k)
    raise ValueError(f"LDP-Auditor has no attack on {own.name!r}")


def supported_rate(p: float, q: float, k: int) -> float:
    """Return `guess_rate` if a report supports the own value with probability p, others with q.

    The mean of 1/(1 + X) for a binomial X of n trials is (1 − (1 − q)ⁿ⁺¹)/((n + 1) q).
    """
    return p * (1 - (1 - q) ** k) / (k * q) + (1 - p) * (1 - q) ** (k - 1) / k


def best_threshold(epsilon: float) -> float:
    """Return the θ of THE with the smallest variance of the estimated frequencies.

    Source: [Wang2017, section 4.2].
    """

    def variance(theta: float) -> float:
        p, q = protocols.THE(epsilon=epsilon, theta=theta).rates(np)
        return float(q * (1 - q) / (p - q) ** 2)

    return float(optimize.minimize_scalar(variance, bounds=(0.5, 1), method="bounded").x)


def _most_likely(epsilon: float, k: int) -> float:
    """Return the rate at which SHE's own value has the largest number after clipping to [0, 1]."""
    noise = stats.laplace(scale=2 / epsilon)
    edges = supported_rate(0.5, float(noise.sf(1)), k) - 0.5 * float(noise.cdf(1)) ** (k - 1) / k
    inside, _ = integrate.quad(lambda y: noise.pdf(y - 1) * noise.cdf(y) ** (k - 1), 0, 1)
    none = float(noise.cdf(-1)) * 0.5 ** (k - 1) / k
    return edges + float(inside) + none


def table(epsilon: float = 2.0, k: int = 200) -> list[tuple[str, float, float]]:
    """Return each protocol's name, its exact loss and the expected result of LDP-Auditor.

    The loss of SHE is its claim, which is tight.
    """
    classes: tuple[type[Protocol], ...] = (
        *(protocols.GRR, protocols.SubsetSelection, protocols.SUE, protocols.OUE, protocols.THE),
        *(protocols.SHE, protocols.BLH, protocols.OLH),
    )
    pair = Values(d0=[0.0], d1=[k - 1.0], adjacency="replace a user")
    rows = []
    for cls in classes:
        more = {"theta": best_threshold(epsilon)} if cls is protocols.THE else {}
        protocol = cls(epsilon=epsilon, k=k, **more).resolve(pair)
        truth = protocol.truth(pair)
        loss = epsilon if truth is None else float(truth.epsilon_at(0.0))
        rows.append((cls.name, loss, expected_epsilon(guess_rate(protocol), k)))
    return rows
