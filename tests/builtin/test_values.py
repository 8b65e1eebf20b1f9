"""D and D′ as they are written: any plain value, to the bit, through TOML, JSON and a record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tomli
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter

from dpframe import Values
from dpframe.common.text import toml
from dpframe.interfaces.pair import same
from dpframe.report.witness import _read
from dpframe.results.model import FreeTable
from dpframe.testing import check_pair

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.sampled_from(["NaN", "Infinity", "-Infinity", "nan", "", "\x7f\x00\n\"'\\"])
    | st.binary(max_size=3)
)
KEYS = st.text(st.characters(codec="utf-8"), max_size=3) | st.sampled_from(["missing", "text"])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
TABLE = TypeAdapter(FreeTable)


def through_a_record(pair: Values) -> Any:
    """The pair of the spec that a witness is printed as."""
    stored = TABLE.validate_json(TABLE.dump_json(pair.params(), exclude_none=False))
    text = "\n".join(f"{name} = {toml(_read(value))}" for name, value in stored.items())
    return Values.from_params(tomli.loads(text))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(ANYTHING, ANYTHING)
def test_they_are_the_same_after_every_way_that_they_go(d0: Any, d1: Any) -> None:
    pair = Values(d0=d0, d1=d1, description="two values")
    for again in (Values.from_params(pair.params()), through_a_record(pair)):
        assert again == pair
        assert hash(again) == hash(pair)
        assert same((again.d0, again.d1), (pair.d0, pair.d1))


@pytest.mark.parametrize(
    ("written", "got"),
    [
        ("text", "text"),
        ({"missing": True}, None),
        ([[1, 2], [3]], [[1, 2], [3]]),
        ([1, True], [1, True]),
        (
            [{"age": 3, "sex": "m"}, {"age": {"missing": True}}],
            [{"age": 3, "sex": "m"}, {"age": None}],
        ),
        ({"text": "'NaN'"}, "NaN"),
        ({"bytes": "80"}, b"\x80"),
        ({"dict": [[1, 2], ["a", {"missing": True}]]}, {1: 2, "a": None}),
        ({"missing": False}, {"missing": False}),
        ({"text": "of another kind"}, {"text": "of another kind"}),
        ({"text": 1, "missing": True}, {"text": 1, "missing": True}),
    ],
)
def test_what_a_black_box_gets(written: Any, got: Any) -> None:
    pair = Values.from_params({"d0": written, "d1": "another"})
    assert same(pair.d0, got)


def test_sizes_and_types_may_differ() -> None:
    longer = Values(d0=[1.0, 2.0], d1=[1, 2, 3])
    assert [(d.dtype, d.shape) for d in (longer.d0, longer.d1)] == [
        (np.float64, (2,)),
        (np.float64, (3,)),
    ]
    none = Values(d0=[1], d1=[])
    assert none.d1.shape == (0,)
    # If one is no array, neither is: the type would tell them apart instead of the values.
    assert same(Values(d0=[1.0, 2.0], d1=[1.0, "a"]).d0, [1.0, 2.0])
    assert Values(d0=[2**63], d1=[-1]).d0 == [2**63]
    assert same(Values(d0={"x": np.eye(2)}, d1=0).d0, {"x": [[1.0, 0.0], [0.0, 1.0]]})
    check_pair(Values(d0=[{"a": "b"}], d1=[]))


def test_what_can_be_no_data_is_named() -> None:
    for wrong, says in (
        (object(), "object"),
        ([1j], "complex"),
        ("\ud800", "Unicode"),
        (2**65, "more than 64 bits"),
    ):
        with pytest.raises(ValueError, match=says):
            Values(d0=wrong, d1=1)
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ValueError, match="too deep"):
        Values(d0=deep, d1=1)


def test_frames_and_missing_values_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series([1, None, 3], dtype="Int64")
    assert Values(d0=series, d1=0).d0 == [1, None, 3]
    assert Values(d0=pandas.NA, d1=0).d0 is None
    assert math.isnan(Values(d0=[math.nan, "a"], d1=0).d0[0])
