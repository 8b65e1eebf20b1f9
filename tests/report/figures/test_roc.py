"""Scores made elsewhere: each number where it belongs, and no bound where nothing is certified."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import dpframe
from dpframe.report.figures import draw_scores
from dpframe.report.figures.drawing import content
from dpframe.results.store import dumps
from dpframe.stats.gaussian import gaussian_epsilon

RNG = np.random.default_rng(3)
IN, OUT = RNG.normal(1.0, 1.0, 600), RNG.normal(0.0, 1.0, 500)


@pytest.fixture(scope="module")
def found():
    asked = ["order-statistics", "gdp-fit"]
    return dpframe.score(IN, OUT, claim=dpframe.PureDP(0.3), estimators=asked)


def lines(ax):
    """Points of each line, by how it is drawn."""
    return [np.array(line.get_xydata()) for line in ax.get_lines()]


def holds(ax, points):
    drawn = np.concatenate(lines(ax))
    return all(np.isclose(drawn, point, atol=1e-9).all(axis=1).any() for point in points)


def test_what_is_certified_claimed_and_counted_stands_where_it_belongs(found):
    left, right = draw_scores(found).axes
    rows = {row["estimator"]["label"]: row["estimate"] for row in found["rows"]}
    certified = [(x, y) for x, y in rows["order-statistics"]["tradeoff"] if x + y < 1]
    inner = min(certified, key=sum)
    assert holds(left, [inner, (0.0, 1.0)])
    assert holds(right, [(inner[0], 1 - inner[1])])
    counted = [point for point in found["scores"]["roc"] if 0.1 < point[0] < 0.2][:3]
    assert holds(left, [(x, 1 - y) for x, y in counted])
    assert holds(right, counted)
    growth = np.exp(0.3)
    claimed = min(lines(left), key=lambda xy: abs(np.interp(0.5, *xy.T) - 0.5 / growth))
    corner = 1 / (1 + growth)
    assert np.interp(corner, *claimed.T) == pytest.approx(corner, abs=2e-3)
    assert (right.get_xscale(), right.get_yscale()) == ("log", "log")
    assert (left.get_ylabel(), right.get_ylabel()) == ("false-negative rate", "true-positive rate")


def test_the_caption_says_what_is_certified_and_what_is_not(found):
    assert "each estimator alone with 95 % confidence" in draw_scores(found).caption
    rows = [row for row in found["rows"] if not row["estimate"]["certified"]]
    picture = draw_scores(found | {"rows": rows})
    assert "Estimates only: nothing here is certified." in picture.caption
    shown = [text.get_text() for text in picture.legends[0].get_texts()]
    assert shown == ["claimed", "these scores, no bound"]
    assert "600 scores with the record, 500 without" in picture.caption
    for one in (picture, draw_scores(found)):
        assert "may show more" in one.caption
        assert "private" not in one.caption


@pytest.mark.parametrize("refuted", [None, True, False])
def test_only_a_claim_that_was_not_refuted_is_said_to_have_no_violation(found, refuted):
    caption = draw_scores(found | {"refuted": refuted}).caption
    assert ("No violation found" in caption) == (refuted is False)


def test_canaries_of_one_run_certify_no_point_of_a_curve():
    members = RNG.random(300) < 0.5
    found = dpframe.score_one_run(RNG.normal(size=300) + members, members, estimators=["one-run"])
    picture = dpframe.plot(found)
    assert "No point of the curve is certified" in picture.caption
    assert f"300 canaries of one run, {members.sum()} of them in" in picture.caption


MEMBERS = np.random.default_rng(0).random(300) < 0.5
SCORES = np.random.default_rng(1).normal(size=300) + 4 * MEMBERS


def of_canaries(**asked):
    asked = {"delta": [1e-6, 1e-4, 1e-2], "lower_is_member": False, **asked}
    return dpframe.score_one_run(SCORES, MEMBERS, **asked)


def legend(picture):
    return [text.get_text() for text in picture.legends[0].get_texts()]


def test_bounds_of_canaries_are_drawn_over_delta_and_those_under_independence_beside_them():
    found = of_canaries(claim=dpframe.GaussianDP(1.0), estimators=["one-run"])
    picture = draw_scores(found)
    ax = picture.axes[2]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("δ", "bound on ε", "log")
    steps, marks, gaussian, claimed = lines(ax)
    bounds = [(b["delta"], b["epsilon_lower"]) for b in found["rows"][0]["bounds"]]
    assert marks.tolist() == [list(point) for point in bounds]
    # A bound at δ is one at every smaller δ.
    assert steps[1:, 1].tolist() == [max(e for _, e in bounds[k:]) for k in range(3)]
    assert ax.get_lines()[0].get_drawstyle() == "steps-pre"
    for own in found["independent"]["epsilon"]:
        at = np.interp(np.log(own["delta"]), np.log(gaussian[:, 0]), gaussian[:, 1])
        assert at == pytest.approx(own["epsilon"], rel=1e-2)
    assert claimed[0, 1] == pytest.approx(gaussian_epsilon(claimed[0, 0], 1.0))
    shown = legend(picture)
    assert "one-run: any mechanism, any dependence" in shown
    assert "Gaussian mechanism, independent scores" in shown
    assert "has a confidence of its own" in picture.caption


def test_assumptions_of_bounds_over_delta_are_named():
    found = of_canaries()
    found["independent"]["supported"] = False
    assert "Gaussian mechanism, independent scores (not supported)" in legend(draw_scores(found))
    shown = legend(draw_scores(of_canaries(assume="independent")))
    assert "one-run-independent" in shown
    assert not any("any mechanism" in name for name in shown)


def test_bounds_at_delta_0_have_no_place_on_its_axis():
    assert len(draw_scores(of_canaries(delta=0.0)).axes) == 2
    claim = dpframe.ApproxDP(2.0, 1e-3)
    picture = draw_scores(of_canaries(delta=[0.0, 1e-3], claim=claim, estimators=["one-run"]))
    steps, marks, _, point = lines(picture.axes[2])
    assert len(marks) == 1
    assert len(steps) == 2
    assert point.tolist() == [[1e-3, 2.0]]


@pytest.mark.slow
def test_the_same_from_json_gives_the_same_bytes(found, tmp_path):
    (tmp_path / "s.json").write_text(dumps(found))
    drawn = [content(picture, "svg") for picture in (dpframe.plot(found), draw_scores(found))]
    again = content(dpframe.plot(tmp_path / "s.json"), "svg")
    assert drawn[0] == drawn[1] == again


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.pop("scores"), "not a complete output of dpframe score"),
        (lambda found: found.update(rows=7), "not a complete output of dpframe score"),
        (lambda found: found["scores"].update(roc=[[1]]), "not a complete output of dpframe score"),
        (lambda found: found.update(kind="comparison"), "the output of another command"),
    ],
)
def test_what_is_no_answer(found, change, message):
    altered = json.loads(dumps(found))
    change(altered)
    with pytest.raises(dpframe.DpframeError, match=message):
        dpframe.plot(altered)


def test_what_is_chosen_of_records_is_not_of_scores(found):
    with pytest.raises(dpframe.DpframeError, match="drawn as roc, not as sweep"):
        dpframe.plot(found, "sweep")
    with pytest.raises(dpframe.DpframeError, match="only for a record"):
        dpframe.plot(found, where={"mechanism": "x"})
