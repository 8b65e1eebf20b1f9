"""The trade-off curve of the Gaussian mechanism on a Poisson sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpframe.stats.gaussian import gaussian_tradeoff

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

STEPS = 200


def subsampled_gaussian_tradeoff(fpr: npt.ArrayLike, q: float, sigma: float) -> Floats:
    """The curve of (1 − q) N(0, σ²) + q N(1, σ²) and N(0, σ²), the worse direction at each place.

    With G the curve of N(0, σ²) and N(1, σ²), x* = G(x*) and f_q(x) = q G(x) + (1 − q)(1 − x), it
    is f_q up to x*, f_q⁻¹ from f_q(x*) on, and between them the line of slope −1 that joins the
    two (Dong, Roth and Su 2022, definition 7 and proposition A.1).

    Args:
        fpr: in [0, 1].
        q: sampling probability in (0, 1].
        sigma: positive.
    """
    x, mu = np.asarray(fpr, np.float64), 1 / sigma
    corner = special.ndtr(-mu / 2)
    other = q * corner + (1 - q) * (1 - corner)
    steep = q * gaussian_tradeoff(x, mu) + (1 - q) * (1 - x)
    flat = special.ndtr(-_mixture_quantile(1 - np.clip(x, other, 1.0), q, mu))
    curve = np.where(x <= corner, steep, np.where(x < other, corner + other - x, flat))
    return np.asarray(np.minimum(curve, 1 - x))


def _mixture_quantile(tail: Floats, q: float, mu: float) -> Floats:
    """The w at which q Φ(μ − w) + (1 − q) Φ(−w) is `tail`, by Newton's method in logarithms."""
    wanted = np.where(tail > 0, tail, 0.5)
    low = np.maximum(-special.ndtri(wanted), mu - special.ndtri(np.minimum(wanted / q, 1.0)))
    high = mu - special.ndtri(wanted)
    w = high
    for _ in range(STEPS):
        value = q * special.ndtr(mu - w) + (1 - q) * special.ndtr(-w)
        density = q * _density(mu - w) + (1 - q) * _density(w)
        low, high = np.where(value > wanted, w, low), np.where(value > wanted, high, w)
        ratio = value / wanted
        newton = w + np.log(ratio) * value / density
        # Newton's method may leave the bracket, because the logarithm of a mixture may be bent
        # either way; halving it always leads on.
        inside = (newton > low) & (newton < high)
        moved = np.where(inside, newton, np.where(ratio == 1, w, (low + high) / 2))
        settled = np.abs(moved - w) <= 1e-15 * np.maximum(np.abs(w), 1.0)
        w = moved
        if settled.all():
            break
    return np.where(tail > 0, w, np.inf)


def _density(w: Floats) -> Floats:
    return np.asarray(np.exp(-(w * w) / 2) / np.sqrt(2 * np.pi))
