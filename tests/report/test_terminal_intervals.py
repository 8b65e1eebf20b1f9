"""Limits that certify nothing, notes, and swept keys of the same name."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from dpframe.report.terminal.grid import short
from dpframe.report.terminal.render import render, render_notes


def record(**estimate: Any) -> dict[str, Any]:
    cell = {
        "id": "a",
        "status": "ok",
        "mechanism": {"use": "m", "label": "m", "params": {}},
        "pair": {"use": "p", "params": {}},
        "attack": {"use": "a", "label": "a", "params": {}},
        "estimator": {"use": "e", "label": "e", "params": {}},
        "swept": {"mechanism.q": 0.5, "estimator.q": 0.25},
        "claim": {"kind": "gaussian-dp", "epsilon": 4.0, "delta": 1e-5},
        "trials": [100, 100],
        "estimate": {
            "epsilon": 3.5,
            "epsilon_lower": None,
            "epsilon_upper": None,
            "interval": [3.25, "inf"],
            "delta": 1e-5,
            "confidence": 0.95,
            "certified": False,
            "notes": ["assumes Gaussian scores"],
            **estimate,
        },
        "verdict": None,
    }
    return {"schema": 1, "cells": [cell], "summary": {"m": 0}}


def shown(what: Any, found: dict[str, Any]) -> str:
    out = io.StringIO()
    what(found, Console(file=out, width=120, color_system=None))
    return out.getvalue()


def test_an_interval_stands_in_parentheses_and_is_no_bound() -> None:
    text = shown(render, record())
    assert "(3.25 – ∞)" in text
    assert "(interval)" in text
    assert " certified " not in text.partition("mechanism")[2].partition("m   ")[0]
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
