"""The findings of a run in sentences: the verdict first, then its limits."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dpframe.report import words
from dpframe.report.words import WORDS
from dpframe.results.verdict import exceeds, surprising

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.results.model import CellRecord, Record, SkipRecord


# What was found of queries without noise, in sentences: exact, and told apart from verdicts.


MOST = 8
"""Mechanisms that are told of; the record has all."""


def noise_too_small(cell: CellRecord) -> str:
    """The worst that a query does, in words that say that no chance is in it."""
    assert cell.exact is not None
    return f"sensitivity exceeded (exact, without draws): {cell.exact.witnesses[0].words}"


def finding(record: Record) -> str | None:
    """How many mechanisms exceed their sensitivity; None if none does."""
    checked = {cell.mechanism.label for cell in record.cells if cell.exact is not None}
    wrong = {cell.mechanism.label for cell in record.cells if exceeds(cell)}
    if not wrong:
        return None
    of = f"{len(wrong)} of {len(checked)} mechanisms" if len(checked) > 1 else "The mechanism"
    return f"{of} changes more than its noise is made for (exact, no false alarm)"


def exact_sentences(record: Record) -> Iterator[str]:
    """What queries did, a sentence for each mechanism."""
    told = dict.fromkeys(cell.mechanism.label for cell in record.cells if exceeds(cell))
    cells = {cell.mechanism.label: cell for cell in reversed(record.cells) if exceeds(cell)}
    for label in list(told)[:MOST]:
        found = cells[label].exact
        assert found is not None
        for witness in found.witnesses:
            where = f" (pair {witness.pair.use})"
            yield f"Exact: {label}: {witness.words}{where}."
        yield f"It does so on {found.exceeding} of {_pairs(found.pairs)}."
    if len(told) > MOST:
        yield f"{len(told) - MOST} more mechanisms exceed their sensitivity."
    kept = {c.mechanism.label: c for c in record.cells if c.exact is not None and not exceeds(c)}
    kept = {label: cell for label, cell in kept.items() if label not in told}
    for label, cell in list(kept.items())[:MOST]:
        assert cell.exact is not None
        if cell.exact.pairs:
            yield (
                f"The query of {label} keeps to its sensitivity on {_pairs(cell.exact.pairs)}, "
                "exactly; that says nothing of other pairs, nor of its noise."
            )


def _pairs(number: int) -> str:
    return f"{number} pair{'' if number == 1 else 's'}"


# What a cell means for a job that waits for it: passed, failed, broken, or nothing decided.
#
# The same for every report that a machine reads, and as `exit_code` has it: a job whose run gives
# 0
# has no cell that failed or broke. Nor does one pass that decided nothing.


NO_REASON = "no reason given"


class Kind(Enum):
    """What became of a cell, or of one that was skipped."""

    PASSED = "passed"
    """No violation found, or the verdict that was expected."""
    FAILED = "failed"
    """Not the verdict that was expected, or violated."""
    BROKEN = "broken"
    """It could not be run."""
    UNDECIDED = "undecided"
    """Nothing was tested, or nothing could be decided, and nothing was expected."""


class Outcome(NamedTuple):
    """What became of a cell, and the sentence that says so."""

    kind: Kind
    message: str


def outcome(cell: CellRecord) -> Outcome:
    """What became of a cell that was planned."""
    if cell.status == "failed":
        return Outcome(Kind.BROKEN, f"could not be run: {cell.reason or NO_REASON}")
    found = _found(cell)
    if surprising(cell):
        wanted = f"expected {WORDS[cell.expected]}, found: " if cell.expected else ""
        return Outcome(Kind.FAILED, f"{wanted}{found}")
    if cell.expected is not None:
        return Outcome(Kind.PASSED, f"as expected: {found}")
    decided = cell.verdict == "consistent"
    return Outcome(Kind.PASSED if decided else Kind.UNDECIDED, found)


def skipped(skip: SkipRecord) -> Outcome:
    """What became of a combination that was left out."""
    text = f"skipped: {skip.reason or NO_REASON}"
    if skip.expected is None:
        return Outcome(Kind.UNDECIDED, text)
    return Outcome(Kind.FAILED, f"expected {WORDS[skip.expected]}, but {text}")


def _found(cell: CellRecord) -> str:
    """The verdict and why, each word of it once."""
    if exceeds(cell):
        return f"{noise_too_small(cell)}; by its draws: {_by_draws(cell)}"
    return _by_draws(cell)


def _by_draws(cell: CellRecord) -> str:
    word, reason = WORDS[cell.verdict], cell.reason or ""
    if cell.verdict is None:
        bound = cell.estimate is not None and cell.estimate.certified
        why = "nothing is claimed" if bound else "an estimate, not a bound"
        return f"{word}: {why}"
    if reason.startswith(word):
        return reason
    return f"{word}: {reason}" if reason else word


# What a run found, in sentences: the verdict first, then what it does not say.


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
    if (exactly := finding(record)) is not None:
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
    yield from exact_sentences(record)
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


# What a run did not try: so that nobody takes "no violation found" for more than it is.


MOST_UNTRIED = 8
"""Names or reasons that a sentence lists."""


def untried(record: Record) -> Iterator[str]:
    """The limits of an audit, a sentence each, from its record."""
    cells = record.cells
    searched = [cell.search for cell in cells if cell.search is not None]
    if searched:
        names = listed(search.neighbourhood.label for search in searched)
        most = plural(max(search.pairs for search in searched), "pair")
        yield (
            f"Up to {most} of neighbouring datasets searched for each mechanism ({names}), and a "
            "claim is about all of them: another may show more."
        )
    fixed = [cell.pair for cell in cells if cell.search is None]
    pairs = {(pair.use, words.setting(list(pair.params.items()))) for pair in fixed}
    if pairs:
        names = listed(use for use, _ in sorted(pairs))
        tried = "One pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        yield (
            f"{tried} of neighbouring datasets tried ({names}), and a claim is about all of them: "
            "another may show more."
        )
    if cells:
        labels = [cell.search.attacks if cell.search else [cell.attack.label] for cell in cells]
        attacks = listed(label for of_cell in labels for label in of_cell)
        yield f"Attacks: {attacks}. A stronger one may show more."
    amounts = {max(cell.trials) for cell in cells} - {0}
    if amounts:
        most = words.quantity(max(amounts))
        yield f"At most {most} draws from each dataset. More of them certify more of what is there."
    chosen = sum(_chosen(cell.estimate) for cell in cells)
    if chosen:
        yield (
            f"{plural(chosen, 'cell')} looked only at thresholds that the spec or a pilot chose. "
            "Others may show more."
        )
    failed = sum(cell.status == "failed" for cell in cells)
    if failed:
        yield f"{plural(failed, 'cell')} could not be run: nothing is known of them."
    undecided = sum(cell.verdict == "inconclusive" for cell in cells)
    if undecided:
        yield f"{plural(undecided, 'cell')} could not have decided either way: inconclusive."
    if record.skipped:
        reasons = Counter(skip.reason for skip in record.skipped)
        text = "; ".join(
            f"{reason} ({number})" for reason, number in reasons.most_common(MOST_UNTRIED)
        )
        more = (
            f"; and {len(reasons) - MOST_UNTRIED} more reasons"
            if len(reasons) > MOST_UNTRIED
            else ""
        )
        yield f"{plural(len(record.skipped), 'combination')} skipped: {text}{more}."


def listed(names: Iterable[str]) -> str:
    """Different names in the order in which they come, some of them if they are many."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - MOST_UNTRIED} more" if len(unique) > MOST_UNTRIED else ""
    return ", ".join(unique[:MOST_UNTRIED]) + more


def _chosen(estimate: object) -> bool:
    return getattr(estimate, "epsilon_upper_of", None) == "chosen thresholds"
