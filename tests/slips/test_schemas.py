"""Schemas as people write them are read, or a message shows what to write."""

from __future__ import annotations

import array
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpframe
from dpframe import DpframeError, records_params, search_violation
from dpframe.draw.in_process import InProcessWorkers

ONE = np.array([0.1, 0.4])
TWO = np.array([[0.1, 3.0], [0.4, 5.0]])
NAMED = {"age": [30, 40], "color": ["r", "g"]}
X, Y = np.array([[0.1], [0.2]]), np.array([0, 1])
RANGE = {"low": -1, "high": 1}
COLOR = {"name": "color", "categories": ["r", "g"]}


def schema_of(table: Any, schema: Any) -> Any:
    return records_params(table, adjacency="replace", schema=schema)["schema"]


@pytest.mark.parametrize(
    ("table", "schema", "read"),
    [
        (ONE, [(-1, 1)], [RANGE]),
        (ONE, (-1, 1), [RANGE]),
        (ONE, [-1, 1], [RANGE]),
        (ONE, {"x": (-1, 1)}, [{**RANGE, "name": "x"}]),
        (ONE, {"lower": -1, "upper": 1}, [RANGE]),
        (ONE, [{"min": -1, "max": 1}], [RANGE]),
        (ONE, [{"bounds": (-1, 1)}], [RANGE]),
        (ONE, [{"range": [-1, 1]}], [RANGE]),
        (ONE, [(np.int64(-1), np.int32(1))], [RANGE]),
        (ONE, [range(10)], [{"low": 0, "high": 9, "integer": True}]),
        (ONE, [(0, None)], [{"low": 0}]),
        (3.0, (0, 5), [{"low": 0, "high": 5}]),
        (TWO, np.array([[0, 1], [0, 9]]), [{"low": 0, "high": 1}, {"low": 0, "high": 9}]),
        (
            NAMED,
            {"age": (0, 120), "color": ["r", "g"]},
            [{"name": "age", "low": 0, "high": 120}, COLOR],
        ),
        (
            NAMED,
            {"age": int, "color": str},
            [{"name": "age", "integer": True}, {"name": "color"}],
        ),
        (NAMED, {"color": {"values": ["r", "g"]}}, [COLOR]),
        (
            NAMED,
            [{"name": "age", "type": int, "min": 0}],
            [{"name": "age", "integer": True, "low": 0}],
        ),
        ((X, Y), {"label": {0, 1}}, [{"name": "y", "categories": [0, 1]}]),
        (
            (X[:, 0], Y),
            {"x": (-1, 1), "y": (0, 1)},
            [RANGE | {"name": "x"}, {"name": "y", "low": 0, "high": 1}],
        ),
    ],
)
def test_a_schema_is_read(table: Any, schema: Any, read: list[dict[str, Any]]) -> None:
    assert schema_of(table, schema) == read


@pytest.mark.parametrize(
    ("table", "schema", "says"),
    [
        (NAMED, {"agee": (0, 1)}, "no column 'agee'; it has age, color; did you mean 'age'"),
        (ONE, [(0, 1), (0, 1)], "2 entries, but the table has 1 column"),
        (TWO, [(0, 1)], "1 entry, but the table has 2 columns"),
        (TWO, (0, 1), "describes one column, but the table has 2"),
        (ONE, [(1, -1)], "column c0: low is 1 and high is -1; exchange them"),
        (ONE, [("-1", "1")], "column c0: low is '-1', a text; write -1"),
        (ONE, [{"low": "0", "high": 1}], "column c0: low is '0', a text; write 0"),
        (ONE, [(float("nan"), 1)], "column c0: low is nan; write a number"),
        (ONE, [{"lowerr": 0}], "unknown key 'lowerr'; accepted are name, low, high"),
        (ONE, 5, "column c0: 5 cannot be read; write one entry for each column, such as"),
        (ONE, [True], "column c0: True cannot be read"),
        ((X, Y), {"y": [0, 1]}, 'may be a range or two categories; write {"low": 0, "high": 1}'),
        (NAMED, {"color": {"categories": "r"}}, "column color: categories is 'r'; write"),
        (NAMED, {"age": "integr"}, None),
    ],
)
def test_a_message_shows_the_accepted_form(table: Any, schema: Any, says: str | None) -> None:
    if says is None:
        assert schema_of(table, schema) == [{"name": "age"}]
        return
    with pytest.raises(DpframeError) as found:
        schema_of(table, schema)
    assert says in str(found.value)
    assert "\n" not in str(found.value)


def noisy_sum(generator: Any, values: Any) -> float:
    return float(np.clip(values, -1, 1).sum() + generator.laplace(scale=2.0))


def test_one_axis_of_features_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpframe.pytest._workers", InProcessWorkers)

    def release(generator: Any, table: Any) -> float:
        x, y = table
        assert x.ndim == y.ndim == 1
        return noisy_sum(generator, x)

    what: Any = {"adjacency": "replace", "epsilon": 1.0, "beyond": False, "raises": "fail"}
    schema = {"x": (-1, 1), "label": {0, 1}}
    record = search_violation(release, (X[:, 0], Y), schema=schema, trials=300, seconds=300, **what)
    assert record.cells[0].verdict == "consistent"


def test_an_array_of_the_standard_library_is_a_table_of_its_entries() -> None:
    params = records_params(array.array("d", [0.1, 0.4]), adjacency="replace")
    assert params["table"] == [0.1, 0.4]


SUITE = """
import numpy as np
from dpframe.pytest import search_violation

def search(schema, adjacency="replace"):
    __tracebackhide__ = True
    search_violation(lambda v: np.sum(v), [.1, .4], schema=schema, adjacency=adjacency, epsilon=1.0)

def test_bounds():
    search([(1, -1)])

def test_table():
    search([(0, .2)])

def test_adjacency():
    search([(0, 1)], "replaced")
"""


def test_pytest_shows_the_users_line_and_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "dpframe.pytest", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(Path(dpframe.__file__).parents[1]), str(tmp_path)])
    kept = {name: one for name, one in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    shown = done.stdout.partition("FAILURES")[2].partition("short test summary")[0]
    assert len(shown.splitlines()) <= 3 * 10
    assert "dpframe/" not in shown
    for says in (
        "column c0: low is 1 and high is -1",
        "column c0 does not fit the table: record 1 has 0.4",
        "did you mean 'replace'",
    ):
        assert says in shown
