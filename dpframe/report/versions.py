"""The version matrix: the result of each mechanism in each environment."""

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dpframe.report.verdict_text import SYMBOL, WORDS, measure, state
from dpframe.report.witness import noise_too_small
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import exceeds

OWN = "this Python"  # name of the environment of dpframe itself
VERSIONS = 2  # fewest environments of one mechanism that make a matrix
SPARSE = 2  # a table is split if fewer than 1/SPARSE of its places are filled
GRAVITY = ("violated", "failed", "inconclusive", None, "consistent")
"""Verdicts from the gravest; a place shows the gravest of its cells."""


class VersionResult(NamedTuple):
    """The result of a mechanism in an environment."""

    verdict: str | None  # may be "failed"
    text: str


class Versions(NamedTuple):
    """The table."""

    mechanisms: tuple[str, ...]  # titles of the columns
    rows: tuple[tuple[str, tuple[VersionResult | None, ...]], ...]
    """Environment, and the result of each mechanism there; None if it was not tried."""


def versions(record: Record) -> Versions | None:
    """Return the matrix of a record; None if no mechanism ran in two environments."""
    places: dict[tuple[str, str], list[CellRecord]] = {}
    titles = _titles(record.cells)
    for cell in record.cells:
        places.setdefault((_environment(cell), titles[cell.mechanism.label]), []).append(cell)
    rows = list(dict.fromkeys(row for row, _ in places))
    columns = tuple(dict.fromkeys(titles.values()))
    if all(sum((row, column) in places for row in rows) < VERSIONS for column in columns):
        return None
    return Versions(
        columns,
        tuple(
            (row, tuple(_shown(places.get((row, column), ())) for column in columns))
            for row in rows
        ),
    )


def blocks(found: Versions) -> list[Versions]:
    """Split a sparse matrix into tables of environments and mechanisms that were tried together.

    If several libraries were audited, most mechanisms ran in a few of the environments only.
    """
    filled = sum(place is not None for _, places in found.rows for place in places)
    if SPARSE * filled >= len(found.rows) * len(found.mechanisms):
        return [found]
    together: list[tuple[set[int], list[int]]] = []
    for row, (_, places) in enumerate(found.rows):
        columns = {n for n, place in enumerate(places) if place is not None}
        rows = [row]
        for other in [other for other in together if other[0] & columns]:
            together.remove(other)
            columns, rows = columns | other[0], rows + other[1]
        together.append((columns, sorted(rows)))
    return [
        Versions(
            tuple(found.mechanisms[n] for n in sorted(columns)),
            tuple(
                (found.rows[n][0], tuple(found.rows[n][1][k] for k in sorted(columns)))
                for n in rows
            ),
        )
        for columns, rows in sorted(together, key=lambda part: part[1])
        if len(rows) >= VERSIONS
    ]


def _environment(cell: CellRecord) -> str:
    name = cell.mechanism.params.get("environment")
    return name if isinstance(name, str) else OWN


def _titles(cells: Sequence[CellRecord]) -> dict[str, str]:
    """Return the column of each label; a mechanism may have another label in each environment."""
    environments: dict[str, dict[str, None]] = {}
    content: dict[str, str] = {}
    for cell in cells:
        label = cell.mechanism.label
        environments.setdefault(label, {})[_environment(cell)] = None
        rest = {k: v for k, v in cell.mechanism.params.items() if k != "environment"}
        content.setdefault(label, json.dumps([cell.mechanism.use, rest], sort_keys=True))
    together: dict[str, list[str]] = {}
    for label, where in environments.items():
        key = content[label] if len(where) == 1 else label
        together.setdefault(key, []).append(label)
    titles: dict[str, str] = {}
    for members in together.values():
        distinct = {where for label in members for where in environments[label]}
        common = members[0] if len(members) == 1 else ""
        if 1 < len(distinct) == len(members):  # the words that all labels begin and end with
            split = [label.split() for label in members]
            start = _prefix(split)
            end = _prefix([words[len(start) :][::-1] for words in split])[::-1]
            common = " ".join([*start, *end]).strip(" ,:·-")
        titles |= {label: common or label for label in members}
    uses = Counter(titles[members[0]] for members in together.values())
    return {label: label if uses[title] > 1 else title for label, title in titles.items()}


def _prefix(split: Sequence[Sequence[str]]) -> list[str]:
    columns = itertools.takewhile(lambda c: len(set(c)) == 1, zip(*split, strict=False))
    return [column[0] for column in columns]


def _shown(cells: Sequence[CellRecord]) -> VersionResult | None:
    if not cells:
        return None
    cell = min(cells, key=lambda one: GRAVITY.index(_verdict(one)))
    verdict = _verdict(cell)
    if exceeds(cell):
        return VersionResult(verdict, f"{SYMBOL[verdict]} {noise_too_small(cell)}")
    same = sum(_verdict(one) == verdict for one in cells)
    share = f" in {same} of {len(cells)} cells" if len(cells) > 1 else ""
    text = f"{SYMBOL[verdict]} {WORDS[verdict]}{share}"
    why = ""
    if verdict == "failed":
        why = cell.reason or ""
    elif verdict == "violated":
        why = cell.search.event if cell.search is not None else measure(cell)
    return VersionResult(verdict, f"{text}: {why}" if why else text)


def _verdict(cell: CellRecord) -> str | None:
    return "violated" if exceeds(cell) else state(cell)
