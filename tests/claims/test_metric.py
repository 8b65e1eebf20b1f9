"""Claims of metric differential privacy."""

import numpy as np
import pytest

from dpframe import MetricDP, PureDP

X, Y = np.array([0.0, 0.0]), np.array([3.0, 4.0])


def test_the_claim_is_that_of_the_product():
    claim = MetricDP(0.5, 6.2, "euclidean")
    assert claim.epsilon_at(0.0) == 3.1
    rates = np.linspace(0, 1, 11)
    assert np.array_equal(claim.tradeoff(rates), PureDP(3.1).tradeoff(rates))
    assert claim.parameters() == {"unit_epsilon": 0.5, "distance": 6.2, "metric": "euclidean"}


@pytest.mark.parametrize(("unit_epsilon", "distance"), [(-1.0, 1.0), (1.0, -1.0), (1.0, np.inf)])
def test_factors_are_finite_and_not_negative(unit_epsilon, distance):
    with pytest.raises(ValueError, match="must be finite and not negative"):
        MetricDP(unit_epsilon, distance)


@pytest.mark.parametrize(
    ("metric", "distance"), [("euclidean", 5.0), ("l1", 7.0), ("linf", 4.0), ("hamming", 2.0)]
)
def test_named_metrics(metric, distance):
    assert MetricDP.between(2.0, X, Y, metric) == MetricDP(2.0, distance, metric)


def test_hamming_counts_words():
    assert MetricDP.between(1.0, ["a", "b", "c"], ["a", "x", "c"], "hamming").distance == 1


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda x, y: float(((x - y) ** 2).sum()), "is it the square of a distance"),
        (lambda x, y: 1.0, r"d\(x, x\) = 1, not 0"),
        (lambda x, y: float(np.maximum(x - y, 0).sum()), r"d\(x, y\) = 0, d\(y, x\) = 7"),
        (lambda x, y: -1.0, "= -1"),
        (lambda x, y: np.nan, "= nan"),
        ("cosine", "not one of l1, euclidean, linf, hamming"),
    ],
)
def test_a_function_that_is_no_metric_is_refused(metric, message):
    with pytest.raises(ValueError, match=message):
        MetricDP.between(1.0, X, Y, metric)


def test_a_metric_of_words_is_checked_through_other_words():
    places = {"cat": 0.0, "lion": 1.0, "tiger": 2.0}

    def squared(x, y):
        return (places[x] - places[y]) ** 2

    assert MetricDP.between(1.0, "cat", "tiger", squared).distance == 4  # no third word, no test
    with pytest.raises(ValueError, match="by way of a third input 2"):
        MetricDP.between(1.0, "cat", "tiger", squared, through=["lion"])
