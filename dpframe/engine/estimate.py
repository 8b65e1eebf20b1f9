"""From the counts of a cell to its estimate."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.claims import Claim
from dpframe.engine.exact import exact_shares
from dpframe.engine.fingerprint import question
from dpframe.engine.guard import guarded
from dpframe.errors import CellError
from dpframe.estimator import Query
from dpframe.mechanism import HostMechanism
from dpframe.record.answer import checked
from dpframe.record.plain import plain, shown
from dpframe.record.result import CellResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.engine.ledger import Ledger
    from dpframe.engine.plan import Place, Plan
    from dpframe.engine.work import Work
    from dpframe.estimator import Estimate
    from dpframe.record.looks import Looks
    from dpframe.spec.audit import Cell
    from dpframe.types import Tree

FLOAT32_RESOLUTION = 1e-6
"""Events rarer than this measure float32 samplers, whose tails end and have gaps."""


def share_of_error(cell: Cell, plan: Plan) -> float:
    """With which probability one cell's bound may err, so that all bounds of the audit hold."""
    divide = max(1, plan.certifying_cells) if plan.audit.multiplicity != "none" else 1
    return (1 - cell.confidence) / divide


def resolution_of(cell: Cell, plan: Plan) -> float:
    """Probabilities below this measure the sampler; 0 where it has the precision of float64."""
    exact = plan.audit.run.precision == "float64" or isinstance(cell.mechanism.value, HostMechanism)
    return 0.0 if exact else FLOAT32_RESOLUTION


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
    totals, trials = work.tally.total()
    if not all(trials):
        return CellResult(cell=cell, reason="the time budget ended before anything was counted")

    def own(trees: Sequence[Tree]) -> Tree:
        return jax.tree.map(lambda leaf: leaf[place.lane, place.attack], trees[place.scorer])

    counts, layout, stream = own(totals), own(work.layouts), work.the_pass.stream
    listed = jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), counts)
    error, run = share_of_error(cell, plan), plan.audit.run
    try:
        asked = guarded("claim", lambda: question(cell, run, error, trials, listed))
    except CellError as problem:
        return CellResult(cell=cell, reason=str(problem))
    looks = ledger.look(stream, asked, trials)
    query = Query(
        trials=trials,
        delta=cell.delta,
        confidence=1 - error / looks.price,
        claim=cell.claim,
        resolution=resolution_of(cell, plan),
    )
    common = CellResult(
        cell=cell,
        counts=listed,
        trials=trials,
        query=query,
        draws=sum(trials),
        draw_group=stream.group,
        data=work.the_pass.data,
        seconds=seconds,
        notes=(
            *work.notes,
            *_cut_short(trials, work.the_pass.trials),
            *_again(looks),
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
        return _estimated(common, query, layout, counts, extremes)
    except CellError as error:
        return dataclasses.replace(common, reason=str(error))


def _estimated(
    common: CellResult, query: Query, layout: Tree, counts: Tree, extremes: Extremes
) -> CellResult:
    """The same with everything that the estimator says, each answer looked at."""
    cell = common.cell
    mechanism, pair, estimator = cell.mechanism.value, cell.pair.value, cell.estimator.value
    certified = guarded("certifies_against", lambda: bool(estimator.certifies_against(cell.claim)))
    tested = certified and cell.claim is not None
    truth = guarded("truth", lambda: mechanism.truth(pair))
    if not isinstance(truth, Claim | None):
        raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")

    def estimate(of: Tree) -> Estimate:
        def answer() -> Estimate:
            given = estimator.estimate(layout, of, query)
            return checked(given, certified=certified, tested=tested)

        found: Estimate = guarded("estimate", answer)
        return found

    started = time.perf_counter()
    # A copy: an estimator that writes into its counts must not change those of the next.
    found = estimate(jax.tree.map(np.array, counts))
    taken = time.perf_counter() - started
    extreme = None
    if tested:

        def most() -> Estimate:
            return estimate(guarded("extreme", lambda: estimator.extreme(layout, common.trials)))

        same = not jax.tree.leaves(layout)
        extreme = _remembered(extremes, (estimator, query), most) if same else most()
    return dataclasses.replace(
        common,
        certified=certified,
        estimate=found,
        extreme=extreme,
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


def _cut_short(trials: tuple[int, int], wanted: int) -> tuple[str, ...]:
    if trials == (wanted, wanted):
        return ()
    return (
        f"ended by the time budget after {trials[0]:,} and {trials[1]:,} of {wanted:,} trials; "
        "valid only if run time does not depend on the outputs",
    )


def _again(looks: Looks) -> tuple[str, ...]:
    if looks.number == 1:
        return ()
    return (
        f"look {looks.number} at these draws: at 1/{looks.price} of the error of the first; all "
        "looks together err with at most 1.5 times that",
    )
