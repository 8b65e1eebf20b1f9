"""From the counts of a cell to its estimate."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

from dpframe.claims import Claim
from dpframe.engine.checks import exact_shares, guarded
from dpframe.engine.ledger import Inquiry, query_of
from dpframe.engine.rounds import Rounds, Tally
from dpframe.errors import CellError
from dpframe.results.answer import checked
from dpframe.results.build import CellResult
from dpframe.results.plain import plain, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.common.types import Tree
    from dpframe.engine.anytime import Watch
    from dpframe.engine.ledger import Ledger
    from dpframe.engine.passes import Work
    from dpframe.engine.plan import Place, Plan
    from dpframe.interfaces.estimator import Estimate, Settled
    from dpframe.results.verdict import Looks
    from dpframe.spec.audit import Cell


Checked: TypeAlias = "Callable[[Callable[[], Estimate]], Estimate]"
"""Asks an estimator and looks at what it answers."""

Extremes = dict[Any, "Estimate"]
"""Estimates from the most extreme counts, by estimator and query. Cells with one claim and no
layout share them."""


def estimate_cell(
    cell: Cell,
    place: Place,
    work: Work,
    plan: Plan,
    ledger: Ledger,
    seconds: float,
    extremes: Extremes,
) -> CellResult:
    """Estimates one cell of a counted pass; whatever an estimator does fails no other cell.

    Args:
        cell: one of the pass.
        place: where its counts stand.
        work: the pass.
        plan: which cells the error is shared with.
        ledger: which look at these draws this is.
        seconds: the cell's share of the time that the pass took.
        extremes: of the cells of this run that were estimated before; this one's is added.
    """
    found = _counted(cell, place, work)
    if isinstance(found, str):
        return CellResult(cell=cell, reason=found)
    counts, trials, watch = found
    layout = _own(work.layouts, place)
    listed = jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), counts)
    inquiry = Inquiry(work.the_pass, plan, ledger)
    try:
        if watch is None or work.watches is None:
            looks = inquiry.look(cell, trials, listed)
        else:
            looks = inquiry.shown(cell, watch, work.watches.shown_to(watch))
    except CellError as problem:
        return CellResult(cell=cell, reason=str(problem))
    query = query_of(cell, plan, trials, looks)
    common = CellResult(
        cell=cell,
        counts=listed,
        trials=trials,
        query=query,
        draws=sum(trials),
        draw_group=work.the_pass.stream.group,
        data=work.the_pass.data,
        seconds=seconds,
        notes=(
            *work.notes,
            *_cut_short(trials, work.the_pass.trials, watch.settled if watch else None),
            *again(looks),
        ),
        looks=looks,
    )
    try:
        estimator = cell.estimator.value
        statistic = guarded("describe", lambda: plain(estimator.statistic().describe(layout)))
        if not isinstance(statistic, dict):
            raise CellError(f"describe returned {shown(statistic)}; a dictionary is wanted")
        common = dataclasses.replace(
            common,
            statistic=statistic,
            exact_shares=exact_shares(cell, listed, statistic),
        )
        return _estimated(common, *_answers(common, layout, counts, watch, extremes))
    except CellError as error:
        return dataclasses.replace(common, reason=str(error))


def _own(trees: Sequence[Tree], place: Place) -> Tree:
    return jax.tree.map(lambda leaf: leaf[place.lane, place.attack], trees[place.scorer])


def _counted(
    cell: Cell, place: Place, work: Work
) -> tuple[Tree, tuple[int, int], Watch | None] | str:
    """A cell's counts, its trials, and who was shown them round by round; else why not."""
    if isinstance(work.tally, Rounds) and work.watches is not None:
        watch = work.watches.of[cell.id]
        trials = watch.player.trials
        if watch.problem is not None or not trials:
            return str(watch.problem or NEVER)
        return watch.counts, (trials, trials), watch
    assert isinstance(work.tally, Tally)
    totals, each = work.tally.total()
    return (_own(totals, place), each, None) if all(each) else NEVER


NEVER = "the time budget ended before anything was counted"


def _answers(
    common: CellResult, layout: Tree, counts: Tree, watch: Watch | None, extremes: Extremes
) -> tuple[Callable[[], Estimate], Callable[[Checked], Estimate]]:
    """How to ask a cell's estimator about its counts, and about the most extreme ones."""
    estimator, query = common.cell.estimator.value, common.query
    assert query is not None
    if watch is not None:
        loudest, rounds = watch.loudest, watch.player.rounds

        def most_of_all(checked: Checked) -> Estimate:
            if rounds not in loudest.estimates:
                player = loudest.after(watch.ends)
                loudest.estimates[rounds] = checked(player.concluded)
            return loudest.estimates[rounds]

        return watch.player.concluded, most_of_all

    def estimate(of: Tree) -> Estimate:
        return estimator.estimate(layout, of, query)

    def most(checked: Checked) -> Estimate:
        def make() -> Estimate:
            loudest = guarded("extreme", lambda: estimator.extreme(layout, common.trials))
            return checked(lambda: estimate(loudest))

        same = not jax.tree.leaves(layout)
        return _remembered(extremes, (estimator, query), make) if same else make()

    # A copy: an estimator that writes into its counts must not change those of the next.
    return lambda: estimate(jax.tree.map(np.array, counts)), most


def _estimated(
    common: CellResult,
    answer: Callable[[], Estimate],
    most: Callable[[Checked], Estimate],
) -> CellResult:
    """The same with everything that the estimator says, each answer looked at."""
    cell = common.cell
    mechanism, pair, estimator = cell.mechanism.value, cell.pair.value, cell.estimator.value
    certified = guarded("certifies_against", lambda: bool(estimator.certifies_against(cell.claim)))
    tested = certified and cell.claim is not None
    truth = guarded("truth", lambda: mechanism.truth(pair))
    if not isinstance(truth, Claim | None):
        raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")

    def looked_at(ask: Callable[[], Estimate]) -> Estimate:
        found: Estimate = guarded(
            "estimate", lambda: checked(ask(), certified=certified, tested=tested)
        )
        return found

    started = time.perf_counter()
    found = looked_at(answer)
    taken = time.perf_counter() - started
    return dataclasses.replace(
        common,
        certified=certified,
        estimate=found,
        extreme=most(looked_at) if tested else None,
        truth=truth,
        estimate_seconds=taken,
    )


def _remembered(extremes: Extremes, key: Any, make: Callable[[], Estimate]) -> Estimate:
    try:
        if key in extremes:
            return extremes[key]
    except TypeError:  # an author's, that cannot be a key
        return make()
    extremes[key] = make()
    return extremes[key]


def _cut_short(
    trials: tuple[int, int], wanted: int, settled: Settled | None = None
) -> tuple[str, ...]:
    if trials == (wanted, wanted):
        return ()
    if settled is not None:
        return (
            f"stopped after {trials[0]:,} of {wanted:,} trials, once "
            + ("the claim was refuted" if settled == "violated" else UNREACHABLE),
        )
    return (
        f"ended by the time budget after {trials[0]:,} and {trials[1]:,} of {wanted:,} trials; "
        "valid only if run time does not depend on the outputs",
    )


UNREACHABLE = "nothing that its events show could reach the claim"


def again(looks: Looks) -> tuple[str, ...]:
    """What a cell is told of earlier looks at its draws."""
    if looks.number == 1:
        return ()
    return (
        f"look {looks.number} at these draws: at 1/{looks.price} of the error of the first; all "
        "looks together err with at most 1.5 times that",
    )
