"""What is known of single records: most tables of a search share them, so each is asked once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpframe.builtin.neighbourhoods._bench import Bench, Draft
    from dpframe.builtin.pairs._table import Row, Rows

TYPED = ("array", "integers", "arrays", "frame", "xy")
"""Forms in which a column has a type: what is missing is NaN, and whatever counts is a float."""


class Memo:
    """Looks at drafts, record by record.

    Args:
        bench: says what fits, and in which form mechanisms get it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench, self._typed = bench, bench.form in TYPED
        self._known: dict[int, tuple[Row, str, bool]] = {}
        """By identity; the record is kept, so that no other one comes to have its place."""

    def key(self, draft: Draft, new: Rows) -> frozenset[bytes]:
        """What tells a draft from others, whichever of its tables is D.

        Args:
            draft: the table and its edit.
            new: the records of D′.
        """
        return frozenset({self._digest(draft.rows), self._digest(new)})

    def fits(self, draft: Draft, new: Rows) -> bool:
        """Whether a draft may be proposed, args as of `key`."""
        return self._bench.allows(draft, new) and all(
            self._of(row)[2] for rows in (draft.rows, new) for row in rows
        )

    def _digest(self, rows: Rows) -> bytes:
        text = "\n".join([self._of(row)[1] for row in rows])
        return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()

    def _of(self, row: Row) -> tuple[Row, str, bool]:
        found = self._known.get(id(row))
        if found is None:
            text = repr([_held(cell) for cell in row] if self._typed else row)
            found = self._known[id(row)] = row, text, self._bench.takes(row)
        return found


def _held(cell: Any) -> Any:
    if cell is None:
        return float("nan")
    return float(cell) if isinstance(cell, int) else cell
