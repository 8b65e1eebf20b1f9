"""The numbers on pages that come from runs: the specs as they are still give them.

Slow, because each spec runs at full size. On another type of processor a count may differ by one
(docs/explanation/how-an-audit-works.md), which hardly ever changes a digit that is shown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import optimize
from support import ROOT, closed_forms as exact
from support.figures import SPECS, cells, frequencies, of, one, said
from support.pages import Down, Up, agree, rows, section, text_agrees

import dpframe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.pages import Exact

pytestmark = pytest.mark.slow

PAGE = "docs/explanation/density-estimation.md"
TUTORIAL = "docs/tutorial.md"
Q, SIGMA = 0.25, 0.3

Row = tuple[str, str, list[tuple["Exact", ...]]]
"""Heading, how the row begins, and the numbers in each of its cells, the first one included."""


def epsilon(cell: dict[str, Any]) -> float:
    return float(cell["estimate"]["epsilon"])


def bound(cell: dict[str, Any]) -> Down:
    return Down(float(cell["estimate"]["epsilon_lower"]))


def interval(cell: dict[str, Any]) -> tuple[Down, Up]:
    low, high = map(float, cell["estimate"]["interval"])
    return Down(low), Up(high)


def threshold_mu(fpr: float, fnr: float) -> float:
    """Infinite where a rate is 0."""
    return exact.threshold_mu(fpr, fnr) if min(fpr, fnr) > 0 else math.inf


def measured_mu(cell: dict[str, Any]) -> tuple[float, Down, Up]:
    """μ̂ and its limits, from the counts."""
    (_, fp), (fn, _) = cell["counts"]
    n0, n1 = cell["trials"]
    error = (1 - cell["estimate"]["confidence"]) / 2
    x0, x1 = exact.clopper_pearson(fp, n0, error)
    y0, y1 = exact.clopper_pearson(fn, n1, error)
    return threshold_mu(fp / n0, fn / n1), Down(threshold_mu(x1, y1)), Up(threshold_mu(x0, y0))


def figure_1() -> Iterator[Row]:
    heading, found = (
        "## Figure 1: one threshold, interpreted as Gaussian",
        cells("figure-01-threshold-curve"),
    )
    for shown in ("−1", "0", "0.5", "1", "1.2", "1.3", "1.5"):
        z = float(shown.replace("−", "-"))
        mu, low, high = measured_mu(one(found, mechanism="subsampled-gaussian", threshold=z))
        plain, plain_low, _ = measured_mu(one(found, mechanism="gaussian", threshold=z))
        right = exact.threshold_mu(*exact.threshold_rates(z, Q, SIGMA))
        last = (plain, plain_low) if math.isinf(plain) else (plain,)
        yield heading, shown, [(z,), (right,), (mu,), (low, high), last]


def figure_4() -> Iterator[Row]:
    heading, found = "## Figure 4: how many bins", cells("figure-04-bins")
    bins = (2, 3, 5, 15, 20, 100, 500, 1000, 5000)

    def mean(values: Callable[[dict[str, Any]], float], **wanted: str) -> list[tuple[float]]:
        return [(float(np.mean([values(c) for c in of(found, bins=k, **wanted)])),) for k in bins]

    def distance(cell: dict[str, Any]) -> float:
        p, q = frequencies(cell)
        return float(np.abs(p - q).sum() / 2)

    tv = {"estimator": "tv-parameter"}
    yield heading, "measured", [(), *mean(distance, mechanism="gaussian", **tv)]
    yield heading, "measured without a leak", [(), *mean(distance, mechanism="no leak", **tv)]
    bounds = mean(lambda c: bound(c).value, mechanism="gaussian", estimator="histogram")
    at = exact.gaussian_epsilon(0.01, 1.0)
    yield heading, "mean bound of `histogram`", [(0.01, at), *bounds]
    assert {c["trials"][0] for c in found} == {100_000}
    errors = [
        np.std([distance(c) for c in of(found, bins=k, mechanism=m, **tv)], ddof=1) / 10**0.5
        for k in bins
        for m in ("gaussian", "no leak")
    ]
    assert max(errors) <= 0.001


def theorem_4() -> Iterator[Row]:
    found = cells("theorem-04-rate")
    trials = (1000, 6000, 30_000, 200_000, 1_000_000)
    right = {"gaussian": 2 * exact.PHI(0.5) - 1, "no leak": 1e-6 * (2 * exact.PHI(0.5) - 1)}
    for start, mechanism in (("N(0, 1), N(1, 1)", "gaussian"), ("nearly equal", "no leak")):
        errors = []
        for n in trials:
            mine = of(found, mechanism=mechanism, trials=n)
            assert len(mine) == 16
            distances = [float(cell["estimate"]["profile"][0][1]) for cell in mine]
            errors.append(float(np.mean(np.abs(np.array(distances) - right[mechanism]))))
        slope = float(np.polyfit(np.log(trials), np.log(errors), 1)[0])
        yield (
            "## Theorem 4: rate of convergence",
            start,
            [(), *((error,) for error in errors), (slope,)],
        )


def lemma_7(cell: dict[str, Any], x: float) -> float:
    epsilons, deltas = np.array(cell["estimate"]["profile"], np.float64).T
    assert len(epsilons) >= 200
    steep = 1 - deltas - np.exp(epsilons) * x
    return float(max(0.0, steep.max(), (np.exp(-epsilons) * (1 - deltas - x)).max()))


def figures_5_and_6() -> Iterator[Row]:
    heading = "## Figures 5 and 6: curves without knowing the noise"
    rates = (0.01, 0.05, 0.1, 0.25, 0.5)
    for name, said_by in (
        ("figure-05-subsampled-gaussian", "the subsampled Gaussian"),
        ("figure-06-laplace", "Laplace"),
    ):
        found = of(cells(name), delta=0.1)
        cell = one(found, estimator="histogram")
        bins = said(cell, "# bins;")[0]
        yield heading, f"histogram on {said_by}", [(bins,), *((lemma_7(cell, x),) for x in rates)]
        mu = exact.matching_mu(epsilon(one(found, estimator="gdp")), 0.1)
        curve = [(float(exact.PHI(exact.QUANTILE(1 - x) - mu)),) for x in rates]
        yield heading, f"`gdp` on {said_by}", [(mu,), *curve]
    found = cells("figure-05-subsampled-gaussian")
    deltas = (1e-5, 1e-3, 0.01, 0.1, 0.2)
    per_delta = {
        label: [one(found, estimator=label, delta=delta) for delta in deltas]
        for label in ("histogram", "order-statistics", "histogram-split", "gdp")
    }
    yield heading, "`histogram`, estimate", [(), *((epsilon(c),) for c in per_delta["histogram"])]
    for label in ("histogram", "order-statistics", "histogram-split"):
        yield heading, f"`{label}`, bound", [(), *((bound(c),) for c in per_delta[label])]
    yield heading, "`gdp`, interval", [(), *(interval(c) for c in per_delta["gdp"])]


def figure_7() -> Iterator[Row]:
    """The spread of σ̂ from two orders, with SciPy alone."""

    def sigma_from(cell: dict[str, Any], order: float) -> float:
        p, q = frequencies(cell)
        wanted = np.maximum(p - order * q, 0).sum()
        return float(
            optimize.brentq(
                lambda s: exact.gaussian_delta(math.log(order), 1 / s) - wanted, 0.05, 50
            )
        )

    for sigma in (0.5, 1.0, 2.0, 3.0):
        repeats = of(cells("figure-07-best-order"), sigma=sigma)
        assert len(repeats) == 40
        steepest = math.exp(1 / (2 * sigma**2))
        spreads = [
            float(np.std([sigma_from(cell, order) for cell in repeats], ddof=1))
            for order in (1.0, steepest)
        ]
        assert spreads[0] < spreads[1]
        numbers: list[tuple[Exact, ...]] = [(sigma,), (steepest,), *((s,) for s in spreads)]
        yield "## Figure 7: which order to invert", f"{sigma} |", numbers


def figure_11() -> Iterator[Row]:
    found = cells("figure-11-composition")
    columns = (
        "Scott's width, ends by the pilot",
        "Scott's width over 5 sigma",
        "the same, one-sided bins dropped",
        "20 bins over 5 sigma",
    )
    for releases in (1, 10, 100):
        measured = [
            (epsilon(one(found, compositions=releases, estimator=label)),) for label in columns
        ]
        right = exact.composed_epsilon(releases, 1e-5, 0.25, 2.0)
        yield "## Figure 11: many releases", f"{releases} |", [(releases,), (right,), *measured]


def figure_13() -> Iterator[Row]:
    heading = "## Appendix A and figure 13: there is no μ in between"
    found = cells("figure-13-profile-fit")
    fits = [said(one(found, epsilon_max=end), "mu # over")[0] for end in (0.01, 0.5, 1, 2, 4, 6, 8)]
    yield heading, "fitted", [(), *((mu,) for mu in fits)]


def figure_14() -> Iterator[Row]:
    heading = "## Section 7 and figure 14: from total variation to ε"
    for sigma in (0.3, 0.5, 1.0, 2.0):
        pairs = [
            ((exact.mixture_epsilon(1e-5, q, sigma),), (epsilon(told(q, q, sigma)),))
            for q in (0.1, 0.25, 0.5)
        ]
        yield heading, f"{sigma} |", [(sigma,), *(cell for pair in pairs for cell in pair)]


def told(said_q: float, q: float, sigma: float) -> dict[str, Any]:
    """The cell of figure 14 in which the estimator is told some q."""
    wanted = {
        "mechanism.noise_multiplier": sigma,
        "mechanism.sampling_probability": q,
        "estimator.sampling_probability": said_q,
    }
    (cell,) = [c for c in cells("figure-14-tv-to-epsilon") if c["swept"] == wanted]
    return cell


def thresholds_against_histograms() -> Iterator[Row]:
    found = dpframe.compare(SPECS / "thresholds-against-histograms.toml")["rows"]
    for label, attack, estimator in (
        ("identity · `order-statistics`", "identity", "order-statistics"),
        ("identity · `histogram-split`", "identity", "histogram-split"),
        ("identity · `threshold`, chosen by the pilot", "identity", "threshold"),
        ("threshold, chosen on the fit stream · `threshold`", "threshold", "threshold"),
        ("identity · `histogram`", "identity", "histogram"),
    ):
        shares = [
            Down(100 * row["share"])
            for mechanism in ("gaussian", "subsampled-gaussian", "laplace")
            for row in found
            if row["mechanism"]["label"] == mechanism
            and (row["attack"]["label"], row["estimator"]["label"]) == (attack, estimator)
        ]
        yield "## Thresholds against histograms", label, [(), *((share,) for share in shares)]


FIGURES = [
    figure_1,
    figure_4,
    theorem_4,
    figures_5_and_6,
    figure_7,
    figure_11,
    figure_13,
    figure_14,
    thresholds_against_histograms,
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.__name__)
def test_tables(figure: Callable[[], Iterator[Row]]) -> None:
    wrong = []
    for heading, start, numbers in figure():
        table = rows(section(PAGE, heading))
        matching = [row for row in table if (" | ".join(row) + " |").startswith(start)]
        exactly = [row for row in matching if row[0] == start] or matching
        assert len(exactly) == 1, f"{heading}: {len(exactly)} rows begin with {start!r}"
        for text, wanted in zip(exactly[0], numbers, strict=True):
            wrong += agree(text, *wanted) if wanted else []
    assert wrong == []


@pytest.mark.parametrize(
    ("table", "q", "sigma"),
    [
        ("specs/published/figure-11-accountant.csv", 0.25, 2.0),
        ("specs/published/figure-12-accountant.csv", 0.5, 2.0),
    ],
)
def test_tables_of_an_accountant(table: str, q: float, sigma: float) -> None:
    """The numbers that `--beside` draws into figures 11 and 12."""
    lines = (ROOT / table).read_text(encoding="utf-8").splitlines()
    listed = [line.split(",") for line in lines if not line.startswith(("#", "mechanism"))]
    assert len(listed) == 5
    for _, releases, epsilon in listed:
        right = exact.composed_epsilon(int(releases), 1e-5, q, sigma)
        assert float(epsilon) == pytest.approx(right, abs=1e-4)


def test_credible_regions() -> None:
    """Figures 2 and 3: masses, each line for several σ′, and where `threshold` refutes."""
    found = cells("figure-02-03-credible-regions")
    wrong = []
    for sigmas, *masses, refuted in rows(section(PAGE, "## Figures 2 and 3: credible regions")):
        for sigma in map(float, sigmas.split(", ")):
            mine = of(found, claimed_noise_multiplier=sigma)
            for text, z in zip(masses, (0.0, 0.5, 0.8, 1.0), strict=True):
                note = "posterior mass of the region that the claim allows: (?:below )?#"
                mass = said(one(mine, estimator="credible", threshold=z), note)[0]
                wrong += agree(text, mass)
            where = [
                z
                for z in (0.0, 0.5, 0.8, 1.0)
                if one(mine, estimator="threshold", threshold=z)["verdict"] == "violated"
            ]
            assert refuted == ("at z = 0.5, 0.8 and 1" if where == [0.5, 0.8, 1.0] else "nowhere")
            assert where in ([], [0.5, 0.8, 1.0])
    assert wrong == []


def test_sentences_about_runs() -> None:
    wrong = []
    laplace = one(cells("figure-06-laplace"), estimator="gdp", delta=1e-5)
    wrong += text_agrees(
        PAGE,
        "For the Laplace mechanism it gives # to # at δ = 1e-5; the truth is #.",
        *interval(laplace),
        1 + 2 * math.log(1 - 1e-5),
    )
    found = cells("section-07-example")
    sigma, paper, _ = said(one(found, estimator="paper"), "sigma #, from # to #")
    sound = said(one(found, estimator="sound"), "sigma #, from #")[1]
    wrong += text_agrees(PAGE, "σ̂ is # here and the limit is # (", sigma, Down(paper))
    wrong += text_agrees(PAGE, "Then the limit is #.", Down(sound))
    wrong += text_agrees(
        PAGE,
        "it reports # instead of the exact # at σ = 1",
        epsilon(told(0.25, 0.5, 1.0)),
        exact.mixture_epsilon(1e-5, 0.5, 1.0),
    )
    assert [epsilon(told(0.25, 0.5, sigma)) for sigma in (0.3, 0.5)] == [math.inf] * 2
    composed = [[number for (number,) in numbers] for _, _, numbers in figure_11()]
    right, *hundred = composed[2][1:]
    off = [100 * (number / right - 1) for number in hundred]
    wrong += text_agrees(PAGE, "the estimates are # % below to # % above", -min(off), max(off))
    third = composed[0][3] / composed[0][1]
    wrong += text_agrees(PAGE, "the third column is # times the exact value", third)
    repeated = cells("figure-11-composition", "estimator.compositions=[1]", "audit.repeats=32")
    means: list[tuple[float, float]] = []
    for label in ("Scott's width over 5 sigma", "Scott's width, ends by the pilot"):
        values = [epsilon(cell) for cell in of(repeated, estimator=label)]
        means.append((float(np.mean(values)), float(np.std(values, ddof=1) / len(values) ** 0.5)))
    wrong += text_agrees(PAGE, "it has a mean of # ± #.", *means[0])
    wrong += text_agrees(PAGE, "the second column has a mean of # ± #.", *means[1])
    assert wrong == []


def test_what_the_heads_of_specs_say_of_fewer_trials() -> None:
    few = "audit.trials=10_000"
    found = of(cells("figure-02-03-credible-regions", few), estimator="threshold")
    refuted = {
        cell["swept"]["mechanism.claimed_noise_multiplier"]
        for cell in found
        if cell["verdict"] == "violated"
    }
    assert refuted == {0.35, 0.4}
    distances = {}
    for cell in of(cells("figure-04-bins", few), mechanism="gaussian", estimator="tv-parameter"):
        p, q = frequencies(cell)
        distances.setdefault(cell["swept"]["estimator.bins"], []).append(np.abs(p - q).sum() / 2)
    off = {bins: float(np.mean(values)) - 0.3829 for bins, values in distances.items()}
    assert abs(off[100]) < 0.002 < off[500] < off[1000] < off[5000]


def test_the_first_numbers_of_the_tutorial() -> None:
    found = dpframe.audit(SPECS.parent / "quick.toml")["cells"]
    adept = of(found, mechanism="adept", epsilon=0.5)
    numbers: list[Exact] = [n for c in adept for n in (epsilon(c), bound(c))]
    wrong = text_agrees(TUTORIAL, "adept 0.5 2 0.500 # ≥ # – ✗", *numbers[:2])
    wrong += text_agrees(TUTORIAL, "The counts give ε = #, which is", numbers[0])
    wrong += text_agrees(TUTORIAL, "certified to be at least #. This is above", numbers[1])
    assert wrong == []
