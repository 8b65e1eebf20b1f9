"""The record as types: the meaning of each field, and its possible values.

The text below a field is its meaning in the JSON Schema and on the website's page of the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic_core import CoreSchema, core_schema

from dpframe.common.text import Described
from dpframe.results import rows
from dpframe.results.strict_json import in_words, strict

SCHEMA = 1
WORDS = ("inf", "-inf", "nan")
"""The words of strict JSON for numbers that are not finite."""


class RecordPart(Described, BaseModel):
    """A JSON object with fixed keys. Nothing is converted: "1" and true are not numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )

    def __getitem__(self, key: str) -> Any:
        """Return a field by its key in JSON, as a file's content does."""
        for name, field in type(self).model_fields.items():
            if key == (field.alias or name):
                return getattr(self, name)
        raise KeyError(key)


class _InWords:
    """A float; infinities and NaN are words in JSON.

    Numbers are tried before words, so that usual files are read by native code.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        words = core_schema.literal_schema(list(WORDS))
        return core_schema.union_schema(
            [
                core_schema.float_schema(strict=True, allow_inf_nan=True),
                core_schema.no_info_after_validator_function(float, words),
            ],
            mode="left_to_right",
            custom_error_type="number",
            custom_error_message="input should be a number",
            serialization=core_schema.plain_serializer_function_ser_schema(
                in_words, when_used="json"
            ),
        )


Number = Annotated[float, _InWords]
"""A number that need not be finite."""

Count = Annotated[int, Ge(0), Le(2**63 - 1)]
Position = Annotated[int, Ge(1), Le(2**31 - 1)]
Amount = Annotated[float, Ge(0)]
PValue = Annotated[float, Gt(0), Le(1)]
Probability = Annotated[float, Ge(0), Le(1)]
Point = Annotated[list[Number], Field(min_length=2, max_length=2)]
Counts = Annotated[list[Count], Field(min_length=2, max_length=2)]
"""One count for D, one for D′."""

Free = Annotated[Any, PlainSerializer(strict, when_used="json")]
"""Any JSON value of a plugin."""

FreeTable = Annotated[dict[str, Any], PlainSerializer(strict, when_used="json")]
"""A table whose keys a plugin or a spec decides."""

Verdict = Literal["violated", "consistent", "inconclusive"]
Multiplicity = Literal["holm", "bonferroni", "none"]


class ChoiceRecord(RecordPart):
    """A mechanism, an attack or an estimator with its parameters."""

    use: str
    """name of the plugin"""
    label: str
    """its name in reports and expectations"""
    params: FreeTable
    """effective parameters, after sweep, overrides and `resolve`"""


class AskedRecord(RecordPart):
    """The rules by which a black box was asked for answers."""

    raises: Literal["answer", "fail"] | None = None
    """`answer` if an exception is an answer, `fail` if it makes the cell fail; null: the default of
    its attack"""
    limit: Amount | None = None
    """seconds that one answer may take; null without a limit"""
    time: bool = False
    """true if the time of an answer is part of it"""
    bits: bool = False
    """true if a search looked at the last bits of numbers"""
    messages: bool = False
    """true if the message of an exception is part of it"""
    only: list[str] = []
    """paths of the parts of an answer that counted; empty if all of it did"""
    constant: bool = False
    """true if all answers may be equal: the verdict is not inconclusive then"""


class NeedRecord(RecordPart):
    """An optional feature of a pair that a search proposed."""

    feature: str
    """the feature, in words"""
    without: FreeTable
    """parameters of the neighbourhood that exclude such pairs"""


class PairRecord(RecordPart):
    """The neighbouring datasets."""

    use: str
    """name of the plugin"""
    params: FreeTable
    """effective parameters"""
    digest: str | None = None
    """digest of D and D′; null if nothing was drawn"""
    relation: str | None = None
    """the relation under which D and D′ are neighbours, in words"""
    needs: list[NeedRecord] = Field(default_factory=list)
    """optional features of a pair that a search proposed, such as NaN outside the schema, each with
    the parameters that exclude it"""


def _finite_start(point: list[float]) -> list[float]:
    """Refuse a point at an infinite number of draws."""
    if not math.isfinite(point[0]):
        raise ValueError("draws are finite")
    return point


class ClaimRecord(RecordPart):
    """The claim of a mechanism for a pair."""

    kind: str
    """one of [the claims](claims.md): `pure-dp`, `approx-dp`, `gaussian-dp`,
    `zero-concentrated-dp`, `renyi-dp`, `laplace-dp`, `subsampled-gaussian-dp`, `accounted-dp`,
    `metric-dp`, or that of a plugin"""
    epsilon: Number
    """ε of the claim at the cell's δ, in nats; `"inf"` if the claim gives none there"""
    delta: Probability
    """the cell's δ"""
    parameters: FreeTable
    """the claim's own parameters, by name"""
    tradeoff: list[Point] | None = None
    """points (FPR, FNR) of the claimed curve, shape [k][2]; null for a claim at a single δ, which ε
    and δ define"""
    profile: list[Point] | None = None
    """points (ε, δ) of the claimed privacy profile, shape [k][2], by ascending ε; null for a claim
    at a single δ"""


class TruthRecord(RecordPart):
    """The exact loss of a mechanism for a pair."""

    kind: str
    """as `claim.kind`"""
    epsilon: Number
    """its ε at the cell's δ, in nats"""
    tradeoff: list[Point] | None = None
    """points (FPR, FNR) of the exact curve, shape [k][2]; null if it is the claimed curve, or that
    of a single δ"""
    profile: list[Point] | None = None
    """points (ε, δ) of the exact privacy profile, shape [k][2]; null if `tradeoff` is null"""


class EvidenceRecord(RecordPart):
    """The numbers from which a theorem gives bound and p-value, for `dpframe certify`."""

    theorem: str
    """`clopper-pearson`, `unconditional`, `joint`, `total-variation`, `one-run` or
    `betting`"""
    terms: list[list[Count | Number]]
    """its numbers: counts, weights and shares of the error, as described in `dpframe.Evidence`"""
    design: list[list[Count | Number]] = []
    """of `joint`: all events that share the error, as rank (0 for a fixed threshold), trials,
    weight and share; empty for other theorems"""


class EstimateRecord(RecordPart):
    """The result of an estimator."""

    epsilon: Number
    """point estimate, in nats; may be infinite. Not a bound"""
    epsilon_lower: Amount | None
    """certified: the loss is at least this, in nats, at level `confidence`. Null if the estimator
    does not certify"""
    epsilon_upper: Number | None
    """the most that this attack can show, in nats. Limits the attack, never the mechanism"""
    epsilon_upper_of: Literal["every event", "every cut", "chosen thresholds"] | None = None
    """scope of `epsilon_upper`: every event of the attack's decisions, every cut of its scores, or
    only the thresholds that the spec or the pilot chose. Null if `epsilon_upper` is not a limit"""
    interval: Point | None = None
    """lower and upper limit on ε, in nats, that are approximate, Bayesian or based on stronger
    assumptions; never a bound. Null if the estimator gives none"""
    delta: Probability
    """δ at which ε is estimated"""
    confidence: Probability
    """level of this one bound; chosen so that all bounds of the record hold together"""
    certified: bool
    """true if the bound is valid at finite samples, under `assumption`"""
    assumption: str
    """the assumption of the bound"""
    tradeoff: list[Point]
    """certified points (FPR, FNR), shape [k][2]: the mechanism's trade-off curve runs below or
    through each. If `certified` is false, points of an estimated curve"""
    profile: list[Point]
    """points (ε, δ), shape [k][2], of an estimated privacy profile, if the estimator gives one"""
    profile_lower: list[Point] = Field(default_factory=list)
    """certified points (ε, δ), shape [k][2], by ascending ε: δ(ε) is at least this, and between two
    points at least the value of the right one; at level `confidence`, for all ε together. Empty if
    the estimator does not certify a profile"""
    anytime: bool = False
    """true if it is valid at all numbers of trials simultaneously, so looks cost nothing"""
    wealth: list[Annotated[Point, AfterValidator(_finite_start)]] = Field(default_factory=list)
    """points (trials per dataset, logarithm of the wealth), shape [k][2], of the bets against the
    claim; at most 200. Empty without a claim, or if `anytime` is false"""
    notes: list[str]
    """remarks, for example on the outputs checked for NaN, or that the run cannot be replayed"""
    evidence: EvidenceRecord | None = None
    """inputs of the bound and the p-value; null if they do not come from a known theorem"""


class PowerRecord(RecordPart):
    """The smallest true loss that the trials of a cell would have shown."""

    probability: Probability
    """probability with which the claim would have been refuted at this loss"""
    epsilon: Number
    """the loss at the cell's δ, in nats"""
    model: str
    """the pair that models the true loss, for an attack with equal error rates:
    randomised response, Gaussian noise or Laplace noise"""


class SlackRecord(RecordPart):
    """The difference between the claimed and the certified ε, in parts that add up to it, in nats.

    Each part is one value less the next: claimed ε, exact ε, limit of the attack, the bound of the
    same counts at four levels, certified ε.
    """

    pair: Number | None
    """claimed ε minus the exact ε of this pair; null if that is unknown or infinite, and then
    included in the next part"""
    attack: Number | None
    """that ε minus the most that this attack's events could show with infinitely many draws; null
    if that limit is unknown or infinite, and then included in the next part"""
    limit: Literal["exact", "learned"] | None
    """`exact` if the limit of the attack comes from known probabilities; `learned` if it is
    `estimate.epsilon_upper`, an upper limit from the counts, so that `attack` is at least, and
    `sampling` at most, what is given here; null if it is unknown"""
    sampling: Number
    """that limit minus the bound of these counts at confidence ½; negative if chance favoured the
    attack, or if the claim is false and the previous parts are unknown"""
    confidence: Number
    """that bound minus the bound at the audit's confidence, as if there were no other cell"""
    cells: Number
    """that bound minus the bound at this cell's share of the error of all cells"""
    looks: Number
    """that bound minus the bound corrected for the looks at these draws"""
    resolution: Number
    """that bound minus the certified bound, which allows for the sampler's resolution; 0 in
    searches, whose bounds include this at every level"""


class ContrastRecord(RecordPart):
    """A bound beside what is claimed, at one δ."""

    delta: Number
    """the δ"""
    lower: Number
    """certified bound on ε there, in nats"""
    claimed: Number
    """ε of the claim there, in nats"""


class Basis(RecordPart):
    """The numbers, beside `p_value` and `estimate`, that decide a verdict."""

    confidence: Probability
    """confidence of all verdicts together, from the cell's spec"""
    look: Position
    """number of this look at these draws, from 1; look k ≥ 2 multiplies the p-value by k(k + 1)"""
    p_resolved: PValue
    """`p_value` with every error rate raised by the resolution of the sampler"""
    p_extreme: PValue
    """`p_value` of the most extreme counts possible"""
    p_extreme_resolved: PValue
    """`p_resolved` of the most extreme counts possible"""
    contrast: ContrastRecord
    """bound and claim at the δ with the strongest evidence"""
    resolution: Probability | None = None
    """probability below which events reveal only the sampler"""
    extreme: EvidenceRecord | None = None
    """inputs of `p_extreme`"""


class LookRecord(RecordPart):
    """A look at the draws of a cell, which is a run that reported on them."""

    trials: Counts
    """draws counted at that look, on D and on D′"""


class WitnessRecord(RecordPart):
    """An event that reveals a leak, with its counts."""

    event: str
    """the event, in words"""
    more_likely: Literal["D", "D′"]
    """the dataset on which the event is more likely"""
    hits: Counts
    """draws with the event, on D and on D′"""
    trials: Counts
    """draws from which the hits were counted: those of the pair that the attack has not learned
    from"""
    pair_trials: Count
    """draws per dataset of this pair; the cell's `trials` are those of all pairs"""
    leak: str = ""
    """name of the leak that the event reveals; `[search] ignore` takes it, or a part of it"""
    inside: list[str] = Field(default_factory=list)
    """some outputs in the event, if the attack has no words for it; empty if they were not kept"""
    outside: list[str] = Field(default_factory=list)
    """some outputs that are not in the event"""


class FindingRecord(WitnessRecord):
    """One more leak that a search has found after the first, with its witness."""

    leak: str
    """name of the leak; `[search] ignore` takes it, or a part of it"""
    mechanism: ChoiceRecord
    """the mechanism, with the parameters that the search has chosen"""
    pair: PairRecord
    """the pair"""
    attack: ChoiceRecord
    """the attack"""
    p_value: PValue
    """smallest level at which the bets since the previous leak reject the claim"""


class CoverageRecord(RecordPart):
    """The coverage of a search: its attempts, its end, and the loss that it would have shown."""

    ended_by: Literal["decided", "trials", "seconds", "pairs", "lost"]
    """what ended the search: `decided` if the claim is refuted, `trials` or `seconds` if they were
    used up, `pairs` if no pair was left to draw from, `lost` if the black box crashed after the
    claim was refuted"""
    limit: Amount | None
    """the trials per dataset, or the seconds, that ended it; null for the other reasons"""
    proposed: Count
    """pairs that the neighbourhood proposed and the mechanism accepts; a pair with several values
    of the mechanism's parameters counts once for each"""
    drawn: Count
    """those of them that were bet on"""
    raised: Count
    """those of them whose answers were all the same exception; nothing was bet on them"""
    lost: Count = 0
    """those of them at which the black box crashed or ran out of memory before anything was bet"""
    draws: Annotated[list[Count], Field(min_length=3, max_length=3)]
    """draws per dataset of a pair that was bet on: the fewest, the median and the most"""
    probability: Probability
    """probability with which the claim would have been refuted at the losses `detectable`"""
    detectable: Amount | None
    """smallest loss ε′ at the cell's δ, in nats, that the draws of the pair with the most of them
    would have shown: for randomised response with ε′ at this pair, and an attack that sees all of
    it. Null without a claim, if the claim is refuted, or if no loss would have been shown"""
    detectable_median: Amount | None
    """the same for a pair with the median number of draws"""
    tried: list[str]
    """named features of the pairs that were bet on, and values of varied parameters"""
    untried: list[str]
    """features that the neighbourhood names, and values of varied parameters, of no pair that was
    bet on; unless the claim is refuted, also the parameters of which one value was tried"""


class SearchRecord(WitnessRecord):
    """The extent of a search, and its witness: the event that earned most."""

    neighbourhood: ChoiceRecord
    """the source of the pairs; the cell's `pair` and `attack` are those of the witness"""
    attacks: list[str] = Field(default_factory=list)
    """labels of the attacks that scored every draw"""
    pairs: Count
    """number of pairs tried"""
    parameters: FreeTable = Field(default_factory=dict)
    """parameters of the mechanism that the search varied, with their values for the witness"""
    ignored: list[str] = Field(default_factory=list)
    """leaks that were ignored"""
    findings: list[FindingRecord] = Field(default_factory=list)
    """further leaks, each with another name, in the order of their discovery"""
    coverage: CoverageRecord | None = None
    """what was tried, what ended the search, and the loss that it would have shown"""


class ExcessRecord(RecordPart):
    """A pair on which a query changes more than its noise is made for."""

    kind: Literal["change", "not a number", "shape", "raises"]
    """`change` for a change above the sensitivity; the others have no size: NaN or an infinity
    on one side, a different form of the answer, an exception on one side"""
    pair: PairRecord
    """the pair"""
    change: Number | None
    """change of the query, rounded; null if it has no size"""
    sensitivity: Amount | None
    """the sensitivity that the noise is scaled for; null if the change has no size"""
    factor: Number | None
    """the change divided by the sensitivity, rounded; null if it has no size"""
    words: str
    """the finding in words"""


class ExactRecord(RecordPart):
    """An exact comparison of the noiseless query with its sensitivity; it needs no draws."""

    norm: Number
    """norm in which changes are measured: 1, 2 or `"inf"`"""
    pairs: Count
    """number of pairs compared"""
    exceeding: Count
    """number of pairs on which the query exceeds its sensitivity. If it is positive, this is a
    separate kind of violation, in addition to `verdict`"""
    witnesses: list[ExcessRecord]
    """the worst pair of each kind"""
    notes: list[str]
    """remarks, such as on rounding"""


class StatedRecord(RecordPart):
    """The loss of the distribution that a mechanism states, computed without draws.

    A verdict about the stated distribution: separate from `verdict`, and not one of the m tests.
    """

    pairs: Count
    """number of pairs compared"""
    exceeding: Count
    """number of pairs whose loss exceeds the claim"""
    verdict: Literal["violated", "consistent"] | None
    """violated if the loss of any pair exceeds its claim; null if nothing is claimed"""
    pair: PairRecord
    """the pair with the largest loss in proportion to its claim"""
    loss: Number
    """its smallest ε at δ = 0"""
    claimed: Number | None
    """ε of its claim at the claim's own δ; null if nothing is claimed"""
    words: str
    """the comparison in words"""
    places: Count
    """number of places of an output, which are chosen independently"""
    draws: Count
    """outputs from each dataset that were compared with the stated distribution"""
    p_value: Probability | None
    """of the test that they were drawn from it; null if it was left out"""


class CellRecord(RecordPart):
    """One combination of mechanism, pair, attack, estimator and swept values."""

    @property
    def is_searched(self) -> bool:
        """True if a search chose pair and attack; they are then not part of its name."""
        return self.searched or self.search is not None

    id: str
    """stable name: a readable part and a hash of the cell's definition. Position, trials, seed, δ
    and confidence are not part of it, unless swept"""
    status: Literal["ok", "failed"]
    """`ok` or `failed`"""
    repeat: Count
    """number of the repeat, from 0"""
    seed: int
    """the seed its draws come from"""
    mechanism: ChoiceRecord
    """the mechanism"""
    asked: AskedRecord | None = None
    """settings for the answers of a black box; null for traced mechanisms"""
    pair: PairRecord
    """the pair"""
    attack: ChoiceRecord
    """the attack"""
    estimator: ChoiceRecord
    """the estimator"""
    swept: FreeTable
    """swept keys, each with the value of this cell"""
    claim: ClaimRecord | None
    """the mechanism's claim for this pair; null if it makes none"""
    truth: TruthRecord | None = None
    """the exact curve for this pair, if known, else null. Never part of a verdict"""
    trials: Counts
    """draws counted on D and on D′"""
    counts: Free
    """counts of the statistic, whole numbers, first axis the dataset; for decisions
    `counts[dataset][decision]`. Null if the cell failed before it was counted"""
    exceptions: list[Probability] | None = None
    """shares of exceptions among the answers of a black box, on D and on D′; in a search on the
    pair of the witness. Null if they do not count as answers"""
    exact_shares: list[list[Number]] | None = None
    """probability of each of `counts` on D and on D′, for up to 256 bins of a mechanism's outputs,
    or of outputs beyond a threshold, if the mechanism knows its distribution; else null. Never part
    of a verdict"""
    statistic: FreeTable
    """name of the statistic, and its thresholds or edges, if any"""
    untested: str | None = None
    """the reason if nothing was tested, because every answer or every score was the same; the
    verdict is then inconclusive"""
    estimate: EstimateRecord | None
    """the result of the estimator; null if the cell failed"""
    verdict: Verdict | None
    """`violated`, `consistent`, `inconclusive`, or null: nothing claimed, nothing certified, or
    failed"""
    p_value: PValue | None
    """smallest level at which this cell alone rejects its claim; at least 1e-300. Null without a
    claim"""
    p_adjusted: PValue | None
    """the same, adjusted for all tests; null without a verdict"""
    reason: str | None
    """the reason for the verdict, or for the failure"""
    expected: Verdict | None
    """the verdict that `[[expect]]` names; null if no rule matches"""
    seconds: Amount
    """seconds spent on the cell's draws, shared among the cells that share them"""
    draws: Count
    """draws counted, on both datasets together; those of cells with one `draw_group` are the
    same"""
    draw_group: str | None
    """name of the set of draws; cells with the same name share draws"""
    looks: list[LookRecord] | None
    """the looks at these draws, this one included; null for an anytime estimator, which allows any
    number of looks"""
    basis: Basis | None = None
    """inputs of the verdict; null without a verdict"""
    search: SearchRecord | None = None
    """the extent of a search and its evidence against the claim; null without [search], and if the
    cell failed"""
    event: WitnessRecord | None = None
    """on a fixed pair, the event farthest outside the claim, chosen after counting, so it shows
    the leak but gives no bound. Null if the cell does not refute its claim alone, if its counts are
    not of decisions or between cuts, or if answers may be of any kind"""
    searched: bool = False
    """true if a search chose pair and attack, even if it failed; the attack of a failed cell is the
    first one planned"""
    stated: StatedRecord | None = None
    """the loss of the stated distribution, if the mechanism states one"""
    exact: ExactRecord | None = None
    """result of the query without noise; null if the mechanism defines none"""
    power: PowerRecord | None = None
    """the smallest loss that a consistent cell would have detected; null for other verdicts,
    without `[run] power`, for bets, and if there is no model of a loss"""
    slack: SlackRecord | None = None
    """parts of the difference between claimed and certified ε; null if nothing is certified, or the
    claim is not finite at the cell's δ"""


class SpecRecord(RecordPart):
    """The spec of a run."""

    path: str
    """its path as given; empty if the spec was not a file"""
    sha256: str
    """hash of its bytes"""
    text: str
    """the whole text"""
    overrides: list[str]
    """changes from the command line, as `KEY=VALUE`, `--trials` and `--seed` included"""


class AuditRecord(RecordPart):
    """Settings of the whole audit."""

    name: str
    """its name"""
    confidence: Probability
    """confidence of all verdicts together; if it is swept, the lowest"""
    multiplicity: Multiplicity
    """`holm`, `bonferroni` or `none`"""
    looks: Position
    """the largest number of looks at any cell's draws, this one included"""


class EnvironmentRecord(RecordPart):
    """Versions and devices of a run."""

    dpframe: str
    """version of dpframe"""
    jax: str
    """version of JAX"""
    numpy: str
    """version of NumPy"""
    scipy: str
    """version of SciPy"""
    python: str
    """version of Python"""
    platform: str
    """operating system and processor"""
    devices: list[str]
    """kind of each device that JAX used"""
    prng: str
    """name of the pseudo-random number generator of traced mechanisms"""


class PluginRecord(RecordPart):
    """A plugin that was used."""

    kind: str
    """`mechanism`, `attack`, `estimator` or `pair`"""
    name: str
    """its name"""
    distribution: str
    """its distribution; `local` for a class passed to `dpframe.audit`, the name of the file for one
    given with `--plugin`"""
    version: str
    """version of the distribution; for a file, the digest of its bytes"""
    code: str
    """digest of the Python files of the package that defines it"""
    reference: str | None = None
    """the theorem, or another source, for an estimator's numbers, from its author; null if none is
    given, and for other kinds"""


class InstalledRecord(RecordPart):
    """An environment that black boxes ran in."""

    name: str
    """its name in the spec"""
    requirements: list[str]
    """the requirements in the spec; empty for an interpreter that only the command line names"""
    python: str
    """version of its Python; empty if it could not be used"""
    installed: list[str]
    """names and versions of all installed packages, `name==version`"""


class SkipRecord(RecordPart):
    """A combination that was left out."""

    mechanism: str
    """label of the mechanism"""
    pair: str
    """name of the pair"""
    attack: str
    """label of the attack"""
    estimator: str
    """label of the estimator"""
    swept: FreeTable
    """swept keys and values; empty if it is skipped for all values"""
    reason: str
    """the reason"""
    expected: Verdict | None = None
    """the verdict that `[[expect]]` names for this combination; null if no rule matches"""


class SummaryRecord(RecordPart):
    """Totals."""

    m: Count
    """tests planned: cells with a claim and a certifying estimator, failed ones included"""
    violated: Count
    """cells with this verdict"""
    consistent: Count
    """cells with this verdict"""
    inconclusive: Count
    """cells with this verdict"""
    failed: Count
    """cells that could not be run"""
    seconds: Amount
    """duration of the run, in seconds"""
    draws: Count
    """draws counted, each one release of a mechanism; those that cells share are counted once"""
    calls: Count | None = None
    """releases requested from black boxes for all purposes: learning, choosing, checking and
    counting; null if no mechanism is a black box"""
    peak_rss_bytes: Count | None
    """largest resident memory of the process, in bytes; null if the system does not report it"""


class Record(RecordPart):
    """A run, its findings and its cost: complete, replayable, and all that reports read.

    ε is in nats. Index 0 is D, index 1 is D′. Numbers that are not finite are the strings "inf",
    "-inf" and "nan" in JSON.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    """version of this format: 1"""
    spec: SpecRecord
    """the spec of the run"""
    audit: AuditRecord
    """settings of the whole audit"""
    environment: EnvironmentRecord
    """software and hardware of the run"""
    seed: int
    """the seed; if it is swept, that of the first cell"""
    plugins: list[PluginRecord]
    """every plugin used"""
    environments: list[InstalledRecord] = Field(default_factory=list)
    """the environments of black boxes, besides that of dpframe"""
    cells: list[CellRecord]
    """the cells, in the order of the spec"""
    skipped: list[SkipRecord]
    """skipped combinations"""
    summary: SummaryRecord
    """totals"""
    digest: str | None = None
    """hash of everything else, to detect changes"""

    in_notebooks: ClassVar[Callable[[Record], str] | None] = None
    """Makes the HTML for notebooks; `audit` and `load` set it, as records do not import reports."""

    def _repr_html_(self) -> str | None:
        show = type(self).in_notebooks
        return None if show is None else show(self)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield "audit", self.audit.name
        yield "cells", len(self.cells)
        yield "violated", self.summary.violated

    def as_dict(self) -> dict[str, Any]:
        """Return the record as dictionaries and lists; numbers that are not finite stay floats."""
        return self.model_dump(by_alias=True)

    def as_json(self) -> dict[str, Any]:
        """Return the record as strict JSON values: numbers that are not finite are words."""
        return self.model_dump(mode="json", by_alias=True)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame: a row for each cell, with the columns of the CSV report.

        A missing number is NaN; parameters are JSON.

        Raises:
            OutputError: pandas is not installed.
        """
        return rows.frame(self)


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema of a record, with the meaning of every field."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **Record.model_json_schema(), "title": "dpframe record"}
