"""The trade-off curve of the Gaussian mechanism on a Poisson sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpframe.stats.gaussian import gaussian_tradeoff
from dpframe.stats.roots import Judged, newton_each

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

STEPS = 200


def subsampled_gaussian_tradeoff(fpr: npt.ArrayLike, q: float, sigma: float) -> Floats:
    """The curve of (1 − q) N(0, σ²) + q N(1, σ²) and N(0, σ²), the worse direction at each place.

    With G the curve of N(0, σ²) and N(1, σ²), x* = G(x*) and f_q(x) = q G(x) + (1 − q)(1 − x), it
    is f_q up to x*, f_q⁻¹ from f_q(x*) on, and between them the line of slope −1 that joins the two
    [Dong2022, definition 7 and proposition A.1].

    Args:
        fpr: in [0, 1].
        q: sampling probability in (0, 1].
        sigma: positive.
    """
    x, mu = np.asarray(fpr, np.float64), 1 / sigma
    corner = special.ndtr(-mu / 2)
    other = q * corner + (1 - q) * (1 - corner)
    steep = q * gaussian_tradeoff(x, mu) + (1 - q) * (1 - x)
    curve = np.where(x <= corner, steep, corner + other - x)
    flat = (x >= other) & (x > 0) & (x < 1)
    curve[flat] = special.ndtr(-_mixture_quantile(x[flat], q, mu))
    return np.clip(curve, 0.0, 1 - x)


def _mixture_quantile(probability: Floats, q: float, mu: float) -> Floats:
    """The w at which q Φ(w − μ) + (1 − q) Φ(w) is a probability in (0, 1)."""
    # Each is found in the tail it belongs to, where it has its digits.
    side = np.where(probability > 0.5, -1.0, 1.0)
    wanted = np.where(side > 0, probability, 1 - probability)
    z = side * special.ndtri(wanted)

    def judge(w: Floats) -> Judged:
        value = q * special.ndtr(side * (w - mu)) + (1 - q) * special.ndtr(side * w)
        # Newton's method for the logarithm. That of a mixture may be bent either way, so that a
        # step may leave the bracket.
        with np.errstate(divide="ignore", invalid="ignore"):
            density = q * _density(w - mu) + (1 - q) * _density(w)
            newton = w - side * np.log(value / wanted) * value / density
        return Judged(side * (value - wanted) > 0, value == wanted, newton)

    return newton_each(judge, z + mu, z, z + mu, tolerance=1e-15, least=1.0, steps=STEPS)


def _density(w: Floats) -> Floats:
    return np.asarray(np.exp(-(w * w) / 2) / np.sqrt(2 * np.pi))
