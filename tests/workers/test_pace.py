"""The time of a box runs while a worker is at it, and not while somebody waits for one."""

from __future__ import annotations

import pytest

from dpframe.workers import scheduling as pace


def test_a_clock_runs_only_while_a_worker_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pace.time, "monotonic", lambda: now)
    clock = pace.Clock(5.0)
    now = 200.0  # nobody was at work
    assert clock.left() == 5.0
    with clock.running():
        now = 202.0
        with clock.running():  # two at once count once
            now = 203.0
            assert clock.left() == 2.0
    now = 300.0
    assert clock.left() == 2.0
    with clock.running():
        assert clock.deadline() == 302.0
        now = 303.0
        assert clock.left() == -1.0
    assert pace.Clock(None).left() is None
