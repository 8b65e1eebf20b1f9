"""Trade-off curves from points of a profile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe.stats.gaussian import gaussian_delta, gaussian_tradeoff
from dpframe.stats.tradeoff import tradeoff_envelope

points = st.lists(st.tuples(st.floats(0, 40), st.floats(0, 1)), max_size=12)
X = np.concatenate([[0.0], np.geomspace(1e-18, 0.1, 60), np.linspace(0.1, 1, 60)])


def naive(epsilons: list[float], deltas: list[float], x: np.ndarray) -> np.ndarray:
    """The formula as it is written."""
    curve = np.zeros_like(x)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        curve = np.maximum(curve, 1 - delta - np.exp(epsilon) * x)
        curve = np.maximum(curve, np.exp(-epsilon) * (1 - delta - x))
    return curve


@given(points)
def test_it_is_the_formula(given_points: list[tuple[float, float]]) -> None:
    """Any points, of a convex profile or not, repeated or useless ones included."""
    epsilons, deltas = [e for e, _ in given_points], [d for _, d in given_points]
    curve = tradeoff_envelope(epsilons, deltas).at(X)
    assert curve == pytest.approx(naive(epsilons, deltas, X), abs=1e-12)
    assert np.all(curve <= naive(epsilons, deltas, X) + 1e-15)


def test_lemma_7_of_a_gaussian_profile() -> None:
    """With steps of 0.005 in ε the curve touches at some places and is a little low at others."""
    epsilons = np.arange(0, 30, 0.005)
    curve = tradeoff_envelope(epsilons, gaussian_delta(epsilons, 1.0))
    assert curve.at([0.05, 0.1]) == pytest.approx([0.7404889737, 0.6108558470], abs=6e-11)
    assert curve.at(0.5) == pytest.approx(0.158655254, abs=5e-10)
    assert np.all(curve.at(X) <= gaussian_tradeoff(X, 1.0) + 1e-15)


def test_small_values_keep_their_digits() -> None:
    """Far right the curve is tiny; its own inverse says how tiny."""
    epsilons = np.linspace(0, 60, 20_000)
    curve = tradeoff_envelope(epsilons, gaussian_delta(epsilons, 2.0))
    x = 1 - np.geomspace(1e-9, 0.01, 20)
    assert curve.at(x) == pytest.approx(gaussian_tradeoff(x, 2.0), rel=2e-3)


@pytest.mark.parametrize(
    ("epsilons", "deltas"), [([], []), ([1.0], [1.0]), ([np.inf], [0.0]), ([800.0], [0.0])]
)
def test_without_a_point_that_says_something_the_curve_is_0(epsilons, deltas) -> None:
    assert np.all(tradeoff_envelope(epsilons, deltas).at(X) == 0)


def test_nothing_but_guessing() -> None:
    assert tradeoff_envelope([0.0], [0.0]).at(X) == pytest.approx(1 - X, abs=1e-15)


def test_any_shape() -> None:
    curve = tradeoff_envelope([1.0], [0.1])
    assert curve.at(0.3).shape == ()
    assert curve.at(np.zeros((2, 3))).shape == (2, 3)
