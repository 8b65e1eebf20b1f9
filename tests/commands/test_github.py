"""A job of GitHub Actions is told the outcome of a run."""

from __future__ import annotations

import re

import pytest
from support import made_records

from dpframe.commands.run import MOST_SUMMARY, announce, lines_of
from dpframe.results.store import as_record

JOB = {"GITHUB_ACTIONS": "true"}

SPEC = """schema = 1

[[mechanism]]
use = "laplace"

[[mechanism]]
use = "dptext"
label = "DPText, NaN to zero"
"""


def record(*cells, text=SPEC, path="audits/a.toml"):
    found = made_records.record(cells)
    found["spec"] |= {"text": text, "path": path}
    return as_record(found)


def said(found, environment=JOB):
    lines = []
    announce(found, environment, lines.append)
    return lines


def unmet(use="laplace", epsilon=1.0, **changes):
    return made_records.cell(use, epsilon) | {"verdict": "violated", "expected": None, **changes}


def test_elsewhere_nothing_is_said():
    assert said(record(unmet()), {}) == []


def test_a_violation_is_an_error_at_the_line_of_its_mechanism():
    (line,) = said(record(unmet("dptext", reason="50 % of it: a, b\nc")))
    assert line == (
        "::error file=audits/a.toml,line=6,"
        "title=DPText%2C NaN to zero · majority-vote · precision · ε 1%2C dim 1"
        "::violated: 50 %25 of it: a, b%0Ac"
    )


def test_what_was_expected_is_no_error():
    cells = [
        made_records.cell("dptext"),
        made_records.cell(),
        made_records.cell() | {"expected": None},
    ]
    assert cells[0]["verdict"] == "violated"
    assert said(record(*cells)) == []


def test_failures_and_unmet_expectations_are():
    inconclusive = made_records.cell() | {"verdict": "inconclusive"}
    lines = said(record(made_records.failed_cell(), inconclusive))
    assert [line.split("::")[2].split(":")[0] for line in lines] == [
        "could not be run",
        "expected",
    ]
    (nothing,) = said(record())
    assert "nothing was tested" in nothing


def test_many_are_counted():
    lines = said(record(*(unmet(epsilon=float(e), reason="") for e in range(1, 40))))
    assert len(lines) == 10
    assert "and 30 more" in lines[-1]
    assert "30 of laplace" in lines[-1]


def test_a_label_cannot_begin_another_command():
    cell = unmet()
    cell["mechanism"]["label"] = "x\n::stop-commands::y"
    (line,) = said(record(cell))
    assert "\n" not in line
    assert line.count("::") == 2
    assert "line=" not in line


def test_paths_are_from_the_root_of_the_checkout():
    place = {**JOB, "GITHUB_WORKSPACE": "/home/runner/repo"}
    inside = record(unmet(), path="/home/runner/repo/x/a.toml")
    assert "file=x/a.toml," in said(inside, place)[0]
    assert "file=/etc/a.toml," in said(record(unmet(), path="/etc/a.toml"), place)[0]
    assert "file" not in said(record(unmet(), path=""))[0]


@pytest.mark.parametrize("text", ["", "no toml [", "mechanism = 1", "[[mechanism]]\nuse = 1"])
def test_a_spec_that_names_nothing_has_no_lines(text):
    assert lines_of(record(text=text)) == {}


def test_the_summary_of_the_step_gets_the_report_after_what_is_there(tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before")
    assert said(record(made_records.cell()), {"GITHUB_STEP_SUMMARY": str(summary)}) == []
    text = summary.read_text()
    assert re.match(
        r"before\n# dptext\n\n\*\*No violation found for the claim, as expected",
        text,
    )


def test_the_summary_is_never_longer_than_the_runner_takes(tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("x" * (MOST_SUMMARY - 5_000))
    found = record(*made_records.figure_2()["cells"])
    for _ in range(2):
        said(found, {"GITHUB_STEP_SUMMARY": str(summary)})
        assert MOST_SUMMARY - 5_000 < summary.stat().st_size <= MOST_SUMMARY


def test_a_summary_that_cannot_be_written_is_said_and_hides_nothing(tmp_path):
    (line,) = said(record(made_records.cell()), {"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert "cannot write" in line
