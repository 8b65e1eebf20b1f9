"""Mechanisms know the probability of each bin."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import dpframe
from dpframe import HostMechanism
from dpframe.builtin.fixed_attacks import Identity, MajorityVote
from dpframe.builtin.pairs import ZerosOnes
from dpframe.errors import CellError
from dpframe.interfaces.plugin_calls import exact_shares

EDGES = [0.0, 0.5, "inf"]
COUNTS = np.zeros((2, 5), int).tolist()


MANY = (np.zeros((2, 257), int).tolist(), np.linspace(0, 1, 255).tolist())


def cell(cdf: Any, attack: Any = None) -> Any:
    class Known(HostMechanism, name="known", api=1):
        def sample(self, rng: Any, data: Any, n: int) -> Any: ...

        def cdf(self, data: Any, x: Any) -> Any:
            return cdf(data, x)

    values = {"mechanism": Known(), "attack": attack or Identity(), "pair": ZerosOnes()}
    return types.SimpleNamespace(**{k: types.SimpleNamespace(value=v) for k, v in values.items()})


def uniform(data: Any, x: Any) -> Any:
    """The distribution of nine draws out of ten; the tenth is NaN."""
    return 0.9 * np.clip(x - data[0] / 4, 0, 1)


def test_shares_are_differences_and_what_is_no_number_comes_first() -> None:
    found = exact_shares(cell(uniform), COUNTS, {"edges": EDGES})
    expected = [[0.1, 0, 0.45, 0.45, 0], [0.1, 0, 0.225, 0.675, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_what_lies_at_an_edge_is_above_it() -> None:
    found = exact_shares(
        cell(lambda data, x: (x >= data[0] / 2).astype(float)), COUNTS, {"edges": EDGES}
    )
    assert found == [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]


@pytest.mark.parametrize(
    ("counts", "edges"),
    [
        (COUNTS, None),
        (COUNTS, [0.0]),
        ([1, 2], EDGES),
        ({}, EDGES),
        (COUNTS, ["nan"] * 3),
        MANY,
    ],
)
def test_other_counts_are_not_known(counts: Any, edges: Any) -> None:
    assert exact_shares(cell(uniform), counts, {"edges": edges, "threshold": 0.5}) is None


def test_what_is_nan_has_not_reached_a_threshold() -> None:
    reached = {"name": "ThresholdCounts", "threshold": 0.5}
    found = exact_shares(cell(uniform), [[3, 1], [2, 2]], reached)
    np.testing.assert_allclose(found, [[0.55, 0.45], [0.325, 0.675]], atol=1e-7)
    assert exact_shares(cell(uniform), [[3, 1, 0], [2, 2, 0]], reached) is None
    assert exact_shares(cell(uniform), [[3, 1], [2, 2]], {"name": "DecisionCounts"}) is None


def test_other_scores_and_unknown_distributions_are_not_known() -> None:
    assert exact_shares(cell(uniform, MajorityVote()), COUNTS, {"edges": EDGES}) is None
    assert exact_shares(cell(lambda data, x: None), COUNTS, {"edges": EDGES}) is None


@pytest.mark.parametrize(
    ("cdf", "says"),
    [
        (lambda data, x: x.missing, "cdf raised AttributeError"),
        (lambda data, x: "no", "cdf gave shape"),
        (lambda data, x: np.zeros(len(x) + 1), "cdf gave shape"),
        (lambda data, x: np.linspace(1, 0, len(x)), "must rise from 0"),
        (lambda data, x: np.linspace(0, 1.01, len(x)), "must rise from 0"),
        (lambda data, x: np.full(len(x), np.nan), "must rise from 0"),
    ],
)
def test_a_cdf_that_is_none_fails_its_cell(cdf: Any, says: str) -> None:
    with pytest.raises(CellError, match=says):
        exact_shares(cell(cdf), COUNTS, {"edges": EDGES})


def test_counts_are_as_the_record_says_they_should_be() -> None:
    """4.9 standard deviations each way: false alarm below 1e-6 a bin, at fixed seeds."""
    estimator = {"use": "histogram", "params": {"low": -2.0, "high": 3.0, "bins": 10}}
    spec = {
        "schema": 1,
        "audit": {"name": "exact", "trials": 4000},
        "pair": {"use": "zeros-ones"},
        "mechanism": [
            {"use": "laplace", "params": {"epsilon": 1.0}},
            {"use": "dptext", "params": {"epsilon": 1.0, "nan": "keep"}},
        ],
        "attack": [{"use": "identity"}, {"use": "majority-vote"}],
        "estimator": [estimator, {"use": "precision"}],
    }
    cells = dpframe.audit(spec).cells
    known = [cell for cell in cells if cell.exact_shares is not None]
    assert {cell.attack.use for cell in known} == {"identity"}
    assert len(known) == 2
    for one in known:
        shares, counts = np.array(one.exact_shares), np.array(one.counts)
        assert shares.sum(axis=1) == pytest.approx([1, 1])
        spread = np.sqrt(4000 * shares * (1 - shares))
        assert (np.abs(counts - 4000 * shares) <= 4.9 * spread + 1e-9).all()
    assert known[1].exact_shares[0][0] == pytest.approx(0.5)
