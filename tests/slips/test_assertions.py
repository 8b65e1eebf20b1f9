"""Slips in tests of black boxes: none of them turns a test green or accuses the function."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dpframe
from dpframe.claims import PureDP
from dpframe.errors import DpframeError, UndecidedError, ViolationError
from dpframe.plugins import HostMechanism, Mechanism
from dpframe.pytest import assert_dp, search_violation
from dpframe.workers.in_process import Here

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE: dict[str, Any] = {"d0": [0.0], "d1": [1.0], "epsilon": 1.0, "trials": 1_000, "seconds": 300.0}
TABLE = np.array([34.0, 51.0, 29.0])
SEARCH: dict[str, Any] = {"epsilon": 1.0, "trials": 1_000, "seconds": 300.0}
SCHEMA = [{"low": 0, "high": 100}]


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dpframe.pytest._workers", Here)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


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
