"""The pytest plugin: audits in a user's test suite.

Every run of pytest loads it if dpframe is installed, so it imports only cheap modules. The first
test that asks for an audit imports the rest. It does not import pytest, because worker processes
import tests for their functions, and scripts and notebooks call `assert_dp` without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.errors import DpframeError, UndecidedError, ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pytest

    from dpframe.claims import Claim
    from dpframe.draw.pool import Workers
    from dpframe.results.model import Record


__all__ = ["UndecidedError", "ViolationError", "assert_dp", "search_violation"]

PROPERTY = "dpframe"  # the name of a test's outcome in reports, such as JUnit's

DEFAULT_SECONDS, LONGEST_SECONDS = (
    5.0,
    20.0,
)  # seconds of `assert_dp`, and at most if nothing could be refuted
OF_SEARCH = 60.0  # seconds of `search_violation`

_running: list[pytest.Item] = []  # the running test is the last
_of_session: list[tuple[Any, float]] = []  # configurations of pytest that state seconds


def assert_dp(
    release: Callable[..., Any],
    *,
    d0: Any,
    d1: Any,
    epsilon: float | None = None,
    delta: float = 0.0,
    claim: Claim | None = None,
    confidence: float = 0.999,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    query: Callable[[Any], Any] | None = None,
    choices: Callable[[Any], Any] | None = None,
    sensitivity: float | None = None,
    norm: float = 1,
    attributes: Sequence[str] = (),
    raises: str | None = None,
    limit: float | None = None,
    outputs: Mapping[str, bool] | None = None,
    constant: bool = False,
    trace: bool = False,
    out: str | os.PathLike[str] | None = None,
) -> Record:
    """Fail if runs of a function on two neighbouring datasets refute its claim.

    The function is called in worker processes as `release(data)`, or as `release(rng, data)` if its
    signature has a second argument without a default. All built-in attacks look at its answers; the
    audit stops once the claim is refuted. If `assert_dp` returns, these runs showed no violation
    although they could have. It never proves that the function is private.

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
        seconds: time for all releases. Default: no limit if `trials` is given; else that of the
            pytest option `--dpframe-seconds`, or 5, extended to at most 20 as long as no answers
            could have refuted the claim. Loading the function is not counted. On a machine with
            more work than cores, seconds are stretched by its load, at most fourfold.
        trials: most releases on each dataset. If these end before the time does, the outcome is
            the same on every machine.
        seed: of the generator that `release(rng, data)` gets.
        query: the value that the function would release without its noise, as `query(data)`, if
            known: a change larger than `sensitivity` fails the test without any draw.
        choices: the distribution of the answer, as `choices(data)`, if it is known: logarithms of
            probabilities, see `dpframe.plugins.Mechanism.choices`. The loss is computed from it,
            which decides a claim of any ε, and draws are compared with it.
        sensitivity: of the query; the noise is made for it.
        norm: of the sensitivity: 1, 2 or inf.
        attributes: names that are read from an answer that is an object; default: all public ones.
        raises: "answer", the default, or "fail" if an exception is a mistake and not an answer:
            UndecidedError then reports it.
        limit: seconds for one release; one that takes longer raises TimeoutError, which is an
            answer too. Default: no limit within `seconds`.
        outputs: further parts of an answer: {"time": True}, the time of the call;
            {"bits": True}, the last bits of floating-point numbers; {"messages": True}, what
            exceptions say.
        constant: True if all answers may be equal. Default: UndecidedError if they all are, because
            nothing was tested.
        trace: True to also run the function with recorded noise in the process of the test, and
            list the lines that leak in the message. Needs a plugin such as dpframe-trace. Its
            findings never decide the test.
        out: directory of the record; default: one of the test's own, under its `tmp_path`.

    Returns:
        The record, with one cell.

    Raises:
        ViolationError: the claim is violated. An AssertionError.
        UndecidedError: so few runs could not have refuted the claim, or it could not be run.
        DpframeError: the arguments cannot be used.
    """
    __tracebackhide__ = True
    return _audited("over_one_pair", locals(), (DEFAULT_SECONDS, LONGEST_SECONDS), (d0, d1))


def search_violation(
    release: Callable[..., Any],
    table: Any,
    *,
    schema: Any = (),
    adjacency: str | None = None,
    null: Any = None,
    beyond: bool | Mapping[str, bool] | None = None,
    mistyped: bool = False,
    any_size: bool | None = None,
    form: str | None = None,
    ignore: Sequence[str] = (),
    findings: int = 1,
    epsilon: float | None = None,
    delta: float = 0.0,
    claim: Claim | None = None,
    confidence: float = 0.999,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    query: Callable[[Any], Any] | None = None,
    choices: Callable[[Any], Any] | None = None,
    sensitivity: float | None = None,
    norm: float = 1,
    attributes: Sequence[str] = (),
    raises: str | None = None,
    limit: float | None = None,
    outputs: Mapping[str, bool] | None = None,
    constant: bool = False,
    trace: bool = False,
    parameters: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Record:
    """Fail if any pair of neighbours that a search finds refutes a function's claim.

    From a natural table the search proposes pairs that break libraries: NaN, infinities, values out
    of bounds, unknown categories, a lone far record, the first or the last record removed, one
    record, none; then random edits, and changes of the pairs that showed the most.

    Args:
        release: as for `assert_dp`.
        table: a list of values, of lists or of dicts; an array of one or two axes; a dict of
            columns; a frame of pandas; or (X, y). The function gets data of the same form.
        schema: the columns, in their order or by name: dicts of name, low, high, integer,
            categories; with nan=False, NaN and missing values never occur. An entry may also be
            (low, high), a list of categories or a type, and the schema a dict of them by column.
        adjacency: neighbours of the claim. For records: "replace" (one record is another one),
            "add-remove" (one record more or less) or "zero-out" (one record is replaced by `null`,
            as the accountants of DP-SGD assume: AccountedDP with relation="replace-special"). For a
            vector of query answers: "each-by-one" (every answer moves by at most `sensitivity`,
            default 1) or "one-by-one" (one answer does); the schema may then have one entry with
            low, high and integer. Default: the relation that the claim states, as `AccountedDP`
            does. For other claims there is none, because the wrong kind would refute a true claim.
            A claim that states another relation is refused.
        null: with "zero-out", the record that counts nothing; default: zeros, which needs columns
            of numbers.
        beyond: True if records may lie outside the schema; False for a function of checked data; or
            a dict of "nan", "out_of_bounds" and "unknown_categories", each true or false. Default:
            True, except for a single value, as of a local randomiser.
        mistyped: True if cells may be missing or of another type than any in their column.
        any_size: True if the claim is for tables of any number of records, False if it is only for
            that of the table. Default: True if records are added or removed; with "replace", tables
            only become larger.
        form: the form of the function's data, if it is not that of `table`.
        ignore: leaks that are known: names as the message has them, or parts of them.
        findings: number of distinct leaks to list before the search ends.
        epsilon: claimed loss, in nats.
        delta: claimed δ.
        claim: any other claim, in place of `epsilon` and `delta`.
        confidence: as for `assert_dp`, of the whole search.
        seconds: time that all releases get together. Default: no limit if `trials` is given; else
            that of the pytest option `--dpframe-seconds`, or 60.
        trials: most releases, on D and on D′ each, of all pairs together.
        seed: of the search, and of the generator that `release(rng, data)` gets.
        query: as for `assert_dp`; it is compared on every pair that is proposed.
        choices: as for `assert_dp`; of every pair that is proposed.
        sensitivity: as for `assert_dp`; for query answers, the most that one of them moves.
        norm: as for `assert_dp`.
        attributes: as for `assert_dp`.
        raises: as for `assert_dp`.
        limit: as for `assert_dp`.
        outputs: as for `assert_dp`.
        constant: as for `assert_dp`, for the answers on all pairs.
        trace: as for `assert_dp`, on pairs derived from the table.
        parameters: values of optional arguments to try too, such as {"clip": [0.0, 10.0]}, or
            {"low": 0.1, "high": 10.0} for a range. The claim is for all of them.
        out: as for `assert_dp`.

    Returns:
        The record, with one cell; `cells[0].search` describes the search.

    Raises:
        ViolationError: the claim is violated; the message has the pair. An AssertionError.
        UndecidedError: so few runs could not have refuted the claim, or it could not be run.
        DpframeError: the arguments cannot be used.
    """
    __tracebackhide__ = True
    neighbours: dict[str, Any] = {"schema": schema, "adjacency": adjacency, "form": form}
    neighbours |= {} if null is None else {"null": null}
    neighbours |= {"beyond": beyond, "mistyped": mistyped}
    neighbours |= {} if any_size is None else {"any_size": any_size}
    leaks = {"ignore": ignore, "findings": findings}
    return _audited("over_a_table", locals(), (OF_SEARCH, None), table, neighbours, leaks)


def _audited(
    over: str, given: dict[str, Any], budget: tuple[float, float | None], *subject: Any
) -> Record:
    """Audit a function over a subject; `given` are the arguments of a test, by their names.

    Raises if the test must fail; errors of the arguments come without dpframe's frames.
    """
    __tracebackhide__ = True
    try:
        with _workers() as workers:
            from dpframe.commands import assertions
            from dpframe.commands.assertion_terms import AssertionTerms

            time, longest = _budget(given["seconds"], given["trials"], *budget)
            fields = AssertionTerms._fields
            terms = {name: given[name] for name in fields if name in given}
            terms |= {"seconds": time, "extended": longest}
            outcome = getattr(assertions, over)(
                given["release"],
                *subject,
                terms=AssertionTerms(**terms),
                place=_place(given["out"]),
                workers=workers,
            )
    except DpframeError as error:
        raise error.with_traceback(None) from None
    if _running:
        _running[-1].user_properties.append((PROPERTY, outcome.sentence))
    if outcome.error is not None:
        raise outcome.error
    record: Record = outcome.record
    return record


def _workers() -> Workers:
    """Start worker processes, which get ready while this process imports JAX.

    The workers of pytest-xdist share the cores.
    """
    from dpframe.common.machine import available_cores
    from dpframe.draw.pool import Workers

    beside = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    workers = Workers(available_cores() // max(1, int(beside) if beside.isdecimal() else 1))
    workers.start(2)
    return workers


def _budget(
    seconds: float | None, trials: int | None, default: float, longest: float | None
) -> tuple[float | None, float | None]:
    """Return the seconds of an audit, and those up to which it may be extended."""
    if seconds is not None or trials is not None:
        return seconds, None
    base = _of_session[-1][1] if _of_session else default
    return base, None if longest is None else max(base, longest)


def _place(out: str | os.PathLike[str] | None) -> Callable[[], Path]:
    """Return a function that makes the record's directory, by default below the test's own."""

    def directory() -> Path:
        import tempfile

        if out is not None:
            return Path(out)
        base = None
        if _running:
            try:
                base = _running[-1]._request.getfixturevalue("tmp_path")  # type: ignore[attr-defined]
            except Exception:  # an item of some other plugin
                base = None
        return Path(tempfile.mkdtemp(prefix="dpframe-", dir=base))

    return directory


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the audits with their outcomes, because a dot alone does not show them."""
    lines = [
        f"{report.nodeid}: {text}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("dpframe")
        for line in lines:
            terminalreporter.line(line)


OPTION = "dpframe_seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option, and its name in the configuration."""
    description = "seconds of an audit whose test states neither seconds nor trials"
    parser.getgroup("dpframe").addoption(
        "--dpframe-seconds", dest=OPTION, metavar="N", help=description
    )
    parser.addini(OPTION, description)


def pytest_configure(config: pytest.Config) -> None:
    """Read the seconds of the session, and offer the functions as fixtures."""
    import pytest

    # JAX warns if it meets an entry of its cache that another process is writing, and compiles.
    unread = "ignore:Error (reading|writing) persistent compilation cache:UserWarning"
    config.addinivalue_line("filterwarnings", unread)
    given = config.getoption(OPTION) or config.getini(OPTION)
    if given:
        try:
            seconds = float(given)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise pytest.UsageError(f"dpframe-seconds: {given!r} is not a positive number")
        _of_session.append((config, seconds))

    class Fixtures:
        @pytest.fixture(name="assert_dp")
        def _assert_dp(self) -> Callable[..., Record]:
            """`dpframe.pytest.assert_dp`."""
            return assert_dp

        @pytest.fixture(name="search_violation")
        def _search_violation(self) -> Callable[..., Record]:
            """`dpframe.pytest.search_violation`."""
            return search_violation

    config.pluginmanager.register(Fixtures(), "dpframe-fixtures")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Forget the seconds of the session."""
    _of_session[:] = [one for one in _of_session if one[0] is not config]


def pytest_runtest_call(item: pytest.Item) -> None:
    """Remember the running test; pytest calls this before it runs the test."""
    _running.append(item)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Forget the test."""
    if _running[-1:] == [item]:
        _running.pop()
