"""Audits of plain functions in a test: what is asked, and what becomes of the test."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle

from dpframe import records_params
from dpframe.blame import message
from dpframe.claims import ApproxDP, Claim, PureDP
from dpframe.commands import audit as auditing
from dpframe.commands.asserted import failure, sentence, undecided
from dpframe.commands.releases import mechanism_of, pair_of
from dpframe.engine.boxes.here import Here
from dpframe.engine.boxes.processes import available_cores
from dpframe.engine.boxes.workers import Workers
from dpframe.errors import DpframeError, SpecError, UndecidedError, ViolationError
from dpframe.record import file as records
from dpframe.record.verdict import CONSISTENT, VIOLATED, exceeds
from dpframe.registry import LOCAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dpframe.commands.releases import Noiseless
    from dpframe.plugin import Plugin
    from dpframe.record.model import Record

UNLIMITED = 2**40
"""Trials where the time decides."""


OUTPUTS = ("time", "bits")
"""What may count as an answer beside what a function returns."""

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
"""How a function may be asked, and what each of these must be."""


class Terms(NamedTuple):
    """What is claimed, and what the audit may cost."""

    epsilon: float | None
    delta: float
    claim: Claim | None
    confidence: float
    seconds: float
    trials: int | None
    seed: int
    noiseless: Noiseless | None = None
    """What is compared exactly."""
    attributes: tuple[str, ...] = ()
    """What is read of an answer that is an object."""
    asked: Mapping[str, Any] = MappingProxyType({})
    """How it is asked, by the keys of a mechanism's table in a spec; None for a default."""

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
    """What became of an audit."""

    record: Record
    sentence: str
    error: Exception | None
    """What the test fails with."""


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
    from dpframe.engine.compiling.cache import keep_compiled_programs

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
