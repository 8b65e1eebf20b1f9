"""Results of executors are checked where they come in, and some of them are computed again here."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from support import searches
from support.black_boxes import BOXES, spec
from support.searches import Three
from support.small_audits import PLUGINS, load

from dpframe import BinCounts, DecisionCounts, Statistic
from dpframe.commands.audit import make_plan, make_record
from dpframe.engine.checkpoint import Store
from dpframe.engine.ledger import NAME, Ledger
from dpframe.engine.programs import CountSegment, DrawChunks
from dpframe.engine.rounds import checked_counts
from dpframe.engine.run import run
from dpframe.errors import WrongResultError
from dpframe.interfaces.executor import Task
from dpframe.results.verdict import exit_code
from dpframe.search import arms as learned
from dpframe.workers import box_tasks
from dpframe.workers.box_tasks import BoxOutputs, DrawBox
from dpframe.workers.executor import Checked, ThisProcess
from dpframe.workers.in_process import Here


@dataclasses.dataclass(frozen=True)
class Grid(BinCounts):
    """Three edges."""

    def edges(self, layout: Any) -> Any:
        return np.arange(3.0)


@dataclasses.dataclass(frozen=True)
class Whatever(Statistic):
    """Does not tell how many scores it counted."""

    def zero(self, layout: Any) -> Any:
        return {"a": np.zeros((2, 3), np.int32), "b": np.zeros(2, np.int32)}

    def update(self, *_: Any) -> Any:
        raise NotImplementedError


class Nested:
    """Claims to be an array and raises what nobody expects."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def forge(choice: random.Random, counts: Any, trials: int, tells: bool) -> Any:
    """Return counts that cannot be."""
    leaves, structure = jax.tree.flatten(counts)
    place = choice.randrange(len(leaves))
    leaf = np.array(leaves[place])
    at = tuple(choice.randrange(size) for size in leaf.shape)

    def put(value: Any, dtype: Any = None) -> Any:
        changed = leaf.astype(dtype or leaf.dtype)
        changed[at] = value
        return changed

    large: int = choice.choice([1 << 62, (1 << 63) - 1, trials << 32])
    kinds: list[Callable[[], Any]] = [
        lambda: put(-choice.randrange(1, 1 << 40)),
        lambda: put(large),
        lambda: put((1 << 63) + choice.randrange(1 << 62), np.uint64),
        lambda: leaf.astype(choice.choice(["f8", "f4", "?", "c16", "U9", "O", "S9", "M8[s]"])),
        lambda: put(choice.choice([np.nan, np.inf, 0.5]), np.float64),
        lambda: put(10**30, object),
        lambda: leaf[..., : leaf.shape[-1] - 1],
        lambda: leaf[:1],
        lambda: np.stack([leaf] * choice.randrange(1, 4)),
        lambda: leaf.reshape(-1) if leaf.ndim > 1 else leaf[None],
        lambda: choice.choice([None, "1", b"1", 3, 1.5, {}, [], (), Nested(), object()]),
        lambda: [[1], [1, 2]],
        lambda: nested(choice.choice([3, 40, 200])),
    ]
    if tells:
        kinds += [
            lambda: leaf * 2,
            lambda: leaf * 0,
            lambda: leaf // 2,
            lambda: put(leaf[at] + choice.choice([-1, 1, 7])),
            lambda: leaf[::-1],
        ]
    forged = choice.choice(kinds)()
    if choice.random() < 0.05:
        return choice.choice([None, [counts, counts], {"a": forged}, "counts", forged, 7, ()])
    return jax.tree.unflatten(structure, [*leaves[:place], forged, *leaves[place + 1 :]])


@pytest.mark.parametrize("statistic", [DecisionCounts(), Grid(), Whatever()], ids=repr)
def test_of_ten_thousand_forged_counts_none_is_accepted(statistic: Any) -> None:
    choice, rows = random.Random(7), 1000
    zero = jax.tree.map(np.asarray, statistic.zero(()))
    tells, accepted = not isinstance(statistic, Whatever), 0
    for _ in range(3400):
        trials = np.array([choice.randrange(1, rows), 0])
        true = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.int64), zero)
        for leaf in jax.tree.leaves(true):
            size = leaf[0].size
            share = np.random.default_rng(choice.randrange(1 << 32)).multinomial(
                trials[0], [1 / size] * size
            )
            leaf[0] = share.reshape(leaf[0].shape)
        same = checked_counts(statistic, true, zero, trials)
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), same, true))
        forged = forge(choice, true, int(trials[0]), tells)
        try:
            checked_counts(statistic, forged, zero, trials)
        except WrongResultError:
            continue
        accepted += 1
    assert accepted == 0


class Forger(ThisProcess):
    """An executor that changes what tasks return.

    Args:
        forge: maps a task and its result to another one.
    """

    is_local = False

    def __init__(self, forge: Callable[[Task, Any], Any]) -> None:
        super().__init__()
        self.forge, self.forged = forge, 0

    def submit(self, task: Task) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self.forge(task, task()))
        return future


def of_counts(change: Callable[[Any], Any]) -> Callable[[Task, Any], Any]:
    def forge(task: Task, found: Any) -> Any:
        return jax.tree.map(change, found) if isinstance(task, CountSegment) else found

    return forge


def moved(leaf: Any) -> Any:
    """Return plausible counts: another answer for one draw of the first real lane."""
    found = np.array(leaf)
    flat = found.reshape(-1, found.shape[-1])
    row = int(np.argmax(flat.max(1) > 0))
    full = int(np.argmax(flat[row]))
    flat[row, full] -= 1
    flat[row, full - 1] += 1
    return found


def audited(document: dict[str, Any], executor: Any, directory: Path, plugins: Any = ()) -> Any:
    source = Here()
    plan = make_plan(load(document, [*PLUGINS, *plugins]), source=source)
    store, ledger = Store(directory / "checkpoint"), Ledger([directory])
    found = run(plan, store=store, ledger=ledger, source=source, executor=executor)
    return make_record(plan, found, 0.0, source.calls)


def traced(estimator: str = "precision", **run: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "audit": {"name": "t", "trials": 9000, "seed": 5},
        "pair": {"use": "zeros-ones", "params": {"dim": 2}},
        "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": estimator}],
        "run": {"chunk": 1024, **run},
    }


def check_distrusted(record: Any, directory: Path, *words: str) -> None:
    """Nothing was decided, nothing is kept, and the message names the executor and the draws."""
    assert exit_code(record) == 3
    for cell in record.cells:
        assert (cell.status, cell.verdict, cell.estimate) == ("failed", None, None)
        assert cell.reason is not None
        for word in ("the executor Forger returned", *words):
            assert word in cell.reason, cell.reason
    assert not list((directory / "checkpoint").glob("*.json"))
    assert not (directory / NAME).exists()


IMPOSSIBLE: dict[str, Callable[[Any], Any]] = {
    "doubled": lambda leaf: leaf * 2,
    "huge": lambda leaf: leaf + (1 << 62),
    "zeros": lambda leaf: leaf * 0,
    "negative": lambda leaf: -leaf - 1,
    "truncated": lambda leaf: leaf[..., :1],
    "not a number": lambda leaf: np.full(leaf.shape, np.nan),
    "nothing": lambda leaf: None,
    "text": lambda leaf: "counts",
}


@pytest.mark.usefixtures("coarse_bounds")
@pytest.mark.parametrize("what", IMPOSSIBLE)
@pytest.mark.parametrize("estimator", ["precision", "betting"])
def test_impossible_counts_of_an_executor_end_the_run(
    what: str, estimator: str, tmp_path: Path
) -> None:
    document = traced(estimator, verify=0)
    record = audited(document, Forger(of_counts(IMPOSSIBLE[what])), tmp_path)
    check_distrusted(record, tmp_path, "chunk", " of D")


@pytest.mark.usefixtures("coarse_bounds")
@pytest.mark.parametrize("estimator", ["precision", "betting"])
def test_plausible_counts_that_are_wrong_end_the_run(estimator: str, tmp_path: Path) -> None:
    record = audited(traced(estimator), Forger(of_counts(moved)), tmp_path)
    check_distrusted(record, tmp_path, "something other than this machine finds", "chunk")
    # Nothing else would have noticed.
    unseen = audited(traced(estimator, verify=0), Forger(of_counts(moved)), tmp_path)
    assert unseen.cells[0].status == "ok"


@pytest.mark.parametrize("verify", [2, 0, 1.0])
def test_a_true_executor_gives_the_record_of_one_machine(verify: float, tmp_path: Path) -> None:
    wanted = audited(traced(), None, tmp_path / "here").cells[0]
    document = traced(verify=verify)
    found = audited(document, Forger(of_counts(np.array)), tmp_path / "there").cells[0]
    assert (found.counts, found.p_value, found.verdict) == (
        wanted.counts,
        wanted.p_value,
        wanted.verdict,
    )


def test_results_are_chosen_after_they_came_and_by_share() -> None:
    few, all_, none = (Checked(ThisProcess(), verify) for verify in (2, 1.0, 0))
    numbers = [sum(one.chosen("x") for _ in range(4000)) for one in (few, all_, none)]
    # The first two of 4,000, and then 2/i: 2 + 2 (H(4000) − 1.5) = 16.7 in the mean; P < 1e-6.
    assert 2 <= numbers[0] < 45
    assert numbers[1:] == [4000, 0]
    share = Checked(ThisProcess(), 0.25)
    assert 850 < sum(share.chosen("x") for _ in range(4000)) < 1150  # 5.4 standard deviations


def test_a_statistic_that_counts_wrongly_is_no_fault_of_the_executor(tmp_path: Path) -> None:
    task = CountSegment.__new__(CountSegment)
    object.__setattr__(task, "checked", lambda found: (_ for _ in ()).throw(WrongResultError("x")))
    object.__setattr__(task, "run", lambda shared: 1)
    object.__setattr__(task, "shared", None)
    with pytest.raises(WrongResultError):
        Checked(ThisProcess(), 0).taken(task, 1)


def test_a_search_believes_no_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "TRIP", 0.0)
    document = searches.spec("laplace", trials=6_000)
    for change in (IMPOSSIBLE["doubled"], moved):
        record = audited(document, Forger(of_counts(change)), tmp_path, [Three])
        check_distrusted(record, tmp_path, "chunk")


def of_outputs(change: Callable[[Any], Any]) -> Callable[[Task, Any], Any]:
    def forge(task: Task, found: Any) -> Any:
        if not isinstance(task, DrawBox):
            return found
        assert isinstance(found, BoxOutputs)
        parts = (part._replace(outputs=change(part.outputs)) for part in found.outputs)
        return found._replace(outputs=tuple(parts))

    return forge


@pytest.mark.parametrize(
    "change",
    [
        lambda outputs: outputs[:-1],
        lambda outputs: outputs.astype(np.float32),
        lambda outputs: np.concatenate([outputs, outputs]),
        lambda outputs: outputs.astype(object),
        lambda outputs: None,
        lambda outputs: outputs[..., None],
        lambda outputs: outputs + 1e-9,
    ],
)
def test_outputs_of_boxes_are_not_believed(
    change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Here()
    monkeypatch.setattr(box_tasks._kept, "take", lambda *_: kept)
    monkeypatch.setattr(box_tasks._kept, "give_back", lambda *_: None)
    document = spec({"use": "box"})
    record = audited(document, Forger(of_outputs(change)), tmp_path, BOXES)
    check_distrusted(record, tmp_path, "chunk", "box")


def test_draws_that_attacks_learn_from_are_checked() -> None:
    shared: Any = SimpleNamespace(scoring=(), rows=4)
    task = DrawChunks(shared, "fit", lane=0, dataset=0, first=2, stop=5)
    right = [np.zeros((12, 3))]
    assert task.checked(right) is right
    for wrong in (None, [], right * 2, [right[0][:11]], [right[0].astype(object)], ["x"]):
        with pytest.raises(WrongResultError):
            task.checked(wrong)
