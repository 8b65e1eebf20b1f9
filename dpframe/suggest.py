"""What a user probably meant, and what there is to choose from."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 100
"""Nobody mistypes a longer name; comparing two of them would take long."""

MOST = 40
"""Names that a message lists."""


def did_you_mean(known: Iterable[str], wrong: object) -> str:
    """`; did you mean 'x'?`, or nothing.

    Args:
        known: what there is.
        wrong: what was written; `dim` may be meant for `pair.dim`.
    """
    close = closest(known, wrong)
    return f"; did you mean {close!r}?" if close else ""


def closest(known: Iterable[str], wrong: object) -> str | None:
    """The name that looks most like what was written, if one does."""
    if not isinstance(wrong, str) or len(wrong) > LONGEST:
        return None
    by_lower_case = {name.lower(): name for name in known if len(name) <= LONGEST}
    by_last_part = {name.rpartition(".")[2]: full for name, full in by_lower_case.items()}
    forms = by_last_part | by_lower_case
    close = difflib.get_close_matches(wrong.lower(), forms, n=1)
    return forms[close[0]] if close else None


def listed(names: Iterable[str]) -> str:
    """Names with commas, the first of them if there are many."""
    every = list(names)
    more = f", … and {len(every) - MOST:,} more" if len(every) > MOST else ""
    return ", ".join(cut(name) for name in every[:MOST]) + more


def cut(text: str, longest: int = LONGEST) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
