"""The tests behind the warnings: valid at every level, and not vacuous.

Small cases are exact: all outcomes with their probabilities. False-alarm rate of every test of a
frequency: 1e-6.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from dpframe_torch.checks import NoiseMeter, p_of_evenness, p_of_missing, p_of_total
from scipy import stats

LEVELS = (0.5, 0.2, 0.05, 0.01, 1e-3)


def is_valid(p_values, probabilities):
    p, mass = np.asarray(p_values), np.asarray(probabilities)
    return all(mass[p <= level].sum() <= level * (1 + 1e-9) for level in LEVELS)


def at_most(found, level=0.05):
    """True if p-values are below the level as rarely as a valid test's."""
    found = np.asarray(found)
    return (found <= level).sum() <= stats.binom.isf(1e-6, len(found), level)


@pytest.mark.parametrize(("n", "k"), [(1, 6), (3, 5), (6, 4), (12, 3)])
@pytest.mark.parametrize("q", [0.05, 0.3, 0.8])
def test_evenness_is_valid_exactly(n, k, q):
    outcomes = list(itertools.product(range(n + 1), repeat=k))
    law = stats.binom.pmf(np.arange(n + 1), n, q)
    known = {
        one: p_of_evenness(one, n)
        for one in itertools.combinations_with_replacement(range(n + 1), k)
    }
    found = [known[tuple(sorted(one))] for one in outcomes]
    assert is_valid(found, [math.prod(law[list(one)]) for one in outcomes])


def test_evenness_is_not_vacuous():
    shuffled = ([40.0] * 8 + [31.0]) * 5
    assert p_of_evenness(shuffled, 351) < 1e-9
    assert p_of_evenness([40.0] * 10, 400) < 1e-9
    close = 200 + np.random.default_rng(0).integers(-3, 4, 100)  # no two thirds are the same
    assert p_of_evenness(close, 10_000) < 1e-6
    assert p_of_evenness(np.random.default_rng(1).binomial(400, 0.1, 50), 400) > 0.01


@pytest.mark.parametrize("values", [[], [3.0], [0.0, 0.0], [5.0, 5.0]])
def test_values_that_say_nothing_have_p_value_one(values):
    assert p_of_evenness(values, 5) == 1.0


@pytest.mark.parametrize("q", [0.1, 0.4, 0.95])
def test_a_total_is_valid_exactly_and_finds_what_is_off(q):
    totals = np.arange(41)
    law = stats.binom.pmf(totals, 40, q)
    assert is_valid([p_of_total(t, 40, q, q) for t in totals], law)
    assert is_valid([p_of_total(t, 40, q - 0.05, q + 0.05) for t in totals], law)
    assert p_of_total(5_000, 100_000, 0.06, 0.07) < 1e-6
    assert p_of_total(8_000, 100_000, 0.06, 0.07) < 1e-6
    assert p_of_total(40, 40, 1.0, 1.0) == p_of_total(0, 40, 0.0, 0.0) == 1.0


@pytest.mark.parametrize(("n", "batch", "steps"), [(30, 10, 3), (60, 6, 10)])
def test_missing_canaries_are_valid_in_batches_of_given_size(n, batch, steps):
    """The first 20 of n records, in batches without replacement; 2,000 runs."""
    rng = np.random.default_rng(0)
    chance = math.exp(-batch * steps / n)
    found = []
    for _ in range(2_000):
        seen = np.zeros(n, bool)
        for _ in range(steps):
            seen[rng.choice(n, batch, replace=False)] = True
        found.append(p_of_missing(int((~seen[:20]).sum()), 20, chance))
    assert at_most(found)
    assert at_most(found, 0.3)
    assert p_of_missing(30, 100, math.exp(-3)) < 1e-6
    assert p_of_missing(100, 100, 1.0) == 1.0


def meter(steps, draw, noise=2.0, size=6):
    """Return a meter after some steps whose noise comes from a function of the step."""
    found = NoiseMeter()
    for step in range(steps):
        summed = torch.full((size,), 3.0, dtype=torch.float64)
        p = SimpleNamespace(summed_grad=summed, grad=(summed + noise * draw(step)) / 10)
        found.look(
            SimpleNamespace(
                params=[p],
                max_grad_norm=1.0,
                noise_multiplier=noise,
                loss_reduction="mean",
                expected_batch_size=10,
                accumulated_iterations=1,
            )
        )
    return found


def test_tests_of_noise_are_valid_and_exact():
    """Six coordinates and 40 steps: two flushes, few enough that a normal tail would be wrong."""
    rng = np.random.default_rng(1)
    each = [meter(40, lambda step: torch.from_numpy(rng.normal(size=6))) for _ in range(300)]
    names = ("size", "repetition", "dispersion")
    for found in ([getattr(m, f"p_of_{name}")() for m in each] for name in names):
        assert at_most(found)
        assert at_most([1 - p for p in found]), "uniform, so not conservative either"


def test_tests_of_noise_find_what_is_off():
    rng = np.random.default_rng(2)
    same = torch.from_numpy(rng.normal(size=6))
    assert meter(40, lambda step: same).p_of_repetition() < 1e-6
    varying = meter(40, lambda step: torch.from_numpy(rng.normal(size=6)) * (0.2, 1.4)[step % 2])
    assert varying.p_of_dispersion() < 1e-6
    assert varying.p_of_size() > 1e-6
    halved = meter(40, lambda step: torch.from_numpy(rng.normal(size=6)) / 2)
    assert halved.p_of_size() < 1e-6
    assert halved.p_of_repetition() > 1e-3
    (warning,) = meter(40, lambda step: 0 * same).warnings()
    assert "40 steps were released without noise" in warning
