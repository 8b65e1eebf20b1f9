"""Compare answers with the interval of the true ε, and shrink faulty settings."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Literal

from dpframe_libraries.accountants.asking import Accountant, Answer
from dpframe_libraries.accountants.questions import AccountantQuestion, size, smaller
from dpframe_libraries.accountants.truth import Interval, intervals

Kind = Literal["below", "above", "failed", "loose"]
KINDS: dict[Kind, str] = {
    "below": "below the true ε",
    "above": "a lower bound above the true ε",
    "failed": "no number",
    "loose": "loose",
}
"""Faults of an answer, the worst first."""
SHRINKING = 30.0
"""Seconds for shrinking one finding."""
RELATIVE, ABSOLUTE = 1e-6, 1e-6
"""An answer is wrong only if it misses the interval by more, because accountants also round."""


@dataclasses.dataclass(frozen=True)
class AccountantRow:
    """The answer of one accountant at one setting: a composition and one δ."""

    question: AccountantQuestion
    accountant: Accountant
    truth: Interval
    epsilon: float | None
    """None if there is no answer."""
    failure: str = ""
    not_asked: str = ""
    kind: Kind | None = None


@dataclasses.dataclass(frozen=True)
class Fault:
    """All rows of one accountant with the same fault, and the smallest setting that shows it."""

    kind: Kind
    accountant: Accountant
    settings: int
    worst: AccountantRow
    smallest: AccountantRow


def judged(
    question: AccountantQuestion,
    accountant: Accountant,
    truths: tuple[Interval, ...],
    answer: Answer,
    loose: float,
) -> list[AccountantRow]:
    """Return a row for each δ of a question."""
    rows = []
    for i, (delta, truth) in enumerate(zip(question.deltas, truths, strict=True)):
        epsilon = answer.epsilons[i] if answer.epsilons else None
        failure = answer.failure
        if epsilon is not None and math.isnan(epsilon):
            epsilon, failure = None, "NaN"
        kind: Kind | None = "failed" if failure else None
        if epsilon is not None:
            kind = _fault(epsilon, truth, accountant.claim, loose)
        rows.append(
            AccountantRow(
                question.at(delta), accountant, truth, epsilon, failure, answer.not_asked, kind
            )
        )
    return rows


def _fault(epsilon: float, truth: Interval, claim: str, loose: float) -> Kind | None:
    if claim == "lower":
        over = truth.upper * (1 + RELATIVE) + ABSOLUTE
        return "above" if epsilon > over else None
    # The interval ends at 0; if δ is large, a negative ε can be true.
    if max(epsilon, 0.0) < truth.lower * (1 - RELATIVE) - ABSOLUTE:
        return "below"
    # A factor says nothing about losses near 0.
    return "loose" if epsilon > loose * max(truth.upper, 0.01) else None


def badness(row: AccountantRow) -> float:
    """Return the severity of a row within one kind of fault."""
    if row.epsilon is None:
        return 0.0
    if row.kind == "below":
        return row.truth.lower - max(row.epsilon, -1.0)
    return row.epsilon / max(row.truth.upper, 0.01)


def findings(
    rows: list[AccountantRow],
    ask: Callable[[Accountant, AccountantQuestion], Answer],
    loose: float,
) -> list[Fault]:
    """Group faults by accountant and kind, and shrink one of each group.

    Args:
        rows: of all settings.
        ask: asks an accountant again.
        loose: see `judged`.
    """
    groups: dict[tuple[Kind, Accountant, str], list[AccountantRow]] = {}
    for row in rows:
        if row.kind is not None:
            key = (row.kind, row.accountant, _cause(row.failure))
            groups.setdefault(key, []).append(row)
    found = []
    for (kind, accountant, _), group in groups.items():
        start = min(group, key=lambda row: size(row.question))
        found.append(
            Fault(
                kind,
                accountant,
                len(group),
                max(group, key=badness),
                shrunk(start, ask, loose),
            )
        )
    order = list(KINDS)
    return sorted(found, key=lambda one: (order.index(one.kind), str(one.accountant)))


def shrunk(
    row: AccountantRow,
    ask: Callable[[Accountant, AccountantQuestion], Answer],
    loose: float,
) -> AccountantRow:
    """Return a row with the same fault at the smallest setting found in time."""
    tried = {row.question}
    end = time.monotonic() + SHRINKING
    while True:
        for question in smaller(row.question):
            if question in tried or size(question) >= size(row.question):
                continue
            tried.add(question)
            answer = ask(row.accountant, question)
            truths = (
                (row.truth,)  # not used
                if answer.failure
                else intervals(question.steps, question.relation, question.deltas)
            )
            (other,) = judged(question, row.accountant, truths, answer, loose)
            if other.kind == row.kind and _cause(other.failure) == _cause(row.failure):
                if answer.failure:
                    truths = intervals(question.steps, question.relation, question.deltas)
                row = dataclasses.replace(other, truth=truths[0])
                break
            if time.monotonic() > end:
                return row
        else:
            return row


def _cause(failure: str) -> str:
    """Return the class of an exception, or the text of another failure without its numbers."""
    head = failure.partition(":")[0]
    return "".join(letter for letter in head if not letter.isdigit())
