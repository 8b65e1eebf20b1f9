"""The sentence that a report begins with says what was found, and never that all is well."""

from __future__ import annotations

import pytest
from support import made_records

from dpframe.report.sentences import verdict
from dpframe.results.store import as_record

SURE = "tested at 95 % confidence"


def said(violated: int, consistent: int, inconclusive: int, failed: int = 0) -> str:
    verdicts = ["violated"] * violated + ["consistent"] * consistent
    verdicts += ["inconclusive"] * inconclusive
    cells = [made_records.cell() | {"id": f"{n}", "verdict": v} for n, v in enumerate(verdicts)]
    cells += [made_records.failed_cell() | {"id": f"failed {n}"} for n in range(failed)]
    return str(verdict(as_record(made_records.record(cells, m=len(cells)))))


@pytest.mark.parametrize(
    ("counts", "begins"),
    [
        ((0, 1, 0), f"No violation found for the claim, {SURE}, from"),
        ((0, 3, 0), f"No violation found for any of 3 claims, {SURE} for all together (Holm"),
        ((0, 2, 1), f"No violation found for 2 of 3 claims, 1 inconclusive, {SURE}"),
        (
            (0, 1, 1, 1),
            f"No violation found for 1 of 3 claims, 1 inconclusive, 1 not tested, {SURE}",
        ),
        ((0, 0, 2), f"Nothing decided of 2 claims: 2 inconclusive, {SURE}"),
        ((0, 0, 1), f"Nothing decided of 1 claim: 1 inconclusive, {SURE}, from"),
        ((0, 0, 0, 2), "Nothing decided of 2 claims: 2 not tested, from"),
        (
            (1, 0, 0),
            "1 of 1 claim violated; with 95 % confidence that it is not a false alarm, from",
        ),
        ((1, 2, 0), "1 of 3 claims violated, no violation found for the other 2; with 95 %"),
        ((2, 1, 1), "2 of 4 claims violated, no violation found for 1, 1 inconclusive; with 95 %"),
        ((0, 0, 0), "No claim tested, from"),
    ],
)
def test_the_verdict(counts: tuple[int, ...], begins: str) -> None:
    text = said(*counts)
    assert text.startswith(begins)
    assert "0 of" not in text
    assert "private" not in text


def test_a_verdict_that_may_rest_on_exceptions_says_so() -> None:
    """Return the phrases about violated cells, if there are any; and before anything else is
    said."""
    cells = [made_records.cell() | {"id": f"{n}", "verdict": "consistent"} for n in range(2)]
    cells[0]["exceptions"] = [0.0, 0.0]

    def finding() -> str:
        return verdict(as_record(made_records.record(cells, m=len(cells)))).finding

    assert finding() == "No violation found"
    cells[1]["exceptions"] = [0.99, 1.0]
    said = "99 % of the answers on D and 100 % on D′ were exceptions"
    assert finding() == f"No violation found (in one cell {said})"
    cells[0]["verdict"] = "violated"
    assert finding() == "1 of 2 claims violated"
    cells[0]["exceptions"] = [0.0, 0.0012]
    said = "0 % of the answers on D and 0.12 % on D′ were exceptions"
    assert finding() == f"1 of 2 claims violated (in one cell {said})"
    del cells[1]
    assert finding() == f"1 of 1 claim violated ({said})"
