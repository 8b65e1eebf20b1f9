"""CSV: every number as the record has it, and nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import re
import sys

import pytest
from support import made_records

from dpframe.errors import OutputError
from dpframe.results.rows import COLUMNS, document
from dpframe.results.store import as_record


def table(*cells, **changes):
    found = made_records.record(cells, **changes)
    text = document(as_record(found))
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_a_row_a_cell_with_all_columns():
    text = document(as_record(made_records.figure_2()))
    assert text.count("\r\n") == 253
    assert "\n" not in text.replace("\r\n", "")
    head, *body = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert head == [*COLUMNS, "mechanism.epsilon", "pair.dim"]
    assert {len(row) for row in body} == {len(head)}


def test_numbers_are_those_of_the_record():
    (row,) = table(cell := made_records.cell("copy-input", 0.1, 2))
    estimate = cell["estimate"]
    assert float(row["epsilon_lower"]) == estimate["epsilon_lower"]
    assert (row["epsilon"], row["epsilon_upper"]) == ("inf", "inf")
    assert (row["certified"], row["trials_d_prime"]) == ("true", "10000000")
    assert (row["mechanism.epsilon"], row["pair.dim"]) == ("0.1", "2")


def test_what_is_not_there_is_empty():
    failed, estimate = table(made_records.failed_cell(), made_records.estimate_only())
    assert (failed["status"], failed["epsilon"], failed["verdict"]) == ("failed", "", "")
    assert "outputs have shape" in failed["reason"]
    assert (estimate["epsilon_lower"], estimate["certified"]) == ("", "false")


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "＝1"])
def test_no_text_is_a_formula(label):
    cell = made_records.cell()
    cell["mechanism"]["label"] = label
    cell["swept"] = {"=key": label}
    (row,) = table(cell)
    for text in (row["mechanism"], row["'=key"]):
        assert text == "'" + label


def test_text_stays_one_field_and_does_nothing_to_a_terminal():
    cell = made_records.cell()
    cell["mechanism"]["label"] = 'a,"b"\nc\x1b[2J\u202e'
    (row,) = table(cell)
    assert row["mechanism"] == 'a,"b"\nc\\x1b[2J\\u202e'


def test_keys_that_only_some_cells_have():
    first, second = table(
        made_records.cell() | {"swept": {"a": 1}}, made_records.cell() | {"swept": {"b": [1, "x"]}}
    )
    assert (first["a"], first["b"], second["a"], second["b"]) == ("1", "", "", '[1, "x"]')


def test_negative_numbers_are_no_text():
    cell = made_records.cell()
    cell["estimate"]["epsilon"] = -0.25
    (row,) = table(cell)
    assert re.fullmatch(r"-0\.25", row["epsilon"])


def test_a_data_frame_has_the_columns_and_rows_of_the_file():
    pandas = pytest.importorskip("pandas")
    cells = [made_records.cell("copy-input", 0.1, 2), made_records.failed_cell()]
    found = as_record(made_records.record(cells))
    read = pandas.read_csv(io.StringIO(document(found)), true_values=["true"])
    frame = found.to_pandas()
    assert list(frame.columns) == list(read.columns)
    assert list(frame["id"]) == list(read["id"])
    assert frame["epsilon_lower"].dtype == frame["interval_lower"].dtype == float
    both = ["epsilon", "epsilon_lower", "epsilon_upper", "p_value", "mechanism.epsilon"]
    pandas.testing.assert_frame_equal(frame[both], read[both], check_exact=True)
    assert list(frame["mechanism_params"]) == list(read["mechanism_params"])
    assert frame["epsilon"][0] == float("inf")
    assert as_record(made_records.record([])).to_pandas().empty


def test_without_pandas_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OutputError, match=r"pip install 'dpframe\[pandas\]'"):
        as_record(made_records.record([])).to_pandas()
