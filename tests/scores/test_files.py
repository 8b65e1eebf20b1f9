"""Scores come from files as they are, or not at all, with a message that says why."""

from __future__ import annotations

import importlib
import os
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from dpframe.errors import ScoresError
from dpframe.scores.columns import as_scores, read_scores

if TYPE_CHECKING:
    from pathlib import Path


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.5, np.nan, -np.inf, np.inf, -0.0]),
        np.array([1.5, 2.5], np.float32),
        np.array([True, False]),
    ],
)
def test_npy(values: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", values)
    found = read_scores(tmp_path / "s.npy").values
    same(found, values)
    assert not found.flags.owndata  # mapped, not loaded


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.array([1, 2], np.int8), np.float64),
        (np.array([1, 2], np.uint64), np.float64),
        (np.array([1, 2], np.float16), np.float32),
        (np.array([1, 2], ">f8"), np.float64),
        (np.array([1, 2], np.longdouble), np.float64),
        ([1, 2.0], np.float64),
        ((1, 2), np.float64),
    ],
)
def test_numbers_become_floats(given: Any, dtype: Any) -> None:
    same(as_scores(given, "x"), np.array([1, 2], dtype))


@settings(deadline=None, max_examples=20)
@given(arrays.arrays(np.float64, st.integers(1, 20), elements=st.floats(width=64)))
def test_csv_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, values: Any
) -> None:
    directory = tmp_path_factory.mktemp("csv")
    text = "\n".join(map(repr, values.tolist()))
    for name, content in (("a", text), ("b", f"score\r\n{text}\n\n"), ("c", f"﻿{text}\n")):
        (directory / f"{name}.csv").write_text(content, encoding="utf-8")
        same(read_scores(directory / f"{name}.csv").values, values)


@pytest.mark.parametrize("text", ["True\nfalse\n", 'decided\n"true"\nFALSE'])
def test_csv_of_decisions(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(text)
    same(read_scores(tmp_path / "s.csv").values, np.array([True, False]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.npy", None, "no such file"),
        ("gone.csv", None, "no such file"),
        ("s.txt", "1", "reads scores from .csv, .tsv, .json, .jsonl, .parquet, .npz, .npy"),
        ("s.npy", "no array", "not an .npy file"),
        ("s.npy", np.zeros((2, 3)), "name the column with --column: there are 3, counted from 1"),
        ("s.npy", np.float64(3), "this has ()"),
        ("s.npy", np.zeros(0), "contains no scores"),
        ("s.npy", np.array(["a"]), "booleans or numbers, not <U1"),
        ("s.npy", np.array([1j]), "complex128"),
        ("s.npy", np.array([{}]), "cannot read it"),
        ("s.csv", "", "contains no scores"),
        ("s.csv", "score\n", "contains no scores"),
        ("s.csv", "1\n\n2\n", "s.csv:2: an empty line; if a score is missing, write nan"),
        ("s.csv", '1\n""\n2\n', "s.csv:2: nothing; if a score is missing, write nan"),
        ("s.csv", "1\n2,3\n", "s.csv:2: 2 columns, and 1 above"),
        ("s.csv", "a,b\n2,3\n", "s.csv: name the column with --column: there are a, b"),
        ("s.csv", "score\n1\nx\n", "s.csv:3: 'x' is not a number"),
        ("s.csv", "true\nmaybe\n", "s.csv:2: 'maybe' is neither true nor false"),
        ("s.csv", "true\n1\n0.5\n", "s.csv:3: '0.5' is neither true nor false"),
        ("s.csv", "score\n1\n\0", "not a"),
        ("s.csv", b"\xff\xfe1", "not a text file in UTF-8"),
    ],
)
def test_mistakes(name: str, content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(ScoresError) as error:
        read_scores(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_a_directory_and_ragged_rows(tmp_path: Path) -> None:
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(ScoresError, match="is a directory"):
        read_scores(tmp_path / "d.npy")
    with pytest.raises(ScoresError, match="one list of numbers"):
        as_scores([[1], [2, 3]], "x")
    with pytest.raises(ScoresError, match="masked"):
        as_scores(np.ma.array([1.0, 2.0], mask=[0, 1]), "x")


def test_parquet_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pandas(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", no_pandas)
    with pytest.raises(ScoresError, match=r"pip install 'dpframe\[pandas\]'"):
        read_scores(tmp_path / "s.parquet")


class Column:
    """As much of a pandas column as is used."""

    def __init__(self, values: Any, missing: bool = False) -> None:
        self.values, self.hasnans, self.dtype = (
            np.asarray(values),
            missing,
            np.asarray(values).dtype,
        )

    def to_numpy(self, dtype: Any = None, na_value: Any = None) -> Any:
        return self.values.astype(dtype or self.values.dtype)


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [
        ([Column([1.0, np.nan], missing=True)], np.array([1.0, np.nan])),
        ([Column([1, 2])], np.array([1.0, 2.0])),
        ([Column([True, False])], np.array([True, False])),
        ([Column([True, False], missing=True)], "a decision is missing"),
        ([Column([1]), Column([2])], "name the column with --column: there are 0, 1"),
        ([Column(["a"])], "booleans or numbers"),
        (OSError("torn"), "cannot read it"),
    ],
)
def test_parquet(
    columns: Any, outcome: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for pandas, which the tests do without."""
    path = tmp_path / "s.parquet"

    def read_parquet(_: Path) -> Any:
        if isinstance(columns, Exception):
            raise columns
        return types.SimpleNamespace(columns=range(len(columns)), iloc=_Columns(columns))

    pandas = types.SimpleNamespace(read_parquet=read_parquet)
    monkeypatch.setattr(importlib, "import_module", lambda _: pandas)
    with pytest.raises(ScoresError, match="no such file"):
        read_scores(path)
    path.touch()
    if isinstance(outcome, str):
        with pytest.raises(ScoresError, match=outcome):
            read_scores(path)
    else:
        same(read_scores(path).values, outcome)


class _Columns:
    def __init__(self, columns: list[Column]) -> None:
        self.columns = columns

    def __getitem__(self, place: Any) -> Column:
        return self.columns[place[1]]


def lying(header: str) -> bytes:
    """An .npy file with this header and ten numbers."""
    padded = header.encode() + b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(80)


@pytest.mark.parametrize(
    "header",
    [
        *(
            f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
            for kind, shape in [
                ("<f8", "(10**18,)"),
                ("<f8", f"({10**18},)"),
                ("<f8", f"({10**40},)"),
                ("<f8", "(-5,)"),
                ("<f8", "(True,)"),
                ("<f8", "5"),
                ("|O", "(5,)"),
                ("\x1b[31m", "(5,)"),
            ]
        ),
        "(" * 5000,
        "[" * 200 + "]" * 200,
        "",
    ],
)
def test_headers_that_lie(header: str, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(lying(header))
    with pytest.raises(ScoresError):
        read_scores(file)


@pytest.mark.parametrize("ending", [".npy", ".csv"])
def test_a_pipe_is_not_waited_for(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"x{ending}"
    os.mkfifo(file)
    with pytest.raises(ScoresError, match="is not a regular file"):
        read_scores(file)


def test_one_column_of_several(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,loss\na,1\nb,2\n")
    assert read_scores(tmp_path / "t.csv", "loss").values.tolist() == [1.0, 2.0]
    np.savez(tmp_path / "one.npz", anything=np.array([[1.0], [2.0]]))
    assert read_scores(tmp_path / "one.npz").values.tolist() == [1.0, 2.0]
    np.savez(tmp_path / "two.npz", a=[1.0], b=[2.0])
    with pytest.raises(ScoresError, match="name the column with --column: there are a, b"):
        read_scores(tmp_path / "two.npz")
    assert read_scores(tmp_path / "two.npz", "b").values.tolist() == [2.0]
    (tmp_path / "usual.csv").write_text("id,Score\na,1\nb,2\n")
    assert read_scores(tmp_path / "usual.csv").values.tolist() == [1.0, 2.0]
    np.save(tmp_path / "s.npy", np.zeros((3, 1), np.float32))
    same(read_scores(tmp_path / "s.npy").values, np.zeros(3, np.float32))
