"""What a run did not try: so that nobody takes "no violation found" for more than it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dpframe.report import words
from dpframe.report.sentences import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.record.model import Record

MOST = 8
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
        text = "; ".join(f"{reason} ({number})" for reason, number in reasons.most_common(MOST))
        more = f"; and {len(reasons) - MOST} more reasons" if len(reasons) > MOST else ""
        yield f"{plural(len(record.skipped), 'combination')} skipped: {text}{more}."


def listed(names: Iterable[str]) -> str:
    """Different names in the order in which they come, some of them if they are many."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - MOST} more" if len(unique) > MOST else ""
    return ", ".join(unique[:MOST]) + more


def _chosen(estimate: object) -> bool:
    return getattr(estimate, "epsilon_upper_of", None) == "chosen thresholds"
