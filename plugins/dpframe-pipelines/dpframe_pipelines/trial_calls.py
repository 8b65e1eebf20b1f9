"""Calls before a search, which find adapters that answer nothing, or nothing that can be read.

No bound uses their answers; they only stop an audit, or choose the queries that it asks.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pickle import dumps, loads
from typing import Any, NamedTuple

import numpy as np

from dpframe import DpframeError, UndecidedError
from dpframe_pipelines.boxes import PROGRAMS, Budget
from dpframe_pipelines.own_tables import tables_of
from dpframe_pipelines.programs import queries, trials
from dpframe_pipelines.programs.queries import AnyQuery

SECONDS = 10.0
"""Time of all trial calls together, in seconds, at most."""

SHARE = 0.1
"""Share of the time limit of a search that its trial calls take, at most."""

SLIPS = ("KeyError", "IndexError", "NameError", "AttributeError", "TypeError", "ImportError")
"""Classes of exceptions by which code fails that has a mistake, and not because of its input."""

REFUSALS = re.compile(
    r"support|implement|not allowed|not permitted|unknown (query|aggregate)", re.I
)
"""Texts of exceptions that say that an engine does not answer such queries."""

FEWEST_ANSWERS = 6
"""Number of equal values from which answers are constant."""

TRIED_AGAIN = 3
"""Trial fits of a table if the first ones have a problem."""

GENERATORS = ("rng", "generator", "gen", "random", "random_state", "prng", "rand")
"""Names of a parameter that takes the generator."""

BUDGETS = ("epsilon", "eps", "delta", "budget")
"""Names of a parameter that takes a claim, which audits do not pass."""

NOTHING = "so nothing was tested"


def takes_generator(function: Callable[..., Any], *wanted: str) -> bool:
    """True if a function takes a generator before its other arguments, which are named.

    Raises:
        DpframeError: the function takes other arguments.
    """
    try:
        every = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of a compiled module
        return False
    places = [one for one in every if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one.name for one in places if one.default is one.empty]
    name, usual = getattr(function, "__name__", "the function"), ", ".join(wanted)
    calls = f"it is called as {name}({usual}) or {name}(rng, {usual})"
    for other in needed[1:]:
        if other.lower() in GENERATORS:
            raise DpframeError(f"{name} takes {other} as a later argument: {calls}")
        if other.lower() in BUDGETS:
            raise DpframeError(f"{name} needs {other}: {calls}; bind it with functools.partial")
    least = len(wanted) + any(one.lower() in GENERATORS for one in needed[:1])
    if len(needed) > len(wanted) + 1 or (places and len(places) < least and places == [*every]):
        raise DpframeError(f"{name} takes {', '.join(one.name for one in places)}: {calls}")
    return len(needed) > len(wanted) or (
        len(places) > len(wanted) and places[0].name.lower() in GENERATORS
    )


class Tried(NamedTuple):
    """A trial call."""

    query: AnyQuery
    outcome: Mapping[str, Any]  # see `trials.trial`


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """Call with a time limit; None if it is exceeded. The thread is abandoned then."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None


def of_engine(
    engine: Any,
    cases: Sequence[Mapping[str, Any]],
    categories: Any,
    until: float,
    limit: float | None = None,
) -> Iterator[Tried]:
    """Yield trial calls of an engine until a time on the monotonic clock.

    With a limit of one call, calls are made in a thread; a call that exceeds it is the last. Notes
    if the engine changes its tables.
    """
    rng = [np.random.default_rng(0)] if engine.seeded else []
    for data in cases:
        query = queries.read(data["query"])
        read = trials.read_by(query, queries.keys_of(query, categories), queries)
        tables = tables_of(loads(dumps(dict(data))))
        before = dumps(tables)

        def call(tables: Any = tables, query: Any = query) -> Any:
            ask = engine.prepare(tables)
            try:
                return ask(*rng, query)
            finally:
                getattr(ask, "close", lambda: None)()

        attempt = partial(trials.trial, call, read)
        outcome = attempt() if limit is None else within(limit, attempt)
        if hasattr(engine, "copies") and dumps(tables) != before:
            engine.copies = True
        if outcome is not None:
            yield Tried(query, outcome)
        if outcome is None or time.monotonic() > until:
            return


def trial_calls(
    engine: Any,
    settings: Mapping[str, Any],
    cases: Sequence[Mapping[str, Any]],
    categories: Any,
    budget: Budget,
    python: Any = None,
) -> list[Tried]:
    """Return trial calls of an engine, or of the program at a path with its `settings`."""
    share = math.inf if budget.seconds is None else SHARE * budget.seconds
    until = time.monotonic() + min(SECONDS, share)
    if not isinstance(engine, str | os.PathLike):
        return list(of_engine(engine, cases, categories, until, budget.limit))
    given = {"file": str(Path(engine).resolve()), "given": settings, "categories": categories}
    return list(of_program(given, cases, None if python is None else os.fspath(python), until))


def of_program(
    params: Mapping[str, Any], cases: Sequence[Mapping[str, Any]], python: str | None, until: float
) -> Iterator[Tried]:
    """Yield trial calls of a program in its interpreter until a time on the monotonic clock."""
    command = [python or sys.executable, str(PROGRAMS / "adapter.py")]
    request = json.dumps({"params": params, "cases": cases})
    try:
        remaining = until - time.monotonic()
        done = subprocess.run(
            command, input=request.encode(), capture_output=True, timeout=remaining, check=False
        )
        out = done.stdout
    except subprocess.TimeoutExpired as error:
        out = error.stdout or b""
    except OSError:  # the search names an interpreter that does not run
        return
    for data, line in zip(cases, out.splitlines(), strict=False):
        yield Tried(queries.read(data["query"]), json.loads(line))


def unanswered(calls: Sequence[Tried], columns: Sequence[str]) -> list[str]:
    """Return the parts of queries that are never answered, because the engine refuses them.

    Args:
        calls: trial calls on ordinary tables, the last of them on smaller ones.
        columns: names of all columns.

    Raises:
        DpframeError: no answer can be read, or some kind of query fails by a mistake.
        UndecidedError: all answers are one number.
    """
    answered = [one for one in calls if "raised" not in one.outcome]
    if calls and not answered:
        first = calls[0]
        raise DpframeError(
            f"all {len(calls)} trial calls raised an exception, {NOTHING}: "
            f"{first.outcome['raised']} (for {first.query.sql})"
        )
    _look_at_answers(answered)
    left: list[str] = []
    for one in calls:
        parts = queries.features_of(one.query)
        if (
            "raised" in one.outcome
            and isinstance(one.query, queries.SqlText)
            and _fails(parts, calls)
        ):
            raise DpframeError(f"{one.outcome['raised']}, in each trial call of {one.query.sql}")
        if "raised" in one.outcome and _fails(parts, calls) and not _left_out(parts, left):
            _look_at_exception(one, columns)
            # The shortest list of parts that no answered query has.
            every = [set(queries.features_of(each.query)) for each in answered]
            alone = [part for part in parts if not any(part in own for own in every)]
            left.append(alone[-1] if alone else " and ".join(parts))
    return left


def _left_out(parts: Sequence[str], left: Sequence[str]) -> bool:
    return any(set(entry.split(" and ")) <= set(parts) for entry in left)


def _fails(parts: Sequence[str], calls: Sequence[Tried]) -> bool:
    """True if all trial calls of a kind of query raised an exception."""
    own = [one for one in calls if queries.features_of(one.query) == list(parts)]
    return all("raised" in one.outcome for one in own)


def _look_at_exception(one: Tried, columns: Sequence[str]) -> None:
    """Raise DpframeError if an exception looks like a mistake, not like a refusal."""
    exception, classes = str(one.outcome["raised"]), one.outcome["classes"]
    if "NotImplementedError" in classes or REFUSALS.search(exception):
        return
    named = re.search(r"\bcolumn\b|\bbinding\b", exception, re.I) or any(
        re.search(rf"\b{re.escape(name)}\b", exception) for name in columns
    )
    if named or set(classes) & set(SLIPS):
        parts = " and ".join(queries.features_of(one.query))
        raise DpframeError(
            f"{exception}, in each trial call of {one.query.sql}. If the engine does not support "
            f"such queries, raise NotImplementedError or pass without=[{parts!r}]"
        )


def _look_at_answers(answered: Sequence[Tried]) -> None:
    """Raise DpframeError if no answer, or none of one kind of query, can be read."""
    if not answered:
        return
    if all(one.outcome.get("is none") for one in answered):
        raise DpframeError(
            f"the function returned None in all {len(answered)} trial calls, {NOTHING}; "
            "forgot `return`?"
        )
    groups = dict.fromkeys(one.query.group for one in answered)
    for group in groups:
        own = [one for one in answered if one.query.group == group]
        keyed = [one for one in own if one.outcome.get("unknown")]
        if group and keyed and not any(one.outcome.get("known") for one in own):
            raise DpframeError(
                f"the answer to {keyed[0].query.sql} has the keys "
                f"{'; '.join(keyed[0].outcome['unknown'])}, and none of them is a category of "
                f"{' and '.join(group)} in the tables or `columns`"
            )
    parts = dict.fromkeys(part for one in answered for part in queries.features_of(one.query))
    for part in (None, *parts):
        own = [one for one in answered if part is None or part in queries.features_of(one.query)]
        unread = [one for one in own if one.outcome.get("unreadable") or one.outcome.get("is none")]
        if any(one.outcome.get("values") for one in own) or (part and len(unread) < len(own)):
            continue
        one = (unread or own)[0]
        advice = (
            "forgot `return`?" if one.outcome.get("is none") else "return a number for each key"
        )
        of = part if part and part.startswith("without") else f"with {part}"
        which, sample = f"queries {of}" if part else "any query", one.outcome["sample"]
        raise DpframeError(
            f"no value can be read from the answers to {which}, {NOTHING}: "
            f"{sample} is the answer to {one.query.sql}; {advice}"
        )
    values = [value for one in answered for value in one.outcome.get("values", ())]
    if len(answered) >= FEWEST_ANSWERS and len(set(values)) == 1:
        raise UndecidedError(
            f"the function returned {values[0]:g} for all {len(answered)} queries and tables, "
            f"{NOTHING}; does it use its table?"
        )


def check_tables(fits: Sequence[Mapping[str, Any]]) -> None:
    """Look at trial fits of the user's own table; see `trials.trial` and `Features.problems`.

    Raises:
        DpframeError: all fits raise an exception, or show nothing of some column.
    """
    if not fits:
        return
    if all("raised" in one for one in fits):
        raise DpframeError(
            f"all {len(fits)} trial fits of the given table raised an exception, {NOTHING}: "
            f"{fits[0]['raised']}"
        )
    tables = [one for one in fits if "raised" not in one]
    if unread := [one for one in tables if "unreadable" in one]:
        one = unread[0]
        raise DpframeError(
            f"the synthesizer returned {one['sample']}, which cannot be read as a table "
            f"({one['unreadable']}): return rows, dicts, columns by name or a frame"
        )
    for kind, text in tables[0]["problems"].items():
        if all(kind in one["problems"] for one in tables):
            raise DpframeError(
                f"the synthesizer was fitted to the given table {len(tables)} times: {text}"
            )


def fits_of(
    fit: Callable[[Any], Any],
    table: Callable[[], Any],
    read: Callable[[Any], dict[str, Any]],
    limit: float | None,
) -> Iterator[dict[str, Any]]:
    """Yield trial fits of a table: one, or three if the first one has a problem.

    `table` returns a copy of it.
    """
    for _ in range(TRIED_AGAIN):
        attempt = partial(trials.trial, lambda: fit(table()), read)
        outcome = attempt() if limit is None else within(limit, attempt)
        if outcome is None:
            return
        yield outcome
        if "raised" not in outcome and "unreadable" not in outcome and not outcome["problems"]:
            return
