"""Audits as assertions in a test suite: `assert_dp` and `search_violation`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import shlex
import types
from collections.abc import Callable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np

from dpframe import records_params
from dpframe.claims import ApproxDP, Claim, PureDP
from dpframe.commands import audit as auditing
from dpframe.commands.audit_training import name_of
from dpframe.common.machine import available_cores
from dpframe.common.text import escape, message
from dpframe.errors import CellError, DpframeError, SpecError, UndecidedError, ViolationError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import EQUAL, Neighbourhood, Pair
from dpframe.interfaces.registry import LOCAL, load
from dpframe.report import words
from dpframe.report.sentences import noise_too_small
from dpframe.report.witness import as_tables
from dpframe.results import store as records
from dpframe.results.verdict import CONSISTENT, VIOLATED, exceeds
from dpframe.sampling.content import data_digest
from dpframe.search.black_box_arms import draws_needed
from dpframe.workers.in_process import Here
from dpframe.workers.pool import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dpframe.common.types import Tree
    from dpframe.interfaces.pair import Earned
    from dpframe.interfaces.plugin import Plugin
    from dpframe.results.model import CellRecord, Record


# What a test is told of its audit.


MOST = 400
"""Characters of a dataset."""

MARGIN = 2.0
"""Factor of the budget that the message proposes if nothing was decided."""


def sentence(record: Record) -> str:
    """One line about what was found."""
    (cell,) = record.cells
    runs = f"{words.quantity(cell.draws)} runs in {words.duration(record.summary.seconds)}"
    if cell.search is not None and cell.search.pairs > 1:
        runs += f", on {cell.search.pairs} pairs"
    if exceeds(cell):
        return f"{_claim(cell)}: the query changes more than its noise is made for, exactly"
    if cell.verdict == VIOLATED:
        return f"{_claim(cell)} violated, after {runs}"
    if cell.verdict == CONSISTENT:
        return f"no violation of {_claim(cell)} found in {runs}"
    return f"{_claim(cell)} not decided, after {runs}"


def failure(record: Record, path: Path, aside: str | None = None) -> str:
    """Claim, bound, witness, and how to see it again.

    Args:
        record: of the audit.
        path: of its file.
        aside: a remark on how it was run.
    """
    (cell,) = record.cells
    label = cell.mechanism.label
    lines = [f"{label} violates its claim, {_claim(cell)}"]
    if exceeds(cell):
        if cell.verdict != VIOLATED:
            lines = [f"{label} has less noise than its query needs, at a claim of {_claim(cell)}"]
        lines.append(f"  {noise_too_small(cell)}")
    if cell.estimate is not None:
        sure = words.percent(record.audit.confidence)
        found = "bound" if cell.verdict == VIOLATED else "draws"
        lines.append(f"  {found}: {cell.reason}; confidence {sure}")
    if cell.search is not None:
        on = [
            f"{hits:,} of {trials:,} on {name}"
            for hits, trials, name in zip(
                cell.search.hits, cell.search.trials, ("D", "D′"), strict=True
            )
        ]
        lines.append(f"  witness: {cell.search.event}: {', '.join(on)}")
    lines += _data(cell)
    lines.append(f"  runs: {cell.draws:,} in {words.duration(record.summary.seconds)}")
    return "\n".join([*lines, *_where(path, aside)])


def undecided(
    record: Record, path: Path, claim: Claim, seconds: float, aside: str | None = None
) -> str:
    """Why nothing was decided, and what would do.

    Args:
        record: of the audit.
        path: of its file.
        claim: that was to be tested.
        seconds: that it was given.
        aside: a remark on how it was run.
    """
    (cell,) = record.cells
    if cell.status == "failed":
        lines = [f"{cell.mechanism.label} could not be audited: {cell.reason}"]
    else:
        lines = [
            f"nothing was decided about {cell.mechanism.label}: {_claim(cell)} could not have been "
            f"refuted by {words.quantity(cell.draws)} runs",
            f"  why: {cell.reason}",
            f"  what would do: {_enough(record, claim, seconds)}",
        ]
    return "\n".join([*lines, *_where(path, aside)])


def _data(cell: CellRecord) -> Iterator[str]:
    """D and D′ of what was found, where a search found them; what a spec could name."""
    tables = as_tables(cell)["pair"]
    entry = load().get("pair", tables["use"])
    if entry is None:  # the test's own pair: whoever wrote it knows it
        return
    with contextlib.suppress(Exception):  # a file that is gone, a plugin of somebody else
        pair: Any = entry.cls.from_params(tables["params"])
        data = [" ".join(repr(one).split()) for one in (pair.d0, pair.d1)]
        if told := getattr(pair, "description", ""):
            yield f"  pair: {told}"
        yield from (f"  {name}: {_short(one)}" for name, one in zip(("D", "D′"), data, strict=True))


def _short(text: str) -> str:
    return escape(text if len(text) <= MOST else f"{text[:MOST]}…")


def _where(path: Path, aside: str | None) -> Iterator[str]:
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
    return f"ε = {words.brief(claim.epsilon)}{at}"


def _enough(record: Record, claim: Claim, seconds: float) -> str:
    """The budget after which the most extreme answers would have refuted the claim, about."""
    (cell,) = record.cells
    needed = draws_needed(claim, 1 - record.audit.confidence)
    if needed is None:
        return "no number of runs"
    runs = MARGIN * needed
    text = f"about {words.quantity(2 * runs)} runs"
    if not cell.trials[0]:
        return text
    longer = max(seconds, seconds * runs / cell.trials[0])
    return f"{text}; at this speed, seconds = {longer:.3g}"


# A plain function and two datasets, as what a search takes: a mechanism and a neighbourhood.


RNG = ("rng", "generator", "random_state", "random", "key", "seed")
"""Names of a first argument that is no dataset."""


class Noiseless(NamedTuple):
    """The value that a function would release without its noise."""

    query: Callable[[Any], Any]
    sensitivity: float | None
    """The sensitivity that the noise is made for."""
    norm: float


def mechanism_of(
    release: Callable[..., Any],
    claim: Claim,
    noiseless: Noiseless | None = None,
    attributes: tuple[str, ...] = (),
) -> type[HostMechanism]:
    """A mechanism of a function that makes one release.

    Args:
        release: called as `release(data)`, or as `release(rng, data)`.
        claim: what is claimed for it.
        noiseless: what it would release without its noise, where that is at hand.
        attributes: what is read of an answer that is an object.

    Raises:
        DpframeError: it cannot be called in either way.
    """
    seeded = takes_generator(release)

    def one(self: Any, rng: np.random.Generator, data: Any) -> Any:
        return release(rng, data) if seeded else release(data)

    body: dict[str, Any] = {
        "__doc__": "A function that makes one release.",
        # Where its code is: a worker that cannot import that gets it handed over.
        "__module__": module_of(release),
        "seedable": seeded,
        "claim": lambda self, pair: claim,
        "attributes": attributes,
        "release": one,
    }
    if noiseless is not None:
        body["query"] = lambda self, data: noiseless.query(data)
        body["sensitivity"], body["norm"] = noiseless.sensitivity, noiseless.norm
    found = name_of(release)
    title = "release" if found == "train" else found
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))


def module_of(release: Callable[..., Any]) -> str:
    """The module of a function, of a method's function, of a callable object's class."""
    inner: Any = release
    while isinstance(inner, functools.partial):
        inner = inner.func
    found = getattr(inner, "__module__", None) or type(inner).__module__
    return str(found)


def takes_generator(release: Callable[..., Any]) -> bool:
    """True if the function takes a generator before the data.

    Raises:
        DpframeError: it takes neither one nor two arguments, or is no function.
    """
    if not callable(release):
        raise DpframeError(f"release: {release!r} is not a function")
    try:
        parameters = list(inspect.signature(release).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    in_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in in_place if p.default is p.empty]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_name:
        raise DpframeError(
            f"release: it wants {', '.join(by_name)} by name; give them with functools.partial or "
            "a lambda"
        )
    if len(needed) == 2 or (in_place and in_place[0].name in RNG and len(in_place) > 1):
        return True
    if len(needed) == 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    if in_place and not needed:
        return False
    raise DpframeError(
        f"release: it takes {len(needed)} arguments; it is called as release(data) or as "
        "release(rng, data), with one run for each call"
    )


def pair_of(data: tuple[Any, Any]) -> tuple[type[Neighbourhood], type[Pair], str]:
    """A neighbourhood that proposes one pair.

    Args:
        data: D and D′.

    Returns:
        The neighbourhood and the pair, and the digest of the data, which is the parameter of both.

    Raises:
        DpframeError: the data are the same, or cannot be read.
    """
    digests = []
    for name, one in zip(("d0", "d1"), data, strict=True):
        try:
            digests.append(data_digest((one, one)))
        except CellError as error:
            raise DpframeError(f"{name}: {error}") from error
    if digests[0] == digests[1]:
        raise DpframeError(EQUAL)

    class Given(Pair, name="given"):
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

    class Both(Neighbourhood, name="given"):
        """Proposes the two datasets of a test, and nothing else."""

        adjacency = "as given"
        digest: str
        """Digest of D and D′."""

        def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
            return () if history else (Given(digest=self.digest),)

    return Both, Given, data_digest(data)


# Audits of plain functions in a test: what is asked, and what becomes of the test.


UNLIMITED = 2**40
"""Trials where the time decides."""


OUTPUTS = ("time", "bits")
"""Other things than the return value that may count as an answer."""

ASKED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "raises": ('"answer" or "fail"', lambda value: value in ("answer", "fail")),
    "limit": ("a number above 0", lambda value: _is_number(value) and 0 < value < math.inf),
    "outputs": (
        'a dict of "time" and "bits", each true or false',
        lambda value: (
            isinstance(value, Mapping)
            and all(key in OUTPUTS and isinstance(on, bool) for key, on in value.items())
        ),
    ),
}
"""The ways of calling a function, and the type of each setting."""


class Terms(NamedTuple):
    """The claim, and the budget of the audit."""

    epsilon: float | None
    delta: float
    claim: Claim | None
    confidence: float
    seconds: float
    trials: int | None
    seed: int
    noiseless: Noiseless | None = None
    """The query whose answers are compared exactly."""
    attributes: tuple[str, ...] = ()
    """Attributes that are read of an answer that is an object."""
    asked: Mapping[str, Any] = MappingProxyType({})
    """Settings of the call, by the keys of a mechanism's table; None for a default."""

    def claimed(self) -> Claim:
        """The claim; raises DpframeError where there is none, or two."""
        if self.claim is not None:
            if self.epsilon is not None or self.delta != 0:
                raise DpframeError("claim: it stands in place of epsilon and delta")
            if not isinstance(self.claim, Claim):
                raise DpframeError(f"claim: {self.claim!r} is not a claim, such as GaussianDP(1.0)")
            return self.claim
        if not _is_number(self.epsilon):
            raise DpframeError("epsilon: the claim is wanted, a number of at least 0")
        if not _is_number(self.delta):
            raise DpframeError(f"delta: {self.delta!r} is not a number")
        try:
            epsilon, delta = float(self.epsilon), float(self.delta)  # type: ignore[arg-type]
            return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        except ValueError as error:
            raise DpframeError(f"epsilon, delta: {error}") from None

    def checked(self) -> None:
        """Raises DpframeError where a number makes no sense."""
        if not (_is_number(self.seconds) and 0 < self.seconds < math.inf):
            raise DpframeError(f"seconds: {self.seconds!r} is not a number above 0")
        if not (_is_number(self.confidence) and 0 < self.confidence < 1):
            raise DpframeError(f"confidence: {self.confidence!r} is not between 0 and 1")
        for key, (wanted, fits) in ASKED.items():
            value = self.asked.get(key)
            if value is not None and not fits(value):
                raise DpframeError(f"{key}: {value!r} is not {wanted}")


class Outcome(NamedTuple):
    """The outcome of an audit."""

    record: Record
    sentence: str
    error: Exception | None
    """The error that the test fails with."""


def over_one_pair(
    release: Callable[..., Any], data: tuple[Any, Any], terms: Terms, place: Callable[[], Path]
) -> Outcome:
    """Audits a function on two datasets.

    Args:
        release: makes one release.
        data: D and D′.
        terms: the claim and the costs.
        place: makes the directory of the record.

    Raises:
        DpframeError: the arguments cannot be used.
    """
    terms.checked()
    mechanism = mechanism_of(release, terms.claimed(), terms.noiseless, terms.attributes)
    neighbourhood, pair, digest = pair_of(data)
    search = {"use": f"{LOCAL}/{neighbourhood.name}", "params": {"digest": digest}}
    plugins: list[type[Plugin]] = [mechanism, neighbourhood, pair]
    spec = _spec(mechanism.name, search, terms)
    return _outcome(*_recorded(spec, plugins, (release, data, terms.noiseless)), terms, place)


def over_a_table(
    release: Callable[..., Any],
    table: Any,
    neighbours: dict[str, Any],
    terms: Terms,
    place: Callable[[], Path],
) -> Outcome:
    """Searches the neighbours of a table for a pair that refutes a function's claim.

    Args:
        release: makes one release.
        table: what `dpframe.records_params` takes.
        neighbours: its other arguments.
        terms: the claim and the costs.
        place: makes the directory of the record.

    Raises:
        DpframeError: the arguments cannot be used.
    """
    terms.checked()
    if neighbours["adjacency"] is None:
        raise DpframeError(
            'adjacency: say which neighbours the claim is about, "replace" (one record is another '
            'one) or "add-remove" (one record more or less): the other kind of neighbours would '
            "refute a true claim"
        )
    mechanism = mechanism_of(release, terms.claimed(), terms.noiseless, terms.attributes)
    try:
        params = _named(records_params(table, **neighbours))
    except (TypeError, ValueError) as error:
        raise DpframeError(f"table: {error}") from None
    spec = _spec(mechanism.name, {"use": "records", "params": params}, terms)
    handed = (release, terms.noiseless)
    return _outcome(*_recorded(spec, [mechanism], handed), terms, place)


def _named(params: dict[str, Any]) -> dict[str, Any]:
    """Names of a schema for the columns of a table that has none, such as an array."""
    rows, schema = params["table"], params.get("schema", [])
    first = rows[0] if isinstance(rows, list) and rows else {}
    if isinstance(first, dict) or "columns" in params:
        return params
    width = len(first) if isinstance(first, list) else 1
    names = [entry["name"] for entry in schema if "name" in entry]
    return {**params, "columns": names} if len(names) == len(schema) == width else params


def _spec(mechanism: str, search: dict[str, Any], terms: Terms) -> dict[str, Any]:
    return {
        "schema": 1,
        "audit": {
            "name": mechanism,
            "seed": terms.seed,
            "trials": UNLIMITED if terms.trials is None else terms.trials,
            "confidence": float(terms.confidence),
        },
        "search": search,
        # A function may be called as a built-in mechanism is.
        "mechanism": [{"use": f"{LOCAL}/{mechanism}", **_asked(terms)}],
        "run": {"seconds": float(terms.seconds), "stop": "decided"},
    }


def _asked(terms: Terms) -> dict[str, Any]:
    given = {key: value for key, value in terms.asked.items() if value is not None}
    plain: dict[str, Callable[[Any], Any]] = {"limit": float, "outputs": dict}
    return {key: plain.get(key, str)(value) for key, value in given.items()}


def _recorded(
    spec: dict[str, Any], plugins: Sequence[type[Plugin]], handed: Any
) -> tuple[Record, str | None]:
    """The record, and why it was not made in worker processes, if it was not."""
    from dpframe.sampling.compile_cache import keep_compiled_programs

    try:
        loaded = auditing.load(spec, plugins=plugins)
    except SpecError as error:
        raise DpframeError(str(error)) from None
    keep_compiled_programs()
    aside: str | None = None
    source: Callable[[], Workers | Here] = _workers
    try:
        cloudpickle.dumps(handed)
    except Exception as error:  # a lock, an open file, a generator
        source = Here
        if "limit" in spec["mechanism"][0]:
            raise DpframeError(
                "limit: nothing ends a run in the process of the test, and it cannot be handed to "
                f"another one ({type(error).__name__}: {message(error)})"
            ) from None
        aside = (
            "it ran in the process of the test, one run at a time, where nothing ends a run that "
            f"hangs: it cannot be handed to another one ({type(error).__name__}: {message(error)})"
        )
    with source() as lent:
        return auditing.recorded(loaded, source=lent), aside


def _workers() -> Workers:
    """Processes for black boxes, of which the workers of pytest-xdist share the cores."""
    beside = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return Workers(available_cores() // max(1, int(beside) if beside.isdecimal() else 1))


def _outcome(record: Record, aside: str | None, terms: Terms, place: Callable[[], Path]) -> Outcome:
    path = records.write(record, place())
    (cell,) = record.cells
    error: Exception | None = None
    if cell.verdict == VIOLATED or exceeds(cell):
        error = ViolationError(failure(record, path, aside), record, path)
    elif cell.verdict != CONSISTENT:
        error = UndecidedError(
            undecided(record, path, terms.claimed(), terms.seconds, aside), record, path
        )
    return Outcome(record, sentence(record), error)


def _is_number(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, Real) and not math.isnan(float(value))
