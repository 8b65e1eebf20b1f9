"""The correct trainer: its releases, its claims, and its white-box views.

Each statistical test fails for correct code with probability about 1e-6 (4.9 standard deviations),
at fixed seeds.
"""

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpframe_dpsgd.batches import batch_length, poisson_sample
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.pairs import Canary
from dpframe_dpsgd.white_box import VIEWS
from dpsgd_support import FAR, SMALL, near
from scipy import stats

COLUMN = {name: place for place, name in enumerate(VIEWS)}


def test_residuals_are_the_noise_and_the_canary(seen):
    trainer, without, with_it = seen
    column, shift = COLUMN["residual"], COLUMN["shift"]
    sigma, rate = trainer.noise_multiplier, trainer.rate
    assert rate == 0.5
    noise = without[..., column].ravel()
    assert near(noise, 0, sigma)
    assert near(noise**2, sigma**2, 2**0.5 * sigma**2)
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6
    # The gradients of the canary are longer than C, so they are clipped to it.
    np.testing.assert_allclose(with_it[..., shift], 1, rtol=1e-4)
    moved = with_it[..., column]
    assert near(moved.ravel(), rate, (sigma**2 + 0.25) ** 0.5)
    # One canary, and the noise of other steps does not tell about this one's.
    correlation = np.corrcoef(without[..., column].T)
    assert np.abs(correlation[np.triu_indices(3, 1)]).max() < FAR / len(without) ** 0.5


def test_noise_fills_every_coordinate_of_every_step(seen):
    trainer, without, _ = seen
    size = 64 * 8 + 8 + 8 * 10 + 10
    norm = without[..., COLUMN["norm"]]
    assert abs(np.mean(norm**2) / (size * trainer.noise_multiplier**2) - 1) < 0.01
    layers = without[..., len(VIEWS) :]
    assert layers.shape[-1] == 4
    for array in range(4):
        # If no unit is alive, the canary has no direction in some arrays, and nothing is seen.
        values = layers[..., array]
        values = values[values != 0]
        assert near(values**2, trainer.noise_multiplier**2, 2**0.5 * trainer.noise_multiplier**2)


def test_differences_have_the_noise_of_two_steps(seen):
    trainer, without, _ = seen
    values = without[:, 1:, COLUMN["difference"]]
    variance = 2 * trainer.noise_multiplier**2
    assert near(values[:, 0] ** 2, variance, 2**0.5 * variance)


def test_the_claim_is_the_accountants(seen):
    trainer, *_ = seen
    accountant = dp.pld.PLDAccountant()
    step = dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(2.0))
    accountant.compose(step, 3)
    claim = trainer.claim(Canary.from_params({"records": 20}))
    for delta in (1e-5, 0.01):
        exact = accountant.get_epsilon(delta)  # the claim has a coarser grid, rounded upwards
        assert exact <= claim.epsilon_at(delta) <= exact + 1e-4


def test_poisson_samples_take_every_record_with_the_same_probability():
    present = np.arange(20) != 4
    length = batch_length(20, 0.3)
    batches = jax.vmap(lambda key: poisson_sample(key, present, 0.3, length))(
        jax.random.split(jax.random.key(0), 20_000)
    )
    taken = np.zeros((20_000, 20))
    np.add.at(taken, (np.arange(20_000)[:, None], batches.index), batches.weight)
    assert set(np.unique(taken)) == {0, 1}
    assert not taken[:, 4].any()
    rates = taken[:, present].mean(0)
    assert np.abs(rates - 0.3).max() < FAR * (0.21 / 20_000) ** 0.5
    correlation = np.corrcoef(taken[:, present].T)[np.triu_indices(19, 1)]
    assert np.abs(correlation).max() < 6 / 20_000**0.5


@pytest.mark.parametrize(("rows", "rate"), [(1, 0.5), (20, 0.5), (1001, 0.05), (50, 1.0)])
def test_a_batch_fits_into_its_array(rows, rate):
    length = batch_length(rows, rate)
    assert stats.binom.sf(length, rows, rate) <= 1e-9
    assert length == 1 or stats.binom.sf(length - 1, rows, rate) > 1e-9


def test_training_learns(draw):
    """With little noise the loss on the records falls by half."""
    pair = Canary.from_params({"records": 200})
    trainer = DPSGD.from_params(
        {"width": 8, "steps": 60, "noise_multiplier": 0.1, "learning_rate": 0.02}
    ).resolve(pair)
    models = draw(trainer, pair, 2)[0]
    data = pair.d0
    before = trainer.init(jax.random.key(0), 64)
    from jax.flatten_util import ravel_pytree

    shaped = ravel_pytree(before)[1]

    def mean(model):
        return jnp.mean(jax.vmap(trainer.loss, (None, 0, 0))(model, data.x, data.y))

    assert all(mean(shaped(jnp.asarray(model))) < mean(before) / 2 for model in models)


def test_pooled_steps_are_single_outputs(draw):
    pair = Canary.from_params({"records": 20, "canary": "gradient"})
    trainer = DPSGD.from_params({**SMALL, "output": "pooled"})
    without, with_it = draw(trainer, pair, 4000)
    assert without.shape == (4000,)
    assert near(without, 0, 2.0)
    assert near(with_it, 0.5, 2.1)
    one = DPSGD.from_params({**SMALL, "steps": 1}).resolve(pair)
    assert trainer.resolve(pair).claim(pair).epsilon_at(1e-5) == one.claim(pair).epsilon_at(1e-5)


@pytest.mark.parametrize(
    ("params", "canary", "message"),
    [
        ({"output": "pooled"}, "held-out", "needs a pair whose canary is a gradient"),
        ({"output": "pooled", "canary_norm": 0.5}, "gradient", "needs canary_norm"),
        ({"batch": 21}, "held-out", "more than the 20 records"),
    ],
)
def test_what_cannot_be_trained_is_refused(params, canary, message):
    pair = Canary.from_params({"records": 20, "canary": canary})
    with pytest.raises(ValueError, match=message):
        DPSGD.from_params({**SMALL, **params}).resolve(pair).check()
