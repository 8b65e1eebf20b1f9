"""The record on disk."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpframe.errors import OutputError, RecordError
from dpframe.record.file import dumps, number, read, write
from dpframe.record.verdict import exit_code

EMPTY = {
    "schema": 1, "spec": {}, "environment": {}, "seed": 0, "plugins": [], "cells": [],
    "skipped": [], "summary": {},
}  # fmt: skip


def test_non_finite_numbers_are_strings() -> None:
    text = dumps({"a": math.inf, "b": [-math.inf, {"c": math.nan}], "d": 1.5})
    assert json.loads(text) == {"a": "inf", "b": ["-inf", {"c": "nan"}], "d": 1.5}
    assert number("inf") == math.inf
    assert math.isnan(number(None))


def test_round_trip(tmp_path: Path) -> None:
    write(EMPTY, tmp_path / "deep" / "er")
    assert read(tmp_path / "deep" / "er") == EMPTY
    assert read(tmp_path / "deep" / "er" / "record.json") == EMPTY
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a record"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1, "cells": []}', "lacks spec"),
        ("\x00\xff", "not JSON"),
    ],
)
def test_broken_records_say_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "record.json").write_text(text, encoding="latin-1")
    with pytest.raises(RecordError, match=message):
        read(tmp_path)


def test_missing_record(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no record there"):
        read(tmp_path)


def test_unwritable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write(EMPTY, tmp_path / "file")


def cell(verdict: str | None, expected: str | None = None, status: str = "ok") -> dict[str, object]:
    return {"verdict": verdict, "expected": expected, "status": status}


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ([], 0),
        ([cell("consistent"), cell(None), cell("inconclusive")], 0),
        ([cell("violated")], 1),
        ([cell("violated", "violated")], 0),
        ([cell("consistent", "violated")], 1),
        ([cell("inconclusive", "consistent")], 1),
        ([cell("violated"), cell(None, status="failed")], 3),
        ([cell(None, "violated", status="failed")], 3),
    ],
)
def test_exit_codes(cells: list[dict[str, object]], code: int) -> None:
    assert exit_code({"cells": cells}) == code
