"""How often one training of a small network in JAX refutes noise that is too small.

    cd plugins/dpframe-dpsgd && PYTHONPATH=tests python -m dpsgd_support.too_little_noise

1,000 canaries, 1,000 other records, q = .05, σ = 1: trainings whose noise has .9 and .95 of the
stated deviation, and right ones, with 300 and 1,000 steps.
"""

import argparse
import statistics
import sys

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_dpsgd import Canaries

RATE, RECORDS, CANARIES, FEATURES, WIDTH = 0.05, 1_000, 1_000, 64, 200
SETTINGS = ((0.9, 300), (0.95, 1_000), (1.0, 300), (1.0, 1_000))


def loss(parameters, x, y):
    hidden = jax.nn.relu(x @ parameters["hidden"] + parameters["bias"])
    logits = hidden @ parameters["output"]
    return jax.nn.logsumexp(logits) - logits[y]


def trained(seed, of_noise, steps):
    """Return the canaries of a training whose noise has a share of the stated deviation."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    y = (x @ rng.normal(size=FEATURES) > 0).astype(np.int32)
    canaries = Canaries((x, y), CANARIES, clip=1.0, noise_multiplier=1.0, rate=RATE, seed=seed)
    x, y, mark = map(jnp.asarray, canaries.train_set)
    length = int(RATE * len(x) + 6 * (RATE * len(x)) ** 0.5)
    gradients = jax.vmap(jax.grad(canaries.loss(loss)), in_axes=(None, 0, 0, 0))

    @jax.jit
    def step(parameters, batch, key):
        each = gradients(parameters, x[batch], y[batch], mark[batch])
        squares = [(leaf**2).sum(range(1, leaf.ndim)) for leaf in jax.tree.leaves(each)]
        scale = (batch >= 0) * jnp.minimum(1, 1 / jnp.sqrt(sum(squares)))
        summed = jax.tree.map(lambda leaf: jnp.tensordot(scale, leaf, 1), each)
        leaves, form = jax.tree.flatten(summed)
        keys = jax.random.split(key, len(leaves))
        drawn = [
            of_noise * jax.random.normal(k, a.shape) for k, a in zip(keys, leaves, strict=True)
        ]
        noisy = form.unflatten([a + b for a, b in zip(leaves, drawn, strict=True)])
        moved = jax.tree.map(lambda p, g: p - 0.01 / (RATE * RECORDS) * g, parameters, noisy)
        return moved, canaries.project(noisy)

    first, second = jax.random.split(jax.random.key(1))
    parameters = {
        "hidden": jax.random.normal(first, (FEATURES, WIDTH)) / 8,
        "bias": jnp.zeros(WIDTH),
        "output": jax.random.normal(second, (WIDTH, 2)) / 14,
    }
    coins = np.random.default_rng((seed, 1))
    for number in range(steps):
        taken = np.flatnonzero(coins.random(len(x)) < RATE)[:length]
        batch = np.concatenate([taken, np.full(length - len(taken), -1)])
        key = jax.random.fold_in(jax.random.key(seed + 500), number)
        parameters, seen = step(parameters, batch, key)
        canaries.step(seen, batch)
    return canaries


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainings", type=int, default=8)
    number = parser.parse_args().trainings
    for of_noise, steps in SETTINGS:
        seen = [trained(seed, of_noise, steps) for seed in range(number)]
        after = [one.bets.refuted_after(0.05) for one in seen]
        refuted = [one for one in after if one is not None]
        named = sum(bool(one.noise.warnings()) for one in seen)
        consistent = sum(one.audit().verdict == "consistent" for one in seen)
        median = f" (median after {statistics.median(refuted):.0f} steps)" if refuted else ""
        sys.stdout.write(
            f"{of_noise} σ, {steps:,} steps: bets refute {len(refuted)} of {number}{median}, the "
            f"noise test {named}, consistent {consistent}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
