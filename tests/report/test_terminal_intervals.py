"""Limits that certify nothing, notes, and swept keys of the same name."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from support import made_records

from dpframe.report.group import short
from dpframe.report.terminal.render import render, render_notes
from dpframe.results.model import Record
from dpframe.results.store import as_record


def record(**estimate: Any) -> Record:
    swept = {"mechanism.q": 0.5, "estimator.q": 0.25}
    cell = made_records.estimate_only(swept=swept, trials=100)
    cell["estimate"] |= {
        "epsilon": 3.5,
        "interval": [3.25, "inf"],
        "notes": ["assumes Gaussian scores"],
        **estimate,
    }
    return as_record(made_records.record([cell], m=0))


def shown(what: Any, found: Record) -> str:
    out = io.StringIO()
    what(found, Console(file=out, width=120, color_system=None))
    return out.getvalue()


def test_an_interval_stands_in_parentheses_and_is_no_bound() -> None:
    text = shown(render, record())
    assert "(3.25 – ∞)" in text
    assert "(interval)" in text
    assert " certified " not in text.partition("mechanism")[2].partition("laplace   ")[0]
    assert "nothing is certified" in text
    assert "≥" not in text


def test_a_certified_bound_leaves_no_room_for_an_interval() -> None:
    text = shown(render, record(epsilon_lower=3.0, certified=True))
    assert "≥ 3.00" in text
    assert "(3.25" not in text


def test_notes_are_shown_on_demand() -> None:
    text = shown(render_notes, record())
    assert "assumes Gaussian scores" in text
    assert "mechanism.q 0.5" in text
    assert "estimator.q 0.25" in text
    assert "assumes Gaussian scores" not in shown(render, record())


def test_keys_of_the_same_name_are_told_apart() -> None:
    assert short("mechanism.q", ["mechanism.q", "estimator.q"]) == "mechanism.q"
    assert short("mechanism.q", ["mechanism.q", "pair.dim"]) == "q"
    assert short("mechanism.epsilon") == "ε"
