"""Draws for learning do not depend on the worker that makes them."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from support import training
from support.small_audits import load
from support.training import Trains

from dpframe.commands.audit import make_plan
from dpframe.count.draws import Draws
from dpframe.draw import sampler
from dpframe.draw.local_executor import LOCAL_EXECUTOR, LocalExecutor
from dpframe.draw.programs import DrawChunks
from dpframe.draw.requests import RunCancelled
from dpframe.draw.scheduling import run_in_daemon, run_tasks
from dpframe.draw.streams import FIT, both_as_made


class Near(LocalExecutor):
    """An executor of other processes, which are this one."""

    is_local = False

    def __init__(self) -> None:
        super().__init__(3)
        self.asked: list[DrawChunks] = []

    def submit(self, task: Any) -> Future[Any]:
        self.asked.append(task)
        return super().submit(task)


@pytest.fixture
def near() -> Near:
    return Near()


def of(document: dict[str, Any], executor: Any = LOCAL_EXECUTOR) -> Draws:
    plan = make_plan(load(document, [Trains]))
    the_pass = plan.passes[0]
    return Draws(the_pass, plan.audit.run, plan.prng, both_as_made(the_pass.pair), executor)


def test_outputs_are_the_same_whoever_draws_them(near: Near) -> None:
    document = training.spec("threshold")
    for variant in (0, 1):
        here, there = of(document).outputs(FIT, variant), of(document, near).outputs(FIT, variant)
        assert [one.tobytes() for one in here] == [one.tobytes() for one in there]
        assert [one.shape for one in there] == [(50, 2)] * 2
        in_turn = DrawChunks(of(document)._draw_task, FIT, variant, 0, 0, 13)()
        assert here[0].tobytes() == in_turn[0][:50].tobytes()  # and not by several threads
        other = DrawChunks(of(document)._draw_task, FIT, variant, 1, 0, 13)()
        assert here[1].tobytes() == other[0][:50].tobytes()
        same = of(document)
        for index in (0, 1):
            recipe = same._draw_task._replace(data=(same._draw_task.data[index],) * 2)
            found = DrawChunks(recipe, FIT, variant, 1, 0, 13)()[0]
            assert (found.tobytes() == other[0].tobytes()) == index
    assert near.asked
    assert not (here[0] == here[1]).any()


def test_a_fast_mechanism_is_drawn_here(near: Near, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that did not say that it is slow goes away once it was seen to be."""
    document = training.spec("threshold", run={"chunk": 8, "fit": 50})
    document["mechanism"] = [{"use": "laplace"}]
    wanted = [one.tobytes() for one in of(document, near).outputs(FIT, 0)]
    assert not near.asked
    monkeypatch.setattr(sampler, "SEND_SECONDS", 0.0)
    monkeypatch.setattr(sampler, "TRANSFER_RATE", 1e12)
    assert [one.tobytes() for one in of(document, near).outputs(FIT, 0)] == wanted
    assert {task.stream for task in near.asked} == {FIT}
    near.asked.clear()
    monkeypatch.setattr(sampler, "TRANSFER_RATE", 1e-3)  # it would travel for hours
    of(document, near).outputs(FIT, 0)
    assert not near.asked


def test_every_chunk_is_handed_out_once_whatever_the_pace() -> None:
    sizes = itertools.cycle([3, 1, 2, 5])
    which = [("a", range(2, 40)), ("b", range(0)), ("c", range(7, 12))]
    with ThreadPoolExecutor(4) as pool:
        found = run_tasks(
            which, lambda _: next(sizes), lambda of, task: [(of, n) for n in task], pool.submit, 4
        )
    assert [list(itertools.chain(*parts)) for parts in found] == [
        [(of, n) for n in chunks] for of, chunks in which
    ]


def test_whoever_leaves_is_not_kept_by_what_takes_long() -> None:
    draws = of(training.spec("threshold"))
    draws.cancelled.set()
    with pytest.raises(RunCancelled):
        draws.outputs(FIT, 0)


@pytest.mark.parametrize("bad", [0, 1])
def test_the_first_mistake_ends_all(bad: int) -> None:
    """A worker of two is still at its first task when the other one makes it."""
    asked: list[int] = []
    threads: list[Future[Any]] = []

    begun = threading.Event()

    def submit(call: Any) -> Future[Any]:
        threads.append(found := run_in_daemon(call))
        if len(threads) == 2:
            begun.set()
        return found

    who = threading.local()
    both = threading.Barrier(2)

    def draw(of: str, chunks: range) -> None:
        asked.append(chunks.start)
        if len(asked) <= 2:
            both.wait(30)
            begun.wait(30)
            if chunks.start == bad:
                raise ValueError("no")
            who.late = True
        if who.late:
            wait(threads, 30, FIRST_COMPLETED)

    with pytest.raises(ValueError, match="no"):
        run_tasks([("a", range(1000))], lambda _: 1, draw, submit, 2)
    assert not wait(threads, 30).not_done
    assert len(asked) == 2
