"""Black boxes in worker processes: the same counts however many, and no death that spreads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.black_boxes import BOXES, ROWS, Box, cells, notes, record, spec
from support.processes import run as run_process
from support.small_audits import PLUGINS, Stop, load

from dpframe import HostMechanism, PureDP, host_mechanism
from dpframe.commands.audit import make_plan
from dpframe.count.checkpoint import Store
from dpframe.draw import process as worker_process, scheduling as pace, streams as chunks
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.draw.requests import RunCancelled
from dpframe.draw.worker.mechanism_sampler import MechanismSampler
from dpframe.engine.resources import planned_calls
from dpframe.engine.run import run as run_plan


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Processes take a second to start; tests share them as passes do."""
    with Workers(2) as shared:
        yield shared


SWEPT = spec({"use": "box"}, sweep={"mechanism.epsilon": [0.5, 2.0], "pair.dim": [2]})


@pytest.fixture(scope="module")
def direct() -> list[Any]:
    """Counts without any worker process."""
    return [cell["counts"] for cell in cells(SWEPT)]


@pytest.mark.parametrize("bundle", [1e-9, 0.002, 0.5])
def test_counts_do_not_depend_on_tasks(
    bundle: float, direct: list[Any], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "TASK_SECONDS", bundle)
    assert [cell["counts"] for cell in cells(SWEPT, workers)] == direct


def test_counts_do_not_depend_on_the_number_of_workers(direct: list[Any]) -> None:
    with Workers(2) as two:
        assert [cell["counts"] for cell in cells(SWEPT, two)] == direct


def test_processes_that_were_started_early_are_lent() -> None:
    with Workers(2) as two:
        two.start(2)
        early = {process.number for process in two._idle}
        with two.lend(plan_load(), 2) as lent:
            assert {worker.process.number for worker in lent} == early


def test_a_chunk_is_drawn_at_its_address_and_nowhere_else() -> None:
    def drawn(**changed: Any) -> bytes:
        box = MechanismSampler((Box(),), (np.zeros(1), np.zeros(1)))
        asked = {"variant": 0, "data": 0, "dataset": 0, "first": 0, "rows": 4, "dims": None}
        asked |= {"stream": [1, "a", 0, "eval"], "dtype": None, **changed}
        (frame,) = box.draw({**asked, "stop": asked["first"] + 1})
        return bytes(frame.content)

    others = [
        {"stream": [2, "a", 0, "eval"]},
        {"stream": [1, "b", 0, "eval"]},
        {"stream": [1, "a", 1, "eval"]},
        {"stream": [1, "a", 0, "pilot"]},
        {"first": 1},
        {"dataset": 1},
    ]
    assert len({drawn(), *(drawn(**other) for other in others)}) == 1 + len(others)
    assert drawn() == drawn(data=1)


@pytest.mark.slow
def test_one_variant_that_dies_leaves_the_others(workers: Workers) -> None:
    swept = spec({"use": "one-variant-dies"}, sweep={"mechanism.epsilon": [1.0, 2.0, 3.0]})
    found = record(swept, workers)
    assert [cell["status"] for cell in found["cells"]] == ["ok", "failed", "ok"]
    dead = found["cells"][1]
    assert dead["reason"] == "a worker process ended with exit code 9 while it sampled"
    assert dead["counts"] is None
    assert found["summary"]["failed"] == 1


@pytest.mark.slow
def test_an_interrupted_run_ends_its_processes() -> None:
    with Workers(2) as own:
        plan = make_plan(load(spec({"use": "box"}), [*PLUGINS, *BOXES]), source=own)
        with pytest.raises(KeyboardInterrupt):
            run_plan(plan, Stop(0), source=own)
        assert not own._idle
        assert not any(process.alive for process in own._busy)
        with pytest.raises(RunCancelled), own.lend(plan_load()):
            pytest.fail("it lends what it has ended")


NEVER_READY = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"


class Interrupted:
    """A progress display at which the user presses Ctrl-C as soon as a process is starting."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.started: set[Any] = set()

    def __call__(self, **_: Any) -> None:
        self.started |= self.workers._busy
        if self.started:
            raise KeyboardInterrupt


def test_ctrl_c_while_processes_start_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(load(spec({"use": "box"}), [*PLUGINS, *BOXES]), source=InProcessWorkers())
    monkeypatch.setattr(worker_process, "MECHANISM_WORKER_START", NEVER_READY)
    with Workers(2) as own:
        ctrl_c = Interrupted(own)
        with pytest.raises(KeyboardInterrupt):
            run_plan(plan, ctrl_c, source=own)
        assert ctrl_c.started
        assert not any(process.alive for process in ctrl_c.started)
        assert not own._idle


def test_ctrl_c_while_a_plan_waits_for_a_process_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "MECHANISM_WORKER_START", NEVER_READY)
    started: list[Any] = []

    def hear(self: Any, deadline: Any = None) -> Any:
        started.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(worker_process.WorkerProcess, "receive", hear)
    with Workers(2) as own, pytest.raises(KeyboardInterrupt):
        make_plan(load(spec({"use": "box"}), [*PLUGINS, *BOXES]), source=own)
    assert started
    assert not any(process.alive for process in started)
    assert not own._idle
    assert not any(process.alive for process in own._busy)


def plan_load() -> Any:
    from dpframe.draw.requests import BlackBoxPayload

    return BlackBoxPayload((Box(),), (np.zeros(1), np.ones(1)))


def local_class() -> Any:
    shift = 0.0

    class Local(HostMechanism, name="box"):
        """A class that pickle cannot find, with a value that only its scope knows."""

        epsilon: float = 1.0
        claim = Box.claim

        def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
            return shift + Box.sample(self, rng, data, n)  # type: ignore[arg-type]

    return Local


def test_a_class_that_no_module_has_goes_to_the_workers_as_code(workers: Workers) -> None:
    """The module of a notebook, of a script, of a function."""
    one = spec({"use": "box"})
    (local,) = cells(one, workers, [local_class()])
    (module,) = cells(one, workers)
    assert local["status"] == "ok", local["reason"]
    assert local["counts"] == module["counts"]


def test_processes_load_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that takes seconds to import should not take them once for each process."""
    said: list[object] = []
    say, hear = worker_process.WorkerProcess.send, worker_process.WorkerProcess.receive

    def told(process: Any, header: Any, content: bytes = b"") -> None:
        said.append(header["request"])
        say(process, header, content)

    def answered(process: Any, deadline: float | None = None) -> Any:
        frame = hear(process, deadline)
        said.append(frame.header["reply"])
        return frame

    monkeypatch.setattr(worker_process.WorkerProcess, "send", told)
    monkeypatch.setattr(worker_process.WorkerProcess, "receive", answered)
    with Workers(2) as two, two.lend(plan_load(), 2):
        pass
    assert said == ["ready", "load", "ready", "load", "loaded", "loaded"]


def test_what_cannot_be_handed_over_fails_and_says_why(workers: Workers) -> None:
    lock = threading.Lock()

    def locked(rng: Any, data: Any, n: int) -> Any:
        with lock:
            return rng.random((n, 1))

    bound, box = cells(
        spec({"use": "locked"}, {"use": "box"}), workers, [*BOXES, host_mechanism(locked)]
    )
    assert bound["reason"] == (
        "a black box runs in its own process, and this one cannot be sent there: "
        "TypeError: cannot pickle '_thread.lock' object"
    )
    assert box["status"] == "ok"


def test_what_cannot_be_replayed_is_said(workers: Workers) -> None:
    free = host_mechanism(
        lambda _, data, n: np.random.default_rng().random((n, 1)),
        name="free",
        claim=PureDP(20.0),
        seedable=False,
    )
    free_cell, box = cells(spec({"use": "free"}, {"use": "box"}), workers, [*BOXES, free])
    assert "not replayable" in notes(free_cell)
    assert "not replayable" not in notes(box)


def test_host_counts_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = spec({"use": "box"}, trials=30 * ROWS + 9)
    (direct,) = cells(longer)
    cells(spec({"use": "box"}), store=Store(tmp_path))
    asked: list[tuple[int, int]] = []
    draw = MechanismSampler.draw

    def spy(self: MechanismSampler, wanted: dict[str, Any]) -> Any:
        if wanted["stream"].stream == "eval":
            asked.extend((wanted["data"], c) for c in range(wanted["first"], wanted["stop"]))
        return draw(self, wanted)

    monkeypatch.setattr(MechanismSampler, "draw", spy)
    (cell,) = cells(longer, store=Store(tmp_path))
    assert cell["counts"] == direct["counts"]
    assert sorted(asked) == [(d, c) for d in (0, 1) for c in range(9, 31)]


@pytest.mark.slow
def test_a_time_budget_ends_a_slow_cell_honestly(workers: Workers) -> None:
    trials = 400 * ROWS  # ten seconds of work
    (cell,) = cells(spec({"use": "slow"}, trials=trials, run={"seconds": 0.3}), workers)
    assert cell["status"] == "ok", cell["reason"]
    assert all(0 < number < trials for number in cell["trials"])
    assert [sum(row) for row in cell["counts"]] == cell["trials"]
    n0, n1 = cell["trials"]
    assert f"stopped by the time budget after {n0:,} and {n1:,} of {trials:,} trials" in notes(cell)
    assert "valid only if the run time does not depend on the outputs" in notes(cell)
    assert cell["verdict"] is not None


@pytest.mark.parametrize("mechanism", ["box", "flip"])
def test_a_budget_of_nothing_still_gives_trials_on_both_datasets(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SEGMENT_ELEMENTS", 1 << 20)
    (cell,) = cells(spec({"use": mechanism}, trials=10**9, run={"seconds": 1e-9}))
    assert cell["status"] == "ok", cell["reason"]
    assert all(0 < number < 10**9 for number in cell["trials"])


@pytest.mark.slow
def test_what_a_budget_left_is_gone_on_with(tmp_path: Path) -> None:
    (whole,) = cells(spec({"use": "box"}, trials=30 * ROWS))
    hurried = spec({"use": "box"}, trials=30 * ROWS, run={"seconds": 1e-9})
    got = [0, 0]
    for _ in range(40):
        (cell,) = cells(hurried, store=Store(tmp_path))
        assert all(new > old for new, old in zip(cell["trials"], got, strict=True) if old < 960)
        got = cell["trials"]
        if got == [30 * ROWS] * 2:
            break
    assert cell["counts"] == whole["counts"]
    assert "time budget" not in notes(cell)


def test_progress_ends_at_the_number_of_releases_that_was_planned(workers: Workers) -> None:
    seen: list[int] = []
    document = spec({"use": "slow", "params": {"seconds": 0.02}}, trials=32, run={"chunk": 16})
    plan = make_plan(load(document, [*PLUGINS, *BOXES]), source=workers)
    planned = sum(planned_calls(p, plan.audit.run) for p in plan.passes)
    run_plan(plan, lambda **told: seen.append(told["draws_done"]), source=workers)
    assert seen == sorted(seen)
    assert seen[-1] == planned


def test_chunks_of_the_first_check_are_not_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted in no time, so the next tasks would be far too large."""
    timed: list[int] = []
    measured = pace.TaskSize.measured

    def noted(self: Any, number: int, seconds: float) -> None:
        timed.append(number)
        measured(self, number, seconds)

    monkeypatch.setattr(pace.TaskSize, "measured", noted)
    document = spec({"use": "box"}, trials=64, run={"chunk": 16})
    assert record(document, InProcessWorkers())["cells"][0]["status"] == "ok"
    assert timed[:2] == [0, 0]
    assert sum(timed) == 2 * 3


def test_here_is_a_source_too() -> None:
    here = InProcessWorkers()
    assert record(spec({"use": "box"}), here)["summary"]["calls"] == here.calls > 0


SCRIPT = """
import dpframe

class Noise(dpframe.HostMechanism, name="noise"):
    '''Of the script itself.'''

    def claim(self, pair):
        return dpframe.PureDP(1.0)

    def sample(self, rng, data, n):
        print("sampled")
        return data + rng.laplace(size=(n, *data.shape))

spec = {
    "schema": 1,
    "audit": {"name": "script", "trials": 100},
    "pair": {"use": "zeros-ones"},
    "mechanism": [{"use": "noise"}],
    "attack": [{"use": "majority-vote"}],
    "estimator": [{"use": "precision"}],
}
(cell,) = dpframe.audit(spec, plugins=[Noise])["cells"]
print(cell["status"], cell["reason"] is None)
"""


@pytest.mark.slow
def test_a_script_needs_no_guard_and_may_hold_the_box(tmp_path: Path) -> None:
    """Its workers do not import it again; what a box prints is none of the script's output."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run_process("script.py", cwd=tmp_path)
    assert done.stdout == "ok False\n", done.stderr
    assert set(done.stderr.replace("\n", "").split("sampled")) == {""}  # processes print at once


def test_the_time_to_load_follows_from_the_first_one() -> None:
    workers = Workers()
    assert workers.load_seconds == 600  # a machine may be busy, and torch is large
    workers.note_load_seconds(2.0)
    assert workers.load_seconds == 60
    workers.note_load_seconds(45.0)
    assert workers.load_seconds == 450
    workers.note_load_seconds(1.0)
    assert workers.load_seconds == 450
