"""Mistakes in the tables of the accountants."""

from __future__ import annotations

import csv
import io

import pytest
from dpframe_libraries.accountants.reporting import _csv


@pytest.mark.parametrize("text", ["=1+1", "\n=1", "\t@SUM(A1)"])
def test_no_cell_of_a_csv_begins_like_a_formula(text: str) -> None:
    (row,) = csv.DictReader(
        io.StringIO(_csv([{"failure": text, "epsilon": "-inf", "lower": -1.0}]))
    )
    assert row["failure"].startswith("'")
    assert (row["epsilon"], row["lower"]) == ("-inf", "-1.0")
