"""Audits of synthesizers: fit them to neighbouring tables, and compare the synthetic tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dpframe import records_params
from dpframe_pipelines.boxes import Budget, Piped, audited, claim_of, columns_of, function_box
from dpframe_pipelines.programs.table_features import Features

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from dpframe.plugins import Pair, Record
    from dpframe_pipelines.boxes import Column

FITS_OF_A_PAIR = 200
"""A search begins with one pair for each this many fits."""

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
    if callable(fit):
        features = Features(told, targets_of(known))
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
    return audited(pipeline, {"use": "records", "params": params}, budget, python)
