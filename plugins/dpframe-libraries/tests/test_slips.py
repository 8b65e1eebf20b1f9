"""Accountants: what the default grid finds, and how much of it was asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpframe_libraries.accountants import asking
from dpframe_libraries.accountants.command import app
from typer.testing import CliRunner

ADVANCED = '''
import math

def composed(question, second):
    """Advanced composition of pure ε, with or without its second term."""
    (step,) = question["steps"]
    response = step["noise"] == "randomized-response"
    known = response or step["noise"] in ("laplace", "discrete-laplace")
    relation = "replace" if response else "add-remove"
    if not known or step["sampling"] != "none" or question["relation"] != relation:
        raise NotImplementedError("pure ε alone")
    k, e = step["count"], step["scale"] if response else 1 / step["scale"]
    rest = k * e * math.expm1(e) if second else 0
    return [min(k * e, math.sqrt(2 * k * math.log(1 / d)) * e + rest) for d in question["deltas"]]

VERSION = "1.0"
ACCOUNTANTS = {
    "advanced": (lambda q: composed(q, True), "upper", "add-remove; pure ε"),
    "first-term": (lambda q: composed(q, False), "upper", "add-remove; pure ε"),
}
'''
FEW = """
deltas = [1e-3, 1e-5]

[[composition]]
noise = "laplace"
scale = 1.0
count = [1, 3]

[[composition]]
noise = "gaussian"
scale = [1.0, 2.0, 3.0]
"""


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(asking, "ADAPTERS", ())
    file = tmp_path / "mine.py"
    file.write_text(ADVANCED, encoding="utf-8")
    return file


def test_the_first_line_says_how_much_was_asked(adapter: Path, tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(FEW)
    words = ["--grid", str(tmp_path / "few.toml"), "--adapter", str(adapter)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    line = "advanced 1.0: 4 of 10 asked; first-term 1.0: 4 of 10 asked"
    assert done.stdout.startswith(f"{line}\n")


@pytest.mark.slow
def test_the_default_grid_finds_a_composition_without_its_second_term(adapter: Path) -> None:
    done = CliRunner().invoke(app, ["--adapter", str(adapter)])
    assert done.exit_code == 1
    assert "first-term 1.0: below the true ε at" in done.output
    assert "\nadvanced 1.0: below" not in done.output
