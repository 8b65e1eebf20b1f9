"""Tests and assumptions that a scan writes, and verdicts with their conditions."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dpframe_scan import findings, scanning, search
from dpframe_scan.callables import Target, described
from dpframe_scan.data_plans import DataPlan, Relation
from dpframe_scan.proposals import Proposal
from dpframe_scan.search import Cell
from dpframe_scan.sources import check_expression
from dpframe_scan.trials import Called

from dpframe import DpframeError

PLAN = DataPlan(
    "records",
    {"array": "np.array(data, dtype=float)"},
    (3.0, 5.0),
    ({"name": "x", "low": 0.0, "high": 10.0},),
)
PROPOSAL = Proposal("statlib.mean", {"epsilon": "1.0"}, {"epsilon": 1.0}, PLAN)
TARGET = Target("statlib.mean", False, (), "")


def cell(stage: Any = "within", **changes: Any) -> Cell:
    proposal = dataclasses.replace(PROPOSAL, **changes)
    return Cell(Called(TARGET, proposal, "release", ""), proposal, stage)


def result(event: str, by: Any) -> SimpleNamespace:
    edit = {"replace": 0, "by": by}
    params = {"table": [3.0, 5.0], "edit": edit, "description": "one record"}
    return SimpleNamespace(
        status="ok",
        verdict="violated",
        reason="",
        trials=[64, 64],
        search=SimpleNamespace(event=event, hits=[0, 64], trials=[64, 64]),
        pair=SimpleNamespace(params=params),
    )


@pytest.mark.parametrize(
    ("stage", "event", "by", "conditions"),
    [
        ("within", "the output is 3 or more", 10.0, ()),
        ("within", "raises ValueError", 10.0, ("an exception counts as a release",)),
        ("beyond", "the output is 3 or more", 10.0, ()),
        ("beyond", "gives NaN", math.nan, ("a record may be NaN",)),
        ("beyond", "the output is 3", 1e9, ("a record may lie beyond the declared bounds",)),
        ("bits", "the last bit", 10.0, ("releases are visible to the last bit",)),
    ],
)
def test_a_violation_names_the_conditions_it_depends_on(
    stage: str, event: str, by: float, conditions: tuple[str, ...]
) -> None:
    found = search.found_in(cell(stage), result(event, by))
    assert (found.verdict, found.conditions) == ("violated", conditions)
    assert found.pair[0] == [3.0, 5.0]


@pytest.mark.parametrize(("first_cost", "called"), [(0.001, []), (3.0, [[3.0, 5.0]])])
def test_a_worker_makes_slow_first_calls_while_it_loads_its_program(
    first_cost: float, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    source = "import builtins\n\n\ndef release(data):\n    return builtins.noted(data)\n"
    monkeypatch.setattr("builtins.noted", calls.append, raising=False)
    monkeypatch.setattr(search, "source_of", lambda _: source)
    one = cell()
    slow = one._replace(called=one.called._replace(cost=0.001, first_cost=first_cost))
    exec(compile(search.program_of(["json"], [slow]), "box.py", "exec"), {"__name__": "box"})
    assert calls == called


def test_a_guess_is_a_condition_and_accuses_nobody() -> None:
    found = search.found_in(
        cell(conditions=("it is a local randomiser",)), result("the output is 3", 10.0)
    )
    assert found.conditions == ("it is a local randomiser",)
    assert not found.accuses
    assert search.found_in(cell(), result("the output is 3", 10.0)).accuses


def test_a_record_that_is_refused_accuses_nobody() -> None:
    refused = result("raises ValueError", math.nan)
    assert not search.found_in(cell("beyond"), refused).accuses
    assert search.found_in(cell("beyond"), result("gives NaN", math.nan)).accuses
    assert search.found_in(cell("within"), result("raises ValueError", 10.0)).accuses


def test_an_edited_file_of_assumptions_can_confirm_a_guess(tmp_path: Path) -> None:
    path = tmp_path / "assumptions.toml"
    proposal = dataclasses.replace(PROPOSAL, conditions=("it keeps its claim with n = 10",))
    text = findings.assumptions([Called(TARGET, proposal, "release", "")], "statlib")
    assert 'conditions = ["it keeps its claim with n = 10"]' in text
    path.write_text(text.replace('["it keeps its claim with n = 10"]', "[]"), encoding="utf-8")
    read = findings.read(path, "statlib")
    changed = findings.applied(proposal, "statlib.mean", read["statlib.mean"])
    assert changed is not None
    assert changed.conditions == ()


@pytest.mark.parametrize(
    ("claim", "adjacency", "tested"),
    [
        ({"epsilon": 1.0}, "replace", {"epsilon": 1.0}),
        ({"epsilon": 1.0}, "add-remove", {"epsilon": 1.0}),
        ({"epsilon": 1.0}, "unknown", {"epsilon": 2.0}),
        ({"rho": 0.5}, "unknown", {"rho": 2.0}),
        ({"mu": 1.0}, "unknown", {"mu": 2.0}),
        (
            {"epsilon": 1.0, "delta": 0.01},
            "unknown",
            {"epsilon": 2.0, "delta": pytest.approx(0.01 * (1 + math.e))},
        ),
    ],
)
def test_the_claim_is_the_weakest_reading_of_the_neighbours(
    claim: dict[str, float], adjacency: Relation, tested: dict[str, float]
) -> None:
    data = dataclasses.replace(PLAN, adjacency=adjacency)
    assert search.tested_claim(dataclasses.replace(PROPOSAL, claim=claim, data=data)) == tested


@pytest.mark.parametrize(
    "edit", [{"replace": 1, "by": 9.0}, {"remove": 1}, {"add": 9.0}, {"add": 9.0, "at": 0}]
)
def test_the_pair_of_an_edit(edit: dict[str, Any]) -> None:
    d0, d1 = search.pair_of({"table": [1.0, 2.0], "edit": edit}, "records")
    after = {"replace": [1.0, 9.0], "remove": [1.0], "add": [1.0, 2.0, 9.0]}[next(iter(edit))]
    assert (d0, d1) == ([1.0, 2.0], [9.0, 1.0, 2.0] if "at" in edit else after)


def test_a_written_test_compiles_and_states_what_was_assumed() -> None:
    text = findings.as_test(PROPOSAL, ([3.0, math.nan], [5.0]), event="gives NaN: 0/9 on D")
    compile(text, "test.py", "exec")
    assert 'd0 = [3.0, float("nan")]' in text
    assert "assert_dp(release, d0=d0, d1=d1, epsilon=2.0" in text
    assert "gives NaN" in text
    assert len([one for one in text.partition("def release")[2].splitlines() if one.strip()]) <= 10


def test_assumptions_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "assumptions.toml"
    called = [Called(TARGET, PROPOSAL, "release", "")]
    path.write_text(findings.assumptions(called, "statlib"), encoding="utf-8")
    read = findings.read(path, "statlib")
    assert findings.applied(PROPOSAL, "statlib.mean", read["statlib.mean"]) == PROPOSAL


def test_an_edited_assumption_wins_and_is_named(tmp_path: Path) -> None:
    fields = {"adjacency": "replace", "arguments": {"epsilon": "0.5"}, "claim": {"epsilon": 0.5}}
    changed = findings.applied(PROPOSAL, "statlib.mean", fields)
    assert changed is not None
    assert (changed.data.adjacency, changed.claim) == ("replace", {"epsilon": 0.5})
    assert "The file of assumptions states adjacency, arguments, claim." in changed.sentences


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["statlib.mean"]\nclam = {}', "clam: there is no such entry"),
        ('["statlib.mean"]\nadjacency = "both"', "is not one of unknown, replace"),
        ('["statlib.mean"]\narguments = { a = "open(1)" }', r"open\(\) may not be used|open may"),
        ('["statlib.mean"]\nanswer = ["x; import os"]', "not the name of an attribute"),
        ('["statlib.mean"]\nanswer = ["real(exec(str()))"]', "not the name of an attribute"),
        ('["statlib.mean"]\nsetters = { "a.b(c" = "1" }', "must be text"),
        ('["statlib.mean"]\nmethod = "fit(); x"', "not the name of an attribute"),
        ("not toml", "toml"),
    ],
)
def test_a_mistake_in_the_file_of_assumptions_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "assumptions.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DpframeError, match=message):
        findings.read(path, "statlib")


@pytest.mark.parametrize(
    "text",
    [
        "(0.0, 10.0)",
        "[(0.0, 10.0)] * 2",
        "np.array([row[:-1] for row in data], dtype=float).reshape(-1, 2)",
        "pd.DataFrame(data, columns=['a', 'b'])",
        "lambda x: x",
        "statlib.Schema(a=1)",
    ],
)
def test_an_expression_may_describe_data(text: str) -> None:
    check_expression(text, "statlib")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "np.load('file')",
        "data.__class__",
        "exec('1')",
        "os.remove('x')",
        "(lambda: 1)()",
        "statlib.f().g()",
        "statlib.os.system('true')",
        "[print(1) for _ in data]",
        "1; 2",
    ],
)
def test_an_expression_may_do_nothing_else(text: str) -> None:
    with pytest.raises(DpframeError):
        check_expression(text, "statlib")


@pytest.mark.parametrize(
    "doc",
    [
        "Parameters\n----------\nk : int\n    Size of the domain.\n",
        "Args:\n    k (int): Size of the domain.\n",
        ":param k: Size of the domain.\n",
    ],
)
def test_the_description_of_a_parameter(doc: str) -> None:
    assert "Size of the domain." in described("k", doc)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_fits_its_terminal_and_begins_with_violations(width: int) -> None:
    rows = [
        {"callable": f"lib.{name}", "outcome": outcome, "verdict": verdict, "why": "word " * 30}
        for name, outcome, verdict in (
            ("none", "not a mechanism", "not a mechanism"),
            ("right", "release", "consistent"),
            ("guessed", "release", "violated if a record may be NaN"),
            ("wrong", "release", "violated"),
        )
    ]
    package: Any = SimpleNamespace(module="lib", name="lib", version="1", failed=[])
    lines = scanning._table(rows, package, Path("runs"), 1.0, width).splitlines()
    assert max(map(len, lines)) <= width
    names = [line.split()[0] for line in lines if line.startswith(("wr", "gu", "ri", "none"))]
    assert names == ["wrong", "guessed", "right", "none"]
    assert "1 violated, 1 more under a condition" in " ".join(" ".join(lines).split())
