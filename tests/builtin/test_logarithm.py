"""Logarithms of uniform draws, at every draw that there is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.tiers import mostly_slow

from dpframe.builtin.pure_mechanisms import inverse_cdf, log, uniform

EVERY = np.arange(2**23, dtype=np.float32) / 2**23
"""All uniform draws in float32."""

AS_USERS_DO = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
"""LLVM contracts operations, which is part of the comparison; tests are compiled without."""


@pytest.mark.parametrize("step", mostly_slow([16, 1], [0]))
def test_every_logarithm_is_exact_to_less_than_two_units_in_the_last_place(step: int) -> None:
    some = EVERY[::step]
    logs = np.asarray(jax.jit(log)(some))
    assert logs[0] == -np.inf
    exact = np.log(some[1:].astype(np.float64))
    assert (np.abs(logs[1:] - exact) < 2 * np.spacing(np.abs(exact.astype(np.float32)))).all()
    assert jax.jit(log)(np.float32(1)) == 0


@pytest.mark.skipif(
    jax.default_backend() != "cpu" or not jax.__version__.startswith("0.10."),
    reason="compares with the logarithm of one version of XLA on CPUs",
)
def test_every_draw_of_the_laplace_distribution_has_the_bits_of_the_plain_formula() -> None:
    def plain(u: jax.Array) -> jax.Array:
        centred = u - 0.5
        return jnp.copysign(jnp.log(1 - 2 * jnp.abs(centred)), centred)

    expected = np.asarray(jax.jit(plain, compiler_options=AS_USERS_DO)(EVERY))
    found = jax.jit(lambda u: inverse_cdf(u - 0.5), compiler_options=AS_USERS_DO)(EVERY)
    found = np.asarray(found)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_uniform_draws_are_those_of_jax(dtype: type) -> None:
    key = jax.random.key(5)
    expected = jax.random.uniform(key, (1000,), dtype)
    assert np.array_equal(uniform(key, 1000, dtype), expected)
    assert np.array_equal(uniform(key, 1000, dtype, -0.5), expected - dtype(0.5))
