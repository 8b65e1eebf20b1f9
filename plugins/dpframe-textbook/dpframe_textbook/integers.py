"""Integer noise from integer arithmetic only, so that rounding leaks nothing [CanonneKS2020].

Many identical state machines make draws in parallel, with one coin per step. Each machine makes
several draws in sequence, so that little time is lost waiting for the slowest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, HostArray, Key

BEGIN, MAGNITUDE, MULTIPLE, ACCEPT, DONE = range(5)
"""The phases of a machine: draw a remainder U, keep or redraw it, add multiples of t, and accept or
reject the result."""


MOST_COINS = 32
"""Limit on heads in a row; the probability of more is 1/31!."""


RESULTS = 8
"""Number of results that each machine makes."""


class MachineStates(NamedTuple):
    """The states of the machines; every array has the shape [machines]."""

    phase: Array
    coins: Array
    """Number of heads in a row, plus 1; its parity decides a Bernoulli(e^{−γ})."""
    whole: Array
    """Number of Bernoulli(1/e) still to win before the rest of γ, while a candidate is tested."""
    remainder: Array
    """U, below t."""
    multiple: Array
    """V: the magnitude is U + tV."""
    value: Array


State = tuple[Any, ...]
"""Steps, words for the next step, machines, results, and the number of results per machine."""


def discrete_laplace(key: Key, n: int, t: int, s: int, *, two_zeros: bool = False) -> Array:
    """Draw n values z with Pr[z] proportional to e^{−|z|s/t} [CanonneKS2020, algorithm 2].

    Args:
        key: a JAX key.
        n: number of draws, static.
        t: numerator of the scale, static.
        s: denominator of the scale, static.
        two_zeros: True to count −0 as a second 0, the mistake that the algorithm warns against.
    """
    return _run(key, n, t, s, None, two_zeros)


def discrete_gaussian(key: Key, n: int, variance: int) -> Array:
    """Draw n values z with Pr[z] proportional to e^{−z²/2σ²} [CanonneKS2020, algorithm 3].

    Args:
        key: a JAX key.
        n: number of draws, static.
        variance: σ², static; at most 1000, so that 32 bits are sufficient.
    """
    t = int(variance**0.5) + 1
    return _run(key, n, t, 1, variance, False)


def _run(key: Key, n: int, t: int, s: int, variance: int | None, two_zeros: bool) -> Array:
    variants = -(-n // RESULTS)
    places = jnp.arange(RESULTS)[:, None]

    def fresh(count: Array) -> Array:
        return jax.random.bits(jax.random.fold_in(key, count), (2, variants), jnp.uint32)

    def step(state: State) -> State:
        count, words, draws, results, done = state
        after, counted = _step(words, draws, t, s, variance, two_zeros)
        draws = jax.tree.map(lambda x, y: jnp.where(counted, x, y), after, draws)
        new = draws.phase == DONE
        results = jnp.where(new & (places == done), draws.value, results)
        draws = draws._replace(phase=jnp.where(new, BEGIN, draws.phase))
        # The words of the next step are made here, or every use would make them again.
        return count + 1, fresh(count + 1), draws, results, done + new

    none = jnp.zeros(variants, jnp.int32)
    begun = MachineStates(none + BEGIN, none + 1, none, none, none, none)
    nothing = jnp.zeros((RESULTS, variants), jnp.int32)
    zero = jnp.zeros((), jnp.int32)
    *_, results, _ = jax.lax.while_loop(
        lambda state: jnp.any(state[-1] < RESULTS),
        step,
        (zero, fresh(zero), begun, nothing, none),
    )
    return results.ravel()[:n]


def _step(
    words: Array, draws: MachineStates, t: int, s: int, variance: int | None, two_zeros: bool
) -> tuple[MachineStates, Array]:
    """Toss one coin on each machine: heads with probability γ/k, where γ depends on the phase.

    Args:
        words: 32 random bits for the coin, and 32 for a sign and a remainder; shape [2, machines].
        draws: the current states.
        t: numerator of the scale.
        s: denominator of the scale.
        variance: σ², or None for Laplace.
        two_zeros: True to keep −0.

    Returns:
        The new states, and True for the machines that could use these words.
    """
    phase, coins, whole, remainder, multiple, value = draws
    excess, bottom = _excess(value, t, variance)
    plain = (phase == MULTIPLE) | ((phase == ACCEPT) & (whole > 0))
    top = jnp.where(phase == MAGNITUDE, remainder, jnp.where(plain, 1, excess % bottom))
    kind = jnp.where(phase == MAGNITUDE, 0, jnp.where(plain, 1, 2))
    shares = jnp.asarray(_shares((t, 1, bottom)))[kind * MOST_COINS + coins]
    under = jnp.where(phase == MAGNITUDE, t, jnp.where(plain, 1, bottom)) * coins
    word, spare = words[0] >> 1, words[1] >> 1
    fair = word < shares * under.astype(jnp.uint32)
    fair &= spare < jnp.uint32(2**31 // t * t)
    fresh = (spare % t).astype(jnp.int32)
    minus, tossed = words[1] % 2 == 1, phase != BEGIN
    heads = tossed & (word < shares * top.astype(jnp.uint32))
    won, decided = coins % 2 == 1, tossed & ~heads
    coins = jnp.where(heads, coins + 1, 1)

    kept = decided & won & (phase == MAGNITUDE)
    more = decided & won & (phase == MULTIPLE)
    ready = decided & ~won & (phase == MULTIPLE)
    again = decided & ~won & (phase != MULTIPLE)

    size = (remainder + t * multiple) // s
    again |= ready & minus & (size == 0) & (not two_zeros)
    ready &= ~again
    value = jnp.where(ready, jnp.where(minus, -size, size), value)
    after = jnp.where(kept | (phase == BEGIN), phase + 1, phase)
    if variance is None:
        after = jnp.where(ready, DONE, after)
    else:
        passed = decided & won & (phase == ACCEPT)
        after = jnp.where(ready, ACCEPT, jnp.where(passed & (whole == 0), DONE, after))
        needed = _excess(value, t, variance)[0] // bottom
        whole = jnp.where(ready, needed, whole - passed)
    fresh = jnp.where(phase == BEGIN, fresh, remainder)
    multiple = jnp.where(phase == BEGIN, 0, multiple + more)
    return MachineStates(jnp.where(again, BEGIN, after), coins, whole, fresh, multiple, value), fair


def _shares(limits: tuple[int, ...]) -> HostArray:
    """Return the number of 31-bit words below each limit times 0, 1, …; flattened."""
    counts = np.maximum(np.arange(MOST_COINS), 1)
    return np.concatenate([2**31 // (limit * counts) for limit in limits]).astype(np.uint32)


def _excess(value: Array, t: int, variance: int | None) -> tuple[Array, int]:
    """Return γ of the candidate as a fraction: (|z| − σ²/t)²/2σ²."""
    if variance is None:
        return jnp.zeros_like(value), 1
    away = jnp.abs(jnp.abs(value) * t - variance)
    # Beyond 2³¹ nothing is accepted anyway: γ is then above 1000.
    away = jnp.minimum(away, 46_000)
    return away * away, 2 * variance * t * t
