"""Audits as assertions in a test suite: `assert_dp` and `search_violation`."""

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from dpframe.claims.relation import (
    NEIGHBOURS,
    other_relation,
    seen_relation,
    states_relation,
)
from dpframe.commands import assertion_text as texts, audit as auditing
from dpframe.commands.assertion_terms import GIVEN_PAIR, VECTOR_ADJACENCIES, AssertionTerms
from dpframe.commands.audit_training import check_differ, check_positive, name_of
from dpframe.commands.release_signature import (
    Setting,
    optional,
    takes_generator,
    varied_arguments,
)
from dpframe.common.text import escape, message
from dpframe.common.types import Tree
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.draw.value_digest import data_digest
from dpframe.errors import DpframeError, SpecError, UndecidedError, ViolationError
from dpframe.interfaces.mechanism import DEFAULTS, HostMechanism, settings
from dpframe.interfaces.pair import Earned, Neighbourhood, Pair
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.registry import LOCAL, load
from dpframe.results import store as records
from dpframe.results.model import Record
from dpframe.results.verdict import CONSISTENT, VIOLATED, exceeds, found_consistent

SCHEMA_BOUNDS = ("low", "high", "integer")  # of query answers, in a schema
LEAST_STEPS = 10  # least width of query answers in steps, if no schema gives it


class AuditOutcome(NamedTuple):
    """The outcome of an audit."""

    record: Record
    sentence: str
    error: Exception | None  # with which the test fails; None if it passes


def over_one_pair(
    release: Callable[..., Any],
    data: tuple[Any, Any],
    terms: AssertionTerms,
    place: Callable[[], Path],
    workers: Workers,
) -> AuditOutcome:
    """Audit a function that makes one release on two datasets, D and D′.

    `place` makes the directory of the record; `workers` run the function if it can be sent to
    them. Raises DpframeError if the arguments cannot be used.
    """
    terms.check()
    mechanism = mechanism_of(release, terms)
    neighbourhood, pair, digest = _pair_of(data)
    if (other := seen_relation(terms.claim, *data)) is not None:
        raise DpframeError(other)
    search = {"use": f"{LOCAL}/{neighbourhood.name}", "params": {"digest": digest}}
    spec = terms.spec(mechanism.name, search)
    plugins: list[type[Plugin]] = [mechanism, neighbourhood, pair]
    traced = _tracing(release, {"d0": data[0], "d1": data[1]}, terms)
    handed = release, data, terms.query, terms.choices
    return _audit(spec, plugins, handed, terms, place, workers, traced)


def over_a_table(
    release: Callable[..., Any],
    table: Any,
    neighbours: dict[str, Any],
    leaks: Mapping[str, Any],
    terms: AssertionTerms,
    place: Callable[[], Path],
    workers: Workers,
) -> AuditOutcome:
    """Search the neighbours of a table for a pair that refutes a function's claim.

    `table` is what `dpframe.records_params` takes, and `neighbours` are its other arguments;
    `leaks` are `ignore` and `findings` of [search]. Raises DpframeError if the arguments cannot
    be used.
    """
    terms.check()
    if isinstance(leaks["ignore"], str) or not isinstance(leaks["ignore"], Sequence):
        raise DpframeError(f"ignore: {leaks['ignore']!r} is not a list of names of leaks")
    if isinstance(neighbours["beyond"], Mapping):
        neighbours = {**neighbours, "beyond": dict(neighbours["beyond"])}
    leaks = {**leaks, "ignore": list(leaks["ignore"])}
    if neighbours["adjacency"] is None and states_relation(terms.claim):
        neighbours = {**neighbours, "adjacency": NEIGHBOURS[terms.claim.relation]}  # type: ignore[union-attr]
    if neighbours["adjacency"] is None:
        raise DpframeError(
            'adjacency: choose the neighbours of the claim: "replace" (one record is replaced), '
            '"add-remove" (one record is added or removed), "zero-out" (one record is replaced by '
            "a null record, as accountants of DP-SGD assume), or for a vector of query answers "
            '"each-by-one" (every answer changes by at most the sensitivity); the wrong kind of '
            "neighbours would refute a true claim"
        )
    if (other := other_relation(terms.claim, str(neighbours["adjacency"]))) is not None:
        raise DpframeError(f"claim, adjacency: {other}")
    if neighbours["adjacency"] in VECTOR_ADJACENCIES:
        if terms.trace:
            raise DpframeError(f"trace: not for adjacency {neighbours['adjacency']!r}")
        params = _vectors(table, neighbours, terms)
        as_given = list if isinstance(table, list) else np.asarray
        mechanism = mechanism_of(release, terms._replace(sensitivity=None), as_given)
        spec = terms.spec(mechanism.name, {"use": "climb", "params": params, **leaks})
        return _audit(spec, [mechanism], (release,), terms, place, workers)
    # With pairs of tables, which `assert_dp` does not need.
    from dpframe.interfaces.plain import is_series
    from dpframe.interfaces.python_tables import has_one_feature, records_params

    if has_one_feature(table) and neighbours["form"] is None:
        mechanism = mechanism_of(release, terms, lambda data: (data[0][:, 0], data[1]))
    elif is_series(table) and neighbours["form"] is None:
        kind: Any = type(table)
        mechanism = mechanism_of(release, terms, functools.partial(kind, name=table.name))
    else:
        mechanism = mechanism_of(release, terms)
    try:
        params = _name_columns(records_params(table, **neighbours))
    except (TypeError, ValueError) as error:
        raise DpframeError(f"table: {error}") from None
    spec = terms.spec(mechanism.name, {"use": "records", "params": params, **leaks})
    traced = _tracing(release, {"table": table, **neighbours}, terms)
    handed = release, terms.query, terms.choices
    return _audit(spec, [mechanism], handed, terms, place, workers, traced)


def _vectors(answers: Any, neighbours: dict[str, Any], terms: AssertionTerms) -> dict[str, Any]:
    """Return the parameters of a search for vectors of query answers like the given one.

    The bounds are those of the schema, which has one entry for all answers. Without a schema they
    reach from the smallest to the largest answer, and at least over `LEAST_STEPS` steps.
    """
    from dpframe.interfaces.python_tables import read_schema

    adjacency = neighbours["adjacency"]
    for name, given in (("query", terms.query), *neighbours.items()):
        if name not in ("schema", "adjacency") and given:
            raise DpframeError(f"{name}: it is for records, but adjacency is {adjacency!r}")
    step = 1.0 if terms.sensitivity is None else terms.sensitivity
    check_positive("sensitivity", step)
    try:
        vector = np.asarray(answers, np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise DpframeError(
            f"table: with adjacency {adjacency!r} it must be a vector of finite numbers"
        )
    low = float(vector.min())
    bounds = {
        "low": low,
        "high": max(float(vector.max()), low + LEAST_STEPS * step),
        "integer": False,
    }
    for entry in read_schema(neighbours["schema"], ["answers"], {}, named=False):
        bounds |= entry
    if bounds.keys() - {"name", *SCHEMA_BOUNDS}:
        raise DpframeError("schema: should be one entry with numbers low and high, and integer")
    params = {"adjacency": adjacency, "length": vector.size, "step": float(step)}
    params |= {name: float(bounds[name]) for name in ("low", "high")}
    return params | {"whole": bool(bounds["integer"])}


def _name_columns(params: dict[str, Any]) -> dict[str, Any]:
    """Name the columns of a table without names, such as an array, after those of its schema."""
    rows, schema = params["table"], params.get("schema", [])
    first = rows[0] if isinstance(rows, list) and rows else {}
    if isinstance(first, dict) or "columns" in params:
        return params
    width = len(first) if isinstance(first, list) else 1
    names = [entry["name"] for entry in schema if "name" in entry]
    return {**params, "columns": names} if len(names) == len(schema) == width else params


def _audit(
    spec: dict[str, Any],
    plugins: Sequence[type[Plugin]],
    handed: Any,
    terms: AssertionTerms,
    place: Callable[[], Path],
    workers: Workers,
    traced: Callable[[], list[str]] = list,
) -> AuditOutcome:
    """Audit in worker processes, or in this process if `handed` cannot be sent to a worker."""
    from dpframe.draw.compile_cache import keep_compiled_programs

    try:
        loaded = auditing.load(spec, plugins=plugins)
    except SpecError as error:
        raise DpframeError(str(error)) from None
    loaded = dataclasses.replace(loaded, run=loaded.run._replace(extended=terms.extended))
    if auditing.uses_jax(loaded):
        keep_compiled_programs()
    aside: str | None = None
    source: Workers | InProcessWorkers = workers
    try:
        cloudpickle.dumps(handed)
    except Exception as error:  # a lock, an open file, a generator
        source, reason = InProcessWorkers(), f"{type(error).__name__}: {message(error)}"
        if terms.limit is not None:
            raise DpframeError(
                "limit: a run in the process of the test cannot be stopped, and this function "
                f"cannot be sent to a worker process ({reason})"
            ) from None
        workers.stop()
        aside = (
            "it ran in the process of the test, one run at a time, where a hanging run cannot be "
            f"stopped, because it cannot be sent to a worker process ({reason})"
        )
    record = auditing.recorded(loaded, source=source)
    path = records.write(record, place())
    (cell,) = record.cells
    failed: Exception | None = None
    findings = traced()
    if cell.verdict == VIOLATED or exceeds(cell):
        lines = [*texts.failure(record, plugins[0], source.words)]
        if len(handed) > 3:  # a search makes its own pairs
            lines += texts.neighbours(terms.claimed(), *handed[1])
        lines += findings or ["  trace: no finding"] * terms.trace
        failed = ViolationError("\n".join([*lines, *texts.again(path, aside)]), record, path)
    elif cell.verdict != CONSISTENT and not found_consistent(cell):
        lines = [*texts.undecided(record, terms, handed[0]), *findings]
        lines += ["  a trace compares runs: its findings are no verdict"] * bool(findings)
        failed = UndecidedError("\n".join([*lines, *texts.again(path, aside)]), record, path)
    return AuditOutcome(record, "\n".join([texts.sentence(record), *findings]), failed)


def _tracing(
    release: Callable[..., Any], data: Mapping[str, Any], terms: AssertionTerms
) -> Callable[[], list[str]]:
    """Return a function that traces a release and returns its findings, one per line.

    The release runs in this process, after the audit. Raises DpframeError if no plugin traces.
    """
    tracers = load().tracers() if terms.trace else []

    def traced() -> list[str]:
        found: list[str] = []
        for tracer in tracers:
            try:
                found += tracer(release, data, terms.claimed())
            except Exception as error:  # the verdict does not depend on it
                found.append(f"failed: {type(error).__name__}: {message(error)}")
        return [f"  trace: {escape(text)}" for text in found]

    return traced


# A plain function and two datasets, as plugins: a mechanism and a neighbourhood.


def mechanism_of(
    release: Callable[..., Any],
    terms: AssertionTerms,
    as_given: Callable[[Any], Any] = lambda data: data,
) -> type[HostMechanism]:
    """Return a mechanism of a function that makes one release.

    It is called as `release(data)`, or as `release(rng, data)`; `as_given` turns data into what
    it takes. Raises DpframeError if it cannot be called in either way, or nothing is claimed.
    """
    claim, query = terms.claimed(), terms.query
    seeded = takes_generator(release)

    varied = varied_arguments(release, terms.parameters or ())

    def one(self: Any, rng: np.random.Generator, data: Any) -> Any:
        given = {name: getattr(self, name) for name in varied}
        return release(*[rng] * seeded, as_given(data), **given)

    inner: Any = release
    while isinstance(inner, functools.partial):
        inner = inner.func
    body: dict[str, Any] = {
        "__doc__": "A function that makes one release.",
        # The module of the code; a worker that cannot import it receives the code.
        "__module__": str(getattr(inner, "__module__", None) or type(inner).__module__),
        "seedable": seeded,
        DEFAULTS: tuple(settings({n: v for n, v in optional(release).items() if n not in varied})),
        "__annotations__": dict.fromkeys(varied, Setting),
        **varied,
        "claim": lambda self, pair: claim,
        "attributes": tuple(terms.attributes),
        "release": one,
    }
    if query is not None:
        body["query"] = lambda self, data: query(data)
        body["sensitivity"], body["norm"] = terms.sensitivity, terms.norm
    if (stated := terms.choices) is not None:
        body["choices"] = lambda self, data: stated(as_given(data))
    name = name_of(release)
    title = "release" if name == "train" else name
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))


def _pair_of(data: tuple[Any, Any]) -> tuple[type[Neighbourhood], type[Pair], str]:
    """Return a neighbourhood that proposes one pair, the pair, and the digest of the data.

    The digest is the parameter of both classes. Raises DpframeError if the data are equal or cannot
    be read.
    """
    check_differ(data, ("d0", "d1"))

    class Given(Pair, name=GIVEN_PAIR):
        """Two datasets of a test."""

        adjacency = "as given"
        digest: str
        """Digest of D and D′."""

        @property
        def d0(self) -> Tree:
            return data[0]

        @property
        def d1(self) -> Tree:
            return data[1]

    class Both(Neighbourhood, name=GIVEN_PAIR):
        """Proposes the two datasets of a test, and nothing else."""

        adjacency = "as given"
        one_pair = True
        digest: str
        """Digest of D and D′."""

        def own_data(self) -> Sequence[Tree]:
            return data

        def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
            return () if history else (Given(digest=self.digest),)

    return Both, Given, data_digest(data)
