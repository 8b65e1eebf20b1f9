"""The bound of one run for a Gaussian mechanism, if scores are independent."""

from __future__ import annotations

import numpy as np
from scipy import stats

from dpframe.builtin.one_run_independent import gaussian_bound


def test_it_exceeds_the_truth_with_the_stated_error_and_shows_most_of_it() -> None:
    """Fails for correct code with probability 1e-6."""
    rng, runs, error, mu = np.random.default_rng(11), 100, 0.05, 1.0
    bounds = []
    for _ in range(runs):
        members = rng.random(300) < 0.5
        scores = mu * members + rng.normal(size=300)
        bounds.append(gaussian_bound(scores, members, error, None).mu_lower)
    assert np.sum(np.array(bounds) > mu) <= stats.binom.isf(1e-6, runs, error)
    assert np.mean(bounds) > 0.6
