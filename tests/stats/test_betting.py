"""Testing by betting: no bet wins on average against a true claim; against others wealth grows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import bdtrc
from support import round_by_round

from dpframe.stats import betting

CUTS = np.linspace(-4, 5, 60)


def rounds(n: int) -> list[int]:
    sizes, total = [], 0
    while total < n:
        sizes.append(min(max(64, total // 5), n - total))
        total += sizes[-1]
    return sizes


def audited(
    rng: np.random.Generator, n: int, epsilons: np.ndarray, shift: float = 1.0
) -> round_by_round.Evidence:
    """Laplace noise around 0 and around `shift`, whose loss is exactly that."""
    evidence = round_by_round.nothing(len(CUTS), len(epsilons))
    for size in rounds(n):
        drawn = [np.sort(rng.laplace(place, size=size)) for place in (0, shift)]
        above = np.stack([size - np.searchsorted(part, CUTS) for part in drawn])
        evidence = round_by_round.played(evidence, above, size, epsilons, 0.0)
    return evidence


def test_a_projection_does_not_depend_on_what_else_is_projected() -> None:
    """Rounds may be bet on one by one or many at once: the wealth is the same to the bit."""
    rng = np.random.default_rng(4)
    q, p = rng.uniform(0, 1, (2, 2000)) ** rng.integers(1, 5, (2, 2000))
    slope, delta = np.exp(rng.uniform(0, 3, 2000)), 10 ** rng.uniform(-9, -1, 2000)
    delta[::3] = 0.0
    many = np.array(betting.project(q, p, slope, delta))
    each = zip(*(np.split(part, 2000) for part in (q, p, slope, delta)), strict=True)
    one_by_one = np.concatenate([betting.project(*own) for own in each], axis=1)
    assert one_by_one.tobytes() == many.tobytes()


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.2])
def test_the_projection_is_nearest(delta: float) -> None:
    rng = np.random.default_rng(1)
    for epsilon in (0.0, 0.5, 3.0):
        q, p = rng.uniform(0.01, 0.99, 2)
        q = min(q, 0.9 * (p - delta) / math.exp(epsilon))
        if q <= 0:
            continue

        def distance(x: float, epsilon: float = epsilon, q: float = q, p: float = p) -> float:
            y = math.exp(epsilon) * x + delta
            return float(
                p * math.log(p / y)
                + (1 - p) * math.log((1 - p) / (1 - y))
                + q * math.log(q / x)
                + (1 - q) * math.log((1 - q) / (1 - x))
            )

        most = (1 - delta) / math.exp(epsilon)
        best = optimize.minimize_scalar(
            distance, bounds=(1e-12, most * (1 - 1e-12)), method="bounded", options={"xatol": 1e-12}
        )
        found, raised = betting.project(
            np.array([q]), np.array([p]), np.array([math.exp(epsilon)]), delta
        )
        assert distance(float(found[0])) <= best.fun + 1e-9
        assert raised[0] == pytest.approx(math.exp(epsilon) * found[0] + delta, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.1), (3.0, 1e-3)])
def test_no_bet_has_a_mean_above_1_under_the_claim(epsilon: float, delta: float) -> None:
    """All outcomes of a round, added up: nothing is simulated."""
    rng, b = np.random.default_rng(2), 5
    slope, hits = np.array([math.exp(epsilon)]), np.arange(b + 1)
    for _ in range(8):
        q = rng.uniform(0.001, 0.9 * (1 - delta) / slope[0])
        p = rng.uniform(slope[0] * q + delta, 1) * (1 - 1e-9)
        x, y = np.meshgrid(hits, hits)  # on the other side, on the multiplied one
        counts = np.stack([y.ravel(), x.ravel()], axis=1)
        bet = betting.Bet(np.array([0]), np.array([q]), np.array([p]), np.array([1.0]))
        paid = np.stack([betting.pay(row[:, None], b, bet, slope, delta) for row in counts])[
            :, :, 0
        ]
        means = []
        for true_q in np.linspace(0, 1, 21):
            edge = min(1.0, slope[0] * true_q + delta)
            for true_p in (edge, 0.9 * edge, 0.0):
                chance = stats.binom.pmf(counts[:, 0], b, true_q) * stats.binom.pmf(
                    counts[:, 1], b, true_p
                )
                means.append(chance @ np.exp(paid))
        assert np.max(means) <= 1 + 1e-9
        nearest = betting.project(np.array([q]), np.array([p]), slope, delta)
        chance = stats.binom.pmf(counts[:, 0], b, nearest[0][0]) * stats.binom.pmf(
            counts[:, 1], b, nearest[1][0]
        )
        assert chance @ np.exp(paid[:, 0]) > 1 - 1e-6  # not vacuous: exactly fair at the projection


def test_wealth_at_a_true_claim_exceeds_1_over_a_with_probability_a() -> None:
    """However cruelly it is stopped; false-alarm rate 1e-6 for each level."""
    audits, rng = 100, np.random.default_rng(3)
    best = [audited(rng, 600, np.array([1.0])).best[0] for _ in range(audits)]
    for error in (0.5, 0.2, 0.05):
        above = int(np.sum(np.array(best) >= -math.log(error)))
        assert above == 0 or bdtrc(above - 1, audits, error) > 1e-6
        assert above > error * audits / 8  # not vacuous


def test_bounds_come_near_the_loss() -> None:
    grid = np.linspace(0, 1.5, 61)
    rng = np.random.default_rng(4)
    few, many = audited(rng, 1_000, grid), audited(rng, 30_000, grid)
    assert 0.6 <= round_by_round.lower_bound(few, grid, 0.05) <= 1
    assert 0.9 <= round_by_round.lower_bound(many, grid, 0.05) <= 1
    # Against what is not true wealth grows, also from the other side.
    assert round_by_round.lower_bound(audited(rng, 3_000, grid, -1.0), grid, 0.05) > 0.7


def test_what_is_bet_on_does_not_choose_its_own_event() -> None:
    rng = np.random.default_rng(5)
    before = audited(rng, 500, np.array([0.5]))
    slope = np.exp(np.array([0.5]))
    bet = betting.choose(before.above, before.trials, slope, 0.0)
    for size in (0, 50):
        above = np.stack([np.full(len(CUTS), size), np.zeros(len(CUTS), int)])
        after = round_by_round.played(before, above, 50, np.array([0.5]), 0.0)
        own = betting.pay(above, 50, bet, slope, 0.0)
        assert np.array_equal(after.log_wealth, before.log_wealth + own)


def test_ends() -> None:
    """The first round pays nothing; empty rounds, all and none above a cut stay finite."""
    grid = np.array([0.0, 1.0, 50.0])
    evidence = round_by_round.nothing(3, 3)
    for above, size in (([[0, 0, 0], [0, 0, 0]], 0), ([[9, 9, 9], [0, 0, 0]], 9)):
        evidence = round_by_round.played(evidence, np.array(above), size, grid, 0.0)
        assert not evidence.log_wealth.any()
    for _ in range(30):
        evidence = round_by_round.played(evidence, np.array([[9, 9, 9], [0, 0, 0]]), 9, grid, 0.0)
        assert np.isfinite(evidence.log_wealth).all()
    assert round_by_round.lower_bound(evidence, grid, 0.05) == 1.0
    assert round_by_round.lower_bound(round_by_round.nothing(3, 3), grid, 0.05) == 0.0
    assert round_by_round.refuted(evidence, 0.05).tolist() == [True, True, False]


@pytest.mark.parametrize("delta", [0.0, 1e-13, 1e-6, 0.4])
def test_rounding_pays_nobody(delta: float) -> None:
    """Rates next to 0 and 1, and claims next to ε = 0: the mean of a round is 1 at most."""
    rng, size = np.random.default_rng(5), 20_000
    n = np.floor(10 ** rng.uniform(2, 9, size))
    few = np.floor(10 ** rng.uniform(0, 2, (2, size)))
    most = rng.random((2, size)) < 0.7
    q, p = (np.where(most, n - few, few) + 0.5) / (n + 1)
    slope = np.exp(np.where(rng.random(size) < 0.5, 0.0, 10 ** rng.uniform(-9, 1, size)))
    kept = p > slope * q + delta
    n, q, p, slope = n[kept], q[kept], p[kept], slope[kept]
    bet = betting.Bet(np.zeros(len(n), np.int64), q, p, q)

    bets = betting.earned(np.zeros((len(n), 2), np.int64), n, bet, slope, delta) != 0
    assert np.mean(bets) > 0.95

    def gain(y: int, x: int) -> np.ndarray:
        """Return the payoff of one pair of draws in a round of n."""
        one = betting.earned(np.full((len(n), 2), (y, x)), 1, bet, slope, delta)
        return np.expm1(np.where(bets, one, 0.0))

    base, _ = betting.project(q, p, slope, delta)
    last = (1 - delta) / slope
    for rate in (0 * last, last, *(np.clip(f * base, 0, last) for f in (0.5, 0.999, 1.001, 2))):
        other = np.minimum(slope * rate + delta, 1.0)
        mean = sum(
            gain(y, x) * (rate if y else 1 - rate) * (other if x else 1 - other)
            for y in (0, 1)
            for x in (0, 1)
        )
        assert np.max(n * mean) < 1e-2
