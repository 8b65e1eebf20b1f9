"""The pytest plugin: audits in somebody else's test suite.

It is loaded into every run of pytest where dpframe is installed, so it imports nothing that costs
anything: the audit itself is imported by the first test that asks for one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dpframe.errors import UndecidedError, ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from dpframe.claims import Claim
    from dpframe.results.model import Record


__all__ = ["UndecidedError", "ViolationError", "assert_dp", "search_violation"]

PROPERTY = "dpframe"
"""Name under which a test's outcome stands in reports, such as JUnit's."""

_running: list[pytest.Item] = []
"""The test that runs, if one does."""


def assert_dp(
    release: Callable[..., Any],
    *,
    d0: Any,
    d1: Any,
    epsilon: float | None = None,
    delta: float = 0.0,
    claim: Claim | None = None,
    confidence: float = 0.999,
    seconds: float = 20.0,
    trials: int | None = None,
    seed: int = 0,
    query: Callable[[Any], Any] | None = None,
    sensitivity: float | None = None,
    norm: float = 1,
    attributes: Sequence[str] = (),
    raises: str | None = None,
    limit: float | None = None,
    outputs: Mapping[str, bool] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Record:
    """Fails if runs of a function on two neighbouring datasets refute its claim.

    The function is called in worker processes as `release(data)`, or as `release(rng, data)` where
    its signature has a second argument without a default. All built-in attacks look at what it
    returns; it stops once the claim is refuted. That it returns says that no violation was found
    in so many runs, and that so many could have shown one: never that the function is private.

    Args:
        release: makes one release. Its answer may be anything: numbers, arrays, texts, None,
            frames, objects; an exception is an answer too.
        d0: the dataset D, any Python value.
        d1: its neighbour D′.
        epsilon: claimed loss, in nats.
        delta: claimed δ.
        claim: any other claim, in place of `epsilon` and `delta`.
        confidence: a function that keeps its claim fails with a probability of at most
            1 − confidence.
        seconds: time that its releases get.
        trials: most releases on each dataset. Where these are over before the time is, the outcome
            is the same on every machine.
        seed: of the generator that `release(rng, data)` gets.
        query: what the function would release without its noise, as `query(data)`, where that is at
            hand: a change that is larger than `sensitivity` fails the test without any draw.
        sensitivity: what the noise is made for.
        norm: in which that is measured: 1, 2 or inf.
        attributes: what is read of an answer that is an object; default: all that is public.
        raises: "answer", the default, or "fail" where an exception is a mistake and no answer:
            UndecidedError then tells it.
        limit: seconds that one release may take; one that takes longer raises TimeoutError, which
            is an answer too. Default: as long as it likes, within `seconds`.
        outputs: what counts as an answer beside what the function returns: {"time": True}, how long
            it took; {"bits": True}, the last bits of floating-point numbers.
        out: directory of the record; default: one of the test's own, under its `tmp_path`.

    Returns:
        The record, with one cell.

    Raises:
        ViolationError: the claim is violated. An AssertionError.
        UndecidedError: so few runs could not have refuted the claim, or it could not be run.
        DpframeError: the arguments cannot be used.
    """
    __tracebackhide__ = True
    from dpframe.commands.assertions import Noiseless, Terms, over_one_pair

    exact = None if query is None else Noiseless(query, sensitivity, norm)
    asked = {"raises": raises, "limit": limit, "outputs": outputs}
    terms = Terms(
        epsilon, delta, claim, confidence, seconds, trials, seed, exact, tuple(attributes), asked
    )
    return _told(over_one_pair(release, (d0, d1), terms, _place(out)))


def search_violation(
    release: Callable[..., Any],
    table: Any,
    *,
    schema: Sequence[Mapping[str, Any]] = (),
    adjacency: str | None = None,
    beyond: bool | None = None,
    mistyped: bool = False,
    form: str | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    claim: Claim | None = None,
    confidence: float = 0.999,
    seconds: float = 60.0,
    trials: int | None = None,
    seed: int = 0,
    query: Callable[[Any], Any] | None = None,
    sensitivity: float | None = None,
    norm: float = 1,
    attributes: Sequence[str] = (),
    raises: str | None = None,
    limit: float | None = None,
    outputs: Mapping[str, bool] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Record:
    """Fails if any pair of neighbours that a search finds refutes a function's claim.

    From a natural table the search proposes what breaks libraries: NaN, infinities, values out of
    bounds, unknown categories, a lone far record, the first or the last record removed, one record,
    none; then edits by chance, and changes of what showed most.

    Args:
        release: as for `assert_dp`.
        table: a list of values, of lists or of dicts; an array of one or two axes; a dict of
            columns; a frame of pandas; or (X, y). The function gets what is like it.
        schema: what is known of its columns, in their order or by name: dicts of name, low, high,
            integer, categories.
        adjacency: which neighbours the claim is about: "replace" (one record is another one) or
            "add-remove" (one record more or less). It has no default, because the other kind would
            refute a true claim.
        beyond: whether records may lie outside of the schema (NaN, out of bounds, an unknown
            category); False where the function is for data that somebody has checked. Default:
            true, but not for a single value, as a local randomiser has it.
        mistyped: whether cells may be of another type than any in their column, or missing.
        form: what the function gets, where it is not what `table` is.
        epsilon: claimed loss, in nats.
        delta: claimed δ.
        claim: any other claim, in place of `epsilon` and `delta`.
        confidence: as for `assert_dp`, of the whole search.
        seconds: time that all releases get together.
        trials: most releases, on D and on D′ each, of all pairs together.
        seed: of the search, and of the generator that `release(rng, data)` gets.
        query: as for `assert_dp`; it is compared on every pair that is proposed.
        sensitivity: as for `assert_dp`.
        norm: as for `assert_dp`.
        attributes: as for `assert_dp`.
        raises: as for `assert_dp`.
        limit: as for `assert_dp`.
        outputs: as for `assert_dp`.
        out: as for `assert_dp`.

    Returns:
        The record, with one cell; `cells[0].search` says what was looked through.

    Raises:
        ViolationError: the claim is violated; the message has the pair. An AssertionError.
        UndecidedError: so few runs could not have refuted the claim, or it could not be run.
        DpframeError: the arguments cannot be used.
    """
    __tracebackhide__ = True
    from dpframe.commands.assertions import Noiseless, Terms, over_a_table

    exact = None if query is None else Noiseless(query, sensitivity, norm)
    asked = {"raises": raises, "limit": limit, "outputs": outputs}
    terms = Terms(
        epsilon, delta, claim, confidence, seconds, trials, seed, exact, tuple(attributes), asked
    )
    neighbours: dict[str, Any] = {"schema": schema, "adjacency": adjacency, "form": form}
    neighbours |= {"beyond": beyond, "mistyped": mistyped}
    return _told(over_a_table(release, table, neighbours, terms, _place(out)))


def _told(outcome: Any) -> Record:
    """The record of an audit; raises where the test must fail."""
    __tracebackhide__ = True
    if _running:
        _running[-1].user_properties.append((PROPERTY, outcome.sentence))
    if outcome.error is not None:
        raise outcome.error
    record: Record = outcome.record
    return record


def _place(out: str | os.PathLike[str] | None) -> Callable[[], Path]:
    """Directory of the record, made when it is needed."""
    return lambda: _directory() if out is None else Path(out)


def _directory() -> Path:
    """A fresh directory under that of the test, or under the system's where no test is known."""
    import tempfile

    base = None
    if _running:
        try:
            base = _running[-1]._request.getfixturevalue("tmp_path")  # type: ignore[attr-defined]
        except Exception:  # an item of some other plugin
            base = None
    return Path(tempfile.mkdtemp(prefix="dpframe-", dir=base))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Takes note of the test that runs."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says what was audited: a dot alone would say less, or more."""
    lines = [
        f"{report.nodeid}: {text}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("dpframe")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(name="assert_dp")
def _assert_dp() -> Callable[..., Record]:
    """`dpframe.pytest.assert_dp`."""
    return assert_dp


@pytest.fixture(name="search_violation")
def _search_violation() -> Callable[..., Record]:
    """`dpframe.pytest.search_violation`."""
    return search_violation
