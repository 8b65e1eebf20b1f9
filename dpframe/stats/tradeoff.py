"""Privacy profiles and trade-off curves, and how each gives the other."""

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Floats
from dpframe.stats import gaussian, roots

Point = tuple[float, float]


def falling_hull(points: Iterable[Point]) -> list[Point]:
    """Return the falling part of the lower convex hull, by ascending x.

    It begins at the leftmost point, the lowest of several, and ends at the lowest one. A point on
    the segment between two others is left out (monotone chain [Andrew1979]).
    """
    hull: list[Point] = []
    for point in sorted(points):
        if hull and point[1] >= hull[-1][1]:
            continue  # not lower than a point to its left
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (a[1] - b[1]) * (point[0] - b[0]) > (b[1] - point[1]) * (b[0] - a[0]):
                break  # b is below the segment from a to the point
            hull.pop()
        hull.append(point)
    return hull


def tradeoff_hull(points: Iterable[Point]) -> list[Point]:
    """Return the lower convex hull of points (FPR, FNR) and of (0, 1) and (1, 0), by ascending FPR.

    A trade-off curve is convex, starts at or below (0, 1) and ends at (1, 0) [Dong2022, proposition
    2.2]. So if it passes below or through every point, it does not rise above the hull: unlike
    lemma 7 applied to a lowered profile, this is a rigorous upper bound.
    """
    hull = falling_hull([*points, (0.0, 1.0), (1.0, 0.0)])
    if hull[-1][0] < 1:  # an FNR of 0 was reached before (1, 0)
        hull.append((1.0, 0.0))
    return hull


LARGEST_EPSILON = 700.0  # e^700 is finite in float64; points beyond are irrelevant


class Envelope(NamedTuple):
    """The largest of some lines, at each place."""

    breaks: Floats  # where one line gives way to the next, ascending, shape [m − 1]
    slopes: Floats  # shape [m], ascending
    heights: Floats  # of the lines at `anchors`, shape [m]
    anchors: Floats
    """A place on each line: 0, or about where it is 0, so that small values keep digits."""

    def at(self, x: npt.ArrayLike) -> Floats:
        """Evaluate the envelope, and 0 where it is negative.

        A line that is not the largest at a place only gives too little there, so rounding in
        `breaks` cannot give too much.
        """
        places = np.asarray(x, np.float64)
        line = np.searchsorted(self.breaks, places)
        values = self.heights[line] + self.slopes[line] * (places - self.anchors[line])
        return np.asarray(np.maximum(values, 0.0))


def tradeoff_envelope(epsilons: npt.ArrayLike, deltas: npt.ArrayLike) -> Envelope:
    """Return the curve max_i max{0, 1 − δ_i − e^{ε_i} x, e^{−ε_i}(1 − δ_i − x)}.

    This is Algorithm 1 of [Koskela2024], after their lemma 7. With finitely many points of a
    privacy profile the curve is nowhere above the true one, and touches it along each line.

    Args:
        epsilons: at least 0, any order; those that are not finite are left out.
        deltas: in [0, 1], one for each; the larger of both directions.

    Returns:
        The lines that are largest somewhere, from the steepest to the flattest.
    """
    e, d = np.asarray(epsilons, np.float64), np.asarray(deltas, np.float64)
    keep = (e <= LARGEST_EPSILON) & (d < 1)
    # The point (0, 1) holds for every mechanism; without other points the envelope is 0.
    e, d = np.append(e[keep], 0.0), np.append(d[keep], 1.0)
    hull = falling_hull(zip(np.exp(e).tolist(), d.tolist(), strict=True))
    growth, delta = np.array(hull).T
    # In falling order of ε: line i is 1 − δ_i − e^{ε_i} x, and meets the next one at x.
    growth, delta = growth[::-1], delta[::-1]
    x = np.diff(delta) / -np.diff(growth)
    y = 1 - delta[:-1] - growth[:-1] * x
    # Beyond the diagonal the same lines follow, reflected and in the opposite order:
    # e^{−ε_i}(1 − δ_i − x).
    steep = int((x < y).sum())
    x, y, growth, delta = x[:steep], y[:steep], growth[: steep + 1], delta[: steep + 1]
    middle = (1 - delta[-1]) / (1 + growth[-1])
    zero = np.zeros(steep + 1)
    return Envelope(
        breaks=np.maximum.accumulate(np.concatenate([x, [middle], y[::-1]])),
        slopes=np.concatenate([-growth, -1 / growth[::-1]]),
        heights=np.concatenate([1 - delta, zero]),
        anchors=np.concatenate([zero, 1 - delta[::-1]]),
    )


def tradeoff_of_profile(
    fpr: npt.ArrayLike, epsilons: npt.ArrayLike, deltas: npt.ArrayLike
) -> Floats:
    """Evaluate `tradeoff_envelope` at false-positive rates in [0, 1], any shape."""
    return tradeoff_envelope(epsilons, deltas).at(fpr)


POINTS = 21  # of a written profile
DIGITS = 6  # of what is written; δ is rounded down


def certified_profile(staircases: npt.ArrayLike) -> tuple[tuple[float, float], ...]:
    """Return points (ε, δ) of `certified_delta`, from ε = 0 to where it reaches 0.

    The result is empty if nothing is certified. Between two points the δ of the right one holds,
    because a profile does not increase. `staircases` are upper limits (FPR, FNR), shape
    [k, corners, 2], or boxes, shape [k, 2].
    """
    limits = np.asarray(staircases, np.float64)
    limits = np.clip(limits[:, None, :] if limits.ndim == 2 else limits, 0.0, 1.0)
    both = np.stack([limits, limits[..., ::-1]])
    with np.errstate(divide="ignore", invalid="ignore"):  # a limit that is rounded to 0
        ratios = np.where(both[..., 1] < 1, (1 - both[..., 1]) / both[..., 0], 0.0)
    worst = ratios.max(axis=0).min(axis=1)
    telling = np.isfinite(worst) & (worst > 1)  # an event without any limit shows nothing
    if not telling.any():
        return ()
    end = min(float(np.log(worst[telling].max())), LARGEST_EPSILON)
    epsilons = [float(f"{epsilon:.{DIGITS}g}") for epsilon in np.linspace(0, end, POINTS)]
    deltas = certified_delta(limits[telling], epsilons).tolist()
    return tuple((e, _rounded_down(d)) for e, d in zip(epsilons, deltas, strict=True))


def _rounded_down(value: float) -> float:
    exact = Decimal(value)
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted() - DIGITS + 1)), ROUND_FLOOR))


def certified_delta(staircases: npt.ArrayLike, epsilons: npt.ArrayLike) -> Floats:
    """Return max_j min over corners (x, y) of max(1 − y − e^ε x, 1 − x − e^ε y), and at least 0.

    The error rates of event j lie below or on an unknown one of its corners, and δ(ε) is at least 1
    − FNR − e^ε FPR for any event, in both directions [Kairouz2015, theorem 2.1]. So if the
    staircases hold together with some probability, so does δ(ε) ≥ this for all ε at once.

    Args:
        staircases: upper limits (FPR, FNR), shape [k, corners, 2].
        epsilons: at least 0 and at most 700, shape [m].

    Returns:
        Lower bounds on δ, non-increasing in ε, shape [m].
    """
    corners = np.clip(np.asarray(staircases, np.float64), 0.0, 1.0)
    growth = np.exp(np.asarray(epsilons, np.float64))
    if not corners.size:
        return np.zeros(len(growth))
    x, y = corners[..., 0, None], corners[..., 1, None]
    either = np.maximum(1 - y - growth * x, 1 - x - growth * y)
    return np.asarray(np.maximum(either.min(axis=1).max(axis=0), 0.0))


PLACES = 400  # number of ε of the range that are compared
NEWTON_STEPS = 200

ROUNDS, FINER = 5, 65
"""The end of a range is searched on a grid, then on a finer grid between two of its places."""


class ProfileFit(NamedTuple):
    """A fitted μ and its range."""

    mu: float  # the smallest μ whose curve is nowhere below the profile within the range
    epsilon: float  # where it touches
    epsilon_max: float  # the range is [0, epsilon_max]


def fit_gdp_mu(
    profile: Callable[[Floats], Floats],
    *,
    epsilon_max: float,
    delta_min: float = 0.0,
    places: int = PLACES,
) -> ProfileFit:
    """Return the sup over a range of ε of the μ with δ_μ(ε) = profile(ε).

    Appendix A of [Koskela2024] looks for the μ at which the profiles of a subsampled Gaussian and
    of a Gaussian touch. There is none: μ(ε) rises towards 1/σ, so the result depends on the range.

    Args:
        profile: δ(ε), decreasing; takes and returns arrays.
        epsilon_max: the range ends here.
        delta_min: the range ends where δ(ε) falls below it; default: it does not.
        places: the number of ε compared, both ends included.
    """
    end = _last_above(profile, delta_min, epsilon_max)
    epsilons = np.linspace(0.0, end, places)
    mus = matching_mu(epsilons, profile(epsilons))
    best = int(mus.argmax())
    return ProfileFit(float(mus[best]), float(epsilons[best]), end)


def matching_mu(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> Floats:
    """Return the μ of the Gaussian curve through (ε, δ), ε ≥ 0; 0 at δ = 0, inf at δ ≥ 1.

    Newton's method on ln δ_μ(ε), whose derivative in μ is φ(ε/μ − μ/2)/δ_μ(ε), kept inside a
    bracket.
    """
    e, d = np.broadcast_arrays(np.asarray(epsilon, np.float64), np.asarray(delta, np.float64))
    values = np.where(d >= 1, np.inf, 0.0)
    at = np.flatnonzero((d > 0) & (d < 1))
    e, d = e.flat[at], d.flat[at]
    # δ < Φ(μ/2 − ε/μ) puts μ above this.
    z = special.ndtri(d)
    low = np.maximum(z + np.sqrt(z * z + 2 * e), 0.0)

    def judge(mu: Floats) -> roots.Judged:
        value = gaussian.gaussian_delta(e, mu)
        density = np.exp(-((e / mu - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
        useful = (value > 0) & (density > 0)
        step = np.where(useful, np.log(d / np.where(useful, value, d)), 0.0)
        newton = mu + step * np.where(useful, value, 1.0) / np.where(useful, density, 1.0)
        # Near δ = 1 rounding in δ moves μ by far more than its own rounding.
        exact = np.abs(value - d) <= 1e-13 * d
        return roots.Judged(value >= d, exact, np.where(useful, newton, np.nan))

    values.flat[at] = roots.newton_each(
        judge,
        np.maximum(low, 1e-12),
        low,
        np.full(at.size, np.inf),
        tolerance=1e-12,
        least=0.0,
        steps=NEWTON_STEPS,
    )
    return values


def _last_above(profile: Callable[[Floats], Floats], delta: float, end: float) -> float:
    """Return the largest ε ≤ `end` with profile(ε) ≥ delta, to 8 digits; 0 if none."""
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
