"""Compare the neighbours that a claim is about with those of an audit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

CLAIMED = {
    "add-or-remove-one": "add-or-remove-one (a record is added or removed)",
    "replace-one": "replace-one (a record is replaced by any other)",
    "replace-special": "replace-special (zero-out: a null record replaces a record)",
}
REPLACE, RESIZE, ZERO = "replace records", "add or remove records", "zero records out"
COVERED = {  # relations of neighbours that a claim covers
    "add-or-remove-one": {RESIZE},
    "replace-one": {REPLACE, ZERO},  # a null record is one of the records
    "replace-special": {ZERO},
}
ADJACENCIES = {RESIZE: "add-remove", REPLACE: "replace", ZERO: "zero-out"}

NEIGHBOURS = {  # adjacencies by the relation that a claim states
    "add-or-remove-one": "add-remove",
    "replace-one": "replace",
    "replace-special": "zero-out",
}


def relations_of(adjacency: str) -> frozenset[str]:
    """Return the relations that the words of an adjacency name; none if they name no known one."""
    words = adjacency.lower().replace("_", "-")
    if any(part in words for part in ("zero", "special", "null")):
        return frozenset({ZERO})
    if words.strip() == "either":
        return frozenset({REPLACE, RESIZE})
    replaces = any(part in words for part in ("replac", "substitut", "swap"))
    relations = {REPLACE} if replaces else set()
    if "remov" in words or words.startswith("add"):
        relations.add(RESIZE)
    return frozenset(relations)


def states_relation(claim: Any) -> bool:
    """True if a claim says which neighbours it is about, as those of accountants do."""
    return getattr(claim, "relation", None) in COVERED


def other_relation(claim: Any, adjacency: str) -> str | None:
    """Return why a claim is not about the neighbours of an audit; None if it is, or may be."""
    own = relations_of(adjacency)
    if not states_relation(claim) or not own or own <= COVERED[relation := claim.relation]:
        return None
    pairs = " and ".join(sorted(own))
    covered = " or ".join(f'"{ADJACENCIES[one]}"' for one in sorted(COVERED[relation]))
    return (
        f"the claim is for neighbours by {CLAIMED[relation]}, but the pairs {pairs} "
        f"(adjacency: {adjacency}): use adjacency {covered}, or the claim's relation for them"
    )


def is_zero(data: Any) -> bool:
    """True if a dataset is an array of zeros, which is one null record."""
    try:
        return np.ndim(data) > 0 and not np.any(np.asarray(data, np.float64))
    except (TypeError, ValueError):
        return False


def seen_relation(claim: Any, d0: Any, d1: Any) -> str | None:
    """Return why two datasets cannot be neighbours of the claim's relation; None if they may be.

    Only what is certain is refused: a list of numbers may hold query answers instead of records.
    """
    relation = getattr(claim, "relation", None)
    if relation not in COVERED:
        return None
    sizes = [_records(one) for one in (d0, d1)]
    if None in sizes:
        return None
    n0, n1 = sizes
    if n0 != n1:
        if relation == "add-or-remove-one":
            return None
        difference = f"D has {n0} records and D′ {n1}"
    elif relation == "replace-one" or None in (rows := [_record_list(one) for one in (d0, d1)]):
        return None
    else:
        changed = [both for both in zip(*rows, strict=True) if not _same(*both)]
        if len(changed) != 1 or any(map(_is_null, changed[0])):
            return None
        difference = "D and D′ differ in one record that is replaced by another"
    return f"claim: it is for neighbours by {CLAIMED[relation]}, but {difference}"


def _records(data: Any) -> int | None:
    if _is_frame(data):
        return len(data)
    if isinstance(data, np.ndarray):
        return len(data) if data.ndim else None
    if isinstance(data, tuple) and data and not isinstance(data[0], tuple):  # (x, y)
        return _records(data[0])
    return len(data) if isinstance(data, list) else None


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")  # of pandas


def _record_list(data: Any) -> list[Any] | None:
    """Return the records of a table whose rows are certainly records, else None."""
    if _is_frame(data):
        records: list[Any] = data.astype(object).where(data.notna(), None).to_numpy().tolist()
        return records
    if isinstance(data, tuple) and len(data) == 2 and np.ndim(data[0]) == 2:  # (x, y)
        x, y = map(np.asarray, data)
        return list(zip(x.tolist(), y.tolist(), strict=True)) if len(x) == len(y) else None
    own = isinstance(data, list) and all(isinstance(one, dict | list | tuple) for one in data)
    return data if own else None


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays inside
        return False


def _is_null(record: Any) -> bool:
    """True if all cells of a record are zero, empty, missing or NaN."""
    return all(
        not cell or (isinstance(cell, float) and math.isnan(cell)) for cell in _cells(record)
    )


def _cells(record: Any) -> Iterator[Any]:
    values: Sequence[Any] = [*record.values()] if isinstance(record, dict) else record
    for cell in values:
        if isinstance(cell, list | tuple | dict):
            yield from _cells(cell)
        else:
            yield cell if isinstance(cell, float | int | str | None) else True
