"""The number of models needed to detect a mistake, from exact curves."""

import dp_accounting as dp
import numpy as np
import pytest
from dpframe_dpsgd.needed import models_needed
from scipy import stats

from dpframe.plugins import AccountedDP


def curve(q, sigma, steps):
    step = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(sigma))
    return AccountedDP(dp.SelfComposedDpEvent(step, steps)).tradeoff


def gaussian(mu):
    return lambda fpr: stats.norm.cdf(stats.norm.isf(fpr) - mu)


def test_what_is_no_mistake_is_never_found():
    assert models_needed(gaussian(1.0), gaussian(1.0), 0.99) == np.inf
    assert models_needed(gaussian(1.0), gaussian(1.1), 0.99) == np.inf


def test_larger_mistakes_take_fewer_models_and_confidence_takes_more():
    small = models_needed(gaussian(1.2), gaussian(1.0), 0.99)
    large = models_needed(gaussian(2.0), gaussian(1.0), 0.99)
    assert 10 < large < small / 10
    assert models_needed(gaussian(2.0), gaussian(1.0), 0.9999) == pytest.approx(2 * large, rel=1e-9)


def test_a_test_with_so_many_models_rejects_as_it_says():
    """Exact binomial tails of the best threshold, at twice the number, are below the level."""
    n = 2 * int(models_needed(gaussian(2.0), gaussian(1.0), 0.99))
    cuts = np.linspace(-1, 3, 81)
    grid = np.linspace(1e-6, 1 - 1e-6, 2000)
    claim = gaussian(1.0)(grid)
    p = [
        np.max(
            stats.binom.cdf(round(n * stats.norm.sf(c)), n, grid)
            * stats.binom.cdf(round(n * stats.norm.cdf(c - 2.0)), n, claim)
        )
        for c in cuts
    ]
    assert min(p) < 0.01


@pytest.mark.slow
def test_one_epoch_more_shows_where_an_epoch_is_short():
    few = models_needed(curve(0.5, 0.25, 4), curve(0.5, 0.25, 2), 0.9999)
    many = models_needed(curve(0.5, 2.0, 22), curve(0.5, 2.0, 20), 0.9999)
    assert few == pytest.approx(96, rel=0.02)
    assert many == pytest.approx(21_900, rel=0.02)
