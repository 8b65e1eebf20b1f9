"""What a run would do and could find, before it is run: the input of `dpframe plan`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.boxes import epsilon_of
from dpframe.commands.audit import make_plan
from dpframe.engine.estimate import resolution_of, share_of_error
from dpframe.engine.memory import Footprint, ideal_layout
from dpframe.engine.processes import available_cores

if TYPE_CHECKING:
    from dpframe.engine.plan import Plan
    from dpframe.report.terminal.plan import Outlook, Reach, Skipped
    from dpframe.spec.audit import Audit, Cell


def outlook(loaded: Audit) -> Outlook:
    """Describes the run of an audit without drawing anything."""
    plan = make_plan(loaded)
    cells = loaded.cells
    confidence = min((cell.confidence for cell in cells), default=0.95)
    divide = max(1, plan.certifying_cells) if loaded.multiplicity != "none" else 1
    return {
        "name": loaded.name,
        "cells": len(cells),
        "m": plan.m,
        "repeats": 1 + max((cell.repeat for cell in cells), default=0),
        "draw_groups": len(plan.passes),
        "draws": sum(the_pass.draws for the_pass in plan.passes),
        "memory_bytes": Footprint(plan, available_cores()).bytes,
        "confidence": confidence,
        "multiplicity": loaded.multiplicity,
        "level": (1 - confidence) / divide,
        "estimators": _reaches(plan),
        "skipped": _left_out(plan),
    }


def _left_out(plan: Plan) -> list[Skipped]:
    reasons = [skip.reason for skip in plan.skipped]
    reasons += [f"would fail: {reason}" for _, reason in plan.failed]
    return [{"reason": reason, "cells": count} for reason, count in Counter(reasons).items()]


def _reaches(plan: Plan) -> list[Reach]:
    found: dict[Any, Reach] = {}
    for cell in plan.audit.cells:
        key = (cell.estimator.label, cell.trials, cell.delta, cell.confidence)
        if key not in found:
            found[key] = _reach(cell, plan)
    return list(found.values())


def _reach(cell: Cell, plan: Plan) -> Reach:
    from dpframe.estimator import Query

    estimator = cell.estimator.value
    certifies = estimator.certifies_against(cell.claim)
    largest = claim = None
    if certifies:
        trials = (cell.trials, cell.trials)
        query = Query(trials, cell.delta, 1 - share_of_error(cell, plan), cell.claim)
        try:
            layout = ideal_layout(estimator.statistic())
            found = estimator.estimate(layout, estimator.extreme(layout, trials), query)
        except Exception:  # an author's estimator; the run will say what is wrong with it
            found = None
        if found is not None:
            largest = found.epsilon_lower
            raised = np.array(found.tradeoff or [(1.0, 1.0)]) + resolution_of(cell, plan)
            claim = epsilon_of(raised, cell.delta) if found.tradeoff else largest
    return {
        "label": cell.estimator.label,
        "trials": cell.trials,
        "delta": cell.delta,
        "certifies": certifies,
        "assumption": estimator.assumption,
        "largest_epsilon": largest,
        "largest_claim": claim,
    }
