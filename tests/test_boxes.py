"""From boxes to bounds: bound, p-value and verdict cannot disagree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.regions import rejects

from dpframe import ApproxDP, PureDP, Query, estimate_from_boxes
from dpframe.interfaces.estimator import SMALLEST_P, epsilon_of
from dpframe.stats.binomial import clopper_pearson_upper
from dpframe.stats.joint import joint_staircases


def boxes_of(false_positives: int, false_negatives: int, n: int):
    def boxes(error: float):
        return np.stack(
            [
                clopper_pearson_upper([false_positives], n, error / 2),
                clopper_pearson_upper([false_negatives], n, error / 2),
            ],
            axis=1,
        )

    return boxes


@given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.floats(0, 0.5))
def test_epsilon_is_the_largest_claim_the_box_rejects(x: float, y: float, delta: float) -> None:
    boxes = np.array([[x, y]])
    epsilon = epsilon_of(boxes, delta)
    assert math.isfinite(epsilon)
    assert epsilon >= 0
    assert not rejects(boxes, ApproxDP(epsilon + 1e-6, delta))
    if epsilon > 1e-6:
        assert rejects(boxes, ApproxDP(epsilon - 1e-6, delta))


@settings(max_examples=60)
@given(st.integers(0, 200), st.integers(0, 200), st.floats(0, 6), st.sampled_from([0.0, 1e-5, 0.1]))
def test_p_value_inverts_the_bound(fp: int, fn: int, epsilon: float, delta: float) -> None:
    """The bound at level 1 − p is the claim itself."""
    boxes = boxes_of(fp, fn, 200)
    query = Query((200, 200), delta, 0.95, ApproxDP(epsilon, delta))
    found = estimate_from_boxes(boxes, query, epsilon=0.0)
    assert found.p_value is not None
    assert SMALLEST_P <= found.p_value <= 1
    if SMALLEST_P < found.p_value < 1:
        assert epsilon_of(boxes(found.p_value * (1 + 1e-6)), delta) >= epsilon - 1e-6
        assert epsilon_of(boxes(found.p_value * (1 - 1e-6)), delta) <= epsilon + 1e-6
    assert found.epsilon_lower is not None
    if found.epsilon_lower > epsilon + 1e-9:
        assert found.p_value <= 0.05 * (1 + 1e-6)


def test_resolution_makes_rejecting_harder() -> None:
    """Ten million clean trials reject ε = 14, but only on events that float32 cannot resolve."""
    boxes = boxes_of(0, 0, 10_000_000)
    query = Query((10_000_000,) * 2, 0.0, 0.95, PureDP(14.0), resolution=1e-6)
    found = estimate_from_boxes(boxes, query, epsilon=math.inf)
    assert found.p_value < 0.05
    assert found.p_resolved == 1.0
    easy = estimate_from_boxes(boxes, query._replace(claim=PureDP(10.0)), epsilon=math.inf)
    assert easy.p_resolved < 1e-6


def test_without_a_claim_there_is_no_p_value() -> None:
    found = estimate_from_boxes(
        boxes_of(1, 1, 100), Query((100, 100), 0.0, 0.95, None), epsilon=1.0
    )
    assert found.p_value is None
    assert found.epsilon_lower > 0


def test_an_overwhelming_p_value_is_floored() -> None:
    query = Query((10**9,) * 2, 0.0, 0.95, PureDP(0.01))
    assert estimate_from_boxes(boxes_of(0, 0, 10**9), query, epsilon=1.0).p_value == SMALLEST_P


def test_the_bound_is_the_largest_of_what_the_shares_certify() -> None:
    def boxes(error: float):
        return np.concatenate(
            [boxes_of(30, 40, 1000)(0.9 * error), boxes_of(300, 40, 1000)(0.1 * error)]
        )

    query = Query((1000, 1000), 0.0, 0.95, None)
    found = estimate_from_boxes(boxes, query, epsilon=1.0, shares=(0.9, 0.1))
    assert [share.error for share in found.shares] == [0.9, 0.1]
    alone = epsilon_of(boxes_of(30, 40, 1000)(0.9 * 0.05), 0.0)
    assert found.shares[0].epsilon_lower == alone == found.epsilon_lower
    assert 0 < found.shares[1].epsilon_lower < alone
    with pytest.raises(ValueError, match="zip"):
        estimate_from_boxes(boxes, query, epsilon=1.0, shares=(1.0,))


def test_a_limit_that_is_rounded_to_zero_does_not_hide_the_rest_of_a_staircase() -> None:
    """The joint test at a large weight: along its edge FNR falls below what float64 can hold."""
    staircase = np.array([[[0.001, 0.01], [0.002, 0.0]]])
    assert epsilon_of(staircase, 0.0) == math.log(0.99 / 0.001)
    assert epsilon_of(staircase[:, :1], 0.0) == epsilon_of(staircase, 0.0)
    assert epsilon_of(np.array([[[0.0, 0.5], [0.5, 0.0]]]), 0.0) == 0  # no limit at all
    for claimed in (6.8, 7.0):
        assert rejects(staircase, PureDP(claimed)) == (epsilon_of(staircase, 0.0) > claimed)


def test_the_joint_bound_grows_with_the_error_it_may_spend() -> None:
    bounds = [
        epsilon_of(joint_staircases(30, 20_000, 19_950, 20_000, 0.995, a), 0.0)
        for a in np.geomspace(1e-6, 0.9, 200)
    ]
    assert np.diff(bounds).min() > -0.01
    assert bounds[-1] > bounds[100] > bounds[0] > 5
