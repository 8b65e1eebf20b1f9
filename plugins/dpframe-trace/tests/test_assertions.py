"""`assert_dp` and `search_violation` name the line that leaks with `trace=True`."""

from __future__ import annotations

import numpy as np
import pytest
from dpframe_trace import trace

from dpframe import UndecidedError, ViolationError, assert_dp, search_violation

D0 = np.array([0.0, 0.4, 0.3])
D1 = np.array([1.0, 0.4, 0.3])
PAIR = {"d0": D0, "d1": D1, "trace": True}


def half_the_scale(rng, data):
    return float(data.sum() + rng.laplace(scale=0.5))


def not_clipped(rng, values):
    return float(np.sum(values) + rng.laplace(scale=1.0))


def place(function, first=1):
    return f"test_assertions.py:{function.__code__.co_firstlineno + first}"


def test_a_violation_names_the_line(tmp_path):
    with pytest.raises(ViolationError) as failed:
        assert_dp(
            half_the_scale, d0=D0, d1=D1, epsilon=1.0, trials=20_000, trace=True, out=tmp_path
        )
    assert f"  trace: budget: {place(half_the_scale)}: " in str(failed.value)


def test_a_finding_is_no_verdict(tmp_path):
    with pytest.raises(UndecidedError) as failed:
        assert_dp(half_the_scale, **PAIR, epsilon=1.0, trials=3, out=tmp_path)
    assert f"  trace: budget: {place(half_the_scale)}: " in str(failed.value)
    assert "its findings are no verdict" in str(failed.value)


def test_a_trace_without_findings_says_so(tmp_path):
    """The leak is in the distribution of the noise, which a trace does not test."""

    def clipped_noise(rng, data):
        return float(data.sum()) + float(np.clip(rng.laplace(scale=1.0), -0.1, 0.1))

    with pytest.raises(ViolationError) as failed:
        assert_dp(clipped_noise, **PAIR, epsilon=1.0, trials=20_000, out=tmp_path)
    assert "trace: no finding" in str(failed.value)


def test_a_finding_does_not_fail_a_test(tmp_path):
    """A scale that depends on the data within the claim is a finding, and no violation here."""

    def scale_from_data(rng, data):
        return 0.0 * data[0] + rng.laplace(scale=9.0 + data[0])

    assert trace(scale_from_data, D0, D1, epsilon=2.0).findings
    record = assert_dp(scale_from_data, **PAIR, epsilon=2.0, trials=20_000, out=tmp_path)
    assert record.cells[0].verdict == "consistent"


def test_a_search_names_the_line(tmp_path):
    with pytest.raises(ViolationError) as failed:
        search_violation(
            not_clipped,
            [0.2, 0.4, 0.9],
            schema=[{"low": 0, "high": 1}],
            adjacency="replace",
            epsilon=1.0,
            trials=200_000,
            trace=True,
            out=tmp_path,
        )
    assert f"  trace: budget: {place(not_clipped)}: " in str(failed.value)
    assert "on the pair: " in str(failed.value)


def test_a_trace_that_fails_leaves_the_verdict(tmp_path, monkeypatch):
    from dpframe_trace import tracing

    monkeypatch.setattr(tracing, "trace", lambda *given, **named: 1 / 0)
    with pytest.raises(ViolationError, match="trace: failed: ZeroDivisionError"):
        assert_dp(
            half_the_scale, d0=D0, d1=D1, epsilon=1.0, trials=20_000, trace=True, out=tmp_path
        )
