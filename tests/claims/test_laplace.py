"""The curve of Laplace noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpframe import LaplaceDP, PureDP

CURVE = {
    0.01: 0.9728171817,
    0.1: 0.7281718172,
    0.18: 0.5107092709,
    0.25: 0.3678794412,
    0.5: 0.1839397206,
    0.7: 0.1103638324,
    0.95: 0.0183939721,
}
PROFILE = {0.0: 0.39346934, 0.25: 0.31271072, 0.5: 0.22119922, 0.9: 0.04877058}


def test_curve_and_profile_of_shift_1() -> None:
    claim = LaplaceDP(1.0)
    assert claim.tradeoff(np.array([*CURVE])) == pytest.approx([*CURVE.values()], abs=1e-10)
    assert [claim.delta_at(e) for e in PROFILE] == pytest.approx([*PROFILE.values()], abs=5.1e-9)


@pytest.mark.parametrize("shift", [0.01, 0.7, 3.0, 20.0])
def test_it_is_the_curve_of_thresholds(shift: float) -> None:
    """The likelihood ratio of two Laplace distributions is monotone: thresholds are best."""
    threshold = np.linspace(-30, 30 + shift, 4001)
    fpr, fnr = stats.laplace.sf(threshold), stats.laplace.cdf(threshold - shift)
    assert LaplaceDP(shift).tradeoff(fpr) == pytest.approx(fnr, rel=1e-9, abs=1e-12)


def test_it_claims_more_than_pure_dp() -> None:
    x = np.linspace(0, 1, 1001)
    laplace, pure = LaplaceDP(1.5), PureDP(1.5)
    assert np.all(laplace.tradeoff(x) >= pure.tradeoff(x) - 1e-15)
    assert np.max(laplace.tradeoff(x) - pure.tradeoff(x)) > 0.05
    assert laplace.epsilon_at(0.0) == pure.epsilon_at(0.0) == 1.5
    assert laplace.default_delta == 0.0


@pytest.mark.parametrize("shift", [0.0, 1e-300, 1e-9, 50.0, 700.0, 1e5])
def test_edges_are_finite_and_monotone(shift: float) -> None:
    claim = LaplaceDP(shift)
    x = np.array([0.0, 5e-324, 1e-300, 1e-16, 0.25, 0.5, 1 - 1e-16, 1.0])
    curve = claim.tradeoff(x)
    assert curve[0] == 1.0
    assert curve[-1] == 0.0
    assert np.all(np.diff(curve) <= 0)
    losses = [claim.epsilon_at(delta) for delta in (0.0, 5e-324, 1e-12, 0.5, 1 - 1e-16, 1.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == shift
    assert losses[-1] == 0.0
    assert claim.delta_at(math.inf) == claim.delta_at(1e300) == 0.0


@pytest.mark.parametrize("shift", [-1.0, math.inf, math.nan])
def test_nonsense_is_refused(shift: float) -> None:
    with pytest.raises(ValueError, match="shift"):
        LaplaceDP(shift)
