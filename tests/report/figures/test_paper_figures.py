"""Figures that the density-estimation paper has: their numbers are those of the counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from support import made_records
from support.made_cells import EDGES, asked

from dpframe.claims import GaussianDP
from dpframe.record.claim import claim_record
from dpframe.record.file import as_record
from dpframe.report import figures
from dpframe.report.figures import best_order, threshold_curve, total_variation


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
    (cuts,) = threshold_curve._curves(record).values()
    assert [cut.threshold for cut in cuts] == [-0.5, 0.5, 1.5]
    assert [cut.mu for cut in cuts] == pytest.approx([1, 1, 1], abs=1e-4)
    assert [cut.low for cut in cuts] == pytest.approx([0.9] * 3)
    assert [cut.high for cut in cuts] == pytest.approx([1.1] * 3)
    picture = figures.draw(record, "threshold-curve")
    assert "nothing here is a bound for other noise" in picture.caption
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert said == ["estimate, no bound", "interval if the noise is Gaussian", "claimed"]


def test_the_distance_of_two_histograms_is_half_of_what_they_differ_by():
    fine = np.linspace(-4, 5, 91)  # one edge is ½, where the densities cross
    cells = [
        gaussian("histogram", edges=edges, **{"estimator.bins": len(edges) + 1})
        for edges in ([0.5, 9.0], fine.tolist())
    ]
    record = as_record(made_records.record(cells))
    ((points),) = total_variation._distances(record).values()
    exact = 2 * stats.norm.cdf(0.5) - 1
    assert [points[b][0] for b in (3, 92)] == pytest.approx([exact, exact], abs=1e-4)
    assert total_variation._claims(record)["laplace"] == pytest.approx(exact)
    assert "an estimate and no bound" in figures.draw(record, "total-variation").caption


def test_the_spread_of_sigma_is_that_of_the_replicates():
    rng = np.random.default_rng(7)
    cells = [gaussian("tv-parameter", repeat=r, n=100_000, rng=rng) for r in range(40)]
    record = as_record(made_records.record(cells))
    (found,) = best_order._replicates(record).values()
    # The page on the paper: 0.0059 and 0.0062 from binomial errors, at α = 1 and at e^½.
    assert best_order._spread(found, 1.0) == pytest.approx(0.0059, rel=0.35)
    assert best_order._spread(found, 1.6487) == pytest.approx(0.0062, rel=0.35)
    assert figures.kinds(record)["best-order"] is None
    few = record.model_copy(update={"cells": record.cells[:7]})
    assert "8 repeats or more" in figures.kinds(few)["best-order"]
