"""The curve of two normal distributions with unit variance, a distance μ apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpframe.stats.roots import bisection_each

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

STEPS = 100
ROOT_2 = math.sqrt(2)


def gaussian_tradeoff(fpr: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """f(x) = Φ(Φ⁻¹(1 − x) − μ) [Dong2022, equation 6].

    Args:
        fpr: in [0, 1].
        mu: at least 0; both broadcast.
    """
    x, m = _broadcast(fpr, mu)
    # Φ⁻¹(1 − x) as −Φ⁻¹(x), which keeps its digits near 0; no curve is above 1 − x.
    return np.asarray(np.minimum(special.ndtr(-special.ndtri(x) - m), 1 - x))


def gaussian_delta(epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) [Balle2018, theorem 8].

    Args:
        epsilon: at least 0.
        mu: at least 0; both broadcast.
    """
    e, m = _broadcast(epsilon, mu)
    delta = np.zeros(e.shape)
    delta[m > 0] = np.exp(_log_delta(e[m > 0], m[m > 0])[0])
    return delta


def gaussian_epsilon(delta: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """The ε ≥ 0 from which on δ(ε) ≤ `delta`; inf where there is none.

    ln δ is concave in ε, because δ(ε) is the tail integral of a log-concave function. So Newton's
    method, begun above the root, comes down to it without passing it: what rounding leaves is on
    the side of a larger ε.

    Args:
        delta: in [0, 1].
        mu: at least 0; both broadcast.
    """
    d, m = _broadcast(delta, mu)
    epsilon = np.where((d == 0) & (m > 0), np.inf, 0.0)
    at = np.flatnonzero((d > 0) & (d < 1) & (m > 0))
    d, m = d.flat[at], m.flat[at]
    target = np.where(d < 0.5, np.log(d), np.log1p(-np.minimum(1 - d, 0.5)))
    # δ(ε) < Φ(μ/2 − ε/μ): where the right-hand side is δ, the root has been passed.
    found = m * np.maximum(m / 2 - special.ndtri(d), 0.0)
    for _ in range(STEPS):
        log_delta, log_slope = _log_delta(found, m)
        # For μ near 1e-16 nothing is left of δ; then ε is so near 0 that the start will do.
        log_delta = np.where(log_delta > -np.inf, log_delta, target)
        step = (target - log_delta) / np.exp(log_slope - log_delta)
        nearer = np.clip(found - step, 0.0, found)
        settled = found - nearer <= 1e-15 * found
        found = nearer
        if settled.all():
            break
    epsilon.flat[at] = found
    return epsilon


def gaussian_mu_at(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> Floats:
    """The largest μ with δ(ε) ≤ `delta`: that of the analytic Gaussian mechanism.

    A query of ℓ2 sensitivity Δ is (ε, δ)-DP with noise of standard deviation Δ/μ, and with no less
    [Balle2018, theorem 8]. By bisection: δ(ε) increases with μ.

    Args:
        epsilon: at least 0.
        delta: in [0, 1]; both broadcast.

    Returns:
        0 at δ = 0, inf at δ = 1.
    """
    e, d = _broadcast(epsilon, delta)
    found = np.where(d < 1, 0.0, np.inf)
    at = np.flatnonzero((d > 0) & (d < 1))
    e, d = e.flat[at], d.flat[at]
    z = special.ndtri(d)
    # Φ(μ/2 − ε/μ) = δ at this μ, and δ(ε) is smaller.
    root = np.hypot(z, np.sqrt(2 * e))
    low = np.where(z < 0, 2 * e / np.maximum(root - z, np.finfo(float).tiny), z + root)
    high = np.maximum(2 * low, 1.0)
    while (under := gaussian_delta(e, high) <= d).any():
        low, high = np.where(under, high, low), np.where(under, 2 * high, high)
    found.flat[at] = bisection_each(lambda mu: gaussian_delta(e, mu) > d, low, high, steps=STEPS)[0]
    return found


def _log_delta(epsilon: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """Logarithms of δ(ε) and of −δ′(ε) = e^ε Φ(−μ/2 − ε/μ), for μ > 0."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # e^ε φ(high) = φ(low), so both terms share the factor exp(−low²/2).
        log_slope = -(low * low) / 2 + np.log(special.erfcx(high / ROOT_2) / 2)
        slope = np.exp(log_slope)
        width = special.erfcx(np.maximum(low, 0) / ROOT_2) - special.erfcx(high / ROOT_2)
        tail = -(low * low) / 2 + np.log(width / 2)
        missing = special.ndtr(low) + slope
        body = np.where(
            missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), np.log(special.ndtr(-low) - slope)
        )
    return np.where(low > 0, tail, body), log_slope


def _broadcast(*values: npt.ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values)))
