"""Figures that the density-estimation paper has: their numbers are those of the counts."""

from __future__ import annotations

import pytest
from support import made_records
from support.made_cells import asked

from dpframe.errors import DpframeError
from dpframe.report import figures
from dpframe.report.figures.points import Published
from dpframe.results.store import as_record


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


def test_what_is_claimed_of_one_release_is_not_beside_the_loss_of_many(steps):
    (ax,) = figures.draw(steps, "comparison").axes
    claims = [list(line.get_ydata()) for line in ax.lines if line.get_lw() == 1.6]
    assert claims == [[-0.5, 0.5], [1.5, 2.5]]
    rows = [text.get_text() for text in ax.get_yticklabels()]
    assert rows == ["order-statistics", "20 steps", "1 steps", "5 steps"]
