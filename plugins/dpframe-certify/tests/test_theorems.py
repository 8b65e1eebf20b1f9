"""The checker's arithmetic against exact sums and dpframe's own."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import certcheck
import numpy as np
import pytest
from scipy import special

from dpframe import ApproxDP, GaussianDP, SubsampledGaussianDP
from dpframe.builtin.one_run import Guessed, OneRun
from dpframe.plugins import Query, estimate_from_boxes
from dpframe.stats.exact_test import EventCounts, exact_region
from dpframe.stats.joint import joint_staircases


@pytest.mark.parametrize(
    ("n", "k", "p"),
    [
        *((10, 3, 0.5), (1, 1, 0.25), (1000, 1, 0.1), (1000, 1000, 0.5)),
        *((1000, 60, 0.0625), (10**6, 500_300, 0.5), (10**6, 499_000, 0.5)),
        (10**7, 3, 2.0**-24),
    ],
)
def test_tails_are_enclosed(n: int, k: int, p: float) -> None:
    low, high = certcheck.tail(n, k, Decimal(p))
    expected = float(special.betainc(k, n - k + 1, p))
    assert low <= high <= low * (1 + Decimal("1e-12"))
    assert float(low) == pytest.approx(expected, rel=2e-10, abs=0)


def test_tails_of_few_draws_are_exact_sums() -> None:
    for n in (1, 2, 5, 30):
        for k in range(1, n + 1):
            for p in (Decimal("0.03"), Decimal("0.5"), Decimal("0.97")):
                exact = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))
                low, high = certcheck.tail(n, k, p)
                assert low <= exact <= high


@pytest.mark.parametrize("z", [-9.0, -2.0, 0.0, 0.5, 3.0, 6.99, 7.01, 12.0, 37.0])
def test_normal_tails(z: float) -> None:
    assert float(certcheck.normal_tail(z)) == pytest.approx(float(special.ndtr(-z)), rel=1e-13)


@pytest.mark.parametrize("n", [1, 2, 300, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("level", ["1e-200", "1e-9", "0.01", "0.6", "0.9999"])
def test_limits_are_enclosed(n: int, share: float, level: str) -> None:
    k = round(n * share)
    low, high = (certcheck.limit(side, k, n, Decimal(level)) for side in (-1, 1))
    exact = 1.0 if k == n else float(special.betainccinv(k + 1, n - k, float(level)))
    assert low <= high
    assert float(low) == pytest.approx(exact, rel=1e-9)
    assert float(high) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("weight", "wider"), [(0.02, 1e-3), (0.3, 1e-9), (0.98, 1e-9)])
def test_corners_of_joint_regions(weight: float, wider: float) -> None:
    (exact,) = joint_staircases([50], [1000], [400], [1000], [weight], 1e-3)
    term = 50, 1000, 400, 1000, Decimal(weight), 1
    found = certcheck.region("joint", term, Decimal("0.001"), 1)
    for corner, values in zip(found, exact, strict=True):
        for limit, value in zip(corner, values, strict=True):
            assert float(certcheck.limit(1, *limit)) == pytest.approx(value, rel=wider)


@pytest.mark.parametrize("x", [1e-9, 1e-3, 0.02, 0.1, 0.3])
def test_curves_are_those_of_the_claims(x: float) -> None:
    for q, mu in ((1.0, 1.0), (0.25, 2.0), (0.9, 0.3)):
        claim = GaussianDP(mu) if q == 1 else SubsampledGaussianDP(q, 1 / mu)
        exact = float(claim.tradeoff(np.array([x]))[0])
        curve = "gaussian-dp", mu, q
        found = certcheck.gap((curve, 0), (Decimal(x), Decimal(exact)), 0)
        assert x > exact or float(found) == pytest.approx(0, abs=1e-12)


def rejects(
    term: tuple[Any, ...],
    level: float,
    claim: Any,
    raised: float,
    side: int,
    prices: Any = (),
) -> bool:
    """True if guesses in one run reject a claim by the checker's arithmetic, rounded to a side."""
    told = {name: Decimal(value) for name, value in claim.parameters().items()}
    one = {"claim": {"kind": claim.kind, "parameters": told}, "estimate": {"delta": 1e-5}}
    evidence = {
        "theorem": "one-run",
        "terms": [(*term, Decimal(1))],
        "design": [(0, Decimal(loss), Decimal(price)) for loss, price in prices],
    }
    curve = certcheck.claim_of(one["claim"], "one-run"), Decimal(raised)
    found: bool = certcheck.by_guesses(one, evidence, Decimal(level), curve, side)
    return found


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 40.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_a_curve_of_one_run_by_hand(epsilon: float, delta: float) -> None:
    """One guess about one canary is right with probability (e^ε + δ)/(1 + e^ε) at most."""
    claim = ApproxDP(epsilon, delta)
    right = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    for side in (1, -1):
        assert not rejects((1, 1, 1, 0), right * (1 - 1e-7), claim, 0.0, side)
        if right * (1 + 1e-7) < 1:
            assert rejects((1, 1, 1, 0), right * (1 + 1e-7), claim, 0.0, side)


def test_losses_of_curves_are_those_of_the_claims() -> None:
    for q, mu in ((1.0, 1.0), (0.25, 2.0), (0.01, 0.3)):
        claim = GaussianDP(mu) if q == 1 else SubsampledGaussianDP(q, 1 / mu)
        for epsilon in (0.0, 0.1, 1.0, 3.0, 6.0):
            found = certcheck.delta_at(("gaussian-dp", mu, q), epsilon)
            assert found == pytest.approx(claim.delta_at(epsilon), rel=1e-9, abs=1e-300)
    for epsilon in (0.0, 0.4, 1.0, 2.0):
        found = certcheck.delta_at(("approx-dp", 1.0, 0.01), epsilon)
        assert found == pytest.approx(ApproxDP(1.0, 0.01).delta_at(epsilon), abs=1e-15)


@pytest.mark.parametrize("raised", [0.0, 1e-3])
@pytest.mark.parametrize(
    "claim",
    [
        GaussianDP(1.0),
        GaussianDP(0.05),
        SubsampledGaussianDP(0.1, 1.0),
        ApproxDP(1.0, 1e-7),
        ApproxDP(1.0, 0.01),
    ],
)
@pytest.mark.parametrize(
    ("m", "r", "total", "h"),
    [(100, 100, 80, 0), (1000, 100, 90, 0), (5000, 12, 12, 0), (1000, 220, 700, 110)],
)
def test_a_claim_is_tested_by_guesses_at_the_same_losses(
    m: int, r: int, total: int, h: int, claim: Any, raised: float
) -> None:
    query = Query((0, 1), 1e-5, 0.95, claim, raised)
    prices: dict[Any, Any] = {}
    term = Guessed(m, r, total, h, 1.0)
    level = OneRun().level(term, claim, 1.0, query, raised, prices)
    for near, is_beyond in ((0.9999, False), (1.0001, True)):
        if level * near < 1:
            for side in (1, -1):
                own = level * near, claim, raised, side, prices.get(term, ())
                assert rejects((m, r, total, h), *own) == is_beyond


COUNTS_OF_ONE_EVENT = [
    *((0, 12, 1, 12, 1, 0.0), (3, 40, 2, 25, 1, 0.0), (3, 40, 2, 25, 2, 0.0)),
    *((5, 60, 20, 60, 1, 0.01), (20, 60, 5, 60, 2, 0.01), (30, 300, 70, 200, 2, 1e-5)),
    (1, 12, 2, 12, 2, 0.1),
]


@pytest.mark.parametrize("claim", [ApproxDP(0.5, 0.0), ApproxDP(0.2, 0.01), GaussianDP(0.4)])
@pytest.mark.parametrize(("k", "n", "j", "t", "ways", "delta"), COUNTS_OF_ONE_EVENT)
@pytest.mark.parametrize("confidence", ["0.95", "0.1"])
def test_all_outcomes_are_enumerated_in_the_same_order(
    k: int, n: int, j: int, t: int, ways: int, delta: float, claim: Any, confidence: str
) -> None:
    region = exact_region(
        EventCounts(k, n, t - j, t),
        delta,
        either_rate=True,
        either_way=ways > 1,
        level=0.99 * (1 - float(confidence)),
    )
    query = Query((n, t), delta, 0.95, claim, 0.0)
    level = estimate_from_boxes(region, query, epsilon=0.0).p_value or 0.0
    told = {name: Decimal(value) for name, value in claim.parameters().items()}
    curve = certcheck.claim_of({"kind": claim.kind, "parameters": told}, "unconditional")
    one = {"estimate": {"delta": Decimal(delta), "confidence": Decimal(confidence)}}
    term = k, n, j, t, Decimal("0.99")
    for near, is_beyond in ((0.999999, False), (1.000001, True)):
        if level * near < 1:
            own = Decimal(level * near) / term[-1]
            for side in (1, -1):
                found = certcheck.together(term, ways, one, own, (curve, Decimal(0)), side)
                assert found == is_beyond


def test_a_weight_of_0_is_an_exact_test() -> None:
    """The events of one fixed threshold, with all of the error."""
    region = exact_region(EventCounts(3, 40, 23, 25), 0.0, either_rate=True, level=0.05)
    query = Query((40, 25), 0.0, 0.95, None)
    bound = estimate_from_boxes(region, query, epsilon=0.0).epsilon_lower or 0.0
    assert bound > 1
    evidence = {
        "theorem": "joint",
        "terms": [(3, 40, 23, 25, Decimal(0), Decimal(1))],
        "design": [(0, 40, 25, Decimal(0), Decimal(1))],
    }
    one = {
        "id": "one",
        "trials": [25, 40],
        "estimate": {"delta": Decimal(0), "confidence": Decimal("0.95"), "evidence": evidence},
    }
    for near, side in ((1 - 1e-6, 1), (1 + 1e-6, -1)):
        line = ("bound", bound * near, 0.0), Decimal(0)
        assert certcheck.rejected(one, evidence, Decimal("0.05"), line, side)
        assert not certcheck.rejected(one, evidence, Decimal("0.05"), line, -side)
