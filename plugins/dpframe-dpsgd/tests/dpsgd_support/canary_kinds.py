"""Bounds from the last model, by kinds of canaries.

`python -m dpsgd_support.canary_kinds --seeds 5`, in the folder of the tests, prints for each seed
(of the data, the record and the search) the influence of every canary and the certified ε.
"""

import argparse
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.pairs import Canary
from dpframe_dpsgd.searched import SearchedCanary, influence
from dpframe_dpsgd.training import as_vector

import dpframe

TRAINER = {
    "noise_multiplier": 0.5,
    "learning_rate": 5e-3,
    "steps": 20,
    "batch": 20,
    "width": 16,
}
RECORDS = 100
KINDS = ("held-out", "mislabelled", "blank", "searched")


def pair_of(kind, seed, **params):
    where = {"records": RECORDS, "index": seed, "subset": seed}
    if kind != "searched":
        return Canary(canary=kind, **where)
    return SearchedCanary(seed=seed, **where, **TRAINER, **params)


def trained(pair, data):
    """Return the trainer and the data, with the canary's features and label."""
    x, y = pair.record()
    trainer = DPSGD(**TRAINER).resolve(pair.start("held-out") if hasattr(pair, "start") else pair)
    return trainer, jax.tree.map(jnp.asarray, data), jnp.asarray(x), jnp.asarray(y)


@partial(jax.jit, static_argnums=(0, 1))
def scores(trainer, models, key, data, x, y):
    """Return minus the losses of models on a record, shape [models]."""
    _, shaped = as_vector(trainer.init(jax.random.key(0), len(x)))
    outputs = trainer.sample(key, data, models)
    return -jax.vmap(lambda model: trainer.loss(shaped(model), x, y))(outputs)


def influence_of(pair, models=400, seed=99_999):
    """Return the influence on models that the search did not use."""
    keys = jax.random.split(jax.random.key(seed), models)
    trainer, data, x, y = trained(pair, pair.d0)
    return float(influence(trainer, data, keys, x, y))


def bound(pair, models, seed):
    """Return the certified ε at δ = 1e-5 and 95 %."""
    each = []
    for key, data in zip(
        jax.random.split(jax.random.key(10_000 + seed)), (pair.d0, pair.d1), strict=True
    ):
        trainer, own, x, y = trained(pair, data)
        each.append(np.asarray(scores(trainer, models, key, own, x, y)))
    found = dpframe.score(each[1], each[0], delta=1e-5, lower_is_member=False)
    bounds = [row["estimate"]["epsilon_lower"] for row in found["rows"]]
    return max(one for one in bounds if one is not None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", type=int, default=2_000)
    options = parser.parse_args()
    for seed in range(options.seeds):
        for kind in KINDS:
            pair = pair_of(kind, seed)
            line = (
                f"{seed} {kind:12} {influence_of(pair):.2f} {bound(pair, options.models, seed):.2f}"
            )
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
