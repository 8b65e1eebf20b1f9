"""The version matrix: the result of each mechanism in each environment."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence

from dpframe.report.parts import Line, Row, Table
from dpframe.report.verdict_text import SYMBOL, WORDS, measure, state
from dpframe.report.witness import noise_too_small
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import exceeds

OWN = "this Python"  # name of the environment of dpframe itself
VERSIONS = 2  # fewest environments of one mechanism that make a matrix
SPARSE = 2  # a table is split if fewer than 1/SPARSE of its places are filled
GRAVITY = ("violated", "failed", "inconclusive", None, "consistent")
"""Verdicts from the gravest; a place shows the gravest of its cells."""


def versions(record: Record) -> list[Table]:
    """Return the matrix of a record; [] if no mechanism ran in two environments.

    A sparse matrix is split into tables of environments and mechanisms that were tried together: if
    several libraries were audited, most mechanisms ran in a few of the environments only.
    """
    titles = _titles(record.cells)
    members: dict[str, dict[str, list[CellRecord]]] = {}
    for cell in record.cells:
        row = members.setdefault(_environment(cell), {})
        row.setdefault(titles[cell.mechanism.label], []).append(cell)
    columns = list(dict.fromkeys(titles.values()))
    used = Counter(column for row in members.values() for column in row)
    if max(used.values(), default=0) < VERSIONS:
        return []
    if SPARSE * used.total() >= len(members) * len(columns):
        return [_table(members, columns)]
    together: list[tuple[list[str], set[str]]] = []  # environments and mechanisms of a table
    for name, row in members.items():
        rows, tried = [name], set(row)
        for other in [other for other in together if other[1] & tried]:
            together.remove(other)
            rows, tried = other[0] + rows, tried | other[1]
        together.append((rows, tried))
    order = list(members).index
    blocks = [(sorted(rows, key=order), tried) for rows, tried in together]
    return [
        _table({name: members[name] for name in rows}, [c for c in columns if c in tried])
        for rows, tried in sorted(blocks, key=lambda block: order(block[0][0]))
        if len(rows) >= VERSIONS
    ]


def _table(members: dict[str, dict[str, list[CellRecord]]], columns: list[str]) -> Table:
    rows = [
        Row([name, *(_shown(row[column]) if column in row else "–" for column in columns)])
        for name, row in members.items()
    ]
    return Table(["environment", *columns], rows)


def _environment(cell: CellRecord) -> str:
    name = cell.mechanism.params.get("environment")
    return name if isinstance(name, str) else OWN


def _titles(cells: Iterable[CellRecord]) -> dict[str, str]:
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


def _shown(cells: Sequence[CellRecord]) -> Line:
    """Return the gravest result of some cells."""
    verdicts = ["violated" if exceeds(cell) else state(cell) for cell in cells]
    verdict = min(verdicts, key=GRAVITY.index)
    cell = cells[verdicts.index(verdict)]
    if exceeds(cell):
        return Line(f"{SYMBOL[verdict]} {noise_too_small(cell)}", verdict)
    share = f" in {verdicts.count(verdict)} of {len(cells)} cells" if len(cells) > 1 else ""
    why = ""
    if verdict == "failed":
        why = cell.reason or ""
    elif verdict == "violated":
        why = cell.search.event if cell.search is not None else measure(cell)
    text = f"{SYMBOL[verdict]} {WORDS[verdict]}{share}"
    return Line(f"{text}: {why}" if why else text, verdict)
