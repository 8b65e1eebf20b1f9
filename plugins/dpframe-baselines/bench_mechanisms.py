"""The 44 mechanisms of the bench, each with a claim, its exact loss, and scores of the best attack.

Output laws are computed: by the mechanisms of dpframe-textbook, by enumeration, or by quadrature.
Numbers that a mechanism releases are put into cells where noted, so losses are those of the cells.
A score is the log-likelihood ratio of an output, so methods differ in their statistics alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from dpframe_baselines.samplers import SAMPLERS, NoiseSampler
from scipy import optimize, special

from dpframe.plugins import (
    ApproxDP,
    Claim,
    Floats,
    LaplaceDP,
    PureDP,
    SubsampledGaussianDP,
    find_plugin,
)

TINY = 1e-300  # weight of outputs that one dataset never has
FINE, REACH = 1 / 512, 30.0  # cells of numbers without an exact sum
CLEAR = 40.0  # log-likelihood ratios are clipped here; outputs of one dataset alone have this one
EPSILON, DELTA = 1.0, 1e-3
PATTERNS = (
    *("one-above", "one-below", "one-above-rest-below", "one-below-rest-above"),
    *("half-half", "all-above", "all-below", "x-shape"),
)
Draw = Callable[[np.random.Generator, int, int], Floats]
"""Returns n scores on a dataset, 0 or 1."""


class Case(NamedTuple):
    """A mechanism on one pair."""

    name: str
    claim: Claim
    truth: float  # ε at δ; inf if outputs of one dataset alone have a probability above δ
    draw: Draw
    laws: tuple[Floats, Floats] | None = None  # of finitely many outputs, or of fine cells

    @property
    def delta(self) -> float:
        """Return the δ of the claim."""
        return self.claim.default_delta

    @property
    def right(self) -> bool:
        """True if the loss is at most the claim."""
        return self.truth <= self.claim.epsilon_at(self.delta) * (1 + 1e-9)

    def optimum(self, confidence: float) -> float:
        """Return the draws on each dataset until the best bet of all refutes a wrong claim.

        It knows both laws, and its wealth grows at the rate of `distance_to_claim`.
        """
        if self.right or self.laws is None:
            raise ValueError(f"{self.name}: a right claim, or no law to compute with")
        distance = distance_to_claim(*self.laws, self.claim.epsilon_at(self.delta), self.delta)
        return -math.log(1 - confidence) / distance


def distance_to_claim(zero: Floats, one: Floats, epsilon: float, delta: float) -> float:
    """Return the smallest KL(zero‖P*) + KL(one‖Q*) over the laws P*, Q* that satisfy (ε, δ)-DP.

    Solves the dual problem, the weights g and h of outputs with the largest Σ zero ln g + Σ one ln
    h. If an output meets the claim, its weights are (x, y). Otherwise up to a moves to g from h, or
    up to b to h from g, at the rate of e^ε. The constraint is x + y + δ (a + b) = 2.
    """
    shares, place = np.unique(zero / np.maximum(zero + one, 1e-300), return_inverse=True)
    p, q = (np.bincount(place, law, len(shares)) for law in (zero, one))  # weights depend on shares
    seen, growth = p + q > 0, math.exp(epsilon)
    p, q = p[seen], q[seen]

    def gain(x: float, a: float, b: float) -> float:
        y = 2 - x - (delta * (a + b) if delta else 0.0)
        if min(x, y) <= 0:
            return -math.inf
        up = np.clip((p * y - growth * q * x) / (growth * (p + q)), 0, a)
        down = np.clip((q * x - growth * p * y) / (growth * (p + q)), 0, b)
        g, h = x + up - growth * down, y + down - growth * up
        g, h = np.maximum(g, TINY), np.maximum(h, TINY)
        return float((p * np.log(g) + q * np.log(h)).sum())

    if not delta:
        found = optimize.minimize_scalar(
            lambda x: -gain(x, math.inf, math.inf), bounds=(0, 2), method="bounded"
        )
    else:
        found = optimize.minimize(
            lambda v: -gain(2 * special.expit(v[0]), *np.exp(np.minimum(v[1:], 600.0))),
            np.zeros(3),
            method="Nelder-Mead",
            options={
                **{"xatol": 1e-5, "fatol": 1e-11, "maxiter": 4000},
                "initial_simplex": np.vstack([np.zeros(3), np.diag([1.0, 3.0, 3.0])]),
            },
        )
    return -float(found.fun)


def epsilon_of_laws(zero: Floats, one: Floats, delta: float) -> float:
    """Return ε at δ of two laws on the same outputs."""

    def excess(epsilon: float) -> float:
        growth = math.exp(epsilon)
        ways = (np.maximum(p - growth * q, 0).sum() for p, q in ((zero, one), (one, zero)))
        return float(max(ways)) - delta

    if delta > 0:
        if excess(0.0) <= 0:
            return 0.0
        return float(optimize.brentq(excess, 0.0, CLEAR)) if excess(CLEAR) < 0 else math.inf
    seen = (zero > 0) | (one > 0)
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(zero[seen]) - np.log(one[seen])).max())


def of_laws(name: str, claim: Claim, zero: Floats, one: Floats) -> Case:
    """Return a case with finitely many outputs."""
    laws = [np.asarray(law, np.float64).ravel() / np.sum(law) for law in (zero, one)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.clip(np.log(laws[1]) - np.log(laws[0]), -CLEAR, CLEAR)
    below = [np.cumsum(law) for law in laws]

    def draw(rng: np.random.Generator, side: int, n: int) -> Floats:
        places = np.searchsorted(below[side], rng.random(n) * below[side][-1], side="right")
        return np.asarray(ratio[np.minimum(places, len(ratio) - 1)], np.float64)

    truth = epsilon_of_laws(laws[0], laws[1], claim.default_delta)
    return Case(name, claim, truth, draw, (laws[0], laws[1]))


def of_laplace(name: str, claim: Claim, loss: float, count: int = 1) -> Case:
    """Return a case of answers with Laplace noise, all `count` at a distance of one loss."""

    def draw(rng: np.random.Generator, side: int, n: int) -> Floats:
        x = rng.laplace(side * loss, size=(n, count))
        return np.asarray((np.abs(x) - np.abs(x - loss)).sum(axis=1), np.float64)

    fine = [cells(lambda x, a=a: laplace_below(x - a, 1.0), FINE, REACH) for a in (0.0, loss)]
    return Case(name, claim, count * loss, draw, (fine[0], fine[1]) if count == 1 else None)


def of_textbook(
    label: str, length: int, use: str = "", limits: tuple[float, float] = (-10, 10), **params: Any
) -> Case:
    """Return a mechanism of dpframe-textbook on the pattern of its largest loss."""
    mechanism, pattern = (
        find_plugin("mechanism", use or label),
        find_plugin("pair", "query-pattern"),
    )
    found = []
    for name in PATTERNS:
        pair = pattern(length=length, pattern=name, low=limits[0], high=limits[1])
        if (pair.d0 == pair.d1).all():
            continue
        own = mechanism(**params).resolve(pair)
        truth, claim = own.truth(pair), own.claim(pair)
        if truth is not None and claim.epsilon_at(claim.default_delta) <= 1.01 * _step(own):
            found.append((truth.epsilon_at(claim.default_delta), name, claim, truth))
    _, _, claim, truth = max(found, key=lambda one: one[0])
    if isinstance(truth, LaplaceDP):
        return of_laplace(label, claim, truth.epsilon_at(0.0))
    return of_laws(label, claim, np.array(truth.on_zero), np.array(truth.on_one))


def _step(mechanism: Any) -> float:
    """Return the largest claim for neighbours; pairs that are several steps apart are left out."""
    return float(getattr(mechanism, "epsilon", math.inf))


def cells(below: Callable[[Floats], Floats], width: float, reach: float) -> Floats:
    """Return the probabilities of cells of a number with this distribution function."""
    edges = np.arange(-reach, reach + width, width)
    return np.diff(np.concatenate([[0.0], below(edges), [1.0]]))


def laplace_below(x: Floats, scale: float) -> Floats:
    """Return the distribution function of Laplace noise."""
    return np.where(x < 0, np.exp(-np.abs(x) / scale) / 2, 1 - np.exp(-np.abs(x) / scale) / 2)


def largest_answers() -> Iterator[Case]:
    """Return `report-noisy-max-3` and `-4`: five answers, all 1 or all 2, in cells of 1/8."""
    for name, below in (
        ("report-noisy-max-3", lambda x: laplace_below(x, 2 / EPSILON)),
        ("report-noisy-max-4", lambda x: -np.expm1(-np.maximum(x, 0) * EPSILON / 2)),
    ):
        zero, one = (
            cells(lambda x, a=answer, f=below: f(x - a) ** 5, 1 / 8, 40.0) for answer in (1, 2)
        )
        yield of_laws(name, PureDP(EPSILON), zero, one)


def numeric_sparse_vector(answers: Floats) -> Floats:
    """Return the law of `sparse-vector-3` with c = 1, threshold 1, and cells of 1/2.

    The noises of the threshold and of an answer are Lap(2/ε). Outputs are the place of the first
    answer above, with the cell of its number, and none at all, last.
    """
    scale = 2 / EPSILON
    rho = np.linspace(-60.0, 60.0, 24_001)
    weight = np.exp(-np.abs(rho) / scale) / (2 * scale) * (rho[1] - rho[0])
    edges = np.concatenate([[-np.inf], np.arange(-20.0, 20.25, 0.5), [np.inf]])
    parts, below = [], np.ones_like(rho)
    for answer in answers:
        reached = np.maximum(edges[:, None], 1 + rho)
        above = 1 - laplace_below(reached - answer, scale)
        parts.append(-np.diff(above, axis=0) @ (weight * below))
        below = below * laplace_below(1 + rho - answer, scale)
    return np.append(np.concatenate(parts), weight @ below)


def sparse_vectors() -> Iterator[Case]:
    """Return the six sparse vectors on five answers, and both wrong ones together."""
    for number in (1, 2, 4, 5, 6):
        yield of_textbook(f"sparse-vector-{number}", 6, epsilon=EPSILON)
    zero, one = (numeric_sparse_vector(np.full(5, answer)) for answer in (1.0, 0.0))
    yield of_laws("sparse-vector-3", PureDP(EPSILON), zero, one)
    fourth = find_plugin("mechanism", "sparse-vector-4")(epsilon=EPSILON)
    others = [fourth.probabilities(np.full(5, answer))[1] for answer in (1.0, 0.0)]
    both = [np.outer(*laws) for laws in zip((zero, one), others, strict=True)]
    yield of_laws("sparse-vector-3-4", PureDP(2 * EPSILON), both[0], both[1])


def fresh_numbers() -> Iterator[Case]:
    """Return `numerical-sparse-vector` with c = 2 on five answers, all 1 or all 0.

    Numbers of answers above have fresh noise; outputs have their cells of 1/2. The scale is 3c/ε,
    and in the wrong form 1/ε.
    """
    edges = np.append(np.arange(-20.0, 20.25, 0.5), np.inf)
    places = find_plugin("mechanism", "sparse-vector-1")(
        epsilon=EPSILON * 2 / 3, threshold=1.0, cutoff=2
    )
    for name, scale in (
        ("numerical-sparse-vector", 6 / EPSILON),
        ("numerical-sparse-vector-unscaled", 1 / EPSILON),
    ):
        laws = []
        for answer in (1.0, 0.0):
            outputs, chances = places.probabilities(np.full(5, answer))
            number = np.diff(laplace_below(edges - answer, scale), prepend=0.0)
            numbers = [np.ones(1), number, np.outer(number, number).ravel()]
            above = (outputs == 1).sum(axis=1)
            parts = [p * numbers[k] for p, k in zip(chances, above, strict=True)]
            laws.append(np.concatenate(parts))
        yield of_laws(name, PureDP(EPSILON), laws[0], laws[1])


def samplers() -> Iterator[Case]:
    """Return the thirteen samplers of Delta-Siege, on its inputs 0 and 1."""
    for sampler in SAMPLERS:
        mechanism = NoiseSampler(sampler=sampler, epsilon=EPSILON, delta=DELTA)
        claim = PureDP(EPSILON) if sampler.startswith("laplace") else ApproxDP(EPSILON, DELTA)
        zero, one = mechanism.law(0.0), mechanism.law(1.0)
        values = np.union1d(zero.values, one.values)
        laws = np.zeros((2, len(values)))
        for row, law in zip(laws, (zero, one), strict=True):
            row[np.searchsorted(values, law.values)] = law.shares
        yield of_laws(sampler, claim, laws[0], laws[1])


WORDS = 200


def texts() -> Iterator[Case]:
    """Return three rewriters of one word: scores of words in [−1, 1], whatever the text is.

    An exponential mechanism, whose sensitivity is 2; the same without the factor ½; and k-ary
    randomised response with the probability of two words.
    """
    word = np.arange(WORDS)
    scores = [np.sin(word * step) for step in (0.7, 1.3)]
    for name, power in (("word-by-score", EPSILON / 4), ("word-by-score-unhalved", EPSILON)):
        zero, one = (special.softmax(power * score) for score in scores)
        yield of_laws(name, PureDP(EPSILON), zero, one)
    keep = special.expit(EPSILON)
    laws = [np.where(word == own, keep, (1 - keep) / (WORDS - 1)) for own in (0, 1)]
    yield of_laws("word-or-another", PureDP(EPSILON), laws[0], laws[1])


RATE, SIGMA = 0.1, 0.8


def sum_law(members: int, sigma: float, width: float) -> Floats:
    """Return the law of a noisy sum of the gradients of one record, in cells."""
    return cells(lambda x: special.ndtr((x - members) / sigma), width, REACH)


def step_laws(sigma: float, width: float) -> tuple[Floats, Floats]:
    """Return the laws of a step of DP-SGD without and with the record."""
    out, at_one = (sum_law(members, sigma, width) for members in (0, 1))
    return out, (1 - RATE) * out + RATE * at_one


def training() -> Iterator[Case]:
    """Return DP-SGD on Poisson samples: a step, and two steps with sums in cells of 1/8.

    Wrong forms: half the noise of the claim; the same noise in both steps, so the sums differ by
    1 if one sample alone has the record.
    """
    epsilon = SubsampledGaussianDP(RATE, SIGMA).epsilon_at(DELTA)
    for name, sigma in (("sgd-step", SIGMA), ("sgd-step-half-noise", SIGMA / 2)):

        def draw(rng: np.random.Generator, side: int, n: int, sigma: float = sigma) -> Floats:
            x = sigma * rng.normal(size=n) + (side and rng.random(n) < RATE)
            return np.log1p(RATE * np.expm1((x - 0.5) / sigma**2))

        truth = SubsampledGaussianDP(RATE, sigma).epsilon_at(DELTA)
        yield Case(name, ApproxDP(epsilon, DELTA), truth, draw, step_laws(sigma, FINE))
    zero, one = (np.outer(law, law) for law in step_laws(SIGMA, 1 / 8))
    both = epsilon_of_laws(zero, one, DELTA)
    yield of_laws("sgd-two-steps", ApproxDP(both, DELTA), zero, one)
    out, at_one = (sum_law(a, SIGMA, 1 / 8) for a in (0, 1))
    both_in, one_in = RATE**2, RATE * (1 - RATE)
    none_differ = [out, (1 - RATE) ** 2 * out + both_in * at_one]
    zero = np.concatenate([none_differ[0], np.zeros(2 * len(out))])
    one = np.concatenate([none_differ[1], one_in * out, one_in * at_one])
    yield of_laws("sgd-two-steps-same-noise", ApproxDP(both, DELTA), zero, one)


@functools.cache
def all_cases() -> dict[str, Case]:
    """Return the 44 cases by name."""
    found = [
        of_laplace("laplace", PureDP(EPSILON), EPSILON),
        of_laplace("laplace-half-scale", PureDP(EPSILON), 2 * EPSILON),
        of_laplace("laplace-parallel", PureDP(EPSILON), EPSILON / 20, 20),
        of_textbook("noisy-histogram-1", 5, epsilon=0.5),
        of_textbook("noisy-histogram-2", 5, epsilon=0.5),
        of_textbook("prefix-sum", 10, epsilon=0.25),
        of_textbook("snapping", 1, epsilon=EPSILON, bound=10.0),
        of_textbook("truncated-geometric", 1, limits=(0, 5), epsilon=EPSILON),
        of_textbook(
            "truncated-geometric-natural", 1, "truncated-geometric", (0, 5), logarithm="natural"
        ),
        of_textbook("report-noisy-max-1", 5, epsilon=EPSILON),
        of_textbook("report-noisy-max-2", 5, epsilon=EPSILON),
        *largest_answers(),
        *sparse_vectors(),
        *fresh_numbers(),
        of_textbook("rappor", 1),
        of_textbook("one-time-rappor", 1),
        *samplers(),
        *texts(),
        *training(),
    ]
    return {case.name: case for case in found}
