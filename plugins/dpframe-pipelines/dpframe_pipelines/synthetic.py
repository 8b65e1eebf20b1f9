"""Audits of synthesizers: fit them to neighbouring tables, and compare the synthetic tables."""

from __future__ import annotations

import contextlib
import copy
import difflib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from dpframe import records_params
from dpframe.plugins import (
    DpframeError,
    Earned,
    Neighbourhood,
    Pair,
    ParameterError,
    Record,
    find_plugin,
)
from dpframe_pipelines.boxes import Budget, Piped, audited, claim_of, columns_of, function_box
from dpframe_pipelines.programs.table_features import Features
from dpframe_pipelines.scouting import Scouting, targets_of
from dpframe_pipelines.trial_calls import check_tables, fits_of, takes_generator

FITS_OF_A_PAIR = 200
"""A search begins with one pair per this many fits."""

NUMBERS = (200, 400, 1_000, 2_000, 4_000, 10_000)
"""Default numbers of fits. Only steps, so that the number hardly depends on the load."""

SHORT, LONG = 30.0, 300.0
"""Seconds of fits, one after another: the largest number that takes SHORT is chosen, or the usual
one if it takes at most LONG."""

USUAL = 1_000
"""Fits of a program, and of a function whose fits take 30 to 300 ms."""

TIMED = 12
"""Fits that are timed, at most; the fastest counts, because the machine may be busy."""

SHARE = 0.25
"""Share of the time limit after which no more tables are tried before the search."""

TRIED = 4
"""Fits on each table of the first pair before the search, to check that fits are independent."""

MOST_PAIRS = 36
"""A search begins with at most this many pairs."""


MOST_FEATURES = 64
"""Planned pairs whose features a record lists as untried."""

ORDINARY = "another record of the given table"


class Synthesizer(Piped, name="synthesizer"):
    """A synthesizer: a program whose `prepare(params, table)` returns a function that fits it.

    That function returns a synthetic table: a frame, a dict of columns, dicts, or rows. The output
    lists the features of the table: rows, missing and unknown values, smallest and largest numbers,
    copies of the two extreme records, and marginals of up to three columns.
    """

    def features(self) -> Features:
        """Return features of a synthetic table."""
        columns = [column.params() for column in self.columns]
        return Features(columns, targets_of(self.columns))

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
    fits: str = ""
    """The number of fits of the synthesizer, and the reason for it."""

    @property
    def _records(self) -> Any:
        return find_plugin("neighbourhood", "records").from_params(json.loads(self.records))

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        return str(self._records.adjacency)

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        proposed = list(self._records.propose(rng, history))
        planted = [find_plugin("pair", "records").from_params(json.loads(p)) for p in self.pairs]
        return proposed if history else [*planted, *proposed][: max(len(proposed), len(planted))]

    def features(self, pair: Pair) -> Sequence[str]:
        """Return the feature of a pair: its description, without the extent of the table."""
        planted = [json.loads(text).get("description") for text in self.pairs]
        return [pair.description if pair.description in planted else _feature(pair)]

    def all_features(self) -> Sequence[str]:
        """Return the features of the planned pairs of `records`."""
        many = {**json.loads(self.records), "batch": MOST_FEATURES}
        planned = find_plugin("neighbourhood", "records").from_params(many)
        made: Any = planned.propose(np.random.default_rng(0), [])
        return list(dict.fromkeys(map(_feature, made)))


def _feature(pair: Pair) -> str:
    words, separator, _ = pair.description.partition("; ")
    return words if separator else ORDINARY


def _check_names(table: Any, columns: Sequence[str]) -> None:
    """Raise DpframeError if a table with names lacks a column of the schema."""
    first = table[0] if isinstance(table, list | tuple) and table else table
    own = first if isinstance(first, dict) else getattr(first, "columns", None)
    names = columns if own is None else [str(name) for name in own]
    for column in columns:
        if column not in names:
            close = difflib.get_close_matches(column, names, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise DpframeError(f"columns: the table has no column {column}{hint}")


def _given_table(params: Mapping[str, Any]) -> Any:
    """Return the given table in the form of a fit; None if it is empty."""
    names = ("table", "columns", "form", "types")
    given = {name: params[name] for name in names if name in params}
    try:
        pair: Any = find_plugin("pair", "records").from_params({**given, "edit": {"remove": 0}})
    except ParameterError:
        return None
    return pair.d0


def _tried(
    fit: Callable[..., Any],
    params: Mapping[str, Any],
    features: Features,
    seed: int,
    limit: float | None,
) -> int:
    """Fit the given table, and return the number of fits; see `check_tables`."""
    if (table := _given_table(params)) is None:
        return 0
    rng = np.random.default_rng([seed, TRIED])
    attempts = list(
        fits_of(
            lambda data: fit(rng, data),
            lambda: copy.deepcopy(table),
            lambda table: {"problems": features.problems(table)},
            limit,
        )
    )
    check_tables(attempts)
    return len(attempts)


def fits_for(seconds: float) -> int:
    """Return the default number of fits if one takes so many seconds."""
    affordable = [number for number in NUMBERS if number * seconds <= SHORT]
    usual = [number for number in NUMBERS if number * seconds <= LONG and number <= USUAL]
    return max([NUMBERS[0], *affordable, *usual])


def _reason(fits: int, seconds: float) -> str:
    """Explain a number of fits without the time itself, which differs from run to run."""
    total = next((each for each in (SHORT, LONG) if fits * seconds <= each), None)
    within = f"which take less than {total:g} s" if total else "because each one is slow"
    return f"{fits:,} fits by default, {within}"


def _timed(fit: Callable[..., Any], features: Features, table: Any, seed: int) -> tuple[float, int]:
    """Return the seconds of the fastest of some fits, features included, and their number."""
    rng, times = np.random.default_rng([seed, TIMED]), [math.inf]
    while len(times) <= TIMED and NUMBERS[-1] * min(times) > SHORT:
        data, begun = copy.deepcopy(table), time.perf_counter()
        with contextlib.suppress(Exception):  # exceptions are answers to the search
            features.of(fit(rng, data))
        times.append(time.perf_counter() - begun)
        if times[-1] > LONG / USUAL:
            break
    return min(times), len(times) - 1


def audit_synthesizer(
    fit: Callable[..., Any] | str | os.PathLike[str],
    table: Any,
    *,
    columns: Sequence[Mapping[str, Any]],
    epsilon: float,
    delta: float = 0.0,
    adjacency: Literal["add-remove", "replace"] = "add-remove",
    fits: int | None = None,
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
        fits: total number of calls of `fit`, over all tables. Default: what a fit takes decides;
            10,000 if it takes at most 3 ms, 4,000 up to 7.5 ms, 1,000 up to 0.3 s, 200 from 0.75 s
            on. A program gets 1,000. The record has the number and the reason.
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

    Raises:
        DpframeError: `columns` do not fit the table, or all trial fits of it raise an exception or
            show nothing of some column; the message names the column or the line.
    """
    known = columns_of(columns, users=0)
    _check_names(table, [column.name for column in known])
    schema = [column.params() for column in known]
    more: dict[str, Any] = {"form": form, "beyond": beyond}
    params = records_params(table, adjacency=adjacency, schema=schema, **more)
    tried, reason = 0, ""
    if callable(fit):
        features = Features(schema, targets_of(known))
        seeded = takes_generator(fit, "table")
        plain: Any = fit if seeded else lambda rng, data: fit(data)
        tried = _tried(plain, params, features, seed, limit)
    if fits is None:
        fits = USUAL
        if callable(fit) and tried and limit is None:
            taken, timed = _timed(plain, features, _given_table(params), seed)
            tried += timed
            fits = fits_for(taken)
            reason = _reason(fits, taken)
    batch = pairs or max(1, min(MOST_PAIRS, fits // FITS_OF_A_PAIR))
    params = {**params, "batch": batch}
    first, texts = params, tuple[str, ...]()
    fits -= tried
    if callable(fit):
        if fits >= FITS_OF_A_PAIR - 1 and limit is None:  # a limit holds in the search alone
            before = time.monotonic()
            most = None if seconds is None else SHARE * seconds
            scouting = Scouting(plain, features, params, known, seed, most)
            if planted := scouting.pairs(max(1, batch - 1)):
                texts = tuple(json.dumps(one) for one in planted)
                first = {**params, "batch": 1} if scouting.is_clear and pairs is None else params
            fits -= scouting.fits
            if seconds is not None:
                seconds = max(seconds - (time.monotonic() - before), (1 - SHARE) * seconds)
        pipeline: Any = function_box(
            fit,
            seeded,
            claim_of(epsilon, delta),
            lambda pair: features.names,
            lambda data: ((data,), features.of),
        )
    else:
        given = {"file": str(fit), "columns": schema, "epsilon": epsilon, "delta": delta}
        pipeline = {"use": "synthesizer", "params": given}
    both: dict[str, Any] = {"records": json.dumps(first), "pairs": texts}
    if reason:
        both["fits"] = reason
    search = {"use": "planted-records", "params": both}
    budget = Budget(max(1, fits // 2 - TRIED), seconds, confidence, seed, limit, chunk=2)
    return audited(pipeline, search, budget, python)
