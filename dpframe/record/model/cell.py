"""One cell of the record: what was audited, what was counted, and what that says."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpframe.record.model.values import (
    Amount,
    Count,
    Counts,
    Free,
    FreeTable,
    Number,
    Part,
    Point,
    Position,
    Probability,
    PValue,
)

Verdict = Literal["violated", "consistent", "inconclusive"]


class ChoiceRecord(Part):
    """A mechanism, an attack or an estimator with its parameters."""

    use: str
    """name of the plugin"""
    label: str
    """what reports and expectations call it"""
    params: FreeTable
    """effective parameters, after sweep, overrides and `resolve`"""


class AskedRecord(Part):
    """How a black box was asked for its answers, and what counts as one."""

    raises: Literal["answer", "fail"] | None = None
    """whether an exception is an answer, or makes the cell fail; null: as is usual for its attack
    """
    limit: Amount | None = None
    """seconds that one answer may take; null without a limit"""
    time: bool = False
    """whether the time that an answer took is part of it"""
    bits: bool = False
    """whether a search looked at the last bits of numbers"""


class PairRecord(Part):
    """The neighbouring datasets."""

    use: str
    """name of the plugin"""
    params: FreeTable
    """effective parameters"""
    digest: str | None = None
    """digest of D and D′; null where nothing was drawn. Old records lack it"""


class ClaimRecord(Part):
    """What a mechanism claims for a pair."""

    kind: str
    """which of [the claims](claims.md): `pure-dp`, `approx-dp`, `gaussian-dp`,
    `zero-concentrated-dp`, `renyi-dp`, `laplace-dp`, `subsampled-gaussian-dp`, `accounted-dp`, or
    that of a plugin"""
    epsilon: Number
    """ε of the claim at the cell's δ, in nats; `"inf"` if the claim gives none there"""
    delta: Probability
    """the cell's δ"""
    parameters: FreeTable
    """the claim's own parameters, by name"""
    tradeoff: list[Point] | None = None
    """points (FPR, FNR) of the claimed curve, shape [k][2]; null for a claim at a single δ, where ε
    and δ say all. Records made before there were curves lack it"""
    profile: list[Point] | None = None
    """points (ε, δ) of the claimed privacy profile, shape [k][2], by ascending ε; null for a claim
    at a single δ. Old records lack it"""


class TruthRecord(Part):
    """The exact loss of a mechanism for a pair."""

    kind: str
    """as `claim.kind`"""
    epsilon: Number
    """its ε at the cell's δ, in nats"""
    tradeoff: list[Point] | None = None
    """points (FPR, FNR) of the exact curve, shape [k][2]; null if it is the claimed curve, or that
    of a single δ. Old records lack it"""
    profile: list[Point] | None = None
    """points (ε, δ) of the exact privacy profile, shape [k][2]; null where `tradeoff` is"""


class EstimateRecord(Part):
    """What an estimator found."""

    epsilon: Number
    """point estimate, in nats; may be infinite. No bound"""
    epsilon_lower: Amount | None
    """certified: the loss is at least this, in nats, at level `confidence`. Null if the estimator
    does not certify"""
    epsilon_upper: Number | None
    """the most that this attack can show, in nats. Limits the attack, never the mechanism"""
    epsilon_upper_of: Literal["every event", "every cut", "chosen thresholds"] | None = None
    """what of the attack `epsilon_upper` limits: every event that its decisions make, every cut of
    its scores, or nothing but the thresholds that the spec or the pilot chose. Null where
    `epsilon_upper` is no limit"""
    interval: Point | None = None
    """lower and upper limit on ε, in nats, that are approximate, Bayesian or assume more than the
    bound does; never a bound. Null if the estimator gives none"""
    delta: Probability
    """δ at which ε is estimated"""
    confidence: Probability
    """level of this one bound; chosen so that all bounds of the record hold together"""
    certified: bool
    """whether the bound is valid at finite samples, under `assumption`"""
    assumption: str
    """what the bound assumes"""
    tradeoff: list[Point]
    """certified points (FPR, FNR), shape [k][2]: the mechanism's trade-off curve runs below or
    through each. Where `certified` is false, points of an estimated curve"""
    profile: list[Point]
    """points (ε, δ), shape [k][2], of an estimated privacy profile, where the estimator gives
    one"""
    profile_lower: list[Point] = Field(default_factory=list)
    """certified points (ε, δ), shape [k][2], by ascending ε: δ(ε) is at least this, between two
    points at least what the right one says; at level `confidence`, for all ε together. Empty where
    the estimator does not certify or says nothing of it. Old records lack it"""
    anytime: bool = False
    """whether it is valid at every number of trials at once: bound and p-value cost no look. Old
    records lack it"""
    wealth: list[Point] = Field(default_factory=list)
    """points (trials, logarithm of the wealth), shape [k][2], of what bets against the claim had
    earned after so many trials per dataset; at most 200. Empty without a claim, or where
    `anytime` is false. Old records lack it"""
    notes: list[str]
    """remarks, for example which outputs were looked at for NaN, and whether the run can be
    replayed"""


class ContrastRecord(Part):
    """A bound beside what is claimed, at one δ."""

    delta: Number
    """the δ"""
    lower: Number
    """certified bound on ε there, in nats"""
    claimed: Number
    """ε of the claim there, in nats"""


class Basis(Part):
    """What a verdict is made of beside `p_value` and `estimate`: enough to judge anew."""

    confidence: Probability
    """confidence of all verdicts together, as the cell's spec asks for it"""
    look: Position
    """which look at these draws it was, from 1; look k ≥ 2 is paid for by k(k + 1)"""
    p_resolved: PValue
    """`p_value` with every error rate raised by what the sampler resolves"""
    p_extreme: PValue
    """`p_value` of the most extreme counts possible"""
    p_extreme_resolved: PValue
    """`p_resolved` of the most extreme counts possible"""
    contrast: ContrastRecord
    """bound and claim at the δ that says most about the claim"""


class LookRecord(Part):
    """A look at the draws of a cell: a run that showed something of them."""

    trials: Counts
    """draws counted then, on D and on D′"""


class SearchRecord(Part):
    """Where a cell was searched, and the event that earned most there: its witness."""

    neighbourhood: ChoiceRecord
    """what proposed the pairs; the cell's `pair` and `attack` are those of the witness"""
    attacks: list[str] = Field(default_factory=list)
    """labels of the attacks that were played on every draw"""
    pairs: Count
    """pairs that were looked at"""
    event: str
    """the event, in words"""
    more_likely: Literal["D", "D′"]
    """the dataset under which it is the more likely"""
    hits: Counts
    """draws with the event, on D and on D′"""
    trials: Counts
    """draws that the hits are of: those of the pair that were not learned from last"""
    pair_trials: Count
    """draws per dataset of this pair; the cell's `trials` are those of all pairs"""


class ExcessRecord(Part):
    """A pair on which a query changes more than its noise is made for."""

    kind: Literal["change", "not a number", "shape", "raises"]
    """`change`: by more than the sensitivity; the others are changes that have no size: NaN or an
    infinity on one side, another form of the answer, an exception on one side"""
    pair: PairRecord
    """the pair"""
    change: Number | None
    """by how much the query changes, rounded; null where that has no size"""
    sensitivity: Amount | None
    """what the noise is made for; null where the change has no size"""
    factor: Number | None
    """the change over the sensitivity, rounded; null where it has no size"""
    words: str
    """what was seen"""


class ExactRecord(Part):
    """Whether the query without noise keeps to its sensitivity: no draw and no chance is in it."""

    norm: Number
    """norm in which changes are measured: 1, 2 or `"inf"`"""
    pairs: Count
    """pairs on which it was compared"""
    exceeding: Count
    """pairs on which it changes more than the noise is made for. Any is a violation of its own
    kind, beside `verdict`"""
    witnesses: list[ExcessRecord]
    """the worst pair of each kind"""
    notes: list[str]
    """remarks, such as on rounding"""


class CellRecord(Part):
    """One combination of mechanism, pair, attack, estimator and swept values."""

    @property
    def is_searched(self) -> bool:
        """Whether a search chose its pair and its attack, which then are no part of its name."""
        return self.searched or self.search is not None

    id: str
    """stable name: a readable part and a hash of what the cell is. Position, trials, seed, δ and
    confidence are not in it, unless swept"""
    status: Literal["ok", "failed"]
    """`ok` or `failed`"""
    repeat: Count
    """number of the repeat, from 0"""
    seed: int
    """the seed its draws come from"""
    mechanism: ChoiceRecord
    """the mechanism"""
    asked: AskedRecord | None = None
    """how a black box was asked; null for traced mechanisms. Old records lack it"""
    pair: PairRecord
    """the pair"""
    attack: ChoiceRecord
    """the attack"""
    estimator: ChoiceRecord
    """the estimator"""
    swept: FreeTable
    """swept keys, each with the value of this cell"""
    claim: ClaimRecord | None
    """what the mechanism claims for this pair; null if nothing"""
    truth: TruthRecord | None = None
    """the exact curve for this pair, where it is known; null elsewhere. Never part of a verdict"""
    trials: Counts
    """draws counted on D and on D′"""
    counts: Free
    """counts of the statistic, whole numbers, first axis the dataset; for decisions
    `counts[dataset][decision]`. Null if the cell failed before it was counted"""
    exact_shares: list[list[Number]] | None = None
    """probability of each of `counts` on D and on D′, where up to 256 bins were counted of what a
    mechanism releases, or what reached a threshold, and it knows how that is distributed; null
    elsewhere. Never part of a
    verdict. Old records lack it"""
    statistic: FreeTable
    """name of the statistic, and thresholds or edges where it has any"""
    estimate: EstimateRecord | None
    """what the estimator found; null if the cell failed"""
    verdict: Verdict | None
    """`violated`, `consistent`, `inconclusive`, or null: nothing claimed, nothing certified, or
    failed"""
    p_value: PValue | None
    """smallest level at which this cell alone rejects its claim; at least 1e-300. Null without a
    claim"""
    p_adjusted: PValue | None
    """the same, adjusted for all tests; null without a verdict"""
    reason: str | None
    """why the verdict is what it is, or why the cell failed"""
    expected: Verdict | None
    """the verdict that `[[expect]]` names; null if no rule matches"""
    seconds: Amount
    """seconds spent on the cell's draws, shared among the cells that share them"""
    draws: Count
    """draws counted, on both datasets together; those of cells with one `draw_group` are the
    same"""
    draw_group: str | None
    """name of the set of draws; cells with the same one share draws"""
    looks: list[LookRecord] | None
    """the looks at these draws, this one included; null for an anytime estimator, which may be
    looked at as often as one likes"""
    basis: Basis | None = None
    """what the verdict is made of; null without a verdict. Old records lack it"""
    search: SearchRecord | None = None
    """what a search looked through and what it holds against the claim; null without [search], and
    where the cell failed"""
    searched: bool = False
    """whether a search chose pair and attack, also where it failed; the attack of a cell that
    failed is the first of those that were to be played. Old records lack it"""
    exact: ExactRecord | None = None
    """what was found of the query without noise; null where the mechanism gives none. Old records
    lack it"""
