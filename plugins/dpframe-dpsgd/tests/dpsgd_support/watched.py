"""A small training with canaries, written as a user would write it, with one mistake or none."""

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_dpsgd import Canaries

RECORDS, FEATURES, WIDTH, CANARIES, RATE, STEPS = 400, 64, 32, 150, 0.1, 120
LEARNING_RATE = 0.01
SIZE = RATE * RECORDS


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    return x, (x @ rng.normal(size=FEATURES) > 0).astype(np.int32)


def start():
    first, second = jax.random.split(jax.random.key(0))
    return {
        "hidden": jax.random.normal(first, (FEATURES, WIDTH)) / 8,
        "bias": jnp.zeros(WIDTH),
        "output": jax.random.normal(second, (WIDTH, 2)) / 6,
        "output_bias": jnp.zeros(2),
    }


def loss(parameters, x, y):
    hidden = jax.nn.relu(x @ parameters["hidden"] + parameters["bias"])
    logits = hidden @ parameters["output"] + parameters["output_bias"]
    return jax.nn.logsumexp(logits) - logits[y]


def norm_of(tree, axes):
    return jnp.sqrt(
        sum((leaf**2).sum(axis=range(axes, leaf.ndim)) for leaf in jax.tree.leaves(tree))
    )


def trained(
    seed=0,
    *,
    mistake=None,
    canaries=CANARIES,
    clip=1.0,
    noise_multiplier=1.0,
    steps=STEPS,
    of_noise=1.0,
    out=None,
):
    """Train with clipped gradients, and return the canaries that watched.

    Args:
        seed: of coins, batches and noise.
        mistake: in the training, which states what is right.
        canaries: their number.
        clip: C.
        noise_multiplier: σ.
        steps: of the training.
        of_noise: standard deviation of the noise over the stated one.
        out: folder of the audit.
    """
    watched = Canaries(
        data(),
        canaries,
        clip=clip,
        noise_multiplier=noise_multiplier,
        rate=RATE,
        divided_by=SIZE if mistake in ("sum-as-mean", "drawn-size") else 1.0,
        seed=seed,
        out=out,
    )
    x, y, mark = map(jnp.asarray, watched.train_set)
    n, size = len(x), RATE * len(x)
    own = watched.loss(loss)
    if mistake == "hook-not-called":
        jax.eval_shape(own, start(), x[0], y[0], mark[0])

        def own(parameters, x, y, mark):
            return loss(parameters, x, y)

    @jax.jit
    def clipped_sum(parameters, weight):
        each = jax.vmap(jax.grad(own), in_axes=(None, 0, 0, 0))(parameters, x, y, mark)
        scale = weight
        if mistake not in ("not-clipped", "clipped-after-averaging"):
            scale = weight * jnp.minimum(1, clip / jnp.maximum(norm_of(each, 1), 1e-12))
        total = jax.tree.map(lambda leaf: jnp.tensordot(scale, leaf, 1), each)
        if mistake == "clipped-after-averaging":
            factor = jnp.minimum(1, clip * size / norm_of(total, 0))
            return jax.tree.map(lambda leaf: leaf * factor, total)
        return total

    def batch_of(step):
        if mistake == "fixed-batches":
            per_epoch = n // int(size)
            order = np.random.default_rng((seed, 1, step // per_epoch)).permutation(n)
            return order // int(size) == step % per_epoch
        rate = 2 * RATE if mistake == "twice-the-rate" else RATE
        return np.random.default_rng((seed, 1, step)).random(n) < rate

    def noise(step):
        number = {"same-key": 0, "key-of-epoch": step % 10, "shared": step // 2}.get(mistake, step)
        deviation = of_noise * noise_multiplier * (1 if mistake == "noise-without-clip" else clip)
        keys = [0] * 4 if mistake == "key-of-all-arrays" else range(4)
        leaves, form = jax.tree.flatten(start())
        drawn = [
            deviation * np.random.default_rng((seed, 2, number, k)).normal(size=leaf.shape)
            for k, leaf in zip(keys, leaves, strict=True)
        ]
        return jax.tree.unflatten(form, drawn)

    parameters = jax.tree.map(np.asarray, start())
    for step in range(steps):
        batch = batch_of(step)
        summed = clipped_sum(parameters, batch.astype(np.float32))
        drawn = batch.sum() if mistake in ("drawn-size", "drawn-size-given") else 1
        released = jax.tree.map(
            lambda a, b, by=drawn: (np.asarray(a) + b) / by, summed, noise(step)
        )
        watched.step(
            released,
            batch_of(step + 1) if mistake == "other-batches" else batch,
            divided_by=drawn if mistake == "drawn-size-given" else None,
        )
        parameters = jax.tree.map(
            lambda p, g: (p - LEARNING_RATE / size * g).astype(np.float32), parameters, released
        )
    return watched
