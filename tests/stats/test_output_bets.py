"""Bets on the whole output: no pair that satisfies the claim gains by them, others do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from support.tiers import mostly_slow

from dpframe import (
    ApproxDP,
    Claim,
    GaussianDP,
    LaplaceDP,
    PureDP,
    RenyiDP,
    SubsampledGaussianDP,
    ZeroConcentratedDP,
)
from dpframe.builtin.betting import against
from dpframe.stats.output_bets import (
    Lines,
    Supposed,
    bets,
    bets_against_each,
    dominating_pair,
    grouped,
    largest_sum,
    largest_sum_of_line,
    lines,
    lines_of,
    weights,
)


def naive_sum(g: np.ndarray, h: np.ndarray, slope: np.ndarray, delta: np.ndarray) -> float:
    """The largest Σ p g + Σ q h over all pairs that satisfy the lines, as a linear programme.

    Unknown are p, q and, for each line and direction, what of each bin lies above it.
    """
    bins, rows, most = len(g), [], []
    directions = [(e, d, side) for e, d in zip(slope, delta, strict=True) for side in (0, 1)]
    width = bins * (2 + len(directions))
    for number, (growth, rest, side) in enumerate(directions):
        here = bins * (2 + number)
        for i in range(bins):
            row = np.zeros(width)
            row[bins * side + i], row[bins * (1 - side) + i], row[here + i] = 1, -growth, -1
            rows.append(row)
            most.append(0.0)
        row = np.zeros(width)
        row[here : here + bins] = 1
        rows.append(row)
        most.append(rest)
    whole = np.zeros((2, width))
    whole[0, :bins], whole[1, bins : 2 * bins] = 1, 1
    gain = np.concatenate([g, h, np.zeros(width - 2 * bins)])
    found = linprog(-gain, A_ub=np.array(rows), b_ub=most, A_eq=whole, b_eq=[1, 1], method="highs")
    assert found.status == 0
    return float(-found.fun)


def some_lines(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if kind == "curve":
        claim = GaussianDP(rng.uniform(0.1, 3))
        deltas = np.sort(10 ** rng.uniform(-3, -0.2, 4))
        return np.exp([claim.epsilon_at(d) for d in deltas.tolist()]), deltas
    delta = {"pure": 0.0, "tiny": 1e-6, "large": rng.uniform(0.01, 0.5)}[kind]
    return np.exp([rng.uniform(0, 3)]), np.array([delta])


@pytest.mark.parametrize("kind", ["pure", "tiny", "large", "curve"])
def test_the_sum_is_that_of_a_linear_programme(kind: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(12):
        g, h = rng.exponential(size=(2, 5)) ** rng.uniform(0.2, 3)
        slope, delta = some_lines(kind, rng)
        found = float(largest_sum(g, h, dominating_pair(slope, delta)))
        naive = naive_sum(g, h, slope, delta)
        assert found == pytest.approx(naive, rel=1e-7)
        assert found >= naive * (1 - 1e-8)  # as far as the programme is solved


CLAIMS = [PureDP(0.8), ApproxDP(1.0, 1e-5), ApproxDP(0.5, 0.1), GaussianDP(0.7), PureDP(0.0)]


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
@pytest.mark.parametrize("resolution", [0.0, 1e-6])
def test_no_bet_gains_against_the_corners_of_its_claim(claim: Any, resolution: float) -> None:
    """Whatever is learned: pairs made from the dominating one, each atom in its best bin."""
    rng = np.random.default_rng(2)
    for own in against(claim, resolution):
        assert own is not None
        for _ in range(20):
            share, mass = rng.beta(0.3, 0.3, 9), rng.exponential(size=9)
            supposed, _ = grouped(np.clip(share, 1e-9, 1 - 1e-9), mass)
            for g, h in np.exp(bets(supposed, own)):
                means = np.zeros(2)
                for p, q in zip(*own.pair, strict=True):
                    bin_ = int(np.argmax(p * g + q * h))
                    means += p * g[bin_], q * h[bin_]
                assert means.sum() <= 2 + 1e-12
                assert means.prod() <= 1 + 1e-12


def test_rounding_only_allows_more() -> None:
    """Tiny and huge claims; δ that almost coincide."""
    curve, deltas = GaussianDP(1.0), list(np.geomspace(0.3, 1e-12, 40))
    for slope, delta in (
        ([1.0], [0.0]),
        ([1.0 + 1e-12], [1e-13]),
        ([math.exp(600.0)], [1e-12]),
        ([math.e, math.exp(1.0000001)], [1.0000001e-5, 1e-5]),
        (np.exp([curve.epsilon_at(d) for d in deltas]), deltas),
    ):
        pair = dominating_pair(np.array(slope), np.array(delta))
        assert pair.p.sum() >= 1
        assert pair.q.sum() >= 1
        assert (np.concatenate(pair) >= 0).all()
        for growth, rest in zip(slope, delta, strict=True):
            for p, q in (pair, pair[::-1]):
                over = p - growth * q
                assert math.fsum(over[over > 0]) >= rest * (1 - 1e-9)


def sides(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Both sides, in the order of falling shares of D."""
    return np.array([p, q])[:, np.argsort(-p / (p + q))]


def supposed(p: np.ndarray, q: np.ndarray) -> Supposed:
    p, q = sides(p, q)
    return Supposed(p / (p + q), (p + q) / 2)


def test_the_best_weights_grow_as_fast_as_any_test() -> None:
    """Draws to refute at 5 %: ln 20 over the distance of the truth to the claim."""
    edges = np.linspace(-4, 5, 79)

    def draws(cdf: Any, claim: Any) -> float:
        p, q = (np.diff([0, *cdf(edges - shift), 1]) for shift in (0, 1))
        own = against(claim, 0.0).exact
        assert own is not None
        g, h = weights(supposed(p, q), own)
        p, q = sides(p, q)
        return math.log(20) / float(p @ np.log(g) + q @ np.log(h))

    def laplace(x: np.ndarray) -> np.ndarray:
        return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)

    from scipy.special import ndtr

    assert draws(laplace, PureDP(0.8)) == pytest.approx(528, abs=2)
    assert draws(laplace, PureDP(0.5)) == pytest.approx(77, abs=0.5)
    assert draws(ndtr, ApproxDP(1.0, 1e-5)) == pytest.approx(110, abs=1)
    assert draws(ndtr, ApproxDP(2.0, 1e-5)) == pytest.approx(2016, abs=25)
    assert draws(ndtr, ApproxDP(1.0, 0.1)) < 3360
    # Weights found by convex optimisation take 340; the nearest pair is no pair of normals.
    assert draws(ndtr, GaussianDP(0.8)) < 350


def test_what_satisfies_the_claim_is_not_bet_on() -> None:
    p = np.array([0.5, 0.3, 0.2])
    q = np.array([0.35, 0.35, 0.3])
    for claim in (lines(np.exp([0.6]), np.array([0.0])), lines(np.exp([0.1]), np.array([0.3]))):
        g, h = weights(supposed(p, q), claim)
        assert (g == 1).all()
        assert (h == 1).all()


@pytest.mark.parametrize("share", [0.5, 1e-9, 1 - 1e-9])
def test_ends(share: float) -> None:
    """Bins without mass, one bin, and shares next to 0 and 1 give finite positive weights."""
    claims: list[Lines] = [
        lines(np.exp([e]), np.array([d])) for e in (0.0, 1.0, 600.0) for d in (0.0, 1e-12, 0.9)
    ]
    for claim in claims:
        for bins in (1, 4):
            for mass in (np.ones(bins) / bins, np.eye(bins)[0]):
                found = weights(Supposed(np.full(bins, share), mass), claim)
                assert np.isfinite(np.log(found)).all()


def test_a_claim_alone_and_one_of_many_are_bet_against_alike() -> None:
    """Weights do not depend on which other claims are looked at, and S is that of the pair."""
    rng = np.random.default_rng(3)
    slope = np.exp(np.array([0.0, 0.3, 1.0, 2.5]))
    delta = np.array([0.0, 0.05, 1e-6, 0.0])
    own = [
        grouped(rng.beta(0.5, 0.5, 20).clip(1e-9, 1 - 1e-9), rng.exponential(size=20))[0]
        for _ in range(3)
    ]
    share, mass = (np.stack(part) for part in zip(*own, strict=True))
    many, _ = bets_against_each(Supposed(share, mass), slope, delta)
    for row, one in enumerate(own):
        for column, (growth, rest) in enumerate(zip(slope, delta, strict=True)):
            alone = lines(np.array([growth]), np.array([rest]))
            assert bets(one, alone) == pytest.approx(many[:, :, row, column], abs=1e-12)
            g, h = np.exp(many[:, :, row, column]).swapaxes(0, 1)
            sums = largest_sum(g, h, alone.pair)
            assert largest_sum_of_line(g, h, *np.broadcast_arrays(growth, rest, g[:, 0])[:2]) == (
                pytest.approx(sums, rel=1e-12)
            )
            assert sums.max() <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), mostly_slow([(0.5, 0.0), (0.3, 0.05)], (1,)))
def test_weights_are_the_best_if_one_side_tells_more_than_the_other(
    epsilon: float, delta: float
) -> None:
    """Against a search of all weights; the logarithm of what they earn is concave in theirs."""
    claim = lines(np.exp([epsilon]), np.array([delta]))
    for p, q in (([0.2, 0.8], [0.7, 0.3]), ([0.01, 0.04, 0.95], [0.001, 0.3, 0.699])):
        of_p, of_q = sides(np.array(p), np.array(q))

        def earned(logs: np.ndarray, of_p: np.ndarray = of_p, of_q: np.ndarray = of_q) -> float:
            g, h = np.exp(np.split(logs, 2))
            half = float(largest_sum(g, h, claim.pair)) / 2
            return float(of_p @ np.log(g) + of_q @ np.log(h) - 2 * math.log(half))

        best = max(
            -minimize(lambda logs: -earned(logs), start, method="Nelder-Mead", options=SEARCH).fun
            for start in (np.zeros(2 * len(p)), np.log([of_p, of_q]).ravel())
        )
        found = earned(np.log(weights(supposed(np.array(p), np.array(q)), claim)).ravel())
        assert found >= best * 0.997 > 0.01


SEARCH = {"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-12}


def test_groups_keep_what_the_best_bet_earns() -> None:
    """Bins of shares like those of Laplace and normal noise, whose tails tell most."""
    from scipy.special import ndtr

    edges = np.linspace(-4, 5, 319)
    p, q = (np.diff([0, *ndtr(edges - shift), 1]) for shift in (0, 1))
    for claim in (ApproxDP(1.0, 1e-5), ApproxDP(2.0, 1e-5), GaussianDP(0.8)):
        own = against(claim, 0.0).exact
        assert own is not None
        found, group = grouped(p / (p + q), p + q)
        g, h = (part[group] for part in weights(found, own))
        whole = float(np.sum(np.log(weights(supposed(p, q), own)) * sides(p, q)))
        assert p @ np.log(g) + q @ np.log(h) > 0.95 * whole > 0


CURVES: list[tuple[Claim, Claim]] = [
    *((GaussianDP(mu), GaussianDP(mu)) for mu in (1e-4, 0.3, 1.0, 3.0)),
    *((LaplaceDP(shift), LaplaceDP(shift)) for shift in (0.1, 5.0)),
    *((one, one) for one in (SubsampledGaussianDP(0.01, 0.5), SubsampledGaussianDP(0.9, 3.0))),
    (ZeroConcentratedDP(0.5), GaussianDP(1.0)),
    (RenyiDP(4.0, 2.0), GaussianDP(1.0)),
]


@pytest.mark.parametrize(("claim", "met"), CURVES, ids=str)
def test_lines_of_a_curve_allow_every_pair_that_meets_it(claim: Claim, met: Claim) -> None:
    """No δ(ε) of their pair is below that of a pair that meets the claim, between lines either."""
    against = lines_of(claim.epsilon_at, claim.delta_at, claim.telling_deltas)
    assert against is not None
    on_lines = np.log(against.slope)
    epsilon = np.concatenate([np.linspace(0, 1.2 * on_lines.max(), 50), on_lines])
    p, q, slope = *against.pair, np.exp(epsilon)[:, None]
    truth = np.array([met.delta_at(each) for each in epsilon.tolist()])
    for one, other in ((p, q), (q, p)):
        assert np.all(np.maximum(one - slope * other, 0).sum(axis=1) >= truth - 1e-14)
    # Not vacuous: they allow hardly more than the claim.
    allowed = np.maximum(p - slope * q, 0).sum(axis=1)
    assert np.all(allowed <= [claim.delta_at(each) + 0.01 for each in epsilon.tolist()])
