"""The searched canary: a valid neighbour of D, found with models that no bound uses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.searched import SearchedCanary, found, influence
from dpframe_dpsgd.training import as_vector

TRAINER = {"noise_multiplier": 0.5, "learning_rate": 0.01, "steps": 6, "batch": 10, "width": 4}
PAIR = SearchedCanary.from_params({**TRAINER, "records": 30, "rounds": 2, "models": 4})


def test_the_search_changes_one_row_and_stays_within_the_data():
    plain, d0, d1 = PAIR.start("held-out").d1, PAIR.d0, PAIR.d1
    assert not d0.present[-1]
    assert d1.present[-1]
    assert np.array_equal(d1.x[:-1], d0.x[:-1])
    assert np.array_equal(d1.y[:-1], d0.y[:-1])
    assert plain.x.min() <= d1.x[-1].min() <= d1.x[-1].max() <= plain.x.max()
    x, y = found.__wrapped__(PAIR, ())
    assert np.array_equal(x, d1.x[-1])
    assert y == d1.y[-1]
    with pytest.raises(ValueError, match="index = 1797 is too large"):
        SearchedCanary(records=30, index=1797).check()


def test_the_influence_is_that_of_models_trained_with_and_without_the_record():
    trainer = DPSGD(**TRAINER).resolve(PAIR.start("held-out"))
    data = jax.tree.map(jnp.asarray, PAIR.start("mislabelled").d1)
    keys = jax.random.split(jax.random.key(1), 3)
    x, y = data.x[-1], data.y[-1]
    losses, train = [], jax.jit(trainer.train)
    for present in (False, True):
        own = data._replace(present=data.present.at[-1].set(present))
        each = [train(key, own)[0] for key in keys]
        _, shaped = as_vector(trainer.init(keys[0], len(x)))
        losses.append(np.array([float(trainer.loss(shaped(model), x, y)) for model in each]))
    without, with_it = losses
    spread = np.sqrt((without.var() + with_it.var()) / 2)
    expected = (without.mean() - with_it.mean()) / spread
    assert float(influence(trainer, data, keys, x, y)) == pytest.approx(expected, rel=1e-2)
