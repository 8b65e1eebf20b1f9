"""What was found of queries without noise, in sentences: exact, and told apart from verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.record.verdict import exceeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import CellRecord, Record

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
