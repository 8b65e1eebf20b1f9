"""The last lines of a report: what was found, how sure that is, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report import words
from dpframe.report.terminal.ink import STYLE, Ink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from dpframe.record.model import CellRecord, Record, SummaryRecord
    from dpframe.report.terminal.settings import Settings

PROCEDURES = {"holm": "Holm", "bonferroni": "Bonferroni"}


def summary_lines(record: Record, settings: Settings, ink: Ink) -> Iterator[Text]:
    """The sentence, then what it does not say, then the expectations."""
    summary, cells = record.summary, record.cells
    m = summary.m
    verdicts = {
        name: sum(cell.verdict == name for cell in cells)
        for name in ("violated", "consistent", "inconclusive")
    }
    grave = verdicts["violated"] > 0
    sentence = ink.text("")
    sentence.append(ink.plain(_finding(verdicts, m)), STYLE["violated"] if grave else "bold")
    sentence.append(ink.plain(f"{_rest(verdicts, m, settings)}{_cost(summary)}."), "bold")
    yield sentence
    if verdicts["consistent"]:
        yield ink.text(
            "No violation found means that this attack, at this number of draws, certifies no more "
            "loss than claimed; a stronger attack may."
        )
    levels = {c.estimate.confidence for c in cells if c.estimate and c.estimate.certified}
    if m and (settings.adjusted or m == 1) and levels:
        each = " or ".join(sorted(words.percent(level) for level in levels))
        yield ink.text(
            f"All certified bounds hold together with {words.percent(settings.confidence)} "
            + (f"confidence, because each holds with {each}." if m > 1 else "confidence.")
        )
    looks = record.audit.looks
    if looks > 1:
        yield ink.text(
            f"This is look {looks} at the same draws, and pays for it. What all looks said holds "
            f"together with {words.percent(1 - 1.5 * (1 - settings.confidence))} confidence."
        )
    silent = [c for c in cells if c.status == "ok" and c.verdict is None]
    unclaimed = sum(_certified(cell) for cell in silent)
    if len(silent) > unclaimed:
        yield ink.text(
            f"{_plural(len(silent) - unclaimed, 'cell')} without a verdict: an estimate, not a "
            "bound."
        )
    if unclaimed:
        yield ink.text(f"{_plural(unclaimed, 'cell')} without a verdict: nothing is claimed.")
    yield from _expectations(record, ink)


def _certified(cell: CellRecord) -> bool:
    return cell.estimate is not None and cell.estimate.certified


def _finding(verdicts: dict[str, int], m: int) -> str:
    return f"{verdicts['violated']} of {_plural(m, 'claim')} violated" if m else "No claim tested"


def _rest(verdicts: dict[str, int], m: int, settings: Settings) -> str:
    """What became of the other claims, and how sure all of it is."""
    if not m:
        return ""
    violated, consistent, open_ = verdicts.values()
    others = "the other " if violated and violated + consistent == m else ""
    text = f", no violation found for {others}{consistent}" if consistent else ""
    text += f", {open_} inconclusive" if open_ else ""
    missing = m - violated - consistent - open_
    text += f", {missing} not tested" if missing > 0 else ""
    return text + _confidence(violated, m, settings)


def _confidence(violated: int, m: int, settings: Settings) -> str:
    sure = words.percent(settings.confidence)
    if m > 1 and not settings.adjusted:
        return f" (each at {sure} alone, NOT adjusted for {m} claims)"
    how = PROCEDURES.get(settings.multiplicity, settings.multiplicity)
    how = f" ({how} over {m} claims)" if m > 1 else ""
    if not violated:
        return f", tested at {sure} confidence for all together{how}"
    alarm = "that it is no" if violated == 1 else f"that none of the {violated} is a"
    return f"; with {sure} confidence {alarm} false alarm{how}"


def _cost(summary: SummaryRecord) -> str:
    draws = f", from {words.quantity(summary.draws)} draws" if summary.draws else ""
    return f"{draws} in {words.duration(summary.seconds)}"


def _expectations(record: Record, ink: Ink) -> Iterator[Text]:
    with_rule = [cell for cell in record.cells if cell.expected is not None]
    skipped = sum(skip.expected is not None for skip in record.skipped)
    if not with_rule and not skipped:
        return
    ran = [cell for cell in with_rule if cell.status == "ok"]
    met, count = sum(cell.verdict == cell.expected for cell in ran), len(with_rule) + skipped
    parts = [f"Expectations: {met} of {count} met"]
    if wrong := len(ran) - met:
        parts.append(f"{wrong} not met")
    if lost := len(with_rule) - len(ran):
        parts.append(f"{lost} could not be run")
    if skipped:
        parts.append(f"{skipped} skipped")
    yield ink.text(", ".join(parts) + ".", "" if met == count else STYLE["failed"])
    surprises = sum(c.verdict == "violated" and c.expected is None for c in record.cells)
    if surprises:
        yield ink.text(f"{_plural(surprises, 'violation')} without an expectation.")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
