"""The Gaussian curve that lies just above a privacy profile, over a stated range."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from dpframe.stats.gaussian import gaussian_delta
from dpframe.stats.roots import Judged, newton_each

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

PLACES = 400
"""How many ε of the range are compared."""

STEPS = 200

ROUNDS, FINER = 5, 65
"""The end of a range is looked for on a grid, and again between two of its places."""

FURTHEST = 700.0
"""No ε beyond it is looked at."""


class ProfileFit(NamedTuple):
    """A fitted μ, and the range that it is about."""

    mu: float
    """The smallest μ whose curve is nowhere below the profile within the range."""
    epsilon: float
    """Where it touches."""
    epsilon_max: float
    """The range is [0, epsilon_max]."""


def fit_gdp_mu(
    profile: Callable[[Floats], Floats],
    *,
    epsilon_max: float | None = None,
    delta_min: float | None = None,
    places: int = PLACES,
) -> ProfileFit:
    """The sup over a range of ε of the μ with δ_μ(ε) = profile(ε).

    Appendix A of [Koskela2024] looks for the μ at which the profiles of a subsampled Gaussian and
    of a Gaussian touch. There is no such point: μ(ε) rises towards 1/σ, so the result is what the
    range makes it, and the range belongs to the result.

    Args:
        profile: δ(ε), decreasing; takes and returns arrays.
        epsilon_max: the range ends here; default: only where δ(ε) falls below `delta_min`.
        delta_min: the range ends where δ(ε) falls below it; default: it does not.
        places: how many ε of the range are compared, its ends included.

    Raises:
        ValueError: neither end of the range was given.
    """
    if epsilon_max is None and delta_min is None:
        raise ValueError("a fit is over a range: give epsilon_max or delta_min")
    end = FURTHEST if epsilon_max is None else epsilon_max
    if delta_min is not None:
        end = _last_above(profile, delta_min, end)
    epsilons = np.linspace(0.0, end, places)
    mus = matching_mu(epsilons, profile(epsilons))
    best = int(mus.argmax())
    return ProfileFit(float(mus[best]), float(epsilons[best]), end)


def matching_mu(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> Floats:
    """The μ of the Gaussian curve that passes through (ε, δ); 0 at δ = 0, inf at δ ≥ 1.

    Newton's method on ln δ_μ(ε), whose derivative in μ is φ(ε/μ − μ/2)/δ_μ(ε), kept inside a
    bracket.

    Args:
        epsilon: at least 0.
        delta: in [0, 1]; both broadcast.
    """
    e, d = np.broadcast_arrays(np.asarray(epsilon, np.float64), np.asarray(delta, np.float64))
    found = np.where(d >= 1, np.inf, 0.0)
    at = np.flatnonzero((d > 0) & (d < 1))
    e, d = e.flat[at], d.flat[at]
    # δ < Φ(μ/2 − ε/μ) puts μ above this.
    z = special.ndtri(d)
    low = np.maximum(z + np.sqrt(z * z + 2 * e), 0.0)

    def judge(mu: Floats) -> Judged:
        value = gaussian_delta(e, mu)
        density = np.exp(-((e / mu - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
        useful = (value > 0) & (density > 0)
        step = np.where(useful, np.log(d / np.where(useful, value, d)), 0.0)
        newton = mu + step * np.where(useful, value, 1.0) / np.where(useful, density, 1.0)
        # Near δ = 1 rounding in δ moves μ by far more than its own rounding.
        exact = np.abs(value - d) <= 1e-13 * d
        return Judged(value >= d, exact, np.where(useful, newton, np.nan))

    found.flat[at] = newton_each(
        judge,
        np.maximum(low, 1e-12),
        low,
        np.full(at.size, np.inf),
        tolerance=1e-12,
        least=0.0,
        steps=STEPS,
    )
    return found


def _last_above(profile: Callable[[Floats], Floats], delta: float, end: float) -> float:
    """The largest ε ≤ `end` with profile(ε) ≥ delta, to 8 digits; 0 if there is none."""
    low, high = 0.0, end
    for _ in range(ROUNDS):
        grid = np.linspace(low, high, FINER)
        above = np.flatnonzero(profile(grid) >= delta)
        if not above.size:
            return 0.0
        if above[-1] == FINER - 1:
            return high
        low, high = float(grid[above[-1]]), float(grid[above[-1] + 1])
    return low
