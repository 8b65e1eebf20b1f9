"""Distances of datasets, also of those that are compared block by block."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from dpframe import Pair, pair
from dpframe.builtin.pairs.zeros_ones import ZerosOnes


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
