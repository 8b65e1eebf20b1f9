"""How many trials bets against a claim need, where the truth is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe.engine.counts.rounds import FIRST
from dpframe.engine.passes.inquiry import resolution_of, share_of_error
from dpframe.stats.growth_rate import growth_rate

if TYPE_CHECKING:
    from dpframe.engine.planning.plan import Plan
    from dpframe.report.terminal.plan import Decision
    from dpframe.spec.audit import Cell

EVENTS = np.concatenate([np.geomspace(1e-9, 0.5, 120), 1 - np.geomspace(0.5, 1e-9, 120)])
"""False-positive rates at which the true curve is looked at."""

MOST_CELLS = 1000
"""Cells that are looked at; a plan should not take as long as a run."""


def decisions(plan: Plan) -> list[Decision]:
    """Claims that the truth refutes, and the trials after which a bet is expected to say so."""
    cells = [cell for each in plan.passes if each.anytime for cell, _ in each.cells]
    found: dict[str, float] = {}
    for cell in cells[:MOST_CELLS]:
        try:
            trials = _expected(cell, plan)
        except Exception:  # an author's claim or truth; the run will say what is wrong with it
            continue
        if trials is not None and cell.claim is not None:
            claimed = f"ε = {cell.claim.epsilon_at(cell.delta):.4g}"
            name = " · ".join((cell.mechanism.label, cell.estimator.label))
            found[f"{name}: {claimed}"] = trials
    return [{"claim": name, "trials": trials} for name, trials in found.items()]


def _expected(cell: Cell, plan: Plan) -> float | None:
    truth = cell.mechanism.value.truth(cell.pair.value)
    claim, resolution = cell.claim, resolution_of(cell, plan)
    if truth is None or claim is None:
        return None
    said = [(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    slope = np.exp(np.array([epsilon for epsilon, _ in said if epsilon < 600]))
    delta = np.array([delta for epsilon, delta in said if epsilon < 600])
    delta = delta + resolution * (1 + slope)
    q, p = EVENTS, 1 - np.asarray(truth.tradeoff(EVENTS), np.float64)
    usable = delta < 1
    if not usable.any():
        return None
    rate = growth_rate(q, p, slope[usable], delta[usable])
    return FIRST - math.log(share_of_error(cell, plan)) / rate if rate > 1e-12 else None
