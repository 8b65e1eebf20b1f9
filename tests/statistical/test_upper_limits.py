"""`epsilon_upper` of scores limits what it says it does, and is worth something.

Level: each limit is too small in at most 5 % of audits. False alarms: 1e-6 per test.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow

from dpframe import Query
from dpframe.builtin.event_choice import ChosenEvent, choose, every_cut_shows, largest_shown
from dpframe.builtin.events import UP, PilotGrid, loss_of
from dpframe.builtin.histogram import HistogramSplit
from dpframe.builtin.order_statistics import OrderStatistics
from dpframe.stats.histograms import bin_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    Cdf = Callable[[np.ndarray], np.ndarray]

ERROR = 0.05
PILOT = 20_000


def laplace(loc: float) -> Cdf:
    return lambda x: stats.laplace.cdf(x, loc)


def normal(loc: float) -> Cdf:
    return lambda x: stats.norm.cdf(x, loc)


def spiked(cdf: Cdf, at: float, mass: float) -> Cdf:
    """Some of the mass sits at a point."""
    return lambda x: (1 - mass) * cdf(x) + mass * (x >= at)


def drawn(cdf: Cdf, places: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts between ascending places, the outermost bins open: what n draws give."""
    steps = np.diff(np.concatenate([[0.0], cdf(places), [1.0]]))
    return rng.multinomial(n, np.maximum(steps, 0) / np.maximum(steps, 0).sum())


def counted(cdf: Cdf, edges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts as `BinCounts` makes them. Where a score sits on an edge it belongs above."""
    distinct = np.unique(edges[np.isfinite(edges)].astype(np.float64))
    counts = np.zeros(len(edges) + 2, np.int64)
    with np.errstate(over="ignore"):
        below = np.nextafter(distinct, -np.inf)
    found = drawn(cdf, below, n, rng)
    places = 1 + np.searchsorted(edges, distinct, side="right")
    counts[1], counts[places] = found[0], found[1:]
    return counts


def truth(cdfs: tuple[Cdf, Cdf], delta: float, places: np.ndarray) -> float:
    """The largest loss of the cuts at these places, in both directions, turned round or not."""
    below = [cdf(places) for cdf in cdfs]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [0.0]
        for p, q in ((below[0], below[1]), (below[1], below[0])):
            for true, false in ((p, q), (1 - p, 1 - q)):
                found.append(float(np.log((true - delta) / false)[true > delta].max(initial=0.0)))
    return max(found)


CASES: dict[str, tuple[Cdf, Cdf, float, int, float]] = {
    # D, D′, δ, draws, and by how much the typical limit may lie above the truth
    "Laplace": (laplace(0), laplace(1), 1e-3, 100_000, 0.3),
    "Laplace, turned round": (laplace(1), laplace(0), 1e-3, 100_000, 0.3),
    "Gaussian": (normal(0), normal(0.5), 0.02, 100_000, 0.15),
    "no leak": (normal(0), normal(0), 1e-2, 100_000, 0.3),
    "a spike between the edges": (
        spiked(normal(0), 3.1234567, 0.02),
        spiked(normal(0), 3.1234568, 0.02),
        1e-2,
        100_000,
        math.inf,
    ),
}


OFTEN = {"a spike between the edges"}
"""The others are slow tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.slow) for n in CASES]
)
def test_no_cut_shows_more_than_the_limit_of_every_cut(name: str) -> None:
    first, second, delta, n, slack = CASES[name]
    rng = np.random.default_rng(7)
    pilots = [rng.laplace(size=PILOT), rng.laplace(size=PILOT) + 0.5]
    edges = PilotGrid().bind(*pilots)["edges"]
    fine = np.concatenate([np.linspace(-20, 20, 400_001), [3.1234567, 3.1234568]])
    true = truth((first, second), delta, np.sort(fine))
    repeats = 60
    found = np.array(
        [
            every_cut_shows(
                np.stack([counted(cdf, edges, n, rng) for cdf in (first, second)]),
                edges,
                delta,
                ERROR,
            )
            for _ in range(repeats)
        ]
    )
    missed = int((found < true).sum())
    assert stats.binom.sf(missed - 1, repeats, ERROR) > 1e-6
    assert float(np.median(found)) <= true + slack
    if math.isinf(slack):  # the limit of cuts at edges alone would be false
        assert truth((first, second), delta, np.sort(edges[np.isfinite(edges)])) < true - 1


@pytest.mark.parametrize("of", mostly_slow(["every cut", "chosen thresholds"], (1,)))
def test_the_level_is_neither_exceeded_nor_given_away(of: str) -> None:
    """One cut, whose limits decide: too small about as often as two limits at half of the error."""
    edges = np.array([np.finfo(np.float64).min, np.inf])
    rng = np.random.default_rng(8)
    repeats, n, p, q, delta = 1500, 2000, 0.5, 0.02, 0.01  # infinity, else minus infinity
    true = math.log((p - delta) / q)
    chosen = ChosenEvent(UP[0], cut=1, rank=0, weight=1.0, share=1.0)

    def one() -> float:
        counts = np.array([[0, n - k, 0, k] for k in rng.binomial(n, [q, p])])
        if of == "every cut":
            return every_cut_shows(counts, edges, delta, ERROR)
        return largest_shown([chosen], counts, Query((n, n), delta, 1 - ERROR, None)).epsilon

    missed = sum(one() < true for _ in range(repeats))
    assert stats.binom.sf(missed - 1, repeats, ERROR) > 1e-6
    assert missed / repeats > ERROR / 5


@pytest.mark.parametrize(
    "direction", ["either", *(pytest.param(way, marks=pytest.mark.slow) for way in ("up", "down"))]
)
def test_the_chosen_thresholds_show_no_more_than_their_limit(direction: Any) -> None:
    """With a pilot of another mechanism too, which chooses thresholds that say the wrong thing."""
    estimator = OrderStatistics(direction=direction)
    families = [family for family, _ in estimator.families()]
    rng, repeats, n, missed, finite = np.random.default_rng(9), 60, 3000, 0, 0
    for number in range(repeats):
        shift = (1.0, -1.0, 0.0)[number % 3]
        cdfs = laplace(0), laplace(1)
        layout = PilotGrid().bind(rng.laplace(size=500), rng.laplace(size=500) + shift)
        counts = np.stack([counted(cdf, layout["edges"], n, rng) for cdf in cdfs])
        query = Query((n, n), 0.0, 1 - ERROR, None)
        estimate = estimator.estimate(layout, counts, query)
        assert estimate.epsilon_upper_of == "chosen thresholds"
        places = np.concatenate([[-np.inf, -np.inf], layout["edges"], [np.inf]])
        chosen = choose(np.asarray(layout["pilot"], np.int64), families, query, 0.9)
        shown = 0.0
        for one in chosen:
            cut = len(places) - 1 - one.cut if one.family.top else one.cut
            below = [float(cdf(places[[cut]])[0]) for cdf in cdfs]
            for q, p in (below, below[::-1], [1 - b for b in below], [1 - b for b in below[::-1]]):
                shown = max(shown, loss_of(q, p, 0.0) if max(q, p) > 0 else 0.0)
        missed += bool(estimate.epsilon_upper < shown - 1e-9)
        finite += math.isfinite(estimate.epsilon_upper)
    assert stats.binom.sf(missed - 1, repeats, ERROR) > 1e-6
    assert finite > repeats / 4


RARE = 3e-5
SPIKED = (laplace(0), spiked(laplace(0.05), 1000.0, RARE))


def of_a_rare_tail(estimator: Any, delta: float, n: int, repeats: int) -> list[Any]:
    """Audits where D′ alone is 1000, three times in a hundred thousand draws."""
    rng, found = np.random.default_rng(10), []
    for _ in range(repeats):
        pilots = [rng.laplace(size=PILOT), rng.laplace(size=PILOT) + 0.05]
        pilots[1][rng.random(PILOT) < RARE] = 1000.0
        layout = estimator.statistic().bind(*(pilot.astype(np.float32) for pilot in pilots))
        counts = np.stack([counted(cdf, layout["edges"], n, rng) for cdf in SPIKED])
        query = Query((n, n), delta, 1 - ERROR, None)
        found.append(estimator.estimate(layout, counts, query))
    return found


@pytest.mark.parametrize("delta", [pytest.param(0.0, marks=pytest.mark.slow), 1e-5])
@pytest.mark.parametrize("estimator", [OrderStatistics(), HistogramSplit()], ids=lambda e: e.name)
def test_a_limit_of_thresholds_is_called_that(estimator: Any, delta: float) -> None:
    """A cut at 500 shows an infinite loss, so a finite limit is one of the chosen thresholds."""
    assert truth(SPIKED, delta, np.array([500.0])) == math.inf
    found = of_a_rare_tail(estimator, delta, 100_000, 12)
    assert any(math.isfinite(one.epsilon_upper) for one in found)
    assert {one.epsilon_upper_of for one in found} == {"chosen thresholds"}


def test_with_enough_draws_every_cut_is_limited() -> None:
    """At a δ above the rare tail the limit is of every cut, and tight; below it never is."""
    enough = of_a_rare_tail(OrderStatistics(), 1e-3, 1_000_000, 2)
    true = truth(SPIKED, 1e-3, np.linspace(-20, 20, 400_001))
    for one in enough:
        assert one.epsilon_upper_of == "every cut"
        assert true <= one.epsilon_upper <= true + 0.15
    never = of_a_rare_tail(OrderStatistics(), 1e-5, 3_000_000, 2)
    assert {one.epsilon_upper_of for one in never} == {"chosen thresholds"}


def test_counts_are_those_of_draws() -> None:
    """The shortcut of this file, against scores that are really drawn."""
    rng = np.random.default_rng(11)
    edges = PilotGrid().bind(rng.laplace(size=300), rng.laplace(size=300) + 1)["edges"]
    n = 100_000
    found = counted(laplace(0), edges, n, rng)
    real = bin_counts(edges, rng.laplace(size=n))
    assert found.sum() == real.sum() == n
    assert np.all((found > 0) <= (np.roll(real, 1) + real + np.roll(real, -1) > 0) | (found < 20))
    assert np.abs(found - real).max() < 6 * math.sqrt(2 * found.max())
