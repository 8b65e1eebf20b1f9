"""From the counts of a cell to its estimate."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.guard import guarded
from dpframe.engine.sequential import FIRST_LOOK, Looks
from dpframe.errors import CellError
from dpframe.estimator import Query
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.engine.plan import Place, Plan
    from dpframe.engine.work import Work
    from dpframe.estimator import Estimate
    from dpframe.spec.audit import Cell
    from dpframe.types import Tree

FLOAT32_RESOLUTION = 1e-6
"""Events rarer than this measure float32 samplers, whose tails end and have gaps."""


@dataclasses.dataclass(frozen=True)
class CellResult:
    """What became of a cell."""

    cell: Cell
    reason: str | None = None
    """Why it failed; None if it did not."""
    counts: Any = None
    """JSON lists, first axis the dataset."""
    trials: tuple[int, int] = (0, 0)
    statistic: dict[str, Any] = dataclasses.field(default_factory=dict)
    estimate: Estimate | None = None
    certified: bool = False
    query: Query | None = None
    truth: Claim | None = None
    """The exact curve of the mechanism for this pair, where it is known."""
    extreme: Estimate | None = None
    """The estimate from the most extreme counts possible; None where there is no verdict."""
    draws: int = 0
    draw_group: str | None = None
    seconds: float = 0.0
    """Its share of the time that the draws and counts of its pass took."""
    estimate_seconds: float = 0.0
    """What the estimator took."""
    notes: tuple[str, ...] = ()
    looks: Looks = FIRST_LOOK


def cell_confidence(cell: Cell, plan: Plan) -> float:
    """Level of one cell's bound, so that all bounds of the audit hold together."""
    divide = max(1, plan.certifying_cells) if plan.audit.multiplicity != "none" else 1
    return 1 - (1 - cell.confidence) / (divide * plan.looks.get(cell.id, FIRST_LOOK).price)


def resolution_of(cell: Cell, plan: Plan) -> float:
    """Probabilities below this measure the sampler; 0 where it has the precision of float64."""
    exact = plan.audit.run.precision == "float64" or isinstance(cell.mechanism.value, HostMechanism)
    return 0.0 if exact else FLOAT32_RESOLUTION


def estimate_cell(cell: Cell, place: Place, work: Work, plan: Plan, seconds: float) -> CellResult:
    """Estimates one cell of a counted pass; an estimator that raises fails the cell."""
    the_pass, estimator = work.the_pass, cell.estimator.value

    def at(tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: leaf[place.lane, place.attack], tree)

    totals, trials = work.tally.total()
    counts, layout = at(totals[place.scorer]), at(work.layouts[place.scorer])
    statistic = estimator.statistic()
    if not all(trials):
        return CellResult(cell=cell, reason="the time budget ended before anything was counted")
    query = Query(
        trials=trials,
        delta=cell.delta,
        confidence=cell_confidence(cell, plan),
        claim=cell.claim,
        resolution=resolution_of(cell, plan),
    )
    certified = estimator.certifies_against(cell.claim)
    common = CellResult(
        cell=cell,
        counts=jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), counts),
        trials=trials,
        statistic=statistic.describe(layout),
        certified=certified,
        query=query,
        draws=sum(trials) * max(1, the_pass.elements),
        draw_group=the_pass.stream.group,
        seconds=seconds,
        notes=(*work.notes, *_cut_short(trials, the_pass.trials), *_again(plan.looks[cell.id])),
        looks=plan.looks[cell.id],
    )
    try:
        mechanism, pair = cell.mechanism.value, cell.pair.value
        truth = guarded("truth", lambda: mechanism.truth(pair))
        started = time.perf_counter()
        estimate = guarded("estimate", lambda: estimator.estimate(layout, counts, query))
        taken = time.perf_counter() - started
        extreme = None
        if certified and cell.claim is not None:
            check_certificate(estimate)
            most = guarded("extreme", lambda: estimator.extreme(layout, trials))
            extreme = guarded("estimate", lambda: estimator.estimate(layout, most, query))
            check_certificate(extreme)
    except CellError as error:
        return dataclasses.replace(common, reason=str(error))
    return dataclasses.replace(
        common, estimate=estimate, extreme=extreme, truth=truth, estimate_seconds=taken
    )


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


def check_certificate(estimate: Estimate) -> None:
    """Raises CellError unless an estimate has what a verdict is made of."""
    bound, p_values = estimate.epsilon_lower, (estimate.p_value, estimate.p_resolved)
    if bound is None or not math.isfinite(bound):
        raise CellError(f"estimate gave the bound {bound}; a certifying estimator gives a number")
    for p_value in p_values:
        if p_value is None or not 0 < p_value <= 1:
            raise CellError(
                f"estimate gave the p-value {p_value}; a certifying estimator gives p_value and "
                "p_resolved in (0, 1], as estimate_from_boxes does"
            )
