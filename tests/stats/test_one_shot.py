"""The loss between two normal distributions: numerical integration and published means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.tiers import mostly_slow

from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.one_run import Normal, normals_epsilon, normals_log_delta
from dpframe.stats.roots import crossing


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0, 20.0])
def test_equal_variances_are_the_gaussian_mechanism(mu: float) -> None:
    expected = float(gaussian_epsilon(1e-5, mu))
    for deviation in (1.0, 1 + 1e-9, 1 - 1e-12):
        found = normals_epsilon(1e-5, Normal(0, 1), Normal(mu, deviation))
        assert found == pytest.approx(expected, rel=1e-6)
    scaled = normals_epsilon(1e-5, Normal(3, 0.25), Normal(3 - mu / 4, 0.25))
    assert scaled == pytest.approx(expected, rel=1e-9)


PAIRS = [
    (Normal(0, 1), Normal(1, 2)),
    (Normal(0, 1), Normal(2, 0.5)),
    (Normal(-1, 3), Normal(1, 2.9)),
    (Normal(0, 1), Normal(0, 1.3)),
]


@pytest.mark.parametrize(("first", "second"), [*PAIRS, *[(b, a) for a, b in PAIRS]])
@pytest.mark.parametrize("epsilon", mostly_slow([0.0, 0.1, 0.5, 1.0, 3.0, 8.0], (1, 3)))
def test_delta_by_numerical_integration(first: Normal, second: Normal, epsilon: float) -> None:
    y = np.linspace(-50, 50, 400_001)
    p, q = (
        np.exp(-(((y - m) / s) ** 2) / 2) / s / math.sqrt(2 * math.pi) for m, s in (first, second)
    )
    expected = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (y[1] - y[0])
    assert math.exp(normals_log_delta(epsilon, first, second)) == pytest.approx(expected, abs=1e-7)


@given(st.floats(-3, 3), st.floats(0.05, 20), st.floats(1e-12, 0.5))
def test_epsilon_solves_its_equation(mean: float, deviation: float, delta: float) -> None:
    null, other = Normal(0, 1), Normal(mean, deviation)
    epsilon = normals_epsilon(delta, null, other)
    assert epsilon == pytest.approx(normals_epsilon(delta, other, null))
    both = max(normals_log_delta(epsilon, null, other), normals_log_delta(epsilon, other, null))
    if epsilon > 0:
        assert both == pytest.approx(math.log(delta), abs=1e-5)
    else:
        assert both <= math.log(delta) + 1e-5


def test_same_distribution() -> None:
    assert normals_epsilon(1e-9, Normal(2, 3), Normal(2, 3)) == 0


@pytest.mark.parametrize(
    ("sigma", "both", "forth", "known"),
    [
        (4.2247, (1.38, 0.34), (0.934, 0.355), (1.04, 0.17)),
        (1.5439, (3.45, 0.42), (3.08, 0.46), (3.00, 0.18)),
        (0.5411, (10.8, 0.64), (9.99, 0.56), (10.05, 0.17)),
    ],
)
def test_one_shot_estimates(
    sigma: float,
    both: tuple[float, float],
    forth: tuple[float, float],
    known: tuple[float, float],
) -> None:
    """Means and deviations of 50 simulations at d = 1e6, k = 1e3, δ = 1e-6, published.

    The noise is calibrated to ε = 1, 3 and 10. Cosines of canaries are drawn from their law in
    high dimensions. Five standard errors of a mean of 50: false-alarm rate below 1e-6.
    """
    d, k, delta, rng = 10**6, 1000, 1e-6, np.random.default_rng(0)
    null, found = Normal(0, d**-0.5), []
    for _ in range(150):
        inner = 1 + math.sqrt(sigma**2 + k / d) * rng.normal(size=k)
        cosines = inner / math.sqrt(sigma**2 * d + k)
        seen = Normal(cosines.mean(), cosines.std())
        found.append(
            (
                normals_epsilon(delta, null, seen),
                crossing(lambda e, seen=seen: math.log(delta) - normals_log_delta(e, seen, null)),
                float(gaussian_epsilon(delta, max(0, seen.mean) / null.deviation)),
            )
        )
    for column, (mean, deviation) in zip(np.array(found).T, (both, forth, known), strict=True):
        error = deviation * math.sqrt(1 / 50 + 1 / 150)
        assert column.mean() == pytest.approx(mean, abs=5 * error)
        assert column.std() == pytest.approx(deviation, rel=0.5)
