"""Build the record of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpframe.errors import CellError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results import model
from dpframe.results.strict_json import digest_of, plain, text
from dpframe.results.verdict import FIRST_LOOK, Looks, at_delta, judged, totals

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.interfaces.estimator import Estimate, Evidence, Query
    from dpframe.interfaces.pair import Neighbourhood, Pair
    from dpframe.spec.audit import Audit, Cell, Choice, Skip, SpecSource

SMALLEST_FPR = 1e-12  # the smallest false-positive rate above 0 at which a curve is recorded
ROUNDED_TO_ZERO = 1e-9  # a number this far below 0 counts as 0
RARE_DELTAS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
"""δ at which a profile is recorded."""


def cell_record(
    cell: Cell,
    *,
    reason: str | None = None,
    trials: tuple[int, int] = (0, 0),
    counts: Any = None,
    statistic: Mapping[str, Any] | None = None,
    estimate: Estimate | None = None,
    extreme: Estimate | None = None,
    certified: bool = False,
    query: Query | None = None,
    truth: Claim | None = None,
    notes: tuple[str, ...] = (),
    looks: Looks = FIRST_LOOK,
    data: str | None = None,
    search: model.SearchRecord | None = None,
    **fields: Any,
) -> model.CellRecord:
    """Return one cell of the record, without its verdict and adjusted p-value.

    A claim of a plugin that raises an exception fails the cell.

    Args:
        cell: the cell; in a search with the pair and the attack of its witness.
        reason: why the cell failed; None if it did not.
        trials: draws counted on D and on D′.
        counts: JSON lists, first axis the dataset.
        statistic: description of the statistic.
        estimate: the estimate, one that was `checked`.
        extreme: the estimate for the most extreme counts possible; None if there is no verdict.
        certified: True if the bound of the estimate is valid.
        query: question that the estimator answered.
        truth: exact curve of the mechanism for this pair, if known.
        notes: remarks beside the estimator's own.
        looks: looks at the draws.
        data: digest of D and D′.
        search: witness of a search.
        fields: further fields of the record, as they are: `exceptions`, `exact_shares`,
            `draw_group`, `seconds`, `exact` and `slack`.
    """
    claimed = true = None
    try:
        claimed = call_plugin("claim", claim_record, cell.claim, cell.delta)
        if (truth_fields := call_plugin("truth", claim_record, truth, cell.delta)) is not None:
            same = claimed is not None and claimed.tradeoff == truth_fields.tradeoff
            true = model.TruthRecord(
                kind=truth_fields.kind,
                epsilon=truth_fields.epsilon,
                tradeoff=None if same else truth_fields.tradeoff,
                profile=None if same else truth_fields.profile,
            )
    except CellError as error:
        claimed = true = estimate = extreme = None
        reason = reason or str(error)
    anytime = type(cell.estimator.value).anytime
    proposer = cell.search.neighbourhood.value if cell.search and search else None
    estimate_fields = basis = None
    if estimate is not None and query is not None:
        assumption = cell.estimator.value.assumption
        estimate_fields = estimate_record(
            estimate, query, certified, assumption, notes, anytime=anytime
        )
        basis = basis_of(estimate, extreme, query, cell.confidence, looks.number)
    return model.CellRecord(
        id=cell.id,
        status="ok" if reason is None else "failed",
        repeat=cell.repeat,
        seed=cell.seed,
        mechanism=choice_record(cell.mechanism),
        asked=_asked(cell),
        pair=pair_record(cell.pair.use, cell.pair.value, data, proposer),
        attack=choice_record(cell.attack),
        estimator=choice_record(cell.estimator),
        swept=plain(dict(cell.swept)),
        claim=claimed,
        truth=true,
        trials=list(trials),
        counts=plain(counts),
        statistic=plain(statistic or {}),
        estimate=estimate_fields,
        verdict=None,
        p_value=estimate.p_value if estimate and certified else None,
        p_adjusted=None,
        reason=None if reason is None else text(reason),
        expected=cast("model.Verdict | None", cell.expected),
        draws=sum(trials),
        looks=None
        if anytime
        else [model.LookRecord(trials=t) for t in looks.listed(trials) if estimate_fields],
        basis=basis,
        search=search,
        searched=cell.search is not None,
        **{"draw_group": None, "seconds": 0.0, **fields},
    )


def basis_of(
    estimate: Estimate, extreme: Estimate | None, query: Query, confidence: float, look: int = 1
) -> model.Basis | None:
    """Return the numbers that decide the verdict; None if the cell gets no verdict.

    `extreme` is the estimate for the most extreme counts; `confidence` is that of all verdicts.
    """
    claim, p_resolved = query.claim, estimate.p_resolved
    if extreme is None or claim is None or p_resolved is None:
        return None
    if extreme.p_value is None or extreme.p_resolved is None:
        return None
    delta, lower, claimed = estimate.contrast or (
        query.delta,
        estimate.epsilon_lower or 0.0,
        claim.epsilon_at(query.delta),
    )
    return model.Basis(
        confidence=confidence,
        look=look,
        p_resolved=p_resolved,
        p_extreme=extreme.p_value,
        p_extreme_resolved=extreme.p_resolved,
        contrast=model.ContrastRecord(delta=delta, lower=lower, claimed=claimed),
        resolution=query.resolution,
        extreme=evidence_record(extreme.evidence),
    )


def evidence_record(evidence: Evidence | None) -> model.EvidenceRecord | None:
    """Return evidence for the record."""
    if evidence is None:
        return None
    return model.EvidenceRecord(
        theorem=evidence.theorem, terms=plain(evidence.terms), design=plain(evidence.design)
    )


def _asked(cell: Cell) -> model.AskedRecord | None:
    black_box = cell.mechanism
    if not isinstance(black_box.value, HostMechanism):
        return None
    raises = black_box.raises or (None if cell.search is None else "answer")
    names = "limit", "time", "bits", "messages", "constant"
    rules = {name: getattr(black_box, name) for name in names}
    only = list(black_box.only)
    return model.AskedRecord(raises=cast("Any", raises), only=only, **rules)


def choice_record(choice: Choice[Any]) -> model.ChoiceRecord:
    """Return a mechanism, an attack or an estimator with its effective parameters."""
    params = plain(choice.value.params())
    return model.ChoiceRecord(use=choice.use, label=choice.label, params=params)


def pair_record(
    use: str, pair: Pair, data: str | None = None, neighbourhood: Neighbourhood | None = None
) -> model.PairRecord:
    """Return a pair with its effective parameters, and the digest of D and D′ if it is known.

    `neighbourhood` is the one that proposed the pair, if any.
    """

    def features() -> list[model.NeedRecord]:
        needed = neighbourhood.needs(pair) if neighbourhood else {}
        return [
            model.NeedRecord(feature=text(str(feature)), without=plain(dict(without)))
            for feature, without in needed.items()
        ]

    needs = call_plugin("needs", features)
    params, relation = plain(pair.params()), text(str(pair.adjacency))
    return model.PairRecord(use=use, params=params, digest=data, relation=relation, needs=needs)


def claim_record(claim: Claim | None, delta: float) -> model.ClaimRecord | None:
    """Return a claim, if any: its parameters, its ε at the cell's δ and points of its curve.

    Raises:
        CellError: some ε or δ of the claim is NaN or negative.
    """
    if claim is None:
        return None
    # ε and δ determine a claim at a single δ.
    is_curve = len(claim.telling_deltas) > 1
    record = model.ClaimRecord(
        kind=claim.kind,
        epsilon=float(claim.epsilon_at(delta)),
        delta=delta,
        parameters=plain(claim.parameters()),
        tradeoff=curve_points(claim) if is_curve else None,
        profile=profile_points(claim) if is_curve else None,
    )
    points = [(record.epsilon, record.delta), *(record.profile or ()), *(record.tradeoff or ())]
    if not all(number > -ROUNDED_TO_ZERO for point in points for number in point):
        at = f"ε = {record.epsilon:g} {at_delta(delta)}"
        raise CellError(f"the claim has an ε or a δ that is NaN or negative; {at}")
    return record


def estimate_record(
    estimate: Estimate,
    query: Query,
    certified: bool,
    assumption: str,
    notes: tuple[str, ...] = (),
    *,
    anytime: bool = False,
) -> model.EstimateRecord:
    """Return an estimate that was `checked`, without its bound unless it is certified.

    The estimate is for `query`; `notes` follow the estimator's own. `anytime` is true if the bound
    is valid at all numbers of trials simultaneously.
    """
    upper = estimate.epsilon_upper
    limited = upper is not None and math.isfinite(upper)
    return model.EstimateRecord(
        epsilon=estimate.epsilon,
        epsilon_lower=estimate.epsilon_lower if certified else None,
        epsilon_upper=upper,
        epsilon_upper_of=estimate.epsilon_upper_of if limited else None,
        interval=None if estimate.interval is None else list(estimate.interval),
        delta=query.delta,
        confidence=query.confidence,
        certified=certified,
        assumption=text(str(assumption)),
        tradeoff=[list(point) for point in estimate.tradeoff],
        profile=[list(point) for point in estimate.profile],
        profile_lower=[list(p) for p in estimate.profile_lower] if certified else [],
        anytime=anytime,
        wealth=[list(point) for point in estimate.wealth] if certified else [],
        notes=[*estimate.notes, *notes],
        evidence=evidence_record(estimate.evidence) if certified else None,
    )


def curve_points(claim: Claim) -> list[list[float]]:
    """Return points (FPR, FNR) of the claimed curve, from end to end, dense where it bends."""
    # A curve is its own inverse: at this rate it has fallen by a thousandth.
    begin = float(claim.tradeoff(np.array([0.999]))[0])
    rare = np.geomspace(min(max(begin, SMALLEST_FPR), 0.01), 0.1, 16)
    fpr = np.concatenate([[0.0], rare, np.linspace(0.1, 1, 17)[1:]])
    return [[float(x), float(y)] for x, y in zip(fpr, claim.tradeoff(fpr), strict=True)]


def profile_points(claim: Claim) -> list[list[float]]:
    """Return points (ε, δ) of the claimed profile from ε = 0: evenly placed, and at rare δ."""
    rare_epsilons = [e for delta in RARE_DELTAS if np.isfinite(e := claim.epsilon_at(delta))]
    even = np.linspace(0.0, max(rare_epsilons, default=0.0), 17).tolist()
    return [[e, float(claim.delta_at(e))] for e in sorted({*even, *map(float, rare_epsilons)})]


def skip_record(skip: Skip) -> model.SkipRecord:
    """Return one entry of the record's `skipped`."""
    stored = {"swept": plain(dict(skip.swept)), "reason": text(skip.reason)}
    return model.SkipRecord(**{**vars(skip), **stored})


def build(
    audit: Audit,
    cells: Sequence[model.CellRecord],
    *,
    m: int,
    skipped: Iterable[Skip],
    environment: model.EnvironmentRecord,
    plugins: list[model.PluginRecord],
    seconds: float,
    peak_rss_bytes: int | None,
    looks: int = 1,
    calls: int | None = None,
) -> model.Record:
    """Judge the cells of a run and make its record.

    `cells` has one cell for each planned cell, in the order of the spec and without verdicts; m is
    the number of planned tests, failed ones included. The other arguments are fields of the record.
    """
    cells = judged(cells, m, audit.multiplicity)
    record = model.Record(
        spec=spec_record(audit.source),
        audit=model.AuditRecord(
            name=text(audit.name),
            confidence=min((cell.confidence for cell in audit.cells), default=0.95),
            multiplicity=cast("model.Multiplicity", audit.multiplicity),
            looks=looks,
        ),
        environment=environment,
        seed=first_seed(audit),
        plugins=plugins,
        environments=installed_records(audit),
        cells=list(cells),
        skipped=[skip_record(skip) for skip in skipped],
        summary=model.SummaryRecord(
            m=m, **totals(cells), seconds=seconds, calls=calls, peak_rss_bytes=peak_rss_bytes
        ),
    )
    return record.model_copy(update={"digest": digest_of(record.as_json())})


def installed_records(audit: Audit) -> list[model.InstalledRecord]:
    """Return the environments of an audit by name, without their paths on this machine."""
    return [
        model.InstalledRecord(
            name=text(one.name),
            requirements=list(one.requirements),
            python=text(one.python),
            installed=[text(package) for package in one.installed],
        )
        for one in sorted(audit.environments)
    ]


def first_seed(audit: Audit) -> int:
    """Return the seed, or the first of several swept seeds."""
    return audit.cells[0].seed if audit.cells else 0


def spec_record(source: SpecSource) -> model.SpecRecord:
    """Return the spec's path, digest, text and overrides."""
    return model.SpecRecord(
        path=text(source.path),
        sha256=source.sha256,
        text=text(source.text),
        overrides=[text(override) for override in source.overrides],
    )
