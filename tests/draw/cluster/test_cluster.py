"""On a cluster: the counts of one machine, whatever happens to workers and schedulers."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.dask_processes import Processes

from dpframe.commands.audit import load, make_plan, recorded
from dpframe.count.checkpoint import Store
from dpframe.draw import streams as chunks
from dpframe.engine.run import run
from dpframe.errors import DpframeError

pytest.importorskip("distributed")

from support.harmed import Harmed

from dpframe.count import kernel
from dpframe.draw import local_executor as tasks
from dpframe.draw.dask_executor import DaskExecutor, enlarged
from dpframe.draw.dask_worker import pack, unpack
from dpframe.interfaces.executor import RefusedError, Task

# A scheduler that is killed leaves sockets of the client to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def spec(trials: int, estimator: str = "precision") -> dict[str, Any]:
    mechanisms = [{"use": use, "params": {"epsilon": 1.0}} for use in ("laplace", "dptext")]
    return {
        "schema": 1,
        "audit": {"name": "t", "trials": trials, "seed": 5},
        "pair": {"use": "zeros-ones", "params": {"dim": 2}},
        "mechanism": mechanisms,
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": estimator}],
        "sweep": {"mechanism.epsilon": [0.5, 1.0]},
        "run": {"chunk": 4096},
    }


def counted(
    cluster: DaskExecutor, document: dict[str, Any], store: Store | None = None
) -> list[Any]:
    found = run(make_plan(load(document)), store=store, executor=cluster)
    assert all(result.reason is None for result in found), found[0].reason
    return [result.counts for result in found]


def here(document: dict[str, Any]) -> list[Any]:
    return [cell.counts for cell in recorded(load(document)).cells]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["precision", "betting"])
@pytest.mark.usefixtures("coarse_bounds")
def test_counts_are_those_of_one_machine(processes: Processes, estimator: str) -> None:
    smaller = {"run": {"chunk": 512}, "sweep": {"mechanism.epsilon": [0.5]}}
    document = spec(5_000, estimator) | smaller
    with DaskExecutor(processes.address) as cluster:
        assert counted(cluster, document) == here(document)


@pytest.mark.slow
def test_workers_and_schedulers_that_go_away_change_no_count(processes: Processes) -> None:
    """A worker is slow, one has a full disk, one is killed, and the scheduler with both."""
    document = spec(6_000_000)
    wanted = here(document)
    faults = [
        lambda: processes.hold_up(0),
        lambda: processes.fill_disk(1),
        lambda: processes.replace(0),
        processes.restart_scheduler,
    ]
    with Harmed(processes.address, faults) as cluster, cluster.harming():
        assert counted(cluster, document) == wanted
    assert not cluster.left  # else it went too fast to test anything


@pytest.mark.slow
def test_fifty_faults_change_no_count(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each while others of two hundred tasks are counted, which take a tenth of a second."""
    document = spec(200_000_000)
    wanted = here(document)
    monkeypatch.setattr(chunks, "SEGMENT_ELEMENTS", 1 << 23)
    choice = random.Random(3)
    faults = [partial(processes.replace, choice.randrange(2)) for _ in range(50)]
    with Harmed(processes.address, faults) as cluster, cluster.harming():
        assert counted(cluster, document) == wanted
    assert not cluster.left


def test_nobody_there_is_said() -> None:
    with pytest.raises(DpframeError, match="dpframe verify"):
        DaskExecutor("local:2")
    with pytest.raises(DpframeError, match="nowhere"):
        DaskExecutor("nowhere://x")


def test_other_versions_and_other_code_are_refused() -> None:
    from dpframe.builtin.pure_mechanisms import Laplace

    sent = pack(Laplace(epsilon=1.0), [Laplace])
    assert unpack(sent) == Laplace(epsilon=1.0)
    with pytest.raises(RefusedError, match=r"jax \S+, but the run has 0\.0\.1"):
        unpack(sent._replace(versions={**sent.versions, "jax": "0.0.1", "elsewhere": "1"}))
    (name,) = sent.code
    with pytest.raises(RefusedError, match=r"different code of \S*Laplace"):
        unpack(sent._replace(code={name: "0"}))


@pytest.mark.slow
def test_a_worker_of_other_versions_counts_nothing(processes: Processes, tmp_path: Path) -> None:
    """A worker of other versions is named once, at the start or when it joins."""
    (tmp_path / "jax-0.0.1.dist-info").mkdir()
    (tmp_path / "jax-0.0.1.dist-info" / "METADATA").write_text("Name: jax\nVersion: 0.0.1\n")
    told: list[str] = []
    with DaskExecutor(processes.address, told.append) as cluster:
        odd = processes.start_worker(PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[3]}")
        try:
            cluster.client.wait_for_workers(3, timeout=60)
            for _ in range(2):
                assert counted(cluster, spec(300_000)) == here(spec(300_000))
            cluster._compare_versions()
        finally:
            odd.kill()
            odd.wait()
    assert len(told) == 1
    assert "gets no tasks: it has jax 0.0.1, but the run has" in told[0]


def test_segments_grow_with_the_cluster() -> None:
    assert enlarged(1e9, 1) == 1  # one machine is spared nothing
    assert enlarged(1e9, 1000) == 14  # 71 a second, a tenth of what a scheduler can do
    assert enlarged(100, 1000) == 1
    assert enlarged(0, 2) == 1  # a search alone has no pass
    # A run of 32 s on each of 10^5 cores: as long to hand out as to count.
    assert enlarged(3.2e6, 100_000) == 66


@pytest.mark.slow
def test_a_segment_of_any_size_is_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    document = spec(300_000)
    plan = make_plan(load(document))
    wanted = here(document)
    told: list[int] = []

    class Large(tasks.LocalExecutor):
        is_local = False

        def scale(self, segments: float) -> int:
            return 3

        def submit(self, task: Task) -> Any:
            if isinstance(task, kernel.CountSegment):
                told.append(task.segment.stop - task.segment.first)
            return super().submit(task)

    monkeypatch.setattr(kernel, "pieces", lambda rows, elements: 10)
    found = run(plan, executor=Large())
    assert [result.counts for result in found] == wanted
    assert max(told) > 10
