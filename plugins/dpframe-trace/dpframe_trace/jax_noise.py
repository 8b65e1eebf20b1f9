"""Noise of JAX, followed in processes that have imported JAX.

The traced function runs under a `jax.core.Trace` that sees each primitive. If JAX draws noise, or
noise of NumPy becomes an array of JAX, the function runs without `jit`. The samplers of
`jax.random` draw from the tape and return a tracer that knows its numbers and their history. Sums
and products go to the functions for NumPy; primitives that only move numbers move the history as
well. Random bits that no followed sampler draws count as lost noise.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from dpframe_trace.active import tape
from dpframe_trace.noise import Tape, followed, is_noise, plain, where, wrap

_mode = types.SimpleNamespace(eager=False)
_BITS = {"random_bits", "threefry2x32", "random_gamma", "rng_bit_generator", "rng_uniform"}


class _Jax(NamedTuple):
    """The parts of JAX that are used here."""

    jax: Any
    jnp: Any
    tracer: type
    trace: type
    set_trace: Callable[[Any], Any]
    current: Callable[[], Any]


@functools.cache
def find_jax() -> _Jax | None:
    """Return JAX; None if its version has no traces of this form."""
    try:
        import jax
        from jax._src import core
        from jax.core import Trace, Tracer

        current: Callable[[], Any] = core.unsafe_get_current_trace
        return _Jax(jax, jax.numpy, _tracer(Tracer), _trace(Trace), core.set_current_trace, current)
    except (ImportError, AttributeError):
        return None


def is_imported() -> bool:
    """True if the process has imported JAX."""
    return hasattr(sys.modules.get("jax"), "random")


def jax_parts() -> _Jax:
    """Return JAX; raise RuntimeError if it cannot be followed."""
    parts = find_jax()
    if parts is None:
        raise RuntimeError("JAX is not followed")
    return parts


@contextmanager
def following(on: Tape) -> Iterator[None]:
    """Follow JAX's noise in this block, if JAX is imported."""
    if not is_imported():
        yield
        return
    parts = find_jax()
    if parts is None:
        on.unseen = True
        yield
        return
    eager = parts.jax.disable_jit() if _mode.eager else nullcontext()
    with eager, parts.set_trace(parts.trace(parts.current(), on)):
        yield


def start() -> None:
    """Start a trace: the first run shows if JAX draws noise."""
    _mode.eager = False


def need_eager(on: Tape) -> None:
    """Run without `jit` from the next run on; what this run draws is not all followed."""
    on.unseen = on.unseen or not _mode.eager
    _mode.eager = True


def as_numpy(value: Any) -> Any:
    """Return an array of JAX as an array of NumPy, with its history; keep other values."""
    if not is_imported():
        return value
    jax: Any = sys.modules["jax"]
    if not isinstance(value, jax.Array):
        return value
    noise = getattr(value, "noise", None)
    if noise is not None:
        return noise
    if isinstance(value, jax.core.Tracer):
        return value
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def has_noise(value: Any) -> bool:
    """True for an array that is noise."""
    return is_imported() and find_jax() is not None and _is_noise(value)


# The trace.


def _tracer(base: Any) -> Any:
    class NoiseTracer(base):  # type: ignore[misc]
        """An array of JAX that is noise."""

        __slots__ = ["noise", "value"]

        def __init__(self, trace: Any, value: Any, noise: Any) -> None:
            super().__init__(trace, sys.modules["jax"].typeof(value))
            self.value, self.noise = value, noise

        def to_concrete_value(self) -> Any:
            return self.value

        def __array__(self, *given: Any, **named: Any) -> Any:
            return np.asarray(self.value).__array__(*given, **named)

        def __float__(self) -> float:
            return float(self.value)

        def __complex__(self) -> complex:
            return complex(self.value)

        def item(self, *at: Any) -> Any:
            return self.noise.item(*at) if np.ndim(self.noise) else self.noise

        def tolist(self) -> Any:
            return self.noise.tolist() if np.ndim(self.noise) else self.noise

        def block_until_ready(self) -> Any:
            return self

        def __deepcopy__(self, memo: Any) -> Any:
            return self.value

        def _short_repr(self) -> str:
            return repr(self.value)

    return NoiseTracer


def _trace(base: Any) -> Any:
    class NoiseTrace(base):  # type: ignore[misc]
        """A trace that evaluates each primitive at once, and follows noise through it."""

        def __init__(self, parent: Any, on: Tape) -> None:
            super().__init__()
            self.parent_trace, self.on, self.requires_low = parent, on, False
            self.programs: dict[int, tuple[Any, bool]] = {}

        def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
            plainly = [_value(each) for each in args]
            noisy = any(map(_is_noise, args))
            if not _mode.eager and tape() is not None and (noisy or self.draws(primitive, params)):
                need_eager(self.on)
            with jax_parts().set_trace(self.parent_trace):
                result = primitive.bind(*plainly, **params)
                if primitive.name in _BITS and tape() is not None:
                    self.on.opaque("jax.random.bits", ("", ""), lambda rng: rng.random())
                    if primitive.name == "random_bits":
                        note_key(self.on, ("bits", plainly[0]))
                if primitive.multiple_results or not noisy:
                    noises = [each.noise for each in args if _is_noise(each)]
                    return _unfollowed(self, result, noises)
                return _result(self, primitive, args, params, result)

        def draws(self, primitive: Any, params: Any) -> bool:
            """True if a primitive draws random bits, itself or in a program among its parameters.

            Programs are kept beside the answer, so that their identity is not used again.
            """
            if primitive.name in _BITS:
                return True
            found = False
            for value in params.values():
                for each in value if isinstance(value, list | tuple) else (value,):
                    program: Any = getattr(each, "jaxpr", each)
                    if hasattr(program, "eqns"):
                        if id(program) not in self.programs:
                            inner = (self.draws(e.primitive, e.params) for e in program.eqns)
                            self.programs[id(program)] = program, any(inner)
                        found = found or self.programs[id(program)][1]
            return found

        def process_custom_jvp_call(
            self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **more: Any
        ) -> Any:
            return fun.call_wrapped(*tracers)

        def process_custom_vjp_call(
            self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **more: Any
        ) -> Any:
            return fun.call_wrapped(*tracers)

        def process_call(self, primitive: Any, fun: Any, tracers: Any, params: Any, /) -> Any:
            return fun.call_wrapped(*tracers)

        def stage_value(self, value: Any) -> Any:
            return value if _is_noise(value) else self.parent_trace.stage_value(value)

        def cur_qdd(self, value: Any) -> Any:
            return self.parent_trace.cur_qdd(_value(value))

    return NoiseTrace


def _is_noise(value: Any) -> bool:
    return isinstance(value, jax_parts().tracer)


def _value(value: Any) -> Any:
    return value.value if _is_noise(value) else value


def _numbers(value: Any) -> Any:
    """Return an argument as a value of NumPy, with its history."""
    return value.noise if _is_noise(value) else np.asarray(value)


def _unfollowed(on: Any, result: Any, noises: list[Any]) -> Any:
    """Return the result of a function that is not followed, as noise with unknown factors."""
    if not noises:
        return result
    if isinstance(result, list | tuple):
        return [_unfollowed(on, each, noises) for each in result]
    return _noise_or(on, result, followed(None, "__call__", (), noises, _floats(result)))


def _floats(result: Any) -> Any:
    array = np.asarray(result)
    return np.asarray(array, float) if array.dtype in (np.float32, np.float64) else array


def _noise_or(on: Any, result: Any, answer: Any) -> Any:
    return jax_parts().tracer(on, result, answer) if is_noise(answer) else result


_UFUNCS: dict[str, Any] = {
    **{"add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply},
    **{"div": np.true_divide, "neg": np.negative},
    **{"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
}
_MOVING = (
    "broadcast_in_dim reshape squeeze slice dynamic_slice gather transpose expand_dims rev copy "
    "copy_p concatenate stage device_put"
)
_MOVES = set(_MOVING.split())


def _result(on: Any, primitive: Any, args: Any, params: Any, result: Any) -> Any:
    """Return the result of a primitive of noise: noise, or a noised value."""
    inputs = [_numbers(each) for each in args]
    noises = [each for each in inputs if is_noise(each)]
    if result.dtype not in (np.float32, np.float64) and primitive.name not in _UFUNCS:
        return result
    if primitive.name == "convert_element_type":
        one = noises[0]
        return jax_parts().tracer(
            on, result, wrap(one.tape, _floats(result), one.draws, one.factor)
        )
    if primitive.name in _MOVES:
        moved = _moved(primitive, args, params, result)
        return (
            _unfollowed(on, result, noises)
            if moved is None
            else jax_parts().tracer(on, result, moved)
        )
    ufunc = _UFUNCS.get(primitive.name)
    answer = followed(ufunc, "__call__", tuple(inputs), noises, _floats(result))
    if ufunc is None or is_noise(answer):
        return _noise_or(on, result, answer)
    return jax_parts().jnp.asarray(answer, dtype=result.dtype).reshape(result.shape)


def _moved(primitive: Any, args: Any, params: Any, result: Any) -> Any:
    """Return the history of numbers that a primitive moved; None if some are no noise.

    The primitive moves the positions of the numbers in the same way.
    """
    pieces = [each for each in args if not _is_noise(each)]
    joins = primitive.name == "concatenate"
    if joins and pieces:
        return None
    noises = [each.noise for each in args if _is_noise(each)]
    starts = np.cumsum([0, *(np.size(noise) for noise in noises)])
    counted, jnp = iter(starts.tolist()), jax_parts().jnp
    places = [
        jnp.arange(np.size(each.noise), dtype=np.int32).reshape(each.shape) + next(counted)
        if _is_noise(each)
        else each
        for each in args
    ]
    if len(noises) > 1 and not joins:
        return None
    at = np.asarray(primitive.bind(*places, **params))
    if at.size and not (at.min() >= 0 and at.max() < starts[-1]):
        return None  # filled beyond the end
    draws = np.concatenate([np.ravel(noise.draws) for noise in noises])[at]
    factor = np.concatenate([np.ravel(noise.factor) for noise in noises])[at]
    return wrap(noises[0].tape, _floats(result), draws, factor)


# Keys, and noise of NumPy.


Keyed = tuple[str, Any]
"""The name of a sampler, and its key."""


def key_data(key: Any) -> bytes:
    """Return the numbers of a key."""
    jax = jax_parts().jax
    typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(key) if typed else key).tobytes()


def note_key(on: Tape, keyed: Keyed, noise: Any = None) -> None:
    """Note the use of a key; a second use is a clash, because the draws depend on each other."""
    (name, key), (file, line) = keyed, where()
    before = on.keys.setdefault(key_data(key), (name, line, noise))
    if before[:2] != (name, line):
        on.clashes.add((file, line, f"jax.random.{name}", before[1]))


def current_trace() -> Any:
    """Return the trace that follows noise; None if none is active."""
    trace = jax_parts().current()
    while trace is not None and not isinstance(trace, jax_parts().trace):
        trace = getattr(trace, "parent_trace", None)
    return trace


def as_tracer(noise: Any) -> Any:
    """Return noise of NumPy as an array of JAX."""
    trace = current_trace()
    with jax_parts().set_trace(trace.parent_trace):
        value = jax_parts().jnp.asarray(np.array(plain(noise)))
    wide = value.dtype == np.float64
    numbers = np.asarray(value, float)
    noise = noise if wide else wrap(noise.tape, numbers, noise.draws, noise.factor)
    return jax_parts().tracer(trace, value, noise)


def make_key(on: Tape) -> Any:
    """Return a key for a function that takes one: another one in each run with another seed."""
    key: Any = jax_parts().jax.random.key
    return getattr(key, "__wrapped__", key)(int(np.random.PCG64(on.seed).random_raw() >> 33))


__all__ = [
    "Keyed",
    "as_numpy",
    "as_tracer",
    "current_trace",
    "find_jax",
    "following",
    "has_noise",
    "is_imported",
    "jax_parts",
    "key_data",
    "make_key",
    "need_eager",
    "note_key",
    "start",
]
