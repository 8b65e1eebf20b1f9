"""Noise of JAX is followed from its line to the released value."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpframe_trace import trace
from jax import random
from jax.random import laplace as by_name

D0 = jnp.array([0.0, 0.4, 0.3])
D1 = jnp.array([1.0, 0.4, 0.3])


def total(data):
    return jnp.clip(data, 0, 1).sum()


def bins(data):
    return jnp.stack([(data < 0.5).sum(), (data >= 0.5).sum()]).astype(float)


def laplace(key, data):
    return total(data) + random.laplace(key)


def laplace_by_name(key, data):
    return total(data) + by_name(key)


@jax.jit
def laplace_jitted(key, data):
    return total(data) - random.laplace(key, ())


def laplace_of_a_seed(rng, data):
    key = random.key(int(rng.integers(2**31)))
    return bins(data) + 2.0 * random.laplace(key, (2,))


def laplace_rounded(rng, data):
    key = random.PRNGKey(rng.integers(1000))
    return jnp.round(bins(data) + 2.0 * random.laplace(key, (2,)))


def laplace_by_parts(key, data):
    noise = 2 * random.laplace(key, (1, 2)).reshape(2)
    return [bins(data)[1] + noise[1], float(bins(data)[0] + noise[0])]


def laplace_of_keys(key, data):
    keys = random.split(key)
    return [value + 2 * random.laplace(key) for key, value in zip(keys, bins(data), strict=True)]


def laplace_of_numpy(data):
    return total(data) + np.random.laplace()


def laplace_of_numpy_array(data):
    return bins(data) + jnp.asarray(np.random.laplace(scale=2.0, size=2))


def laplace_to_numpy(key, data):
    return np.asarray(bins(data)) + np.asarray(random.laplace(key, (2,))) * 2


def laplace_in_a_loop(key, data):
    def step(carry, each):
        key, value = each
        return carry, value + 2 * random.laplace(key)

    return jax.lax.scan(step, 0, (random.split(key), bins(data)))[1]


def exponentials(key, data):
    one, two = random.split(key)
    return total(data) + random.exponential(one) - random.exponential(two)


@pytest.mark.parametrize(
    "function",
    [
        laplace,
        laplace_by_name,
        laplace_jitted,
        laplace_of_a_seed,
        laplace_by_parts,
        laplace_of_keys,
        laplace_of_numpy,
        laplace_of_numpy_array,
        laplace_to_numpy,
        laplace_in_a_loop,
    ],
)
@pytest.mark.parametrize(("claim", "kinds"), [(1.0, []), (0.5, ["budget"])])
def test_laplace_noise_has_its_loss(function, claim, kinds):
    found = trace(function, D0, D1, epsilon=claim)
    assert ([finding.kind for finding in found.findings], found.unknown) == (kinds, [])
    assert found.epsilon == pytest.approx(1.0, rel=1e-6)
    assert found.lines[0].file == __file__


def normal(key, data):
    return jnp.clip(data, 0, 1) + 4 * random.normal(key, data.shape)


def normal_of_a_gradient(key, data):
    gradient = jax.grad(lambda weight: (weight * jnp.clip(data, 0, 1)).sum())(jnp.ones(3))
    return gradient + random.normal(key, (3,)) * 4.0


def normal_of_gradients(key, data):
    loss = jax.vmap(jax.grad(lambda weight, row: weight * row), in_axes=(None, 0))
    return loss(1.0, jnp.clip(data, 0, 1)).sum() + 4 * random.normal(key, dtype=jnp.float32)


@pytest.mark.parametrize("function", [normal, normal_of_a_gradient, normal_of_gradients])
def test_normal_noise_has_the_loss_of_its_mu(function):
    from dpframe import GaussianDP

    found = trace(function, D0, D1, epsilon=2.0, delta=1e-5)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon == pytest.approx(GaussianDP(0.25).epsilon_at(1e-5), rel=1e-5)
    assert found.lines[-1].scales == (4.0, 4.0)


def choice_of_logits(key, data):
    return random.categorical(key, 0.25 * bins(data))


def choice_of_weights(key, data):
    return random.choice(key, 2, p=jax.nn.softmax(0.25 * bins(data)))


def test_noised_values_may_be_rounded():
    found = trace(laplace_rounded, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])


def coin(key, data):
    return random.bernoulli(key, jax.nn.softmax(0.25 * bins(data))[0])


@pytest.mark.parametrize("function", [choice_of_logits, choice_of_weights, coin])
def test_a_choice_has_the_loss_of_its_probabilities(function):
    one, two = (jax.nn.softmax(0.25 * bins(data)) for data in (D0, D1))
    loss = float(jnp.abs(jnp.log(one) - jnp.log(two)).max())
    found = trace(function, D0, D1, epsilon=0.5)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon == pytest.approx(loss, rel=1e-5)
    kinds = [finding.kind for finding in trace(function, D0, D1, epsilon=0.9 * loss).findings]
    assert kinds == ["budget"]


def unclipped(key, data):
    return data.sum() + random.laplace(key)


def scale_from_data(key, data):
    return total(data) + (1 + data.max()) * random.laplace(key)


def same_key_twice(key, data):
    return total(data) + 9 * random.laplace(key), data[1] + 9 * random.laplace(key)


def same_noise_twice(key, data):
    noise = 9 * random.normal(key)
    return total(data) + noise, 3 * total(data) + noise


def fixed_key(data):
    return total(data) + 9 * random.laplace(random.key(0))


def divided_by_n(key, data):
    return (total(data) + random.laplace(key)) / len(data)


def no_noise_at_all(key, data):
    random.normal(key)
    return total(data)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (unclipped, "budget"),
        (scale_from_data, "scale"),
        (same_key_twice, "reused"),
        (same_noise_twice, "reused"),
        (fixed_key, "seed"),
        (divided_by_n, "output"),
        (no_noise_at_all, "output"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_is_found(function, kind):
    d1 = D1[:2] if function is divided_by_n else 3 * D1 if function is unclipped else D1
    found = trace(function, D0, d1, epsilon=1.0, delta=1e-5)
    assert kind in [finding.kind for finding in found.findings]
    assert all(f.line > function.__code__.co_firstlineno for f in found.findings if f.line)


def one_key_for_two_samplers(key, data):
    return total(data) + 9 * random.laplace(key), total(data) + 9 * random.normal(key)


def one_key_for_noise_and_sign(key, data):
    return total(data) + 9 * random.laplace(key) + 9 * random.rademacher(key)


@pytest.mark.parametrize("function", [one_key_for_two_samplers, one_key_for_noise_and_sign])
def test_a_key_that_is_used_twice_is_named(function):
    found = trace(function, D0, D1, epsilon=1.0)
    assert found.exit_code == 3
    line = function.__code__.co_firstlineno + 1
    assert any(f"line {line} used before" in text for text in found.unknown)


def shuffled(key, data):
    return random.permutation(key, data)


def largest(key, data):
    return jnp.argmax(bins(data) + 4 * random.gumbel(key, (2,)))


def of_cauchy(key, data):
    return total(data) + 3 * random.cauchy(key)


def of_vmapped_keys(key, data):
    return bins(data) + 2 * jax.vmap(random.laplace)(random.split(key, 2))


def through_a_matrix(key, data):
    return jnp.eye(2) @ bins(data) + jnp.ones((2, 2)) @ (5 * random.normal(key, (2,)))


def rounded(key, data):
    return bins(data) + jnp.round(9 * random.laplace(key, (2,)))


def compared(key, data):
    return bool(total(data) + random.laplace(key) > 0.5) and float(random.laplace(key)) < 9.0


@pytest.mark.parametrize(
    "function",
    [
        shuffled,
        largest,
        of_cauchy,
        of_vmapped_keys,
        through_a_matrix,
        rounded,
        exponentials,
        compared,
    ],
)
def test_noise_that_is_not_followed_is_no_reason_to_accuse(function):
    found = trace(function, D0, D1, epsilon=0.4)
    assert (found.findings, found.exit_code) == ([], 3)


def test_a_function_that_only_computes_in_jax_stays_compiled():
    runs = []

    @jax.jit
    def smoothed(counts):
        runs.append(None)
        return counts / counts.sum()

    def function(rng, data):
        return smoothed(np.asarray(bins(data)) + rng.laplace(scale=2.0, size=2))

    found = trace(function, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown, len(runs)) == ([], [], 1)


def test_nothing_is_left_replaced():
    array = type(D0)
    before = random.laplace, random.key, jnp.asarray, array.__add__
    for function in (laplace, compared, laplace_of_numpy):
        trace(function, D0, D1)
    assert (random.laplace, random.key, jnp.asarray, array.__add__) == before
    assert jax.jit(lambda x: x + 1)(1.0) == 2.0
