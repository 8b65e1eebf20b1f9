"""The version matrix: what became of each mechanism in each environment, in words."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, NamedTuple

from dpframe.report.group import measure
from dpframe.report.sentences import noise_too_small
from dpframe.report.words import SYMBOL, WORDS
from dpframe.results.verdict import exceeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.results.model import CellRecord, Record


OWN = "this Python"
"""What the environment of dpframe itself is called."""

VERSIONS = 2
"""Environments in which a mechanism ran, at least: else there is nothing to compare."""

MANY = 2
"""One of so many places of a table is filled, at least."""

GRAVITY = ("violated", "failed", "inconclusive", None, "consistent")
"""Of several cells in one place the gravest is shown."""


class Place(NamedTuple):
    """What became of a mechanism in an environment."""

    verdict: str | None
    """A verdict, "failed", or None."""
    text: str
    """The verdict in words, and what is held against the claim."""


class Versions(NamedTuple):
    """The table."""

    mechanisms: tuple[str, ...]
    """What the columns are called."""
    rows: tuple[tuple[str, tuple[Place | None, ...]], ...]
    """Environment, and what became of each mechanism there; None where it was not tried."""


def versions(record: Record) -> Versions | None:
    """The matrix of a record; None if no mechanism ran in two environments.

    What ran in one alone has no versions to compare: its verdict is among the cells.
    """
    places: dict[tuple[str, str], list[CellRecord]] = {}
    titles = _titles(record.cells)
    for cell in record.cells:
        places.setdefault((environment(cell), titles[cell.mechanism.label]), []).append(cell)
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
    """The matrix as the tables that show it best.

    Where several libraries were audited, most environments have nothing to do with most
    mechanisms. Then those that belong together get a table of their own, if they are versions.
    """
    filled = sum(place is not None for _, places in found.rows for place in places)
    if MANY * filled >= len(found.rows) * len(found.mechanisms):
        return [found]
    together: list[tuple[set[int], list[int]]] = []
    for row, (_, places) in enumerate(found.rows):
        columns = {n for n, place in enumerate(places) if place is not None}
        rows = [row]
        for other in [other for other in together if other[0] & columns]:
            together.remove(other)
            columns, rows = columns | other[0], rows + other[1]
        together.append((columns, sorted(rows)))
    parts = sorted(together, key=lambda part: part[1])
    return [_part(found, sorted(columns), rows) for columns, rows in parts if len(rows) >= VERSIONS]


def _part(found: Versions, columns: Sequence[int], rows: Sequence[int]) -> Versions:
    return Versions(
        tuple(found.mechanisms[n] for n in columns),
        tuple((found.rows[n][0], tuple(found.rows[n][1][k] for k in columns)) for n in rows),
    )


def environment(cell: CellRecord) -> str:
    """Where the mechanism of a cell ran."""
    name = cell.mechanism.params.get("environment")
    return name if isinstance(name, str) else OWN


def _titles(cells: Iterable[CellRecord]) -> dict[str, str]:
    """Column of each label: one mechanism in several environments may have several labels."""
    labels: dict[str, dict[str, None]] = {}
    alike: dict[str, str] = {}
    for cell in cells:
        label = cell.mechanism.label
        labels.setdefault(label, {})[environment(cell)] = None
        rest = {k: v for k, v in cell.mechanism.params.items() if k != "environment"}
        alike.setdefault(label, json.dumps([cell.mechanism.use, rest], sort_keys=True))
    together: dict[str, list[str]] = {}
    for label, where in labels.items():
        key = alike[label] if len(where) == 1 else label
        together.setdefault(key, []).append(label)
    titles = {}
    for members in together.values():
        apart = len({where for label in members for where in labels[label]}) == len(members)
        common = _common(members)
        for label in members:
            titles[label] = common if apart and common else label
    taken = list(dict.fromkeys(titles.values()))
    first = {title: [m for m in together.values() if titles[m[0]] == title] for title in taken}
    return {label: label if len(first[title]) > 1 else title for label, title in titles.items()}


def _common(labels: Sequence[str]) -> str:
    """The words that labels begin and end with."""
    if len(labels) == 1:
        return labels[0]
    split = [label.split() for label in labels]
    start = _alike(split)
    end = _alike([words[len(start) :][::-1] for words in split])[::-1]
    return " ".join([*start, *end]).strip(" ,:·-")


def _alike(split: Sequence[Sequence[str]]) -> list[str]:
    """The words that lists begin with."""
    columns = itertools.takewhile(lambda c: len(set(c)) == 1, zip(*split, strict=False))
    return [column[0] for column in columns]


def _shown(cells: Sequence[CellRecord]) -> Place | None:
    if not cells:
        return None
    cell = min(cells, key=lambda one: GRAVITY.index(_verdict(one)))
    verdict = _verdict(cell)
    if exceeds(cell):
        return Place(verdict, f"{SYMBOL[verdict]} {noise_too_small(cell)}")
    same = sum(_verdict(one) == verdict for one in cells)
    share = f" in {same} of {len(cells)} cells" if len(cells) > 1 else ""
    text = f"{SYMBOL[verdict]} {WORDS[verdict]}{share}"
    found = _found(cell, verdict)
    return Place(verdict, f"{text}: {found}" if found else text)


def _verdict(cell: CellRecord) -> str | None:
    if exceeds(cell):
        return "violated"
    return "failed" if cell.status == "failed" else cell.verdict


def _found(cell: CellRecord, verdict: str | None) -> str:
    """What is held against the claim, or why there is no verdict."""
    if verdict == "failed":
        return cell.reason or ""
    if verdict != "violated":
        return ""
    return cell.search.event if cell.search is not None else measure(cell)
