"""Audits as assertions in a test suite: `assert_dp` and `search_violation`."""

import contextlib
import dataclasses
import functools
import inspect
import math
import os
import shlex
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from dpframe.claims import ApproxDP, Claim, PureDP
from dpframe.claims.relation import (
    CLAIMED,
    NEIGHBOURS,
    other_relation,
    seen_relation,
    states_relation,
)
from dpframe.commands import audit as auditing
from dpframe.commands.audit_training import check_differ, check_positive, is_number, name_of
from dpframe.common.text import escape, message
from dpframe.common.types import Tree
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.draw.value_digest import data_digest
from dpframe.draw.worker.codes import RAISES, code_of_trace
from dpframe.draw.worker.generators import GAVE, advice
from dpframe.errors import DpframeError, SpecError, UndecidedError, ViolationError
from dpframe.interfaces.mechanism import DEFAULTS, HostMechanism, settings
from dpframe.interfaces.pair import Earned, Neighbourhood, Pair
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.registry import LOCAL, load
from dpframe.report.number_format import brief, duration, percent, quantity
from dpframe.report.verdict_text import by_distance, raised
from dpframe.report.witness import (
    COMPUTED,
    as_tables,
    computed_excess,
    excess_pair,
    with_finding,
)
from dpframe.results import store as records
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import CONSISTENT, VIOLATED, covered, exceeds, found_consistent
from dpframe.search.black_box_arms import draws_needed

Setting = bool | int | float | str  # an argument that a search may vary
UNLIMITED = 2**40  # trials if only the time is limited
GIVEN_PAIR = "given"  # the name of a test's own pair
OUTPUTS = ("time", "bits", "messages")  # parts of an answer that may be asked for
VECTOR_ADJACENCIES = ("each-by-one", "one-by-one")  # neighbours of a vector of query answers
SCHEMA_BOUNDS = ("low", "high", "integer")  # of query answers, in a schema
LEAST_STEPS = 10  # least width of query answers in steps, if no schema gives it
GENERATOR_NAMES = (
    *("rng", "np_rng", "prng", "gen", "generator", "random_state", "random", "random_source"),
    *("randomness", "key", "seed"),
)
"""Names of a parameter for a generator; the first three name nothing else."""
GENERATOR_CLASSES = ("Generator", "RandomState", "Random", "BitGenerator")
"""Classes of a generator, in annotations."""
DATA_NAMES = (
    *("data", "dataset", "database", "db", "df", "frame", "table", "records", "record", "rows"),
    *("row", "values", "value", "x", "xs", "array", "samples", "users", "column", "series"),
)
"""Names of a parameter for the data, the plainest first."""
SETTING_NAMES = (
    *("eps", "epsilon", "delta", "sensitivity", "scale", "sigma", "noise", "noise_scale"),
    *("noise_multiplier", "budget", "rho", "clip", "bound", "bounds", "low", "high", "lower"),
    *("upper", "threshold"),
)
"""Names of a parameter that is neither; the first four are never names of data."""


class AssertionTerms(NamedTuple):
    """The claim, the budget of the audit, and the settings of each call."""

    epsilon: float | None
    delta: float
    claim: Claim | None
    confidence: float
    seconds: float | None  # None: no limit
    extended: float | None  # seconds in all as long as nothing could have refuted the claim
    trials: int | None
    seed: int
    query: Callable[[Any], Any] | None  # the value without noise, which is compared exactly
    choices: Callable[[Any], Any] | None  # the distribution of an answer
    sensitivity: float | None
    norm: float
    attributes: Sequence[str]  # attributes to read from an answer that is an object
    raises: str | None
    limit: float | None
    outputs: Mapping[str, bool] | None
    constant: bool  # True if all answers may be equal
    trace: bool = False  # True if plugins also trace the noise
    parameters: Mapping[str, Any] | None = None  # arguments that a search varies

    def claimed(self) -> Claim:
        """Return the claim; raise DpframeError if there is none, or two."""
        if self.claim is not None:
            if self.epsilon is not None or self.delta != 0:
                raise DpframeError("claim: give either the claim or epsilon and delta")
            if not isinstance(self.claim, Claim):
                raise DpframeError(f"claim: {self.claim!r} is not a claim, such as GaussianDP(1.0)")
            return self.claim
        if not is_number(self.epsilon):
            raise DpframeError("epsilon: give the claim, a number of at least 0")
        if not is_number(self.delta):
            raise DpframeError(f"delta: {self.delta!r} is not a number")
        try:
            epsilon, delta = float(self.epsilon), float(self.delta)  # type: ignore[arg-type]
            return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        except ValueError as error:
            raise DpframeError(f"epsilon, delta: {error}") from None

    def check(self) -> None:
        """Raise DpframeError if a setting makes no sense."""
        for name in ("seconds", "limit"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        level, names, outputs = self.confidence, self.attributes, self.outputs
        of_names = isinstance(names, list | tuple) and all(isinstance(one, str) for one in names)
        of_outputs = outputs is None or (
            isinstance(outputs, Mapping)
            and all(key in OUTPUTS and isinstance(on, bool) for key, on in outputs.items())
        )
        for name, valid, wanted in (
            ("confidence", is_number(level) and 0 < level < 1, "between 0 and 1"),
            ("raises", self.raises in (None, "answer", "fail"), '"answer" or "fail"'),
            ("attributes", of_names, "a list of names"),
            ("constant", isinstance(self.constant, bool), "true or false"),
            ("trace", isinstance(self.trace, bool), "true or false"),
            ("outputs", of_outputs, 'a dict of "time", "bits" and "messages", each true or false'),
        ):
            if not valid:
                raise DpframeError(f"{name}: {getattr(self, name)!r} is not {wanted}")

    def spec(self, mechanism: str, search: dict[str, Any]) -> dict[str, Any]:
        """Return the spec of the audit."""
        if self.parameters:
            varied = {f"mechanism.{name}": values for name, values in self.parameters.items()}
            search = {**search, "parameters": varied}
        called = {
            "raises": self.raises and str(self.raises),
            "limit": self.limit and float(self.limit),
            "outputs": None if self.outputs is None else dict(self.outputs),
            "constant": self.constant or None,
        }
        return {
            "schema": 1,
            "audit": {
                "name": mechanism,
                "seed": self.seed,
                "trials": UNLIMITED if self.trials is None else self.trials,
                "confidence": float(self.confidence),
            },
            "search": search,
            # The distribution is named because a function may have the name of a built-in
            # mechanism.
            "mechanism": [{"use": f"{LOCAL}/{mechanism}", **called}],
            "run": {
                "seconds": None if self.seconds is None else float(self.seconds),
                "stop": "decided",
            },
        }


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
        lines = [*_failure(record, source.words), *_reasons(cell, plugins[0], source.words)]
        if len(handed) > 3:  # a search makes its own pairs
            lines += _neighbours(terms.claimed(), *handed[1])
        lines += findings or ["  trace: no finding"] * terms.trace
        failed = ViolationError("\n".join([*lines, *_again(path, aside)]), record, path)
    elif cell.verdict != CONSISTENT and not found_consistent(cell):
        lines = [*_undecided(record, terms), *_order(cell, handed[0]), *findings]
        lines += ["  a trace compares runs: its findings are no verdict"] * bool(findings)
        failed = UndecidedError("\n".join([*lines, *_again(path, aside)]), record, path)
    return AuditOutcome(record, "\n".join([_sentence(record), *findings]), failed)


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

    varied = _varied(release, terms.parameters or ())

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


def optional(release: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of the optional arguments of a function, but for a generator."""
    try:
        given = inspect.signature(release).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have none
        return {}
    named = [p for p in given if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY]
    return {p.name: p.default for p in named if not _is_generator(p)}


def _varied(release: Callable[..., Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of the arguments that a search varies."""
    known = {n: v for n, v in optional(release).items() if isinstance(v, Setting)}
    if unknown := [name for name in names if name not in known]:
        raise DpframeError(
            f"parameters: {unknown[0]!r} is no optional argument with a number or a text as its "
            f"default; there are {', '.join(known) or 'none'}; bind it with functools.partial"
        )
    return {name: known[name] for name in names}


def takes_generator(release: Callable[..., Any]) -> bool:
    """True if the function takes a generator before the data.

    Raises DpframeError if it takes neither one nor two arguments, or is not a function.
    """
    if not callable(release):
        raise DpframeError(f"release: {release!r} is not a function")
    if (
        inspect.isclass(release)
        and release.__module__ not in ("builtins", "numpy")
        and any(callable(one) for name, one in vars(release).items() if not name.startswith("_"))
    ):
        raise DpframeError(
            f"release: {release.__name__} is a class: pass the method of an object, or a function "
            "that makes an object and returns the answer"
        )
    if inspect.iscoroutinefunction(release) or inspect.isasyncgenfunction(release):
        raise DpframeError("release: it is async; wrap it in a function that calls asyncio.run")
    try:
        parameters = list(inspect.signature(release).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    in_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in in_place if p.default is p.empty]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_name:
        raise DpframeError(
            f"release: it requires the keyword arguments {', '.join(by_name)}; bind them with "
            "functools.partial or a lambda"
        )
    if len(needed) == 2:
        _check_order(*needed)
        return True
    if len(needed) < 3 and len(in_place) > 1 and _is_generator(in_place[0]):
        _check_order(*in_place[:2])
        return True
    if len(in_place) == 1 and _plain(in_place[0].name) in (
        *GENERATOR_NAMES[:3],
        *SETTING_NAMES[:4],
    ):
        raise DpframeError(
            f"release: its only parameter is called {in_place[0].name!r}, but would get the data: "
            "dpframe calls release(data) or release(rng, data)"
        )
    if len(needed) == 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    if in_place and not needed:
        return False
    raise DpframeError(
        f"release: it takes {len(needed)} arguments"
        + (f", {', '.join(p.name for p in needed)}" if needed else "")
        + "; it is called as release(data) or as release(rng, data), one run per call: bind the "
        "others with functools.partial or a lambda"
    )


def _check_order(first: inspect.Parameter, second: inspect.Parameter) -> None:
    """Raise DpframeError unless two parameters may be a generator and the data, in this order."""
    one, other = _plain(first.name), _plain(second.name)
    called = "dpframe calls release(rng, data)"
    if first.name in ("self", "cls"):
        raise DpframeError(
            f"release: its first parameter is {first.name!r}: pass the method of an object, such "
            "as Library(…).release"
        )
    if _is_generator(first):
        if other in SETTING_NAMES:
            raise DpframeError(
                f"release: its second parameter is called {second.name!r}, but {called}, so it "
                "would get the data: bind it with functools.partial or a lambda"
            )
        return
    if _is_generator(second):
        raise DpframeError(
            f"release: its second parameter is called {second.name!r}; {called}, swap them"
        )
    if one in SETTING_NAMES and one != "noise" and other not in SETTING_NAMES:
        raise DpframeError(
            f"release: its first parameter is called {first.name!r}, but {called}, so it would get "
            "the generator: bind it with functools.partial or a lambda"
        )
    if (one in DATA_NAMES and other not in DATA_NAMES[:1]) or other in SETTING_NAMES:
        raise DpframeError(
            f"release: it takes {first.name!r} and {second.name!r}, but {called}, so "
            f"{first.name!r} would get the generator: bind {second.name!r} with functools.partial "
            "or a lambda"
        )


def _is_generator(parameter: inspect.Parameter) -> bool:
    """True if a parameter is for a generator, by its annotation or its name."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2] in GENERATOR_CLASSES or _plain(parameter.name) in GENERATOR_NAMES


def _plain(name: str) -> str:
    return name.strip("_").lower()


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


# Messages of the test.

MOST_CHARACTERS = 400  # characters of a dataset
BUDGET_FACTOR = 2.0  # factor of the budget that is proposed if nothing was decided
LARGE_EPSILON = 6.0  # a claimed ε from which on the draws of a refutation are many
MOST_RUNS = 1e9  # a larger number of runs is not proposed
LARGEST_READABLE = 40.0  # a larger ε has an e^ε without a readable number


def _sentence(record: Record) -> str:
    """Return one line about the result."""
    (cell,) = record.cells
    runs = f"{cell.draws:,} run{'' if cell.draws == 1 else 's'}, {_lasted(record.summary.seconds)}"
    if cell.search is not None and cell.search.pairs > 1:
        runs += f", on {cell.search.pairs} pairs"
    if exceeds(cell):
        return f"{_claim(cell)} violated, {computed_excess(cell)}"
    notes = cell.estimate.notes if cell.estimate is not None else ()
    given = "".join(f"; note: {note}" for note in notes if note.startswith(GAVE))
    if cell.verdict == VIOLATED:
        return f"{_claim(cell)} violated, after {runs}{raised(record)}{given}"
    if cell.stated is not None and (cell.verdict == CONSISTENT or found_consistent(cell)):
        computed = f"{COMPUTED} of {cell.stated.pairs:,} pair{'s' * (cell.stated.pairs > 1)}"
        agree = f"{cell.stated.draws:,} draws from each dataset agree with it"
        return f"no violation of {_claim(cell)}, {computed}: {cell.stated.words}; {agree}"
    if cell.verdict == CONSISTENT:
        limits = f"\n  {text}" if (text := covered(cell)) else ""
        return f"no violation of {_claim(cell)} found in {runs}{raised(record)}{given}{limits}"
    return f"{_claim(cell)} not decided, after {runs}"


def _failure(record: Record, texts: Mapping[int, str]) -> Iterator[str]:
    """Yield the claim, the exceptions if they show the leak, the bound and the witness.

    `texts` are those of the codes in answers.
    """
    (cell,) = record.cells
    label = cell.mechanism.label
    if cell.exact is not None and cell.exact.exceeding and cell.verdict != VIOLATED:
        yield f"{label} has less noise than its query needs, at a claim of {_claim(cell)}"
    else:
        yield f"{label} violates its claim, {_claim(cell)}{raised(record)}"
    for kind, text in texts.items():
        if text.startswith(RAISES) and cell.search is not None and text in cell.search.event:
            yield f"  exception: {escape(texts.get(code_of_trace(kind), text))}"
    if exceeds(cell):
        yield f"  {computed_excess(cell)}"
    if cell.stated is not None and cell.stated.exceeding and cell.verdict != VIOLATED:
        yield f"  agreement: {cell.stated.draws:,} draws from D and D′ each fit that distribution"
        yield from _data(cell)
        return
    if cell.estimate is not None:
        heading = "bound" if cell.verdict == VIOLATED else "draws"
        yield f"  {heading}: {cell.reason}; confidence {percent(record.audit.confidence)}"
    for number in range(1, 2 + len(cell.search.findings if cell.search else ())):
        yield from _leak(with_finding(cell, number))
    yield f"  runs: {cell.draws:,}, {_lasted(record.summary.seconds)}"


def _reasons(cell: CellRecord, mechanism: type[Plugin], texts: Mapping[int, str]) -> Iterator[str]:
    """Yield what may be the reason if one event tells all answers on D and D′ apart."""
    witness = cell.search or cell.event
    if witness is None:
        return
    rates = [
        hits / max(trials, 1) for hits, trials in zip(witness.hits, witness.trials, strict=True)
    ]
    if sorted(rates) != [0, 1]:
        return
    if text := advice([mechanism]):
        yield f"  perhaps its noise is always the same{text}"
    elif witness.event.startswith("is ") and " or " not in witness.event:
        yield (
            "  note: on one dataset its answer never changed: it adds no noise, or noise that was "
            "drawn once, outside the function"
        )
    if "None" in texts.values() and witness.event.startswith("gives "):
        side = rates.index(1 if witness.event == "gives None" else 0)
        yield (
            f"  note: it returned None in all of these runs on {('D', 'D′')[side]}; did a branch "
            "forget `return`?"
        )


def _leak(cell: CellRecord) -> Iterator[str]:
    """Yield one leak with its witness."""
    if (event := cell.search or cell.event) is not None:
        counts = zip(event.hits, event.trials, ("D", "D′"), strict=True)
        rates = [f"{hits:,} of {trials:,} on {name}" for hits, trials, name in counts]
        yield f"  witness: {event.event}: {', '.join(rates)}"
        for place, outputs in (("in", event.inside), ("outside", event.outside)):
            if outputs:
                yield f"  outputs {place} this event: {'; '.join(outputs)}"
    if cell.search is not None and cell.search.parameters:
        with_values = (f"{name} = {value}" for name, value in cell.search.parameters.items())
        yield f"  parameters: {', '.join(with_values)}"
    if cell.search is not None and cell.search.pairs > 1 and cell.verdict == VIOLATED:
        yield f"  for other leaks: ignore=[{cell.search.leak!r}]"
    exact = [excess_pair(cell)] if exceeds(cell) else []
    for need in {
        need.feature: need for pair in (cell.pair, *exact) for need in pair.needs
    }.values():
        without = ", ".join(f"{key}={value!r}" for key, value in need.without.items())
        yield f"  needs: {need.feature}, outside the schema; without: {without}"
    yield from _data(cell)


def _data(cell: CellRecord) -> Iterator[str]:
    """Yield D and D′ if a search found them."""
    tables = as_tables(cell)["pair"]
    if tables["use"] == GIVEN_PAIR:  # the test's own pair: its author knows it
        return
    entry = load().find("pair", tables["use"])
    with contextlib.suppress(Exception):  # a file that is gone, a plugin of another distribution
        pair: Any = entry.cls.from_params(tables["params"])
        data = [" ".join(repr(one).split()) for one in (pair.d0, pair.d1)]
        if description := getattr(pair, "description", ""):
            yield f"  pair: {description}"
        for name, one in zip(("D", "D′"), data, strict=True):
            text = one if len(one) <= MOST_CHARACTERS else f"{one[:MOST_CHARACTERS]}…"
            yield f"  {name}: {escape(text)}"


def _undecided(record: Record, terms: AssertionTerms) -> Iterator[str]:
    """Yield why nothing was decided, and the budget that would decide."""
    (cell,) = record.cells
    if cell.status == "failed":
        yield f"{cell.mechanism.label} could not be audited: {cell.reason}"
        return
    if cell.untested is not None:
        yield f"nothing was decided about {cell.mechanism.label}: {cell.untested}"
        return
    yield (
        f"nothing was decided about {cell.mechanism.label}: {_claim(cell)} could not have been "
        f"refuted by {quantity(cell.draws)} runs"
    )
    yield f"  why: {cell.reason}"
    claim = terms.claimed()
    alone = as_tables(cell)["pair"]["use"] == GIVEN_PAIR
    needed = draws_needed(claim, 1 - record.audit.confidence, alone=alone)
    yield f"  needed: {'no number of runs' if needed is None else _budget(needed, record, terms)}"
    epsilon = claim.epsilon_at(min(claim.telling_deltas, default=0.0))
    if epsilon >= LARGE_EPSILON:
        factor = (
            f" = {quantity(float(f'{math.exp(epsilon):.2g}'))}"
            if epsilon < LARGEST_READABLE
            else ""
        )
        yield (
            f"  why {'none' if needed is None else 'so many'}: at ε = {brief(epsilon)} an event "
            f"must be more than e^ε{factor} times likelier on one dataset, so it takes at least as "
            "many runs"
        )
        yield from (f"  instead of runs: {way}" for way in _other_ways(cell, terms))


def _budget(needed: int, record: Record, terms: AssertionTerms) -> str:
    """Return the runs, the time and the settings for the draws per dataset that are needed."""
    (cell,) = record.cells
    trials = float(f"{BUDGET_FACTOR * needed:.2g}")
    settings: list[str] = []
    if trials > MOST_RUNS:
        return f"more than {quantity(MOST_RUNS)} runs"
    text = f"about {quantity(2 * trials)} runs"
    if terms.trials is not None and terms.trials < trials:
        settings.append(f"trials={trials:.0f}")
    if cell.trials[0]:
        longer = record.summary.seconds * BUDGET_FACTOR * needed / cell.trials[0]
        rough = math.ceil(float(f"{max(longer, 1.0):.2g}"))
        text += f"; at this speed about {_about(rough)}"
        if terms.seconds is not None and terms.seconds < rough:
            settings.append(f"seconds={rough}")
    return ", ".join([text, *settings])


def _other_ways(cell: CellRecord, terms: AssertionTerms) -> Iterator[str]:
    """Yield the ways to examine a large claim without many runs that apply and were not used."""
    if terms.choices is None:
        yield "choices=FUNCTION computes the loss, if the probability of each answer is known"
    params = cell.search.neighbourhood.params if cell.search is not None else {}
    if not terms.trace and params.get("adjacency") not in VECTOR_ADJACENCIES:
        yield (
            "trace=True names lines that leak, if noise is added to numbers; it does not decide "
            "the test (plugin dpframe-trace)"
        )


def _lasted(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)


def _about(seconds: float) -> str:
    """Write a time span roughly: 40 s, 18 min, 3 h."""
    for size, word in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {word}"
    return f"{seconds:,.0f} s"


def _neighbours(claim: Claim, d0: Any, d1: Any) -> Iterator[str]:
    """Yield questions if D and D′ of a test are no neighbours, or not those of the claim.

    Entries that are answers to queries in place of records may all differ.
    """
    old, new = _entries(d0), _entries(d1)
    if old is None or new is None:
        return
    changed = [both for both in zip(old, new, strict=False) if both[0] != both[1]]
    differ, most = len(changed), max(len(old), len(new))
    if len(old) != len(new):
        fewer, more = sorted((old, new), key=len)
        # Records that were added are one difference each, wherever they are.
        same = 0
        for one in more:
            same += same < len(fewer) and one == fewer[same]
        differ = most - same
    relation = getattr(claim, "relation", "replace-one")
    if differ > 1:
        yield (
            f"  note: D and D′ differ in {differ} of {most} entries; is that one step of your "
            "adjacency?"
        )
    elif (
        differ == 1
        and relation != "replace-one"
        and len(old) == len(new)
        and all(one.strip("[]() ,0.") for both in changed for one in both)
    ):
        yield (
            f"  note: the claim is for neighbours by {CLAIMED[relation]}, but one entry of D is "
            "replaced by another; if entries are records, state the claim for replaced ones"
        )


def _entries(data: Any) -> list[str] | None:
    """Return the records of a dataset as texts; None if it has none."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a frame
        data = {str(name): data[name].tolist() for name in data.columns}
    parts: list[Any] | None = None
    if isinstance(data, dict):
        parts = [*data.values()]
    elif isinstance(data, tuple) and data and all(isinstance(one, np.ndarray) for one in data):
        parts = [*data]  # (X, y)
    elif isinstance(data, np.ndarray):
        return [repr(row.tolist()) for row in data] if data.ndim else None
    if parts is None:
        return [repr(one) for one in data] if isinstance(data, list | tuple) else None
    columns = [entries for part in parts if (entries := _entries(part)) is not None]
    if len(columns) < len(parts) or len({*map(len, columns)}) != 1:
        return None
    return [repr(row) for row in zip(*columns, strict=True)]


def _order(cell: CellRecord, release: Callable[..., Any]) -> Iterator[str]:
    """Yield a question about the order of two arguments, if names do not tell and all runs failed.

    A function whose arguments are swapped gets the generator in the place of the data.
    """
    if cell.status == "failed" and "Error: " in (cell.reason or "") and takes_generator(release):
        needed = [*inspect.signature(release).parameters.values()][:2]
        if not _is_generator(needed[0]):
            names = ", ".join(p.name for p in needed)
            yield f"  note: {names} got the generator and the data, in this order"


def _again(path: Path, aside: str | None) -> Iterator[str]:
    """Yield a remark on how the audit was run, and how to see it again."""
    if aside is not None:
        yield f"  note: {aside}"
    yield f"  record: dpframe show {shlex.quote(str(path.parent))}"
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        yield f"  again: pytest {shlex.quote(test)}"


def _claim(cell: CellRecord) -> str:
    claim = cell.claim
    if claim is None:
        return "the claim"
    at = f", δ = {claim.delta:g}" if claim.delta else ""
    return f"ε = {brief(claim.epsilon)}{by_distance(claim)}{at}"
