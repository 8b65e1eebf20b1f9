"""The samplers of `jax.random` that a trace replaces, and the ways from NumPy's noise to JAX."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from dpframe_trace.active import put, tape
from dpframe_trace.jax_noise import (
    Keyed,
    as_numpy,
    as_tracer,
    current_trace,
    find_jax,
    is_imported,
    jax_parts,
    key_data,
    need_eager,
    note_key,
)
from dpframe_trace.noise import Tape, is_noise, listed

MOST_CHOICES = 1000
"""Most choices of one call that are followed one by one."""


def _draws(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a replacement that calls the original outside a run, or for a key that is traced."""

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def sampler(key: Any, *given: Any, **named: Any) -> Any:
            on, trace = tape(), current_trace()
            own = functools.partial(original, key, *given, **named)
            if on is None or trace is None or isinstance(key, jax_parts().jax.core.Tracer):
                return own()
            need_eager(on)
            noise = function(on, own, (original.__name__, key), *given, **named)
            return noise if trace is None or not is_noise(noise) else as_tracer(noise)

        return sampler

    return replacing


def _drawn_before(on: Tape, keyed: Keyed, shape: tuple[int, ...]) -> Any:
    """Return the noise that this sampler drew with this key; None if it did not."""
    name, _, noise = on.keys.get(key_data(keyed[1]), ("", 0, None))
    return noise if name == keyed[0] and is_noise(noise) and np.shape(noise) == shape else None


def _shift(family: str) -> Callable[..., Any]:
    """Return the replacement of a sampler of a standard distribution."""
    standard: dict[str, Callable[[np.random.Generator, Any], Any]] = {
        "laplace": lambda rng, shape: rng.laplace(size=shape),
        "normal": lambda rng, shape: rng.standard_normal(shape),
        "gumbel": lambda rng, shape: rng.gumbel(size=shape),
        "logistic": lambda rng, shape: rng.logistic(size=shape),
        "exponential": lambda rng, shape: rng.standard_exponential(shape),
        "uniform": lambda rng, shape: rng.random(shape),
    }

    def function(
        on: Tape,
        own: Callable[[], Any],
        keyed: Keyed,
        shape: Any = (),
        dtype: Any = None,
        minval: Any = 0.0,
        maxval: Any = 1.0,
        **more: Any,
    ) -> Any:
        wide = np.dtype(
            jax_parts().jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
        )
        if wide not in (np.float32, np.float64) or np.ndim(minval) or np.ndim(maxval):
            return own()
        shape = tuple(np.atleast_1d(shape).tolist()) if np.size(shape) else ()
        before = _drawn_before(on, keyed, shape)
        if before is not None:
            return before
        span = (minval, maxval - minval) if family == "uniform" else (0.0, 1.0)
        given = float(span[0]), float(span[1]), shape
        noise = on.shift(f"jax.random.{keyed[0]}", family, given, standard[family], wide)
        note_key(on, keyed, noise)
        return noise

    return function


def _categorical(
    on: Tape,
    own: Callable[[], Any],
    keyed: Keyed,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    **more: Any,
) -> Any:
    logits = np.asarray(as_numpy(logits))
    rows = np.moveaxis(logits, axis, -1)
    whole = rows.shape[:-1] if shape is None else tuple(shape)
    if not replace or math.prod(whole) > MOST_CHOICES:
        return own()
    laws = np.exp(rows - rows.max(axis=-1, keepdims=True))
    laws = np.broadcast_to(laws / laws.sum(axis=-1, keepdims=True), (*whole, rows.shape[-1]))
    return _choices(on, keyed, None, laws)


def _choices(on: Tape, keyed: Keyed, pool: Any, laws: Any) -> Any:
    """Choose once for each list of probabilities along the last axis."""
    note_key(on, keyed)
    rows = np.asarray(laws, float).reshape(-1, laws.shape[-1])
    name = f"jax.random.{keyed[0]}"
    options: Any = laws.shape[-1] if pool is None else pool
    drawn = []
    for row in rows:
        law = row / row.sum()
        choose = functools.partial(_chosen, law)
        drawn.append(on.choice(name, options, law, choose))
    return jax_parts().jnp.asarray(np.array(drawn).reshape(laws.shape[:-1]))


def _chosen(law: Any, rng: np.random.Generator) -> int:
    return int(rng.choice(len(law), p=law))


def _bernoulli(
    on: Tape, own: Callable[[], Any], keyed: Keyed, p: Any = 0.5, shape: Any = None, **more: Any
) -> Any:
    chances = np.asarray(as_numpy(p), float)
    whole = chances.shape if shape is None else tuple(shape)
    if math.prod(whole) > MOST_CHOICES:
        return own()
    chances = np.broadcast_to(chances, whole)
    return _choices(on, keyed, [False, True], np.stack([1 - chances, chances], axis=-1))


def _choice(
    on: Tape,
    own: Callable[[], Any],
    keyed: Keyed,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    **more: Any,
) -> Any:
    whole = tuple(np.atleast_1d(shape).tolist()) if np.size(shape) else ()
    one = not replace and math.prod(whole) > 1
    if p is None or one or np.ndim(a) > 1 or math.prod(whole) > MOST_CHOICES:
        return own()
    law = np.asarray(as_numpy(p), float)
    pool = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
    return _choices(on, keyed, pool.tolist(), np.broadcast_to(law, (*whole, len(law))))


_SAMPLERS: dict[str, Callable[..., Any]] = {
    **{name: _shift(name) for name in ("laplace", "normal", "gumbel", "logistic")},
    **{name: _shift(name) for name in ("exponential", "uniform")},
    **{"categorical": _categorical, "bernoulli": _bernoulli, "choice": _choice},
}
_OPERATORS = "add radd sub rsub mul rmul truediv rtruediv lt le gt ge"


def replace(stack: ExitStack, swap: Callable[[Any, str, Any], None]) -> None:
    """Replace the samplers of `jax.random`, and what converts noise of NumPy to arrays of JAX."""
    if not is_imported() or find_jax() is None:
        return
    jax, jnp = jax_parts().jax, jax_parts().jnp
    for name, function in _SAMPLERS.items():
        swap(jax.random, name, _draws(function)(getattr(jax.random, name)))
    for name in ("key", "PRNGKey"):
        swap(jax.random, name, _seeded(getattr(jax.random, name)))
    for name in ("asarray", "array"):
        swap(jnp, name, _converted(getattr(jnp, name)))
    array = type(jnp.zeros(()))
    for word in _OPERATORS.split():
        put(stack, array, f"__{word}__", _operator(getattr(array, f"__{word}__")))


def _seeded(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(seed: Any, *given: Any, **named: Any) -> Any:
        on = tape()
        if on is not None and isinstance(seed, int | np.integer):
            on.seeded(int(seed))
            for call in on.calls.values():
                if call.family == "other" and np.shape(call.result) == () and call.result == seed:
                    call.family = "key"  # the numbers that the key draws are followed instead
        return original(seed, *given, **named)

    return make


def _converted(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def convert(value: Any, *given: Any, **named: Any) -> Any:
        noise = listed(value)
        if is_noise(noise) and current_trace() is not None:
            return original(as_tracer(noise), *given, **named)
        return original(value, *given, **named)

    return convert


def _operator(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, other: Any) -> Any:
        follow = is_noise(other) and current_trace() is not None
        return original(self, as_tracer(other) if follow else other)

    return method


__all__ = ["replace"]
