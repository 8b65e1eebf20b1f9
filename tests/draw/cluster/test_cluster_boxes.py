"""Black boxes and searches on a cluster: outputs of this machine, whoever draws them."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from support import searches
from support.black_boxes import BOXES, Answers, Box, Unseeded, record, spec
from support.dask_processes import Processes
from support.searches import Three
from support.small_audits import PLUGINS, load

from dpframe import ForeignMechanism, PureDP
from dpframe.commands.audit import make_plan, make_record
from dpframe.count import pair_pass as learned
from dpframe.draw import remote, sampler
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.local_executor import LocalExecutor
from dpframe.draw.remote import (
    BlackBoxOutputs,
    DrawBlackBox,
    RemoteBlackBoxes,
    SharedBlackBox as Shared,
)
from dpframe.draw.requests import (
    BlackBoxPayload,
    DeadlinePassed,
    Drawn,
    LostError,
    RaisedError,
    Request,
    RunCancelled,
)
from dpframe.draw.streams import EVAL, Asking, Shape, Stream
from dpframe.engine.run import run
from dpframe.environments import Environment
from dpframe.errors import CellError, SampleError, WrongResultError
from dpframe.interfaces.executor import RefusedError, wanted

pytest.importorskip("distributed")

from support.harmed import Harmed

from dpframe.draw.dask_executor import DaskExecutor

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def without_attacks(document: dict[str, Any]) -> dict[str, Any]:
    """The same with all attacks that there are on answers."""
    return {key: value for key, value in document.items() if key != "attack"}


def on(cluster: Any, document: dict[str, Any], plugins: list[Any]) -> dict[str, Any]:
    """The record of an audit whose draws are made by a cluster."""
    source = InProcessWorkers()
    plan = make_plan(load(document, plugins), source=source)
    results = run(plan, source=source, executor=cluster)
    return make_record(plan, results, 0.0, source.calls).as_dict()


def told(record: dict[str, Any]) -> list[Any]:
    """Return everything that decides anything, of all cells."""
    assert all(cell["status"] == "ok" for cell in record["cells"]), record["cells"][0]["reason"]
    names = ("counts", "trials", "verdict", "p_value", "witness", "draw_group", "looks")
    return [[cell.get(name) for name in names] for cell in record["cells"]]


class PrefixCounts(DaskExecutor):
    """Notes what its workers did."""

    done: tuple[str, ...] = ()

    def do(self, task: Any) -> Any:
        found = super().do(task)
        self.done = (*self.done, type(task).__name__)
        return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "plugins", "what"),
    [
        (spec({"use": "box"}, {"use": "slow"}), [*PLUGINS, *BOXES], "DrawBlackBox"),
        (searches.spec("laplace", trials=6_000), [Three], "CountSegment"),
        (
            without_attacks(searches.spec({"use": "answers-box"}, trials=3_000)),
            [Three, Answers],
            "DrawBlackBox",
        ),
    ],
    ids=["boxes", "search", "search of a box"],
)
def test_workers_draw_what_this_machine_would(
    processes: Processes,
    document: dict[str, Any],
    plugins: list[Any],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learned, "SEND_SECONDS", 0.0)
    said: list[str] = []
    with PrefixCounts(processes.address, said.append) as cluster:
        found = told(on(cluster, document, plugins))
        assert {*cluster.done} == {what}, said
    assert found == told(record(document, plugins=[*plugins]))


@pytest.mark.slow
def test_small_rounds_of_a_search_are_counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    # The speed of this machine decides nothing here.
    monkeypatch.setattr(learned, "SEND_SECONDS", 1e9)
    monkeypatch.setattr(sampler, "SEND_SECONDS", 1e9)

    class Nobody(LocalExecutor):
        is_local = False

        def submit(self, task: Any) -> Any:
            raise AssertionError(task)

    document = searches.spec("laplace", trials=6_000)
    assert told(on(Nobody(), document, [Three])) == told(record(document, plugins=[Three]))


def faults_left(processes: Processes, number: int, boxes: int) -> int:
    """Draws slow boxes while workers are killed one after the other; how many faults were left."""

    def document(seconds: float) -> dict[str, Any]:
        params = [{"seconds": seconds * (1 + n / 64)} for n in range(boxes)]
        slow = [{"use": "slow", "label": f"slow {n}", "params": p} for n, p in enumerate(params)]
        return spec(*slow, trials=1_200 // boxes)

    choice, plugins = random.Random(7), [*PLUGINS, *BOXES]
    # On a full disk no process of a box can print; a slow worker is late.
    kinds = processes.fill_disk, processes.replace, processes.hold_up, processes.replace
    faults = [partial(kinds[n % 4], choice.randrange(2)) for n in range(number)]
    with Harmed(processes.address, faults) as cluster, cluster.harming():
        found = told(on(cluster, document(0.002), plugins))
    wanted = told(record(document(0.0), plugins=plugins))  # its duration changes no draw
    assert [one[0] for one in found] == [one[0] for one in wanted]
    return len(cluster.left)


@pytest.mark.slow
def test_workers_that_are_killed_while_they_draw_change_no_count(processes: Processes) -> None:
    assert faults_left(processes, 3, boxes=2) == 0


class Near(LocalExecutor):
    """An executor in this process: what workers do, without Dask.

    Args:
        answers: what becomes of tasks in place of doing them, in turn; None: they are done.
    """

    is_local = False

    def __init__(self, *answers: Any) -> None:
        super().__init__(2)
        self.run = "near"
        self.answers, self.asked = list(answers), 0
        self.said: list[str] = []
        self.warn = self.said.append

    def submit(self, task: Any) -> Future[Any]:
        self.asked += 1
        given = self.answers.pop(0) if self.answers else None
        if given is None:
            return super().submit(cloudpickle.loads(cloudpickle.dumps(task)))
        future: Future[Any] = Future()
        if isinstance(given, Exception):
            future.set_exception(given)
        else:
            future.set_result(given)
        return future


@pytest.fixture(autouse=True, scope="module")
def _no_processes_left() -> Iterator[None]:
    yield
    remote.end("near")


DATA = (np.zeros(1), np.ones(1))
WHERE = Stream(1, "a", 0, EVAL), 0, 0, 1, 4


def drawn(boxes: RemoteBlackBoxes, load: BlackBoxPayload, *, deadline: float | None = None) -> Any:
    with boxes.lend(load) as (worker,):
        return worker.outputs(Request(0, 0, *WHERE), deadline)


def directly(box: Any) -> Any:
    with InProcessWorkers().lend(BlackBoxPayload((box,), DATA)) as (worker, *_):
        return worker.outputs(Request(0, 0, *WHERE), None)


def ended(ending: Exception, releases: int = 0) -> BlackBoxOutputs:
    return BlackBoxOutputs((), ending, releases, {})


@pytest.mark.parametrize("ending", [LostError("it ended"), RunCancelled()], ids=["lost", "stopped"])
def test_a_process_that_ends_with_its_machine_is_another_try(ending: Exception) -> None:
    source = InProcessWorkers()
    boxes = RemoteBlackBoxes(Near(ended(ending, 3)), source)
    outputs = drawn(boxes, BlackBoxPayload((Box(),), DATA))
    assert outputs.tobytes() == directly(Box()).tobytes()
    assert source.calls == 3 + 4


@pytest.mark.parametrize(("box", "times"), [(Box(), 3), (Unseeded(), 1)])
def test_a_box_that_ends_its_process_fails(box: Any, times: int) -> None:
    """At once if it takes no seed: what it would draw again is something else."""
    near = Near(*[ended(LostError("it ended"))] * times)
    with pytest.raises(SampleError, match="it ended"):
        drawn(RemoteBlackBoxes(near, InProcessWorkers()), BlackBoxPayload((box,), DATA))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (ended(RaisedError("release raised X")), RaisedError),
        (ended(DeadlinePassed()), DeadlinePassed),
        (CellError("5 workers ended"), SampleError),
        (RunCancelled(), RunCancelled),
        (DeadlinePassed(), DeadlinePassed),
    ],
)
def test_what_a_box_does_there_is_what_it_does_here(given: Any, error: Any) -> None:
    with pytest.raises(error):
        drawn(RemoteBlackBoxes(Near(given), InProcessWorkers()), BlackBoxPayload((Box(),), DATA))


def test_outputs_of_another_type_fail_the_box() -> None:
    request = Request(0, 0, *WHERE, shape=Shape((), np.dtype("f8")))
    task = DrawBlackBox(Shared("near", BlackBoxPayload((Box(),), DATA)), request, None)
    right = BlackBoxOutputs((Drawn(np.zeros(4)),), None, 4, {})
    assert task.checked(right) is right
    for wrong in (np.zeros(3), np.zeros(4, np.float32), np.zeros((4, 1))):
        with pytest.raises(WrongResultError):
            task.checked(right._replace(outputs=(Drawn(wrong),)))


@pytest.mark.slow
def test_a_run_that_ends_asks_for_nothing_more() -> None:
    near = Near()
    boxes = RemoteBlackBoxes(near, InProcessWorkers())
    with boxes.lend(BlackBoxPayload((Box(),), DATA)) as (worker,):
        boxes.stop()
        with pytest.raises(RunCancelled):
            list(worker.draw(Request(0, 0, *WHERE), None))
    assert not near.asked


def test_what_no_worker_can_draw_is_drawn_here() -> None:
    near = Near(RefusedError("a worker cannot use the environment 'old'"))
    outputs = drawn(RemoteBlackBoxes(near, InProcessWorkers()), BlackBoxPayload((Box(),), DATA))
    assert outputs.tobytes() == directly(Box()).tobytes()
    assert near.said == ["box is drawn on this machine: a worker cannot use the environment 'old'"]


def test_words_are_told_even_if_an_answer_was_lost() -> None:
    asking = Asking()
    load = BlackBoxPayload((Answers(),), DATA)
    for _ in range(2):  # a process tells a word once
        source = InProcessWorkers()
        with RemoteBlackBoxes(Near(), source).lend(load) as (worker,):
            list(worker.draw(Request(0, 0, *WHERE, asking), None))
        assert "str" in source.words.values()


def asked(box: Any, seconds: float | None = None) -> DrawBlackBox:
    shared = Shared("near", BlackBoxPayload((box,), DATA))
    return DrawBlackBox(shared, Request(0, 0, *WHERE), seconds)


@pytest.mark.slow
def test_what_is_not_wanted_any_more_ends() -> None:
    token = wanted.set(lambda: False)
    try:
        assert isinstance(asked(BOXES[2](seconds=60.0))().ending, RunCancelled)
    finally:
        wanted.reset(token)


@pytest.mark.slow
def test_time_ends_a_draw_there() -> None:
    found = asked(BOXES[2](seconds=60.0), 0.2)()
    assert (type(found.ending), found.releases) == (DeadlinePassed, 4)


def test_a_box_whose_process_ends_is_told_from_one_that_raises() -> None:
    found = asked(BOXES[1](epsilon=2.0))()
    assert isinstance(found.ending, LostError)
    assert "ended with exit code 9" in str(found.ending)


def test_fields_of_a_class_that_travels_as_code_have_no_second_missing() -> None:
    assert pickle.loads(cloudpickle.dumps(dataclasses.MISSING)) is dataclasses.MISSING


def test_another_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Environment("its own name", ("lib",), "/there/python", "3.11.2", ("lib==1.0",))
    monkeypatch.setattr(remote.places, "every", lambda: [built])
    wanted = built._replace(name="lib", interpreter="/nowhere/python")
    assert remote._interpreters(of_box(Box(), wanted)) == {"lib": "/there/python"}
    for other in ({"installed": ("lib==1.1",)}, {"python": "3.9.1"}):
        with pytest.raises(RefusedError, match="no environment 'lib' with Python"):
            remote._interpreters(of_box(Box(), wanted._replace(**other)))


def of_box(box: Any, environment: Environment | None = None) -> Shared:
    return Shared("near", BlackBoxPayload((box,), DATA), None, environment)


def test_another_program_is_refused(tmp_path: Path) -> None:
    class Program(ForeignMechanism, name="a-program"):
        """A module beside this one."""

        module = tmp_path / "box.py"

        def claim(self, pair: Any) -> PureDP:
            return PureDP(1.0)

    Program.module.write_text("def prepare(params, data):\n    return float\n")
    box = RemoteBlackBoxes(Near(), InProcessWorkers()).shared(BlackBoxPayload((Program(),), DATA))
    assert remote._interpreters(box) == {}
    Program.module.write_text("def prepare(params, data):\n    return int\n")
    with pytest.raises(RefusedError, match=r"does not have the program \S*box\.py of the run"):
        remote._interpreters(box)
    Program.module.unlink()
    with pytest.raises(RefusedError, match=r"does not have the program"):
        remote._interpreters(box)
