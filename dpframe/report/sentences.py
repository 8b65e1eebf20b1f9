"""What a run found, in sentences: the verdict first, then what it does not say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dpframe.record.verdict import surprising
from dpframe.report import exact, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import CellRecord, Record

PROCEDURES = {"holm": "Holm", "bonferroni": "Bonferroni"}


class Verdict(NamedTuple):
    """The verdict on a whole audit, one sentence in two parts."""

    finding: str
    """How many claims are violated."""
    rest: str
    """What became of the others, how sure that is, and what it took; ends the sentence."""
    grave: bool
    """Whether any claim is violated."""

    def __str__(self) -> str:
        return self.finding + self.rest


def verdict(record: Record) -> Verdict:
    """The one sentence that a report begins with."""
    m, verdicts = record.summary.m, Counter[str | None](c.verdict for c in record.cells)
    rest = f"{_rest(record, verdicts)}{_cost(record)}."
    found = _finding(m, verdicts)
    if (exactly := exact.finding(record)) is not None:
        found = f"{exactly}; {found[:1].lower()}{found[1:]}"
    return Verdict(found, rest, verdicts["violated"] > 0 or exactly is not None)


def _finding(m: int, verdicts: Counter[str | None]) -> str:
    """What was found. "0 violated" would say of all claims that they hold."""
    if not m:
        return "No claim tested"
    if violated := verdicts["violated"]:
        return f"{violated} of {plural(m, 'claim')} violated"
    return "No violation found" if verdicts["consistent"] else "Nothing decided"


def caveats(record: Record) -> Iterator[str]:
    """What the verdict means and what it does not say, a sentence each."""
    cells, m, confidence = record.cells, record.summary.m, record.audit.confidence
    yield from exact.exact_sentences(record)
    yield from _witnesses(record)
    if any(cell.verdict == "consistent" for cell in cells):
        yield (
            "No violation found means that this attack, at this number of draws, certifies no more "
            "loss than claimed; a stronger attack may."
        )
    levels = {c.estimate.confidence for c in cells if c.estimate and c.estimate.certified}
    if m and (adjusted(record) or m == 1) and levels:
        each = " or ".join(sorted(words.percent(level) for level in levels))
        together = f"All certified bounds hold together with {words.percent(confidence)} confidence"
        yield f"{together}, because each holds with {each}." if m > 1 else f"{together}."
    if (looks := record.audit.looks) > 1:
        yield (
            f"This is look {looks} at the same draws, and pays for it. What all looks said holds "
            f"together with {words.percent(1 - 1.5 * (1 - confidence))} confidence."
        )
    silent = [cell for cell in cells if cell.status == "ok" and cell.verdict is None]
    unclaimed = sum(_certified(cell) for cell in silent)
    if estimates := len(silent) - unclaimed:
        yield f"{plural(estimates, 'cell')} without a verdict: an estimate, not a bound."
    if unclaimed:
        yield f"{plural(unclaimed, 'cell')} without a verdict: nothing is claimed."


MOST_WITNESSES = 8
"""That are told in words; the record has all."""


def _witnesses(record: Record) -> Iterator[str]:
    """What searches hold against the claims that they refute."""
    violated = [c for c in record.cells if c.search is not None and c.verdict == "violated"]
    for cell in violated[:MOST_WITNESSES]:
        found = cell.search
        assert found is not None
        shares = [
            f"{words.quantity(hits)} of {words.quantity(trials)} on {name}"
            for hits, trials, name in zip(found.hits, found.trials, ("D", "D′"), strict=True)
        ]
        yield f"Witness against {cell.mechanism.label}: {found.event}, {', '.join(shares)}."
    if len(violated) > MOST_WITNESSES:
        yield f"There are {len(violated) - MOST_WITNESSES} more witnesses."
    if violated:
        yield "The option --witness of dpframe show prints pair and attack as a spec of its own."


def unadjusted(m: int, confidence: float) -> str:
    """The warning that verdicts do not account for their number.

    Args:
        m: number of claims tested.
        confidence: of each verdict alone.
    """
    return (
        f"Not adjusted for testing {m} claims (multiplicity = none): every verdict and every "
        f"bound holds alone at {words.percent(confidence)}, not together. Were all "
        f"claims true, on average up to {m * (1 - confidence):.2g} would be called violated."
    )


def warning(record: Record) -> str | None:
    """The same of a record; None if its verdicts do account for their number."""
    m = record.summary.m
    return None if m <= 1 or adjusted(record) else unadjusted(m, record.audit.confidence)


class Expectations(NamedTuple):
    """How the verdicts compare with those that the spec expects."""

    sentence: str
    met: bool
    surprises: str | None
    """What is violated although nothing was expected of it."""


def expectations(record: Record) -> Expectations | None:
    """What became of the expectations; None if the spec has none."""
    with_rule = [cell for cell in record.cells if cell.expected is not None]
    skipped = sum(skip.expected is not None for skip in record.skipped)
    if not with_rule and not skipped:
        return None
    ran = [cell for cell in with_rule if cell.status == "ok"]
    met, count = sum(not surprising(cell) for cell in ran), len(with_rule) + skipped
    parts = [f"Expectations: {met} of {count} met"]
    if wrong := len(ran) - met:
        parts.append(f"{wrong} not met")
    if lost := len(with_rule) - len(ran):
        parts.append(f"{lost} could not be run")
    if skipped:
        parts.append(f"{skipped} skipped")
    surprises = sum(surprising(c) and c.expected is None for c in record.cells)
    return Expectations(
        ", ".join(parts) + ".",
        met == count,
        f"{plural(surprises, 'violation')} without an expectation." if surprises else None,
    )


def adjusted(record: Record) -> bool:
    """Whether verdicts account for the number of claims tested."""
    return record.audit.multiplicity != "none"


def plural(count: int, noun: str) -> str:
    """A number of things: 1 cell, 2 cells."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _certified(cell: CellRecord) -> bool:
    return cell.estimate is not None and cell.estimate.certified


def _rest(record: Record, verdicts: Counter[str | None]) -> str:
    """What became of the other claims, and how sure all of it is."""
    m = record.summary.m
    if not m:
        return ""
    violated, consistent = verdicts["violated"], verdicts["consistent"]
    open_ = verdicts["inconclusive"]
    missing = m - violated - consistent - open_
    left = [f"{open_} inconclusive"] * (open_ > 0) + [f"{missing} not tested"] * (missing > 0)
    if violated:
        others = "the other " if violated + consistent == m else ""
        shown = [f"no violation found for {others}{consistent}"] * (consistent > 0) + left
        text = "".join(f", {part}" for part in shown)
    elif consistent:
        of = (
            f"{consistent} of {m} claims"
            if left
            else "the claim"
            if m == 1
            else f"any of {m} claims"
        )
        text = "".join([f" for {of}", *(f", {part}" for part in left)])
    else:
        text = f" of {plural(m, 'claim')}: {', '.join(left)}"
    return text + (_confidence(record, violated) if missing < m else "")


def _confidence(record: Record, violated: int) -> str:
    m, multiplicity = record.summary.m, record.audit.multiplicity
    sure = words.percent(record.audit.confidence)
    if m > 1 and not adjusted(record):
        return f" (each at {sure} alone, NOT adjusted for {m} claims)"
    how = f" ({PROCEDURES.get(multiplicity, multiplicity)} over {m} claims)" if m > 1 else ""
    if not violated:
        return f", tested at {sure} confidence{' for all together' if m > 1 else ''}{how}"
    alarm = "that it is no" if violated == 1 else f"that none of the {violated} is a"
    return f"; with {sure} confidence {alarm} false alarm{how}"


def _cost(record: Record) -> str:
    summary = record.summary
    draws = f", from {words.quantity(summary.draws)} draws" if summary.draws else ""
    return f"{draws} in {words.duration(summary.seconds)}"
