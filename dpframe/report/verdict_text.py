"""The verdict on an audit and on each of its cells in words, the same in every report."""

import math
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from dpframe.claims.metric import MetricDP
from dpframe.common.text import meanings
from dpframe.report import number_format
from dpframe.report.number_format import (
    brief,
    duration,
    percent,
    plural,
    point,
    quantity,
    setting,
)
from dpframe.report.witness import COMPUTED, computed_excess
from dpframe.results.model import CellRecord, ClaimRecord, Record, SkipRecord, SlackRecord
from dpframe.results.verdict import exceeds, found_consistent, surprising

SYMBOL: dict[str | None, str] = {
    "violated": "✗",
    "consistent": "○",
    "inconclusive": "?",
    "failed": "!",
    None: "~",
}
WORDS: dict[str | None, str] = {
    "violated": "violated",
    "consistent": "no violation found",
    "inconclusive": "inconclusive",
    "failed": "failed",
    None: "no verdict",
}
"""Verdicts in words, never "private": no audit can show that."""

UNEXPECTED = "▶"
NO_REASON = "no reason given"
BLIND = "saw nothing"  # stands for the bounds of a cell whose attack saw nothing
SHADES = (
    (0.0, "·", "0"),
    (0.5, "░", "≤ 0.5"),
    (1.0, "▒", "≤ 1"),
    (10.0, "▓", "≤ 10"),
    (math.inf, "█", "> 10"),
)
"""Shades of every map: largest certified ε divided by claimed ε, sign, and that limit in words."""

MOST_DIGITS = 8
PROCEDURES = {"holm": "Holm", "bonferroni": "Bonferroni"}
NEGLIGIBLE = 1e-9  # parts of the slack that are not shown: rounding


def state(cell: CellRecord) -> str | None:
    """Return the verdict of a cell, or "failed".

    It is that of the stated distribution if this violates the claim, or if draws decided nothing.
    """
    if cell.status == "failed":
        return "failed"
    if cell.stated is not None and cell.stated.exceeding:
        return "violated"
    return "consistent" if found_consistent(cell) else cell.verdict


def is_computed(cell: CellRecord) -> bool:
    """True if the verdict that reports show is about a stated distribution, not the draws."""
    return state(cell) not in ("failed", cell.verdict)


def is_unexpected(cell: CellRecord) -> bool:
    """True if the cell ran and its verdict differs from the spec's expectation."""
    return cell.status == "ok" and cell.expected not in (None, state(cell))


def verdict(cell: CellRecord) -> str:
    """Write the verdict of a cell with its sign, and another sign if it makes a job fail."""
    kind, how = state(cell), ", computed" if is_computed(cell) else ""
    return f"{unexpected(cell)}{SYMBOL[kind]} {WORDS[kind]}{how}"


def unexpected(cell: CellRecord) -> str:
    """Return the sign of a cell that makes a job fail; "" for others."""
    return f"{UNEXPECTED} " if outcome(cell).kind is OutcomeKind.FAILED else ""


# The outcome of a cell for a CI job.


class OutcomeKind(Enum):
    """The outcome of a cell, or of a combination that was skipped.

    A job whose run exits with 0 has no cell that failed or broke (`results.store.exit_code`).
    A cell that decided nothing does not pass.
    """

    PASSED = "passed"  # no violation found, or the verdict that was expected
    FAILED = "failed"  # not the expected verdict, or violated
    BROKEN = "broken"  # could not be run
    UNDECIDED = "undecided"  # nothing was tested or decided, and nothing was expected


class CellOutcome(NamedTuple):
    """The outcome of a cell, and the sentence that states it."""

    kind: OutcomeKind
    message: str


def outcome(cell: CellRecord | SkipRecord) -> CellOutcome:
    """Return the outcome of a cell, or of a combination that was skipped."""
    expected, reason = WORDS[cell.expected], cell.reason or NO_REASON
    if isinstance(cell, SkipRecord):
        if cell.expected is None:
            return CellOutcome(OutcomeKind.UNDECIDED, f"skipped: {reason}")
        text = f"expected {expected}, but skipped: {reason}"
        return CellOutcome(OutcomeKind.FAILED, text)
    if cell.status == "failed":
        return CellOutcome(OutcomeKind.BROKEN, f"could not be run: {reason}")
    description = WORDS[cell.verdict]
    if cell.verdict is None:
        bound = cell.estimate is not None and cell.estimate.certified
        description += ": nothing is claimed" if bound else ": an estimate, not a bound"
    elif cell.reason:  # it may begin with the verdict itself
        description = reason if reason.startswith(description) else f"{description}: {reason}"
    if exceeds(cell):
        description = f"{computed_excess(cell)}; by its draws: {description}"
    elif cell.stated is not None:
        description = f"{COMPUTED}: {cell.stated.words}; by its draws: {description}"
    if surprising(cell):
        prefix = f"expected: {expected}; got: " if cell.expected else ""
        return CellOutcome(OutcomeKind.FAILED, f"{prefix}{description}")
    if cell.expected is not None:
        return CellOutcome(OutcomeKind.PASSED, f"as expected: {description}")
    decided = state(cell) == "consistent"
    return CellOutcome(OutcomeKind.PASSED if decided else OutcomeKind.UNDECIDED, description)


# Certified ε beside claimed ε, and the worst of several cells.


class Weight(NamedTuple):
    """A certified bound beside a claim, both in nats."""

    lower: float
    claimed: float
    delta: float | None  # their δ, if it is not the cell's

    @property
    def ratio(self) -> float:
        """Certified divided by claimed: 0 if nothing is certified or the claim is ∞."""
        if self.lower <= 0:
            return 0.0
        return self.lower / self.claimed if self.claimed > 0 else math.inf


def weight(cell: CellRecord) -> Weight | None:
    """Return bound and claim of a cell; None if one of them is missing.

    A claim that is a curve may be refuted at another δ than the cell's. Then bound and claim are
    those at the δ with the strongest evidence.
    """
    estimate, claim = cell.estimate, cell.claim
    if estimate is None or claim is None or estimate.epsilon_lower is None:
        return None
    plain = Weight(estimate.epsilon_lower, claim.epsilon, None)
    if cell.basis is not None and plain.lower <= plain.claimed:
        contrast = cell.basis.contrast
        elsewhere = Weight(contrast.lower, contrast.claimed, contrast.delta)
        if math.isfinite(elsewhere.lower) and elsewhere.lower > elsewhere.claimed:
            return elsewhere
    return plain


def worst(cells: Iterable[CellRecord]) -> CellRecord | None:
    """Return the cell with the strongest evidence against its mechanism; None if none ran.

    Cells are compared by these in turn: being violated, certified ÷ claimed ε, the certified bound,
    the point value. The first of equal cells is returned.
    """
    ran = [cell for cell in cells if cell.estimate is not None]
    return max(ran, key=_gravity, default=None)


def _gravity(cell: CellRecord) -> tuple[float, ...]:
    weighed, estimate = weight(cell), cell.estimate
    lower = epsilon = -1.0
    if estimate is not None:
        lower = -1.0 if estimate.epsilon_lower is None else estimate.epsilon_lower
        epsilon = -1.0 if math.isnan(estimate.epsilon) else estimate.epsilon
    ratio = -1.0 if weighed is None else weighed.ratio
    return cell.verdict == "violated", ratio, lower, epsilon


def measure(cell: CellRecord) -> str:
    """Write the certified bound of a cell, rounded down, and its claim."""
    estimate, weighed = cell.estimate, weight(cell)
    if estimate is None:
        return "could not be run"
    if weighed is None and estimate.epsilon_lower is None:
        return f"nothing certified; estimated {point(estimate.epsilon)}"
    if weighed is None:
        return f"certified {number_format.lower(estimate.epsilon_lower)}, nothing claimed"
    lower, claimed = told_apart(weighed.lower, weighed.claimed)
    if weighed.lower <= 0:  # "certified 0" could be taken for a loss of 0
        return f"nothing certified, claimed {claimed}{by_distance(cell.claim)}"
    at = "" if weighed.delta is None else f" at δ = {setting(weighed.delta)}"
    return f"certified {lower} of claimed {claimed}{by_distance(cell.claim)}{at}"


def by_distance(claim: ClaimRecord | None) -> str:
    """Write the factors of ε of a metric claim, else nothing."""
    if claim is None or claim.kind != MetricDP.kind:
        return ""
    unit, distance = (claim.parameters.get(name) for name in ("unit_epsilon", "distance"))
    if not isinstance(unit, int | float) or not isinstance(distance, int | float):
        return ""
    return f" = {brief(unit)} × distance {brief(distance)}"


def told_apart(lower: float, claimed: float) -> tuple[str, str]:
    """Write a bound and a claim with enough digits to show which is larger."""
    for digits in range(3, MOST_DIGITS):
        shown = number_format.lower(lower, digits), brief(claimed, digits)
        low, high = (float(text.replace("∞", "inf").replace("–", "nan")) for text in shown)
        if (lower > claimed) == (low > high):
            break
    return shown


class SlackPart(NamedTuple):
    """One part of the difference between claimed and certified ε."""

    name: str
    sign: str  # "≥ " or "≤ " for a part that is only limited
    size: float | None  # None if it is unknown, and then contained in the next part

    @property
    def amount(self) -> str:
        """The size in words."""
        return "unknown" if self.size is None else f"{self.sign}{point(self.size)}"

    def __str__(self) -> str:
        """Return name and size."""
        return f"{self.name} {self.amount}"


def slack(cell: CellRecord) -> list[SlackPart]:
    """Return the parts of a cell's slack that are not 0, in their order."""
    if cell.slack is None:
        return []
    signs = {"attack": "≥ ", "sampling": "≤ "} if cell.slack.limit == "learned" else {}
    names = meanings_of_slack()
    parts = [SlackPart(name, signs.get(name, ""), getattr(cell.slack, name)) for name in names]
    return [part for part in parts if part.size is None or abs(part.size) > NEGLIGIBLE]


def meanings_of_slack() -> dict[str, str]:
    """Return the definition of each part of the slack, in their order."""
    texts = meanings(SlackRecord).items()
    return {name: text.partition("; null")[0] for name, text in texts if name != "limit"}


# The answer: the verdict on a whole audit.


class Headline(NamedTuple):
    """The answer of an audit."""

    answer: str  # the number of violated claims
    others: str  # the result of the other claims; ends the sentence
    sure: str  # the confidence of both, a sentence; "" if nothing was tested
    cost: str  # draws and time, a sentence
    grave: bool  # true if any claim is violated

    def __str__(self) -> str:
        """Return all sentences."""
        return " ".join(filter(None, [self.answer + self.others, self.sure, self.cost]))


def headline(record: Record) -> Headline:
    """Return the answer of an audit, which every report begins with."""
    m, counts = record.summary.m, Counter[str | None](state(cell) for cell in record.cells)
    computed = Counter[str | None](state(cell) for cell in record.cells if is_computed(cell))
    violated, consistent = counts["violated"], counts["consistent"]
    missing = m - violated - consistent - counts["inconclusive"]
    amounts = {"inconclusive": counts["inconclusive"], "not tested": missing}
    left = [f"{number} {what}" for what, number in amounts.items() if number > 0]
    met = (expected := expectations(record)) is not None and expected.met and not expected.surprises
    others = ""
    if violated:
        answer = f"{violated} of {m} claims violated" if m > 1 else "The claim is violated"
        answer += _computed(computed["violated"], violated)
        answer += f", {'all' if violated > 1 else 'as'} expected" if met else ""
        other = "one" if consistent == 1 else consistent
        rest = f"the other {other}" if violated + consistent == m else consistent
        parts = [f"no violation found for {rest}"] * (consistent > 0) + left
        others = "".join(f"; {part}" for part in parts)
    elif consistent:  # "0 violated" would imply that all claims hold
        answer = "No violation found"
        every = "the claim" if m == 1 else f"any of {m} claims"
        others = " for " + "; ".join([f"{consistent} of {m} claims" if left else every, *left])
        others += _computed(computed["consistent"], consistent)
        others += ", as expected" if met else ""
    elif not m:
        answer = "No claim was tested"
    elif m == 1:
        answer = f"No verdict: the only claim could not be {'tested' if missing else 'decided'}"
    else:
        answer = f"No verdict on any of {m} claims: {', '.join(left)}"
    answer += raised(record)
    checked = {cell.mechanism.label: cell.exact for cell in record.cells if cell.exact is not None}
    wrong = sum(exact.exceeding > 0 for exact in checked.values())
    if wrong:
        of = f"{wrong} of {len(checked)} mechanisms" if len(checked) > 1 else "The mechanism"
        exact = f"{of} changes by more than its noise is scaled for (exact, no false alarm)"
        answer = f"{exact}; {answer[:1].lower()}{answer[1:]}"
    draws = f"{quantity(record.summary.draws)} draws in " if record.summary.draws else "Duration: "
    return Headline(
        answer,
        f"{others}.",
        _confidence(record, violated - computed["violated"]) if missing < m else "",
        f"{draws}{duration(record.summary.seconds)}.",
        bool(violated or wrong),
    )


def _computed(number: int, of: int) -> str:
    """Say how many of some verdicts were computed; the number only if not all were."""
    return "" if not number else f", {COMPUTED}" if number == of else f", {number} {COMPUTED}"


def raised(record: Record) -> str:
    """Give the shares of exceptions among the answers, which may have decided a verdict."""
    tested = [cell for cell in record.cells if cell.verdict is not None]
    violated = [cell for cell in tested if cell.verdict == "violated"]
    of = [cell.exceptions for cell in violated or tested if cell.exceptions]
    zero, one = max(of, key=max, default=[0.0, 0.0])
    if not max(zero, one):
        return ""
    shares = f"{100 * zero:.3g} % of the answers on D and {100 * one:.3g} % on D′"
    return f" ({'in one cell ' if len(record.cells) > 1 else ''}{shares} were exceptions)"


def _confidence(record: Record, violated: int) -> str:
    m, multiplicity = record.summary.m, record.audit.multiplicity
    sure = percent(record.audit.confidence)
    if m > 1 and multiplicity == "none":
        return f"Each is tested at {sure} alone, NOT adjusted for {m} claims."
    how = f" ({PROCEDURES.get(multiplicity, multiplicity)} over {m} claims)" if m > 1 else ""
    if not violated:
        return f"Tested at {sure} confidence{' for all together' if m > 1 else ''}{how}."
    alarm = "this is not a" if violated == 1 else f"none of the {violated} is a"
    return f"With {sure} confidence {alarm} false alarm{how}."


class Expectations(NamedTuple):
    """A comparison of the verdicts with those that the spec expects."""

    sentence: str
    met: bool
    surprises: str | None  # the number of violations in cells without an expectation


def expectations(record: Record) -> Expectations | None:
    """Count the expectations that are met; None if the spec has none."""
    cells = [cell for cell in record.cells if cell.expected is not None]
    skipped = sum(skip.expected is not None for skip in record.skipped)
    if not cells and not skipped:
        return None
    ran = [cell for cell in cells if cell.status == "ok"]
    met, count = sum(not surprising(cell) for cell in ran), len(cells) + skipped
    others = {"not met": len(ran) - met, "could not be run": len(cells) - len(ran)}
    others["skipped"] = skipped
    parts = [f"{number} {what}" for what, number in others.items() if number]
    surprises = sum(surprising(c) and c.expected is None for c in record.cells)
    return Expectations(
        ", ".join([f"Expectations: {met} of {count} met", *parts]) + ".",
        met == count,
        f"{plural(surprises, 'violation')} without an expectation." if surprises else None,
    )


def unadjusted(m: int, confidence: float) -> str:
    """Warn that verdicts at this confidence do not account for the number m of claims."""
    return (
        f"Not adjusted for testing {m} claims (multiplicity = none): each verdict and each "
        f"bound holds only on its own at {percent(confidence)}. If all claims were true, on "
        f"average up to {m * (1 - confidence):.2g} would be called violated."
    )
