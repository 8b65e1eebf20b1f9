"""Describe a run and its possible findings before it starts: the body of `dpframe plan`."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.commands.audit import make_plan
from dpframe.common.machine import available_cores
from dpframe.common.types import HostArray
from dpframe.count.events import Seen
from dpframe.draw import trace
from dpframe.draw.local_executor import source_of
from dpframe.engine import resources
from dpframe.engine.ledger import query_of, resolution_of, share_of_error
from dpframe.engine.power import (
    LARGEST_LOSS,
    PowerQuestion,
    detectable,
    power,
    question_of,
    trials_needed,
)
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.estimator import Estimate, Estimator, Query, epsilon_of
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.search import arms
from dpframe.search.proposals import PROPOSALS, rows_of
from dpframe.search.search import LUCK, expected_gain
from dpframe.search.wealth import LOSS_LIMIT, Point, Wealth, farthest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.count.plan import Plan
    from dpframe.report.terminal.plan import Outlook, PowerRow, Reach, Skipped
    from dpframe.spec.audit import Audit, Cell


MOST_CELLS = 1000  # cells or claims that are examined; a plan should not take as long as a run


def outlook(
    loaded: Audit,
    *,
    probability: float | None = None,
    against: float | None = None,
    drawn: bool = False,
) -> Outlook:
    """Describe the run of an audit.

    Args:
        loaded: the audit.
        probability: with which a loss should be detected; None leaves out the power.
        against: a true loss, as a multiple of the claim, for which the trials are computed.
        drawn: also compute power against trials, for a figure.

    Raises:
        DpframeError: `probability` or `against` makes no sense.
    """
    if not 0 < (0.5 if probability is None else probability) < 1:
        raise DpframeError(f"--power {probability:g}: should be a probability between 0 and 1")
    if against is not None and (probability is None or not 1 < against < math.inf):
        raise DpframeError("--against X needs --power P, and X must be above 1")
    with source_of(loaded.cells, loaded.interpreters) as workers:
        plan = make_plan(loaded, workers)
    cells = loaded.cells
    shown, unknown = ([], []) if probability is None else powers(plan, probability, against)
    for question, row in [each for each in shown if not each[0].simulated][: MOST_DRAWN * drawn]:
        row["by_trials"] = _by_trials(question)
    confidence = min((cell.confidence for cell in cells), default=0.95)
    divide = max(1, plan.certifying_cells) if loaded.multiplicity != "none" else 1
    return {
        "name": loaded.name,
        "cells": len(cells),
        "m": plan.m,
        "repeats": 1 + max((cell.repeat for cell in cells), default=0),
        "draw_groups": len(plan.passes),
        "searches": len(plan.searches),
        "draws": sum(the_pass.draws for the_pass in plan.passes)
        + sum(2 * cell.trials for cell in plan.searches),
        "calls": sum(resources.planned_calls(the_pass, loaded.run) for the_pass in plan.passes),
        "memory_bytes": sum(resources.memory_of(plan, available_cores()).values()),
        "confidence": confidence,
        "multiplicity": loaded.multiplicity,
        "level": (1 - confidence) / divide,
        "estimators": _reaches(plan),
        "inconclusive": _undecidable(plan),
        "skipped": _counted(
            [skip.reason for skip in plan.skipped]
            + [f"would fail: {reason}" for _, reason in plan.failed]
        ),
        "power": [row for _, row in shown],
        "without_power": unknown,
    }


SHOWN_MULTIPLES = (1.1, 1.25, 1.5, 2.0)
"""True losses whose power is listed, as multiples of the claim."""


SIMULATED_PAIRS = 8  # pairs of a simulated search

MOST_DRAWN = 4  # curves of power against trials, at most; each takes seconds


def _by_trials(question: PowerQuestion) -> dict[float, list[tuple[int, float]]]:
    """Return the power at a sixteenth to sixteen times the trials, for each multiple of the claim.

    Bets and canaries get no curve, because its simulation takes minutes.
    """
    sizes = sorted({max(1, round(question.size * 2.0**n)) for n in range(-4, 5)})
    try:
        # All losses of one size share its estimates.
        curves = [
            [power(question.of(n), x * question.claimed) for x in SHOWN_MULTIPLES] for n in sizes
        ]
    except CellError:  # a plugin's estimator, on other numbers of trials
        return {}
    return {
        x: list(zip(sizes, each, strict=True))
        for x, *each in zip(SHOWN_MULTIPLES, *curves, strict=True)
    }


def powers(
    plan: Plan, probability: float, against: float | None
) -> tuple[list[tuple[PowerQuestion, PowerRow]], list[Skipped]]:
    """Return the power of each question, and the reasons why cells have none.

    `probability` and `against` are those of `outlook`.
    """
    rows: dict[PowerQuestion, PowerRow] = {}
    unknown: Counter[str] = Counter()
    questions = [(cell, _question_of_search(cell, plan)) for cell in plan.searches]
    for the_pass in plan.passes:
        questions += [(cell, question_of(cell, plan, the_pass)) for cell, _ in the_pass.cells]
    for cell, question in questions:
        if isinstance(question, str):
            unknown[question] += 1
            continue
        if question in rows:
            rows[question]["cells"] += 1
            continue
        loss = None if against is None else against * question.claimed
        power_at = partial(power, question)
        try:
            rows[question] = {
                "label": " · ".join((cell.mechanism.label, cell.estimator.label)),
                "cells": 1,
                "claimed": question.claimed,
                "delta": cell.delta,
                "trials": question.size,
                "unit": "canaries" if question.canaries else "trials",
                "model": f"{SIMULATED_PAIRS} pairs, one with {question.model}"
                if question.search
                else question.model or "",
                "probability": probability,
                "epsilon": detectable(question, probability),
                "curve": {x: power_at(x * question.claimed) for x in SHOWN_MULTIPLES},
                "against": loss,
                "needed": None if loss is None else trials_needed(question, loss, probability),
                "by_trials": {},
            }
        except CellError:  # a plugin's estimator; the run will report the mistake
            unknown["the estimator fails"] += 1
    return list(rows.items()), _counted(unknown)


def _refutes(question: PowerQuestion, loss: float, rng: np.random.Generator) -> bool:
    """Simulate a search, and return True if it refutes the claim.

    One of the pairs has the true loss, shown by two outputs with equal error rates; the others lose
    nothing. Draws and bets are those of `SearchRun` and `TracedArm`: draws that attacks learn from
    choose no bets. Bets on scores need more draws than bets on decisions.
    """
    claim, raised = question.query.claim, question.query.resolution
    assert claim is not None
    points_claimed = [(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    points = [
        Point(e, d + raised * (1 + math.exp(e))) for e, d in points_claimed if e <= LOSS_LIMIT
    ]
    rates = rng.permutation([question.rate(loss)] + [0.5] * (SIMULATED_PAIRS - 1))
    rows, most = question.rows, question.size // question.rows
    first, enough = arms.chunks_at_first(question.size, rows), arms.MOST_LEARNED // rows

    def counted(chunks: HostArray) -> Seen:
        n, ones = rows * len(chunks), chunks.sum(axis=0)[:, None]
        return Seen(ones if question.scores == "bool" else np.hstack([np.full((2, 1), n), ones]), n)

    def drawn_from(pair: int, chunks: int) -> HostArray:
        wrong = rng.binomial(rows, rates[pair], (chunks, 2))
        return np.stack([wrong[:, 0], rows - wrong[:, 1]], axis=1)

    def known(pair: int) -> Seen:
        learned[pair] = arms.chunks_to_learn_from(len(drawn[pair]), learned[pair], enough)
        return counted(drawn[pair][learned[pair] + arms.chunks_for_cuts(learned[pair], rows) :])

    def gain(one: Seen) -> float:
        guess = farthest(one, points)
        return expected_gain((-math.inf if guess is None else guess.z) - LUCK) / (2 * one.trials)

    begun_pairs = min(SIMULATED_PAIRS, max(1, int(PROPOSALS * question.size) // (first * rows)))
    drawn = [drawn_from(pair, first) for pair in range(begun_pairs)]
    learned, wealth = [first // 2] * begun_pairs, Wealth(question.query.delta)
    seen = [known(pair) for pair in range(begun_pairs)]
    gains = [gain(one) for one in seen]
    while (remaining := most - sum(map(len, drawn))) > 0:
        pair = int(np.argmax(gains))
        fresh = drawn_from(pair, min(max(1, int(arms.GROWTH * len(drawn[pair]))), remaining))
        wealth.bet_against_claim(pair, seen[pair], counted(fresh), points, 0.0)
        if wealth.best >= -math.log(question.level):
            return True
        drawn[pair] = np.concatenate([drawn[pair], fresh])
        seen[pair] = known(pair)
        gains[pair] = gain(seen[pair])
    return False


def _question_of_search(cell: Cell, plan: Plan) -> PowerQuestion | str:
    query, mechanism = query_of(cell, plan, (cell.trials, cell.trials)), cell.mechanism.value
    if query.claim is None or cell.search is None or isinstance(mechanism, HostMechanism):
        return "no model of a loss for a search of a black box, or without a claim"
    rows = plan.audit.run.chunk or rows_of(
        cell.trials, trace.declared_rows(mechanism) or cell.trials
    )
    decide = all(choice.value.gives == "decision" for choice in cell.search.attacks)
    own = cell.estimator.value, query, 1 - query.confidence, "bool" if decide else "float32"
    question = PowerQuestion(*own, rows=rows, search=_refutes)
    known = question.model is not None and 0 < question.claimed < LARGEST_LOSS
    return question if known else "no model of a loss for a claim with this curve"


def _counted(reasons: Iterable[str]) -> list[Skipped]:
    """Return each reason with the number of its cells."""
    return [{"reason": reason, "cells": count} for reason, count in Counter(reasons).items()]


def _reaches(plan: Plan) -> list[Reach]:
    """Return the largest ε that each estimator could certify, and the largest claim to refute."""
    reaches: dict[Any, Reach] = {}
    dims = {cell.id: each.shape.dims for each in plan.passes for cell, _ in each.cells}
    for cell in plan.audit.cells:
        estimator, resolution = cell.estimator.value, resolution_of(cell, plan)
        key = (cell.estimator.label, cell.trials, cell.delta, cell.confidence, resolution)
        if key in reaches:
            continue
        certifies, most = estimator.certifies_against(cell.claim), None
        if certifies:
            trials = (cell.trials, cell.trials)
            query = Query(trials, cell.delta, 1 - share_of_error(cell, plan), cell.claim)
            most = _most_extreme(estimator, query, dims.get(cell.id, ()))
        largest = claim = most.epsilon_lower if most else None
        if most and most.tradeoff:
            claim = epsilon_of(np.array(most.tradeoff) + resolution, cell.delta)
        reaches[key] = {
            "label": cell.estimator.label,
            "trials": cell.trials,
            "delta": cell.delta,
            "certifies": certifies,
            "assumption": estimator.assumption,
            "largest_epsilon": largest,
            "largest_claim": claim,
        }
    return list(reaches.values())


def _undecidable(plan: Plan) -> list[Skipped]:
    """Return the claims that even the most extreme counts would not refute at the first look."""
    factor = 1 if plan.audit.multiplicity == "none" else plan.m
    known: dict[Any, bool] = {}
    undecidable: Counter[str] = Counter()
    for the_pass in plan.passes:
        for cell, _ in the_pass.cells:
            estimator = cell.estimator.value
            if cell.claim is None or not estimator.certifies_against(cell.claim):
                continue
            resolution = resolution_of(cell, plan)
            trials = (cell.trials, cell.trials)
            query = Query(trials, cell.delta, cell.confidence, cell.claim, resolution)
            dims = the_pass.shape.dims
            key = (estimator, query, dims)
            if key not in known and len(known) < MOST_CELLS:
                most = _most_extreme(estimator, query, dims)
                p_value = most.p_resolved if most else None
                known[key] = (p_value or 0.0) * factor > 1 - cell.confidence
            if known.get(key):
                name = " · ".join((cell.mechanism.label, cell.estimator.label))
                undecidable[f"{name}: ε = {cell.claim.epsilon_at(cell.delta):.4g}"] += 1
    return _counted(undecidable)


def _most_extreme(estimator: Estimator, query: Query, dims: tuple[int, ...]) -> Estimate | None:
    """Return the estimate from the most extreme counts possible; None if it fails."""
    try:
        layout = resources.ideal_layout(estimator.statistic(), dims)
        return estimator.estimate(layout, estimator.extreme(layout, query.trials), query)
    except Exception:  # a plugin's estimator; the run will report the mistake
        return None
