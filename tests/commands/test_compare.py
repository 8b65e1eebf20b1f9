"""`dpframe compare`: the numbers of the audit, side by side, and no bound where there is none."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console
from support.known_truths import KNOWN, spec

import dpframe
from dpframe import DpframeError, GaussianDP
from dpframe.report.calibration import comparison_parts
from dpframe.report.number_format import lower
from dpframe.report.terminal.text import show_parts
from dpframe.results.store import dumps

SMALL = {"fit": 500, "pilot": 300}

BESIDE = spec(
    audit={"trials": 2000, "multiplicity": "holm", "delta": 1e-5},
    mechanism=[{"use": "shifted"}, {"use": "unknown"}],
    attack=[{"use": "first"}, {"use": "centred"}, {"use": "beyond"}],
    estimator=[
        {"use": "guess"},
        {"use": "precision"},
        {"use": "greedy", "params": {"pays": True}},
        {"use": "breaks"},
    ],
    run=SMALL,
    sweep={"mechanism.mu": [1.0, 2.0]},
)


@pytest.fixture(scope="module")
def beside() -> dict[str, Any]:
    document = {**BESIDE, "mechanism": [{"use": "shifted"}]}
    found: dict[str, Any] = dpframe.compare(document, plugins=KNOWN)
    return found


def line(found: dict[str, Any], attack: str, estimator: str, mu: float = 1.0) -> dict[str, Any]:
    (row,) = [
        row
        for row in found["rows"]
        if (row["attack"]["use"], row["estimator"]["use"]) == (attack, estimator)
        and row["swept"].get("mechanism.mu", mu) == mu
    ]
    return row


def test_bounds_are_those_of_an_audit_without_adjustment(beside: dict[str, Any]) -> None:
    document = {**BESIDE, "mechanism": [{"use": "shifted"}]}
    record = dpframe.audit(document, overrides=['audit.multiplicity="none"'], plugins=KNOWN)
    bounds = [cell["estimate"] and cell["estimate"]["epsilon_lower"] for cell in record["cells"]]
    assert [row["epsilon_lower"] for row in beside["rows"]] == bounds
    assert {row["confidence"] for row in beside["rows"]} == {0.95}
    assert beside["audit"]["multiplicity"] == "none"
    assert json.loads(dumps(beside))["kind"] == "comparison"


def test_the_share_of_the_truth(beside: dict[str, Any]) -> None:
    for mu in (1.0, 2.0):
        row = line(beside, "first", "greedy", mu)
        truth = GaussianDP(mu).epsilon_at(1e-5)
        assert row["truth"] == {"kind": "gaussian-dp", "epsilon": truth}
        assert 0.1 < row["share"] < 1
        assert row["share"] == pytest.approx(row["epsilon_lower"] / truth)
    found = dpframe.compare(
        {**BESIDE, "mechanism": [{"use": "unknown"}], "sweep": {}}, plugins=KNOWN
    )
    row = line(found, "first", "greedy")
    assert row["truth"] is row["share"] is None


def test_draws_are_all_draws(beside: dict[str, Any]) -> None:
    assert line(beside, "beyond", "precision")["draws"] == {
        "fit": 0, "pilot": 0, "eval": 4000, "total": 4000,
    }  # fmt: skip
    assert line(beside, "first", "greedy")["draws"]["total"] == 4000 + 600
    assert line(beside, "centred", "greedy")["draws"] == {
        "fit": 1000, "pilot": 600, "eval": 4000, "total": 5600,
    }  # fmt: skip


def test_what_certifies_nothing_has_no_bound(beside: dict[str, Any]) -> None:
    row = line(beside, "first", "guess")
    assert row["certified"] is False
    assert row["epsilon_lower"] is row["share"] is None
    assert (row["epsilon"], row["interval"]) == (1.0, [0.5, 2.0])
    assert row["assumption"] == "that ε is about 1"


def test_a_failure_is_a_line(beside: dict[str, Any]) -> None:
    row = line(beside, "first", "breaks")
    assert (row["status"], row["repeats"]) == ("failed", 0)
    assert "broken inside" in row["reason"]


@pytest.mark.slow
def test_repeats_are_averaged() -> None:
    document = spec(audit={"repeats": 4, "trials": 500})
    found = dpframe.compare(document, plugins=KNOWN)
    cells = dpframe.audit(
        document, overrides=['audit.multiplicity="none"'], plugins=KNOWN
    )["cells"]  # fmt: skip
    (row,) = found["rows"]
    bounds = [cell["estimate"]["epsilon_lower"] for cell in cells]
    assert row["epsilon_lower"] == pytest.approx(sum(bounds) / 4)
    assert row["repeats"] == 4
    assert row["deviation"] > 0
    file = io.StringIO()
    show_parts(Console(file=file, width=120), comparison_parts(found))
    assert f"⌀ {lower(row['epsilon_lower'])}" in file.getvalue()
    assert "≥" not in file.getvalue()


def test_options_reach_the_audit() -> None:
    found = dpframe.compare(
        spec(), trials=77, seed=9, overrides=["audit.multiplicity=holm"], plugins=KNOWN
    )
    assert found["rows"][0]["trials"] == [77, 77]
    assert (found["seed"], found["audit"]["multiplicity"]) == (9, "none")
    with pytest.raises(DpframeError, match="trials"):
        dpframe.compare(spec(), trials=0, plugins=KNOWN)


def test_the_report(beside: dict[str, Any]) -> None:
    file = io.StringIO()
    show_parts(Console(file=file, width=100, _environ={}), comparison_parts(beside))
    text = file.getvalue()
    lines = text.splitlines()
    assert all(len(one) <= 100 for one in lines)
    first = next(n for n, one in enumerate(lines) if one.startswith("shifted · mu 1 · true ε 4.38"))
    second = next(n for n, one in enumerate(lines) if one.startswith("shifted · mu 2"))
    table = lines[first:second]
    where = {
        name: next(n for n, one in enumerate(table) if name in one)
        for name in ("first · greedy", "beyond · precision", "guess")
    }
    # Bounds first, the best on top, then what is none.
    assert list(where.values()) == sorted(where.values())
    assert "≥" in table[where["first · greedy"]]
    assert "no bound" in table[where["guess"]]
    assert not any("≥" in one for one in table[where["guess"] :])
    assert "multiplicity none" in text
    assert text.count("assumes that ε is about 1") == 1
    assert "breaks: failed" in text
    assert "– left out, 2 cells: beyond gives a decision, guess takes a score" in text
