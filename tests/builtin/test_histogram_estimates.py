"""`tv-parameter`, `pld-composition` and `gdp-fit`: estimates from histograms, never bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.closed_forms import gaussian_total_variation
from support.tiers import mostly_slow

from dpframe import PureDP, Query, SubsampledGaussianDP
from dpframe.builtin.histogram import grouped
from dpframe.builtin.histogram_fits import (
    GDPFit,
    PLDComposition,
    TVParameter,
    loss_distribution,
    without_empty,
)
from dpframe.stats.histograms import bin_counts, total_variation

Q, SIGMA = 0.25, 0.3
ALL = (TVParameter, PLDComposition, GDPFit)


def mixture(
    n: int, q: float, sigma: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(0, sigma, n), rng.normal(0, sigma, n) + (rng.random(n) < q)


def estimate(
    estimator: Any, pilot: Any, scores: Any, delta: float = 1e-5, level: float = 0.95
) -> Any:
    layout = estimator.statistic().bind(*pilot)
    counts = np.stack([bin_counts(layout["edges"], part) for part in scores]).astype(np.int64)
    query = Query((len(scores[0]), len(scores[1])), delta, level, PureDP(1.0))
    return estimator.estimate(layout, counts, query)


def binned(q: float, sigma: float, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The laws of the bins, without sampling noise."""
    every = np.concatenate([[-np.inf], edges, [np.inf]])

    def law(mean: float) -> np.ndarray:
        below, above = stats.norm.cdf(every, mean, sigma), stats.norm.sf(every, mean, sigma)
        return np.where(every[:-1] < mean, np.diff(below), -np.diff(above))  # digits in both tails

    return law(0.0), (1 - q) * law(0.0) + q * law(1.0)


@pytest.mark.parametrize("cls", ALL)
def test_no_verdict(cls: Any) -> None:
    rng = np.random.default_rng(0)
    made = cls()
    assert not made.certifies_against(PureDP(1.0))
    found = estimate(made, mixture(4000, 1.0, 1.0, rng), mixture(4000, 1.0, 1.0, rng))
    assert (found.epsilon_lower, found.epsilon_upper, found.p_value) == (None, None, None)
    assert found.notes
    deltas = np.array(found.profile)[:, 1]
    assert (np.diff(deltas) <= 1e-9).all()
    curve = np.array(found.tradeoff)
    assert curve[-1].tolist() == [1.0, 0.0]
    assert (np.diff(curve[:, 1]) <= 1e-12).all()
    assert (curve.sum(axis=1) <= 1 + 1e-12).all()


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.5])
@pytest.mark.parametrize("kind", ["apart", "the same", "nan", "infinite"])
def test_odd_scores(cls: Any, delta: float, kind: str) -> None:
    values = {"apart": (0.0, 1.0), "the same": (0.0, 0.0), "nan": (np.nan, np.nan)}
    low, high = values.get(kind, (-np.inf, np.inf))
    scores = np.full(50, low), np.full(50, high)
    found = estimate(cls(), scores, scores, delta)
    if low == high or kind == "nan":
        assert found.epsilon == 0
    else:
        assert found.epsilon == math.inf
    if found.interval is not None:
        assert 0 <= found.interval[0] <= found.epsilon <= found.interval[1]


@pytest.mark.parametrize("cls", ALL)
def test_hardly_any_raw_scores(cls: Any) -> None:
    for n in (1, 2, 30):
        rng, query = np.random.default_rng(0), Query((n, n), 1e-5, 0.95, None)
        assert cls().estimate_scores((np.zeros(n), np.ones(n)), query, rng).epsilon >= 0


# --- tv-parameter


def test_noise_and_loss_from_total_variation() -> None:
    """The pair of section 3: σ = 0.3, ε = 16.66 at δ = 1e-5."""
    rng = np.random.default_rng(1)
    pilot, scores = (mixture(n, Q, SIGMA, rng) for n in (20_000, 400_000))
    found = estimate(TVParameter(sampling_probability=Q), pilot, scores)
    assert found.epsilon == pytest.approx(16.66, rel=0.06)
    low, high = found.interval
    assert low < 16.66 < high
    bins = int(found.notes[0].split()[-2])
    tau = math.sqrt(bins / 400_000) / 2 + math.sqrt(math.log(2 / 0.05) / 800_000)
    assert f"± {2 * tau:.3g}" in found.notes[0]  # each histogram at half of the error
    assert low > 10
    narrow = estimate(TVParameter(sampling_probability=Q, mode="paper"), pilot, scores).interval
    assert low < narrow[0] < narrow[1] < high
    assert found.profile[0][1] == pytest.approx(0.2261, abs=0.005)
    assert "sigma 0.3" in found.notes[1] or "sigma 0.29" in found.notes[1]


def test_the_numerical_example_of_section_7() -> None:
    """n = 10⁶, 20 bins, 99.99 %: σ is at least 0.285 or so, by the paper's interval."""
    rng = np.random.default_rng(2)
    n = 10**6
    low, high = (-1.4, 2.3)  # an edge near ½, where the densities cross
    estimator = TVParameter(sampling_probability=Q, bins=20, low=low, high=high, mode="paper")
    layout = estimator.statistic().bind(
        *(part.astype(np.float64) for part in mixture(500, Q, SIGMA, rng))
    )
    laws = binned(Q, SIGMA, layout["edges"])
    counts = np.stack([np.append(0, rng.multinomial(n, law)) for law in laws])
    found = estimator.estimate(layout, counts, Query((n, n), 1e-5, 0.9999, None))
    tv, margin, sigma, least = _numbers(found.notes)
    assert margin == pytest.approx(0.00447, abs=1e-5)
    assert tv == pytest.approx(0.2255, abs=0.003)
    assert sigma == pytest.approx(0.305, abs=0.012)
    assert least == pytest.approx(0.285, abs=0.012)
    hist = grouped(layout, counts, (n, n))
    assert tv == pytest.approx(total_variation(hist.p, hist.q), rel=1e-3)
    assert gaussian_total_variation(least, Q) == pytest.approx(tv + margin, rel=1e-3)
    epsilon = SubsampledGaussianDP(Q, sigma).epsilon_at(1e-5)
    assert found.epsilon == pytest.approx(epsilon, rel=2e-3)


def _numbers(notes: tuple[str, ...]) -> tuple[float, float, float, float]:
    tv, sigma = notes[:2]
    words = tv.replace("±", " ").split()
    return (
        float(words[2]),
        float(words[3]),
        float(sigma.split()[1].strip(",")),
        float(sigma.split()[3]),
    )


def test_the_interval_covers_the_distance_of_the_bins() -> None:
    """In mode sound both histograms are paid for: false alarms 1e-6 at 2,000 draws."""
    rng = np.random.default_rng(3)
    edges = np.linspace(-2, 3, 19)
    laws = binned(1.0, 1.0, edges)
    true = total_variation(*laws)
    n, missed, error = 2000, 0, 0.0
    estimator = TVParameter(bins=20, low=-2.0 - 5 / 18, high=3.0 + 5 / 18)
    layout = estimator.statistic().bind(rng.normal(size=50), rng.normal(size=50))
    assert layout["edges"] == pytest.approx(edges)
    drawn = [rng.multinomial(n, law, 2000) for law in laws]
    for row0, row1 in zip(*drawn, strict=True):
        counts = np.pad(np.stack([row0, row1]), ((0, 0), (1, 0)))
        found = grouped(layout, counts, (n, n))
        off = abs(total_variation(found.p, found.q) - true)
        missed += off > estimator.margin(found, 0.05)
        error = max(error, off)
    assert missed <= stats.binom.isf(1e-6, 2000, 0.05)
    # Non-vacuity: the margin is a few times the error that occurs.
    assert estimator.margin(found, 0.05) < 8 * error


# --- gdp-fit


def test_a_gaussian_is_fitted() -> None:
    rng = np.random.default_rng(4)
    pilot, scores = (mixture(n, 1.0, 1.0, rng) for n in (20_000, 400_000))
    found = estimate(GDPFit(), pilot, scores)
    assert found.epsilon == pytest.approx(4.377, rel=0.05)
    assert "0 ≤ ε ≤ 2" in found.notes[0]


def test_the_fit_grows_with_its_range() -> None:
    rng = np.random.default_rng(5)
    pilot, scores = (mixture(n, Q, SIGMA, rng) for n in (20_000, 400_000))
    mus = [
        float(estimate(GDPFit(epsilon_max=end), pilot, scores).notes[0].split()[1])
        for end in (1.0, 2.0, 4.0)
    ]
    assert mus == pytest.approx([1.173, 1.556, 2.069], rel=0.02)
    narrow = estimate(GDPFit(delta_min=0.2), pilot, scores).notes[0]
    assert float(narrow.split("≤ ε ≤")[1].split(",")[0]) == pytest.approx(0.7, abs=0.1)


# --- pld-composition


@pytest.mark.parametrize(
    ("q", "sigma", "expected"),
    mostly_slow(
        [
            (0.25, 2.0, {1: 0.8301, 5: 1.4953, 10: 2.0200, 20: 2.7958, 100: 6.4492}),
            (0.5, 1.0, {1: 3.5340, 5: 7.4223, 10: 10.4599}),
            (0.5, 2.0, {1: 1.3536, 5: 2.8078, 10: 3.9590, 20: 5.6895}),
            (0.01, 1.0, {1: 0.1995, 5: 0.3165, 10: 0.3799, 20: 0.4549}),
            (0.25, 0.3, {1: 16.6606, 5: 38.757}),
        ],
        (1,),
    ),
)
def test_without_sampling_noise_compositions_are_exact(
    q: float, sigma: float, expected: dict[int, float]
) -> None:
    """Fine bins of the exact laws, against dp-accounting's own mixture."""
    span = 7.5 * sigma
    laws = binned(q, sigma, np.linspace(-span, 1 + span, 4000))
    pld = loss_distribution(*laws)
    for compositions, epsilon in expected.items():
        composed = pld.self_compose(compositions) if compositions > 1 else pld
        found = composed.get_epsilon_for_delta(1e-5)
        assert found == pytest.approx(epsilon, rel=2e-3, abs=2e-4 * compositions)


@pytest.mark.slow
def test_histograms_bias_it_upward() -> None:
    """q = 0.25, σ = 2, n = 10⁶, Scott's bins over everything, empty ones dropped.

    Measured in a single run: 1.253, 2.472 and 6.525, where 0.830, 2.020 and 6.449 are true. Runs
    differ by a tenth or so, more at one composition.
    """
    rng = np.random.default_rng(6)
    n, found = 10**6, []
    edges = np.arange(-10.0, 11.0, 3.49 * 2 * n ** (-1 / 3))
    laws = binned(0.25, 2.0, edges)
    for _ in range(3):
        counts = np.stack([rng.multinomial(n, law) for law in laws])
        pld = loss_distribution(*(without_empty(counts, "drop") / n))
        found.append([
            (pld.self_compose(k) if k > 1 else pld).get_epsilon_for_delta(1e-5)
            for k in (1, 10, 100)
        ])  # fmt: skip
    one, ten, hundred = np.median(found, axis=0)
    assert one == pytest.approx(1.253, abs=0.3)
    assert ten == pytest.approx(2.472, abs=0.3)
    assert hundred == pytest.approx(6.525, abs=0.35)
    assert one > 0.9
    assert ten > 2.05
    assert loss_distribution(*(counts / n)).get_epsilon_for_delta(1e-5) == math.inf or counts.all()


@pytest.mark.slow
def test_as_an_estimator() -> None:
    rng = np.random.default_rng(7)
    pilot, scores = (mixture(n, 0.25, 2.0, rng) for n in (20_000, 400_000))
    one, ten = (estimate(PLDComposition(compositions=k), pilot, scores).epsilon for k in (1, 10))
    assert one == pytest.approx(0.83, abs=0.3)
    assert ten == pytest.approx(2.1, abs=0.4)
    pure = [
        estimate(PLDComposition(compositions=k, bins=6), pilot, scores, 0.0).epsilon for k in (1, 9)
    ]
    assert 0 < pure[1] == pytest.approx(9 * pure[0])  # at δ = 0 losses just add up
    assert math.isfinite(pure[1])


def test_empty_bins() -> None:
    counts = np.array([[0, 2, 0, 5, 3, 1, 0, 0], [0, 0, 1, 4, 3, 0, 2, 0]])
    assert without_empty(counts, "infinity").tolist() == [[2, 0, 5, 3, 1, 0], [0, 1, 4, 3, 0, 2]]
    assert without_empty(counts, "drop").tolist() == [[5, 3], [4, 3]]
    assert without_empty(counts, "merge").tolist() == [[2, 5, 3, 1], [1, 4, 3, 2]]
    left = without_empty(counts[:, :-2], "merge")
    assert left.tolist() == [[2, 5, 4], [1, 4, 3]]  # the rest joins the last
    apart = np.array([[5, 0, 0], [0, 0, 5]])
    for how in ("merge", "drop", "infinity"):
        assert without_empty(apart, how).tolist() == [[5, 0], [0, 5]]
    assert without_empty(np.array([[5], [3]]), "merge").tolist() == [[5], [3]]
    assert (without_empty(counts, "merge").sum(axis=1) == counts.sum(axis=1)).all()


@pytest.mark.parametrize("empty", ["merge", "drop", "infinity"])
def test_what_empty_bins_do_to_the_estimate(empty: Any) -> None:
    """A rare output of D′ alone: merged it is hidden, dropped it is lost, kept it is infinite."""
    zeros, ones = np.repeat([0.0, 1.0], [600, 400]), np.repeat([0.0, 1.0, 2.0], [400, 590, 10])
    found = estimate(PLDComposition(empty=empty), (zeros, ones), (zeros, ones))
    expected = {"merge": math.log(600 / 400), "drop": math.log(590 / 400), "infinity": math.inf}
    # The other direction shows ln(600/400) too.
    assert found.epsilon == pytest.approx(max(expected[empty], math.log(1.5)), abs=2e-4)
    assert "0.01 of D′" in found.notes[1]
