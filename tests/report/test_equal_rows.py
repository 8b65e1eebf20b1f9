"""Rows of a grid that show the very same are one row, and no others."""

import re

import pytest

EPSILONS = (0.1, 0.2, 0.5, 1.0)


def rows(text):
    """Return the names of the rows of the grid."""
    grid = text.partition("claimed ε ")[2].partition("────\n")[2].partition("\n\n")[0]
    return [m[1] for m in re.finditer(r"^ *([\d.]+(?: … [\d.]+)?) {2,}", grid, re.MULTILINE)]


def constant(records):
    return [records.cell("random-output", e, d) for e in EPSILONS for d in (1, 2)]


def test_equal_rows_are_one(records, show):
    text = show(records.record(constant(records)))
    assert rows(text) == ["0.1 … 1"]
    assert text.count("≤ 0.00247") == 1
    assert rows(show(records.record(constant(records)[:2] + constant(records)[6:]))) == ["0.1 … 1"]


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "inconclusive"},
        {"expected": "violated"},
        {"estimate": {"epsilon": 0.25}},
        {"estimate": {"epsilon_lower": 0.01}},
        {"estimate": {"epsilon_upper": 0.5}},
    ],
)
@pytest.mark.parametrize("column", [0, 1])
def test_rows_that_differ_in_anything_shown_are_not(records, show, change, column):
    cells = constant(records)
    found = cells[2 + column]  # the second row
    estimate = found["estimate"] | change.get("estimate", {})
    found |= {**change, "estimate": estimate}
    assert rows(show(records.record(cells))) == ["0.1", "0.2", "0.5 … 1"]


def test_a_claim_within_the_cells_keeps_rows_apart(records, show):
    cells = constant(records)
    for cell in cells:
        claim = cell["swept"]["mechanism.epsilon"] * cell["swept"]["pair.dim"]
        cell["claim"] = records.pure_claim(claim)
    assert "…" not in show(records.record(cells))


def test_rows_that_are_not_neighbours_are_not_one(records, show):
    cells = constant(records)
    cells[4]["estimate"] |= {"epsilon": 0.25}  # the third row
    assert rows(show(records.record(cells))) == ["0.1 … 0.2", "0.5", "1"]


def test_rows_without_cells_are_not_folded_away(records, show):
    cells = [c for c in constant(records) if c["swept"]["mechanism.epsilon"] in (0.1, 1.0)]
    cells[0]["swept"] = cells[0]["swept"] | {"pair.dim": 8}
    assert "dim 8" in show(records.record(cells))
