"""A small trainer, and the white-box views of many of its runs."""

import jax
import numpy as np
import pytest
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.pairs import Canary
from dpsgd_support import SMALL


@pytest.fixture(scope="session")
def draw():
    """Return outputs of a trainer on D and on D′."""

    def outputs(mechanism, pair, n, seed=0):
        resolved = mechanism.resolve(pair)
        resolved.check()
        sample = jax.jit(lambda key, data: resolved.sample(key, data, n))
        return [
            np.asarray(sample(jax.random.key(2 * seed + k), data))
            for k, data in enumerate((pair.d0, pair.d1))
        ]

    return outputs


@pytest.fixture(scope="session", params=["gradient", "mislabelled"])
def seen(request, draw):
    """(trainer, what was seen on D, on D′), shape [2000, steps, views]."""
    pair = Canary.from_params({"records": 20, "canary": request.param})
    trainer = DPSGD.from_params({**SMALL, "output": "steps", "canary_norm": 5.0})
    return trainer.resolve(pair), *draw(trainer, pair, 2000)
