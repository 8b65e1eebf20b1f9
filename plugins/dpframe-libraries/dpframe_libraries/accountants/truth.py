"""Compute an interval that contains the true ε of a composition at δ.

Masses on a grid from above and from below (`pairs`) are convolved by FFT. The theorems hold in
exact arithmetic. Rounding errors are bounded as follows, and every bound widens the interval. Each
mass has a relative error of `pairs.RELATIVE`; the FFT has the error of [Higham2002, theorem 24.2],
with a constant of 10 per level; and Chernoff's bound limits the mass that wraps around. The masses
are tilted by e^{λx} first, so that these errors are relative to δ and not to 1.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy import fft
from scipy.special import logsumexp

from dpframe.plugins import Floats
from dpframe_libraries.accountants import pairs
from dpframe_libraries.accountants.pairs import LossGrid, Relation, Step

TIGHT = 2e-3
"""Target width of an interval, relative to the larger of its upper end and 0.01."""
MOST = 2**22
"""Largest number of grid points; an interval that needs more stays wide."""
_ROUNDING = 1e-9  # of ε, for logarithms and the last bisection
_TILTS = np.geomspace(0.02, 2000.0, 60)
_OUTSIDE = 1e-15  # tilted mass that may wrap around


@dataclasses.dataclass(frozen=True)
class Interval:
    """A closed interval for ε; `upper` may be infinite."""

    lower: float
    upper: float
    exact: bool = False
    """True if it follows from a closed form."""

    @property
    def width(self) -> float:
        return 0.0 if self.lower == self.upper else self.upper - self.lower


def intervals(
    steps: tuple[Step, ...],
    relation: Relation,
    deltas: tuple[float, ...],
    tight: float = TIGHT,
) -> tuple[Interval, ...]:
    """Bound the smallest ε of (ε, δ) for each δ, from both sides.

    Neighbours come in both directions, and ε is the larger of the two.

    Args:
        steps: what is composed.
        relation: the neighbours.
        deltas: in (0, 1).
        tight: see `TIGHT`; a grid of `MOST` points is not refined further.

    Raises:
        ValueError: a step is not known under this relation.
    """
    kinds = [pairs.directions(step, relation) for step in steps]
    several = max(len(set(one)) for one in kinds)
    unsampled = all(one[0][0] == "unsampled" for one in kinds)
    if unsampled and all(step.noise == "gaussian" for step in steps):
        return tuple(_gaussian(steps, relation, delta) for delta in deltas)
    found = [Interval(0.0, math.inf)] * len(deltas)
    attainable = not any(below != above for one in kinds for below, above in one)
    wanted = first = _first_spacing(steps)
    for number in range(6):
        h = pairs.spacing_for(steps, relation, wanted)
        each = []
        for direction in range(several):
            below = tuple(one[direction % len(one)][0] for one in kinds)
            above = tuple(one[direction % len(one)][1] for one in kinds)
            each.append(_bounds(steps, relation, below, above, h, deltas))
        lower = [max(ends) for ends in zip(*(one[0] for one in each), strict=True)]
        upper = [max(ends) for ends in zip(*(one[1] for one in each), strict=True)]
        if any(map(math.isnan, upper)):  # too many points
            break
        found = [
            Interval(max(old.lower, low), min(old.upper, high))
            for old, low, high in zip(found, lower, upper, strict=True)
        ]
        worst = max(
            math.inf if one.width == math.inf else one.width / max(one.upper, 0.01) for one in found
        )
        if worst <= tight or (not attainable and wanted < first):
            break  # finer grids do not close the gap between the two pairs
        if worst == math.inf and number:
            break  # δ is the mass of an infinite loss, up to rounding
        # The error falls with the square of the spacing, and linearly if atoms are off the grid.
        wanted = h * min(0.5, max(0.03 if attainable else 0.25, 0.7 * math.sqrt(tight / worst)))
    return tuple(found)


def _first_spacing(steps: tuple[Step, ...]) -> float:
    """Guess a spacing h; rounding adds a variance of at most h² ÷ 4 per step."""
    count = sum(step.count for step in steps)
    size = min(step.rate * math.expm1(min(3.0, 1 / step.scale)) for step in steps)
    return float(min(0.02, max(size, 1e-4) / 4, 0.05 / math.sqrt(count)))


def _gaussian(steps: tuple[Step, ...], relation: Relation, delta: float) -> Interval:
    """Return ε of composed Gaussian releases [Balle2018, theorem 8]."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    far = 2.0 if relation == "replace" else 1.0
    mu = far * math.sqrt(sum(step.count / step.scale**2 for step in steps))

    def over(epsilon: float) -> float:
        first = log_ndtr(mu / 2 - epsilon / mu)
        ratio = math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)) - float(first))
        return float(first) + math.log1p(-min(ratio, 1 - 1e-16)) - math.log(delta)

    if float(ndtr(mu / 2) - ndtr(-mu / 2)) <= delta:
        return Interval(0.0, 0.0, exact=True)
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1
    epsilon = float(brentq(over, 0.0, high, xtol=1e-14, rtol=1e-13))
    return Interval(epsilon * (1 - 1e-7), epsilon * (1 + 1e-7), exact=True)


def _bounds(
    steps: tuple[Step, ...],
    relation: Relation,
    below: tuple[str, ...],
    above: tuple[str, ...],
    h: float,
    deltas: tuple[float, ...],
) -> tuple[list[float], list[float]]:
    """Return lower and upper ends for each δ, in one direction; NaN if the grid is too large."""
    counts = tuple(step.count for step in steps)
    tail = min(deltas) * 1e-4 / sum(counts)

    def grids(kinds: tuple[str, ...]) -> list[LossGrid]:
        return [
            pairs.grid(dataclasses.replace(step, count=1), relation, kind, h, tail)
            for step, kind in zip(steps, kinds, strict=True)
        ]

    ends: list[list[float]] = []
    for kinds, up in ((below, False), (above, True)):
        found = grids(kinds)
        masses = [one.upper if up else one.lower for one in found]
        firsts = [one.first for one in found]
        lost = 1.0
        for one, count in zip(found, counts, strict=True):
            lost *= (1 - (one.infinite if up else one.certain)) ** count
        infinite = (1 - lost) * (1 + 1e-12) if up else max(0.0, (1 - lost) * (1 - 1e-9) - 1e-15)
        ends.append(_ends(masses, firsts, h, counts, infinite, deltas, up=up))
    return ends[0], ends[1]


@dataclasses.dataclass
class _Parts:
    """The masses of all steps, and their cumulant generating function."""

    masses: list[Floats]
    firsts: list[float]
    h: float
    counts: tuple[int, ...]

    @functools.cached_property
    def coarse(self) -> list[tuple[Floats, Floats]]:
        """Losses and log masses, summed over blocks; only for choices, never for bounds."""
        parts = []
        for mass, first in zip(self.masses, self.firsts, strict=True):
            starts = np.arange(0, len(mass), max(1, len(mass) // 8192))
            kept = np.add.reduceat(mass, starts)
            x = first + self.h * np.arange(len(mass))
            mean = np.add.reduceat(mass * x, starts)[kept > 0] / kept[kept > 0]
            parts.append((mean, np.log(kept[kept > 0])))
        return parts

    def roughly(self, tilts: Floats) -> Floats:
        """Return the logarithm of E e^{λS} for each λ, from the coarse masses."""
        total = np.zeros(len(tilts))
        for (x, logs), count in zip(self.coarse, self.counts, strict=True):
            total += count * logsumexp(tilts[:, None] * x + logs, axis=1)
        return total

    def cumulant(self, tilt: float) -> float:
        """Return the logarithm of E e^{λS}."""
        total = 0.0
        for mass, first, count in zip(self.masses, self.firsts, self.counts, strict=True):
            x = tilt * (first + self.h * np.arange(len(mass)))
            top = float(np.max(x, where=mass > 0, initial=-math.inf))
            total += count * (top + math.log(float(mass @ np.exp(np.minimum(x - top, 0.0)))))
        return total


def _ends(
    masses: list[Floats],
    firsts: list[float],
    h: float,
    counts: tuple[int, ...],
    infinite: float,
    deltas: tuple[float, ...],
    *,
    up: bool,
) -> list[float]:
    """Return the ε at which the curve of a composition falls to each δ."""
    if not all(mass.any() for mass in masses):
        return [math.inf if up else 0.0] * len(deltas)
    parts = _Parts(masses, firsts, h, counts)
    rough = parts.roughly(_TILTS)
    found: list[float] = []
    last: _Composed | None = None
    for delta in deltas:
        if infinite >= delta:
            found.append(math.inf)
            continue
        # ln δ(ε) ≤ K(λ) − λε + λ ln λ − (1 + λ) ln(1 + λ): the best λ for this δ.
        peak = _TILTS * np.log(_TILTS) - (1 + _TILTS) * np.log1p(_TILTS)
        epsilons = (rough + peak - math.log(delta)) / _TILTS
        best = int(np.argmin(epsilons))
        guess = float(epsilons[best])
        tilt = float(_TILTS[best])
        if last is not None and (end := last.epsilon(delta, infinite, up=up)) is not None:
            found.append(end)
            continue
        last = _composed(parts, tilt, guess)
        if last is None:
            found.append(math.nan)
            continue
        end = last.epsilon(delta, infinite, up=up, strict=False)
        assert end is not None
        found.append(end)
    return found


@dataclasses.dataclass
class _Composed:
    """Tilted masses of the sum, at `start` + i h, and the bounds on their errors."""

    tilted: Floats
    start: float
    h: float
    tilt: float
    log_scale: float
    """Logarithm of E e^{λS}, by which the masses were divided."""
    noise: float
    """Error of a mass by the FFT."""
    outside: float
    """Tilted mass outside, which may have wrapped around."""
    relative: float

    @functools.cached_property
    def points(self) -> tuple[Floats, Floats, Floats]:
        """Losses s, and Σ p e^{−λ(x − s)} and Σ p e^{−(1 + λ)(x − s)} over x ≥ s."""
        s = np.asarray(self.start + self.h * np.arange(len(self.tilted)), np.float64)
        sums = []
        for rate in (self.tilt, 1 + self.tilt):
            # In blocks, so that no exponent is large.
            block = max(1, min(len(s), int(200.0 / (rate * self.h))))
            total, after = np.empty(len(s)), 0.0
            for stop in range(len(s), 0, -block):
                begin = max(0, stop - block)
                weights = np.exp(-rate * self.h * np.arange(stop - begin))
                part = np.cumsum((self.tilted[begin:stop] * weights)[::-1])[::-1] / weights
                carried = after * np.exp(-rate * self.h * np.arange(stop - begin, 0, -1))
                total[begin:stop] = part + carried
                after = float(total[begin])
            sums.append(total)
        return s, sums[0], sums[1]

    def epsilon(
        self, delta: float, infinite: float, *, up: bool, strict: bool = True
    ) -> float | None:
        """Return ε at δ; None if strict and the errors are more than 10⁻⁴ of δ."""
        s, first, second = self.points
        peak = math.exp(
            self.tilt * math.log(self.tilt) - (1 + self.tilt) * math.log1p(self.tilt)
        )  # the largest e^{−λv}(1 − e^{−v})
        spread = self.noise * (1 / (self.h * self.tilt * (1 + self.tilt)) + 2 * peak)
        error = spread + self.outside * (1.0 if up else peak)
        part = delta - infinite
        grow = 1 + self.relative
        log_target = math.log(part / grow if up else part * grow) - self.log_scale

        def value(at: Floats, a: Floats, b: Floats, ahead: Floats) -> Floats:
            # E over x ≥ s of e^{−λ(x − ε)}(1 − e^{ε − x}), with ε = s − ahead
            curve = a * np.exp(-self.tilt * ahead) - b * np.exp(-(1 + self.tilt) * ahead)
            net = curve + error if up else curve - error
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(net > 0, np.log(np.maximum(net, 1e-300)), -np.inf) - self.tilt * at

        height = value(s, first, second, np.zeros(1))
        above = np.flatnonzero(height > log_target)
        i = int(above[-1]) if above.size else -1
        if i + 1 >= len(s):
            return float(math.inf if up else s[-1])
        if i < 0 and not up:
            return 0.0
        if strict and error > 1e-4 * float(first[i + 1] - second[i + 1]):
            return None
        low, high = 0.0, self.h  # how far ε lies below s[i + 1]
        one = [np.array([float(each[i + 1])]) for each in (s, first, second)]
        for _ in range(40):
            middle = (low + high) / 2
            at = one[0] - middle
            if value(at, one[1], one[2], np.array([middle]))[0] > log_target:
                high = middle
            else:
                low = middle
        end = float(s[i + 1]) - (low if up else high)
        slack = _ROUNDING * max(1.0, abs(end)) if end else 0.0
        return max(0.0, end + slack if up else end - slack)


def _composed(parts: _Parts, tilt: float, guess: float) -> _Composed | None:
    """Convolve the masses under the tilt λ; None if that takes too many points."""
    h, counts = parts.h, parts.counts
    scale = parts.cumulant(tilt)
    # A window outside which the tilted sum lies with probability _OUTSIDE, by Chernoff.
    first = sum(c * f for c, f in zip(counts, parts.firsts, strict=True))
    least = first
    most = sum(
        c * (f + h * (len(m) - 1))
        for c, f, m in zip(counts, parts.firsts, parts.masses, strict=True)
    )
    nudge = np.geomspace(0.1, 300.0, 20)
    upward = (parts.roughly(tilt + nudge) - scale - math.log(_OUTSIDE / 2)) / nudge
    downward = (scale - parts.roughly(tilt - nudge) + math.log(_OUTSIDE / 2)) / nudge
    t, v = float(nudge[np.argmin(upward)]), float(nudge[np.argmax(downward)])
    top = min(most, (parts.cumulant(tilt + t) - scale - math.log(_OUTSIDE / 2)) / t)
    bottom = max(least, (scale - parts.cumulant(tilt - v) + math.log(_OUTSIDE / 2)) / v)
    begin = math.floor((bottom - first) / h) - 1
    needed = math.ceil((top - first) / h) + 2 - begin
    size = fft.next_fast_len(max(needed, 64), real=True)
    if size > MOST:
        return None
    spectra, norms = [], []
    for mass, start in zip(parts.masses, parts.firsts, strict=True):
        x = tilt * (start + h * np.arange(len(mass)))
        own = _Parts([mass], [start], h, (1,)).cumulant(tilt)
        exponent = np.minimum(x - own, 700.0)
        weighted = mass * np.exp(exponent)
        folded = np.bincount(np.arange(len(mass)) % size, weighted, minlength=size)
        spectra.append(fft.rfft(folded))
        norms.append(float(np.linalg.norm(folded)))
    level = 10 * math.log2(size) * np.finfo(float).eps
    product = np.ones(len(spectra[0]), complex)
    for spectrum, count in zip(spectra, counts, strict=True):
        product *= spectrum**count
    noise = level * float(np.linalg.norm(product)) * math.sqrt(2 / size)
    sizes = [np.abs(spectrum) for spectrum in spectra]
    for i, (norm, count) in enumerate(zip(norms, counts, strict=True)):
        rest = np.ones(len(product))
        for j, (one, times) in enumerate(zip(sizes, counts, strict=True)):
            rest *= one ** (times - (i == j))
        noise += 2 * count * level * norm * float(np.linalg.norm(rest)) * math.sqrt(2 / size)
        noise += count * 1e-15 * float(np.linalg.norm(product)) * math.sqrt(2 / size)
    tilted = np.roll(fft.irfft(product, size), -(begin % size))
    relative = math.expm1(sum(counts) * pairs.RELATIVE)
    return _Composed(
        np.maximum(tilted, 0.0), first + h * begin, h, tilt, scale, noise, _OUTSIDE, relative
    )
