"""Logistic regression, against a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpframe.builtin.learned_attacks import logistic_regression


def naive(rows: np.ndarray, labels: np.ndarray, ridge: float) -> np.ndarray:
    def loss(w: np.ndarray) -> float:
        margins = (rows @ w[:-1] + w[-1]) * (1 - 2 * labels)
        return float(np.logaddexp(0, margins).mean() + ridge / 2 * w[:-1] @ w[:-1])

    return minimize(loss, np.zeros(rows.shape[1] + 1), method="BFGS", tol=1e-9).x


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("k", [1, 4])
def test_optimum(ridge: float, k: int) -> None:
    rng = np.random.default_rng(k)
    labels = np.repeat([0.0, 1.0], [300, 500])
    rows = rng.normal(size=(800, k)) + labels[:, None] * np.linspace(-1, 2, k)
    intercept, weights = logistic_regression(rows, labels, ridge)
    np.testing.assert_allclose([*weights, intercept], naive(rows, labels, ridge), atol=2e-5)


def test_more_rows_than_a_block() -> None:
    rng = np.random.default_rng(0)
    labels = np.tile([0.0, 1.0], 20_000)
    rows = (rng.normal(size=40_000) + labels)[:, None]
    intercept, weights = logistic_regression(rows, labels, 1e-9)
    # Log-odds of N(1, 1) against N(0, 1) are x − ½; six standard errors.
    assert weights[0] == pytest.approx(1.0, abs=0.08)
    assert intercept == pytest.approx(-0.5, abs=0.08)


def test_separable_rows_have_finite_weights() -> None:
    rows = np.array([[-8.0], [-8.0], [8.0], [8.0]])
    intercept, weights = logistic_regression(rows, np.array([0.0, 0.0, 1.0, 1.0]), 1e-3)
    assert 0.1 < weights[0] < 100
    assert intercept == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_alone(label: float) -> None:
    rows = np.array([[1.0], [2.0]])
    intercept, weights = logistic_regression(rows, np.full(2, label), 1e-3)
    assert np.isfinite([intercept, *weights]).all()


def test_columns_that_do_not_vary() -> None:
    rows = np.zeros((6, 2))
    intercept, weights = logistic_regression(rows, np.array([0, 0, 1, 1, 1, 1.0]), 1e-3)
    assert weights.tolist() == [0.0, 0.0]
    assert intercept == pytest.approx(np.log(2))
