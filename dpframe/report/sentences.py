"""The findings of a run and their limits, in sentences."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from dpframe.report import group, words
from dpframe.report.group import cell_name, repeated
from dpframe.report.witness import event_in_words, needs, noise_too_small, with_finding
from dpframe.report.words import WORDS, plural
from dpframe.results.model import CellRecord, Record, SkipRecord
from dpframe.results.verdict import covered, exceeds, surprising

MOST = 8  # mechanisms, witnesses, names or reasons that a report lists; the record has all
LONGEST = 120  # characters of a dataset in a sentence
NO_REASON = "no reason given"
PROCEDURES = {"holm": "Holm", "bonferroni": "Bonferroni"}


# The verdict on a whole audit.


class Verdict(NamedTuple):
    """The verdict on a whole audit, one sentence in two parts."""

    finding: str  # the number of violated claims
    others: str  # the result of the other claims
    rest: str  # the confidence and the cost; ends the sentence
    grave: bool  # true if any claim is violated

    def __str__(self) -> str:
        return self.finding + self.others + self.rest


def verdict(record: Record) -> Verdict:
    """Return the sentence that a report begins with."""
    m, verdicts = record.summary.m, Counter[str | None](c.verdict for c in record.cells)
    summary = record.summary
    draws = f", from {words.quantity(summary.draws)} draws" if summary.draws else ""
    others, sure = _others(record, verdicts)
    rest = f"{sure}{draws} in {words.duration(summary.seconds)}."
    if not m:
        finding = "No claim tested"
    elif violated := verdicts["violated"]:
        finding = f"{violated} of {plural(m, 'claim')} violated"
    else:  # "0 violated" would imply that all claims hold
        finding = "No violation found" if verdicts["consistent"] else "Nothing decided"
    finding += raised(record)
    if exact := _exact_finding(record):
        finding = f"{exact}; {finding[:1].lower()}{finding[1:]}"
    return Verdict(finding, others, rest, verdicts["violated"] > 0 or exact is not None)


def worst(record: Record) -> str | None:
    """Name the worst cell of an audit and say what was certified there; None if nothing was."""
    cell = group.worst(record.cells)
    found = None if cell is None else group.weight(cell)
    if cell is None or (found is not None and found.lower <= 0):
        return None
    if len(record.cells) == 1:
        return f"{cell.mechanism.label}: {group.measure(cell)}"
    naming = group.telling(group.groups(record.cells))
    labels = [group.names(cell)[part] for part in naming]
    where = group.place(cell, repeated=group.repeated(record.cells))
    return f"{' · '.join(filter(None, [*labels, where]))}: {group.measure(cell)}"


def common(record: Record) -> str:
    """Name the attack and the estimator, each only if all cells share it."""
    found = group.groups(record.cells)
    naming = group.telling(found)
    return " · ".join(found[0].names[part] for part in (1, 2) if found and part not in naming)


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


def _exact_finding(record: Record) -> str | None:
    """Count the mechanisms that exceed their sensitivity; None if none does."""
    checked = {cell.mechanism.label for cell in record.cells if cell.exact is not None}
    wrong = {cell.mechanism.label for cell in record.cells if exceeds(cell)}
    if not wrong:
        return None
    of = f"{len(wrong)} of {len(checked)} mechanisms" if len(checked) > 1 else "The mechanism"
    return f"{of} changes by more than its noise is scaled for (exact, no false alarm)"


def _others(record: Record, verdicts: Counter[str | None]) -> tuple[str, str]:
    """State the result of the claims that are not violated, and the confidence of all results."""
    m = record.summary.m
    if not m:
        return "", ""
    violated, consistent = verdicts["violated"], verdicts["consistent"]
    open_ = verdicts["inconclusive"]
    missing = m - violated - consistent - open_
    left = [f"{open_} inconclusive"] * (open_ > 0) + [f"{missing} not tested"] * (missing > 0)
    if violated:
        other = "one" if consistent == 1 else consistent
        others = f"the other {other}" if violated + consistent == m else consistent
        shown = [f"no violation found for {others}"] * (consistent > 0) + left
        text = "".join(f", {part}" for part in shown)
    elif consistent:
        every = "the claim" if m == 1 else f"any of {m} claims"
        text = " for " + ", ".join([f"{consistent} of {m} claims" if left else every, *left])
    else:
        text = f" of {plural(m, 'claim')}: {', '.join(left)}"
    return text, _confidence(record, violated) if missing < m else ""


def _confidence(record: Record, violated: int) -> str:
    m, multiplicity = record.summary.m, record.audit.multiplicity
    sure = words.percent(record.audit.confidence)
    if m > 1 and not _is_adjusted(record):
        return f" (each at {sure} alone, NOT adjusted for {m} claims)"
    how = f" ({PROCEDURES.get(multiplicity, multiplicity)} over {m} claims)" if m > 1 else ""
    if not violated:
        return f", tested at {sure} confidence{' for all together' if m > 1 else ''}{how}"
    alarm = "that it is not a" if violated == 1 else f"that none of the {violated} is a"
    return f"; with {sure} confidence {alarm} false alarm{how}"


def _is_adjusted(record: Record) -> bool:
    """True if verdicts account for the number of claims tested."""
    return record.audit.multiplicity != "none"


# The limits of the verdict.

POWER = 0.8  # the probability of detection in the command that a report names


def caveats(record: Record) -> Iterator[str]:
    """Explain the verdict and its limits, a sentence each."""
    cells, m, confidence = record.cells, record.summary.m, record.audit.confidence
    yield from _exact_sentences(record)
    yield from _witnesses(record)
    if any(cell.verdict == "consistent" for cell in cells):
        known = any(cell.power for cell in cells)
        yield (
            "No violation found means that this attack, at this number of draws, certifies no more "
            f"loss than claimed; a stronger attack may.{'' if known else _power_command(record)}"
        )
    searched = [(cell, covered(cell)) for cell in cells if cell.verdict == "consistent"]
    for cell, told in [one for one in searched if one[1]][:MOST]:
        yield f"The search of {cell.mechanism.label} was {told}."
    levels = {c.estimate.confidence for c in cells if c.estimate and c.estimate.certified}
    if m and (_is_adjusted(record) or m == 1) and levels:
        each = " or ".join(sorted(words.percent(level) for level in levels))
        together = f"All certified bounds hold together with {words.percent(confidence)} confidence"
        yield f"{together}, because each holds with {each}." if m > 1 else f"{together}."
    if (looks := record.audit.looks) > 1:
        yield (
            f"This is look {looks} at the same draws, with a correspondingly smaller error. The "
            f"results of all looks hold together with {words.percent(1 - 1.5 * (1 - confidence))} "
            "confidence."
        )
    silent = [cell for cell in cells if cell.status == "ok" and cell.verdict is None]
    unclaimed = sum(cell.estimate is not None and cell.estimate.certified for cell in silent)
    if estimates := len(silent) - unclaimed:
        yield f"{plural(estimates, 'cell')} without a verdict: an estimate, not a bound."
    if unclaimed:
        yield f"{plural(unclaimed, 'cell')} without a verdict: nothing is claimed."


def _power_command(record: Record) -> str:
    """Name the command that prints the power of a run; "" if its spec was not a file."""
    # With "=", because pages put a space that does not break before numbers.
    if not record.spec.path:
        return ""
    changes = (word for text in record.spec.overrides for word in ("--set", text))
    words = ["dpframe", "plan", record.spec.path, *changes, f"--power={POWER:g}"]
    return f" Its power: {shlex.join(words)}"


def _exact_sentences(record: Record) -> Iterator[str]:
    """Describe the exact comparison of the query in the first cell of each mechanism."""
    wrong: dict[str, CellRecord] = {}
    kept: dict[str, CellRecord] = {}
    for cell in record.cells:
        if exceeds(cell):
            wrong.setdefault(cell.mechanism.label, cell)
        elif cell.exact is not None:
            kept[cell.mechanism.label] = cell
    for label, cell in list(wrong.items())[:MOST]:
        found = cell.exact
        assert found is not None
        for witness in found.witnesses:
            yield f"Exact: {label}: {witness.words} (pair {witness.pair.use})."
            yield from needs(cell, record, witness.pair)
        yield f"It does so on {found.exceeding} of {plural(found.pairs, 'pair')}."
    if len(wrong) > MOST:
        yield f"{len(wrong) - MOST} more mechanisms exceed their sensitivity."
    for label, cell in [item for item in kept.items() if item[0] not in wrong][:MOST]:
        if cell.exact and cell.exact.pairs:
            yield (
                f"The query of {label} keeps to its sensitivity on "
                f"{plural(cell.exact.pairs, 'pair')}, exactly; this says nothing about other "
                "pairs or about its noise."
            )


def _witnesses(record: Record) -> Iterator[str]:
    """Describe the events by which searches refute claims, and that of the worst fixed pair."""
    told = [cell for cell in record.cells if cell.event is not None and cell.verdict == "violated"]
    if (worst := group.worst(told)) is not None and worst.event is not None:
        place = " at ".join(filter(None, (worst.mechanism.label, group.place(worst))))
        yield from event_in_words(f"Event against {place}", worst.event)
    violated = [c for c in record.cells if c.search is not None and c.verdict == "violated"]
    for cell in violated[:MOST]:
        found = cell.search
        assert found is not None
        for number in range(1, 2 + len(found.findings)):
            one = with_finding(cell, number)
            yield from _witness(one, number if found.findings else 0)
            yield from needs(one, record)
        if found.ignored:
            yield f"Ignored as known: {_some(found.ignored)}."
    if len(violated) > MOST:
        yield f"There are {len(violated) - MOST} more witnesses."
    if violated:
        yield "dpframe show --witness prints this pair and attack as a spec."
        yield "dpframe show --next prints a search for other leaks."


def _witness(cell: CellRecord, number: int) -> Iterator[str]:
    found = cell.search
    assert found is not None
    at = found.parameters.items() if number <= 1 else ()
    which = f"Witness {number}" if number else "Witness"
    settings = [f"at {key} = {words.setting(value)}" for key, value in at]
    yield from event_in_words(f"{which} against {cell.mechanism.label}", found, settings)
    given = cell.pair.params
    if told := given.get("description"):
        yield f"Its datasets: {told}."
    elif {"d0", "d1"} <= given.keys():
        yield f"Its datasets: D = {_dataset(given['d0'])}; D′ = {_dataset(given['d1'])}."


def _dataset(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def warning(record: Record) -> str | None:
    """Return the warning that verdicts are not adjusted; None if they are."""
    m = record.summary.m
    return None if m < 2 or _is_adjusted(record) else unadjusted(m, record.audit.confidence)


def unadjusted(m: int, confidence: float) -> str:
    """Warn that verdicts at this confidence do not account for the number m of claims."""
    return (
        f"Not adjusted for testing {m} claims (multiplicity = none): each verdict and each "
        f"bound holds only on its own at {words.percent(confidence)}. If all claims were true, on "
        f"average up to {m * (1 - confidence):.2g} would be called violated."
    )


class Expectations(NamedTuple):
    """A comparison of the verdicts with those that the spec expects."""

    sentence: str
    met: bool
    surprises: str | None  # the number of violations in cells without an expectation


def expectations(record: Record) -> Expectations | None:
    """Count the expectations that are met; None if the spec has none."""
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


# The outcome of each cell for a CI job.


class OutcomeKind(Enum):
    """The outcome of a cell, or of a combination that was skipped.

    A job whose run exits with 0 has no cell that failed or broke (`results.verdict.exit_code`).
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


def outcomes(record: Record) -> Iterator[tuple[CellRecord | SkipRecord, str, CellOutcome]]:
    """Return every cell and every skipped combination with its name and outcome."""
    several = repeated(record.cells)
    for cell in record.cells:
        yield cell, cell_name(cell, repeated=several), outcome(cell)
    for skip in record.skipped:
        yield skip, cell_name(skip), outcome(skip)


def outcome(cell: CellRecord | SkipRecord) -> CellOutcome:
    """Return the outcome of a cell, or of a combination that was skipped."""
    if isinstance(cell, SkipRecord):
        text = f"skipped: {cell.reason or NO_REASON}"
        if cell.expected is None:
            return CellOutcome(OutcomeKind.UNDECIDED, text)
        return CellOutcome(OutcomeKind.FAILED, f"expected {WORDS[cell.expected]}, but {text}")
    if cell.status == "failed":
        return CellOutcome(OutcomeKind.BROKEN, f"could not be run: {cell.reason or NO_REASON}")
    found = _by_draws(cell)
    if exceeds(cell):
        found = f"{noise_too_small(cell)}; by its draws: {found}"
    if surprising(cell):
        wanted = f"expected {WORDS[cell.expected]}, found: " if cell.expected else ""
        return CellOutcome(OutcomeKind.FAILED, f"{wanted}{found}")
    if cell.expected is not None:
        return CellOutcome(OutcomeKind.PASSED, f"as expected: {found}")
    decided = cell.verdict == "consistent"
    return CellOutcome(OutcomeKind.PASSED if decided else OutcomeKind.UNDECIDED, found)


def _by_draws(cell: CellRecord) -> str:
    """State the verdict and its reason, which may begin with the verdict itself."""
    word, reason = WORDS[cell.verdict], cell.reason or ""
    if cell.verdict is None:
        bound = cell.estimate is not None and cell.estimate.certified
        return f"{word}: {'nothing is claimed' if bound else 'an estimate, not a bound'}"
    if reason.startswith(word):
        return reason
    return f"{word}: {reason}" if reason else word


# The limits of an audit, so that "no violation found" is not read as "private".


def untried(record: Record) -> Iterator[str]:
    """List what an audit did not try, a sentence each."""
    cells = record.cells
    about = "and the claim covers all of them: another may show more."
    if searched := [cell.search for cell in cells if cell.search is not None]:
        names = _some(search.neighbourhood.label for search in searched)
        most = plural(max(search.pairs for search in searched), "pair")
        yield (
            f"Up to {most} of neighbouring datasets searched for each mechanism ({names}), {about}"
        )
    fixed = [cell.pair for cell in cells if cell.search is None]
    if pairs := {(pair.use, words.setting(list(pair.params.items()))) for pair in fixed}:
        names = _some(use for use, _ in sorted(pairs))
        tried = "One pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        yield f"{tried} of neighbouring datasets tried ({names}), {about}"
    if cells:
        labels = [cell.search.attacks if cell.search else [cell.attack.label] for cell in cells]
        attacks = _some(label for of_cell in labels for label in of_cell)
        yield f"Attacks: {attacks}. A stronger one may show more."
    if amounts := {max(cell.trials) for cell in cells} - {0}:
        most = words.quantity(max(amounts))
        yield f"At most {most} draws from each dataset. More draws certify more of the loss."
    chosen = sum(
        cell.estimate is not None and cell.estimate.epsilon_upper_of == "chosen thresholds"
        for cell in cells
    )
    if chosen:
        yield (
            f"{plural(chosen, 'cell')} looked only at thresholds that the spec or a pilot chose. "
            "Others may show more."
        )
    if failed := sum(cell.status == "failed" for cell in cells):
        yield f"{plural(failed, 'cell')} could not be run: nothing is known about them."
    if undecided := sum(cell.verdict == "inconclusive" for cell in cells):
        yield f"{plural(undecided, 'cell')} could not have decided either way: inconclusive."
    if record.skipped:
        reasons = Counter(skip.reason for skip in record.skipped)
        text = "; ".join(f"{reason} ({number})" for reason, number in reasons.most_common(MOST))
        rest = len(reasons) - MOST
        more = f"; and {rest} more reasons" if rest > 0 else ""
        yield f"{plural(len(record.skipped), 'combination')} skipped: {text}{more}."


def _some(names: Iterable[str]) -> str:
    """List different names in their order; if there are many, the first of them."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - MOST} more" if len(unique) > MOST else ""
    return ", ".join(unique[:MOST]) + more
