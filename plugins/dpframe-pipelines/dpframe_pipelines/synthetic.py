"""Audits of synthesizers: fit them to neighbouring tables, and compare the synthetic tables."""

from __future__ import annotations

import inspect
import json
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

SCOUTED = 500
"""Records of the given table that are looked up in such counts."""

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


def constant_counts(
    fit: Callable[[np.random.Generator, Any], Any],
    features: Features,
    params: Mapping[str, Any],
    most: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Fit the given table a few times, and return pairs that change counts that never varied.

    A private count has noise, so a count that is the same in each synthetic table may be exact.
    No bound uses these fits.

    Args:
        fit: the synthesizer.
        features: of its tables.
        params: of the neighbourhood `records`.
        most: at most this many pairs.
        seed: of the fits.

    Returns:
        The parameters of `records` pairs; none if a fit raises an exception.
    """
    given = {name: params[name] for name in ("table", "columns", "form", "types") if name in params}
    try:
        usual: Any = find_plugin("pair", "records").from_params({**given, "edit": {"remove": 0}})
    except ParameterError:  # an empty table
        return []
    rng = np.random.default_rng([seed, SCOUTS])
    try:
        made = np.array([features.of(fit(rng, usual.d0)) for _ in range(SCOUTS)])
    except Exception:  # the search counts it as an answer
        return []
    rows = [list(row) for row in usual.rows[0][:SCOUTED]]
    inside = np.array([features.of([row]) for row in rows])[:, features.first_marginal :] > 0
    counts = made[:, features.first_marginal :]
    exact = (counts == counts[0]).all(axis=0) & (counts[0] > 0)
    found: dict[int, dict[str, Any]] = {}
    for at in np.flatnonzero(exact & inside.any(axis=0) & ~inside.all(axis=0)):
        mine, other = int(np.argmax(inside[:, at])), int(np.argmin(inside[:, at]))
        replaced = {"replace": mine, "by": rows[other]}
        change = {"remove": mine} if params["adjacency"] == "add-remove" else replaced
        words = f"the {features.names[features.first_marginal + at]} did not vary"
        found.setdefault(mine, {**given, "edit": change, "description": words})
    return list(found.values())[:most]


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
        if batch > 1 and limit is None:  # a limit holds in the search alone
            seeded = len(inspect.signature(fit).parameters) > 1
            plain: Any = fit if seeded else lambda rng, data: fit(data)
            fits -= SCOUTS
            if planted := constant_counts(plain, features, params, batch - 1, seed):
                texts = [json.dumps(one) for one in planted]
                both = {"records": json.dumps(params), "pairs": texts}
                search = {"use": "planted-records", "params": both}
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
