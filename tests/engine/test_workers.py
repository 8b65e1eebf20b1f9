"""Black boxes in worker processes: the same counts however many, and no death that spreads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.black_boxes import BOXES, Box, sample_in_one_worker, sample_in_this_process
from support.processes import DPFRAME
from support.processes import run as run_process
from support.small_audits import PLUGINS, Stop, document, load

from dpframe import HostMechanism, PureDP, host_mechanism
from dpframe.commands.audit import make_plan, make_record
from dpframe.engine import chunks, processes, workers
from dpframe.engine.address import Stream
from dpframe.engine.checkpoint import Store
from dpframe.engine.host import HostWork
from dpframe.engine.run import run as run_plan
from dpframe.engine.workers import Pool
from dpframe.errors import CellError

ROWS = 32


def spec(*mechanisms: Any, trials: int = 9 * ROWS + 5, **tables: Any) -> dict[str, Any]:
    return document(
        mechanism=list(mechanisms),
        audit={"trials": trials},
        estimator=[{"use": "precision"}],
        **tables,
    )


def record(
    document: dict[str, Any], plugins: list[Any] | None = None, store: Store | None = None
) -> dict[str, Any]:
    plan = make_plan(load(document, [*PLUGINS, *(BOXES if plugins is None else plugins)]))
    return make_record(plan, run_plan(plan, store=store), 0.0).as_dict()


def cells(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record(*args, **kwargs)["cells"]
    return found


def notes(cell: dict[str, Any]) -> str:
    return " | ".join(cell["estimate"]["notes"])


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_one_worker(monkeypatch)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)


SWEPT = spec({"use": "box"}, sweep={"mechanism.epsilon": [0.5, 2.0], "pair.dim": [2]})


@pytest.fixture(scope="module")
def direct() -> list[Any]:
    """Counts without any worker process."""
    patch = pytest.MonkeyPatch()
    with patch.context() as inside:
        sample_in_this_process(inside)
        return [cell["counts"] for cell in cells(SWEPT)]


@pytest.mark.parametrize("workers", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_counts_do_not_depend_on_the_number_of_workers(
    workers: int, direct: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpframe.engine.workers.available_cores", lambda: workers)
    monkeypatch.setattr(chunks, "HOST_SEGMENT_ELEMENTS", 3 * ROWS * 2)
    found = cells(SWEPT)
    assert [cell["counts"] for cell in found] == direct
    assert not any("in this process" in notes(cell) for cell in found)


def test_each_chunk_has_its_own_generator() -> None:
    stream = Stream(1, "a", 0, "eval")
    data = (np.zeros(1), np.zeros(1))
    drawn = {
        workers.sample(Box(), data[d], Stream(seed, "a", 0, "eval"), chunk, d, 4).tobytes()
        for seed in (1, 2)
        for chunk in (0, 1)
        for d in (0, 1)
    }
    assert len(drawn) == 8
    again = workers.sample(Box(), data[0], stream, 0, 0, 4)
    assert again.tobytes() in drawn


def test_a_worker_that_dies_fails_its_cell_only() -> None:
    found = record(spec({"use": "dies"}, {"use": "box"}, {"use": "flip"}))
    dead, *fine = found["cells"]
    assert dead["status"] == "failed"
    assert dead["reason"] == "a worker process died while it sampled"
    assert dead["counts"] is None
    assert [cell["status"] for cell in fine] == ["ok", "ok"]
    assert found["summary"]["failed"] == 1


def test_one_lane_that_dies_leaves_the_others() -> None:
    swept = spec({"use": "one-lane-dies"}, sweep={"mechanism.epsilon": [1.0, 2.0, 3.0]})
    found = cells(swept)
    assert [cell["status"] for cell in found] == ["ok", "failed", "ok"]
    assert "worker process died" in found[1]["reason"]


def test_an_interrupted_run_closes_its_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[Pool] = []
    ready = HostWork.ready

    def spy(self: HostWork) -> None:
        ready(self)
        assert self.pool is not None
        pools.append(self.pool)

    monkeypatch.setattr(HostWork, "ready", spy)
    monkeypatch.setattr(chunks, "HOST_SEGMENT_ELEMENTS", ROWS)
    plan = make_plan(load(spec({"use": "box"}), [*PLUGINS, *BOXES]))
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, Stop(0))
    (pool,) = pools
    with pytest.raises(CellError, match="died"):
        pool.submit(0, 0, 0)


def local_class() -> Any:
    class Local(HostMechanism, name="box"):
        """Where pickle cannot find it."""

        epsilon: float = 1.0
        claim = Box.claim
        sample = Box.sample

    return Local


def test_what_cannot_be_pickled_runs_here_and_says_so() -> None:
    one = spec({"use": "box"})
    (here,) = cells(one, [local_class()])
    (there,) = cells(one)
    assert "run in this process: the mechanism cannot be pickled" in notes(here)
    assert here["counts"] == there["counts"]


def test_a_class_of_the_main_script_runs_here_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's: pickle finds it, and a worker would not."""
    monkeypatch.setattr(Box, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Box", Box, raising=False)
    (cell,) = cells(spec({"use": "box"}))
    assert "run in this process: a worker could not import" in notes(cell)


def test_what_cannot_be_replayed_is_said() -> None:
    rng = np.random.default_rng(1)
    free = host_mechanism(
        lambda _, data, n: rng.random((n, 1)), name="free", claim=PureDP(20.0), seedable=False
    )
    free_cell, box = cells(spec({"use": "free"}, {"use": "box"}), [*BOXES, free])
    assert "not replayable" in notes(free_cell)
    assert "not replayable" not in notes(box)


@pytest.mark.usefixtures("in_process")
def test_host_counts_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = spec({"use": "box"}, trials=30 * ROWS + 9)
    (direct,) = cells(longer)
    cells(spec({"use": "box"}), store=Store(tmp_path))
    asked: list[tuple[int, int]] = []
    submit = Pool.submit

    def spy(self: Pool, lane: int, chunk: int, index: int) -> Any:
        asked.append((index, chunk))
        return submit(self, lane, chunk, index)

    monkeypatch.setattr(Pool, "submit", spy)
    (cell,) = cells(longer, store=Store(tmp_path))
    assert cell["counts"] == direct["counts"]
    assert sorted(asked) == [(d, c) for d in (0, 1) for c in range(9, 31)]


def test_a_time_budget_ends_a_slow_cell_honestly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "HOST_SEGMENT_ELEMENTS", 2 * ROWS)
    trials = 400 * ROWS  # minutes of work
    slow = {"use": "slow"}
    (cell,) = cells(spec(slow, trials=trials, run={"seconds": 0.05}))
    assert cell["status"] == "ok", cell["reason"]
    assert all(0 < number < trials for number in cell["trials"])
    assert [sum(row) for row in cell["counts"]] == cell["trials"]
    n0, n1 = cell["trials"]
    assert f"ended by the time budget after {n0:,} and {n1:,} of {trials:,} trials" in notes(cell)
    assert "valid only if run time does not depend on the outputs" in notes(cell)
    assert cell["verdict"] is not None


@pytest.mark.parametrize("mechanism", ["box", "flip"])
def test_a_budget_of_nothing_still_gives_trials_on_both_datasets(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "HOST_SEGMENT_ELEMENTS", 3 * ROWS)
    monkeypatch.setattr(chunks, "SEGMENT_ELEMENTS", 3 * ROWS)
    (cell,) = cells(spec({"use": mechanism}, trials=300 * ROWS, run={"seconds": 1e-9}))
    assert cell["status"] == "ok", cell["reason"]
    assert all(0 < number < 300 * ROWS for number in cell["trials"])


@pytest.mark.usefixtures("in_process")
def test_what_a_budget_left_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "HOST_SEGMENT_ELEMENTS", 3 * ROWS)
    (whole,) = cells(spec({"use": "box"}, trials=30 * ROWS))
    hurried = spec({"use": "box"}, trials=30 * ROWS, run={"seconds": 1e-9})
    got = [0, 0]
    for _ in range(30):
        (cell,) = cells(hurried, store=Store(tmp_path))
        assert all(new > old for new, old in zip(cell["trials"], got, strict=True) if old < 960)
        got = cell["trials"]
        if got == [30 * ROWS] * 2:
            break
    assert cell["counts"] == whole["counts"]
    assert "time budget" not in notes(cell)


PLUGIN = '''
import os
import dpframe
from dpframe import HostMechanism, PureDP

class Dies(HostMechanism, name="dies"):
    """Ends its process."""
    epsilon: float = 1.0
    def claim(self, pair):
        return PureDP(20.0)
    def sample(self, rng, data, n):
        if n > 2:
            os._exit(9)
        return rng.random((n, *data.shape))

@dpframe.hookimpl
def dpframe_mechanisms():
    return [Dies]
'''

DIES = """
schema = 1
[audit]
name = "dies"
trials = 5000
[pair]
use = "zeros-ones"
[[mechanism]]
use = "dies"
[[mechanism]]
use = "laplace-numpy"
params.epsilon = 1.0
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
"""


def test_the_command_exits_3_and_reports_the_others(tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "deadly-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "deadly_plugin.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dpframe]\ndeadly = deadly_plugin\n")
    (tmp_path / "dies.toml").write_text(DIES)
    words = (*DPFRAME, "run", "dies.toml", "--quiet")
    done = run_process(*words, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "a worker process died" in done.stdout
    assert "laplace-numpy" in done.stdout
    assert "Traceback" not in done.stderr


SCRIPT = """
import dpframe

spec = {
    "schema": 1,
    "audit": {"name": "script", "trials": 1000},
    "pair": {"use": "zeros-ones"},
    "mechanism": [{"use": "laplace-numpy", "params": {"epsilon": 1.0}}],
    "attack": [{"use": "majority-vote"}],
    "estimator": [{"use": "precision"}],
}
(cell,) = dpframe.audit(spec)["cells"]
print(cell["status"], cell["reason"])
"""


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """Its workers import it again. They neither audit nor print, and it is said what to do."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_process("script.py", cwd=tmp_path)
    assert done.stdout == f"failed {processes.UNGUARDED}\n"
    assert 'if __name__ == "__main__":' in done.stdout
    assert done.stderr == ""
