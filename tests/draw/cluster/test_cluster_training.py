"""Training runs on a cluster: what attacks learn from is drawn there too, and is the same."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from support import searches, training
from support.searches import Three
from support.small_audits import load
from support.training import Trains

from dpframe.commands.audit import make_plan
from dpframe.count import draws
from dpframe.draw.programs import DrawChunks
from dpframe.engine.run import run

pytest.importorskip("distributed")

from dpframe.draw.dask_executor import DaskExecutor

if TYPE_CHECKING:
    from support.dask_processes import Processes

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

PLUGINS = [Trains, Three]


def shown(document: dict[str, Any], cluster: DaskExecutor | None = None) -> list[Any]:
    """Return the counts, and their layout."""
    found = run(make_plan(load(document, PLUGINS)), executor=cluster)
    assert [result.reason for result in found] == [None] * len(found)
    return [(result.counts, result.trials, result.statistic) for result in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [
        training.spec("threshold", "order-statistics"),
        training.spec("betting", sweep={}),
        searches.spec({"use": "trains"}, trials=3_000),
    ],
    ids=["pilots", "rounds", "search"],
)
def test_what_attacks_learn_from_is_drawn_by_workers(
    processes: Processes, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = shown(document)

    run_anywhere = DrawChunks.run

    def run_by_no_driver(task: DrawChunks, shared: Any) -> Any:
        if sys._getframe(1).f_code.co_filename == draws.__file__:  # the executor runs it elsewhere
            raise AssertionError("drawn by the driver")
        return run_anywhere(task, shared)

    monkeypatch.setattr(DrawChunks, "run", run_by_no_driver)
    with DaskExecutor(processes.address) as cluster:
        assert shown(document, cluster) == wanted
