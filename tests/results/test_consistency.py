"""Each way in which a record can contradict itself, even where its digest was made to fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpframe.results.consistency import disagreement, is_old
from dpframe.results.model import Record
from dpframe.results.store import as_record, dumps
from dpframe.results.strict_json import digest_of

OLD = json.loads(Path(__file__).with_name("before_digests.json").read_text())

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


def later(record: dict[str, Any]) -> None:
    """Pays for a second look that nobody counted."""
    cell = given(record)
    basis, estimate = cell["basis"], cell["estimate"]
    basis["look"] = 2
    estimate["confidence"] = 1 - (1 - estimate["confidence"]) / 6


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
        lambda r: silent(r)["estimate"].update(profile_lower=[[0.0, 0.1]]),
        "it has certified δ, although its bound is not",
    ),
    (
        lambda r: given(r)["estimate"].update(profile_lower=[[0.0, 0.1], [1.0, 0.2]]),
        "its profile_lower does not fall",
    ),
    (
        lambda r: given(r)["estimate"].update(profile_lower=[[99.0, 0.9]]),
        "its profile_lower gives ε ≥ 99.0 at its δ, but its bound is",
    ),
    (lambda r: given(r)["slack"].update(cells=9.0), "its slack adds up to"),
    (lambda r: silent(r).update(slack=given(r)["slack"]), "it has slack, but no bound"),
    (lambda r: given(r)["estimate"].update(confidence=0.95), "not its share of the error"),
    (lambda r: given(r)["basis"].update(confidence=0.5), "share of the error"),
    (lambda r: given(r)["basis"].update(look=7), "share of the error"),
    (
        lambda r: given(r)["basis"].update(p_extreme_resolved=1.0),
        "its numbers give inconclusive",
    ),
    (lambda r: given(r)["basis"].update(p_resolved=1e-9), "its numbers give violated"),
    (lambda r: given(r)["claim"].update(delta=0.25), "its claim is for δ = 0.25"),
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
    (later, "its look 2 is later than the last"),
    (lambda r: none_violated(r)["summary"].update(m=40), "summary.m is 40, but its cells give 1"),
    (
        lambda r: given(r).update(status="failed"),
        "its status is failed, but it has an estimate",
    ),
    (lambda r: failed(r).update(status="ok"), "its status is ok, but it has no estimate"),
    (lambda r: failed(r).update(reason=None), "it failed without a reason"),
    (lambda r: r["cells"].append(r["cells"][0]), "occurs more than once"),
    (lambda r: r["cells"].pop(), "summary.|p_adjusted|share of the error"),
    (lambda r: r["cells"].clear(), "summary.violated is"),
    (lambda r: r["audit"].update(multiplicity="none"), "p_adjusted|numbers give"),
    (lambda r: r["audit"].update(confidence=0.5), "its confidence is not the audit's"),
    (lambda r: r["summary"].update(m=1), "p_adjusted|summary.m is 1"),
    (lambda r: r["summary"].update(m=40), "p_adjusted|summary.m is 40"),
    (lambda r: r["summary"].update(violated=0), "summary.violated is 0, but its cells add up to"),
    (lambda r: r["summary"].update(consistent=9), "summary.consistent is 9"),
    (lambda r: r["summary"].update(inconclusive=9), "summary.inconclusive is 9"),
    (lambda r: r["summary"].update(failed=0), "summary.failed is 0|share of the error"),
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


OLD_CHANGES: list[tuple[Change, str]] = [
    (lambda r: given(r).update(verdict="violated"), "its verdict is violated at p_adjusted"),
    (lambda r: given(r, "violated").update(verdict="consistent"), "its verdict is consistent at"),
    (lambda r: given(r, "violated").update(p_value=0.5), "p_adjusted is"),
    (lambda r: given(r, "violated").update(p_value=0.5, p_adjusted=1.0), "violated at p_adjusted"),
    (lambda r: given(r).update(trials=[9, 9]), "are not among its looks"),
    (lambda r: given(r)["counts"][1].__setitem__(0, 5), "counts do not add up to its trials"),
    (lambda r: r["summary"].update(violated=0), "summary.violated is 0"),
    (lambda r: r["summary"].update(m=3), "p_adjusted|summary.m is 3"),
    (lambda r: r["cells"].clear(), "summary.violated is 1"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OLD_CHANGES)))
def test_records_without_a_digest_are_judged_as_far_as_they_allow(number: int) -> None:
    change, message = OLD_CHANGES[number]
    contents = json.loads(json.dumps(OLD))
    assert problem(contents) is None
    change(contents)
    assert re.search(message, problem(contents) or "none")


def test_a_look_that_was_paid_for_is_no_contradiction() -> None:
    contents = json.loads(json.dumps(OLD))
    for cell in contents["cells"]:
        cell["looks"].insert(0, {"trials": [7, 7]})
        cell["p_adjusted"] = min(1.0, 6 * cell["p_adjusted"])
    assert problem(contents) is None


def test_a_swept_confidence_is_the_cell_s_own() -> None:
    contents = json.loads(json.dumps(OLD))
    for cell in contents["cells"]:
        cell["swept"]["audit.confidence"] = 0.95
    contents["audit"]["confidence"] = 0.5
    assert problem(contents) is None
    for cell in contents["cells"]:
        cell["swept"]["audit.confidence"] = "0.95"  # values that are no numbers are not compared
    assert problem(contents) is None


NEWER: dict[str, Change] = {
    "calls": lambda record: record["summary"].pop("calls"),
    "basis": lambda record: [cell.pop("basis") for cell in record["cells"]],
    "pair.digest": lambda record: [cell["pair"].pop("digest") for cell in record["cells"]],
    "epsilon_upper_of": lambda record: [
        cell["estimate"].pop("epsilon_upper_of") for cell in record["cells"] if cell["estimate"]
    ],
    "reference": lambda record: [plugin.pop("reference") for plugin in record["plugins"]],
    "profile_lower": lambda record: [
        cell["estimate"].pop("profile_lower") for cell in record["cells"] if cell["estimate"]
    ],
}
"""Fields that came with the digest or after it."""


def test_a_record_without_its_digest_is_no_old_one(recorded: Record) -> None:
    contents = json.loads(dumps(recorded))
    del contents["digest"]
    assert problem(contents) == "its digest is gone"
    contents["digest"] = None
    assert problem(contents) == "its digest is gone"


@pytest.mark.parametrize("kept", [*NEWER, None])
def test_whoever_makes_a_record_look_old_must_think_of_everything(
    recorded: Record, kept: str | None
) -> None:
    """Then nothing is left that says more than an old record does; there is no signature."""
    contents = json.loads(dumps(recorded))
    for name in NEWER.keys() - {kept}:
        NEWER[name](contents)
    del contents["digest"]
    assert is_old(as_record(contents)) == (kept is None)
    assert (problem(contents) is None) == (kept is None)


def test_an_old_record_that_was_written_again_is_still_old() -> None:
    again = json.loads(dumps(as_record(json.loads(json.dumps(OLD)))))
    assert again["digest"] is None
    assert is_old(as_record(again))
