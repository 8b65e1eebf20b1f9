"""What a pair is, in words that a report can say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.builtin.pairs._table import count

if TYPE_CHECKING:
    from dpframe.builtin.neighbourhoods._bench import Bench, Draft

LONGEST = 24
"""Characters of a cell."""

MOST = 3
"""Columns that are named."""


def told(bench: Bench, draft: Draft) -> str:
    """What is special about a pair, what the edit does, and to how many records.

    Args:
        bench: what the columns are called.
        draft: the pair.
    """
    size = len(draft.rows)
    of = f"of {size}"
    edit = draft.edit
    place = edit.at % len(draft.rows) if draft.rows and edit.kind != "add" else 0
    theirs = "the records of one user"
    if edit.kind == "remove":
        whose = (
            f"{theirs}, {of} records, are" if bench.user is not None else f"record {place} {of} is"
        )
        done = f"{whose} removed" if size > 1 else "the only record is removed"
    elif edit.kind == "add":
        done = f"a record is added to {count(size, 'record')}"
    elif bench.user is not None:
        done = f"{theirs}, {of} records, are replaced by {count(len(edit.by), 'record')}"
    else:
        done = f"record {place} {of}: {_changes(bench, draft.rows[place], edit.by)}"
    return f"{draft.words}; {done}" if draft.words else done


def _changes(bench: Bench, old: Any, new: Any) -> str:
    different = bench.differences(old, new)
    alone = len(bench.columns) == 1
    parts = [
        f"{'' if alone else bench.columns[at].name + ' '}{_cell(old[at])} → {_cell(new[at])}"
        for at in different[:MOST]
    ]
    more = len(different) - MOST
    return ", ".join(parts) + (f" and {count(more, 'more column')}" if more > 0 else "")


def _cell(cell: Any) -> str:
    text = "missing" if cell is None else repr(cell)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
