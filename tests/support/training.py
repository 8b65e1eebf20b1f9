"""A mechanism whose releases are dear and traced, as those of training runs are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from dpframe import Mechanism, Pair, PureDP


class Trains(Mechanism, name="trains"):
    """Steps to a mean with noise; every release is a model of its own."""

    epsilon: float = 1.0

    @property
    def rows(self) -> int:
        return 4

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        def train(key: Any) -> Any:
            def step(model: Any, noise: Any) -> Any:
                return model + (data - model + noise / self.epsilon) / 2, None

            noise = jax.random.laplace(key, (3, *data.shape))
            return jax.lax.scan(step, jnp.zeros_like(data), noise)[0]

        return jax.vmap(train)(jax.random.split(key, n))


def spec(*estimators: str, models: int = 40, **tables: Any) -> dict[str, Any]:
    """An audit of training runs by an attack that learns.

    Args:
        estimators: names.
        models: that are counted, per dataset.
        tables: of the spec.
    """
    return {
        "schema": 1,
        "audit": {"name": "training", "trials": models, "seed": 2},
        "pair": {"use": "zeros-ones", "params": {"dim": 2}},
        "mechanism": [{"use": "trains"}],
        "attack": [{"use": "logistic"}],
        "estimator": [{"use": use} for use in estimators],
        "sweep": {"mechanism.epsilon": [1.0, 2.0]},
        "run": {"fit": 50, "pilot": 42},
        **tables,
    }
