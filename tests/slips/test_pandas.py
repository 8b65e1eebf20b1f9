"""Slips with frames and series: they are read as tables, and their mistakes are named."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import dp_accounting
import numpy as np
import pytest

from dpframe import AccountedDP, DpframeError, assert_dp, records_params, search_violation
from dpframe.draw.in_process import InProcessWorkers
from dpframe.pytest import UndecidedError

if TYPE_CHECKING:
    from pathlib import Path

pd = pytest.importorskip("pandas")

GAUSSIAN = dp_accounting.GaussianDpEvent(1.0)
AGE, COLOR = {"name": "age", "integer": True}, {"name": "color", "categories": ["r", "g"]}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dpframe.pytest._workers", InProcessWorkers)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_types_of_pandas_are_a_schema() -> None:
    frame = pd.DataFrame({"age": [30, 40], "color": ["r", "g"]})
    for schema, read in (
        ({"color": pd.CategoricalDtype(["r", "g"])}, [COLOR]),
        (frame.dtypes, [AGE, {"name": "color"}]),
        ({"age": int, "color": ["r", "g"]}, [AGE, COLOR]),
    ):
        assert records_params(frame, adjacency="replace", schema=schema)["schema"] == read


@pytest.mark.parametrize("schema", [None, [(-1, 1)], {"x": (-1, 1)}])
def test_a_column_of_pandas_is_a_table_of_its_entries(schema: Any) -> None:
    def clipped(rng: Any, column: Any) -> float:
        return float(column.fillna(0).clip(-1, 1).sum() + rng.laplace(scale=2.0))

    column = pd.Series([0.1, 0.4, 0.2], name="x")
    neighbours = {"schema": schema, "adjacency": "replace", "beyond": False}
    record = search_violation(clipped, column, **neighbours, epsilon=1.0, trials=300)
    assert record.cells[0].verdict == "consistent"


def test_frames_that_contradict_the_relation_are_refused() -> None:
    d0, d1 = (pd.DataFrame({"x": [1.0, np.nan, last]}) for last in (2.0, 3.0))
    with pytest.raises(DpframeError, match=r"it is for neighbours by .*, but D"):
        assert_dp(lambda rng, data: rng.normal(), d0=d0, d1=d1, claim=AccountedDP(GAUSSIAN))


def test_frames_that_may_be_of_the_relation_are_not_refused() -> None:
    d0, d1 = (pd.DataFrame({"x": [1.0, last]}) for last in (2.0, None))
    claim = AccountedDP(GAUSSIAN, relation="replace-special")
    found = assert_dp(lambda rng, data: rng.normal(), d0=d0, d1=d1, claim=claim, trials=500)
    assert found.cells[0].verdict != "violated"


def looks_up_a_group(rng: Any, values: Any) -> float:
    groups = pd.Series([1.0], index=["b" if values[0] > 0 else "a"])
    return float(groups.loc["a"] + rng.laplace())


def test_a_missing_group_is_a_mistake_and_no_violation() -> None:
    message = r"answers on D′ were exceptions.* KeyError: 'a' .*looks_up_a_group"
    with pytest.raises(UndecidedError, match=message):
        assert_dp(looks_up_a_group, d0=[0.0], d1=[1.0], epsilon=1.0, trials=1_000)
