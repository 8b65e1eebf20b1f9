"""From the counts of a cell to its estimate."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.shapes import guarded
from dpframe.errors import CellError
from dpframe.estimator import Query
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
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
    extreme: Estimate | None = None
    """The estimate from the most extreme counts possible; None where there is no verdict."""
    draws: int = 0
    draw_group: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


def cell_confidence(cell: Cell, plan: Plan) -> float:
    """Level of one cell's bound, so that all bounds of the audit hold together."""
    if plan.audit.multiplicity == "none" or not plan.bounds:
        return cell.confidence
    return 1 - (1 - cell.confidence) / plan.bounds


def estimate_cell(cell: Cell, place: Place, work: Work, plan: Plan, seconds: float) -> CellResult:
    """Estimates one cell of a counted pass; an estimator that raises fails the cell."""
    the_pass, estimator = work.the_pass, cell.estimator.value

    def at(tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: leaf[place.lane, place.attack], tree)

    counts, bound = at(work.counts[place.scorer]), at(work.bounds[place.scorer])
    statistic = estimator.statistic()
    trials = (the_pass.trials, the_pass.trials)
    exact = plan.audit.run.precision == "float64" or isinstance(cell.mechanism.value, HostMechanism)
    query = Query(
        trials=trials,
        delta=cell.delta,
        confidence=cell_confidence(cell, plan),
        claim=cell.claim,
        resolution=0.0 if exact else FLOAT32_RESOLUTION,
    )
    certified = estimator.certifies_against(cell.claim)
    common = CellResult(
        cell=cell,
        counts=jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), counts),
        trials=trials,
        statistic=statistic.describe(bound),
        certified=certified,
        query=query,
        draws=the_pass.draws,
        draw_group=the_pass.stream.group,
        seconds=seconds,
        notes=work.notes,
    )
    try:
        estimate = guarded("estimate", lambda: estimator.estimate(bound, counts, query))
        extreme = None
        if certified and cell.claim is not None:
            most = guarded("extreme", lambda: estimator.extreme(bound, trials))
            extreme = guarded("estimate", lambda: estimator.estimate(bound, most, query))
    except CellError as error:
        return dataclasses.replace(common, reason=str(error))
    return dataclasses.replace(common, estimate=estimate, extreme=extreme)
