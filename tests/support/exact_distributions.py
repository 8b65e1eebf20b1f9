"""Exact distributions of mechanisms on the pair zeros-ones, written independently of dpframe.

Densities and distribution functions are SciPy's; nothing here is shared with the mechanisms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable


class Number(NamedTuple):
    """A mechanism that releases one number: what it is on D and on D′."""

    use: str
    params: dict[str, Any]
    cdf: tuple[Callable[[Any], Any], Callable[[Any], Any]]
    points: np.ndarray
    """Possible outputs: all atoms that matter, or a fine grid."""
    masses: tuple[np.ndarray, np.ndarray]
    """Probability at each point, or near it."""

    @property
    def log_ratio(self) -> np.ndarray:
        """ln of mass on D′ over mass on D, at each point."""
        with np.errstate(divide="ignore"):
            return np.log(self.masses[1]) - np.log(self.masses[0])


def _continuous(use: str, params: dict[str, Any], d0: Any, d1: Any, reach: float) -> Number:
    points = np.linspace(-reach, 1 + reach, 400_001)
    step = points[1] - points[0]
    masses = (d0.pdf(points) * step, d1.pdf(points) * step)
    return Number(use, params, (d0.cdf, d1.cdf), points, masses)


class Mixture(NamedTuple):
    """(1 − q) N(0, σ²) + q N(1, σ²)."""

    q: float
    sigma: float

    def pdf(self, x: Any) -> Any:
        parts = stats.norm(0, self.sigma).pdf(x), stats.norm(1, self.sigma).pdf(x)
        return (1 - self.q) * parts[0] + self.q * parts[1]

    def cdf(self, x: Any) -> Any:
        parts = stats.norm(0, self.sigma).cdf(x), stats.norm(1, self.sigma).cdf(x)
        return (1 - self.q) * parts[0] + self.q * parts[1]


def gaussian(sigma: float) -> Number:
    d0, d1 = stats.norm(0, sigma), stats.norm(1, sigma)
    return _continuous("gaussian", {"sigma": sigma}, d0, d1, 12 * sigma)


def subsampled(q: float, sigma: float) -> Number:
    params = {"sampling_probability": q, "noise_multiplier": sigma}
    return _continuous(
        "subsampled-gaussian", params, stats.norm(0, sigma), Mixture(q, sigma), 12 * sigma
    )


def laplace(use: str, epsilon: float, *, scale: float = 1.0, factor: float = 1.0) -> Number:
    """`factor` times a Laplace release of scale `scale`/ε."""
    d0, d1 = (stats.laplace(factor * x, factor * scale / epsilon) for x in (0, 1))
    return _continuous(use, {"epsilon": epsilon}, d0, d1, 40 * factor * scale / epsilon)


def geometric(epsilon: float, sensitivity: float = 1.0) -> Number:
    params = {"epsilon": epsilon, "sensitivity": sensitivity}
    decay = epsilon / sensitivity
    points = np.arange(-math.ceil(60 / decay), math.ceil(60 / decay) + 2).astype(float)
    d0, d1 = stats.dlaplace(decay), stats.dlaplace(decay, loc=1)
    return Number("geometric", params, (d0.cdf, d1.cdf), points, (d0.pmf(points), d1.pmf(points)))


def randomized_response(epsilon: float, sensitivity: float = 1.0) -> Number:
    params = {"epsilon": epsilon, "sensitivity": sensitivity}
    keep = 1 / (1 + math.exp(-epsilon / sensitivity))
    d0, d1 = stats.bernoulli(1 - keep), stats.bernoulli(keep)
    points = np.array([0.0, 1.0])
    masses = (d0.pmf(points), d1.pmf(points))
    return Number("randomized-response", params, (d0.cdf, d1.cdf), points, masses)


def random_output() -> Number:
    uniform = stats.uniform()
    points = (np.arange(1000) + 0.5) / 1000
    masses = np.full(1000, 1e-3)
    return Number(
        "random-output", {"epsilon": 1.0}, (uniform.cdf, uniform.cdf), points, (masses, masses)
    )


NUMBERS = [
    gaussian(1.0),
    gaussian(0.3),
    gaussian(7.0),
    subsampled(0.25, 0.3),
    subsampled(0.01, 1.0),
    subsampled(1.0, 2.0),
    randomized_response(1.0),
    randomized_response(4.0),
    randomized_response(0.1),
    randomized_response(1.0, sensitivity=2.0),
    geometric(1.0),
    geometric(0.05),
    geometric(5.0),
    geometric(1.0, sensitivity=3.0),
    laplace("laplace", 1.0),
    laplace("laplace", 0.1),
    laplace("laplace", 6.0),
    laplace("laplace-shifted", 1.0),
    laplace("laplace-numpy", 1.0),
    laplace("laplace-halved", 1.0, factor=0.5),
    laplace("laplace-half-scale", 1.0, scale=0.5),
    laplace("adept", 1.0),
    random_output(),
]


def name_of(number: Number) -> str:
    return "-".join([number.use, *(f"{value:g}" for value in number.params.values())])


def profile(masses: tuple[np.ndarray, np.ndarray], epsilon: float) -> float:
    """δ(ε): the hockey-stick divergence, the worse direction (Koskela and Mohammadi, eq. 2.1)."""
    q, p = masses
    growth = math.exp(epsilon)
    return float(max(np.sum(np.maximum(p - growth * q, 0)), np.sum(np.maximum(q - growth * p, 0))))


def lowest_errors(masses: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Error rates of all tests that reject where the likelihood ratio is largest."""
    q, p = masses
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(q + p > 0, -p / q, 0.0), kind="stable")
    fpr = np.append(0.0, np.cumsum(q[order]))
    fnr = np.append(1.0, 1 - np.cumsum(p[order]))
    return fpr, np.maximum(fnr, 0.0)
