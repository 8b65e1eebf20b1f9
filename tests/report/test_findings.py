"""The findings of a record: one list, which says what was found and never that all is well."""

from __future__ import annotations

from typing import Any

import pytest
from support import made_records

from dpframe.report.findings import Finding, Kind, findings, mechanisms, of, validity
from dpframe.report.verdict_text import headline
from dpframe.results.model import Record
from dpframe.results.store import as_record


def record(cells: Any, **changes: Any) -> Record:
    return as_record(made_records.record(cells, **changes))


def with_verdicts(violated: int, consistent: int, inconclusive: int, failed: int = 0) -> Record:
    verdicts = ["violated"] * violated + ["consistent"] * consistent
    verdicts += ["inconclusive"] * inconclusive
    cells = [
        made_records.cell() | {"id": f"{n}", "verdict": verdict, "expected": None}
        for n, verdict in enumerate(verdicts)
    ]
    nothing = {"expected": None}
    cells += [made_records.failed_cell() | {"id": f"failed {n}"} | nothing for n in range(failed)]
    return record(cells, m=len(cells))


@pytest.mark.parametrize(
    ("counts", "begins"),
    [
        ((0, 1, 0), "No violation found for the claim. Tested at 95 % confidence. 720"),
        (
            (0, 3, 0),
            "No violation found for any of 3 claims. Tested at 95 % confidence for all together",
        ),
        ((0, 2, 1), "No violation found for 2 of 3 claims; 1 inconclusive. Tested"),
        ((0, 1, 1, 1), "No violation found for 1 of 3 claims; 1 inconclusive; 1 not tested."),
        ((0, 0, 2), "No verdict on any of 2 claims: 2 inconclusive. Tested"),
        ((0, 0, 1), "No verdict: the only claim could not be decided. Tested"),
        ((0, 0, 0, 1), "No verdict: the only claim could not be tested. 720"),
        ((0, 0, 0, 2), "No verdict on any of 2 claims: 2 not tested. 720"),
        (
            (1, 0, 0),
            "The claim is violated. With 95 % confidence this is not a false alarm. 720 million",
        ),
        ((1, 2, 0), "1 of 3 claims violated; no violation found for the other 2. With 95 %"),
        ((2, 1, 1), "2 of 4 claims violated; no violation found for 1; 1 inconclusive. With 95 %"),
        ((0, 0, 0), "No claim was tested. 720 million draws in 41.2 s."),
    ],
)
def test_the_headline(counts: tuple[int, ...], begins: str) -> None:
    text = str(headline(with_verdicts(*counts)))
    assert text.startswith(begins)
    assert "0 of" not in text
    assert "private" not in text


def test_a_headline_says_if_all_was_expected() -> None:
    found = as_record(made_records.figure_2())
    assert headline(found).answer == "119 of 252 claims violated, all expected"
    assert of(found, Kind.WARNING) == []
    cells = [made_records.cell("laplace", e, d) for e in (0.1, 1.0) for d in (1, 2)]
    cells[1]["expected"] = "violated"
    unmet = record(cells)
    assert "expected" not in str(headline(unmet))
    assert [one.what for one in of(unmet, Kind.WARNING)] == ["Expectations: 3 of 4 met, 1 not met."]
    (unexpected,) = of(unmet, Kind.UNEXPECTED)
    assert unexpected.where == "ε 0.1, dim 2"
    assert "expected: violated; got: no violation found" in unexpected.what


def test_a_headline_that_may_rest_on_exceptions_says_so() -> None:
    cells = [made_records.cell() | {"id": f"{n}", "verdict": "consistent"} for n in range(2)]
    cells[0]["exceptions"] = [0.0, 0.0]
    for cell in cells:
        cell["expected"] = None

    def answer() -> str:
        return headline(record(cells, m=len(cells))).answer

    assert answer() == "No violation found"
    cells[1]["exceptions"] = [0.99, 1.0]
    said = "99 % of the answers on D and 100 % on D′ were exceptions"
    assert answer() == f"No violation found (in one cell {said})"
    cells[0]["verdict"] = "violated"
    assert answer() == "1 of 2 claims violated"
    cells[0]["exceptions"] = [0.0, 0.0012]
    said = "0 % of the answers on D and 0.12 % on D′ were exceptions"
    assert answer() == f"1 of 2 claims violated (in one cell {said})"
    del cells[1]
    assert answer() == f"The claim is violated ({said})"


def test_findings_come_in_the_order_of_their_kinds() -> None:
    cells = [made_records.cell("adept", e, 1) for e in (0.1, 1.0)]
    cells += [made_records.failed_cell(dim=2), made_records.cell("laplace", 20.0, 1)]
    cells[-1] |= {"verdict": "inconclusive", "reason": "too few draws", "expected": None}
    found = findings(record(cells, multiplicity="none"))
    kinds = [finding.kind for finding in found]
    assert kinds == sorted(kinds, key=list(Kind).index)
    assert {Kind.WARNING, Kind.REASON, Kind.FAILED, Kind.UNDECIDED, Kind.MEANING} <= set(kinds)
    text = " ".join(map(str, found))
    assert "Not adjusted for testing" in text
    assert "simultaneously" not in text
    assert "private" not in text
    assert "More draws certify more of the loss" in text
    assert "so nothing is known there" in text


def test_the_first_lines_name_claim_pair_columns_and_neighbours() -> None:
    cells = [made_records.cell("adept", e, 1) for e in (1.0, 0.1)]
    for cell in cells:
        cell["pair"] |= {"relation": "replace one record"}
    (subject,) = of(record(cells), Kind.SUBJECT)
    assert subject.what == (
        "Claim: pure-dp with ε = 0.1, 1. Pair: zeros-ones. Neighbours: replace one record."
    )
    cells[0]["pair"]["params"] = {"columns": ["age", "income"]}
    cells[0]["claim"] |= {"kind": "gaussian-dp", "delta": 1e-5}
    (subject,) = of(record(cells[:1]), Kind.SUBJECT)
    assert "Claim: gaussian-dp with ε = 1 at δ = 1e-5." in subject.what
    assert "Pair: zeros-ones with columns age, income." in subject.what
    cells[0] |= {"claim": None, "verdict": None, "asked": {"only": ["count"]}}
    assert of(record(cells[:1], m=0), Kind.SUBJECT)[0].what.endswith("examined: count.")
    assert of(record(cells[:1], m=0), Kind.SUBJECT)[0].what.startswith("Claim: none. Pair:")


def test_the_reason_of_a_single_cell_follows_the_answer_and_is_not_repeated() -> None:
    cell = made_records.cell() | {"verdict": "inconclusive", "reason": "too few draws"}
    found = record([cell], m=1)
    assert [one.what for one in of(found, Kind.REASON)] == ["Reason: too few draws."]
    assert of(found, Kind.UNDECIDED) == []
    failed = record([made_records.failed_cell("no such column: age")], m=1)
    assert [one.what for one in of(failed, Kind.REASON)] == ["Reason: no such column: age."]
    assert of(failed, Kind.FAILED) == []


def test_cells_with_one_reason_share_a_finding_and_full_grids_are_listed_by_key() -> None:
    cells = [made_records.failed_cell(epsilon=e, dim=d) for e in (0.1, 1.0) for d in (1, 2, 8)]
    (one,) = of(record(cells), Kind.FAILED)
    assert one == Finding(Kind.FAILED, one.what, "ε 0.1, 1; dim 1, 2, 8", 6)
    assert one.what.startswith("laplace · majority-vote · precision: failed: CellError")
    assert one.what.endswith("(6 cells)")
    cells += [made_records.failed_cell(epsilon=5.0, dim=d) for d in range(1, 21)]
    (one,) = of(record(cells), Kind.FAILED)
    assert one.where.endswith("… and 14 more")


def test_skipped_combinations_are_named_with_their_expectation() -> None:
    skip = {"mechanism": "m", "attack": "a", "estimator": "e", "pair": "p", "swept": {}}
    skips = [skip | {"reason": "no nan"}, skip | {"reason": "no nan", "expected": "violated"}]
    found = record([], m=0, skipped=skips)
    assert [str(one) for one in of(found, Kind.SKIPPED)] == ["m · a · e: skipped: no nan"]
    (lost,) = of(found, Kind.LOST)
    assert lost.what == "m · a · e: expected violated, but skipped: no nan"
    assert "1 skipped" in str(of(found, Kind.WARNING)[0])
    assert [one.label for one in mechanisms(found)] == ["m"]


def test_violations_that_the_bound_alone_does_not_show_are_explained() -> None:
    cell = made_records.cell("laplace", 1.0, 1, verdict="violated", reason="step-down; numbers")
    (one,) = of(record([cell]), Kind.TOGETHER)
    assert one.what.endswith("although its bound alone is not above the claim: step-down")


def test_bounds_of_one_claim_are_not_called_adjusted() -> None:
    found = record([made_records.cell("adept", 0.1, 2, m=1)], m=1)
    assert "Holm" not in str(headline(found))
    assert of(found, Kind.MEANING) == []  # the answer has the confidence
    assert list(validity(found)) == ["The bound holds with 95 % confidence."]
    many = record([made_records.cell(m=10**6)], m=10**6)
    assert "holds with 99.999995 % confidence" in " ".join(map(str, of(many, Kind.MEANING)))


def worst(cells: Any, **changes: Any) -> list[str]:
    return [one.worst for one in mechanisms(record(cells, **changes))]


def test_violated_cells_come_first_then_the_largest_ratio() -> None:
    cells = [made_records.cell("adept", e, d) for e in (0.1, 1.0, 10.0) for d in (1, 2)]
    verdicts = ("consistent", "violated", "violated", "violated", "consistent", "inconclusive")
    lowers = (0.5, 0.25, 2.0, 3.0, 9.0, 9.5)
    for cell, lower, verdict in zip(cells, lowers, verdicts, strict=True):
        cell["estimate"]["epsilon_lower"] = lower
        cell["verdict"] = verdict
    assert worst(cells) == ["certified 3.00 of claimed 1, at ε 1, dim 2"]
    for cell in cells:
        cell["verdict"] = "consistent"
    assert worst(cells) == ["certified 0.500 of claimed 0.1, at ε 0.1, dim 1"]


def test_the_worst_cell_without_claims_bounds_or_runs() -> None:
    unclaimed = [made_records.cell(dim=d, claim=None, verdict=None) for d in (1, 2, 8)]
    unclaimed[2]["estimate"]["epsilon_lower"] = 3.0
    assert worst(unclaimed, m=0) == ["certified 3.00, nothing claimed, at dim 8"]
    estimates = [made_records.estimate_only(dim=d) for d in (1, 2, 8)]
    assert worst(estimates, m=0) == ["nothing certified; estimated 0.900, at dim 2"]
    assert worst([made_records.failed_cell(dim=d) for d in (1, 2)]) == ["nothing was tested"]
    random = [made_records.cell("random-output", dim=d) for d in (1, 2)]
    assert worst(random) == ["nothing certified in any cell"]


def test_claims_of_infinity_and_of_zero_and_bounds_just_beside_the_claim() -> None:
    cells = [made_records.cell("laplace", 1.0, d) for d in (1, 2)]
    cells[0]["claim"]["epsilon"] = "inf"
    assert worst(cells) == ["certified 0.895 of claimed 1, at dim 2"]
    cells[0]["claim"]["epsilon"] = 0.0
    assert worst(cells) == ["certified 0.829 of claimed 0, at dim 1"]
    cells = [made_records.cell("adept", 1.0, d, verdict="violated") for d in (1, 2)]
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = 1.0004
    assert worst(cells) == ["certified 1.0004 of claimed 1, at dim 2"]


@pytest.mark.parametrize("bound", [0.8, 1.2])
def test_a_curve_refuted_elsewhere_is_weighed_there(bound: float) -> None:
    cells = [made_records.cell("adept", 1.0, d, verdict="violated") for d in (1, 2)]
    shares = dict.fromkeys(("p_resolved", "p_extreme", "p_extreme_resolved"), 1e-9)
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = bound
        cell["basis"] = shares | {
            "confidence": 0.95,
            "look": 1,
            "contrast": {"delta": 0.25, "lower": 0.5, "claimed": 0.125},
        }
    (text,) = worst(cells)
    elsewhere = "certified 0.500 of claimed 0.125 at δ = 0.25, at dim 2"
    assert text == (elsewhere if bound < 1 else "certified 1.20 of claimed 1, at dim 2")


def test_attack_and_estimator_are_named_if_they_differ() -> None:
    cells = [made_records.cell("adept", 0.1, d) for _ in range(2) for d in (1, 2)]
    for cell in cells[2:]:
        cell["estimator"]["label"] = "another"
        cell["estimate"]["epsilon_lower"] *= 2
    assert "of claimed 0.1, by another, at dim 2" in worst(cells)[0]
