"""Estimators beside each other, and the scores that they saw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from support import made_records
from support.made_cells import EDGES, asked, counted, silent

from dpframe.errors import DpframeError
from dpframe.report import figures
from dpframe.report.figures import histograms
from dpframe.results.store import as_record


def xs(ax, marker):
    return [float(x) for line in ax.lines if line.get_marker() == marker for x in line.get_xdata()]


def test_only_what_is_certified_has_the_sign_of_a_bound():
    bound = asked("order-statistics")
    loose = silent("gdp", epsilon="inf", interval=[0.5, "inf"])
    record = as_record(made_records.record([bound, loose], m=1))
    picture = figures.draw(record, "comparison")
    (ax,) = picture.axes
    assert xs(ax, ">") == [bound["estimate"]["epsilon_lower"]]
    assert len(xs(ax, "o")) == 2
    assert max(xs(ax, "o")) > record.cells[0].estimate.epsilon_upper
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert "interval, no bound" in said
    assert "estimate, no bound" in said
    assert "certified: at least this" in said
    assert "∞" in [tick.get_text() for tick in ax.get_xticklabels()]
    assert "Intervals and point values are not bounds." in picture.caption


def test_one_estimator_is_no_comparison():
    record = as_record(made_records.record([asked("order-statistics")]))
    with pytest.raises(DpframeError, match="there is nothing to compare"):
        figures.draw(record, "comparison")


def test_scores_are_drawn_as_densities_with_their_threshold():
    record = as_record(made_records.record([counted()]))
    (found,) = histograms.find_histograms(record)
    places, density, exact = histograms._bars(found)
    assert exact is None
    widths = np.diff(places)
    assert (density * widths).sum(axis=1) == pytest.approx([1, 1], abs=0.01)
    middle = (places[1:] + places[:-1]) / 2
    assert density[0] == pytest.approx(stats.norm.pdf(middle), abs=0.01)
    assert density[1] == pytest.approx(stats.norm.pdf(middle - 1), abs=0.01)
    assert found.thresholds == (1.25,)
    picture = figures.draw(record, "scores")
    assert 1.25 in [float(line.get_xdata()[0]) for line in picture.axes[0].lines]
    assert "7 NaN scores are not drawn." in picture.caption


def test_the_finest_bins_are_drawn_and_all_thresholds_kept():
    coarse = counted()
    coarse |= {"id": "coarse", "statistic": {"name": "ThresholdCounts", "threshold": 0.5}}
    coarse["estimator"] = {"use": "threshold", "label": "threshold", "params": {}}
    coarse["estimate"] = coarse["estimate"] | {"notes": []}
    coarse["counts"] = [[9, 1], [2, 8]]
    for cells in ([coarse, counted()], [counted(), coarse]):
        (found,) = histograms.find_histograms(as_record(made_records.record(cells)))
        assert len(found.edges) == len(EDGES)
        assert found.thresholds == (0.5, 1.25)


def test_decisions_are_no_scores(small):
    assert figures.kinds(small)["scores"] == "none of its cells counted scores in bins"
    cell = counted()  # decisions behind an estimator of scores: two edges, 0 and 1
    cell |= {"counts": [[0, 5, 3, 2], [0, 1, 3, 6]]}
    cell["statistic"] = {"name": "PilotGrid", "edges": [0.0, 1.0]}
    record = as_record(made_records.record([cell]))
    assert figures.kinds(record)["scores"] == "none of its cells counted scores in bins"


def test_edges_at_the_ends_of_float32_are_outer_bins():
    cell = counted(nan=0)
    cell["statistic"]["edges"] = [-3.4028235e38, *EDGES.tolist(), "inf"]
    rows = cell["counts"]
    cell["counts"] = [[row[0], 0, *row[1:-1]] for row in rows]
    (found,) = histograms.find_histograms(as_record(made_records.record([cell])))
    assert math.isfinite(found.edges[0])
    assert found.counts.sum() == sum(map(sum, rows))


def known(**changes):
    """Return the expected counts, in shares; a tenth of the scores on either side is NaN."""
    cell = counted(nan=0) | changes
    rows = np.array(cell["counts"], float)
    numbers = rows / rows.sum(axis=1, keepdims=True)
    cell["exact_shares"] = [[0.1, *(0.9 * row[1:])] for row in numbers]
    cell["counts"] = [[round(0.1 * sum(row)), *row[1:]] for row in cell["counts"]]
    return cell


def test_equal_edges_make_no_bar():
    edges = np.array([0.0, 1.0, 1.0, 1.0])
    counts = np.array([[0.0, 134.0, 0.0, 0.0, 66.0], [0.0, 50.0, 0.0, 0.0, 150.0]])
    places, density, _ = histograms._bars(histograms.HistogramPanel("two", edges, counts, (0, 0)))
    assert places.tolist() == [0.0, 1.0]
    assert density[:, 0] == pytest.approx([0.67, 0.25])


def test_exact_densities_are_dots_in_the_middle_of_their_bars():
    record = as_record(made_records.record([known()]))
    (ax,) = figures.draw(record, "scores").axes
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    for mean, line in enumerate(dots):
        x, y = line.get_data()
        assert y == pytest.approx(stats.norm.pdf(x - mean), abs=0.01)
    said = figures.draw(record, "scores").legends[0].get_texts()
    assert "exactly, on D′" in [text.get_text() for text in said]


def test_the_share_of_draws_below_a_score_counts_those_that_are_nan():
    """They stand last: of eleven draws ten are numbers, of exact shares nine tenths."""
    record = as_record(made_records.record([known()]))
    picture = figures.draw(record, "inverse-cdf")
    lines = [line.get_data() for line in picture.axes[0].lines]
    for (u, x), (mean, numbers) in zip(
        lines, [(0, 10 / 11), (0, 0.9), (1, 10 / 11), (1, 0.9)], strict=True
    ):
        assert u == pytest.approx(numbers * stats.norm.cdf(np.array(x) - mean), abs=1e-3)
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert said == ["D", "exactly, on D", "D′", "exactly, on D′", "NaN"]


def test_shares_of_another_shape_are_not_drawn():
    cell = known()
    cell["exact_shares"] = [[0.5, 0.5], [1.0]]
    (found,) = histograms.find_histograms(as_record(made_records.record([cell])))
    assert found.exact is None
