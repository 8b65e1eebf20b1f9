"""Rules for the record of every audit whose seed gives no false alarm."""

from __future__ import annotations

from typing import Any


def check_every_cell_ran(record: dict[str, Any]) -> None:
    """Or says why it was skipped; and exactly what has a claim and certifies is judged."""
    assert record["cells"]
    assert [cell["reason"] for cell in record["cells"] if cell["status"] == "failed"] == []
    assert all(skip["reason"] for skip in record["skipped"])
    assert [skip for skip in record["skipped"] if skip["expected"]] == []
    judged = [cell for cell in record["cells"] if cell["verdict"] is not None]
    assert record["summary"]["m"] == len(judged)
    for cell in record["cells"]:
        decided = cell["claim"] is not None and cell["estimate"]["certified"]
        assert (cell["verdict"] is not None) == decided


def check_nothing_is_a_false_alarm(record: dict[str, Any]) -> None:
    """No bound above the truth, no violation that is none or that the spec does not expect."""
    for cell in record["cells"]:
        bound = cell["estimate"]["epsilon_lower"]
        if cell["truth"] is not None and bound is not None:
            truth = float(cell["truth"]["epsilon"])
            assert bound <= truth
            # The claim is a curve: it may be violated at another δ than that of the estimate.
            if cell["verdict"] == "violated" and cell["claim"]["kind"] in ("pure-dp", "approx-dp"):
                assert truth > float(cell["claim"]["epsilon"])
        if cell["expected"] == "consistent":
            assert cell["verdict"] != "violated"
        if cell["verdict"] == "violated":
            assert cell["expected"] is not None, f"{cell['id']}: nobody expects a violation"


def check_slack_adds_up(record: Any) -> int:
    """Every certified cell with a finite claim has a slack; return their number."""
    cells = [
        cell
        for cell in record.cells
        if cell.claim and cell.estimate and cell.estimate.certified and cell.claim.epsilon < 1e300
    ]
    for cell in cells:
        assert cell.slack is not None, cell.id
        parts = cell.slack.model_dump(exclude={"limit"}, exclude_none=True).values()
        whole = cell.claim.epsilon - cell.estimate.epsilon_lower
        assert abs(sum(parts) - whole) <= 1e-9 * max(1, abs(whole)), cell.id
    assert sum(cell.slack is not None for cell in record.cells) == len(cells)
    return len(cells)
