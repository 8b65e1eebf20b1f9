"""A box cannot change its data, or not without being noticed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from dpframe.workers.program.mechanism_sampler import Handout

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
    handout = Handout(value)
    assert handout.shared
    for copy in (handout.copy(), handout.copy()):
        assert (copy.dtype, copy.shape) == (value.dtype, value.shape)
        assert copy.tobytes() == value.tobytes()
        assert not copy.flags.writeable
        if copy.size:
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                copy.flags.writeable = True
    assert not handout.changed(None)


def test_force_is_noticed() -> None:
    handout = Handout(np.zeros(8))
    copy = handout.copy()
    ctypes.memset(copy.ctypes.data + 63, 1, 1)
    assert handout.changed(None)
    ctypes.memset(copy.ctypes.data + 63, 0, 1)
    assert not handout.changed(None)


@pytest.mark.parametrize("value", VALUES)
def test_other_values_are_copied_whole(value: Any) -> None:
    handout = Handout(value)
    assert not handout.shared
    one, other = handout.copy(), handout.copy()
    assert repr(one) == repr(other) == repr(value)
    assert not handout.changed(one)
    assert value is None or isinstance(value, int) or one is not other


def test_a_change_deep_inside_is_noticed() -> None:
    handout = Handout({"a": [np.zeros(3), "x"]})
    copy = handout.copy()
    copy["a"][0][1] = 1e-300
    assert handout.changed(copy)
    assert not handout.changed(handout.copy())
