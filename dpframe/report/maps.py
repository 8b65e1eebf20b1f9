"""Maps of a sweep: the cells of groups in rows and columns, for every report that draws some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dpframe.report import words
from dpframe.report.group import Group, Spot, group_name, parts, same, short, square, telling


class Map(NamedTuple):
    """A table of cells."""

    title: str  # the names and settings that tell it from the other maps
    down: str  # title of the rows; "" if they are groups
    across: str  # title of the columns
    heads: list[str]
    rows: list[tuple[str, list[Spot | None]]]

    @property
    def directions(self) -> str:
        """The keys that go down and across."""
        return f"down {self.down}, across {self.across}" if self.down else f"across {self.across}"

    @property
    def spots(self) -> list[Spot]:
        """All cells."""
        return [spot for _, row in self.rows for spot in row if spot is not None]


def maps(found: Sequence[Group]) -> Iterator[Map]:
    """Lay out groups: those that sweep one key together, each of the others by itself."""
    naming = telling(list(found))
    yield from _unswept([one for one in found if not one.keys])
    yield from _bands([one for one in found if len(one.keys) == 1], naming)
    for one in found:
        for name, part in parts(one) if len(one.keys) > 1 else ():
            down, across, rows, columns, spots = square(part)
            labels = words.align(list(map(words.setting, rows)))
            yield Map(
                ", ".join(filter(None, [group_name(one, naming), name])),
                short(down, one.swept),
                short(across, one.swept),
                list(map(words.setting, columns)),
                list(zip(labels, spots, strict=True)),
            )


def _unswept(found: list[Group]) -> Iterator[Map]:
    """Put groups that sweep nothing into one map, estimators across."""
    if found:
        at = {one.names: one.spots[0] for one in found}
        heads = list(dict.fromkeys(one.names[2] for one in found))
        sides = dict.fromkeys(one.names[:2] for one in found)
        rows = [(" · ".join(side), [at.get((*side, head)) for head in heads]) for side in sides]
        yield Map("", "", "estimator", heads, rows)


def _bands(found: list[Group], naming: list[int]) -> Iterator[Map]:
    """Put groups that sweep one key over the same values into the rows of one map."""
    bands: dict[str, list[Group]] = {}
    for one in found:
        bands.setdefault(same([one.keys, one.axis(one.keys[0])]), []).append(one)
    for members in bands.values():
        key = members[0].keys[0]
        values = members[0].axis(key)
        rows = []
        for one in members:
            at = {same(spot.values[key]): spot for spot in one.spots}
            rows.append((group_name(one, naming), [at.get(same(value)) for value in values]))
        across = short(key, members[0].swept)
        yield Map("", "", across, list(map(words.setting, values)), rows)
