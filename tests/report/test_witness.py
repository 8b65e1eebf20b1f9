"""The evidence against a claim, as a spec and as a test that anybody can run."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import tomli
from support import made_records
from support.searches import Three, spec

import dpframe
from dpframe.errors import DpframeError
from dpframe.report import witness
from dpframe.report.findings import Kind, caveats, of
from dpframe.results.model import ChoiceRecord, Record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def record(coarse_bounds_of_module: None) -> Record:
    return dpframe.audit(spec("laplace", "laplace-half-scale", trials=6_000), plugins=[Three])


def test_a_report_as_json_is_the_record(record: Record, tmp_path: Path) -> None:
    dpframe.report(record, tmp_path / "kept.json")
    assert dpframe.load(tmp_path / "kept.json").as_json() == record.as_json()


def test_the_witness_is_a_spec_of_its_own(record: Record) -> None:
    cell = witness.witness_of(record)
    assert cell.mechanism.label == "laplace-half-scale"
    text = witness.as_toml(cell)
    tables = tomli.loads(text)
    assert tables == witness.as_tables(cell)
    assert tables["audit"]["seed"] != cell.seed  # the draws that chose the pair do not confirm it
    (again,) = dpframe.audit(tables).cells
    assert (again.verdict, again.expected) == ("violated", "violated")
    assert again.pair.params == cell.pair.params
    assert text.startswith("# laplace-half-scale: violated.")


CERTIFIED = "loss certified above|certified error rates lie below the claimed curve"
"""The bound of a search may stay below a claim that its bets refute."""


@pytest.mark.slow
def test_the_witness_is_a_test_that_fails(record: Record) -> None:
    scope: dict[str, Any] = {}
    exec(compile(witness.as_test(witness.witness_of(record)), "test_witness", "exec"), scope)
    (test,) = (value for name, value in scope.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match=CERTIFIED):
        test()


@pytest.mark.slow
def test_pytest_finds_the_witness(record: Record, tmp_path: Path) -> None:
    file = tmp_path / "test_witness.py"
    file.write_text(witness.as_test(witness.witness_of(record)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stdout
    assert re.search(CERTIFIED, done.stdout)


def test_a_cell_that_is_not_violated_can_be_asked_for(record: Record) -> None:
    cell = witness.witness_of(record, "laplace")
    assert "expect" not in witness.as_tables(cell)
    assert witness.witness_of(record, cell.id) == cell
    with pytest.raises(DpframeError, match="mechanisms are laplace, laplace-half-scale"):
        witness.witness_of(record, "nobody")
    with pytest.raises(DpframeError, match="no claim is violated"):
        witness.witness_of(record.model_copy(update={"cells": [cell]}))


def test_odd_values_are_written_as_toml_and_as_python(record: Record) -> None:
    cell = witness.witness_of(record)
    params = {"d0": [1e300, "NaN", "-Infinity"], "nan_inf": 'a "nan" ü', "none": None}
    odd = cell.model_copy(update={"mechanism": ChoiceRecord(use="x", label="1 — ü", params=params)})
    (entry,) = tomli.loads(witness.as_toml(odd))["mechanism"]
    assert entry["label"] == "1 — ü"
    assert math.isnan(entry["params"].pop("d0")[1])
    assert entry["params"] == {"nan_inf": 'a "nan" ü'}
    scope: dict[str, object] = {}
    exec(compile(witness.as_test(odd), "odd", "exec"), scope)
    found = scope["SPEC"]
    assert isinstance(found, dict)
    assert found["mechanism"][0]["params"]["d0"][2] == -math.inf
    assert found["mechanism"][0]["params"]["nan_inf"] == 'a "nan" ü'


def test_reports_tell_the_witness_in_words(record: Record) -> None:
    told = caveats(record)
    assert any(
        one.startswith("Witness against laplace-half-scale: logistic scores") for one in told
    )
    assert not any("Witness against laplace:" in one for one in told)
    untried = [str(one) for one in of(record, Kind.UNTRIED)]
    assert any("Up to 2 pairs" in one for one in untried)
    assert "Attacks: logistic. A stronger one may show more." in untried


def test_no_text_of_a_record_gets_out_of_its_place() -> None:
    hostile = '"""\nraise SystemExit\n[[mechanism]]\n"""\\'
    cell = made_records.typed(made_records.cell() | {"reason": hostile, "verdict": "violated"})
    mechanism = cell.mechanism.model_copy(update={"label": hostile})
    odd = cell.model_copy(update={"mechanism": mechanism})
    (entry,) = tomli.loads(witness.as_toml(odd))["mechanism"]
    assert entry["label"] == hostile
    found = ast.parse(witness.as_test(odd)).body
    assert [type(one) for one in found] == [ast.Expr, ast.Import, ast.Assign, ast.FunctionDef]
