"""Audits of synthesizers: fit them to neighbouring tables, and compare the synthetic tables."""

from __future__ import annotations

import inspect
import json
import math
import time
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpframe import records_params
from dpframe.plugins import Neighbourhood, ParameterError, find_plugin
from dpframe_pipelines.boxes import Budget, Piped, audited, claim_of, columns_of, function_box
from dpframe_pipelines.programs.table_features import Features

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from dpframe.plugins import Earned, Pair, Record
    from dpframe_pipelines.boxes import Column

FITS_OF_A_PAIR = 200
"""A search begins with one pair for each this many fits."""

SCOUTS = 8
"""Fits of the given table that show which counts never vary, before the search."""

CONTEST = 5
"""Fits of each table that is tried before the search, to choose the first pairs."""

CONFIRMED = 10
"""Fits of the tables of a pair after which it is chosen."""

AGAIN = 3
"""Pairs that are fitted again, at least, before a single one is chosen."""

GROUPS = 3
"""Pairs that are tried whose records differ in some of the columns alone."""

FEW = 2
"""Fits of a table that show if its records are dropped."""

MOST_EQUAL = 16
"""Equal records that a table has at most if the least number is sought that shows in an output."""

MOST_COUNTS = 2
"""Pairs that are tried because a count did not vary."""

SCOUTED = 500
"""Records of the given table that are looked up in such counts."""

SHARE = 0.25
"""Share of the time limit after which no more tables are tried before the search."""

TRIED = 4
"""Fits on each table of the first pair before the search, to check that fits are independent."""

MOST_PAIRS = 36
"""A search begins with at most this many pairs."""


def targets_of(columns: Sequence[Column]) -> list[list[Any]]:
    """Return the records whose copies are counted: all columns at one end, or at the other."""
    ends = [
        [one.categories[0], one.categories[-1]] if one.categories else [one.low, one.high]
        for one in columns
    ]
    return [[end[at] for end in ends] for at in (0, -1)]


class Synthesizer(Piped, name="synthesizer"):
    """A synthesizer: a program whose `prepare(params, table)` returns a function that fits it.

    That function returns a synthetic table: a frame, a dict of columns, dicts, or rows. The output
    lists the features of the table: rows, missing and unknown values, smallest and largest numbers,
    copies of the two extreme records, and marginals of up to three columns.
    """

    def features(self) -> Features:
        """The features of a synthetic table."""
        told = [column.params() for column in self.columns]
        return Features(told, targets_of(self.columns))

    def names_of(self, pair: Pair) -> list[str]:
        """Return the names of the features."""
        return self.features().names

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "targets": targets_of(self.columns)}


class PlantedRecords(Neighbourhood, name="planted-records"):
    """The given pairs first, then those of the neighbourhood `records`."""

    one_shape: ClassVar[bool] = False

    records: str
    """The parameters of the neighbourhood `records`, as JSON."""
    pairs: tuple[str, ...]
    """The parameters of `records` pairs, as JSON."""

    @property
    def _records(self) -> Any:
        return find_plugin("neighbourhood", "records").from_params(json.loads(self.records))

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        return str(self._records.adjacency)

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        found = list(self._records.propose(rng, history))
        made = [find_plugin("pair", "records").from_params(json.loads(p)) for p in self.pairs]
        return found if history else [*made, *found][: max(len(found), len(made))]


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

    def pairs(self, most: int) -> list[dict[str, Any]]:
        """Return the parameters of `records` pairs whose synthetic tables differ each time.

        Pairs with more features that differ each time come first.

        Args:
            most: at most this many.
        """
        if self._usual is None:
            return []
        low, high, far, *others = self._records()
        size = len(self._usual.rows[0])
        halves = [low] * (size - size // 2) + [high] * (size // 2)
        tried = [
            *self.constant_counts(MOST_COUNTS),
            self._pair([low] * size, high, "all others at the lower bounds"),
            self._pair(halves, high, "half of the others at each bound"),
            *(self._pair([high] * size, other, "all others equal") for other in others),
        ]
        found = self._chosen(tried, most)
        if not found and others:
            # The values of some columns in half of the records, and those of the others.
            crossed = [low] * (size - size // 2) + [far] * (size // 2)
            one = [h if f == lo else lo for lo, h, f in zip(low, high, far, strict=True)]
            tried = [self._pair(crossed, one, "values of two columns not related in the others")]
            found = self._chosen(tried, most) or self._chosen(self._least(low, high, size), most)
        return found

    def _chosen(self, tried: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
        apart = [(self._apart(params, CONTEST), params) for params in tried]
        ranked = sorted((one for one in apart if any(one[0])), key=lambda one: one[0], reverse=True)
        found: list[dict[str, Any]] = []
        for _, params in ranked[: max(most, AGAIN)]:
            # Among many features, some differ by chance in a few fits.
            if len(found) < most and any(self._apart(params, CONFIRMED)):
                found.append(params)
        return found

    def _least(self, low: Any, high: Any, size: int) -> list[dict[str, Any]]:
        """Return the pair with the least number of equal records that shows in the outputs.

        Rare records may be dropped below a threshold.
        """

        def rows(number: int) -> list[Any]:
            return [low] * size + [high] * number

        def shows(number: int, at: int) -> bool:
            pair = self._pair(rows(number), high, "")
            made = self._fits(find_plugin("pair", "records").from_params(pair).d0, FEW)
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
        found: dict[int, dict[str, Any]] = {}
        for at in np.flatnonzero(exact & inside.any(axis=0) & ~inside.all(axis=0)):
            mine, other = int(np.argmax(inside[:, at])), int(np.argmin(inside[:, at]))
            replaced = {"replace": mine, "by": rows[other]}
            change = {"remove": mine} if self._adds else replaced
            words = f"the {self._features.names[first + at]} did not vary"
            found.setdefault(mine, {**self._given, "edit": change, "description": words})
        return list(found.values())[:most]

    def _records(self) -> list[list[Any]]:
        """Return plain records.

        Returns:
            The lower bounds, the upper ones, and upper ones in some of the columns and lower ones
            in the others; also one that lacks the values that records of the given table lack.
        """
        given = self._usual.rows[0]
        record = dict(zip(self._names, given[0], strict=False))
        ends = [record.copy(), record.copy()]
        for column, low, high in zip(self._columns, *targets_of(self._columns), strict=True):
            if column.name in record:
                ends[0][column.name], ends[1][column.name] = low, high
        low, high = (list(end.values()) for end in ends)
        number = min(GROUPS, len(low)) if len(low) > 1 else 0
        found = [low, high]
        found += [
            [(low, high)[place % number == at][place] for place in range(len(low))]
            for at in range(number)
        ]
        lacks = [
            any(row[place] != row[place] or row[place] is None for row in given)
            for place in range(len(low))
        ]
        if any(lacks):
            found.append([None if lost else cell for lost, cell in zip(lacks, high, strict=True)])
        return found

    def _pair(self, rows: list[Any], new: Any, words: str) -> dict[str, Any]:
        """Return a pair whose D′ has a new record, or has it in place of another one."""
        told = records_params([*rows, new], adjacency=self._params["adjacency"])["table"]
        change = {"add": told[-1]} if self._adds else {"replace": 0, "by": told[-1]}
        own = {**self._given, "columns": self._names, "table": told[:-1]}
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
        found = self._known.setdefault(repr(data), [])
        while len(found) < least:
            if time.monotonic() > self._end:
                return None
            self.fits += 1
            try:
                found.append(self._features.of(self._fit(self._rng, data)))
            except Exception:
                found.append([math.inf] * len(self._features.names))
        return np.array(found)


def audit_synthesizer(
    fit: Callable[..., Any] | str | os.PathLike[str],
    table: Any,
    *,
    columns: Sequence[Mapping[str, Any]],
    epsilon: float,
    delta: float = 0.0,
    adjacency: Literal["add-remove", "replace"] = "add-remove",
    fits: int = 1000,
    pairs: int | None = None,
    seconds: float | None = None,
    limit: float | None = None,
    beyond: bool = False,
    form: str | None = None,
    python: str | os.PathLike[str] | None = None,
    confidence: float = 0.999,
    seed: int = 0,
) -> Record:
    """Search for neighbouring tables whose synthetic tables refute a claim.

    Args:
        fit: returns a synthetic table, called as `fit(table)`, or as `fit(rng, table)` with a NumPy
            generator for all of its randomness; or the path of a program, as for `synthesizer`.
        table: an ordinary table, in any form that `dpframe.records_params` takes.
        columns: a dict for each column: `name`, and `categories`, or `low`, `high` and `integer`,
            as the synthesizer is told.
        epsilon: the claimed ε.
        delta: the claimed δ.
        adjacency: "add-remove" if a record is added or removed, "replace" if one is replaced.
        fits: total number of calls of `fit`, over all tables.
        pairs: number of pairs of tables to begin with; default: one for each 200 fits, at most 36.
        seconds: time limit of the search.
        limit: time limit of one fit in seconds; a fit that exceeds it counts as TimeoutError.
        beyond: True if records may lie outside `columns`: outliers, new categories, NaN.
        form: the form in which `fit` gets tables, such as "frame"; default: that of `table`.
        python: the interpreter of a program; default: this one.
        confidence: of the verdict.
        seed: of all randomness.

    Returns:
        The record. Its witness is the pair of tables and the event with the strongest evidence. A
        consistent record never means that the synthesizer is private.
    """
    known = columns_of(columns, users=0)
    told = [column.params() for column in known]
    batch = pairs or max(1, min(MOST_PAIRS, fits // FITS_OF_A_PAIR))
    more: dict[str, Any] = {"form": form, "beyond": beyond, "batch": batch}
    params = records_params(table, adjacency=adjacency, schema=told, **more)
    search: dict[str, Any] = {"use": "records", "params": params}
    if callable(fit):
        features = Features(told, targets_of(known))
        if fits >= FITS_OF_A_PAIR and limit is None:  # a limit holds in the search alone
            seeded = len(inspect.signature(fit).parameters) > 1
            plain: Any = fit if seeded else lambda rng, data: fit(data)
            before = time.monotonic()
            most = None if seconds is None else SHARE * seconds
            scouting = Scouting(plain, features, params, known, seed, most)
            if planted := scouting.pairs(max(1, batch - 1)):
                texts = [json.dumps(one) for one in planted]
                both = {"records": json.dumps(params), "pairs": texts}
                search = {"use": "planted-records", "params": both}
            fits -= scouting.fits
            if seconds is not None:
                seconds = max(seconds - (time.monotonic() - before), (1 - SHARE) * seconds)
        pipeline: Any = function_box(
            fit,
            1,
            claim_of(epsilon, delta),
            lambda pair: features.names,
            lambda data: ((data,), features.of),
        )
    else:
        given = {"file": str(fit), "columns": told, "epsilon": epsilon, "delta": delta}
        pipeline = {"use": "synthesizer", "params": given}
    budget = Budget(max(1, fits // 2 - TRIED), seconds, confidence, seed, limit, chunk=2)
    return audited(pipeline, search, budget, python)
