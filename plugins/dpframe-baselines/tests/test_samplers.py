"""Laws of the thirteen samplers, by enumeration, and draws from them; false-alarm rate 1e-6."""

import itertools
import math

import numpy as np
import pytest
from dpframe_baselines import samplers
from dpframe_baselines.samplers import FLOATS, GRIDS, SAMPLERS, NoiseSampler
from scipy import integrate, special, stats

from dpframe.stats.gaussian import gaussian_delta
from dpframe.testing import check_mechanism

by_name = pytest.mark.parametrize("sampler", SAMPLERS)


def both_laws(mechanism):
    """Return the probabilities of all outputs on 0 and on 1."""
    zero, one = mechanism.law(0.0), mechanism.law(1.0)
    values = np.union1d(zero.values, one.values)
    laws = np.zeros((2, len(values)))
    for row, law in zip(laws, (zero, one), strict=True):
        row[np.searchsorted(values, law.values)] = law.shares
    return laws


def divergence(laws, epsilon):
    ways = (laws, laws[::-1])
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for q, p in ways)


@by_name
def test_the_noise_has_the_law_that_the_sampler_approximates(sampler):
    mechanism = NoiseSampler(sampler=sampler)
    law = mechanism.law(0.0)
    assert law.shares.sum() == pytest.approx(1)
    assert law.values @ law.shares == pytest.approx(0, abs=1e-9)
    noise = stats.laplace if sampler.startswith("laplace") else stats.norm
    below = np.cumsum(law.shares) - law.shares / 2
    coarse = 0.025 if sampler == "gauss-opacus" else 0.006  # words of two bits
    assert np.abs(below - noise.cdf(law.values / mechanism.scale)).max() < coarse


@pytest.mark.parametrize("sampler", FLOATS)
def test_floats_tell_the_input_by_their_last_bits(sampler):
    assert divergence(both_laws(NoiseSampler(sampler=sampler)), 10.0) > 0.999


@pytest.mark.parametrize("sampler", GRIDS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_grid_keeps_the_claim(sampler, epsilon):
    mechanism = NoiseSampler(sampler=sampler, epsilon=epsilon)
    laws = both_laws(mechanism)
    if sampler.startswith("laplace"):
        assert np.abs(np.log(laws[0] / laws[1])).max() == pytest.approx(epsilon)
        return
    assert 0 < divergence(laws, epsilon) < mechanism.delta
    exact = gaussian_delta(epsilon, 1 / mechanism.scale)
    coarse = 3e-7 if sampler != "gauss-ibm-discrete" else 2e-6
    assert divergence(laws, epsilon) == pytest.approx(float(exact), abs=coarse)


def test_words_are_all_combinations():
    found = set(zip(*(part.tolist() for part in samplers.words(3, 2)), strict=True))
    assert found == set(itertools.product([0.125, 0.375, 0.625, 0.875], repeat=3))


def test_the_sum_of_numbers_is_that_of_a_loop():
    grid = [0.25, 0.75]
    each = [
        sum(
            math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
            for u, v in zip(draw[::2], draw[1::2], strict=True)
        )
        / math.sqrt(2)
        for draw in itertools.product(grid, repeat=4)
    ]
    found = samplers.box_muller(4, 2)
    np.testing.assert_allclose(np.sort(found.values), np.sort(each), atol=1e-12)


def test_layers_of_the_ziggurat_have_equal_areas():
    height = math.exp(-(samplers.RIGHT_END**2) / 2)
    tail = math.sqrt(2 * math.pi) * special.ndtr(-samplers.RIGHT_END)
    assert samplers.RIGHT_END * height + tail == pytest.approx(samplers.AREA, rel=1e-12)
    x, y = samplers.RIGHT_END, height
    for _ in range(samplers.LAYERS - 1):
        y += samplers.AREA / x
        x = math.sqrt(max(0.0, -2 * math.log(min(y, 1.0))))
    assert y == pytest.approx(1, abs=1e-9)
    tail, _ = integrate.quad(lambda x: math.exp(-x * x / 2), 2.5, 20)
    law = samplers.ziggurat(16)
    beyond = law.shares[law.values > 2.5].sum()
    assert beyond == pytest.approx(tail / math.sqrt(2 * math.pi), rel=1e-2)


def test_the_analytic_sampler_has_less_noise():
    classic, analytic = (NoiseSampler(sampler=s).scale for s in ("gauss-ibm", "gauss-ibm-analytic"))
    assert analytic < 0.8 * classic
    assert float(gaussian_delta(1.0, 1 / analytic)) == pytest.approx(1e-3)


@by_name
def test_draws_have_the_stated_law(sampler):
    mechanism, rng, n = NoiseSampler(sampler=sampler), np.random.default_rng(1), 4000
    law = mechanism.law(1.0)
    drawn = mechanism.sample(rng, np.ones(1), n)
    assert drawn.shape == (n, 1)
    assert np.isin(drawn, law.values).all()
    middle = law.values[np.searchsorted(np.cumsum(law.shares), 0.5)]
    share = law.shares[law.values <= middle].sum()
    hits = int((drawn <= middle).sum())
    assert min(stats.binom.cdf(hits, n, share), stats.binom.sf(hits - 1, n, share)) > 5e-7


@pytest.mark.parametrize("sampler", ["laplace-pydp", "gauss-polar"])
def test_the_mechanism_keeps_its_promises(sampler):
    check_mechanism(NoiseSampler(sampler=sampler))
