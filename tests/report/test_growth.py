"""The growth of evidence in the terminal: read from the record, and from nothing else."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

import dpframe
from dpframe.report.evidence import needed
from dpframe.report.terminal.render import render
from dpframe.results.consistency import disagreement
from dpframe.results.model import Record
from dpframe.results.store import as_record


@pytest.fixture(scope="module")
def found(coarse_bounds_of_module: None) -> Record:
    return dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "growth", "trials": 3000, "confidence": 0.9},
            "pair": {"use": "zeros-ones"},
            "mechanism": [
                {"use": name, "params": {"epsilon": 1.0}} for name in ("laplace", "copy-input")
            ],
            "attack": [{"use": "majority-vote"}],
            "estimator": [{"use": "betting"}, {"use": "precision"}],
            "run": {"chunk": 256, "stop": "decided"},
        }
    )


def shown(record: Record, width: int = 80, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, legacy_windows=False)
    render(record, console)
    file.flush()
    return file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined, no-any-return]


def test_wealth_is_in_the_record_and_survives_its_file(found: Record) -> None:
    right, _, wrong, _ = found.cells
    for cell in (right, wrong):
        assert cell.estimate is not None
        assert cell.estimate.anytime
        assert cell.looks is None
        assert [n for n, _ in cell.estimate.wealth][-1] == cell.trials[0]
        assert len(cell.estimate.wealth) <= 200
        best = max(y for _, y in cell.estimate.wealth)
        assert cell.p_value == pytest.approx(math.exp(-max(0.0, best)))
    assert wrong.verdict == "violated"
    assert wrong.trials[0] < 3000
    for cell in found.cells[1::2]:
        assert cell.estimate is not None
        assert not cell.estimate.anytime
        assert cell.estimate.wealth == []
        assert cell.looks is not None
        assert len(cell.looks) == 1
    assert as_record(found.as_json()) == found


def test_looks_of_what_has_none_are_noticed(found: Record) -> None:
    assert disagreement(found, found.as_json()) is None
    contents: Any = found.as_json()
    contents["cells"][0]["looks"] = [{"trials": contents["cells"][0]["trials"]}]
    said = disagreement(Record.model_validate(contents), contents)
    assert said is not None
    assert "an anytime estimator has no looks" in said


def test_the_level_is_the_share_of_the_error(found: Record) -> None:
    assert needed(found) == pytest.approx(math.log(4 / 0.1))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [40, 80, 140])
def test_growth_is_drawn(found: Record, width: int, encoding: str) -> None:
    text = shown(found, width, encoding)
    assert "Growth of the evidence" in text
    assert "ln W" in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    level = f"{needed(found):.3g}"
    assert f"Dotted: {level}" in " ".join(text.split())
    start = next(n for n, line in enumerate(lines) if "Growth" in line)
    drawn = "\n".join(lines[start:])
    assert "copy-input" in drawn
    assert ("·····" if encoding == "utf-8" else ":::::") in drawn


def test_nothing_is_drawn_where_nothing_was_bet(found: Record) -> None:
    contents: Any = found.as_json()
    assert "Growth" in shown(found)
    for cell in contents["cells"]:
        cell["estimate"]["wealth"] = []
    contents["digest"] = None
    assert "Growth" not in shown(Record.model_validate(contents))


def test_a_title_that_is_too_wide_is_cut_in_the_letters_of_the_console(found: Record) -> None:
    for encoding, dots in (("utf-8", "…"), ("ascii", "...")):
        text = shown(found, 20, encoding)
        assert dots in text
        assert max(map(len, text.splitlines())) <= 20
