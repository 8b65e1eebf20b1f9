"""Losses of stated distributions, and the test that outputs were drawn from them."""

import itertools

import numpy as np
import pytest
from scipy import special

from dpframe.stats.binomial import clopper_pearson_lower
from dpframe.stats.choices import agreement, delta_at, largest_loss, losses, unnormalised

OUTCOMES, PLACES = 4, 3


def logs_of(scores):
    return list(special.log_softmax(np.asarray(scores, np.float64), axis=-1))


@pytest.fixture
def both():
    rng = np.random.default_rng(0)
    return [logs_of(2 * rng.normal(size=(PLACES, OUTCOMES))) for _ in range(2)]


def whole(places):
    """Return the log-probability of every output, shape [outcomes ** places]."""
    return np.array([sum(choice) for choice in itertools.product(*places)])


def test_the_loss_of_a_product_is_that_of_its_outputs(both):
    ratios = whole(both[0]) - whole(both[1])
    assert largest_loss(*both) == pytest.approx(np.abs(ratios).max())


def test_delta_is_between_its_bounds(both):
    p, q = map(whole, both)
    epsilons = np.linspace(0, largest_loss(*both) + 1, 9)
    below, above = delta_at(*both, epsilons)
    for epsilon, low, high in zip(epsilons, below, above, strict=True):
        exact = max(
            np.maximum(np.exp(a) - np.exp(epsilon + b), 0).sum() for a, b in ((p, q), (q, p))
        )
        assert low - 1e-12 <= exact <= high + 1e-12
        assert high - low < 1e-3


def test_delta_of_one_place_is_exact():
    p, q = logs_of([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0]])
    below, above = delta_at([p], [q], np.array([0.0, 0.5]))
    assert np.array_equal(below, above)
    assert below[0] == pytest.approx(np.abs(np.exp(p) - np.exp(q)).sum() / 2)


def test_an_outcome_that_is_impossible_on_one_side():
    with np.errstate(divide="ignore"):
        p, q = np.log([0.75, 0.25, 0.0]), np.log([1.0, 0.0, 0.0])
    assert largest_loss([p], [q]) == np.inf
    assert losses(p, q)[2] == 0
    for places in (1, 2):
        below, above = delta_at([p] * places, [q] * places, np.array([5.0]))
        certain = 1 - 0.75**places
        assert below[0] == pytest.approx(certain, abs=1e-3)
        assert above[0] >= certain - 1e-12


@pytest.mark.parametrize(
    ("logs", "total"), [([0.0], None), ([-1.0], np.exp(-1)), ([0.0, 0.0], 2.0), ([np.nan], np.nan)]
)
def test_the_sum_of_probabilities(logs, total):
    assert unnormalised(np.array(logs)) == pytest.approx(total, nan_ok=True)


def drawn(places, n, rng):
    return np.stack([rng.choice(len(p), n, p=np.exp(p)) for p in places], axis=1)


def test_outputs_of_the_stated_distribution_agree():
    """False alarms at level .05 are at most .05; a right test fails here with chance 1e-6."""
    rng = np.random.default_rng(1)
    places = logs_of(2 * rng.normal(size=(3, 40)))
    repeats, level = 100, 0.05
    alarms = sum(agreement(drawn(places, 60, rng), places, rng) <= level for _ in range(repeats))
    assert clopper_pearson_lower(alarms, repeats, 1e-6) <= level


def test_outputs_of_another_distribution_do_not_agree():
    rng = np.random.default_rng(2)
    scores = 2 * rng.normal(size=(3, 40))
    hotter = drawn(logs_of(scores / 2), 500, rng)
    assert agreement(hotter, logs_of(scores), rng) < 1e-3


def test_places_that_depend_on_each_other_do_not_agree():
    rng = np.random.default_rng(3)
    (place,) = logs_of(rng.normal(size=(1, 10)))
    one = drawn([place], 500, rng)
    assert agreement(np.repeat(one, 3, axis=1), [place] * 3, rng) < 1e-3


def test_an_output_that_is_not_stated():
    rng = np.random.default_rng(4)
    (place,) = logs_of([[0.0, 0.0]])
    assert agreement(np.array([[0], [-1]]), [place], rng) == 0
    with np.errstate(divide="ignore"):
        assert agreement(np.array([[1]]), [np.log([1.0, 0.0])], rng) == 0
