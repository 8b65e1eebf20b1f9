"""Fits of a synthesizer before the search, which choose the pairs that it begins with."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dpframe import records_params
from dpframe.plugins import ParameterError, find_plugin
from dpframe_pipelines.boxes import Column
from dpframe_pipelines.programs.table_features import Features

SCOUTS = 8
"""Fits of the given table that show which counts never vary, before the search."""

CONTEST = 5
"""Fits of each table that is tried before the search, to choose the first pairs."""

CONFIRMED = 10
"""Fits of each table of a pair before it is chosen."""

FEWEST_CONFIRMED = 3
"""Best pairs that are fitted again, even if fewer are wanted."""

GROUPS = 3
"""Tried pairs whose records differ in some of the columns only."""

FITS_WITHOUT = 2
"""Fits of a table that show if its records are dropped."""

MOST_EQUAL = 16
"""Largest number of equal records tried, to find the fewest that show in an output."""

MOST_EMPTY = 2
"""Records that are tried because cells of a marginal stayed empty."""

OFTEN = 0.3
"""Share of fits in which a record shows that is followed alone."""

LEAST_EMPTY = 2
"""Least number of empty cells of a marginal."""

SELDOM = 0.1
"""Share of fits that is hardly any."""

MOST_COUNTS = 2
"""Pairs that are tried because a count did not vary."""

SCOUTED = 500
"""Records of the given table that are looked up in such counts."""


def targets_of(columns: Sequence[Column]) -> list[list[Any]]:
    """Return the records whose copies are counted: all columns at one end, or at the other."""
    ends = [
        [one.categories[0], one.categories[-1]] if one.categories else [one.low, one.high]
        for one in columns
    ]
    return [[end[at] for end in ends] for at in (0, -1)]


class Scouting:
    """Fits before the search, which choose the pairs that it begins with.

    No bound uses these fits.

    Args:
        fit: the synthesizer.
        features: of its tables.
        params: of the neighbourhood `records`.
        columns: of the tables.
        seed: of the fits.
        seconds: time after which nothing more is fitted; None for no limit.
    """

    def __init__(
        self,
        fit: Callable[[np.random.Generator, Any], Any],
        features: Features,
        params: Mapping[str, Any],
        columns: Sequence[Column],
        seed: int,
        seconds: float | None = None,
    ) -> None:
        self._fit, self._features, self._params = fit, features, params
        self._columns, self._rng = columns, np.random.default_rng([seed, SCOUTS])
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self._known: dict[str, list[list[float]]] = {}
        names = ("table", "columns", "form", "types")
        self._given = {name: params[name] for name in names if name in params}
        self.fits = 0
        """Number of fits so far."""
        self.is_clear = False
        """True if the first pair shows so clearly that the search begins with it alone."""

    def pairs(self, most: int) -> list[dict[str, Any]]:
        """Return the parameters of `records` pairs whose synthetic tables differ each time.

        Pairs with more features that differ each time come first.

        Args:
            most: at most this many.
        """
        if self._usual is None:
            return []
        filling = self.filled_cells()
        self.is_clear = bool(filling)
        return filling or self._apart_pairs(most)

    def _apart_pairs(self, most: int) -> list[dict[str, Any]]:
        """Return pairs whose synthetic tables differ each time; see `pairs`."""
        low, high, mixed, lacking = self._records()
        size = len(self._usual.rows[0])
        halves = [low] * (size - size // 2) + [high] * (size // 2)
        tried = [
            *self.constant_counts(MOST_COUNTS),
            self._pair([low] * size, high, "all others at the lower bounds"),
            self._pair(halves, high, "half of the others at each bound"),
            *(self._pair([high] * size, one, "all others equal") for one in mixed[1:] + lacking),
        ]
        chosen = self._chosen(tried, most)
        if not chosen and mixed:
            # Half of the records are high in some of the columns, the others in none.
            crossed = [low] * (size - size // 2) + [mixed[0]] * (size // 2)
            one = [h if m == lo else lo for lo, h, m in zip(low, high, mixed[0], strict=True)]
            tried = [self._pair(crossed, one, "values of two columns not related in the others")]
            chosen = self._chosen(tried, most)
        return chosen or self._chosen(self._least(low, high, size), most)

    def _chosen(self, tried: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
        apart = [(self._apart(params, CONTEST), params) for params in tried]
        ranked = sorted((one for one in apart if any(one[0])), key=lambda one: one[0], reverse=True)
        chosen: list[dict[str, Any]] = []
        for _, params in ranked[: max(most, FEWEST_CONFIRMED)]:
            # Among many features, some differ by chance in a few fits.
            if len(chosen) < most and any(self._apart(params, CONFIRMED)):
                chosen.append(params)
        return chosen

    def _least(self, low: Any, high: Any, size: int) -> list[dict[str, Any]]:
        """Return the pair with the fewest equal records that show in the outputs.

        Rare records may be dropped below a threshold.
        """

        def rows(number: int) -> list[Any]:
            return [low] * size + [high] * number

        def shows(number: int, at: int) -> bool:
            pair = self._pair(rows(number), high, "")
            made = self._fits(self._without(pair), FITS_WITHOUT)
            return made is not None and bool(made[:, at].any())

        for name in (
            f"{one.name} = {one.categories[-1]}" for one in self._columns if one.categories
        ):
            at = self._features.names.index(f"number of records with {name}")
            least, most = 1, MOST_EQUAL
            if shows(least, at) or not shows(most, at):
                continue
            while most - least > 1:
                middle = (least + most) // 2
                least, most = (least, middle) if shows(middle, at) else (middle, most)
            table = rows(least) if self._adds else [low, *rows(least)]
            return [self._pair(table, high, f"{least} of the others equal it")]
        return []

    def constant_counts(self, most: int) -> list[dict[str, Any]]:
        """Return pairs that change counts that never vary in fits of the given table.

        A private count has noise, so a count that is the same in each synthetic table may be exact.

        Args:
            most: at most this many.

        Returns:
            The parameters of `records` pairs; none if a fit raises an exception.
        """
        usual = self._usual
        if usual is None or (made := self._fits(usual.d0, SCOUTS)) is None:
            return []
        if np.isinf(made[:, 0]).any():  # the search counts exceptions as answers
            return []
        first = self._features.first_marginal
        rows = [list(row) for row in usual.rows[0][:SCOUTED]]
        inside = np.array([self._features.of([row]) for row in rows])[:, first:] > 0
        counts = made[:, first:]
        exact = (counts == counts[0]).all(axis=0) & (counts[0] > 0)
        changes: dict[int, dict[str, Any]] = {}
        for index in np.flatnonzero(exact & inside.any(axis=0) & ~inside.all(axis=0)):
            mine, other = int(np.argmax(inside[:, index])), int(np.argmin(inside[:, index]))
            replaced = {"replace": mine, "by": rows[other]}
            change = {"remove": mine} if self._adds else replaced
            words = f"the {self._features.names[first + index]} did not vary"
            changes.setdefault(mine, {**self._given, "edit": change, "description": words})
        return list(changes.values())[:most]

    def filled_cells(self) -> list[dict[str, Any]]:
        """Return a pair that fills a cell of a marginal that is empty in the given table.

        Counts with noise fill some empty cells of a synthetic table. So if cells of a marginal
        that are empty in the given table are hardly ever filled, they may have got no noise.

        Returns:
            The parameters of a `records` pair, if its record fills the cell of many fits; none if
            no cell is like that, or a fit raises an exception.
        """
        usual = self._usual
        if usual is None or (made := self._fits(usual.d0, SCOUTS)) is None:
            return []
        if np.isinf(made[:, 0]).any():
            return []
        first, rows = self._features.first_marginal, [list(row) for row in usual.rows[0]]
        own = np.array(self._features.of(rows))[first:]
        filled, cells = (made[:, first:] > 0).mean(axis=0), self._features.cells()
        inside = [all(at < self._features.sizes[place] for place, at in cell) for cell in cells]
        marginals = [tuple(place for place, _ in cell) for cell in cells]
        for marginal in sorted(dict.fromkeys(marginals), key=len):
            of = np.array([one == marginal for one in marginals]) & inside
            empty, full = np.flatnonzero(of & (own == 0)), of & (own > 0)
            if len(empty) < LEAST_EMPTY or not full.any():
                continue
            if filled[empty].mean() <= SELDOM * filled[full].mean():
                return self._filling_pair(rows, {first + int(at): cells[at] for at in empty})
        return []

    def _filling_pair(self, rows: list[Any], empty: Mapping[int, Any]) -> list[dict[str, Any]]:
        """Return the pair whose record fills its cell most often; `empty` has cells by feature."""
        filling = [(at, *self._filling(rows, cell)) for at, cell in empty.items()]
        # Among more records of the other columns, one more of them shows more often.
        filling.sort(key=lambda one: -one[2])
        tried = []
        for at, new, _ in filling[:MOST_EMPTY]:
            pair = self._pair(rows, new, f"the {self._features.names[at]} was 0 without it")
            made = self._fits(self._with(pair), CONTEST)
            tried.append((0.0 if made is None else float((made[:, at] > 0).mean()), at, pair))
        _, at, pair = max(tried, key=lambda one: one[0])
        sides = self._fits(self._without(pair), CONFIRMED), self._fits(self._with(pair), CONFIRMED)
        if any(made is None for made in sides):
            return []
        without, with_record = (float((made[:, at] > 0).mean()) for made in sides)
        return [pair] if with_record >= OFTEN and without <= SELDOM else []

    def _without(self, params: dict[str, Any]) -> Any:
        return find_plugin("pair", "records").from_params(params).d0

    def _with(self, params: dict[str, Any]) -> Any:
        return find_plugin("pair", "records").from_params(params).d1

    def _filling(self, rows: list[Any], cell: Sequence[tuple[int, int]]) -> tuple[list[Any], int]:
        """Return a record of a cell, and the number of records that share all but one column."""
        wanted = {self._columns[place].name: (place, at) for place, at in cell}
        places = {name: place for place, name in enumerate(self._names)}

        def shares(row: Sequence[Any]) -> int:
            return sum(
                self._features.code(place, row[places[name]]) == at
                for name, (place, at) in wanted.items()
            )

        best = max(map(shares, rows))
        near = [row for row in rows if shares(row) == best]
        new = list(near[0])
        for name, (place, at) in wanted.items():
            if self._features.code(place, new[places[name]]) != at:
                new[places[name]] = self._features.value(place, at)
        return new, len(near)

    def _records(self) -> tuple[Any, Any, list[Any], list[Any]]:
        """Return plain records.

        Returns:
            The lower bounds; the upper ones; records with upper bounds in some of the columns and
            lower ones in the others, if there are several columns; and one that lacks the values
            that records of the given table lack, if there are such.
        """
        given = self._usual.rows[0]
        record = dict(zip(self._names, given[0], strict=False))
        ends = [record.copy(), record.copy()]
        for column, low, high in zip(self._columns, *targets_of(self._columns), strict=True):
            if column.name in record:
                ends[0][column.name], ends[1][column.name] = low, high
        low, high = (list(end.values()) for end in ends)
        number = min(GROUPS, len(low)) if len(low) > 1 else 0
        mixed = [
            [(low, high)[place % number == at][place] for place in range(len(low))]
            for at in range(number)
        ]
        lacks = [
            any(row[place] != row[place] or row[place] is None for row in given)
            for place in range(len(low))
        ]
        lacking = [None if lost else cell for lost, cell in zip(lacks, high, strict=True)]
        return low, high, mixed, [lacking] * any(lacks)

    def _pair(self, rows: list[Any], new: Any, words: str) -> dict[str, Any]:
        """Return a pair whose D′ has a new record, or has it in place of another one."""
        table = records_params([*rows, new], adjacency=self._params["adjacency"])["table"]
        change = {"add": table[-1]} if self._adds else {"replace": 0, "by": table[-1]}
        own = {**self._given, "columns": self._names, "table": table[:-1]}
        return {**own, "edit": change, "description": f"one record differs; {words}"}

    @property
    def _names(self) -> list[str]:
        """Names of the columns."""
        table = self._given["table"]
        first = table if isinstance(table, dict) else table[0]
        listed = [*first] if isinstance(first, dict) else [one.name for one in self._columns]
        return self._given.get("columns") or listed

    @property
    def _adds(self) -> bool:
        return bool(self._params["adjacency"] == "add-remove")

    @property
    def _usual(self) -> Any:
        """A pair whose first table is the given one; None if that is empty."""
        try:
            edit = {"edit": {"remove": 0}}
            return find_plugin("pair", "records").from_params({**self._given, **edit})
        except ParameterError:
            return None

    def _apart(self, params: dict[str, Any], number: int) -> tuple[int, int]:
        """Count the features that differ in all fits of D from those in all of D′.

        Returns:
            The number of those that are constant on D or D′, and the number of all.
        """
        pair: Any = find_plugin("pair", "records").from_params(params)
        x, y = (self._fits(data, number) for data in (pair.d0, pair.d1))
        if x is None or y is None:
            return 0, 0
        apart = (x.max(axis=0) < y.min(axis=0)) | (y.max(axis=0) < x.min(axis=0))
        constant = (x == x[0]).all(axis=0) | (y == y[0]).all(axis=0)
        return int((apart & constant).sum()), int(apart.sum())

    def _fits(self, data: Any, least: int) -> Any:
        """Return the features of at least so many fits of a table, [fits, features].

        Fits of equal tables are made once. The features of an exception are infinite.

        Returns:
            None if the time is over.
        """
        fits = self._known.setdefault(repr(data), [])
        while len(fits) < least:
            if time.monotonic() > self._end:
                return None
            self.fits += 1
            try:
                # The synthesizer may change its table.
                fits.append(self._features.of(self._fit(self._rng, copy.deepcopy(data))))
            except Exception:
                fits.append([math.inf] * len(self._features.names))
        return np.array(fits)
