"""Distances of datasets, also of those that are compared block by block."""

from __future__ import annotations

import copy
import math
import re
from typing import Any, ClassVar

import numpy as np
import pytest

from dpframe import Pair
from dpframe.builtin.pairs import ZerosOnes
from dpframe.interfaces import pair


class Uneven(Pair, name="uneven"):
    adjacency: ClassVar[str] = "replace one record"

    @property
    def d0(self) -> Any:
        return {"a": np.arange(35.0).reshape(5, 7), "b": np.float32(3)}

    @property
    def d1(self) -> Any:
        return {"a": np.arange(35.0).reshape(5, 7) ** 1.5, "b": np.float32(7)}


class Mismatched(Pair, name="mismatched"):
    adjacency: ClassVar[str] = "replace one record"

    @property
    def d0(self) -> Any:
        return {"a": np.zeros((5, 7)), "b": np.float32(3)}

    @property
    def d1(self) -> Any:
        return {"a": np.zeros((5, 1)), "b": np.float32(7)}


@pytest.mark.parametrize("p", [1, 1.5, 2, math.inf])
@pytest.mark.parametrize("block", [1, 10, 30, 1 << 20])
def test_the_distance_does_not_depend_on_the_blocks(
    p: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair, "BLOCK", block)
    k = np.arange(35.0)
    expected = np.linalg.norm([*(k**1.5 - k), 4.0], ord=p)
    assert Uneven().distance(p) == pytest.approx(expected, rel=1e-14)


def test_datasets_of_different_shapes_have_no_distance() -> None:
    with pytest.raises(ValueError, match=r"D has the shape \(5, 7\), D′ has \(5, 1\)"):
        Mismatched().distance(1)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf])
@pytest.mark.parametrize("dim", [1, 2, 7, 128])
def test_zeros_and_ones(dim: int, p: float) -> None:
    both = ZerosOnes(dim=dim)
    assert both.distance(p) == np.linalg.norm(np.float64(both.d1) - np.float64(both.d0), ord=p)
    assert (both.d0.tolist(), both.d1.tolist()) == ([0.0] * dim, [1.0] * dim)
    assert both.d0.dtype == both.d1.dtype == np.float32


def test_a_billion_coordinates_take_no_memory() -> None:
    both = ZerosOnes(dim=10**9)
    assert both.d1.nbytes == 4 * 10**9
    assert both.distance(1) == 1e9


# --- any value


class Both(Pair, name="both"):
    """Any two values."""

    adjacency: ClassVar[str] = "as given"

    def __init__(self, d0: Any, d1: Any) -> None:
        object.__setattr__(self, "both", (d0, d1))

    d0 = property(lambda self: self.both[0])
    d1 = property(lambda self: self.both[1])


def in_itself(*others: Any, deep: bool = False, kind: type = list) -> Any:
    """A list, a dict or an array that holds itself, or a list around it."""
    found: Any = [None, *others]
    if kind is dict:
        found = dict(enumerate(found))
    elif kind is np.ndarray:
        found = np.array(found, object)
    found[0] = [found] if deep else found
    return found


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (in_itself(1), in_itself(1), True),
        (in_itself(1), in_itself(2), False),
        (in_itself(1), in_itself(1, deep=True), False),
        (in_itself(deep=True), [in_itself(deep=True)], False),
        (in_itself(1, kind=dict), in_itself(1, kind=dict), True),
        (in_itself(1, kind=np.ndarray), in_itself(1, kind=np.ndarray), True),
        (in_itself(1, kind=np.ndarray), in_itself(2, kind=np.ndarray), False),
        ("a", "a", True),
        ("a", "b", False),
        (0.0, -0.0, False),
        (math.nan, -math.nan, True),
        (math.nan, float("nan"), True),
        (1, True, False),
        (1, 1.0, False),
        ([1, 2], (1, 2), False),
        ([1, [2]], [1, [2]], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        (np.array([1.0, math.nan]), np.array([1.0, math.nan]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.array([1]), np.array([1.0]), False),
        (np.array([[1]]), np.array([1]), False),
        (np.array(["a", None]), np.array(["a", None]), True),
        (np.array(["a", None]), np.array(["a", 1.0]), False),
        (None, None, True),
        (b"a", bytearray(b"a"), False),
        ({1, 2}, {2, 1}, True),
        (Exception("a"), Exception("b"), False),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 1]), True),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0]), False),
    ],
)
def test_equal_to_the_bit(one: Any, other: Any, alike: bool) -> None:
    assert pair.equal(Both(one, other)) == pair.equal(Both(other, one)) == alike


def test_tables_of_pandas_are_compared() -> None:
    pandas = pytest.importorskip("pandas")
    one = pandas.DataFrame({"a": [1.0, math.nan], "b": ["x", None]})
    assert pair.equal(Both(one, one.copy()))
    for other in (
        one.assign(a=[1.0, 2.0]),
        one.assign(c=1),
        one.iloc[:1],
        one.astype({"a": "float32"}),
    ):
        assert not pair.equal(Both(one, other))


@pytest.mark.parametrize(
    ("d0", "d1", "says"),
    [
        (np.zeros(3), np.ones(3), None),
        (np.zeros((3, 2)), np.zeros((4, 2)), None),
        (
            {"x": np.zeros((3, 2)), "y": np.zeros(3)},
            {"x": np.zeros((2, 2)), "y": np.zeros(2)},
            None,
        ),
        (
            {"x": np.zeros((3, 2)), "y": np.zeros(3)},
            {"x": np.zeros((2, 2)), "y": np.zeros(3)},
            "number of rows",
        ),
        (np.zeros((3, 2)), np.zeros((3, 3)), "may differ only"),
        (np.zeros(3), np.zeros(3, int), "may differ only"),
        (np.zeros(()), np.zeros(1), "may differ only"),
        ([1.0], [1.0, 2.0], "different structure"),
        ("a", "b", "no arrays|not consist of arrays"),
        ([None, 1.0], [None, 2.0], "not consist of arrays"),
        (np.array(["a"]), np.array(["b"]), "not consist of arrays"),
        ({1: 2.0, "a": 1.0}, {}, "not consist of arrays"),
        (np.ma.array([1.0], mask=[1]), np.ma.array([1.0], mask=[0]), "not consist of arrays"),
    ],
)
def test_what_a_traced_mechanism_can_be_given(d0: Any, d1: Any, says: str | None) -> None:
    found = pair.untraceable(Both(d0, d1))
    assert pair.unusable(Both(d0, d1)) is None
    assert (found is None) if says is None else re.search(says, str(found))


def test_no_data() -> None:
    assert "not data" in str(pair.unusable(Both(lambda: 1, 2)))


def test_both_are_padded_to_one_shape() -> None:
    long = {"x": np.ones((3, 2)), "y": np.ones(3, int)}
    short = {"x": np.ones((2, 2)), "y": np.ones(2, int)}
    for d0, d1 in ((long, short), (short, long)):
        both = pair.as_traced(d0, d1)
        for made, given in zip(both, (d0, d1), strict=True):
            n = len(given["y"])
            assert made.exists.tolist() == [True] * n + [False] * (3 - n)
            assert made.values["x"].tolist() == [[1.0, 1.0]] * n + [[0.0, 0.0]] * (3 - n)
            assert made.values["y"].dtype == int
    assert pair.as_traced(long, long) == (long, long)


class Rows(list):
    """A list with an attribute."""

    def __init__(self, rows: list[int], name: str) -> None:
        super().__init__(rows)
        self.name = name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({1}, {1.0}),
        (frozenset({0.0}), frozenset({-0.0})),
        ({(1, "a")}, {(True, "a")}),
        (np.array([complex(0.0, 1.0)]), np.array([complex(-0.0, 1.0)])),
        (np.array([(0.0, 1)], "f8,i4"), np.array([(-0.0, 1)], "f8,i4")),
        (Rows([1, 2], "left"), Rows([1, 2], "right")),
    ],
)
def test_values_that_compare_as_equal_but_differ(one: Any, other: Any) -> None:
    assert one == other or np.array_equal(one, other)
    assert not pair.same(one, other)
    assert pair.same(one, copy.deepcopy(one))
