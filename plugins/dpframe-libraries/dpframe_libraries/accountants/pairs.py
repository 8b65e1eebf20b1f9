"""Bound the loss distributions of single steps on a grid, from above and from below.

A step is a release of a sum. A record contributes at most 1, in the L2 norm for Gaussian noise and
in the L1 norm for Laplace noise, and the scale of the noise is in the same unit. Neighbours that
replace a record therefore differ by up to 2.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dpframe.plugins import Floats

Relation = Literal["add-remove", "replace", "zero-out"]
TRUNCATED = "truncated-discrete-gaussian"
NOISES = (
    *("gaussian", "laplace", "discrete-gaussian", "discrete-laplace", TRUNCATED),
    "randomized-response",
)
SAMPLINGS = ("none", "poisson", "fixed")
RELATIVE = 1e-10
"""Allowance for the relative error of a mass on the grid: the quadrature error is below 1e-12, and
the cancellation error is 1e-16 ÷ spacing in cells that are wide in the noise coordinate."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_NARROW = 0.1  # in standard deviations: three nodes in each half of a cell integrate it to 1e-12
_ALIGNED = 1e-10  # of the spacing: an atom this far below a grid point counts as on it


@dataclasses.dataclass(frozen=True)
class Step:
    """Releases of one kind, `count` times."""

    noise: str
    scale: float
    """Standard deviation σ, scale b of Laplace noise, or ε of randomized response."""
    count: int = 1
    sampling: str = "none"
    rate: float = 1.0
    """Probability that a record is sampled; batch ÷ records for samples of a fixed size."""
    bound: int = 0
    """Largest absolute value of truncated noise; 0 for other noise."""

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ValueError(f"noise = {self.noise!r} is not one of {', '.join(NOISES)}")
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling = {self.sampling!r} is not one of {', '.join(SAMPLINGS)}")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale = {self.scale} is not finite and positive")
        if not 0 < self.rate <= 1 or (self.sampling == "none" and self.rate != 1):
            raise ValueError(f"rate = {self.rate} does not fit sampling = {self.sampling!r}")
        if self.count < 1:
            raise ValueError(f"count = {self.count} is not positive")
        if type(self.bound) is not int or (self.bound > 0) != (self.noise == TRUNCATED):
            raise ValueError(f"bound = {self.bound!r} does not fit noise = {self.noise!r}")


@dataclasses.dataclass(frozen=True)
class LossGrid:
    """Masses at the losses `first` + i `spacing`, under the first dataset."""

    first: float
    spacing: float
    upper: Floats
    lower: Floats
    infinite: float
    """Mass that the upper distribution puts at an infinite loss."""
    certain: float = 0.0
    """The lower one's: the probability of outputs that only one dataset can have."""


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Two distributions with a monotone likelihood ratio: a density in u, and atoms."""

    loss: Callable[[Floats], Floats]
    at: Callable[[Floats], Floats]
    """The coordinate u of a loss, clipped to `ends`."""
    density: Callable[[Floats], Floats]
    mass: Callable[[Floats, Floats], Floats]
    other: Callable[[Floats, Floats], Floats]
    """Mass of an interval under the second dataset."""
    ends: tuple[float, float]
    atoms: tuple[Floats, Floats]
    """Losses, and their masses under the first dataset."""
    above: float = 0.0
    """Mass above `ends`."""
    certain: float = 0.0
    """Mass of an infinite loss."""
    limit: float = 0.0
    """The smallest or largest loss of the density, if there is one."""


def directions(step: Step, relation: Relation) -> tuple[tuple[str, str], ...]:
    """Return the pairs that bound the loss: (below, above) for each direction of the neighbours.

    Actual datasets attain the first pair, so its loss is a true lower limit. The second pair is an
    upper limit. The two are equal except for samples of a fixed size. There the upper pair is
    [BalleBG2018, theorem 9] for every α, as a curve [Zhu2022, theorem 11]. The lower pairs include
    datasets whose other records cancel the record or double it; no single dataset is the worst
    under composition [Lebeda2024]. Like dp-accounting, this assumes that "mixtures" is also the
    upper limit of Poisson samples under replace. Findings below the truth do not rely on this
    assumption.

    Raises:
        ValueError: no pair is known for this step and this relation.
    """
    if step.noise == "randomized-response":
        if relation != "replace" or step.sampling != "none":
            raise ValueError(
                "the true ε of randomized response is known only without sampling, under replace"
            )
        return (("unsampled", "unsampled"),) * 2
    if step.sampling == "none" or step.rate == 1.0:
        return (("unsampled", "unsampled"),) * 2
    if step.sampling == "fixed":
        if relation != "replace" or step.noise != "gaussian":
            raise ValueError(
                "the true ε of fixed-size samples is known only for Gaussian noise, under replace"
            )
        # Other records of 0, of −1 and of 1, so that they cancel the record or double it.
        return tuple((below, "amplified") for below in ("mixtures", "remove-2", "add-2"))
    if relation == "replace":
        if step.noise != "gaussian":
            raise ValueError(
                "the true ε of Poisson samples under replace is known only for Gaussian noise"
            )
        return (("mixtures", "mixtures"),) * 2
    return (("remove", "remove"), ("add", "add"))


def spacing_for(steps: tuple[Step, ...], relation: Relation, wanted: float) -> float:
    """Return a spacing of at most `wanted` that puts the atoms of the first step on the grid."""
    for step in steps:
        if step.noise != "gaussian":
            pair = _pair(step, relation, directions(step, relation)[0][0], 1e-12)
            losses = np.sort(pair.atoms[0])
            if len(losses) > 1:
                gap = float(losses[-1] - losses[-2]) if len(losses) > 2 else float(np.ptp(losses))
                return gap / math.ceil(gap / wanted)
    return wanted


@functools.lru_cache(maxsize=16)
def grid(step: Step, relation: Relation, kind: str, spacing: float, tail: float) -> LossGrid:
    """Put the loss distribution of one release of a step on a grid.

    Let f(α) = ∫ (1 − α e^{−x})₊ over the losses x, which is δ at ε = ln α. The curve of the upper
    masses lies above f: it interpolates f linearly between the points e^x of the grid
    [Doroshenko2022]. The curve of the lower masses lies below f: at each point of the grid it is
    the lower of the tangents at the two neighbouring midpoints, so between two points it lies below
    the tangent at their midpoint. Composition preserves this order, because f of a composition is
    an average of f of one step over the losses of the others.

    Args:
        step: its count is ignored.
        relation: the neighbours.
        kind: a pair of `directions`.
        spacing: of the grid.
        tail: largest mass that may be rounded to the ends of the grid, or to an infinite loss.
    """
    if kind == "amplified":
        return _amplified(step, spacing, tail)
    return _on_grid(_pair(step, relation, kind, tail), spacing)


def _on_grid(pair: _Pair, h: float) -> LossGrid:
    losses, masses = pair.atoms
    low, high = (float(pair.loss(np.array(end))) for end in pair.ends)
    if low == high:  # no density
        low, high = float(losses.min()), float(losses.max())
    elif losses.size:
        low, high = min(low, float(losses.min())), max(high, float(losses.max()))
    # The grid contains the largest atom, where the curve has a corner; without atoms, the limit
    # near which losses of a sampled release without the record gather.
    anchor = float(losses.max()) if losses.size else pair.limit
    first = anchor - h * (math.ceil((anchor - low) / h - _ALIGNED) + 2)
    size = math.ceil((high - first) / h - _ALIGNED) + 3
    x = np.asarray(first + h * np.arange(size), np.float64)
    upper, lower = np.zeros(size), np.zeros(size)
    if pair.ends[0] < pair.ends[1]:
        over, under = _density_on(pair, x, h)
        upper += over
        lower += under
    if losses.size:
        place = (losses - first) / h
        index = np.clip(np.floor(place + _ALIGNED).astype(int), 0, size - 2)
        # Keeps mass and mass / e^loss, as interpolation does.
        share = -np.expm1(np.maximum(0.0, place - index) * -h) / -math.expm1(-h)
        np.add.at(upper, index, masses * (1 - share))
        np.add.at(upper, index + 1, masses * share)
        np.add.at(lower, index, masses)
    return LossGrid(first, h, upper, lower, pair.above + pair.certain, pair.certain)


def _density_on(pair: _Pair, x: Floats, h: float) -> tuple[Floats, Floats]:
    """Return upper and lower masses of the density of a pair at the points x."""
    edges = pair.at(np.append(np.column_stack([x[:-1], x[:-1] + h / 2]).ravel(), x[-1]))
    left, right = edges[:-1], edges[1:]  # of half cells
    half = (right - left) / 2
    nodes = (left + half)[:, None] + half[:, None] * _NODES
    weights = half[:, None] * _WEIGHTS * pair.density(nodes)
    loss = pair.loss(nodes)
    base = np.repeat(x[:-1], 2)[:, None]
    mass = weights.sum(1)
    over = -(weights * np.expm1(base - loss)).sum(1)  # ∫ 1 − e^{x_i − x}
    under = (weights * np.expm1(base + h - loss)).sum(1)  # ∫ e^{x_{i+1} − x} − 1
    over, under = np.maximum(over, 0.0), np.maximum(under, 0.0)
    reach = np.maximum(1.0, np.maximum(abs(left), abs(right)))
    wide = np.flatnonzero((right - left) * reach > _NARROW)
    if wide.size:
        p = pair.mass(left[wide], right[wide])
        q = pair.other(left[wide], right[wide])
        mass[wide] = p
        over[wide] = np.maximum(0.0, p - np.exp(base[wide, 0]) * q)
        under[wide] = np.maximum(0.0, np.exp(base[wide, 0] + h) * q - p)
    upper = np.zeros(len(x))
    upper[:-1] += (under[0::2] + under[1::2]) / math.expm1(h)
    upper[1:] += (over[0::2] + over[1::2]) / -math.expm1(-h)
    upper[0] += float(pair.mass(np.array(-np.inf), edges[0]))  # smaller losses round up
    # The curve from below is f − gap at the points of the grid. Masses are e^x times its bends, in
    # the variable e^x. Two empty cells at each end make both gaps there 0.
    gap = np.zeros(len(x))
    gap[:-1] = over[0::2]
    gap[1:] = np.maximum(gap[1:], under[1::2])
    rise = np.diff(gap)
    lower = upper.copy()
    lower[1:-1] -= rise[1:] / math.expm1(h) - rise[:-1] / -math.expm1(-h)
    _make_positive(lower, x)
    upper[0] += float(pair.mass(np.array(-np.inf), edges[0]))  # smaller losses round up
    return upper, lower


def _make_positive(masses: Floats, x: Floats) -> None:
    """Lower a curve until no mass is negative, in place."""
    # The curve may be negative at its end. From the last point where it is positive, its line goes
    # to 0: a bend between two points, which is moved down to that point.
    beyond = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
    weight = np.append(np.cumsum((masses * np.exp(-x))[:0:-1])[::-1], 0.0)
    positive = np.flatnonzero(beyond - np.exp(x) * weight > 0)
    if positive.size:
        end = int(positive[-1])
        masses[end] += beyond[end]
        masses[end + 1 :] = 0.0
    # A negative mass may move to a larger loss: that lowers the curve too.
    for i in np.flatnonzero(masses < 0):
        debt, at = 0.0, int(i)
        while at < len(masses) and (debt > 0 or masses[at] < 0):
            debt -= masses[at]
            masses[at], debt = max(0.0, -debt), max(0.0, debt)
            at += 1
        if debt > 0:  # no mass is left to compensate
            masses[:] = 0.0


def _pair(step: Step, relation: Relation, kind: str, tail: float) -> _Pair:
    far = 2.0 if kind.endswith("-2") or (relation == "replace" and kind == "unsampled") else 1.0
    kind = kind.removesuffix("-2")
    q = step.rate
    if step.noise in ("gaussian", "laplace"):
        make = _gaussian if step.noise == "gaussian" else _laplace
        pair = make(far / step.scale, q if kind != "unsampled" else 1.0, tail, kind)
    else:
        ell, p, other = _discrete(step, far, tail)
        if kind == "unsampled":
            q = 1.0
        pair = _atoms(ell, p, other, q, reverse=kind == "add", whole=step.noise == TRUNCATED)
    return pair


def _mixed(ell: Floats, q: float) -> Floats:
    """Return ln(1 − q + q e^ℓ), the loss of a release that uses the record with probability q."""
    if q == 1:
        return ell
    small = np.log1p(q * np.expm1(np.minimum(ell, 30.0)))
    return np.where(ell < 30, small, ell + math.log(q) + np.log1p((1 - q) / q * np.exp(-ell)))


def _unmixed(x: Floats, q: float) -> Floats:
    """Invert `_mixed`; −inf below its smallest value."""
    if q == 1:
        return x
    with np.errstate(divide="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(x, 30.0)) / q, -1.0))
    return np.where(x < 30, small, x - math.log(q) + np.log1p((q - 1) * np.exp(-np.abs(x))))


def _atoms(
    ell: Floats, p: Floats, other: Floats, q: float, *, reverse: bool, whole: bool = False
) -> _Pair:
    """Return the pair of two discrete distributions; losses of ±∞ are outputs of only one of them.

    If the distributions are not `whole`, the mass that they lack counts as an infinite loss.
    """
    with np.errstate(all="ignore"):
        loss = _mixed(ell, q) * (-1 if reverse else 1)
    mass = other if reverse else (1 - q) * other + q * p
    finite, zero = np.isfinite(loss), np.zeros(1)
    certain = float(mass[loss == math.inf].sum())
    return _Pair(
        lambda u: u, lambda u: u, lambda u: u, lambda a, b: zero, lambda a, b: zero, (0.0, 0.0),
        (loss[finite], mass[finite]), 0.0 if whole else max(0.0, 1 - float(mass.sum())), certain,
    )  # fmt: skip


def _discrete(step: Step, far: float, tail: float) -> tuple[Floats, Floats, Floats]:
    """Return losses of the unsampled release, and their masses under both datasets."""
    if step.noise == "randomized-response":
        truth = 1 / (1 + math.exp(-step.scale))
        ell = np.array([step.scale, -step.scale])
        return ell, np.array([truth, 1 - truth]), np.array([1 - truth, truth])
    a = 1 / step.scale
    if step.noise == "discrete-laplace":
        inner = np.arange(1, int(far))  # outputs between the two true values
        norm = math.tanh(a / 2)
        tails = 1 / (1 + math.exp(-a))  # mass from a true value onwards
        ell = np.concatenate([[far * a], (2 * inner - far) * a, [-far * a]])
        p = np.concatenate(
            [[tails], norm * np.exp(-a * (far - inner)), [tails * math.exp(-a * far)]]
        )
        return ell, p, p * np.exp(-ell)
    if step.noise == TRUNCATED:
        weights = np.exp(-(np.arange(-step.bound, step.bound + 1.0) ** 2) * a * a / 2)
        shift = int(far)
        p, other = (np.pad(weights / weights.sum(), ends) for ends in ((shift, 0), (0, shift)))
        with np.errstate(divide="ignore"):
            return np.log(p) - np.log(other), p, other
    reach = math.ceil(far + step.scale * -ndtri(tail / 4)) + 2
    y = np.arange(-reach, reach + 1.0)
    every = np.exp(-(np.arange(-reach - 40.0, reach + 41.0) ** 2) * a * a / 2)
    p = np.exp(-((y - far) ** 2) * a * a / 2) / every.sum()
    ell = (2 * y * far - far**2) * a * a / 2
    return ell, p, np.exp(-(y**2) * a * a / 2) / every.sum()


def _difference(a: Floats, b: Floats) -> Floats:
    """Return Φ(b) − Φ(a) with a small relative error."""
    flip = a > 0
    return np.where(flip, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))


def _gaussian(mu: float, q: float, tail: float, kind: str) -> _Pair:
    """Return the pair; u is standard normal under the dataset without the record."""
    reach = -float(ndtri(tail / 2))
    c = mu * mu / 2
    limit = math.log1p(-q) if q < 1 else 0.0

    def ratio(u: Floats) -> Floats:
        return _mixed(mu * u - c, q)

    def inverse(x: Floats) -> Floats:
        return (_unmixed(x, q) + c) / mu

    def normal(u: Floats) -> Floats:
        return np.exp(-u * u / 2) / math.sqrt(2 * math.pi)

    def mixed(u: Floats, s: float) -> Floats:
        return (1 - q) * normal(u) + q * normal(u - s)

    def mixture(s: float) -> Callable[[Floats, Floats], Floats]:
        return lambda a, b: (1 - q) * _difference(a, b) + q * _difference(a - s, b - s)

    none = (np.zeros(0), np.zeros(0))
    if kind == "add":
        ends = (-reach, reach)
        return _Pair(
            lambda u: -ratio(-u), lambda x: np.clip(-inverse(-x), *ends), normal, _difference,
            lambda a, b: mixture(mu)(-b, -a), ends, none, float(ndtr(-reach)), limit=-limit,
        )  # fmt: skip
    ends = (-reach, mu + reach)
    if kind == "mixtures":
        ends = (-reach - mu, mu + reach)

        def both(u: Floats) -> Floats:
            return ratio(u) - ratio(-u)

        def back(x: Floats) -> Floats:
            # q c t² + (1 − q)(1 − e^x) t − q c e^x = 0, with t = e^{μu} and c = e^{−μ²/2}
            b, k = (1 - q) * -np.expm1(x), q * math.exp(-c)
            root = np.sqrt(b * b + 4 * k * k * np.exp(x))
            t = np.where(b > 0, 2 * k * np.exp(x) / (b + root), (root - b) / (2 * k))
            with np.errstate(divide="ignore"):
                return np.clip(np.log(t) / mu, *ends)

        return _Pair(
            both, back, lambda u: mixed(u, mu), mixture(mu), mixture(-mu), ends, none,
            float(ndtr(-reach)),
        )  # fmt: skip
    return _Pair(
        ratio, lambda x: np.clip(inverse(x), *ends), lambda u: mixed(u, mu), mixture(mu),
        _difference, ends, none, float(ndtr(-reach)), limit=limit,
    )  # fmt: skip


def _laplace(a: float, q: float, tail: float, kind: str) -> _Pair:
    """Return the pair; u is the loss of the unsampled release, within [−a, a]."""

    def ratio(u: Floats) -> Floats:
        return _mixed(u, q)

    def inverse(x: Floats) -> Floats:
        return np.clip(_unmixed(x, q), -a, a)

    def plain(u: Floats) -> Floats:
        return np.exp(-(u + a) / 2) / 4

    def below(u: Floats) -> Any:
        return -np.exp(-(np.clip(u, -a, a) + a) / 2) / 2

    def mass(u: Floats, v: Floats) -> Floats:
        return np.asarray(below(v) - below(u))

    def mixed_mass(u: Floats, v: Floats) -> Floats:
        return (1 - q) * mass(u, v) + q * mass(-v, -u)

    ell, p = np.array([a, -a]), np.array([0.5, math.exp(-a) / 2])
    atoms = _atoms(ell, p, p[::-1], q, reverse=kind == "add").atoms
    if kind == "add":
        return _Pair(
            lambda u: -ratio(-u), lambda x: -inverse(-x), lambda u: plain(-u),
            lambda u, v: mass(-v, -u), lambda u, v: mixed_mass(-v, -u), (-a, a), atoms,
        )  # fmt: skip
    return _Pair(
        ratio, inverse, lambda u: (1 - q) * plain(u) + q * plain(-u), mixed_mass, mass,
        (-a, a), atoms,
    )  # fmt: skip


def _amplified(step: Step, h: float, tail: float) -> LossGrid:
    """Return upper masses for a sample of a fixed size; the lower ones are left empty.

    For α ≥ 1 the curve is that of the pair "remove" at twice the distance, for α < 1 that of "add".
    """
    mu = 2.0 / step.scale
    halves = [
        _on_grid(dataclasses.replace(_gaussian(mu, step.rate, tail, kind), limit=0.0), h)
        for kind in ("add", "remove")
    ]
    # Anchored at 0, so 0 is a point of both grids.
    start = round(halves[0].first / h)
    parts = []
    for part, keep in zip(halves, (-1, 1), strict=True):
        index = np.arange(len(part.upper)) + round(part.first / h)
        parts.append((index[index * keep > 0], part.upper[index * keep > 0]))
    stop = int(parts[1][0].max())
    upper = np.zeros(stop - start + 1)
    for index, masses in parts:
        upper[index - start] += masses
    infinite = halves[1].infinite
    upper[-start] += max(0.0, 1 - upper.sum() - infinite)
    return LossGrid(start * h, h, upper, np.zeros(len(upper)), infinite)
