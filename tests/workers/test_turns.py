"""Who waits for a worker gets it in turn, whoever else takes many."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.black_boxes import Box

from dpframe.workers.pool import FairQueue, Workers
from dpframe.workers.scheduling import Load, Stopped


class Time:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


def used(queue: FairQueue, clock: Time, who: str, seconds: float, workers: int = 1) -> None:
    ticket = queue.enter(who)
    queue.leave(ticket)
    queue.take(ticket, workers)
    clock.now += seconds
    queue.give_back(ticket)


def test_who_has_had_least_comes_first(clock: Time) -> None:
    queue = FairQueue(clock)
    kept = [queue.enter(who) for who in ("slow", "fast")]
    used(queue, clock, "slow", 8.0)
    used(queue, clock, "fast", 5.0, workers=2)
    slow, fast = (queue.enter(who) for who in ("slow", "fast"))
    for one in kept:
        queue.leave(one)
    assert queue.is_next(slow)  # 8 seconds against 10
    assert not queue.is_next(fast)
    used(queue, clock, "slow", 3.0)
    assert queue.is_next(fast)


def test_of_equal_ones_the_first_comes_first(clock: Time) -> None:
    queue = FairQueue(clock)
    first, second = queue.enter("one"), queue.enter("other")
    assert queue.is_next(first)
    queue.leave(first)
    assert queue.is_next(second)


def test_who_wanted_nothing_for_long_is_not_ahead_for_long(clock: Time) -> None:
    queue = FairQueue(clock)
    used(queue, clock, "old", 100.0)
    old = queue.enter("old")
    queue.enter("new")
    assert queue.is_next(old)  # both have had 100 seconds
    used(queue, clock, "old", 1.0)
    assert not queue.is_next(old)


def test_what_is_out_counts_while_it_is_out(clock: Time) -> None:
    queue = FairQueue(clock)
    ticket = queue.enter("long")
    queue.leave(ticket)
    queue.take(ticket, 1)
    first, again, later = (queue.enter(who) for who in ("other", "long", "other"))
    clock.now += 1.0
    queue.leave(first)
    assert queue.is_next(later)  # though the other one came before it
    assert not queue.is_next(again)


class Process:
    """A worker process that takes in anything at once."""

    def __init__(self, interpreter: str | None, remarks: Any) -> None:
        self.interpreter, self.alive = interpreter, True
        self.holds: int | None = None


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch) -> Workers:
    def take_in(worker: Any) -> None:
        worker.process.holds, worker.at_rest = worker.load.number, True

    monkeypatch.setattr("dpframe.workers.pool.WorkerProcess", Process)
    monkeypatch.setattr("dpframe.workers.pool._Worker.take_in", take_in)
    monkeypatch.setattr("dpframe.workers.pool.end", lambda *_: None)
    return Workers(2)


def test_who_wants_two_is_not_passed(lender: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others who want one each leave no moment in which both are free."""
    entered, order = threading.Semaphore(0), []
    enter = FairQueue.enter

    def noted(self: Any, owner: str) -> Any:
        ticket = enter(self, owner)
        entered.release()
        return ticket

    def wants(number: int) -> None:
        box = Box(epsilon=float(number))
        with lender.lend(Load((box,), ((0.0,), (1.0,))), number):
            order.append(number)

    own = Load((Box(epsilon=3.0),), ((0.0,), (1.0,)))
    threads = [threading.Thread(target=wants, args=(number,)) for number in (2, 1)]
    with lender.lend(own):
        with lender.lend(own):
            monkeypatch.setattr(FairQueue, "enter", noted)
            for thread in threads:
                thread.start()
                assert entered.acquire(timeout=10)
        threads[1].join(0.2)  # one is free, and it would do for who wants one
        assert not order
    for thread in threads:
        thread.join(10)
    assert order == [2, 1]


def test_who_waits_when_the_run_ends_is_told(lender: Workers) -> None:
    load = Load((Box(),), ((0.0,), (1.0,)))
    told = threading.Event()

    def wait() -> None:
        try:
            with lender.lend(load, 2):
                pass
        except Stopped:
            told.set()

    with lender.lend(load):
        waiting = threading.Thread(target=wait)
        waiting.start()
        lender.stop()
        waiting.join(10)
    assert told.is_set()
