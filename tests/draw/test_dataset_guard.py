"""A box cannot change its data, or not without being noticed."""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpframe import HostMechanism, PureDP
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.requests import BlackBoxPayload, Request
from dpframe.draw.streams import EVAL, Asking, Stream
from dpframe.draw.worker.mechanism_sampler import copier
from dpframe.draw.worker.plain_data import SharedValue
from dpframe.errors import SampleError
from dpframe.interfaces.attack import Answers

ARRAYS: list[Any] = [
    np.arange(6.0).reshape(2, 3),
    np.arange(6, dtype=">i2"),
    np.array(5.0),
    np.zeros((0, 3)),
    np.arange(6.0).reshape(2, 3).T,
    np.broadcast_to(1.0, 4),
    np.array(["a", "bc"]),
    np.array([(1, 2.0)], [("a", int), ("b", float)]),
]
VALUES: list[Any] = [{"a": [1, 2]}, (np.arange(3), "x"), None, 2**70, [np.array([None], object)]]
VALUES.append(np.ma.array([1.0, 2.0], mask=[0, 1]))


@pytest.mark.parametrize("value", ARRAYS)
def test_arrays_are_handed_out_as_they_are_and_cannot_be_written_to(value: Any) -> None:
    copies = copier(value)
    assert copies() is copies()
    copy = copies()
    assert (copy.dtype, copy.shape) == (value.dtype, value.shape)
    assert copy.tobytes() == value.tobytes()
    assert not copy.flags.writeable
    if copy.size:
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            copy.flags.writeable = True
    assert not SharedValue(copy, whole=True).changed()


def test_force_is_noticed() -> None:
    copy = copier(np.zeros(8))()
    shared = SharedValue(copy, whole=True)
    ctypes.memset(copy.ctypes.data + 63, 1, 1)
    assert shared.changed()
    ctypes.memset(copy.ctypes.data + 63, 0, 1)
    assert not shared.changed()


@pytest.mark.parametrize("value", VALUES)
def test_other_values_are_copied_whole(value: Any) -> None:
    copies = copier(value)
    one, other = copies(), copies()
    assert repr(one) == repr(other) == repr(value)
    assert not SharedValue(one, whole=True).changed()
    assert value is None or isinstance(value, int) or one is not other


def test_a_change_deep_inside_is_noticed() -> None:
    copy = copier({"a": [np.zeros(3), "x"]})()
    shared = SharedValue(copy, whole=True)
    copy["a"][0][1] = 1e-300
    assert shared.changed()


class State(NamedTuple):
    """Data, beside objects that change with every call."""

    rows: Any
    noise: Any
    connection: Any


def state_of(rows: Any) -> State:
    return State(rows, np.random.default_rng(0), sqlite3.connect(":memory:"))


def frame(_: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"]})


def summarised(data: Any) -> None:
    """Read a frame, which may change how it is stored."""
    data.describe()
    data.values  # noqa: B018
    data["a"].fillna(0.0).sum()


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "the data": (lambda data: data, lambda state: state["rows"].pop()),
    "the data in a function": (lambda data: data["rows"].pop, lambda state: state()),
    "data made of the data": (lambda data: [*data["rows"]], lambda state: state.pop()),
    "a row": (lambda data: state_of([[1.0, "a"]]), lambda state: state.rows[0].reverse()),
    "a longer list": (lambda data: state_of([0.0]), lambda state: state.rows.append(1.0)),
    "a set": (lambda data: {1, 2}, lambda state: state.pop()),
    "an array": (lambda data: {"x": np.zeros(3)}, lambda state: np.add(state["x"], 1, state["x"])),
    "objects": (lambda data: np.array([None, "a"]), lambda state: state.put(0, "b")),
    "a frame": (frame, lambda state: state.pop("b")),
    "a cell": (frame, lambda state: state.__setitem__("a", 0.0)),
    "an argument": (lambda data: partial(list.pop, [1, 2, 3]), lambda state: state()),
}

CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reads": (lambda data: data, lambda state: sum(state["rows"])),
    "draws": (state_of, lambda state: state.noise.random()),
    "asks": (state_of, lambda state: state.connection.execute("CREATE TABLE IF NOT EXISTS t(x)")),
    "remembers": (lambda data: {**data, "sums": {}}, lambda state: state["sums"].update(a=np.nan)),
    "orders": (lambda data: {"a": np.nan, "b": {1, 2}}, lambda s: s.update(a=s.pop("a"))),
    "summarises": (frame, summarised),
}

BOXES = {**CHANGES, **CALLS}


class Prepares(HostMechanism, name="prepares"):
    """Makes a state of the data, and calls that may change it."""

    what: str

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def prepare(self, data: Any) -> Any:
        return BOXES[self.what][0](data)

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        BOXES[self.what][1](data)
        return rng.random()


def release(what: str) -> None:
    """Draw three answers."""
    if frame in BOXES[what]:
        pytest.importorskip("pandas")
    request = Request(0, 0, Stream(0, "g", 0, EVAL), 0, 0, 1, 3, Asking(True, False, False, None))
    with InProcessWorkers().lend(
        BlackBoxPayload((Prepares(what=what),), ({"rows": [1.0, 2.0]}, {}))
    ) as (worker,):
        answers = Answers(worker.outputs(request, None))
    assert answers.raised.tolist() == [False] * 3


@pytest.mark.parametrize("what", CHANGES)
def test_no_call_may_change_what_later_calls_get(what: str) -> None:
    with pytest.raises(SampleError, match="a call changed its data, or the state"):
        release(what)


@pytest.mark.parametrize("what", CALLS)
def test_calls_may_use_generators_connections_and_caches(what: str) -> None:
    release(what)


def test_a_dataset_that_was_empty_must_stay_so() -> None:
    data: dict[str, Any] = {"rows": []}
    dataset, state = SharedValue(data, whole=True), SharedValue(data, whole=False)
    assert not dataset.changed()
    data["rows"].append(1.0)
    assert dataset.changed()
    assert not state.changed()


class Appends(HostMechanism, name="appends"):
    """Changes its dataset in place."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        data.append(1.0)
        return rng.random(n)


def test_a_box_that_prepares_nothing_may_not_change_its_dataset_either() -> None:
    data: tuple[list[float], list[float]] = ([1.0], [])
    request = Request(0, 1, Stream(0, "g", 0, EVAL), 1, 0, 2, 3)
    with InProcessWorkers().lend(BlackBoxPayload((Appends(),), data)) as (worker,):
        for _ in range(2):  # nor does the change count as the dataset of later draws
            with pytest.raises(SampleError, match="sample changed the dataset"):
                worker.outputs(request, None)
    assert data == ([1.0], [])
