"""Samplers of Laplace and Gaussian noise from words of a few bits, with exact laws [Lokna2023].

Delta-Siege audits four samplers of Laplace and nine of Gaussian noise on the inputs 0 and 1. Most
add a float to the input, so the last bits of an output tell the input; others draw from a grid that
does not depend on it. With words of a few bits every output can be enumerated, and the loss
computed. Cases have the names of the libraries whose method they follow, as of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from scipy import special

from dpframe.plugins import (
    ApproxDP,
    Claim,
    Floats,
    Ge,
    Gt,
    HostArray,
    HostMechanism,
    Lt,
    Pair,
    PureDP,
)
from dpframe.stats.gaussian import gaussian_epsilon

Sampler = Literal[
    "laplace-inversion",  # −s ln(1 − u), and a sign
    "laplace-ibm",  # four uniform numbers [Holohan2021]
    "laplace-opendp",  # a discrete Laplace number on a grid
    "laplace-pydp",  # a geometric number on a grid of powers of two
    "gauss-box-muller",  # [Box1958]
    "gauss-polar",  # [Marsaglia1964]
    "gauss-ziggurat",  # [Marsaglia2000]
    "gauss-opacus",  # four numbers of Box and Muller, halved
    "gauss-ibm",  # two numbers of Box and Muller
    "gauss-ibm-analytic",  # the same, with the smallest σ
    "gauss-ibm-discrete",  # a discrete Gaussian number
    "gauss-opendp",  # a discrete Gaussian number on a grid
    "gauss-pydp",  # a binomial number on a grid
]
SAMPLERS: tuple[Sampler, ...] = get_args(Sampler)
GRIDS: dict[Sampler, float] = {
    "laplace-opendp": 2.0**-4,
    "laplace-pydp": 2.0**-3,
    "gauss-ibm-discrete": 1.0,
    "gauss-opendp": 2.0**-3,
    "gauss-pydp": 2.0**-3,
}
"""Distance of outputs, if they lie on a grid; it divides 1, the distance of the inputs."""

CLAMP, REACH = 30.0, 70.0  # scales of Laplace noise to which outputs are clamped, and computed
DEVIATIONS = 9.0  # the same for Gaussian noise, which is cut
BINOMIAL = 4  # a binomial number of 4 (σ/grid)² coins has this standard deviation, in steps


class Noise(NamedTuple):
    """Values of noise of scale 1, and their probabilities."""

    values: Floats
    shares: Floats


def words(number: int, bits: int) -> list[Floats]:
    """Return all combinations of uniform numbers of a few bits: n arrays, each [2^(n bits)]."""
    one = (np.arange(2**bits) + 0.5) / 2**bits
    return [part.ravel() for part in np.meshgrid(*[one] * number, indexing="ij")]


def inversion(bits: int) -> Noise:
    """Return Laplace noise −ln(1 − u) with a fair sign."""
    size = -np.log1p(-words(1, bits)[0])
    return equal(np.concatenate([size, -size]))


def four_uniforms(bits: int) -> Noise:
    """Return Laplace noise: two products of an exponential number and a cosine [Holohan2021]."""
    a, b, c, d = words(4, max(1, bits // 4))
    return equal(np.log1p(-a) * np.cos(np.pi * b) + np.log1p(-c) * np.cos(np.pi * d))


def box_muller(bits: int, numbers: int = 1) -> Noise:
    """Return the sum of Gaussian numbers √(−2 ln u) cos 2πv, over √numbers [Box1958]."""
    drawn = words(2 * numbers, max(1, bits // (2 * numbers)))
    pairs = zip(drawn[::2], drawn[1::2], strict=True)
    each = [np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v) for u, v in pairs]
    return equal(np.sum(each, axis=0) / math.sqrt(numbers))


def polar(bits: int) -> Noise:
    """Return x √(−2 ln r/r) for points (x, y) of the unit disc, r = x² + y² [Marsaglia1964]."""
    x, y = (2 * part - 1 for part in words(2, max(1, bits // 2)))
    r = x * x + y * y
    inside = (r > 0) & (r < 1)
    return equal(x[inside] * np.sqrt(-2 * np.log(r[inside]) / r[inside]))


LAYERS, RIGHT_END, AREA = 8, 2.3383716982472525, 0.17617364011877759


def ziggurat(bits: int) -> Noise:
    """Return Gaussian noise from eight layers of equal area [Marsaglia2000].

    A layer and a word give x; it is accepted below the next layer, else with the probability of the
    wedge, or the tail is drawn by inversion. A rejected draw starts again.
    """
    height = np.exp(-(RIGHT_END**2) / 2)
    ends = [AREA / height, RIGHT_END]
    for _ in range(LAYERS - 2):
        ends.append(math.sqrt(-2 * math.log(AREA / ends[-1] + math.exp(-(ends[-1] ** 2) / 2))))
    edges = np.array([*ends, 0.0])
    u = words(1, bits - 3)[0]
    x = u * edges[:-1, None]
    upper, lower = np.exp(-(edges[1:, None] ** 2) / 2), np.exp(-(edges[:-1, None] ** 2) / 2)
    wedge = np.clip((np.exp(-x * x / 2) - lower) / (upper - lower), 0.0, 1.0)
    kept = np.where(x < edges[1:, None], 1.0, wedge)
    kept[0] = x[0] < RIGHT_END
    lost = 1 - kept[0].mean()  # of the lowest layer: drawn from the tail
    tail = -special.ndtri(u * special.ndtr(-RIGHT_END))
    values = np.concatenate([x.ravel(), tail])
    shares = np.concatenate([kept.ravel() / len(u), np.full(len(u), lost / len(u))])
    both = np.concatenate([values, -values])
    return noise_of(both, np.tile(shares, 2))


def equal(values: Floats) -> Noise:
    """Return values with equal probabilities."""
    return noise_of(values, np.ones(len(values)))


def noise_of(values: HostArray, weights: HostArray) -> Noise:
    """Return values with probabilities proportional to weights."""
    return Noise(np.asarray(values, np.float64), np.asarray(weights / weights.sum(), np.float64))


FLOATS: dict[Sampler, Callable[[int], Noise]] = {
    "laplace-inversion": inversion,
    "laplace-ibm": four_uniforms,
    "gauss-box-muller": box_muller,
    "gauss-polar": polar,
    "gauss-ziggurat": ziggurat,
    "gauss-opacus": lambda bits: box_muller(bits, 4),
    "gauss-ibm": lambda bits: box_muller(bits, 2),
    "gauss-ibm-analytic": lambda bits: box_muller(bits, 2),
}
"""Samplers that add a float to the input."""


def on_grid(sampler: Sampler, scale: float) -> Noise:
    """Return noise of this scale on the grid of a sampler."""
    grid = GRIDS[sampler]
    if sampler == "gauss-pydp":
        coins = 2 * math.ceil(BINOMIAL * (scale / grid) ** 2 / 2)
        heads = np.arange(coins + 1)
        log = special.gammaln(coins + 1) - special.gammaln(heads + 1)
        log -= special.gammaln(coins - heads + 1) + coins * math.log(2)
        return noise_of(grid * (heads - coins / 2), np.exp(log))
    reach = REACH if sampler.startswith("laplace") else DEVIATIONS
    values = grid * np.arange(-math.ceil(reach * scale / grid), math.ceil(reach * scale / grid) + 1)
    sizes = np.abs(values) / scale
    weights = np.exp(-sizes if sampler.startswith("laplace") else -(sizes**2) / 2)
    return noise_of(values, weights)


class NoiseSampler(HostMechanism, name="noise-sampler"):
    """A number plus noise from one of the thirteen samplers of Delta-Siege [Lokna2023].

    Claim: ε-DP with Laplace noise, (ε, δ)-DP with Gaussian noise, if the number changes by up to 1.
    Wrong for the samplers that add a float to the number; true for those on a grid. Numbers must be
    whole.
    """

    sampler: Sampler = "laplace-inversion"
    """The sampler."""
    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε of the claim."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-3
    """δ of the claim of Gaussian noise."""
    bits: Annotated[int, Ge(6)] = 16
    """Bits of randomness in each output of the samplers that add floats."""

    norm: ClassVar[float] = 1

    def claim(self, pair: Pair) -> Claim:
        steps = max(1.0, pair.distance(1))
        if self.sampler.startswith("laplace"):
            return PureDP(self.epsilon * steps)
        return ApproxDP(self.epsilon, self.delta)

    @property
    def scale(self) -> float:
        """Return 1/ε, or σ: √(2 ln(1.25/δ))/ε, and for the analytic sampler the smallest one."""
        if self.sampler.startswith("laplace"):
            return 1 / self.epsilon
        if self.sampler != "gauss-ibm-analytic":
            return math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
        low, high = 1e-3, 1e3
        for _ in range(60):
            middle = math.sqrt(low * high)
            enough = float(gaussian_epsilon(self.delta, 1 / middle)) <= self.epsilon
            low, high = (low, middle) if enough else (middle, high)
        return high

    def law(self, number: float) -> Noise:
        """Return all outputs on a number, ascending, and their probabilities."""
        if self.sampler in GRIDS:
            noise = on_grid(self.sampler, self.scale)
            outputs = number + noise.values
            if self.sampler.startswith("laplace"):
                outputs = np.clip(outputs, -CLAMP * self.scale, CLAMP * self.scale)
        else:
            noise = FLOATS[self.sampler](self.bits)
            outputs = number + self.scale * noise.values
        values, place = np.unique(outputs, return_inverse=True)
        return noise_of(values, np.bincount(place.ravel(), noise.shares))

    def sample(self, rng: np.random.Generator, data: Floats, n: int) -> Floats:
        law = self.law(float(np.ravel(data)[0]))
        return np.asarray(rng.choice(law.values, (n, 1), p=law.shares))
