"""Workers are lent in order, the display guesses what is under way, and a box has its own time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from support.black_boxes import Box, Slow

from dpframe.common import machine
from dpframe.draw import scheduling
from dpframe.draw.pool import Workers
from dpframe.draw.requests import BlackBoxPayload, RunCancelled


class Process:
    """A worker process that takes in anything at once."""

    def __init__(self, interpreter: str | None, stderr: Any) -> None:
        self.interpreter, self.alive = interpreter, True
        self.holds: int | None = None
        self.imported = ""


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch) -> Workers:
    def finish_loading(worker: Any, deadline: float) -> None:
        worker.process.holds, worker.is_idle = worker.load.number, True

    monkeypatch.setattr("dpframe.draw.pool.WorkerProcess", Process)
    monkeypatch.setattr("dpframe.draw.pool._Worker.start_loading", lambda *_: None)
    monkeypatch.setattr("dpframe.draw.pool._Worker.finish_loading", finish_loading)
    monkeypatch.setattr("dpframe.draw.pool.end", lambda *_: None)
    return Workers(2)


def test_a_caller_that_needs_two_is_not_passed(lender: Workers) -> None:
    """Others that need one each leave no moment in which both are free."""
    order = []

    def wants(number: int) -> None:
        with lender.lend(BlackBoxPayload((Box(),), ((0.0,), (1.0,))), number):
            order.append(number)

    own = BlackBoxPayload((Box(epsilon=3.0),), ((0.0,), (1.0,)))
    threads = [threading.Thread(target=wants, args=(number,)) for number in (2, 1)]
    with lender.lend(own):
        with lender.lend(own):
            for waiting, thread in enumerate(threads, 1):
                thread.start()
                while len(lender._waiting) < waiting:
                    time.sleep(0.001)
        threads[1].join(0.2)  # one is free, and it would do for the second caller
        assert not order
    for thread in threads:
        thread.join(10)
    assert order == [2, 1]


def test_boxes_of_two_classes_share_no_process(lender: Workers) -> None:
    box, other = (BlackBoxPayload((each(),), ((0.0,), (1.0,))) for each in (Box, Slow))
    with lender.lend(box) as (worker,):
        first: Any = worker
        first.process.imported = box.code
    with lender.lend(other) as (worker,):
        second: Any = worker
        assert second.process is not first.process
    with lender.lend(BlackBoxPayload((Box(epsilon=3.0),), ((0.0,), (1.0,)))) as (worker,):
        again: Any = worker
        assert again.process is first.process


def test_no_process_is_left_if_another_cannot_start(
    lender: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    ended: list[Any] = []

    def start(*given: Any) -> Any:
        if made:
            raise OSError("no more processes")
        made.append(Process(*given))
        return made[-1]

    monkeypatch.setattr("dpframe.draw.pool.WorkerProcess", start)
    monkeypatch.setattr("dpframe.draw.pool.end", lambda *given: ended.extend(given))
    with (
        pytest.raises(OSError, match="no more"),
        lender.lend(BlackBoxPayload((Box(),), ((0.0,), (1.0,))), 2),
    ):
        pass
    assert ended == made
    assert not lender._busy
    assert not lender._idle


def test_who_waits_when_the_run_ends_is_told(lender: Workers) -> None:
    load = BlackBoxPayload((Box(),), ((0.0,), (1.0,)))
    told = threading.Event()

    def wait() -> None:
        try:
            with lender.lend(load, 2):
                pass
        except RunCancelled:
            told.set()

    with lender.lend(load):
        waiting = threading.Thread(target=wait)
        waiting.start()
        lender.stop()
        waiting.join(10)
    assert told.is_set()


def test_a_clock_runs_only_while_a_worker_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now)
    clock = scheduling.Clock(5.0)
    now = 200.0  # no worker was at work
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
    assert scheduling.Clock(None).left() is None


def test_a_clock_runs_more_slowly_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now)
    monkeypatch.setattr(scheduling, "core_share", lambda: 0.25)
    clock = scheduling.Clock(5.0)
    with clock.running():
        assert clock.deadline() == 120.0
        now = 108.0
        assert (clock.used(), clock.left()) == (2.0, 3.0)
    monkeypatch.setattr(scheduling, "core_share", lambda: 1.0)
    with clock.running():
        assert clock.deadline() == 111.0


@pytest.mark.parametrize(("load", "share"), [(0.1, 1.0), (5.0, 1.0), (10.0, 0.5), (99.0, 0.25)])
def test_a_thread_gets_what_the_load_leaves(
    load: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (load, 99.0, 99.0), raising=False)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    assert machine.core_share() == share
