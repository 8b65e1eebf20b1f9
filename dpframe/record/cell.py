"""From the result of a cell to its place in the record, before anything is judged."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, cast

from dpframe.mechanism import HostMechanism
from dpframe.record.claim import claim_record
from dpframe.record.model import (
    AskedRecord,
    Basis,
    CellRecord,
    ChoiceRecord,
    ClaimRecord,
    ContrastRecord,
    EstimateRecord,
    ExactRecord,
    ExcessRecord,
    LookRecord,
    PairRecord,
    SearchRecord,
    SkipRecord,
    TruthRecord,
)
from dpframe.record.plain import plain, text

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.estimator import Estimate, Query, UpperOf
    from dpframe.record.model import Verdict
    from dpframe.record.result import CellResult
    from dpframe.spec.audit import Cell, Choice, Skip


def cell_record(result: CellResult) -> CellRecord:
    """One cell of the record, without verdict and adjusted p-value."""
    result, claim, truth = _claimed(result)
    cell, estimate, query = result.cell, result.estimate, result.query
    found = None
    if estimate is not None and query is not None:
        assumption = cell.estimator.value.assumption
        found = estimate_record(estimate, query, result.certified, assumption, result.notes)
        found = found.model_copy(update={"anytime": type(cell.estimator.value).anytime})
    return CellRecord(
        id=cell.id,
        status="ok" if result.reason is None else "failed",
        repeat=cell.repeat,
        seed=cell.seed,
        mechanism=_choice(cell.mechanism),
        asked=_asked(cell),
        pair=PairRecord(
            use=cell.pair.use, params=plain(cell.pair.value.params()), digest=result.data
        ),
        attack=_choice(cell.attack),
        estimator=_choice(cell.estimator),
        swept=plain(dict(cell.swept)),
        claim=claim,
        truth=truth,
        trials=list(result.trials),
        counts=plain(result.counts),
        exact_shares=result.exact_shares,
        statistic=plain(result.statistic),
        estimate=found,
        verdict=None,
        p_value=estimate.p_value if estimate and result.certified else None,
        p_adjusted=None,
        reason=None if result.reason is None else text(result.reason),
        expected=cast("Verdict | None", cell.expected),
        seconds=result.seconds,
        draws=result.draws,
        draw_group=result.draw_group,
        looks=None
        if type(cell.estimator.value).anytime
        else [LookRecord(trials=t) for t in result.looks.listed(result.trials) if found],
        basis=_basis(result),
        search=_search(result),
        searched=cell.search is not None,
        exact=_exact(result),
    )


def _asked(cell: Cell) -> AskedRecord | None:
    """What the spec says of how a box is asked; in a search an exception is an answer."""
    box = cell.mechanism
    if not isinstance(box.value, HostMechanism):
        return None
    raises = box.raises or (None if cell.search is None else "answer")
    return AskedRecord(raises=cast("Any", raises), limit=box.limit, time=box.time, bits=box.bits)


def _exact(result: CellResult) -> ExactRecord | None:
    found = result.exact
    if found is None:
        return None
    return ExactRecord(
        norm=found.norm,
        pairs=found.pairs,
        exceeding=found.exceeding,
        witnesses=[
            ExcessRecord(
                kind=cast("Any", one.kind),
                pair=PairRecord(use=type(one.pair).name, params=plain(one.pair.params())),
                change=one.change,
                sensitivity=one.sensitivity,
                factor=one.factor,
                words=text(one.words),
            )
            for one in found.worst
        ],
        notes=[text(note) for note in found.notes],
    )


def _search(result: CellResult) -> SearchRecord | None:
    found, search = result.witness, result.cell.search
    if found is None or search is None:
        return None
    return SearchRecord(
        neighbourhood=_choice(search.neighbourhood),
        attacks=[text(attack.label) for attack in search.attacks],
        pairs=found.pairs,
        event=text(found.event),
        more_likely="D′" if found.more_likely == "D′" else "D",
        hits=list(found.hits),
        trials=list(found.trials),
        pair_trials=found.pair_trials,
    )


def estimate_record(
    estimate: Estimate, query: Query, certified: bool, assumption: str, notes: tuple[str, ...] = ()
) -> EstimateRecord:
    """An estimate as the record holds it; a bound that is not certified is none.

    Args:
        estimate: one that was `checked`.
        query: what was asked.
        certified: whether the bound is valid.
        assumption: under which.
        notes: remarks beside the estimator's own.
    """
    return EstimateRecord(
        epsilon=estimate.epsilon,
        epsilon_lower=estimate.epsilon_lower if certified else None,
        epsilon_upper=estimate.epsilon_upper,
        epsilon_upper_of=_limited(estimate),
        interval=None if estimate.interval is None else list(estimate.interval),
        delta=query.delta,
        confidence=query.confidence,
        certified=certified,
        assumption=text(str(assumption)),
        tradeoff=[list(point) for point in estimate.tradeoff],
        profile=[list(point) for point in estimate.profile],
        profile_lower=[list(p) for p in estimate.profile_lower] if certified else [],
        wealth=[list(point) for point in estimate.wealth] if certified else [],
        notes=[*estimate.notes, *notes],
    )


def _limited(estimate: Estimate) -> UpperOf | None:
    upper = estimate.epsilon_upper
    return None if upper is None or not math.isfinite(upper) else estimate.epsilon_upper_of


def skip_record(skip: Skip) -> SkipRecord:
    """One entry of the record's `skipped`."""
    return SkipRecord(
        mechanism=skip.mechanism,
        pair=skip.pair,
        attack=skip.attack,
        estimator=skip.estimator,
        swept=plain(dict(skip.swept)),
        reason=text(skip.reason),
        expected=cast("Verdict | None", skip.expected),
    )


def _claimed(
    result: CellResult,
) -> tuple[CellResult, ClaimRecord | None, TruthRecord | None]:
    """The result with its claims; a claim may be a plugin's, and one that raises fails the cell."""
    cell = result.cell
    try:
        claimed = claim_record(cell.claim, cell.delta)
        return result, claimed, _truth(result.truth, cell.delta, claimed)
    except Exception as error:
        reason = result.reason or f"claim raised {type(error).__name__}: {error}"
        failed = dataclasses.replace(result, estimate=None, extreme=None, truth=None, reason=reason)
        return failed, None, None


def _choice(choice: Choice[Any]) -> ChoiceRecord:
    return ChoiceRecord(use=choice.use, label=choice.label, params=plain(choice.value.params()))


def _truth(truth: Claim | None, delta: float, claimed: ClaimRecord | None) -> TruthRecord | None:
    found = claim_record(truth, delta)
    if found is None:
        return None
    if claimed is not None and claimed.tradeoff == found.tradeoff:
        return TruthRecord(kind=found.kind, epsilon=found.epsilon)
    return TruthRecord(
        kind=found.kind, epsilon=found.epsilon, tradeoff=found.tradeoff, profile=found.profile
    )


def _basis(result: CellResult) -> Basis | None:
    """What the verdict will be made of; None where there is none."""
    estimate, extreme, query = result.estimate, result.extreme, result.query
    if estimate is None or extreme is None or query is None or query.claim is None:
        return None
    p_resolved, p_extreme, p_extreme_resolved = (
        estimate.p_resolved,
        extreme.p_value,
        extreme.p_resolved,
    )
    if p_resolved is None or p_extreme is None or p_extreme_resolved is None:
        return None
    delta, lower, claimed = estimate.contrast or (
        query.delta,
        estimate.epsilon_lower or 0.0,
        query.claim.epsilon_at(query.delta),
    )
    return Basis(
        confidence=result.cell.confidence,
        look=result.looks.number,
        p_resolved=p_resolved,
        p_extreme=p_extreme,
        p_extreme_resolved=p_extreme_resolved,
        contrast=ContrastRecord(delta=delta, lower=lower, claimed=claimed),
    )
