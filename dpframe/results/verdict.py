"""Verdicts and exit codes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.stats.joint import bonferroni, holm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpframe.results.model import CellRecord, Record


# Looks at the same draws, and what each of them costs.


def look_price(number: int) -> int:
    """What a p-value is multiplied by, and the error of a bound divided by, at a look.

    Look k ≥ 2 costs k(k + 1) and the first nothing. All looks together then err with at most 1.5
    times the error of the first, since 1/(2·3) + 1/(3·4) + … = 1/2.

    Args:
        number: which look it is, from 1.
    """
    return 1 if number == 1 else number * (number + 1)


class Looks(NamedTuple):
    """The looks at one cell, this one included."""

    earlier: tuple[tuple[int, int], ...] = ()
    """Trials per dataset of the looks that are known from before."""
    number: int = 1
    """Which look this is; a repetition of an earlier look keeps its number."""

    @property
    def price(self) -> int:
        """See `look_price`."""
        return look_price(self.number)

    def listed(self, trials: tuple[int, int]) -> list[list[int]]:
        """Trials of all looks, once this one has come to `trials`."""
        shown = list(self.earlier)
        if self.number > len(shown):
            shown.append(trials)
        return [list(pair) for pair in shown]


FIRST_LOOK = Looks()


# What the cells of a record add up to.


class Totals(NamedTuple):
    """The part of the summary that follows from the cells."""

    violated: int
    consistent: int
    inconclusive: int
    failed: int
    draws: int
    """Releases that were counted."""


def totals(cells: Sequence[CellRecord]) -> Totals:
    """Adds up the cells; draws that some of them share are counted once."""
    verdicts = [cell.verdict for cell in cells]
    shared: dict[Any, int] = {}
    for cell in cells:  # those that stopped earlier have a part of what the others have
        stopped = cell.estimate is not None and cell.estimate.anytime
        number = ("anytime", cell.swept.get("audit.trials")) if stopped else cell.draws
        key = (cell.seed, cell.draw_group, cell.repeat, number)
        shared[key] = max(shared.get(key, 0), cell.draws)
    return Totals(
        violated=verdicts.count("violated"),
        consistent=verdicts.count("consistent"),
        inconclusive=verdicts.count("inconclusive"),
        failed=sum(cell.status == "failed" for cell in cells),
        draws=sum(shared.values()),
    )


# Verdicts and exit codes: which claims are violated once the number tested is paid for.


VIOLATED, CONSISTENT, INCONCLUSIVE = "violated", "consistent", "inconclusive"
VERDICTS = (VIOLATED, CONSISTENT, INCONCLUSIVE)


class Evidence(NamedTuple):
    """What one cell brings to the verdict."""

    p_value: float
    p_resolved: float
    """The p-value once every error rate is raised by what the sampler resolves."""
    p_extreme: float
    """The p-value of the most extreme counts possible."""
    p_extreme_resolved: float
    """`p_resolved` of the most extreme counts possible."""
    error: float
    """Family-wise error, 1 − confidence."""
    delta: float
    """The δ of the estimate."""
    lower: float
    """Certified bound on ε at that δ."""
    upper: float
    """The most that the attack can show there; inf or nan where nothing is limited."""
    contrast: tuple[float, float, float]
    """(δ, bound, claimed ε) where the claim is clearest."""
    trials: int
    price: int = 1
    """Factor by which an earlier look at the same draws divides the error of this one."""
    level: float = 0.0
    """Error of the bound alone; 0 if it is not known."""
    upper_of: str | None = None
    """What of the attack `upper` limits, in the record's words; None if it is not known."""
    searched: int = 0
    """Pairs that were searched; 0 where the spec names the pair."""


def evidence_of(cell: CellRecord) -> Evidence | None:
    """What a recorded cell brings to the verdict; None if no verdict is made of it."""
    estimate, basis = cell.estimate, cell.basis
    if estimate is None or basis is None or cell.p_value is None:
        return None
    contrast = basis.contrast
    return Evidence(
        p_value=cell.p_value,
        p_resolved=basis.p_resolved,
        p_extreme=basis.p_extreme,
        p_extreme_resolved=basis.p_extreme_resolved,
        error=1 - basis.confidence,
        delta=estimate.delta,
        lower=_number(estimate.epsilon_lower),
        upper=_number(estimate.epsilon_upper),
        upper_of=estimate.epsilon_upper_of,
        contrast=(contrast.delta, contrast.lower, contrast.claimed),
        trials=min(cell.trials),
        price=look_price(basis.look),
        level=1 - estimate.confidence,
        searched=cell.search.pairs if cell.search is not None else 0,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


class Judgement(NamedTuple):
    """A verdict with its reason."""

    verdict: str
    p_adjusted: float
    reason: str


def judge(cells: Sequence[Evidence], m: int, multiplicity: str) -> list[Judgement]:
    """Judges all cells of an audit together.

    Args:
        cells: those with a claim and a certifying estimator that could be run.
        m: number of such cells planned, failed ones included.
        multiplicity: "holm", "bonferroni" or "none".
    """
    adjusted = adjusted_p_values([cell.p_value * cell.price for cell in cells], m, multiplicity)
    resolved = adjusted_p_values([cell.p_resolved * cell.price for cell in cells], m, multiplicity)

    def factor(error: float) -> int:
        """What the p-value of the most extreme counts would be multiplied by, at this error."""
        left = m - sum(p <= error for p in resolved)
        return {"holm": max(1, left), "bonferroni": m, "none": 1}[multiplicity]

    factors = {error: factor(error) for error in {cell.error for cell in cells}}
    return [
        _judge(cell, p, p_resolved, factors[cell.error])
        for cell, p, p_resolved in zip(cells, adjusted, resolved, strict=True)
    ]


def adjusted_p_values(p_values: list[float], m: int, multiplicity: str) -> list[float]:
    """p-values of an audit's tests, each paid for its look, adjusted for their number.

    Args:
        p_values: may be above 1.
        m: number of tests planned.
        multiplicity: "holm", "bonferroni" or "none".
    """
    paid = [min(p, 1.0) for p in p_values]
    if multiplicity == "none":
        return paid
    adjust = {"holm": holm, "bonferroni": bonferroni}[multiplicity]
    return [float(p) for p in adjust(paid, m)]


def _judge(cell: Evidence, adjusted: float, resolved: float, factor: int) -> Judgement:
    if resolved <= cell.error:
        return Judgement(VIOLATED, adjusted, _violated(cell))
    if adjusted <= cell.error:
        return Judgement(
            INCONCLUSIVE,
            adjusted,
            _TOO_RARE,
        )
    if cell.p_extreme_resolved * cell.price * factor > cell.error:
        enough = cell.p_extreme * cell.price * factor <= cell.error
        delta, _, claimed = cell.contrast
        return Judgement(
            INCONCLUSIVE,
            adjusted,
            f"even the most extreme counts possible in {cell.trials:,} trials would not reject "
            f"ε = {claimed:.4g} at δ = {delta:.3g}; "
            + (_TOO_RARE if enough else "more trials are needed"),
        )
    return Judgement(CONSISTENT, adjusted, f"no violation found; {_shown(cell)}")


_TOO_RARE = (
    "the deciding event is rarer than float32 sampling resolves: "
    'repeat with [run] precision = "float64"'
)


def _violated(cell: Evidence) -> str:
    delta, lower, claimed = cell.contrast
    if lower > claimed:
        return f"loss certified above {lower:.4g} at δ = {delta:.3g}, claimed {claimed:.4g}"
    if cell.searched:
        return (
            f"the claim ε = {claimed:.4g} at δ = {delta:.3g} is rejected by the bets on all pairs "
            f"together; the bound of this pair alone, {lower:.4g}, is not above it"
        )
    if cell.p_value <= cell.level:
        return (
            "certified error rates lie below the claimed curve as a whole, although at no single δ "
            f"that was looked at; nearest at δ = {delta:.3g}: certified {lower:.4g}, claimed "
            f"{claimed:.4g}"
        )
    return (
        f"the claim ε = {claimed:.4g} at δ = {delta:.3g} is rejected by the step-down test; the "
        f"bound that holds together with all others, {lower:.4g}, is not above it"
    )


def _shown(cell: Evidence) -> str:
    at = f"at δ = {cell.delta:.3g}"
    if cell.searched:
        pairs = "one pair" if cell.searched == 1 else f"{cell.searched} pairs"
        return (
            f"this search of {pairs} shows a loss of at least {cell.lower:.4g} {at}; another pair, "
            "attack or event may show more"
        )
    least = f"this attack shows a loss of at least {cell.lower:.4g}"
    if not math.isfinite(cell.upper):
        return f"{least} and without an upper limit {at}; another attack may show more"
    if cell.upper_of == "every event":
        return f"{least} and at most {cell.upper:.4g} {at}; another attack may show more"
    if cell.upper_of == "every cut":
        return (
            f"{least} {at}, and no cut of its scores shows more than {cell.upper:.4g}; another "
            "attack may show more"
        )
    return (
        f"{least} {at}, and at the chosen thresholds at most {cell.upper:.4g}; another threshold "
        "or attack may show more"
    )


def judged(cells: Sequence[CellRecord], m: int, multiplicity: str) -> list[CellRecord]:
    """The cells of a record with their verdicts, from the numbers that stand in them.

    Args:
        cells: in any order.
        m: number of tests planned, failed ones included.
        multiplicity: "holm", "bonferroni" or "none".
    """
    evidence = [(n, found) for n, cell in enumerate(cells) if (found := evidence_of(cell))]
    judgements = judge([found for _, found in evidence], m, multiplicity)
    complete = list(cells)
    for (n, _), judgement in zip(evidence, judgements, strict=True):
        complete[n] = cells[n].model_copy(update=judgement._asdict())
    return complete


MET, UNMET, NOT_RUN = 0, 1, 3


def exit_code(record: Record | Mapping[str, Any]) -> int:
    """Exit code of a run.

    Args:
        record: what `dpframe.audit` returns, or what a file of `dpframe run` holds.

    Returns:
        3 if a cell could not be run, or none was; else 1 if a cell misses its expected verdict, is
        violated without being expected to (by its draws, or because its query exceeds its
        sensitivity), or was skipped although a verdict is expected of it; else 0.

    Raises:
        RecordError: it is not a record.
    """
    from dpframe.results.store import as_record

    found = as_record(record)
    if not found.cells or any(cell.status == "failed" for cell in found.cells):
        return NOT_RUN
    unmet = any(map(surprising, found.cells)) or any(skip.expected for skip in found.skipped)
    return UNMET if unmet else MET


def exceeds(cell: CellRecord) -> bool:
    """Whether the query of a cell changes more than its noise is made for: exact, without draws."""
    return cell.exact is not None and cell.exact.exceeding > 0


def surprising(cell: CellRecord) -> bool:
    """Whether what was found of a cell is not what the spec expects of it.

    A violation is one whichever way it was found.
    """
    violated = cell.verdict == VIOLATED or exceeds(cell)
    if cell.expected == VIOLATED:
        return not violated
    if cell.expected is not None:
        return violated or cell.verdict != cell.expected
    return violated
