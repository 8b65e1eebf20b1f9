"""Neighbourhoods: what their classes must say, and what a written pair is."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from pydantic import ValidationError

from dpframe import Neighbourhood, Pair, Values, audit
from dpframe.interfaces.plugin import parameters


def propose(self: Any, rng: Any, history: Any) -> list[Pair]:
    return []


def define(**body: Any) -> type[Neighbourhood]:
    return type(Neighbourhood)("Made", (Neighbourhood,), body, name="made")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"adjacency": "near"}, r"a neighbourhood must define propose\(rng, history\)"),
        ({"propose": propose}, "a neighbourhood must define adjacency"),
        ({"propose": propose, "adjacency": 1}, "adjacency is 1; it must be a text"),
    ],
)
def test_what_a_neighbourhood_requires(body: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        define(**body)


def test_adjacency_may_be_an_attribute_a_property_or_a_parameter() -> None:
    class Parameter(Neighbourhood, name="parameter"):
        adjacency: str
        propose = propose

    class WithDefault(Pair, name="with-default"):
        adjacency: str = "near"
        d0 = d1 = property(lambda self: np.zeros(1))

    assert define(propose=propose, adjacency="near")().adjacency == "near"
    assert define(propose=propose, adjacency=property(lambda self: "x"))().adjacency == "x"
    assert Parameter.from_params({"adjacency": "far"}).adjacency == "far"
    assert WithDefault().adjacency == "near"
    assert WithDefault.from_params({"adjacency": "far"}).params() == {"adjacency": "far"}


def test_other_members_are_no_parameters() -> None:
    with pytest.raises(TypeError, match="d0 is part of every pair, not a parameter"):

        class Wrong(Pair, name="wrong"):
            d0: int
            d1 = property(lambda self: 1)
            adjacency = "near"


# --- values


def test_numbers_stay_what_they_are() -> None:
    whole = Values.from_params({"d0": [0, 1], "d1": [1, 1]})
    assert (whole.d0.dtype, whole.d1.tolist()) == (np.int64, [1, 1])
    assert Values(d0=[True], d1=[False]).d0.dtype == bool
    point = Values.from_params({"d0": [0, 1], "d1": [0.5, 1]})
    assert (point.d0.dtype, point.d1.dtype) == (np.float64, np.float64)
    assert Values(d0=3, d1=4).d0.shape == ()
    assert Values(d0=np.float32([[1, 2]]), d1=np.float32([[1, 3]])).d0.shape == (1, 2)


def test_what_is_made_of_arrays_is_what_a_spec_would_name() -> None:
    arrays = Values(d0=np.eye(2), d1=np.zeros((2, 2)), adjacency="near")
    written = {"d0": [[1.0, 0.0], [0.0, 1.0]], "d1": [[0.0, 0.0], [0.0, 0.0]], "adjacency": "near"}
    assert arrays.params() == written
    assert Values.from_params(written) == arrays
    assert hash(Values.from_params(written)) == hash(arrays)


@pytest.mark.parametrize(
    ("one", "other"), [(0, 0.0), (1, True), (0.0, -0.0), (1.0, 2.0), ([1.0], 1.0), ([[]], [])]
)
def test_data_that_differ_are_different_pairs(one: Any, other: Any) -> None:
    assert Values(d0=one, d1=one) != Values(d0=other, d1=other)


@pytest.mark.parametrize(
    ("d0", "d1", "message"),
    [
        ([{"bytes": "0g"}], [1], "non-hexadecimal"),
        ({"dict": [[{"a": 1}, 2]]}, [1], "a key of a table is itself a table"),
    ],
)
def test_what_is_no_data(d0: Any, d1: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Values.from_params({"d0": d0, "d1": d1})


def test_a_spec_has_its_own_names() -> None:
    assert [row.name for row in parameters(Values)] == ["d0", "d1", "adjacency", "description"]
    with pytest.raises(ValidationError, match="before"):
        Values.from_params({"d0": 1, "d1": 2, "before": 3})


def test_a_search_gives_a_neighbourhood_its_mechanism_with_the_parameters_of_the_cell() -> None:
    seen = []

    class Noted(Neighbourhood, name="noted"):
        adjacency = "near"

        def for_mechanism(self, mechanism: Any) -> Self:
            seen.append((type(mechanism).__name__, mechanism.epsilon))
            return self

        def propose(self, rng: Any, history: Any) -> list[Pair]:
            return [] if history else [Values(d0=[0.0], d1=[1.0], adjacency="near")]

    spec = {
        "schema": 1,
        "audit": {"name": "noted", "trials": 200},
        "search": {"use": "noted"},
        "mechanism": [{"use": "laplace"}],
        "attack": [{"use": "identity"}],
        "estimator": [{"use": "betting"}],
        "sweep": {"mechanism.epsilon": [0.5, 2.0]},
    }
    audit(spec, plugins=[Noted])
    assert sorted(seen) == [("Laplace", 0.5), ("Laplace", 2.0)]
