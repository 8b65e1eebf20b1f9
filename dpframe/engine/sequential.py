"""Verdicts that were shown before: extending a run after one is another look at the same draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.spec.audit import Cell


class Looks(NamedTuple):
    """The looks at one cell, this one included."""

    earlier: tuple[tuple[int, int], ...] = ()
    """Trials per dataset at which a verdict was shown before."""
    number: int = 1
    """Which look this is; a repetition of an earlier look keeps its number."""

    @property
    def price(self) -> int:
        """The error of look k is divided by k(k + 1); the first look pays nothing.

        All looks together then err with at most 1.5 times the error of the first, since
        1/(2·3) + 1/(3·4) + … = 1/2.
        """
        return 1 if self.number == 1 else self.number * (self.number + 1)

    def listed(self, trials: tuple[int, int]) -> list[dict[str, Any]]:
        """All looks for the record, once this one has come to `trials`."""
        shown = list(self.earlier)
        if trials not in shown:
            shown.append(trials)
        return [{"trials": list(pair)} for pair in shown]


FIRST_LOOK = Looks()


def looks_at(cell: Cell, group: str, record: Mapping[str, Any] | None) -> Looks:
    """The looks at a cell, given the record of an earlier run in the same place.

    Args:
        cell: as it is about to be run.
        group: its draw group.
        record: the earlier record, if there is one.
    """
    for old in (record or {}).get("cells", ()):
        known = (old["id"], old["draw_group"], old.get("seed"))
        if known == (cell.id, group, cell.seed) and old["verdict"] is not None:
            earlier = tuple((look["trials"][0], look["trials"][1]) for look in old["looks"])
            wanted = (cell.trials, cell.trials)
            number = earlier.index(wanted) + 1 if wanted in earlier else len(earlier) + 1
            return Looks(earlier, number)
    return FIRST_LOOK
