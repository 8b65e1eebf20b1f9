"""Trade-off curves and privacy profiles: what is drawn is what was recorded, and no more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import made_records

from dpframe.claims import GaussianDP, LaplaceDP, PureDP
from dpframe.report import figures
from dpframe.report.figures import curves
from dpframe.report.figures.drawing import CLAIMED
from dpframe.results.build import claim_record
from dpframe.results.store import as_record
from dpframe.stats.tradeoff import certified_profile

BOXES = ((0.1, 0.6), (0.3, 0.2))


def gaussian(use="order-statistics", delta=1e-5, **estimate):
    """A cell with curves: a Gaussian claim, the certified boxes, an estimated profile."""
    cell = made_records.cell(epsilon=4.0, m=2)
    claim = claim_record(GaussianDP(1.0), delta)
    cell["claim"] = claim.model_dump()
    cell["estimator"] = {"use": use, "label": use, "params": {}}
    cell["estimate"] |= {
        "delta": delta,
        "tradeoff": [list(box) for box in BOXES],
        "profile": [[0.0, 0.5], [1.0, 0.1], [2.0, 0.01]],
        "profile_lower": [list(p) for p in certified_profile(np.array(BOXES))],
    }
    cell["estimate"] |= estimate
    return cell | {"id": use, "swept": {}}


@pytest.fixture(scope="module")
def record():
    loose = gaussian(
        "gdp", epsilon=GaussianDP(1.5).epsilon_at(1e-5), certified=False, epsilon_lower=None
    )
    # Points of an estimated curve, which are no bound.
    loose["estimate"] |= {"profile": [], "profile_lower": []}
    loose |= {"verdict": None, "p_value": None, "p_adjusted": None}
    return as_record(made_records.record([gaussian(), loose], m=1))


def test_the_claimed_profile_is_drawn_where_it_is(record):
    epsilons = np.linspace(0, 4, 50)
    found = curves.references(record.cells[0])[CLAIMED].profile(epsilons)
    exact = [GaussianDP(1.0).delta_at(e) for e in epsilons]
    assert found == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("claim", [PureDP(1.0), LaplaceDP(1.0)])
def test_pure_claims_and_exact_curves_end_at_their_epsilon(claim):
    cell = gaussian()
    cell["claim"] = claim_record(claim, 0.0).model_dump()
    cell["truth"] = None
    (read,) = as_record(made_records.record([cell])).cells
    epsilons = np.linspace(0, 1, 20)
    exact = [claim.delta_at(e) for e in epsilons]
    claimed = curves.references(read)[CLAIMED]
    assert claimed.profile(epsilons)[:-1] == pytest.approx(exact[:-1], rel=0.1)
    assert np.nan_to_num(claimed.profile(np.array([1.01, 2.0]))).max() < 1e-9
    assert claimed.tradeoff(np.array([0.1])) == pytest.approx(1 - math.e * 0.1, abs=1e-3)


def test_the_certified_profile_is_never_above_what_the_boxes_say(record):
    epsilons = np.linspace(0, 3, 400)
    found = curves.certified_profile(record.cells[0], epsilons)
    exact = [
        max(0, *(max(1 - y - g * x, 1 - x - g * y) for x, y in BOXES)) for g in np.exp(epsilons)
    ]
    assert (found <= np.array(exact) + 1e-12).all()
    assert found[0] == pytest.approx(exact[0])
    only_written = record.cells[0].model_copy(
        update={"estimate": record.cells[0].estimate.model_copy(update={"tradeoff": []})}
    )
    stepped = curves.certified_profile(only_written, epsilons)
    assert (stepped <= np.array(exact) + 1e-12).all()
    assert stepped[0] > 0.99 * exact[0]


def test_what_is_not_certified_has_no_certified_curve(record):
    loose = record.cells[1]
    assert curves.certified_points(loose) == []
    assert curves.certified_profile(loose, np.linspace(0, 1, 5)) is None


def test_gdp_is_drawn_as_the_gaussian_that_it_means(record):
    assert curves.gaussian_mu(record.cells[1]) == pytest.approx(1.5, rel=1e-6)
    assert curves.gaussian_mu(record.cells[0]) is None
    fnr = curves.estimated_curve(record.cells[1], np.array([0.05]))
    assert fnr == pytest.approx(GaussianDP(1.5).tradeoff(np.array([0.05])))


@pytest.mark.parametrize("kind", ["trade-off", "profile"])
def test_the_legend_tells_bounds_from_estimates(record, kind):
    said = [text.get_text() for text in figures.draw(record, kind).legends[0].get_texts()]
    assert "claimed" in said
    assert "estimate, no bound" in said
    assert any(text.startswith("certified: at least") for text in said)
    alone = record.model_copy(update={"cells": record.cells[1:]})
    said = [text.get_text() for text in figures.draw(alone, kind).legends[0].get_texts()]
    assert not any("certified" in text for text in said)


@pytest.mark.slow
def test_of_many_settings_that_of_each_mechanism_is_drawn_that_shows_most(small):
    picture = figures.draw(small, "trade-off")
    assert "14 more settings are left out." in picture.caption
    titles = [ax.get_title(loc="left") for ax in picture.axes if ax.get_title(loc="left")]
    found = [title.split(" · ")[0] for title in titles]
    assert found == ["laplace", "adept", "DPText, NaN to zero", "DPText, NaN to zero"]
    several = figures.draw(small, "profile")
    names = [ax.get_title(loc="left").split(" · ")[0] for ax in several.axes]
    assert [names.count(name) for name in dict.fromkeys(names)] == [2, 2, 2]


def fits(count=3, certified=False):
    """Gaussian curves fitted over several ranges, μ = 1, 2, …"""
    cells = []
    for mu in range(1, count + 1):
        epsilon = GaussianDP(float(mu)).epsilon_at(1e-5)
        cell = gaussian("gdp-fit", epsilon=epsilon, certified=certified)
        if not certified:
            cell["estimate"] |= {"epsilon_lower": None, "profile_lower": [], "tradeoff": []}
            cell |= {"verdict": None, "p_value": None, "p_adjusted": None}
        cell["swept"] = {"estimator.epsilon_max": float(mu)}
        cells.append(cell | {"id": str(mu)})
    return as_record(made_records.record(cells, m=count if certified else 0))


def test_every_fit_has_a_line_if_none_of_them_is_a_bound():
    (subject,) = curves.subjects(fits())
    assert subject.names == tuple(f"gdp-fit · epsilon max {mu}" for mu in (1, 2, 3))
    assert [curves.gaussian_mu(cell) for cell in subject.cells] == pytest.approx([1, 2, 3])
    (ax,) = figures.draw(fits(), "profile").axes
    dotted = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    for mu, line in enumerate(dotted, 1):
        x, y = line.get_data()
        seen = y > 1e-6
        exact = [GaussianDP(float(mu)).delta_at(e) for e in x[seen]]
        assert y[seen] == pytest.approx(exact, rel=1e-6)
    assert len(dotted) == 3


@pytest.mark.parametrize(("count", "certified"), [(3, True), (9, False)])
def test_of_many_lines_or_of_bounds_one_is_drawn(count, certified):
    (subject,) = curves.subjects(fits(count, certified))
    assert subject.names == ("gdp-fit",)
