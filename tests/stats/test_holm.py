"""Holm's procedure against its textbook definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe.stats.joint import bonferroni, holm

levels = st.lists(st.floats(0, 1), min_size=0, max_size=12)


def naive_rejections(p_values: list[float], m: int, alpha: float) -> set[int]:
    """Step down: reject the smallest while it is at most α/(m − number rejected)."""
    rejected: set[int] = set()
    for index in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        if p_values[index] * (m - len(rejected)) > alpha:
            break
        rejected.add(index)
    return rejected


@given(levels, st.integers(0, 5), st.floats(0.001, 0.5))
def test_rejects_what_the_definition_rejects(p: list[float], more: int, alpha: float) -> None:
    m = len(p) + more
    adjusted = holm(p, m)
    assert {i for i in range(len(p)) if adjusted[i] <= alpha} == naive_rejections(p, m, alpha)


@given(levels, st.integers(0, 5))
def test_is_at_most_bonferroni(p: list[float], more: int) -> None:
    m = len(p) + more
    assert np.all(holm(p, m) <= bonferroni(p, m))
    assert np.all(holm(p, m) >= np.asarray(p))


def test_vector() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005], 4) == pytest.approx([0.03, 0.06, 0.06, 0.02])
