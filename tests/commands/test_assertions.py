"""A test that audits a function turns red, green, or says that nothing was tested."""

from __future__ import annotations

import functools
import random
import re
import tempfile
import threading
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpframe.claims import GaussianDP, PureDP
from dpframe.commands.release_signature import takes_generator
from dpframe.draw.in_process import InProcessWorkers
from dpframe.errors import DpframeError
from dpframe.interfaces.hookspecs import hookimpl
from dpframe.interfaces.registry import Registry
from dpframe.pytest import UndecidedError, ViolationError, assert_dp, search_violation
from dpframe.results import store as records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

D0, D1 = np.zeros(3), np.array([1.0, 0.0, 0.0])
BUDGET = {"trials": 8_000, "seconds": 300.0}


def noisy_sum(data: Any) -> float:
    """1-DP where one record of [0, 1] is replaced."""
    return float(np.sum(data) + np.random.laplace(scale=1.0))


def half(data: Any) -> float:
    """The planted bug: half of the noise, so that it loses 2."""
    return float(np.sum(data) + np.random.laplace(scale=0.5))


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dpframe.pytest._workers", InProcessWorkers)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no test is known


def test_a_planted_bug_is_red_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(ViolationError) as found:
        assert_dp(half, d0=D0, d1=D1, epsilon=1.0, out=tmp_path, **BUDGET)
    error = found.value
    assert isinstance(error, AssertionError)  # a failure, for runners of tests
    message = str(error)
    (cell,) = error.record.cells
    assert "half violates its claim, ε = 1" in message
    assert cell.reason in message
    assert cell.search.event in message
    assert f"pytest {__file__.rpartition('/')[2]}" in message.replace("tests/commands/", "")
    assert records.load(tmp_path).digest == error.record.digest
    assert str(tmp_path) in message
    assert min(cell.trials) < BUDGET["trials"]  # it stopped once it knew


def test_no_violation_is_green_and_gives_the_record() -> None:
    record = assert_dp(noisy_sum, d0=D0, d1=D1, epsilon=1.0, **BUDGET)
    (cell,) = record.cells
    assert cell.verdict == "consistent"
    assert min(cell.trials) > BUDGET["trials"] / 2


def test_a_query_that_is_too_wide_needs_no_draw() -> None:
    """So much noise that no number of runs shows it."""

    def hidden(data: Any) -> float:
        return float(np.sum(data) + np.random.laplace(scale=1000.0))

    exact = {"query": np.sum, "epsilon": 1.0, "d0": D0, "d1": D1}
    with pytest.raises(ViolationError, match="2 times as much") as found:
        assert_dp(hidden, sensitivity=0.5, **exact, **BUDGET)
    assert found.value.record.cells[0].verdict == "consistent"
    assert "violates its claim" not in str(found.value)
    assert "hidden has less noise than its query needs" in str(found.value)
    assert_dp(hidden, sensitivity=1.0, **exact, **BUDGET)


def test_what_could_have_shown_nothing_is_not_green() -> None:
    with pytest.raises(UndecidedError, match="cannot be refuted with") as found:
        assert_dp(noisy_sum, d0=D0, d1=D1, epsilon=10.0, **BUDGET)
    assert not isinstance(found.value, AssertionError)  # "it must find this bug" is not met by it


GIVEN = functools.partial(assert_dp, noisy_sum, d0=D0, d1=D1)
SEARCHED = functools.partial(search_violation, noisy_sum, [1, 2], adjacency="each-by-one")
FEW = {"trials": 64}


@pytest.mark.parametrize(
    ("audit", "epsilon", "budget", "said", "absent"),
    [
        (
            GIVEN,
            4.0,
            FEW,
            r"needed: about [\d,]+ runs; at this speed about \d+ (s|min|h), trials=\d+$",
            "instead",
        ),
        (GIVEN, 9.0, {**FEW, "seconds": 1e5}, r"e\^ε = 8,100 times likelier", "seconds="),
        (GIVEN, 9.0, {"seconds": 0.2}, r", seconds=\d+$", "trials="),
        (GIVEN, 30.0, FEW, r"needed: more than 1 billion runs$", "speed"),
        (
            GIVEN,
            700.0,
            FEW,
            r"needed: more runs than can be made\n  why so many: at ε = 700",
            "speed",
        ),
        (GIVEN, 9.0, FEW, r"instead of runs: choices=.*\n  instead of runs: trace=True", "none"),
        (SEARCHED, 9.0, FEW, "instead of runs: choices=", "trace=True"),
    ],
)
def test_a_large_claim_says_what_refuting_it_takes(
    audit: Callable[..., Any], epsilon: float, budget: dict[str, Any], said: str, absent: str
) -> None:
    with pytest.raises(UndecidedError) as found:
        audit(epsilon=epsilon, **budget)
    message = str(found.value).partition("  record: ")[0]
    assert re.search(said, message, re.MULTILINE), message
    assert absent not in message


def test_what_always_raises_is_not_green() -> None:
    def broken(data: Any) -> Any:
        raise NameError("no such name")

    with pytest.raises(UndecidedError, match="could not be audited"):
        assert_dp(broken, d0=D0, d1=D1, epsilon=1.0, **BUDGET)


class Library:
    """An object with a state that no other process can have."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def release(self, data: Any) -> float:
        assert self.lock.acquire(blocking=False), "two runs at the same time"
        try:
            return half(data)
        finally:
            self.lock.release()


def test_what_cannot_be_handed_over_runs_here_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    np.random.seed(7)
    before = np.random.get_state()[1].tolist()
    with pytest.raises(ViolationError, match="in the process of the test"):
        assert_dp(Library().release, d0=D0, d1=D1, epsilon=1.0, **BUDGET)
    assert np.random.get_state()[1].tolist() == before


def test_what_runs_here_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DpframeError, match="a run in the process of the test cannot be stopped"):
        assert_dp(Library().release, d0=D0, d1=D1, epsilon=1.0, limit=1.0, **BUDGET)


def to_the_last_bit(rng: np.random.Generator, data: Any) -> float:
    """Right but for its last bits: a sum with 0 loses none of them."""
    return float(np.sum(data) + rng.laplace(scale=1.0))


def test_last_bits_are_looked_at_where_the_test_says_so() -> None:
    over = {"d0": D0, "d1": D1, "epsilon": 1.0, **BUDGET}
    assert assert_dp(to_the_last_bit, **over).cells[0].verdict == "consistent"
    with pytest.raises(
        ViolationError, match=r"witness: the (last bit|output is not a multiple|output uses)"
    ):
        assert_dp(to_the_last_bit, outputs={"bits": True}, **over)
    table = {"adjacency": "replace", "schema": [{"name": "x", "low": 0.0, "high": 1.0}], **BUDGET}
    with pytest.raises(ViolationError) as found:
        search_violation(to_the_last_bit, [0.0, 0.0], epsilon=1.0, outputs={"bits": True}, **table)
    assert found.value.record.cells[0].asked.bits


def test_what_cannot_be_repeated_is_named_with_a_remedy_that_tests_have() -> None:
    calls = iter(range(10**9))

    def elsewhere(rng: np.random.Generator, data: Any) -> float:
        return float(np.sum(data) + random.SystemRandom().expovariate(1.0))

    def stateful(rng: np.random.Generator, data: Any) -> float:
        return float(np.sum(data) + rng.laplace() + 1e-9 * next(calls))

    for hidden in (elsewhere, stateful):
        remedy = r"Make its state anew .* a function of a test takes no generator: release\(data\)"
        with pytest.raises(UndecidedError, match=f"keeps state between calls.*{remedy}"):
            assert_dp(hidden, d0=D0, d1=D1, epsilon=1.0, **BUDGET)


def test_two_workers_make_the_same_calls_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []
    lend = InProcessWorkers.lend

    def counted(self: InProcessWorkers, load: Any, number: int = 1) -> Any:
        numbers.append(number)
        return lend(self, load, number)

    monkeypatch.setattr(InProcessWorkers, "lend", counted)
    with pytest.raises(ViolationError):
        assert_dp(half, d0=D0, d1=D1, epsilon=1.0, **BUDGET)
    assert numbers[:2] == [2, 2]  # of addresses, and of the user's own data
    assert 1 in numbers


def test_an_exception_is_no_answer_where_the_test_says_so() -> None:
    def refuses(data: Any) -> float:
        if np.sum(data) > 0:
            raise ValueError("too much")
        return noisy_sum(data)

    over = {"d0": D0, "d1": D1, "epsilon": 1.0, **BUDGET}
    with pytest.raises(ViolationError, match="raises ValueError at ") as found:
        assert_dp(refuses, **over)
    assert str(found.value).partition("\n")[0].endswith("100 % on D′ were exceptions)")
    with pytest.raises(UndecidedError, match=r"could not be audited: .*ValueError: too much"):
        assert_dp(refuses, raises="fail", **over)


def seeded(rng: np.random.Generator, data: Any) -> float:
    return float(np.sum(data) + rng.laplace(scale=0.5))


def test_the_same_seed_gives_the_same_answer() -> None:
    counts = []
    for seed in (0, 0, 1):
        with pytest.raises(ViolationError) as found:
            # Without `seconds`, on which sizes of looks depend.
            assert_dp(seeded, d0=D0, d1=D1, epsilon=1.0, seed=seed, trials=4_000)
        counts.append(found.value.record.cells[0].counts)
    assert counts[0] == counts[1] != counts[2]


def test_any_claim(tmp_path: Path) -> None:
    record = assert_dp(noisy_sum, d0=D0, d1=D1, claim=GaussianDP(3.0), out=tmp_path, **BUDGET)
    assert record.cells[0].claim is not None
    assert record.cells[0].claim.kind == "gaussian-dp"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": 10**400}, "epsilon"),
        ({"epsilon": 1.0, "attributes": 3}, "attributes: 3 is not a list of names"),
        ({"epsilon": 1.0, "attributes": "weights"}, "attributes: 'weights' is not a list"),
        ({"epsilon": 1.0, "delta": 2.0}, "delta"),
        ({"epsilon": 1.0, "claim": GaussianDP(1.0)}, "either the claim"),
        ({"claim": 1.0}, "not a claim"),
        ({"epsilon": 1.0, "seconds": 0}, "seconds"),
        ({"epsilon": 1.0, "confidence": 1}, "confidence"),
        ({"epsilon": 1.0, "d1": D0}, "equal"),
        ({"epsilon": 1.0, "trials": 0}, "trials"),
        ({"epsilon": 1.0, "raises": "never"}, 'raises: \'never\' is not "answer" or "fail"'),
        ({"epsilon": 1.0, "limit": 0}, "limit: 0 is not a number above 0"),
        ({"epsilon": 1.0, "outputs": {"space": True}}, 'outputs: .* is not a dict of "time"'),
        ({"epsilon": 1.0, "outputs": ["bits"]}, "outputs"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DpframeError, match=message) as found:
        assert_dp(noisy_sum, **{"d0": D0, "d1": D1, **arguments})
    assert not isinstance(found.value, UndecidedError)


class Callable_:  # noqa: N801
    def __call__(self, rng: Any, data: Any) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (lambda data: 0.0, False),
        (lambda rng, data: 0.0, True),
        (lambda data, epsilon=1.0: 0.0, False),
        (lambda rng, data=None: 0.0, True),
        (lambda *anything: 0.0, False),
        (functools.partial(lambda e, data: 0.0, 1.0), False),
        (Callable_(), True),
        (Library().release, False),
        (np.sum, False),
    ],
)
def test_how_a_function_is_called(release: Any, expected: bool) -> None:
    assert takes_generator(release) is expected


async def awaited(data: Any) -> float:
    return 0.0


@pytest.mark.parametrize(
    "release", [None, awaited, lambda: 0.0, lambda a, b, c: 0.0, lambda data, *, epsilon: 0.0]
)
def test_what_cannot_be_called(release: Any) -> None:
    with pytest.raises(DpframeError, match="release"):
        takes_generator(release)


def test_a_function_may_be_called_as_a_mechanism_is() -> None:
    def laplace(data: Any) -> float:
        return half(data)

    with pytest.raises(ViolationError, match="laplace violates its claim"):
        assert_dp(laplace, d0=D0, d1=D1, epsilon=1.0, **BUDGET)


TABLE = np.array([0.2, 0.5, 0.9])
SCHEMA = [{"name": "x", "low": 0.0, "high": 1.0}]


def mean(data: Any) -> float:
    """The planted bug: a NaN goes through, and whoever sees NaN knows whose data they are."""
    return float(np.mean(np.clip(data, 0.0, 1.0)) + np.random.laplace(scale=1 / len(data)))


def careful(data: Any) -> float:
    """0.5-DP where one record is replaced, whatever it is."""
    known = np.nan_to_num(np.clip(data, 0.0, 1.0))
    return float(known.sum() + np.random.laplace(scale=2.0))


def test_a_search_finds_the_data_that_break_a_function() -> None:
    with pytest.raises(ViolationError) as found:
        search_violation(mean, TABLE, schema=SCHEMA, adjacency="replace", epsilon=1.0, **BUDGET)
    message = str(found.value)
    assert "mean violates its claim, ε = 1" in message
    assert "nan" in message.split("D: ")[1].lower()
    cell = found.value.record.cells[0]
    assert cell.search.pairs >= 1
    assert cell.pair.use == "records"


def clipped(rng: Any, values: Any, clip: float = 1.0, wide: bool = False) -> float:
    """Has noise for `clip` = 1 alone."""
    return float(np.clip(values, 0, clip).sum() + rng.laplace())


@pytest.mark.parametrize("tried", [[1, 5.0], {"low": 1.0, "high": 5.0}])
def test_a_search_varies_arguments(tried: Any) -> None:
    given: dict[str, Any] = {"schema": [(0.0, 10.0)], "adjacency": "add-remove", "epsilon": 1.0}
    given |= {"beyond": False, "trials": 3000}
    data = [0.2, 0.9, 0.5]
    record = search_violation(clipped, data, **{**given, "trials": 300})
    assert record["cells"][0]["search"]["coverage"]["untried"] == ["another value of clip"]
    with pytest.raises(ViolationError, match=r"parameters: mechanism\.clip = [35]") as raised:
        search_violation(clipped, data, **given, parameters={"clip": tried})
    assert raised.value.record.cells[0].mechanism.params["clip"] in (3.0, 5.0)
    for wrong, message in (
        ({"clp": [5]}, "'clp' is no optional argument .* there are clip, wide"),
        ({"clip": 5}, "should be a list of values"),
        ({"clip": [None]}, "parameters"),
    ):
        with pytest.raises(DpframeError, match=message):
            search_violation(clipped, data, **given, parameters=wrong)


@pytest.mark.slow
def test_a_search_that_finds_nothing_says_over_how_many_pairs() -> None:
    record = search_violation(
        careful, TABLE, schema=SCHEMA, adjacency="replace", epsilon=1.0, trials=3_000, seconds=300
    )
    assert record.cells[0].verdict == "consistent"
    assert record.cells[0].search.pairs > 3


@pytest.mark.slow
def test_a_search_compares_the_query_on_every_pair() -> None:
    def hidden(data: Any) -> float:
        return float(np.random.laplace(scale=1000.0))

    with pytest.raises(ViolationError, match="exact, without draws") as found:
        search_violation(
            hidden,
            TABLE,
            schema=SCHEMA,
            adjacency="replace",
            epsilon=1.0,
            query=np.sum,
            sensitivity=1.0,
            **BUDGET,
        )
    exact = found.value.record.cells[0].exact
    assert exact.exceeding > 1
    assert {one.kind for one in exact.witnesses} >= {"change", "not a number"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "adjacency"),
        ({"adjacency": "sideways"}, "adjacency"),
        ({"adjacency": "replace", "schema": [{"name": "x", "lowerr": 0.0}]}, "lower"),
    ],
)
def test_neighbours_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DpframeError, match=message):
        search_violation(careful, TABLE, epsilon=1.0, **arguments)


ANSWERS = [1.0, 2.0, 3.0, 4.0, 5.0]


def above_threshold(rng: Any, answers: Any, scale: float = 4.0) -> list[bool]:
    """1-DP if every answer moves by at most 1: Dwork and Roth (2014), section 3.6, Algorithm 1."""
    assert type(answers) is list
    threshold, said = 3.0 + rng.laplace(scale=2.0), []
    for answer in answers:
        said.append(bool(answer + (scale and rng.laplace(scale=scale)) >= threshold))
        if scale and said[-1]:
            break
    return said


def without_noise(rng: Any, answers: Any) -> list[bool]:
    """The planted bug: no noise on the answers, and no end (Algorithm 5 of Lyu et al., 2017)."""
    return above_threshold(rng, answers, scale=0.0)


def search_answers(release: Any, **changes: Any) -> Any:
    given = {"adjacency": "each-by-one", "epsilon": 1.0, "trials": 2_000, "seconds": 300.0}
    return search_violation(release, ANSWERS, **given | changes)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["each-by-one", "one-by-one"])
def test_a_right_sparse_vector_is_green_on_query_answers(adjacency: str) -> None:
    for seed in range(2):
        (cell,) = search_answers(
            above_threshold, trials=20_000, seed=seed, adjacency=adjacency
        ).cells
        assert cell.verdict == "consistent"
        assert cell.search.pairs > 1


def test_a_wrong_sparse_vector_is_red_on_query_answers() -> None:
    with pytest.raises(ViolationError, match="without_noise violates its claim") as found:
        search_answers(without_noise, schema=[{"low": 0, "high": 6, "integer": True}])
    pair = found.value.record.cells[0].pair.params
    d0, d1 = np.asarray(pair["d0"]), np.asarray(pair["d1"])
    assert 0 < np.max(np.abs(d0 - d1)) <= 1
    assert np.all((d0 >= 0) & (d0 <= 6) & (d0 == np.round(d0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": np.sum}, "query: it is for records"),
        ({"beyond": True}, "beyond: it is for records"),
        ({"mistyped": True}, "mistyped: it is for records"),
        ({"form": "array"}, "form: it is for records"),
        ({"sensitivity": 0}, "sensitivity: 0 is not a number above 0"),
        ({"schema": [{"low": 0.0}, {"low": 1.0}]}, "schema: it has 2 entries"),
        ({"schema": [{"lowest": 0.0}]}, "unknown key 'lowest'"),
        ({"schema": [{"low": 7.0, "high": 5.0}]}, "low is 7.0 and high is 5.0"),
        ({"schema": [{"low": "a"}]}, "low"),
        ({"table": []}, "a vector of finite numbers"),
        ({"table": [[1.0], [2.0]]}, "a vector of finite numbers"),
        ({"table": [1.0, float("nan")]}, "a vector of finite numbers"),
        ({"table": ["a"]}, "a vector of finite numbers"),
    ],
)
def test_query_answers_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    given = {"table": ANSWERS, "adjacency": "each-by-one", "epsilon": 1.0, **arguments}
    with pytest.raises(DpframeError, match=message):
        search_violation(above_threshold, **given)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A plugin that traces; its calls are listed."""
    plugin, calls = types.ModuleType("own"), list[Any]()

    def tracer(release: Any, data: Any, claim: Any) -> list[str]:
        calls.append((release, sorted(data), claim))
        return ["line 3 leaks"]

    plugin.dpframe_tracers = hookimpl(lambda: [tracer])  # type: ignore[attr-defined]
    registry = Registry()
    registry._add("own", "1", "module", lambda: plugin)
    monkeypatch.setattr("dpframe.commands.assertions.load", lambda: registry)
    return calls


def test_the_findings_of_a_tracer_are_in_the_message(traced: list[Any]) -> None:
    with pytest.raises(ViolationError, match="  trace: line 3 leaks"):
        assert_dp(half, d0=D0, d1=D1, epsilon=1.0, trace=True, **BUDGET)
    assert traced == [(half, ["d0", "d1"], PureDP(1.0))]


def test_the_findings_of_a_tracer_are_no_verdict(traced: list[Any]) -> None:
    with pytest.raises(UndecidedError, match=r"line 3 leaks\n.* its findings are no verdict"):
        assert_dp(half, d0=D0, d1=D1, epsilon=1.0, trace=True, trials=3)
    assert_dp(noisy_sum, d0=D0, d1=D1, epsilon=1.0, trace=True, **BUDGET)


def test_a_trace_needs_a_plugin_and_is_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpframe.commands.assertions.load", Registry)
    with pytest.raises(DpframeError, match="plugins/dpframe-trace"):
        assert_dp(half, d0=D0, d1=D1, epsilon=1.0, trace=True, **BUDGET)
    wrong: Any = "yes"
    with pytest.raises(DpframeError, match="trace: 'yes' is not true or false"):
        assert_dp(half, d0=D0, d1=D1, epsilon=1.0, trace=wrong, **BUDGET)
