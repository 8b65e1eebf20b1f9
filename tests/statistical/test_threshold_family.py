"""Validity of `threshold` and `gdp`, that they are worth something, and what is not valid.

False-alarm rate of each test: 1e-6, at fixed seeds.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest
from scipy import special, stats
from support.tiers import mostly_slow
from support.unsound_estimators import AbsoluteMu

import dpframe
from dpframe import Attack, GaussianDP, LaplaceDP, Mechanism, PureDP, Query
from dpframe.builtin.events import PilotGrid
from dpframe.builtin.order_statistics import Precision
from dpframe.builtin.threshold import GDP, ThresholdLoss
from dpframe.stats.credible import Posterior, region_mass
from dpframe.stats.histograms import bin_counts

ALPHA = 1e-6


class UnitNormal(Mechanism, name="unit-normal"):
    """Normal noise: on a pair at distance 1 exactly (1/noise)-GDP."""

    mu: float | None = None
    """The claim; default: the truth."""
    noise: float = 1.0
    """Standard deviation."""

    def claim(self, pair: Any) -> GaussianDP:
        return self.truth(pair) if self.mu is None else GaussianDP(self.mu)

    def truth(self, pair: Any) -> GaussianDP:
        return GaussianDP(1 / self.noise)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + self.noise * jax.random.normal(key, (n, *data.shape))


class UnitLaplace(Mechanism, name="unit-laplace"):
    """Laplace noise of scale 1: exactly 1-DP on a pair at distance 1."""

    kind_of_claim: str = "pure"
    """The claim, which is true."""

    def claim(self, pair: Any) -> Any:
        return {"pure": PureDP(1.0), "curve": LaplaceDP(1.0)}[self.kind_of_claim]

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + jax.random.laplace(key, (n, *data.shape))


class First(Attack, name="first"):
    """The first coordinate."""

    gives = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0]


def audits(mechanism: Any, estimators: list[Any], trials: int, repeats: int) -> list[Any]:
    document = {
        "schema": 1,
        "audit": {
            "name": "coverage",
            "trials": trials,
            "repeats": repeats,
            "multiplicity": "none",
            "delta": 1e-5,
        },
        "pair": {"use": "zeros-ones"},
        "mechanism": [mechanism],
        "attack": [{"use": "first"}],
        "estimator": estimators,
        "run": {"pilot": 2000},
    }
    return dpframe.audit(document, plugins=[UnitNormal, UnitLaplace, First, AbsoluteMu])["cells"]


FAMILY = [
    {"use": "threshold", "label": "threshold"},
    {"use": "threshold", "label": "given", "params": {"threshold": 1.5}},
    {"use": "gdp", "label": "gdp"},
    {"use": "gdp", "label": "gdp given", "params": {"threshold": 0.5, "direction": "up"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_true_claims_are_refuted_in_at_most_five_percent(repeats: int) -> None:
    """Many audits each through the whole engine, on a mechanism that is exactly 1-GDP."""
    family = [FAMILY[0], FAMILY[3]]
    cells = audits({"use": "unit-normal"}, family, 2_000, repeats)
    most = stats.binom.isf(ALPHA, repeats, 0.05)
    for entry in family:
        mine = [cell for cell in cells if cell["estimator"]["label"] == entry["label"]]
        p_values = np.array([cell["p_value"] for cell in mine])
        assert len(mine) == repeats
        for level in (0.05, 0.2, 0.5):
            limit = stats.binom.isf(ALPHA, repeats, level)
            assert (p_values <= level).sum() <= limit < repeats  # 16 audits cannot exceed theirs
        assert sum(cell["verdict"] == "violated" for cell in mine) <= most
        lower = np.array([cell["estimate"]["epsilon_lower"] for cell in mine])
        assert (lower > GaussianDP(1.0).epsilon_at(1e-5)).sum() <= most
        # Non-vacuity.
        assert (p_values < 0.5).any()
        assert lower.mean() > 0.65


def test_false_claims_are_refuted() -> None:
    cells = audits({"use": "unit-normal", "params": {"mu": 0.8}}, FAMILY, 20_000, 1)
    assert [cell["verdict"] for cell in cells] == ["violated"] * len(FAMILY)
    for cell in cells:
        assert "certified above" in cell["reason"]


RATES = [0.001, 0.02, 0.5, 0.9, 0.999]


def sizes(estimator: Any, n: int, m: int, delta: float) -> np.ndarray:
    """Exact probabilities of a bound above the loss, on the curves of several losses."""
    query = Query((n, m), delta, 0.95, None)
    bounds = np.array([
        [estimator.estimate((), np.array([[n - k, k], [m - j, j]]), query).epsilon_lower
         for j in range(m + 1)]
        for k in range(n + 1)
    ])  # fmt: skip
    found = []
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        for x in np.linspace(0, 1, 41):
            y = max(0.0, 1 - delta - math.exp(epsilon) * x, math.exp(-epsilon) * (1 - delta - x))
            mass = np.multiply.outer(
                stats.binom.pmf(np.arange(n + 1), n, x), stats.binom.pmf(np.arange(m + 1), m, 1 - y)
            )
            found += [
                (mass * (each > epsilon * (1 + 1e-9))).sum()
                for each in (bounds, bounds[::-1, ::-1])
            ]
    return np.array(found)


@pytest.mark.parametrize("estimator", [ThresholdLoss(threshold=0.0), Precision()])
@pytest.mark.parametrize(
    ("n", "m", "delta"),
    mostly_slow([(8, 8, 0.0), (15, 15, 0.0), (8, 15, 0.0), (9, 7, 0.1)], (0, 3)),
)
def test_few_trials_use_their_error_and_never_more(
    estimator: Any, n: int, m: int, delta: float
) -> None:
    """Exact, no simulation: the default certifies what separate limits cannot."""
    found = sizes(estimator, n, m, delta)
    assert found.max() <= 0.05 * (1 + 1e-9)
    assert found.max() > 0.02
    separate = ThresholdLoss(threshold=0.0, limits="clopper-pearson")
    assert sizes(separate, n, m, delta).max() < found.max() / 2


@pytest.mark.parametrize(
    ("n", "wrong", "gain"), [(8, 0, 1.5), (15, 0, 1.3), (1000, 300, 1.05), (1001, 300, 1.0)]
)
@pytest.mark.parametrize("estimator", [ThresholdLoss(threshold=0.0), Precision()])
def test_the_default_bounds_more_with_up_to_a_thousand_trials(
    estimator: Any, n: int, wrong: int, gain: float
) -> None:
    counts, query = (
        np.array([[n - wrong, wrong], [wrong, n - wrong]]),
        Query((n, n), 0.0, 0.95, None),
    )
    separate = ThresholdLoss(threshold=0.0, limits="clopper-pearson")
    least = separate.estimate((), counts, query).epsilon_lower
    found = estimator.estimate((), counts, query).epsilon_lower
    assert found > gain * least if n <= 1000 else found == pytest.approx(least)


@pytest.mark.parametrize(
    ("estimator", "direction"),
    [(ThresholdLoss, "up"), (ThresholdLoss, "down"), (ThresholdLoss, "either"), (GDP, "either")],
)
@pytest.mark.parametrize("rate", mostly_slow(RATES, (1,)))
def test_each_limit_misses_at_its_own_level(estimator: Any, direction: str, rate: float) -> None:
    """Exact, no simulation: a planted a → 2a, in the division or in a limit, fails here."""
    n, error = 200, 0.2
    claim = GaussianDP(1.0) if estimator is GDP else None
    query = Query((n, n), 1e-5, 1 - error, claim)
    asked = estimator(threshold=0.0, direction=direction, limits="clopper-pearson")
    limits = 4 if direction == "either" else 2
    mass = stats.binom.pmf(np.arange(n + 1), n, rate)
    misses = np.zeros((limits // 2, 2))
    for k in range(n + 1):
        table = np.array([[n - k, k], [n - k, k]])
        boxes = np.array(asked.estimate((), table, query).tradeoff)
        ones_mean_1 = np.array([True, False] if limits == 4 else [direction == "up"])
        # Both rates of a box have the same p here: ones where they are wrong, else zeros.
        truth = np.where(ones_mean_1, rate, 1 - rate)
        misses += mass[k] * (boxes < np.stack([truth, 1 - truth], axis=1))
    assert misses.max() <= error / limits * (1 + 1e-9)
    if 0.1 < rate < 0.95:
        assert misses.max() > error / limits * 0.7


def test_gdp_on_laplace_noise_is_unsound_and_gives_no_verdict() -> None:
    """ε = 1 at every δ; a Gaussian with these error rates has ε = 4.5 at δ = 1e-5."""
    for kind in ("pure", "curve"):
        (cell,) = audits(
            {"use": "unit-laplace", "params": {"kind_of_claim": kind}}, FAMILY[2:3], 50_000, 1
        )
        estimate = cell["estimate"]
        assert 4 < estimate["interval"][0] < estimate["epsilon"] < 5
        assert cell["verdict"] is None
        assert cell["p_value"] is None
        assert estimate["epsilon_lower"] is estimate["epsilon_upper"] is None
        assert estimate["certified"] is False
        assert estimate["tradeoff"] == []
        assert "Gaussian noise" in estimate["assumption"]


@pytest.mark.parametrize(
    ("n", "lower"), mostly_slow([(10**3, 3.71), (10**4, 4.27), (10**5, 4.45), (10**6, 4.50)], (0,))
)
def test_how_unsound_gdp_is_on_laplace_noise(n: int, lower: float) -> None:
    """Expected counts at the threshold with the largest μ: 3.7 to 4.5 where the truth is 1."""
    thresholds = np.linspace(-6, 7, 261)
    fpr, tpr = stats.laplace.sf(thresholds), stats.laplace.sf(thresholds - 1)
    tables = np.round(np.array([[1 - fpr, fpr], [1 - tpr, tpr]]) * n).astype(int)
    found = [
        GDP(threshold=0.0, direction="up").estimate((), table, Query((n, n), 1e-5, 0.95, None))
        for table in np.moveaxis(tables, -1, 0)
    ]
    assert max(each.interval[0] for each in found) == pytest.approx(lower, abs=5e-3)


@pytest.mark.slow
def test_approximate_and_bayesian_limits_break_the_promise_that_they_do_not_make() -> None:
    """At the worst rates for each, in counts drawn from the closed form; the exact ones keep it."""
    n, repeats, rng = 1000, 1500, np.random.default_rng(3)
    most = stats.binom.isf(ALPHA, repeats, 0.05)

    def exceeded(fpr: float, fnr: float, limits: str) -> int:
        estimator = ThresholdLoss(threshold=0.0, direction="up", limits=limits)
        truth, above = np.log((1 - fnr) / fpr), 0
        for fp, fn in zip(*rng.binomial(n, [[fpr], [fnr]], (2, repeats)), strict=True):
            table = np.array([[n - fp, fp], [fn, n - fn]])
            found = estimator.estimate((), table, Query((n, n), 0.0, 0.95, None))
            above += (found.interval[0] if found.interval else found.epsilon_lower) > truth
        return above

    response = special.expit(-1.0)  # randomised response with ε = 1
    true_curve = PureDP(1.0).tradeoff
    masses = [
        region_mass(Posterior(fn, n - fn, fp, n - fp), true_curve, [response])
        for fp, fn in rng.binomial(n, response, (repeats, 2))
    ]
    # A mass below 0.05 is a lower limit, at 95 %, above the truth.
    assert sum(mass < 0.05 for mass in masses) > 1.5 * most
    assert exceeded(0.002594, 0.05, "jeffreys") > stats.binom.isf(0.01, repeats, 0.05)
    for rates in ((response, response), (0.002594, 0.05)):
        assert exceeded(*rates, "clopper-pearson") <= most


def normal_counts(rng: np.random.Generator, n: int, shift: float) -> tuple[Any, Any]:
    pilot = rng.normal(size=500), rng.normal(size=500) + shift
    layout = PilotGrid().bind(*pilot)
    draws = rng.normal(size=n), rng.normal(size=n) + shift
    return layout, np.stack([bin_counts(layout["edges"], scores) for scores in draws])


def test_the_planted_estimator_is_caught() -> None:
    """Scores without any leak: the planted bound is far above 0 every time, ours never is."""
    rng, n, repeats = np.random.default_rng(0), 1000, 100
    query = Query((n, n), 1e-5, 0.95, None)
    planted, ours = [], []
    for _ in range(repeats):
        layout, counts = normal_counts(rng, n, 0.0)
        planted.append(AbsoluteMu().estimate(layout, counts, query).epsilon_lower)
        ours.append(GDP().estimate(layout, counts, query).interval[0])
    most = stats.binom.isf(ALPHA, repeats, 0.05)
    assert (np.array(planted) > 0).sum() > most
    assert (np.array(ours) > 0).sum() <= most
    assert np.median(planted) > 3
    assert min(planted) > 1


def test_the_planted_estimator_fails_by_its_absolute_value() -> None:
    """The threshold that decides has both limits above the diagonal; below it, nothing is found."""
    rng, n = np.random.default_rng(1), 1000
    for _ in range(20):
        _, counts = normal_counts(rng, n, 0.0)
        beyond = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
        level = 0.05 / (2 * counts.shape[1])
        fpr = dpframe.clopper_pearson_upper(beyond[0], n, level)
        fnr = dpframe.clopper_pearson_upper(n - beyond[1], n, level)
        below = fpr + fnr < 1
        assert not below.any()
        query = Query((n, n), 1e-5, 0.95, None)
        kept = np.maximum(fpr, fnr) < 1 - query.delta
        mu = -special.ndtri(fpr[kept]) - special.ndtri(fnr[kept])
        assert AbsoluteMu().largest_mu(counts, query) == pytest.approx(-mu.min())
        assert mu.max() < 0


@pytest.mark.slow
def test_the_planted_estimator_condemns_a_true_claim() -> None:
    """In a run: a 1-GDP mechanism that claims μ = 1 is "violated" nearly every time."""
    cells = audits({"use": "unit-normal"}, [{"use": "absolute-mu"}], 1_000, 20)
    violated = sum(cell["verdict"] == "violated" for cell in cells)
    assert violated > stats.binom.isf(ALPHA, len(cells), 0.05)


@pytest.mark.slow
def test_calibrate_finds_the_planted_estimator_and_clears_ours() -> None:
    """Against a true curve, which is what `gdp` certifies against, and without any leak."""
    document = {
        "schema": 1,
        "audit": {"name": "planted", "trials": 500, "delta": 1e-5},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "unit-normal"}],
        "attack": [{"use": "first"}],
        "estimator": [{"use": "absolute-mu"}, {"use": "gdp"}, {"use": "threshold"}],
        "run": {"pilot": 500},
        "sweep": {"mechanism.noise": [1.0, 100.0]},
    }
    plugins = [UnitNormal, First, AbsoluteMu]
    found = dpframe.calibrate(document, repeats=40, plugins=plugins)["rows"]
    promises = {(row["estimator"]["use"], row["promise"]) for row in found}
    assert promises == {("absolute-mu", "broken"), ("gdp", "kept"), ("threshold", "kept")}
