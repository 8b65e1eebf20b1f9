"""Estimate the cells of a counted pass, and make their records."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpframe.claims import Claim
from dpframe.common import trees
from dpframe.common.text import shown
from dpframe.engine.ledger import Ledger, LookCounter, query_of
from dpframe.engine.schedule import NOTHING_COUNTED
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate, Estimator, Query, Settled
from dpframe.interfaces.plugin_calls import call_plugin, certifies, exact_shares
from dpframe.results.build import cell_record
from dpframe.results.estimate_checks import checked
from dpframe.results.model import CellRecord, SlackRecord
from dpframe.results.strict_json import plain
from dpframe.results.verdict import Looks, equal_scores, is_in_one_bin
from dpframe.stats.histograms import histogram_epsilon

if TYPE_CHECKING:
    from dpframe.common.types import Tree
    from dpframe.count.plan import PassPosition, Plan
    from dpframe.count.work import PassWork
    from dpframe.engine import anytime
    from dpframe.spec.audit import Cell

UNREACHABLE = "no event could still reach the claim"


def estimate_cell(
    cell: Cell,
    place: PassPosition,
    work: PassWork,
    plan: Plan,
    ledger: Ledger,
    seconds: float,
    timings: dict[str, float] | None = None,
) -> CellRecord:
    """Estimate one cell of a counted pass; an error of its estimator fails this cell only.

    `seconds` is the cell's share of the counting time. `timings` takes the seconds of the
    estimator, by the cell's id.
    """
    anytime_cell = None if work.anytime is None else work.anytime.of[cell.id]
    counts, trials, problem = _counted(place, work, anytime_cell)
    if problem is not None:
        return cell_record(cell, reason=problem)
    layout = place.own(work.layouts)
    listed = trees.map(lambda leaf: np.asarray(leaf).tolist(), counts)
    look_counter = LookCounter(work.the_pass, plan, ledger)
    try:
        looks = (
            look_counter.look(cell, trials, listed, layout)
            if anytime_cell is None
            else look_counter.shown(cell, anytime_cell)
        )
    except CellError as error:
        return cell_record(cell, reason=str(error))
    cut = _cut_short(trials, work.the_pass.trials, anytime_cell.settled if anytime_cell else None)
    query = query_of(cell, plan, trials, looks)
    record = partial(
        cell_record,
        cell,
        trials=trials,
        counts=listed,
        query=query,
        notes=(*work.notes, *cut, *note_of_looks(looks)),
        looks=looks,
        exceptions=work.exceptions_of(place.variant),
        draw_group=work.the_pass.stream.group,
        data=work.the_pass.data,
        seconds=seconds,
    )
    try:
        estimator = cell.estimator.value
        statistic = call_plugin("describe", lambda: plain(estimator.statistic().describe(layout)))
        if not isinstance(statistic, dict):
            raise CellError(f"describe returned {shown(statistic)}; it must return a dictionary")
        shares = exact_shares(cell, listed, statistic)
        record = partial(record, statistic=statistic, exact_shares=shares)
        record = partial(record, untested=_untested(cell, place, work, listed))
        promised = certifies(estimator, cell.claim)
        tested = promised and cell.claim is not None
        truth = call_plugin("truth", cell.mechanism.value.truth, cell.pair.value)
        if not isinstance(truth, Claim | None):
            raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")

        look_at = partial(checked, certified=promised, tested=tested)
        started = time.perf_counter()
        if anytime_cell is not None:
            estimate = call_plugin("estimate", lambda: look_at(anytime_cell.progress.concluded()))
        else:
            # A copy: an estimator that writes into its counts must not change those of the next.
            own = trees.map(np.array, counts)
            estimate = call_plugin(
                "estimate", lambda: look_at(estimator.estimate(layout, own, query))
            )
        if timings is not None:
            timings[cell.id] = time.perf_counter() - started
        record = partial(record, certified=promised, estimate=estimate, truth=truth)
        if not tested:
            return record()

        def bound_of(other: Query) -> float | None:
            if anytime_cell is not None:  # bets were made against the claim
                return anytime_cell.progress.bound(other._replace(claim=query.claim))
            return estimator.estimate(layout, trees.map(np.array, counts), other).epsilon_lower

        parts = slack(query, cell.confidence, looks, estimate, truth, shares, bound_of)
        record = partial(record, slack=parts)
        if anytime_cell is not None:
            return record(extreme=_extreme_of_bets(anytime_cell))
        arguments = estimator, layout, query, promised
        try:
            extreme = _extreme(*arguments)
        except TypeError:  # arrays and some plugin parameters cannot be hashed
            extreme = _extreme.__wrapped__(*arguments)
        return record(extreme=extreme)
    except CellError as error:
        return record(reason=str(error))


def _untested(cell: Cell, place: PassPosition, work: PassWork, counts: Any) -> str | None:
    """Return why nothing was tested if all answers or scores were the same, else None.

    Equal scores that follow from the counts are left to the verdict.
    """
    if cell.mechanism.constant:
        return None
    if (reason := work.untested(cell, place.variant)) is not None:
        return reason
    same = is_in_one_bin(counts)
    if (same or cell.attack.value.gives == "canaries") and work.gives_equal_scores(cell, place):
        return equal_scores(sum(map(sum, counts)) if same else None, cell.attack.label)
    return None


def slack(
    query: Query,
    confidence: float,
    looks: Looks,
    estimate: Estimate,
    truth: Claim | None,
    shares: list[list[float]] | None,
    bound_of: Callable[[Query], float | None],
) -> SlackRecord | None:
    """Divide the difference between claimed and certified ε into parts that add up to it.

    Args:
        query: question that gave the certified bound.
        confidence: of all bounds of the audit together.
        looks: looks at the draws.
        estimate: of the certified bound and the p-values.
        truth: exact curve of the pair, if known.
        shares: exact probabilities of the counted bins on D and on D′, if known.
        bound_of: returns the bound of the same counts for another query.

    Returns:
        None if the claimed ε is infinite at the cell's δ, or a bound is missing or infinite.
    """
    lower, claim, delta = estimate.epsilon_lower, query.claim, query.delta
    claimed = math.inf if claim is None else call_plugin("claim", claim.epsilon_at, delta)
    if lower is None or not math.isfinite(claimed):
        return None
    exact = math.inf if truth is None else call_plugin("truth", truth.epsilon_at, delta)
    limit, of = math.inf, None
    if shares is not None:
        limit, of = histogram_epsilon(shares[0], shares[1], delta), "exact"
    elif estimate.epsilon_upper is not None and estimate.epsilon_upper_of is not None:
        # No event shows more than the pair loses.
        limit, of = min(estimate.epsilon_upper, exact), "learned"

    @functools.cache
    def bound(level: float, *, free: bool) -> float:
        other = query._replace(confidence=level, resolution=0.0, claim=None if free else claim)
        return call_plugin("estimate", bound_of, other) or 0.0

    last = query.confidence
    shared = last if looks.price == 1 else 1 - (1 - last) * looks.price
    alone = shared if math.isclose(confidence, shared, rel_tol=1e-12) else confidence
    try:
        # Most bounds are the same without a claim, and p-values take most of the time.
        free = bound(last, free=True) == lower
        bounds = [bound(level, free=free) for level in (0.5, alone, shared, last)]
    except CellError:  # a plugin's, which has no bound at such a level
        return None
    if not all(map(math.isfinite, bounds)):
        return None
    parts: dict[str, Any] = {"limit": of if math.isfinite(limit) else None}
    names = [name for name in SlackRecord.model_fields if name != "limit"]
    before = claimed
    for name, value in zip(names, (exact, limit, *bounds, lower), strict=True):
        is_finite = math.isfinite(value)
        parts[name] = before - value if is_finite else None
        before = value if is_finite else before
    return SlackRecord(**parts)


def _extreme_of_bets(anytime_cell: anytime.AnytimeCell) -> Estimate:
    """Return the p-values of the most extreme counts of the same rounds."""
    extremes, trials = anytime_cell.extremes, anytime_cell.progress.trials
    if trials not in extremes.estimates:
        conclude = extremes.after(anytime_cell.ends).concluded
        # The bound may be left out.
        look_at = partial(checked, certified=False, tested=True)
        extremes.estimates[trials] = call_plugin("estimate", lambda: look_at(conclude("p-values")))
    return extremes.estimates[trials]


@functools.lru_cache(maxsize=1024)
def _extreme(estimator: Estimator, layout: Tree, query: Query, certified: bool) -> Estimate:
    """Return the estimate from the most extreme counts possible, computed once per question."""
    counts = call_plugin("extreme", estimator.extreme, layout, query.trials)
    look_at = partial(checked, certified=certified, tested=True)
    estimate = call_plugin("estimate", lambda: look_at(estimator.estimate(layout, counts, query)))
    return cast("Estimate", estimate)


def _counted(
    place: PassPosition, work: PassWork, anytime_cell: anytime.AnytimeCell | None
) -> tuple[Tree, tuple[int, int], str | None]:
    """Return a cell's counts, its trials, and the reason if nothing was counted."""
    if anytime_cell is not None:
        trials = anytime_cell.progress.trials
        problem = anytime_cell.problem or (None if trials else NOTHING_COUNTED)
        return anytime_cell.counts, (trials, trials), None if problem is None else str(problem)
    tally: Any = work.tally
    totals, each = tally.total()
    return place.own(totals), each, None if all(each) else NOTHING_COUNTED


def _cut_short(trials: tuple[int, int], wanted: int, settled: Settled | None) -> tuple[str, ...]:
    if trials == (wanted, wanted):
        return ()
    if settled is not None:
        return (
            f"stopped after {trials[0]:,} of {wanted:,} trials, once "
            + ("the claim was refuted" if settled == "violated" else UNREACHABLE),
        )
    return (
        f"stopped by the time budget after {trials[0]:,} and {trials[1]:,} of {wanted:,} trials; "
        "valid only if the run time does not depend on the outputs",
    )


def note_of_looks(looks: Looks) -> tuple[str, ...]:
    """Return the note about earlier looks at the draws of a cell, if there were any."""
    if looks.number == 1:
        return ()
    return (
        f"look {looks.number} at these draws: at 1/{looks.price} of the error of the first; all "
        "looks together err with at most 1.5 times that. If you changed the mechanism permanently, "
        "start again in a new folder: --out DIR",
    )
