"""Slips in tests of black boxes: none of them turns a test green or accuses the function."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

import dpframe
from dpframe.claims import PureDP
from dpframe.draw.in_process import InProcessWorkers
from dpframe.errors import DpframeError, UndecidedError, ViolationError
from dpframe.plugins import HostMechanism, Mechanism
from dpframe.pytest import assert_dp, search_violation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE: dict[str, Any] = {"d0": [0.0], "d1": [1.0], "epsilon": 1.0, "trials": 1_000, "seconds": 300.0}
TABLE = np.array([34.0, 51.0, 29.0])
SEARCH: dict[str, Any] = {"epsilon": 1.0, "trials": 1_000, "seconds": 300.0}
SCHEMA = [{"low": 0, "high": 100}]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dpframe.pytest._workers", InProcessWorkers)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sample_in_this_process(monkeypatch)


# Constant answers.


def forgets_return(rng: Any, values: Any) -> None:
    np.sum(values) + rng.laplace()


def prints(rng: Any, values: Any) -> None:
    print("noisy sum:", np.sum(values) + rng.laplace())  # noqa: T201


memo: dict[str, float] = {}


def caches(rng: Any, values: Any) -> float:
    return memo.setdefault("sum", 0.5)


CONSTANT: list[tuple[Callable[..., Any], str]] = [
    (forgets_return, r"forgets_return returned None in all [\d,]+ runs.*forget `return`"),
    (prints, r"returned None, and printed 'noisy sum: .*', in all [\d,]+ runs.*forget `return`"),
    (caches, r"caches returned 0.5 in all"),
    (lambda values: 3, r"returned 3 in all .* constant"),
    (lambda values: {"sum": None}, r"returned \{'sum': None\} in all"),
    (lambda values: float("nan"), "returned nan in all"),
    (lambda values: np.array([]), r"returned \[\] in all"),
    (lambda values: np.zeros(40), r"returned the same float64 array of shape \(40,\) in all"),
    (len, "returned 1 in all"),
]


@pytest.mark.parametrize(("release", "message"), CONSTANT)
def test_one_answer_in_all_runs_tests_nothing(release: Any, message: str) -> None:
    with pytest.raises(UndecidedError, match=message):
        assert_dp(release, **ONE)


def test_one_answer_on_all_pairs_of_a_search_tests_nothing() -> None:
    over = {"schema": SCHEMA, "adjacency": "replace", **SEARCH}
    with pytest.raises(UndecidedError, match=r"returned None in all [\d,]+ runs"):
        search_violation(forgets_return, TABLE, **over)
    record = search_violation(forgets_return, TABLE, constant=True, **over)
    assert record.cells[0].verdict == "consistent"


def test_a_constant_that_should_be_one_is_green() -> None:
    assert assert_dp(lambda values: 3, constant=True, **ONE).cells[0].verdict == "consistent"
    with pytest.raises(DpframeError, match="constant: 3 is not true or false"):
        assert_dp(lambda values: 3, constant=3, **ONE)  # type: ignore[arg-type]


def test_a_constant_that_differs_between_d_and_d1_is_a_violation() -> None:
    with pytest.raises(ViolationError):
        assert_dp(lambda values: values[0], **ONE)


class Forgets(HostMechanism, name="forgets"):
    """Returns nothing."""

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> None:
        """Return nothing."""


class Same(Mechanism, name="same"):
    """Its output is always 3."""

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return 0 * data + np.full((n, 1), np.float32(3))


def audited(mechanism: type, estimator: dict[str, Any], **table: Any) -> Any:
    """Return the only cell of an audit of a mechanism on one pair."""
    spec = {
        "schema": 1,
        "audit": {"name": "constant", "trials": 2_000},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": mechanism.name, **table}],  # type: ignore[attr-defined]
        "attack": [{"use": "identity"}],
        "estimator": [estimator],
        "run": {"fit": 500, "pilot": 500},
    }
    (cell,) = dpframe.audit(spec, plugins=[mechanism]).cells
    return cell


ESTIMATORS = [
    {"use": "order-statistics"},
    {"use": "betting"},
    {"use": "histogram"},
    {"use": "threshold"},
    {"use": "threshold", "params": {"threshold": 0.0}},
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_equal_scores_test_nothing(estimator: dict[str, Any]) -> None:
    cell = audited(Same, estimator)
    assert cell.verdict == "inconclusive"
    assert cell.reason == "all 4,000 scores of identity were equal, so nothing was tested"


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=str)
def test_a_box_with_one_answer_is_inconclusive_on_a_fixed_pair(estimator: dict[str, Any]) -> None:
    cell = audited(Forgets, estimator)
    assert cell.verdict == "inconclusive"
    assert "forgets returned None in all 4,000 runs" in cell.reason
    assert audited(Forgets, estimator, constant=True).verdict == "consistent"


# Arguments in another order.


def annotated(values: Any, source: np.random.Generator) -> float:
    return float(np.sum(values) + source.laplace())


class Library:
    """A class whose method is taken without an object."""

    def __init__(self, values: Any = ()) -> None:
        self.values = values

    def release(self, values: Any) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (
            lambda data, rng: 0,
            r"second parameter is called 'rng'.* but dpframe calls release\(rng, data\): swap",
        ),
        (lambda values, random_state: 0, "second parameter is called 'random_state'.*swap"),
        (annotated, "second parameter is called 'source'.*swap"),
        (lambda data, eps: 3, "'data' would get the generator: bind 'eps' with functools.partial"),
        (lambda v, sensitivity: 3, "bind 'sensitivity' with functools.partial or a lambda"),
        (lambda df, k: 3, "'df' would get the generator: bind 'k'"),
        (lambda rng, epsilon: 3, "'epsilon', but .* so it would get the data"),
        (lambda rng, data, eps: 3, "takes 3 arguments, rng, data, eps; .*functools.partial"),
        (lambda epsilon, v: 3, "first parameter is called 'epsilon', .* the generator: bind it"),
        (lambda rng, epsilon=1.0: 3, "'epsilon', but .* so it would get the data"),
        (lambda epsilon: 3, "only parameter is called 'epsilon', but would get the data"),
        (lambda rng: 3, r"only parameter is called 'rng', .* release\(rng, data\)"),
        (Library, "Library is a class: pass the method of an object"),
        (Library.release, "'self': pass the method of an object"),
    ],
)
def test_arguments_in_another_order_are_named(release: Any, message: str) -> None:
    with pytest.raises(DpframeError, match=message) as found:
        assert_dp(release, **ONE)
    assert not isinstance(found.value, UndecidedError)


RIGHT = "lambda {0}, {1}: float(np.sum({1}) + {0}.laplace(scale=2.0))"


@pytest.mark.parametrize(
    "names", [("g", "x"), ("state", "v"), ("_", "d"), ("np_rng", "table"), ("noise", "values")]
)
def test_arguments_with_unusual_names_are_taken_in_order(names: tuple[str, str]) -> None:
    release = eval(RIGHT.format(*names), {"np": np})
    assert assert_dp(release, **ONE).cells[0].verdict == "consistent"


def test_swapped_arguments_with_unusual_names_are_asked_about() -> None:
    def release(a: Any, b: Any) -> float:
        return float(sum(a) + b.laplace())

    message = r"TypeError: .*test_assertions.py:\d+ in release.*\n.*a, b got the generator and the"
    with pytest.raises(UndecidedError, match=message):
        assert_dp(release, **ONE)


# Functions that raise.


def indexes(rng: Any, values: Any) -> float:
    return sum(float(value[0]) for value in values) + rng.laplace(scale=100.0)


def needs_a_module(values: Any) -> float:
    import nosuch

    return float(nosuch.sum(values))


def misspells_if_empty(rng: Any, values: Any) -> float:
    if not len(values):
        return np.zerros(1)  # type: ignore[attr-defined, no-any-return]
    return float(np.clip(np.nan_to_num(values), 0, 100).sum() + rng.laplace(scale=100.0))


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (indexes, r"own table were exceptions.* IndexError: .*test_assertions.py:\d+ in indexes"),
        (needs_a_module, r"own table .* No module named 'nosuch' .*test_assertions.py:\d+"),
        (misspells_if_empty, r"a name in the code .* 'zerros' .*test_assertions.py:\d+"),
    ],
)
def test_a_function_that_raises_on_its_own_table_is_not_accused(release: Any, message: str) -> None:
    with pytest.raises(UndecidedError, match=message):
        search_violation(
            release, TABLE, schema=SCHEMA, adjacency="add-remove", **{**SEARCH, "trials": 3_000}
        )


def on_two_lines(values: Any) -> float:
    if values[0] > 0:
        raise ValueError("positive")
    raise KeyError("not positive")


def len_of_a_number(rng: Any, values: Any) -> float:
    return float(len(values[0])) if values[0] > 0 else float(rng.laplace())


def misspells(rng: Any, values: Any) -> float:
    return float(np.lapalce(1) if values[0] > 0 else rng.laplace())  # type: ignore[attr-defined]


def unpacks(rng: Any, values: Any) -> float:
    table = [1.0, 2.0] if values[0] > 0 else [1.0]
    (first,) = table
    return float(first + rng.laplace())


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (unpacks, r"answers on D′ were exceptions.* too many values to unpack .*py:\d+ in unpacks"),
        (on_two_lines, r"D and D′ were exceptions(?=.*KeyError: ).*ValueError: positive"),
        (len_of_a_number, r"answers on D′ were exceptions.* TypeError: .*test_assertions.py:\d+"),
        (misspells, r"answers on D′ were exceptions.* 'lapalce' \(.*test_assertions.py:\d+"),
    ],
)
def test_a_mistake_that_raises_on_a_given_dataset_is_not_accused(
    release: Any, message: str
) -> None:
    with pytest.raises(UndecidedError, match=message):
        assert_dp(release, **ONE)


def test_exceptions_that_tell_d_from_d1_are_shown_first() -> None:
    def refuses(rng: Any, values: Any) -> float:
        if values[0] > 0:
            raise ValueError("too much")
        return float(rng.laplace())

    shown = r"100 % on D′ were exceptions\)\n  exception: ValueError: too much \(.*ons.py:\d+"
    with pytest.raises(ViolationError, match=shown):
        assert_dp(refuses, **ONE)
    with pytest.raises(ViolationError, match=r"exception: TypeError: .*test_assertions.py:\d+"):
        assert_dp(len_of_a_number, raises="answer", **ONE)


def forgets_return_in_a_branch(rng: Any, values: Any) -> Any:
    if values[0] > 0:
        return float(rng.laplace())
    return None


def test_a_branch_without_return_is_asked_about() -> None:
    with pytest.raises(ViolationError, match="returned None in all of these runs on D; did a br"):
        assert_dp(forgets_return_in_a_branch, **ONE)


ONCE = np.random.default_rng(1).laplace()


@pytest.mark.parametrize("release", [lambda values: values[0] + ONCE, lambda values: values[0]])
def test_noise_that_was_drawn_once_is_asked_about(release: Any) -> None:
    with pytest.raises(ViolationError, match="never changed: it adds no noise, or noise that was"):
        assert_dp(release, **ONE)


class Indexes(HostMechanism, name="indexes"):
    """Raises on every table that has a record."""

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> float:
        return indexes(rng, data)


@pytest.mark.parametrize(
    "where",
    [
        {"search": {"use": "records", "params": {"table": [1.0, 2.0], "adjacency": "add-remove"}}},
        {
            "pair": {"use": "values", "params": {"d0": [1.0], "d1": []}},
            "attack": [{"use": "answers"}],
            "estimator": [{"use": "betting"}],
        },
    ],
    ids=["search", "pair"],
)
def test_a_box_that_raises_on_its_own_data_fails_its_cell(where: dict[str, Any]) -> None:
    audit = {"name": "raises", "trials": 1_000}
    spec = {"schema": 1, "audit": audit, "mechanism": [{"use": "indexes"}], **where}
    record = dpframe.audit(spec, plugins=[Indexes])
    (cell,) = record.cells
    assert (cell.status, cell.verdict) == ("failed", None)
    assert "IndexError" in cell.reason
    assert "test_assertions.py" in cell.reason
    assert dpframe.exit_code(record) == 3


# Datasets that are no neighbours.


@pytest.mark.parametrize(
    ("d0", "d1", "note"),
    [
        ([-1] * 20, [1] * 20, "D and D′ differ in 20 of 20 entries; is that one step"),
        (np.zeros(3), np.ones(3), "differ in 3 of 3 entries"),
        ([2.0, 1.0], [], "differ in 2 of 2 entries"),
        ([1.0, 5.0], [5.0], None),
        ([-1, 0.5], [1, 0.5], None),
        (np.zeros((1, 4)), np.ones((1, 4)), None),
    ],
)
def test_datasets_that_are_no_neighbours_are_asked_about(d0: Any, d1: Any, note: Any) -> None:
    with pytest.raises(ViolationError) as found:
        assert_dp(np.sum, **{**ONE, "d0": d0, "d1": d1})
    assert note is None or note in str(found.value)
    assert ("adjacency?" in str(found.value)) == (note is not None)


@pytest.mark.parametrize(
    ("release", "epsilon", "message"),
    [
        (lambda: 0, 1.0, "takes no arguments; it is called as .* one run per call$"),
        (lambda data: 0, "1", "epsilon: pass the claimed ε, a number, not '1'"),
        (lambda data: 0, None, "epsilon: pass the claimed ε, a number, not None"),
    ],
)
def test_what_is_missing_is_named(release, epsilon, message) -> None:
    with pytest.raises(DpframeError, match=message):
        assert_dp(release, d0=[0.0], d1=[1.0], epsilon=epsilon)
