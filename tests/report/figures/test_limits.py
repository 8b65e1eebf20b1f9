"""Figures of slack and of power show the numbers that they are made of."""

import re

import pytest
from support import ROOT, made_records
from support.html_pages import Page

from dpframe.errors import DpframeError
from dpframe.report import figures, html
from dpframe.report.figures import comparison, drawing
from dpframe.results.store import as_record

STYLE = ROOT / "dpframe" / "report" / "templates" / "style.css"


def with_slack(lower, **parts):
    cell = made_records.cell("laplace", 2.0)
    cell["estimate"]["epsilon_lower"] = lower
    names = ("pair", "attack", "sampling", "confidence", "cells", "looks", "resolution")
    return cell | {"slack": dict.fromkeys(names, 0.0) | {"limit": None} | parts}


def test_bars_of_slack_add_up_to_the_claim_and_look_as_on_the_page():
    cells = [
        with_slack(1.0, pair=0.5, sampling=-0.1, confidence=0.6),
        with_slack(2.5, pair=None, attack=None, sampling=-0.7, confidence=0.2),
    ]
    record = as_record(made_records.record(cells[:1]))
    both = [comparison._bar(made_records.typed(cell), "") for cell in cells]
    assert [sum(bar.parts.values()) for bar in both] == pytest.approx([1.0, 1.0], abs=1e-12)
    assert [bar.partial for bar in both] == [False, True]
    (ax,) = figures.draw(record, "slack").axes
    drawn = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    expected = [(0.0, 0.5), (0.5, 0.25), (0.0, -0.05), (0.75, 0.3)]
    assert drawn == [pytest.approx(one) for one in expected]
    style = STYLE.read_text(encoding="utf-8")
    page = dict(re.findall(r"\.bar \.part-(\w+) { background: (#\w+)", style))
    assert page == {name: color for name, (color, _) in drawing.PARTS.items() if name in page}
    assert [*page] == list(drawing.PARTS)[1:]
    assert "slack" in figures.kinds(as_record(made_records.record([made_records.cell()])))["slack"]


def test_power_is_drawn_against_trials_and_a_plan_without_a_curve_is_refused():
    row = {"label": "laplace", "claimed": 1.0, "trials": 20, "probability": 0.8, "model": "noise"}
    curve = {1.5: [(10, 0.1), (20, 0.2)], 2.0: [(10, 0.3), (20, 0.9)]}
    rows = [row | {"by_trials": curve}, row | {"by_trials": {}}]
    picture = figures.draw_power({"name": "small", "power": rows})
    (ax,) = picture.axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert lines[:2] == [([10, 20], [0.1, 0.2]), ([10, 20], [0.3, 0.9])]
    assert lines[2][0] == [20, 20]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["10", "20"]
    said = [text.get_text() for text in picture.legends[0].get_texts()]
    assert said == ["true loss 1.5 × claimed", "true loss 2 × claimed", "planned trials"]
    assert "1 more claim is left out" in picture.caption
    with pytest.raises(DpframeError, match="no claim of this plan"):
        figures.draw_power({"name": "small", "power": rows[1:]})


def test_the_page_of_a_plan_has_the_table_and_the_curve_and_fetches_nothing():
    shown = {"cells": 2, "delta": 0.0, "unit": "trials", "epsilon": 1.25, "curve": {1.5: 0.1234}}
    row = {"label": "lap<b>lace", "claimed": 1.0, "trials": 20, "probability": 0.8, **shown}
    drawn = {1.5: [(10, 0.1), (20, 0.2)]}
    row |= {"model": "noise", "against": 2.0, "needed": 321, "by_trials": drawn}
    plan = {"name": "sm<i>all", "power": [row], "without_power": [{"reason": "odd", "cells": 3}]}
    numbers = ("cells", "m", "repeats", "draw_groups", "searches", "draws", "calls", "memory_bytes")
    plan |= dict.fromkeys(numbers, 2) | {"seconds": None, "level": 0.01, "confidence": 0.95}
    text = html.power(plan | {"multiplicity": "holm"})
    page = Page(text)
    assert page.problems == []
    assert page.tags["table"] == page.tags["svg"] == 1
    for said in ("lap<b>lace ×2", "ε ≥ 1.25", "0.12", "321", "3 cells: odd", "Power of sm<i>all"):
        assert said in page.text
    assert "true loss 1.5 × claimed" in page.text
    assert "<title>Plan of an audit: Power of sm&lt;i&gt;all" in text
    assert not page.tags["b"] + page.tags["script"] + page.tags["img"]
    assert not re.search(r"(?:href|src)=.http|@import|url\(http", text)
    without = Page(html.power(plan | {"multiplicity": "holm", "power": []}))
    assert "No figure: no claim of this plan" in without.text
