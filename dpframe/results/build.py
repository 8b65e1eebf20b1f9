"""Build the record of a run from the results of its cells."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.model import (
    AskedRecord,
    AuditRecord,
    Basis,
    CellRecord,
    ChoiceRecord,
    ClaimRecord,
    ContrastRecord,
    EnvironmentRecord,
    EstimateRecord,
    ExactRecord,
    ExcessRecord,
    InstalledRecord,
    LookRecord,
    PairRecord,
    PluginRecord,
    Record,
    SearchRecord,
    SkipRecord,
    SpecRecord,
    SummaryRecord,
    TruthRecord,
)
from dpframe.results.plain import plain, text
from dpframe.results.store import digest_of
from dpframe.results.verdict import FIRST_LOOK, Looks, judged, totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.claims import Claim
    from dpframe.common.types import Floats
    from dpframe.interfaces.estimator import Estimate, Query, UpperOf
    from dpframe.interfaces.pair import Pair
    from dpframe.results.model import Multiplicity, Verdict
    from dpframe.spec.audit import Audit, Cell, Choice, Skip, Source


# A claim in the record: its parameters, its ε at the cell's δ, and points of its curve.


FARTHEST = 1e-12
"""The smallest false-positive rate above 0 at which a curve is written down."""


def claim_record(claim: Claim | None, delta: float) -> ClaimRecord | None:
    """What is claimed, at the δ at which ε is estimated.

    Args:
        claim: None if nothing is claimed.
        delta: of the cell.
    """
    if claim is None:
        return None
    # Of a claim at a single δ, ε and δ are the whole curve.
    is_curve = len(claim.telling_deltas) > 1
    return ClaimRecord(
        kind=claim.kind,
        epsilon=float(claim.epsilon_at(delta)),
        delta=delta,
        parameters=plain(claim.parameters()),
        tradeoff=curve_points(claim) if is_curve else None,
        profile=profile_points(claim) if is_curve else None,
    )


def curve_points(claim: Claim) -> list[list[float]]:
    """Points (FPR, FNR) of the claimed curve, from end to end, dense where it bends."""
    fpr = _places(claim)
    return [[float(x), float(y)] for x, y in zip(fpr, claim.tradeoff(fpr), strict=True)]


def _places(claim: Claim) -> Floats:
    """False-positive rates: on a logarithmic scale up to 0.1, then on a linear one."""
    # A curve is its own inverse: this is where it has fallen by a thousandth.
    begin = float(claim.tradeoff(np.array([0.999]))[0])
    rare = np.geomspace(min(max(begin, FARTHEST), 0.01), 0.1, 16)
    return np.concatenate([[0.0], rare, np.linspace(0.1, 1, 17)[1:]])


RARE_DELTAS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
"""δ at which a profile is written down."""


def profile_points(claim: Claim) -> list[list[float]]:
    """Points (ε, δ) of the claimed profile, from ε = 0: evenly placed, and where δ is rare."""
    named = [claim.epsilon_at(delta) for delta in RARE_DELTAS]
    known = [epsilon for epsilon in named if np.isfinite(epsilon)]
    even = np.linspace(0.0, max(known, default=0.0), 17).tolist()
    return [[e, float(claim.delta_at(e))] for e in sorted({*even, *map(float, known)})]


# What the engine hands over for each cell.


class Witness(NamedTuple):
    """The event that earned most in a search, and what was drawn of it."""

    event: str
    """In words."""
    more_likely: str
    """Under which dataset: "D" or "D′"."""
    hits: tuple[int, int]
    """Draws with the event, on D and on D′."""
    trials: tuple[int, int]
    """Draws of the pair that the hits are of."""
    pairs: int
    """Pairs that were looked at."""
    pair_trials: int
    """Draws of each dataset of this pair."""


class Excess(NamedTuple):
    """A pair on which a query without noise changes more than the noise is made for."""

    kind: str
    """"change", "not a number", "shape" or "raises"."""
    pair: Pair
    words: str
    change: float | None = None
    sensitivity: float | None = None
    factor: float | None = None
    """Change over sensitivity; None where the change has no size."""


class Exactly(NamedTuple):
    """What a query without noise came to on all pairs."""

    norm: float
    pairs: int
    """Pairs that could be compared."""
    exceeding: int
    """Of these, how many exceed the sensitivity."""
    worst: tuple[Excess, ...]
    """The worst of each kind."""
    notes: tuple[str, ...]


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
    exact_shares: list[list[float]] | None = None
    """Probability of each bin on D and on D′, where it is known."""
    extreme: Estimate | None = None
    """The estimate from the most extreme counts possible; None where there is no verdict."""
    draws: int = 0
    """Releases counted, on both datasets together."""
    draw_group: str | None = None
    data: str | None = None
    """Digest of D and D′."""
    seconds: float = 0.0
    """Its share of the time that the draws and counts of its pass took."""
    estimate_seconds: float = 0.0
    """What the estimator took."""
    notes: tuple[str, ...] = ()
    looks: Looks = FIRST_LOOK
    witness: Witness | None = None
    """Of a search."""
    exact: Exactly | None = None
    """Of a mechanism that gives its query."""


# From the result of a cell to its place in the record, before anything is judged.


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


# Assembles the record of a run: the one place where that is done.


def build(
    audit: Audit,
    results: Sequence[CellResult],
    *,
    m: int,
    skipped: Iterable[Skip],
    environment: EnvironmentRecord,
    plugins: list[PluginRecord],
    seconds: float,
    peak_rss_bytes: int | None,
    calls: int | None = None,
) -> Record:
    """Judges the results of a run and puts everything into a record.

    Args:
        audit: what was asked for.
        results: one per cell that was planned, in the order of the spec.
        m: tests planned, failed ones included.
        skipped: combinations that were left out.
        environment: what the run ran on.
        plugins: every plugin that was used.
        seconds: duration of the run.
        peak_rss_bytes: largest resident memory of the process, if the system tells.
        calls: releases that black boxes were asked for; None if there is none.
    """
    cells = judged([cell_record(result) for result in results], m, audit.multiplicity)
    record = Record(
        spec=spec_record(audit.source),
        audit=AuditRecord(
            name=text(audit.name),
            confidence=min((cell.confidence for cell in audit.cells), default=0.95),
            multiplicity=cast("Multiplicity", audit.multiplicity),
            looks=max((result.looks.number for result in results), default=1),
        ),
        environment=environment,
        seed=first_seed(audit),
        plugins=plugins,
        environments=installed_records(audit),
        cells=cells,
        skipped=[skip_record(skip) for skip in skipped],
        summary=SummaryRecord(
            m=m,
            **totals(cells)._asdict(),
            seconds=seconds,
            calls=calls,
            peak_rss_bytes=peak_rss_bytes,
        ),
    )
    return record.model_copy(update={"digest": digest_of(record.as_json())})


def installed_records(audit: Audit) -> list[InstalledRecord]:
    """The environments of an audit, by name; where they lie is nobody else's business."""
    return [
        InstalledRecord(
            name=text(one.name),
            requirements=list(one.requirements),
            python=text(one.python),
            installed=[text(package) for package in one.installed],
        )
        for one in sorted(audit.environments)
    ]


def first_seed(audit: Audit) -> int:
    """The seed, or the first of those that are swept."""
    return audit.cells[0].seed if audit.cells else 0


def spec_record(source: Source) -> SpecRecord:
    """Where a spec came from."""
    return SpecRecord(
        path=text(source.path),
        sha256=source.sha256,
        text=text(source.text),
        overrides=[text(override) for override in source.overrides],
    )
