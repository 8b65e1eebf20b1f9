"""Each way in which a record can contradict itself, even where its digest was made to fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from dpframe.results.model import Record
from dpframe.results.store import as_record, disagreement, dumps
from dpframe.results.strict_json import digest_of

Change = Callable[[dict[str, Any]], object]


def problem(contents: dict[str, Any]) -> str | None:
    return disagreement(as_record(contents), contents)


def given(record: dict[str, Any], verdict: str = "consistent") -> dict[str, Any]:
    cell: dict[str, Any] = next(c for c in record["cells"] if c["verdict"] == verdict)
    return cell


def silent(record: dict[str, Any]) -> dict[str, Any]:
    """A cell without a bound."""
    cell: dict[str, Any]
    cell = next(c for c in record["cells"] if c["estimate"] and not c["estimate"]["certified"])
    return cell


def failed(record: dict[str, Any]) -> dict[str, Any]:
    cell: dict[str, Any] = next(c for c in record["cells"] if c["status"] == "failed")
    return cell


def none_violated(record: dict[str, Any]) -> dict[str, Any]:
    """One claim is left, and no multiple of its p-value of 1 is above 1."""
    kept = given(record)
    assert kept["p_value"] == kept["p_adjusted"] == 1
    kept["estimate"]["confidence"] = 0.95
    record["cells"] = [kept]
    changes = {"violated": 0, "consistent": 1, "failed": 0, "draws": kept["draws"]}
    record["summary"] |= changes
    return record


CHANGES: list[tuple[Change, str]] = [
    (
        lambda r: given(r).update(verdict="violated"),
        "its verdict is violated, but its numbers give co",
    ),
    (
        lambda r: given(r, "violated").update(verdict="consistent"),
        "its verdict is consistent",
    ),
    (lambda r: given(r).update(verdict=None), "it has no verdict"),
    (lambda r: silent(r).update(verdict="consistent"), "it has a verdict"),
    (lambda r: given(r).update(p_adjusted=0.9), "p_adjusted is 0.9, not"),
    (lambda r: given(r).update(p_value=None), "it has no p-value"),
    (lambda r: silent(r).update(p_value=0.5), "it has a p-value"),
    (lambda r: given(r).update(basis=None), "it has no basis"),
    (
        lambda r: given(r).update(reason="all is well"),
        "its reason does not match its numbers",
    ),
    (
        lambda r: given(r)["estimate"].update(epsilon_lower=0.4),
        "reason does not match its numbers",
    ),
    (
        lambda r: given(r)["estimate"].update(epsilon_lower=99.0),
        "its bound 99.0 is above its li",
    ),
    (
        lambda r: given(r)["estimate"].update(epsilon_lower=None),
        "certified, but its bound is None",
    ),
    (lambda r: silent(r)["estimate"].update(epsilon_lower=1.0), "not certified, but its bound is"),
    (
        lambda r: given(r)["estimate"].update(profile_lower=[[0.0, 0.1], [1.0, 0.2]]),
        "its profile_lower does not fall",
    ),
    (
        lambda r: given(r)["basis"].update(p_extreme_resolved=1.0),
        "its numbers give inconclusive",
    ),
    (lambda r: given(r)["basis"].update(p_resolved=1e-9), "its numbers give violated"),
    (
        lambda r: given(r)["counts"][0].reverse() or given(r)["counts"][0].pop(),
        "do not add up",
    ),
    (
        lambda r: given(r)["counts"][1].__setitem__(0, 5),
        "counts do not add up to its trials",
    ),
    (lambda r: given(r)["counts"][1].__setitem__(0, -5), "counts do not add up to its trials"),
    (
        lambda r: given(r)["counts"][1].__setitem__(0, 0.5),
        "counts do not add up to its trials",
    ),
    (lambda r: given(r).update(counts=None), "draws without counts"),
    (lambda r: given(r).update(draw_group=None), "draws, not to"),
    (lambda r: given(r).update(trials=[9, 9]), "trials .9, 9. are not among its looks"),
    (lambda r: given(r).update(draws=7), "add up to 2560 draws, not to 7"),
    (lambda r: given(r).update(looks=[]), "are not among its looks"),
    (
        lambda r: given(r).update(trials=[0, 9], looks=[{"trials": [0, 9]}]),
        "it has an estimate, but no draws",
    ),
    (lambda r: none_violated(r)["summary"].update(m=40), "summary.m is 40, but its cells give 1"),
    (
        lambda r: given(r).update(status="failed"),
        "its status is failed, but it has an estimate",
    ),
    (lambda r: failed(r).update(status="ok"), "its status is ok, but it has no estimate"),
    (lambda r: failed(r).update(reason=None), "it failed without a reason"),
    (lambda r: r["cells"].append(r["cells"][0]), "occurs more than once"),
    (lambda r: r["cells"].pop(), "summary.|p_adjusted"),
    (lambda r: r["cells"].clear(), "summary.violated is"),
    (lambda r: r["audit"].update(multiplicity="none"), "p_adjusted|numbers give"),
    (lambda r: r["summary"].update(m=1), "p_adjusted|summary.m is 1"),
    (lambda r: r["summary"].update(m=40), "p_adjusted|summary.m is 40"),
    (lambda r: r["summary"].update(violated=0), "summary.violated is 0, but its cells add up to"),
    (lambda r: r["summary"].update(consistent=9), "summary.consistent is 9"),
    (lambda r: r["summary"].update(inconclusive=9), "summary.inconclusive is 9"),
    (lambda r: r["summary"].update(failed=0), "summary.failed is 0"),
    (lambda r: r["summary"].update(draws=10**9), "summary.draws is 1000000000"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_what_follows_from_the_numbers_cannot_be_changed(recorded: Record, number: int) -> None:
    change, message = CHANGES[number]
    contents = json.loads(dumps(recorded))
    assert problem(contents) is None
    change(contents)
    contents["digest"] = digest_of(contents)
    assert re.search(message, problem(contents) or "none")


def test_nothing_else_can_be_changed_without_the_digest(recorded: Record) -> None:
    for change in (
        lambda r: given(r)["mechanism"].update(label="another"),
        lambda r: r.update(seed=99),
        lambda r: r["summary"].update(seconds=0.0),
        lambda r: r["skipped"].clear(),
        lambda r: given(r).update(counts=[list(reversed(row)) for row in given(r)["counts"]]),
        lambda r: r.pop("digest"),
        lambda r: r.update(digest="sha256:0"),
    ):
        contents = json.loads(dumps(recorded))
        change(contents)  # type: ignore[no-untyped-call]
        assert "digest" in (problem(contents) or "none")
