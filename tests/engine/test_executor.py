"""A run loads and starts what it needs: no pool, no cluster and no search for a traced audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np
import pytest
from support import processes
from support.small_audits import load

from dpframe import BinCounts
from dpframe.commands.audit import make_plan
from dpframe.count.kernel import CountSegment
from dpframe.count.rounds import checked_counts
from dpframe.draw.local_executor import LocalExecutor
from dpframe.draw.programs import DrawChunks
from dpframe.engine.run import run
from dpframe.errors import WrongResultError
from dpframe.interfaces.executor import Task

CODE = """
import sys
import pytest
import dpframe

dpframe.audit({
    "schema": 1,
    "audit": {"name": "t", "trials": 2000, "seed": 1},
    "pair": {"use": "zeros-ones"},
    "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
    "attack": [{"use": "identity"}],
    "estimator": [{"use": "order-statistics"}],
})
rooms = ("dpframe.cluster", "dpframe.search", "dpframe.count.black_box_pass")
rooms += ("dpframe.draw.pool", "dpframe.draw.process")
print([name for name in sys.modules if name.startswith(rooms)])
"""


@pytest.mark.slow
def test_a_traced_audit_loads_no_pool_no_cluster_and_no_search() -> None:
    done = processes.run("-c", CODE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_worker_process_imports_no_jax() -> None:
    """It would take most of the time in which a process starts."""
    code = "import sys; import dpframe.draw.worker.mechanism_sampler"
    done = processes.run("-c", f"{code}; print('jax' in sys.modules)")
    assert done.stdout.strip() == "False", done.stdout + done.stderr


SPEC = {
    "schema": 1,
    "audit": {"name": "t", "trials": 9000, "seed": 5},
    "pair": {"use": "zeros-ones", "params": {"dim": 2}},
    "mechanism": [{"use": use, "params": {"epsilon": 1.0}} for use in ("laplace", "dptext")],
    "attack": [{"use": "majority-vote"}],
    "estimator": [{"use": "precision"}],
    "run": {"chunk": 1024},
}


class Wrong(LocalExecutor):
    """Another process, which returns wrong counts of one mechanism."""

    is_local = False

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.change = change

    def submit(self, task: Task) -> Future[Any]:
        future = super().submit(task)
        if isinstance(task, CountSegment) and "DPText" in str(task.plugins):
            wrong = jax.tree.map(self.change, future.result())
            future = Future()
            future.set_result(wrong)
        return future


@pytest.mark.parametrize(
    "change",
    [
        lambda leaf: leaf[..., :1],
        lambda leaf: leaf * 2,
        lambda leaf: np.full(leaf.shape, np.nan),
        lambda leaf: None,
    ],
    ids=["shape", "number", "NaN", "nothing"],
)
def test_impossible_counts_lose_one_cell(change: Callable[[Any], Any]) -> None:
    right, wrong = (run(make_plan(load(SPEC)), executor=one) for one in (None, Wrong(change)))
    for found, wanted in zip(wrong, right, strict=True):
        lost = found.mechanism.use == "dptext"
        assert (found.status, found.counts) == (("failed", None) if lost else ("ok", wanted.counts))


@dataclasses.dataclass(frozen=True)
class Grid(BinCounts):
    """Three edges."""

    def edges(self, layout: Any) -> Any:
        return np.arange(3.0)


def test_negative_counts_with_the_right_sum_are_impossible() -> None:
    zero = jax.tree.map(np.asarray, Grid().zero(()))
    counts, trials = np.zeros(zero.shape, np.int64), np.array([5, 0])
    counts[0, :2] = 3, 2
    assert checked_counts(Grid(), counts, zero, trials).tolist() == counts.tolist()
    counts[0, :3] = 3, 3, -1
    with pytest.raises(WrongResultError, match="negative"):
        checked_counts(Grid(), counts, zero, trials)


def test_draws_that_attacks_learn_from_have_a_row_for_each_draw() -> None:
    class Shared:
        scoring, rows = (), 4

    task = DrawChunks(Shared(), "fit", variant=0, dataset=0, first=2, stop=5)  # type: ignore[arg-type]
    right = [np.zeros((12, 3))]
    assert task.checked(right) is right
    for wrong in (None, [], right * 2, [right[0][:11]], [right[0].astype(object)], ["x"]):
        with pytest.raises(WrongResultError):
            task.checked(wrong)
