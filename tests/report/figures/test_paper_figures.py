"""Figures that the density-estimation paper has: their numbers are those of the counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from support import made_records
from support.made_cells import EDGES, asked

from dpframe.claims import GaussianDP
from dpframe.errors import DpframeError
from dpframe.report import figures
from dpframe.report.figures import histograms
from dpframe.report.figures.points import Published
from dpframe.results.build import claim_record
from dpframe.results.store import as_record


def gaussian(use, *, repeat=0, n=1_000_000, rng=None, edges=EDGES, mu=1.0, **swept):
    """A cell with the histogram of unit normal scores around 0 and around μ."""
    cell = asked(use) | {"repeat": repeat, "swept": swept, "id": f"{use}-{swept}-{repeat}"}
    cell["claim"] = claim_record(GaussianDP(mu), 1e-5).model_dump()
    cell["estimate"] |= {"delta": 1e-5}
    cell["statistic"] = {"name": "PilotBins", "edges": list(edges)}
    cell["counts"] = []
    for mean in (0, mu):
        chances = np.diff([0, *stats.norm.cdf(np.array(edges) - mean), 1])
        row = rng.multinomial(n, chances) if rng is not None else np.round(n * chances)
        cell["counts"].append([0, *row.astype(int).tolist()])
    return cell


def test_mu_is_read_off_the_error_rates_at_each_threshold():
    cells = []
    for cut in (-0.5, 0.5, 1.5):
        cell = gaussian("gdp", **{"estimator.threshold": cut})
        on = [round(1_000_000 * stats.norm.sf(cut - mean)) for mean in (0, 1)]
        cell["counts"] = [[1_000_000 - k, k] for k in on]
        cell["statistic"] = {"name": "ThresholdCounts", "threshold": cut}
        ends = [GaussianDP(mu).epsilon_at(1e-5) for mu in (0.9, 1.1)]
        cell["estimate"] |= {"interval": ends}
        cells.append(cell)
    record = as_record(made_records.record(cells))
    (cuts,) = histograms.find_threshold_curve(record).values()
    assert [cut.threshold for cut in cuts] == [-0.5, 0.5, 1.5]
    assert [cut.mu for cut in cuts] == pytest.approx([1, 1, 1], abs=1e-4)
    assert [cut.low for cut in cuts] == pytest.approx([0.9] * 3)
    assert [cut.high for cut in cuts] == pytest.approx([1.1] * 3)
    assert all(math.isnan(cut.exact) for cut in cuts)
    picture = figures.draw(record, "threshold-curve")
    assert "nothing here is a bound for other noise" in picture.caption
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert said == ["claimed", "interval if the noise is Gaussian", "estimate, no bound"]


def test_the_exact_mu_is_that_of_the_exact_rates():
    """A share of .1 reaches the threshold on D and .9 on D′; counted were other ones.

    Each threshold is an estimator of its own, and all are one curve.
    """
    cells = []
    for cut in (0.5, 1.5):
        cell = gaussian("gdp") | {"id": str(cut)}
        cell["estimator"] = cell["estimator"] | {"label": f"gdp at {cut}"}
        cell["counts"] = [[80, 20], [20, 80]]
        cell["statistic"] = {"name": "ThresholdCounts", "threshold": cut}
        cells.append(cell | {"exact_shares": [[0.9, 0.1], [0.1, 0.9]]})
    record = as_record(made_records.record(cells))
    (cuts,) = histograms.find_threshold_curve(record).values()
    assert [cut.exact for cut in cuts] == pytest.approx([2 * stats.norm.ppf(0.9)] * 2)
    assert [cut.mu for cut in cuts] == pytest.approx([2 * stats.norm.ppf(0.8)] * 2)
    picture = figures.draw(record, "threshold-curve")
    assert "exact (truth)" in [text.get_text() for text in picture.legends[0].get_texts()]


def test_the_distance_of_two_histograms_is_half_of_what_they_differ_by():
    fine = np.linspace(-4, 5, 91)  # one edge is ½, where the densities cross
    cells = [
        gaussian("histogram", edges=edges, **{"estimator.bins": len(edges) + 1})
        for edges in ([0.5, 9.0], fine.tolist())
    ]
    record = as_record(made_records.record(cells))
    ((points),) = histograms.find_total_variation(record).values()
    exact = 2 * stats.norm.cdf(0.5) - 1
    assert [points[b][0] for b in (3, 92)] == pytest.approx([exact, exact], abs=1e-4)
    picture = figures.draw(record, "total-variation")
    (claimed,) = [line for line in picture.axes[0].lines if line.get_lw() == 1.6]
    assert claimed.get_ydata() == pytest.approx([exact, exact])
    assert "an estimate, not a bound" in picture.caption


def test_the_spread_of_sigma_is_that_of_the_replicates():
    rng = np.random.default_rng(7)
    cells = [gaussian("tv-parameter", repeat=r, n=100_000, rng=rng) for r in range(40)]
    record = as_record(made_records.record(cells))
    (found,) = histograms.find_best_order(record).values()
    # The page on the paper: 0.0059 and 0.0062 from binomial errors, at α = 1 and at e^½.
    assert histograms._spread(found, 1.0) == pytest.approx(0.0059, rel=0.35)
    assert histograms._spread(found, 1.6487) == pytest.approx(0.0062, rel=0.35)
    assert figures.kinds(record)["best-order"] is None
    few = record.model_copy(update={"cells": record.cells[:7]})
    assert "8 repeats or more" in figures.kinds(few)["best-order"]


def erring(trials, error, *, repeat=0, mu=1.0):
    """A cell whose histograms have the distance wrong."""
    cell = gaussian("histogram", repeat=repeat, mu=mu, **{"audit.trials": trials})
    exact = 2 * stats.norm.cdf(mu / 2) - 1
    cell["truth"] = {"kind": "gaussian-dp", "epsilon": 1.0}
    cell["estimate"] |= {"profile": [[0.0, exact + error], [1.0, 0.0]]}
    return cell


def test_the_slope_is_that_of_the_mean_errors():
    """An error of n^(−1/2) on one side and of three times as much on the other."""
    cells = [
        erring(n, sign * size * n**-0.5, repeat=repeat)
        for n in (1_000, 10_000, 100_000)
        for repeat, (sign, size) in enumerate([(1, 0.1), (-1, 0.3)])
    ]
    record = as_record(made_records.record(cells))
    picture = figures.draw(record, "convergence")
    (signs,) = [line for line in picture.axes[0].lines if line.get_marker() == "o"]
    trials, means = signs.get_data()
    assert [*trials] == [1_000, 10_000, 100_000]
    assert means == pytest.approx([0.2 * n**-0.5 for n in trials], rel=1e-6)
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert said == ["laplace: slope −0.50", "at least this fast in the limit: slope −⅓"]
    (promised,) = [line for line in picture.axes[0].lines if line.get_lw() == 0.9]
    y = promised.get_ydata()
    assert y[0] == pytest.approx(means[0])
    assert y[0] / y[-1] == pytest.approx(100 ** (1 / 3))


def test_a_rate_needs_several_numbers_of_trials_and_a_known_distance():
    one = [erring(1_000, 0.01), erring(1_000, 0.02, repeat=1)]
    unknown = [erring(n, 0.01) | {"truth": None} for n in (1_000, 2_000)]
    for cells in (one, unknown):
        record = as_record(made_records.record(cells))
        assert "several numbers of trials" in figures.kinds(record)["convergence"]


def composed(count, epsilon, label):
    """Return the estimate from a number of releases."""
    nothing = dict.fromkeys(("epsilon_lower", "epsilon_upper", "epsilon_upper_of"))
    cell = asked("pld-composition", **nothing, epsilon=epsilon, certified=False)
    params = {"bins": 20, "compositions": count}
    cell["estimator"] = {"use": "pld-composition", "label": label, "params": params}
    return cell | {"verdict": None, "p_value": None, "p_adjusted": None, "id": label}


def drawn(ax, marker):
    """Points that have a sign."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    return [point for line in lines for point in zip(*line.get_data(), strict=True)]


@pytest.fixture
def steps():
    cells = [composed(k, e, f"{k} steps") for k, e in ((20, 5.0), (1, 1.0), (5, 3.0))]
    return as_record(made_records.record([asked("order-statistics"), *cells], m=1))


def test_estimates_of_several_releases_are_one_line_by_their_number(steps):
    table = Published("mechanism,estimator.compositions,epsilon\nlaplace,5,2.5\n", "t.csv")
    picture = figures.draw(steps, "compositions", beside=table)
    (ax,) = picture.axes
    assert drawn(ax, "o") == [(1, 1.0), (5, 3.0), (20, 5.0)]
    assert drawn(ax, "+") == [(5, 2.5)]
    assert drawn(ax, "^") == [(1, steps.cells[0].estimate.epsilon_lower)]
    assert drawn(ax, "_") == [(1, 1.0)]
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert "pld-composition, estimate, no bound" in said
    assert "not a bound in either direction" in picture.caption
    elsewhere = Published("mechanism,estimator.compositions,epsilon\nlaplace,7,2\n", "t.csv")
    with pytest.raises(DpframeError, match="none of its rows"):
        figures.draw(steps, "compositions", beside=elsewhere)


@pytest.mark.parametrize("count", [0, -1, "inf", "many", None])
def test_a_number_of_releases_that_is_none_is_no_point(count):
    cells = [composed(k, 1.0, f"{k} steps") for k in (1, 2, count)]
    picture = figures.draw(as_record(made_records.record(cells, m=0)), "compositions")
    assert [x for x, _ in drawn(picture.axes[0], "o")] == [1, 2]


@pytest.mark.parametrize("trials", [0, -5, "inf"])
def test_a_number_of_trials_that_is_none_is_no_point(trials):
    cells = [erring(n, 0.1 / (1 + place)) for place, n in enumerate((100, 1_000, trials))]
    (line,) = histograms.find_convergence(as_record(made_records.record(cells))).values()
    assert [*line] == [100, 1_000]


def test_what_is_claimed_of_one_release_is_not_beside_the_loss_of_many(steps):
    (ax,) = figures.draw(steps, "comparison").axes
    claims = [list(line.get_ydata()) for line in ax.lines if line.get_lw() == 1.6]
    assert claims == [[-0.5, 0.5], [1.5, 2.5]]
    rows = [text.get_text() for text in ax.get_yticklabels()]
    assert rows == ["order-statistics", "20 steps", "1 steps", "5 steps"]
