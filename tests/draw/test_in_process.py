"""Black boxes in this very process: one run at a time, and nothing of the process is changed."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpframe import HostMechanism
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.local_executor import result
from dpframe.draw.requests import BlackBoxPayload, Request
from dpframe.draw.streams import EVAL, Stream

TOGETHER = threading.Barrier(2)
MET: list[int] = []


class Meeting(HostMechanism, name="meeting"):
    """Notes when two runs are under way at the same time."""

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        try:
            TOGETHER.wait(timeout=0.1)
            MET.append(n)
        except threading.BrokenBarrierError:
            TOGETHER.reset()
        return np.zeros((n, 1)) + random.random() + np.random.random()


def test_threads_take_turns_and_leave_the_generators_as_they_were() -> None:
    here, load = InProcessWorkers(), BlackBoxPayload((Meeting(),), (np.zeros(1), np.zeros(1)))
    before = random.getstate(), np.random.get_state()[1].tolist()

    def draw(index: int) -> None:
        with here.lend(load) as (worker, *_):
            list(worker.draw(Request(0, index, Stream(0, "g", 0, EVAL), 0, 0, 1, 2), None))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(draw, range(2)))
    assert MET == []
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_result_that_comes_as_the_time_ends_is_taken() -> None:
    class Late(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            if not self.done():
                self.set_result(7)
                raise TimeoutError
            return super().result(timeout)

    executor: Any = SimpleNamespace(submit=lambda task: Late())
    task: Any = SimpleNamespace(checked=lambda found: found)
    assert result(executor, task, until=0.0) == 7
