"""Numbers from elsewhere, a paper's table for example, to be drawn beside those of a record."""

from __future__ import annotations

import csv
import itertools
import math
from typing import TYPE_CHECKING

from dpframe.errors import DpframeError
from dpframe.report.words import number

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord

MECHANISM, EPSILON = "mechanism", "epsilon"


class Published:
    """A table: for mechanisms and swept values the ε that somebody else found."""

    def __init__(self, text: str, name: str) -> None:
        """Reads it.

        Args:
            text: CSV with the columns `mechanism` (a label or the name of a plugin), `epsilon`
                (inf is allowed) and the swept keys, or other parameters, that tell the cells of a
                mechanism apart. Lines before these that begin with # are left out.
            name: of the file, for messages.

        Raises:
            DpframeError: columns are missing, or a value is no number.
        """
        rows = text.splitlines()
        before = sum(1 for row in itertools.takewhile(lambda row: row.startswith("#"), rows))
        lines = csv.DictReader(rows[before:])
        columns = list(lines.fieldnames or ())
        if missing := [c for c in (MECHANISM, EPSILON) if c not in columns]:
            raise DpframeError(f"{name}: no column {' and no column '.join(missing)}")
        self.name = name
        self.keys = [column for column in columns if column not in (MECHANISM, EPSILON)]
        self._found: dict[tuple[str, ...], float] = {}
        for row in lines:
            try:
                epsilon = float(row[EPSILON])
                place = [_same(row[key]) for key in self.keys]
            except (TypeError, ValueError):
                epsilon, place = math.nan, []
            if math.isnan(epsilon) or epsilon < 0:
                where = f"{name}:{before + lines.line_num}"
                raise DpframeError(f"{where}: epsilon is {row[EPSILON]!r}; a loss is wanted")
            self._found[(str(row[MECHANISM]), *place)] = epsilon

    def of(self, cell: CellRecord) -> float | None:
        """The number for a cell, if there is one."""
        known = [_setting(cell, key) for key in self.keys]
        if any(value is None for value in known):
            return None
        place = [_same(value) for value in known]
        found = (
            self._found.get((who, *place)) for who in (cell.mechanism.label, cell.mechanism.use)
        )
        return next((epsilon for epsilon in found if epsilon is not None), None)


def _setting(cell: CellRecord, key: str) -> object:
    """Value of a swept key, or of a parameter that is the same in all cells; None for neither."""
    part, _, name = key.partition(".")
    if key in cell.swept or part not in ("mechanism", "pair", "attack", "estimator"):
        return cell.swept.get(key)
    return getattr(cell, part).params.get(name)


def _same(value: object) -> str:
    """Equal for equal values: 1, 1.0 and "1" are."""
    if isinstance(value, str):
        try:
            return repr(float(value))
        except ValueError:
            return value
    known = number(value)
    return str(value) if known is None else repr(known)
