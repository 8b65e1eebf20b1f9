"""The record on disk."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from support import made_records

from dpframe.errors import OutputError, RecordError
from dpframe.results.model import Record
from dpframe.results.store import as_record, dumps, exit_code, load, write


def test_non_finite_numbers_are_strings() -> None:
    text = dumps({"a": math.inf, "b": [-math.inf, {"c": math.nan}], "d": 1.5})
    assert json.loads(text) == {"a": "inf", "b": ["-inf", {"c": "nan"}], "d": 1.5}


def test_round_trip(recorded: Record, tmp_path: Path) -> None:
    record = recorded
    write(record, tmp_path / "deep" / "er")
    assert load(tmp_path / "deep" / "er") == record
    assert load(tmp_path / "deep" / "er" / "record.json") == record
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["record.json"]


def test_numbers_that_are_not_finite_come_back() -> None:
    cell = made_records.cell("copy-input", 1.0, 1)
    record = as_record(made_records.record([cell]))
    assert record.cells[0].estimate is not None
    assert record.cells[0].estimate.epsilon == math.inf
    assert json.loads(dumps(record))["cells"][0]["estimate"]["epsilon"] == "inf"
    assert record.as_dict()["cells"][0]["estimate"]["epsilon"] == math.inf
    assert as_record(record.as_dict()) == as_record(record.as_json()) == record


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 10**5, "not JSON"),
        ('{"schema": 1, "seed": ' + "9" * 5000 + "}", "not JSON"),
        ('{"schema": 1, "seed": NaN}', "not JSON"),
        ('{"schema": 1, "seed": "\\ud800"}', "not JSON"),
        ("\x00\xff", "not JSON"),
        ("[]", "not a record"),
        ("1", "not a record"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": true}', "schema True"),
        ('{"schema": {"a": 1}}', "schema {'a': 1}"),
        ('{"schema": 1, "kind": "score"}', "output of another command"),
        ('{"schema": 1, "cells": []}', "spec: field required, and 6 more"),
    ],
)
def test_broken_records_say_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "record.json").write_text(text, encoding="latin-1")
    with pytest.raises(RecordError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("cells", 0, "verdict"), "fine", r"cells\[0\].verdict: input should be 'violated'"),
        (("cells", 0), None, r"cells\[0\]: input should be an object, not None"),
        (("cells", 0, "trials"), [1], r"cells\[0\].trials: list should have at least 2 items"),
        (("cells", 0, "trials", 0), 1.5, r"trials\[0\]: input should be a valid integer"),
        (("cells", 0, "p_value"), 0, "greater than 0"),
        (("cells", 0, "p_value"), True, "valid number, not True"),
        (("cells", 0, "estimate", "epsilon"), "1.0", "input should be a number, not '1.0'"),
        (("cells", 0, "estimate", "epsilon_lower"), "inf", "epsilon_lower: input should be"),
        (("summary", "m"), 2**70, "less than or equal to"),
        (("summary", "\x1b[31m"), "red\x1b[31m", r"summary.\\x1b\[31m: extra inputs are"),
    ],
)  # fmt: skip
def test_wrong_types_are_named_with_their_place(
    recorded: Record, tmp_path: Path, place: tuple[Any, ...], value: Any, message: str
) -> None:
    contents = json.loads(dumps(recorded))
    table = contents
    for key in place[:-1]:
        table = table[key]
    table[place[-1]] = value
    (tmp_path / "record.json").write_text(json.dumps(contents))
    with pytest.raises(RecordError, match=message) as error:
        load(tmp_path)
    assert str(error.value).isprintable()


def test_missing_record(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="there is no such record"):
        load(tmp_path)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """Waiting for a pipe, or for the end of a device, would take for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "record.json").mkdir()
    for path, message in (
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path, "is a directory"),
    ):
        with pytest.raises(RecordError, match=message):
            load(path)


def test_unwritable_directory(recorded: Record, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write(recorded, tmp_path / "file")


def cell(verdict: str | None, expected: str | None = None, status: str = "ok") -> dict[str, Any]:
    changes = {"verdict": verdict, "expected": expected, "status": status}
    return made_records.cell(**changes)


def skip(expected: str | None) -> dict[str, Any]:
    labels = dict.fromkeys(("mechanism", "pair", "attack", "estimator"), "a")
    return {**labels, "swept": {}, "reason": "b", "expected": expected}


@pytest.mark.parametrize(
    ("cells", "skipped", "code"),
    [
        ([], [], 3),
        ([], [skip(None)], 3),
        ([], [skip("violated")], 3),
        ([cell("consistent"), cell(None), cell("inconclusive")], [], 0),
        ([cell("consistent")], [skip(None)], 0),
        ([cell("consistent")], [skip("consistent")], 1),
        ([cell("violated")], [], 1),
        ([cell("violated", "violated")], [], 0),
        ([cell("violated", "violated")], [skip("violated")], 1),
        ([cell("consistent", "violated")], [], 1),
        ([cell(None, "violated")], [], 1),
        ([cell("inconclusive", "consistent")], [], 1),
        ([cell("violated"), cell(None, status="failed")], [], 3),
        ([cell(None, "violated", status="failed")], [], 3),
    ],
)
def test_exit_codes(cells: list[dict[str, Any]], skipped: list[dict[str, Any]], code: int) -> None:
    assert exit_code(made_records.record(cells, skipped=skipped)) == code


def test_an_exit_code_is_of_a_record() -> None:
    with pytest.raises(RecordError, match="not a record"):
        exit_code({"cells": []})
    with pytest.raises(RecordError, match="not JSON"):
        exit_code({**made_records.record([]), "seed": object()})
