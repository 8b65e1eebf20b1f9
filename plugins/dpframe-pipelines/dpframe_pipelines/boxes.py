"""Columns of tables, and pipelines as black boxes: functions, or programs in any interpreter."""

from __future__ import annotations

import dataclasses
import difflib
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from pickle import dumps, loads
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import ConfigDict

from dpframe import audit
from dpframe.plugins import (
    ApproxDP,
    Claim,
    ForeignMechanism,
    Ge,
    Gt,
    HostMechanism,
    Lt,
    Pair,
    ParameterError,
    PureDP,
    Record,
    SpecFile,
)

PROGRAMS = Path(__file__).parent / "programs"

ATTACKS = (
    {"use": "answers", "label": "kinds", "params": {"look": "kinds"}},
    {"use": "dpframe-pipelines/features", "label": "cuts"},
    {"use": "dpframe-pipelines/features", "label": "together", "params": {"look": "together"}},
    {"use": "dpframe-pipelines/features", "label": "intervals", "params": {"look": "intervals"}},
    {"use": "answers", "label": "values", "params": {"look": "values"}},
)
"""Attacks of a search: exceptions and other kinds of answers, named features, exact equality."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table, as declared to the pipeline: a user, a key, or a number."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str
    """Name of the column."""
    user: bool = False
    """True if it identifies the user of a row."""
    categories: tuple[str | int, ...] = ()
    """Its possible values, if they are categories."""
    low: float | None = None
    """Lower bound of its numbers."""
    high: float | None = None
    """Upper bound of its numbers."""
    integer: bool = False
    """True if its numbers are integers."""

    def params(self) -> dict[str, Any]:
        """Return the column as a spec has it."""
        fields = dataclasses.asdict(self) | {"categories": list(self.categories)}
        # A bound of 0 is kept: it equals False.
        return {n: v for n, v in fields.items() if v is not None and v is not False and v != []}


def columns_of(given: Sequence[Any], *, users: int) -> tuple[Column, ...]:
    """Read columns and check them.

    Args:
        given: columns, or a dict for each.
        users: number of columns that must identify the user of a row.

    Raises:
        ValueError: the columns are inconsistent.
    """
    if isinstance(given, Mapping):
        given = [{"name": name, **_plain(entry)} for name, entry in given.items()]
    columns = tuple(one if isinstance(one, Column) else _read(one) for one in given)
    if not columns:
        raise ValueError("columns is empty; a table needs at least one column")
    names = [column.name for column in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two columns are named {twice[0]}")
    of_users = [column.name for column in columns if column.user]
    if users and not of_users:
        raise ValueError(
            'no column identifies users: add {"name": "user", "user": True}; if the claim is about '
            "single rows, pass rows_per_user=1 too"
        )
    if len(of_users) > users:
        problem = f"columns {' and '.join(of_users)} have" if users else f"column {of_users[0]} has"
        raise ValueError(f"{problem} user = true; {users or 'no'} column may")
    for column in columns:
        bounded = column.low is not None and column.high is not None and column.low < column.high
        if not (column.user or column.categories or bounded):
            raise ValueError(f"column {column.name}: give its categories, or low and a larger high")
    return columns


OTHER_NAMES = {"min": "low", "max": "high", "lower": "low", "upper": "high", "values": "categories"}
"""Usual names of the parts of a column."""


def _read(given: Any) -> Column:
    """Read a column from a dict."""
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ValueError(f"a column is a dict with its name, not {given!r}")
    name, known = given["name"], [field.name for field in dataclasses.fields(Column)]
    parts = {OTHER_NAMES.get(str(key), str(key)): value for key, value in given.items()}
    if "bounds" in parts:
        parts |= _plain(parts.pop("bounds"))
    for key in parts:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"column {name}: {key} is not one of {', '.join(known)}{hint}")
    categories = parts.get("categories", ())
    if isinstance(categories, str) or not isinstance(categories, Iterable):
        raise ValueError(f"column {name}: categories are a list, not {categories!r}")
    for end in ("low", "high"):
        if not isinstance(parts.get(end), int | float | None):
            raise ValueError(f"column {name}: {end} is {parts[end]!r}, not a number")
    return Column(**{**parts, "categories": tuple(categories)})


def _plain(entry: Any) -> dict[str, Any]:
    """Return a column that is given as bounds, as categories or as a dict."""
    if isinstance(entry, Mapping):
        return dict(entry)
    if isinstance(entry, tuple) and len(entry) == 2 and all(type(x) in (int, float) for x in entry):
        return {"low": entry[0], "high": entry[1]}
    return {"categories": entry}


class Piped(ForeignMechanism):
    """A pipeline as a program: a plain module, in any interpreter.

    It claims (ε, δ). Its `prepare(params, table)` gets `epsilon`, `delta`, `columns` and
    `variant` as parameters.
    """

    module: ClassVar[str | os.PathLike[str]] = PROGRAMS / "adapter.py"

    file: SpecFile
    """The program, relative to the spec; the command line names it too, with --plugin."""
    columns: tuple[Column, ...]
    """The columns of its tables, as declared to the pipeline."""
    epsilon: Annotated[float, Gt(0)]
    """The claimed ε."""
    delta: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The claimed δ."""
    variant: str = ""
    """Passed to the program, which may have several configurations."""

    users: ClassVar[int] = 0
    """Number of columns that identify the user of a row."""

    def check(self) -> None:
        self.consented(self.file.path)
        try:
            columns_of(self.columns, users=self.users)
        except ValueError as error:
            raise ParameterError("columns", str(error)) from None

    def params(self) -> dict[str, Any]:
        return {**super().params(), "columns": [column.params() for column in self.columns]}

    def code(self) -> str:
        return f"{super().code()}+{self.consented(self.file.path).digest}"

    def claim(self, pair: Pair) -> Claim:
        return claim_of(self.epsilon, self.delta)

    def arguments(self) -> dict[str, Any]:
        columns = [column.params() for column in self.columns]
        given = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "columns": columns,
            "variant": self.variant,
        }
        return {"file": str(self.file.path.resolve()), "given": given}


def claim_of(epsilon: float, delta: float) -> Claim:
    """Return the claim of (ε, δ)."""
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


class Budget(NamedTuple):
    """The extent of an audit."""

    trials: int  # draws from each of D and D′, over all pairs
    seconds: float | None
    confidence: float
    seed: int
    limit: float | None = None  # seconds of one draw
    chunk: int | None = None  # draws that a worker makes at a time


def audited(
    pipeline: type[HostMechanism] | dict[str, Any],
    search: dict[str, Any],
    budget: Budget,
    python: str | os.PathLike[str] | None = None,
    several: Sequence[Mapping[str, Any]] = (),
) -> Record:
    """Search for a pair that refutes the claim of a pipeline.

    Args:
        pipeline: a class, or the table of a mechanism whose parameters name a file.
        search: the table [search].
        budget: the extent.
        python: the interpreter of the file; default: this one.
        several: what differs between mechanisms, if there are several: label, parameters, search.
    """
    plugins: list[Any] = []
    if isinstance(pipeline, dict):
        entry = dict(pipeline)
        plugins.append(entry["params"]["file"])
        entry |= {} if python is None else {"environment": "library"}
    else:
        entry = {"use": pipeline.name}
        plugins.append(pipeline)
    entry |= {} if budget.limit is None else {"limit": budget.limit}
    run = {"stop": "decided", "chunk": budget.chunk, "seconds": budget.seconds}
    given = entry.get("params", {})
    entries = [
        {**entry, **own, "params": {**given, **own.get("params", {})}} for own in several or ({},)
    ]
    spec = {
        "schema": 1,
        "audit": {
            "name": entry["use"],
            "trials": budget.trials,
            "confidence": budget.confidence,
            "seed": budget.seed,
        },
        "search": search,
        "mechanism": entries,
        "attack": list(ATTACKS),
        "run": {name: value for name, value in run.items() if value is not None},
    }
    pythons = {} if python is None else {"library": os.fspath(python)}
    return audit(spec, plugins=plugins, pythons=pythons)


def function_box(
    function: Callable[..., Any],
    seeded: bool,
    claim: Claim,
    names_of: Callable[[Pair], Sequence[str]],
    prepare: Callable[[Any], tuple[tuple[Any, ...], Callable[[Any], list[float]]]],
) -> type[HostMechanism]:
    """Return a mechanism that calls a function and returns the numbers of its answer.

    Args:
        function: to call.
        seeded: True if it takes a NumPy generator before its other arguments.
        claim: its claim.
        names_of: returns the names of the numbers for a pair.
        prepare: returns the arguments for a dataset, and a function from an answer to its numbers.
    """

    def release(self: Any, rng: np.random.Generator, data: Any) -> list[float]:
        arguments, numbers = data
        # Each call gets a copy, because some functions change or use up their table.
        result: list[float] = numbers(function(*((rng,) if seeded else ()), *loads(arguments)))
        return result

    def prepared(self: Any, data: Any) -> Any:
        arguments, numbers = prepare(data)
        return dumps(arguments), numbers

    title = str(getattr(function, "__name__", ""))
    title = title if title.isidentifier() and title.isascii() else "pipeline"  # as of a lambda
    body = {
        "__doc__": "A pipeline.",
        "seedable": seeded,
        "claim": lambda self, pair: claim,
        "names_of": lambda self, pair: names_of(pair),
        "prepare": prepared,
        "release": release,
    }
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))
