"""Sort the cells of a record into tables and maps, and name them."""

import dataclasses
import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpframe.report.number_format import number, setting
from dpframe.report.verdict_text import SYMBOL, is_unexpected, state, weight, worst
from dpframe.results.model import CellRecord, EstimateRecord, SkipRecord

FIRST_KEYS = ("mechanism.epsilon",)
"""Swept keys that come first, as rows, because the claim depends on them."""
SEARCH = "search"  # stands for the attack of a searched cell
TABLE_KEYS = 2  # swept keys that a map can show: one down, one across


@dataclasses.dataclass(frozen=True)
class GridCell:
    """All replicates of one combination of swept values; most audits have one."""

    values: dict[str, Any]  # swept key to value
    cells: tuple[CellRecord, ...]

    @property
    def done(self) -> list[CellRecord]:
        """The replicates that ran."""
        return [cell for cell in self.cells if cell.status == "ok"]

    @property
    def found(self) -> list[EstimateRecord]:
        """The estimates of the replicates that ran."""
        return [cell.estimate for cell in self.cells if cell.estimate is not None]

    @property
    def verdict(self) -> str | None:
        """The gravest verdict among the replicates; "failed" if none of them ran."""
        if not self.done:
            return "failed"
        verdicts = {state(cell) for cell in self.done}
        return next((v for v in ("violated", "inconclusive", "consistent") if v in verdicts), None)

    @property
    def claim(self) -> float | None:
        """The claimed ε, if one is claimed."""
        return next((cell.claim.epsilon for cell in self.cells if cell.claim is not None), None)

    @property
    def share(self) -> float | None:
        """Certified ÷ claimed ε of the worst replicate; None if one of them is missing."""
        cell = worst(self.done)
        weighed = None if cell is None else weight(cell)
        return None if weighed is None else weighed.ratio

    @property
    def unexpected(self) -> bool:
        """True if the verdict of a replicate differs from the spec's expectation."""
        return any(map(is_unexpected, self.cells))

    def repeat(self, cell: CellRecord) -> list[str]:
        """Name a replicate; [] if it is the only one."""
        return [f"repeat {cell.repeat}"] if len(self.cells) > 1 else []

    def texts(self, keys: Iterable[str], among: Iterable[str] | None = None) -> list[str]:
        """Write some swept values; `among` as in `short`, by default all swept keys."""
        return settings({key: self.values[key] for key in keys}, among or self.values)

    def estimates(self, name: str) -> list[float]:
        """Return one field of the estimates, without those that are null."""
        values = [getattr(estimate, name) for estimate in self.found]
        return [value for value in values if value is not None]

    def mean(self, name: str) -> float | None:
        """Return the mean over the replicates, which is infinite if one value is."""
        values = self.estimates(name)
        # statistics.mean refuses a mixture of finite and infinite values.
        return sum(values) / len(values) if values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the point values over the replicates."""
        values = self.estimates("epsilon")
        if len(values) < 2 or not all(map(math.isfinite, values)):
            return None
        return statistics.stdev(values)


@dataclasses.dataclass(frozen=True)
class Group:
    """The results of one mechanism, attack and estimator over the sweep."""

    names: tuple[str, str, str]  # labels of mechanism, attack and estimator
    keys: tuple[str, ...]  # swept keys, the one for the rows first
    spots: tuple[GridCell, ...]

    @property
    def swept(self) -> tuple[str, ...]:
        """All swept keys, including those that a part of the group has fixed."""
        return tuple(self.spots[0].values) if self.spots else self.keys

    def name_of(self, spot: GridCell, cell: CellRecord) -> str:
        """Name a cell of the group by labels, swept values and repeat."""
        return " · ".join([*self.names, *settings(spot.values), *spot.repeat(cell)])

    def axis(self, key: str) -> list[Any]:
        """Return the values of a swept key: numbers ascend, others keep the record's order."""
        values = list({same(spot.values[key]): spot.values[key] for spot in self.spots}.values())
        if all(number(value) is not None for value in values):
            values.sort(key=float)
        return values

    def at(self, *keys: str) -> dict[tuple[str, ...], GridCell]:
        """Return the spots by their values of some keys, each as `same` writes it."""
        return {tuple(same(spot.values[key]) for key in keys): spot for spot in self.spots}


def groups(cells: list[CellRecord]) -> list[Group]:
    """Return the tables of a report, in the order in which the record names their members."""
    members: dict[tuple[str, str, str], list[CellRecord]] = {}
    for cell in cells:
        members.setdefault(names(cell), []).append(cell)
    return [_group(labels, of_labels) for labels, of_labels in members.items()]


def _group(labels: tuple[str, str, str], cells: list[CellRecord]) -> Group:
    # Keys of FIRST_KEYS come first.
    swept = [
        {key: cell.swept[key] for key in FIRST_KEYS if key in cell.swept} | cell.swept
        for cell in cells
    ]
    keys = _separating(swept)
    spots: dict[tuple[str, ...], list[int]] = {}
    for index, values in enumerate(swept):
        spots.setdefault(tuple(same(values.get(key)) for key in keys), []).append(index)
    grid_cells = (
        GridCell(
            {key: swept[indices[0]].get(key) for key in keys},
            tuple(cells[index] for index in indices),
        )
        for indices in spots.values()
    )
    return Group(labels, keys, tuple(grid_cells))


def _separating(swept: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the keys that distinguish the cells.

    A parameter that follows from others, such as a sensitivity filled in from the pair, varies with
    them. Parameters come after those that they follow from (a pair never depends on a mechanism),
    so a key is used only if cells with equal values of all earlier keys differ in it.
    """
    chosen: list[str] = []
    for key in dict.fromkeys(key for values in swept for key in values):
        classes: dict[tuple[str, ...], set[str]] = {}
        for values in swept:
            if values.get(key) is not None:  # a failed cell has no estimate to compare
                known = tuple(same(values.get(other)) for other in chosen)
                classes.setdefault(known, set()).add(same(values[key]))
        if any(len(different) > 1 for different in classes.values()):
            chosen.append(key)
    return tuple(chosen)


def same(value: Any) -> str:
    """Return a dictionary key that is equal for equal values, lists included."""
    return json.dumps(value, sort_keys=True, default=str)


# Names of groups, cells and swept values.


def names(cell: CellRecord) -> tuple[str, str, str]:
    """Return the labels of a cell's mechanism, attack and estimator.

    The attack of a searched cell depends on the draws, so it is part of the result and the name has
    `SEARCH` instead.
    """
    attack = SEARCH if cell.is_searched else cell.attack.label
    return cell.mechanism.label, attack, cell.estimator.label


def telling(groups: Sequence[Group]) -> list[int]:
    """Return which of mechanism, attack and estimator distinguish groups; always the mechanism."""
    return [0, *(part for part in (1, 2) if len({group.names[part] for group in groups}) > 1)]


def group_name(group: Group, naming: list[int]) -> str:
    """Join the parts of a group's name that distinguish it."""
    return " · ".join(group.names[part] for part in naming)


def short(key: str, among: Iterable[str] = ()) -> str:
    """Return the column title of a swept key: the parameter alone, ε for epsilon.

    If another key of `among` would have the same title, return the whole key.
    """
    name = key.partition(".")[2] or key
    if any(other != key and other.partition(".")[2] == name for other in among):
        return key
    return "ε" if name == "epsilon" else name


def settings(values: Mapping[str, Any], among: Iterable[str] = ()) -> list[str]:
    """Write swept values as `ε 0.1`, `dim 2`; `among` as in `short`."""
    among = list(among)
    return [f"{short(key, among)} {setting(value)}" for key, value in values.items()]


def place(cell: CellRecord | SkipRecord, *, repeated: bool = False) -> str:
    """Write the swept values of a cell as `ε 0.1, dim 2`, with its repeat if there are several."""
    repeat = [f"repeat {cell.repeat}"] if repeated and isinstance(cell, CellRecord) else []
    return ", ".join([*settings(cell.swept, cell.swept), *repeat])


def cell_name(cell: CellRecord | SkipRecord, *, repeated: bool = False) -> str:
    """Name a cell, or a skipped combination, by its labels and swept values.

    The name includes the number of the repeat if the audit has repeats (`repeated`).
    """
    if isinstance(cell, SkipRecord):
        labels, repeat = (cell.mechanism, cell.attack, cell.estimator), ""
    else:
        labels, repeat = names(cell), f"repeat {cell.repeat}" if repeated else ""
    return " · ".join(filter(None, (*labels, place(cell), repeat)))


def telling_name(cell: CellRecord, naming: list[int], *, repeated: bool = False) -> str:
    """Name a cell by the labels of `telling`, its swept values and its repeat."""
    labels = [names(cell)[part] for part in naming]
    return " · ".join(filter(None, [*labels, place(cell, repeated=repeated)]))


def attack_of(cell: CellRecord) -> str:
    """Return the label of the attack that earned a cell's numbers; a failed search has none."""
    return "–" if cell.is_searched and cell.estimate is None else cell.attack.label


def found_by(spot: GridCell) -> str:
    """Return the attacks that earned most in the searches of a spot; "" if none was searched."""
    cells = [cell for cell in spot.done if cell.is_searched]
    return ", ".join(dict.fromkeys(cell.attack.label for cell in cells))


def repeated(cells: Iterable[CellRecord]) -> bool:
    """True if an audit has repeats."""
    return any(cell.repeat for cell in cells)


def tallies(cells: Iterable[CellRecord]) -> dict[str | None, int]:
    """Return each verdict that occurs, with its count."""
    counts = Counter(map(state, cells))
    return {verdict: counts[verdict] for verdict in SYMBOL if counts[verdict]}


# Maps of a sweep: cells in rows and columns, for the terminal, the page and the figure.


class Map(NamedTuple):
    """A table of cells."""

    title: str  # the names and settings that distinguish it from other maps
    down: str  # title of the rows; "" if they are groups
    across: str  # title of the columns
    heads: list[str]
    rows: list[tuple[str, list[GridCell | None]]]

    @property
    def directions(self) -> str:
        """The keys that go down and across."""
        return f"down {self.down}, across {self.across}" if self.down else f"across {self.across}"

    @property
    def spots(self) -> list[GridCell]:
        """All cells."""
        return [spot for _, row in self.rows for spot in row if spot is not None]


def maps(groups: Sequence[Group]) -> Iterator[Map]:
    """Lay out groups in maps: groups that sweep the same single key share one."""
    naming = telling(groups)
    if unswept := {one.names: one.spots[0] for one in groups if not one.keys}:
        heads = list(dict.fromkeys(name for *_, name in unswept))
        rows = [
            (" · ".join(side), [unswept.get((*side, head)) for head in heads])
            for side in dict.fromkeys((first, second) for first, second, _ in unswept)
        ]
        yield Map("", "", "estimator", heads, rows)
    bands: dict[str, list[Group]] = {}  # groups that sweep one key over the same values
    for one in groups:
        if len(one.keys) == 1:
            bands.setdefault(same([one.keys, one.axis(one.keys[0])]), []).append(one)
    for first, *others in bands.values():
        (key,) = first.keys
        values = first.axis(key)
        rows = []
        for one in (first, *others):
            spots = one.at(key)
            rows.append((group_name(one, naming), [spots.get((same(value),)) for value in values]))
        yield Map("", "", short(key, first.swept), list(map(setting, values)), rows)
    for one in groups:
        yield from _grids(one, naming) if len(one.keys) > 1 else ()


def _grids(one: Group, naming: list[int]) -> Iterator[Map]:
    """Draw two keys of a group down and across, with a map for each value of its other keys."""
    rest = one.keys[TABLE_KEYS:]
    members: dict[tuple[str, ...], list[GridCell]] = {}
    for spot in one.spots:
        members.setdefault(tuple(same(spot.values[key]) for key in rest), []).append(spot)
    for fixed in itertools.product(*map(one.axis, rest)):
        if not (spots := members.get(tuple(map(same, fixed)))):
            continue
        part = dataclasses.replace(one, spots=tuple(spots))
        down, across = one.keys[:TABLE_KEYS]
        # ε goes down, else the key with more values.
        if not down.endswith(".epsilon") and len(part.axis(down)) < len(part.axis(across)):
            down, across = across, down
        at, columns = part.at(down, across), part.axis(across)
        name = ", ".join(settings(dict(zip(rest, fixed, strict=True)), one.swept))
        yield Map(
            ", ".join(filter(None, [group_name(one, naming), name])),
            short(down, one.swept),
            short(across, one.swept),
            list(map(setting, columns)),
            [
                (setting(row), [at.get((same(row), same(column))) for column in columns])
                for row in part.axis(down)
            ],
        )
