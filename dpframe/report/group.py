"""Sort the cells of a record into tables, and rank them by certified ÷ claimed ε."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.report import words
from dpframe.report.words import number, setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dpframe.results.model import CellRecord, EstimateRecord, SkipRecord


# What was certified of a cell, next to what is claimed: which cell is the worst.


class Weight(NamedTuple):
    """A certified bound beside a claim, both in nats."""

    lower: float
    claimed: float
    delta: float | None
    """At which δ, if not at the one that the cell is about."""

    @property
    def ratio(self) -> float:
        """Certified divided by claimed: 0 where nothing is certified, or claimed is ∞."""
        if self.lower <= 0:
            return 0.0
        return self.lower / self.claimed if self.claimed > 0 else math.inf


def weight(cell: CellRecord) -> Weight | None:
    """Bound and claim of a cell; None where one of them is missing.

    A claim that is a curve may be refuted at another δ than the one asked for. Then bound and
    claim are those of the δ that says most.
    """
    estimate, claim = cell.estimate, cell.claim
    if estimate is None or claim is None or estimate.epsilon_lower is None:
        return None
    found = Weight(estimate.epsilon_lower, claim.epsilon, None)
    if cell.basis is not None and found.lower <= found.claimed:
        contrast = cell.basis.contrast
        elsewhere = Weight(contrast.lower, contrast.claimed, contrast.delta)
        if math.isfinite(elsewhere.lower) and elsewhere.lower > elsewhere.claimed:
            return elsewhere
    return found


def worst(cells: Iterable[CellRecord]) -> CellRecord | None:
    """The cell that speaks most against its mechanism.

    Violated cells go before others. Among them, and among the others, the largest certified bound
    divided by the claim; where no cell has both, the largest bound; where none has a bound, the
    largest estimate. Of equals the first.
    """
    ran = [cell for cell in cells if cell.estimate is not None]
    return max(ran, key=_gravity, default=None)


def _gravity(cell: CellRecord) -> tuple[float, ...]:
    found, estimate = weight(cell), cell.estimate
    lower = epsilon = -1.0
    if estimate is not None:
        lower = -1.0 if estimate.epsilon_lower is None else estimate.epsilon_lower
        epsilon = -1.0 if math.isnan(estimate.epsilon) else estimate.epsilon
    ratio = -1.0 if found is None else found.ratio
    return cell.verdict == "violated", ratio, lower, epsilon


MOST_DIGITS = 8


def measure(cell: CellRecord) -> str:
    """What was certified of a cell and what is claimed, bounds rounded down."""
    estimate, found = cell.estimate, weight(cell)
    if estimate is None:
        return "could not be run"
    if found is None and estimate.epsilon_lower is None:
        return f"nothing certified; estimated {words.point(estimate.epsilon)}"
    if found is None:
        return f"certified {words.lower(estimate.epsilon_lower)}, nothing claimed"
    lower, claimed = told_apart(found.lower, found.claimed)
    if found.lower <= 0:  # "certified 0" could be taken for a loss of 0
        return f"nothing certified, claimed {claimed}"
    at = "" if found.delta is None else f" at δ = {words.setting(found.delta)}"
    return f"certified {lower} of claimed {claimed}{at}"


def told_apart(lower: float, claimed: float) -> tuple[str, str]:
    """A bound and a claim, in as many digits as it takes to see which of them is larger."""
    for digits in range(3, MOST_DIGITS):
        shown = words.lower(lower, digits), words.brief(claimed, digits)
        if (lower > claimed) == (_float(shown[0]) > _float(shown[1])):
            break
    return shown


def _float(text: str) -> float:
    return float(text.replace("∞", "inf").replace("–", "nan"))


# Sorts the cells of a record into tables: who was audited, and along which swept keys.


FIRST_KEYS = ("mechanism.epsilon",)
"""Read first and down the rows: it is what the claim is about."""
SEARCH = "search"
"""What stands for the attack of cells in which many were played."""
TABLE_KEYS = 2
"""Swept keys that a table can show: one down, one across."""


@dataclasses.dataclass(frozen=True)
class Spot:
    """All replicates of one combination of swept values; most audits have one."""

    values: dict[str, Any]
    """Swept key to value."""
    cells: tuple[CellRecord, ...]

    @property
    def done(self) -> list[CellRecord]:
        """The replicates that ran."""
        return [cell for cell in self.cells if cell.status == "ok"]

    @property
    def found(self) -> list[EstimateRecord]:
        """What the replicates that ran found."""
        return [cell.estimate for cell in self.cells if cell.estimate is not None]

    @property
    def verdict(self) -> str | None:
        """The gravest verdict among the replicates; "failed" if none of them ran."""
        if not self.done:
            return "failed"
        verdicts = {cell.verdict for cell in self.done}
        return next((v for v in ("violated", "inconclusive", "consistent") if v in verdicts), None)

    @property
    def violated(self) -> int:
        """Number of replicates with that verdict."""
        return sum(cell.verdict == "violated" for cell in self.done)

    @property
    def claim(self) -> float | None:
        """The claimed ε, if one is claimed."""
        return next((cell.claim.epsilon for cell in self.cells if cell.claim is not None), None)

    @property
    def unexpected(self) -> bool:
        """Whether some replicate is not what the spec expects."""
        return any(is_unexpected(cell) for cell in self.cells)

    def estimates(self, name: str) -> list[float]:
        """One field of the estimates, where there is one."""
        values = [getattr(estimate, name) for estimate in self.found]
        return [value for value in values if value is not None]

    def mean(self, name: str) -> float | None:
        """Mean over the replicates; infinite as soon as one is."""
        values = self.estimates(name)
        # statistics.mean refuses a mixture of finite and infinite values.
        return sum(values) / len(values) if values else None

    def deviation(self, name: str) -> float | None:
        """Standard deviation over the replicates."""
        values = self.estimates(name)
        if len(values) < 2 or not all(map(math.isfinite, values)):
            return None
        return statistics.stdev(values)


@dataclasses.dataclass(frozen=True)
class Group:
    """What one mechanism, attack and estimator gave, over the sweep."""

    names: tuple[str, str, str]
    """Labels of mechanism, attack and estimator."""
    keys: tuple[str, ...]
    """Swept keys, the one down the rows first."""
    spots: tuple[Spot, ...]

    @property
    def swept(self) -> tuple[str, ...]:
        """All swept keys, also those that a part of the group has fixed."""
        return tuple(self.spots[0].values) if self.spots else self.keys

    def axis(self, key: str) -> list[Any]:
        """The values of a swept key; numbers ascend, other values keep the record's order."""
        unique = {same(spot.values[key]): spot.values[key] for spot in self.spots}
        values = list(unique.values())
        if all(number(value) is not None for value in values):
            values.sort(key=float)
        return values


def groups(cells: list[CellRecord]) -> list[Group]:
    """The tables of a report, in the order in which the record names their members."""
    members: dict[tuple[str, str, str], list[CellRecord]] = {}
    for cell in cells:
        members.setdefault(names(cell), []).append(cell)
    return [_group(who, found) for who, found in members.items()]


def names(cell: CellRecord) -> tuple[str, str, str]:
    """Labels of a cell's mechanism, attack and estimator.

    The attack of a searched cell is part of what was found, and no part of its name: with other
    draws, in another release of a library, it is another one.
    """
    attack = SEARCH if cell.is_searched else cell.attack.label
    return cell.mechanism.label, attack, cell.estimator.label


def found_by(spot: Spot) -> str:
    """The attacks that earned most in the searches of a spot; empty if none was searched."""
    cells = [cell for cell in spot.done if cell.is_searched]
    return ", ".join(dict.fromkeys(cell.attack.label for cell in cells))


def counted(spots: Sequence[Spot]) -> Counter[str | None]:
    """How often each verdict was given, over cells."""
    done = Counter[str | None](cell.verdict for spot in spots for cell in spot.done)
    done["failed"] = sum(len(spot.cells) - len(spot.done) for spot in spots)
    return +done


def telling(found: list[Group]) -> list[int]:
    """Which of mechanism, attack and estimator tell groups apart; the mechanism always."""
    return [0, *(part for part in (1, 2) if len({group.names[part] for group in found}) > 1)]


def called(group: Group, naming: list[int]) -> str:
    """A group's name, of the parts that tell it apart."""
    return " · ".join(group.names[part] for part in naming)


def parts(group: Group) -> Iterator[tuple[str, Group]]:
    """Splits a group into what a table can show, one for each value of the keys beyond two."""
    rest = group.keys[TABLE_KEYS:]
    spots: dict[tuple[str, ...], list[Spot]] = {}
    for spot in group.spots:
        spots.setdefault(tuple(same(spot.values[key]) for key in rest), []).append(spot)
    for values in itertools.product(*(group.axis(key) for key in rest)):
        if found := spots.get(tuple(map(same, values))):
            where = zip(rest, values, strict=True)
            name = ", ".join(f"{short(key, group.swept)} {setting(value)}" for key, value in where)
            keys = group.keys[:TABLE_KEYS]
            yield name, dataclasses.replace(group, keys=keys, spots=tuple(found))


def axes(group: Group) -> tuple[str, str]:
    """The key down and the key across: ε goes down, else the one with more values."""
    first, second = group.keys
    if first.endswith(".epsilon") or len(group.axis(first)) >= len(group.axis(second)):
        return first, second
    return second, first


def short(key: str, among: Iterable[str] = ()) -> str:
    """A swept key as a column title: the parameter alone, ε for epsilon.

    Where others among the keys would have the same title, the whole key.
    """
    name = key.partition(".")[2] or key
    if any(other != key and other.partition(".")[2] == name for other in among):
        return key
    return "ε" if name == "epsilon" else name


def is_unexpected(cell: CellRecord) -> bool:
    """Whether the cell ran and its verdict is not the one that the spec expects."""
    expected = cell.expected
    return expected is not None and cell.status == "ok" and cell.verdict != expected


def same(value: Any) -> str:
    """Equal for equal values, lists included, so that it can be a dictionary's key."""
    return json.dumps(value, sort_keys=True, default=str)


def _group(who: tuple[str, str, str], cells: list[CellRecord]) -> Group:
    coordinates = [_first(cell.swept) for cell in cells]
    keys = _separating(coordinates)
    spots: dict[tuple[str, ...], list[int]] = {}
    for index, place in enumerate(coordinates):
        spots.setdefault(tuple(same(place.get(key)) for key in keys), []).append(index)
    return Group(
        who,
        keys,
        tuple(
            Spot(
                {key: coordinates[found[0]].get(key) for key in keys},
                tuple(cells[index] for index in found),
            )
            for found in spots.values()
        ),
    )


def _first(place: dict[str, Any]) -> dict[str, Any]:
    """The same with the keys that are read first in front."""
    return {key: place[key] for key in FIRST_KEYS if key in place} | place


def _separating(coordinates: list[dict[str, Any]]) -> tuple[str, ...]:
    """The keys that tell the cells apart.

    A parameter that follows from others, such as a sensitivity filled in from the pair, varies
    too but separates nothing that its causes did not. Causes come first (a pair never depends on
    a mechanism), so taking each key only if it separates more leaves the swept ones.
    """
    chosen: list[str] = []
    for key in dict.fromkeys(key for place in coordinates for key in place):
        classes: dict[tuple[str, ...], set[str]] = {}
        for place in coordinates:
            if place.get(key) is not None:  # a failed cell has no estimate to compare
                known = tuple(same(place.get(other)) for other in chosen)
                classes.setdefault(known, set()).add(same(place[key]))
        if any(len(values) > 1 for values in classes.values()):
            chosen.append(key)
    return tuple(chosen)


# Which cell is meant, in words.


def place(values: Mapping[str, Any]) -> str:
    """Swept values: ε 0.1, dim 2."""
    return ", ".join(f"{short(key, values)} {words.setting(v)}" for key, v in values.items())


def called_place(cell: CellRecord, *, repeated: bool = False) -> str:
    """A cell by the labels of its parts and its swept values.

    Args:
        cell: the cell.
        repeated: whether its audit has repeats, so that their number belongs into the name.
    """
    labels = names(cell)
    repeat = f"repeat {cell.repeat}" if repeated else ""
    return " · ".join(part for part in (*labels, place(cell.swept), repeat) if part)


def attack_of(cell: CellRecord) -> str:
    """The attack that a cell's numbers are of; of a search that failed there is none."""
    return "–" if cell.is_searched and cell.estimate is None else cell.attack.label


def called_skipped(skip: SkipRecord) -> str:
    """A combination that was left out, in the same way."""
    labels = (skip.mechanism, skip.attack, skip.estimator)
    return " · ".join(part for part in (*labels, place(skip.swept)) if part)


def repeated(cells: list[CellRecord]) -> bool:
    """Whether an audit has repeats."""
    return any(cell.repeat for cell in cells)
