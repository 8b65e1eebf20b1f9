"""A rate of failures against a promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from dpframe.stats.binomial import exceedance


@given(
    st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.01, 0.05, 0.5]),
    st.sampled_from([1e-6, 1e-3, 0.05]),
)
def test_the_alarm_is_where_the_interval_leaves_the_promise(
    pair: tuple[int, int], promised: float, error: float
) -> None:
    failures, repeats = pair
    found = exceedance(failures, repeats, promised, error)
    assert found.low <= found.rate == failures / repeats <= found.high
    assert found.broken == (found.low > promised)
    assert found.broken == (found.alarm is not None and failures >= found.alarm)


@pytest.mark.parametrize("repeats", [10, 200, 1000, 10_000])
@pytest.mark.parametrize("error", [1e-4, 0.01])
def test_a_kept_promise_is_called_broken_no_more_often_than_said(
    repeats: int, error: float
) -> None:
    """Exact: failures at exactly the promised rate. Non-vacuous: twice the rate is noticed."""
    alarm = exceedance(0, repeats, 0.05, error).alarm
    assert alarm is not None
    false = stats.binom.sf(alarm - 1, repeats, 0.05)
    assert false <= error / 2
    assert stats.binom.sf(alarm - 2, repeats, 0.05) > error / 2  # and no later than it must
    if repeats >= 1000:
        assert stats.binom.sf(alarm - 1, repeats, 0.1) > 0.95


def test_few_repeats_can_show_nothing() -> None:
    assert exceedance(1, 1, 0.05, 0.01).alarm is None
    assert not exceedance(1, 1, 0.05, 0.01).broken
    assert exceedance(2, 2, 0.05, 0.01).alarm == 2
    assert np.isclose(exceedance(0, 10, 0.05, 0.01).high, 1 - 0.005**0.1)
