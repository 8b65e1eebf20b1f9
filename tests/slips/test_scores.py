"""Mistakes that people make with score files end in a message, and never in a verdict."""

from __future__ import annotations

import csv
import io
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import SPECS, made_records
from typer.testing import CliRunner

import dpframe
from dpframe.cli import app
from dpframe.results.store import as_record

pytestmark = pytest.mark.usefixtures("coarse_bounds")


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [*map(str, words)])


# Commands in reports.


def test_the_command_for_the_power_runs_as_it_is_printed() -> None:
    spec = SPECS / "quick.toml"
    words = ("run", spec, "--trials", 2000, "--set", "mechanism.epsilon=0.5", "--out", "o")
    done = invoke(*words, "--set", "pair.dim=1", "--quiet")
    (command,) = re.findall(r"Its power: dpframe (.*)", done.stdout)
    assert str(spec) in command
    again = invoke(*shlex.split(command), "--no-rehearsal")
    assert again.exit_code == 0, again.output
    assert "detected" in again.stdout


# CSV files that dpframe writes.

FORMULAS = ["\n=1+1", " \n+1", " =1", "\u00a0-1", "\n\n=1", "\ufeff=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_begins_like_a_formula(text: str) -> None:
    cell = made_records.cell()
    cell["mechanism"]["label"] = text
    dpframe.report(as_record(made_records.record([cell])), "r.csv")
    found = dpframe.score(np.arange(40.0) ** 2, np.arange(40.0), estimators=["order-statistics"])
    found["rows"][0]["estimator"]["label"] = text
    dpframe.report(found, "s.csv")
    for name, column in (("r.csv", "mechanism"), ("s.csv", "estimator")):
        written = io.StringIO(Path(name).read_bytes().decode(), newline="")
        assert next(csv.DictReader(written))[column].startswith("'")
