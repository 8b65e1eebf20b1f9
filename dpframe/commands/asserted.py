"""What a test is told of its audit."""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import TYPE_CHECKING, Any

from dpframe.engine.search.needed import draws_needed
from dpframe.printable import printable
from dpframe.record.verdict import CONSISTENT, VIOLATED, exceeds
from dpframe.registry import load
from dpframe.report import words
from dpframe.report.exact import noise_too_small
from dpframe.report.witness import as_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dpframe.claims import Claim
    from dpframe.record.model import CellRecord, Record

MOST = 400
"""Characters of a dataset."""

MARGIN = 2.0
"""Of the budget that is proposed to whoever decided nothing."""


def sentence(record: Record) -> str:
    """One line about what was found."""
    (cell,) = record.cells
    runs = f"{words.quantity(cell.draws)} runs in {words.duration(record.summary.seconds)}"
    if cell.search is not None and cell.search.pairs > 1:
        runs += f", on {cell.search.pairs} pairs"
    if exceeds(cell):
        return f"{_claim(cell)}: the query changes more than its noise is made for, exactly"
    if cell.verdict == VIOLATED:
        return f"{_claim(cell)} violated, after {runs}"
    if cell.verdict == CONSISTENT:
        return f"no violation of {_claim(cell)} found in {runs}"
    return f"{_claim(cell)} not decided, after {runs}"


def failure(record: Record, path: Path, aside: str | None = None) -> str:
    """Claim, bound, witness, and how to see it again.

    Args:
        record: of the audit.
        path: of its file.
        aside: a remark on how it was run.
    """
    (cell,) = record.cells
    label = cell.mechanism.label
    lines = [f"{label} violates its claim, {_claim(cell)}"]
    if exceeds(cell):
        if cell.verdict != VIOLATED:
            lines = [f"{label} has less noise than its query needs, at a claim of {_claim(cell)}"]
        lines.append(f"  {noise_too_small(cell)}")
    if cell.estimate is not None:
        sure = words.percent(record.audit.confidence)
        found = "bound" if cell.verdict == VIOLATED else "draws"
        lines.append(f"  {found}: {cell.reason}; confidence {sure}")
    if cell.search is not None:
        on = [
            f"{hits:,} of {trials:,} on {name}"
            for hits, trials, name in zip(
                cell.search.hits, cell.search.trials, ("D", "D′"), strict=True
            )
        ]
        lines.append(f"  witness: {cell.search.event}: {', '.join(on)}")
    lines += _data(cell)
    lines.append(f"  runs: {cell.draws:,} in {words.duration(record.summary.seconds)}")
    return "\n".join([*lines, *_where(path, aside)])


def undecided(
    record: Record, path: Path, claim: Claim, seconds: float, aside: str | None = None
) -> str:
    """Why nothing was decided, and what would do.

    Args:
        record: of the audit.
        path: of its file.
        claim: that was to be tested.
        seconds: that it was given.
        aside: a remark on how it was run.
    """
    (cell,) = record.cells
    if cell.status == "failed":
        lines = [f"{cell.mechanism.label} could not be audited: {cell.reason}"]
    else:
        lines = [
            f"nothing was decided about {cell.mechanism.label}: {_claim(cell)} could not have been "
            f"refuted by {words.quantity(cell.draws)} runs",
            f"  why: {cell.reason}",
            f"  what would do: {_enough(record, claim, seconds)}",
        ]
    return "\n".join([*lines, *_where(path, aside)])


def _data(cell: CellRecord) -> Iterator[str]:
    """D and D′ of what was found, where a search found them; what a spec could name."""
    tables = as_tables(cell)["pair"]
    entry = load().get("pair", tables["use"])
    if entry is None:  # the test's own pair: whoever wrote it knows it
        return
    with contextlib.suppress(Exception):  # a file that is gone, a plugin of somebody else
        pair: Any = entry.cls.from_params(tables["params"])
        data = [" ".join(repr(one).split()) for one in (pair.d0, pair.d1)]
        if told := getattr(pair, "description", ""):
            yield f"  pair: {told}"
        yield from (f"  {name}: {_short(one)}" for name, one in zip(("D", "D′"), data, strict=True))


def _short(text: str) -> str:
    return printable(text if len(text) <= MOST else f"{text[:MOST]}…")


def _where(path: Path, aside: str | None) -> Iterator[str]:
    if aside is not None:
        yield f"  note: {aside}"
    yield f"  record: dpframe show {shlex.quote(str(path.parent))}"
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        yield f"  again: pytest {shlex.quote(test)}"


def _claim(cell: CellRecord) -> str:
    claim = cell.claim
    if claim is None:
        return "the claim"
    at = f", δ = {claim.delta:g}" if claim.delta else ""
    return f"ε = {words.brief(claim.epsilon)}{at}"


def _enough(record: Record, claim: Claim, seconds: float) -> str:
    """The budget after which the most extreme answers would have refuted the claim, about."""
    (cell,) = record.cells
    needed = draws_needed(claim, 1 - record.audit.confidence)
    if needed is None:
        return "no number of runs"
    runs = MARGIN * needed
    text = f"about {words.quantity(2 * runs)} runs"
    if not cell.trials[0]:
        return text
    longer = max(seconds, seconds * runs / cell.trials[0])
    return f"{text}; at this speed, seconds = {longer:.3g}"
