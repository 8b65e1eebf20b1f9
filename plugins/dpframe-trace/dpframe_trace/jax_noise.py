"""Noise of JAX, followed in processes that have imported JAX.

The traced function runs under a `jax.core.Trace` that sees each primitive. If JAX draws noise, or
noise of NumPy becomes an array of JAX, the function runs without `jit`. The samplers of
`jax.random` draw from the tape and return a tracer that knows its numbers and their history. Sums
and products go to the functions for NumPy; primitives that only move numbers move the history as
well. Random bits that no followed sampler draws count as lost noise.
"""

from __future__ import annotations

import functools
import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from dpframe_trace.active import put, tape
from dpframe_trace.noise import Tape, followed, is_noise, listed, plain, where, wrap

MOST_CHOICES = 1000
"""Most choices of one call that are followed one by one."""


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
def _parts() -> _Jax | None:
    """Return JAX; None if its version has no traces of this form."""
    try:
        import jax
        from jax._src import core
        from jax.core import Trace, Tracer

        current: Callable[[], Any] = core.unsafe_get_current_trace
        return _Jax(jax, jax.numpy, _tracer(Tracer), _trace(Trace), core.set_current_trace, current)
    except (ImportError, AttributeError):
        return None


def _imported() -> bool:
    return hasattr(sys.modules.get("jax"), "random")


def _jax() -> _Jax:
    parts = _parts()
    if parts is None:
        raise RuntimeError("JAX is not followed")
    return parts


@contextmanager
def following(on: Tape) -> Iterator[None]:
    """Follow JAX's noise in this block, if JAX is imported."""
    if not _imported():
        yield
        return
    parts = _parts()
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


def _need_eager(on: Tape) -> None:
    """Run without `jit` from the next run on; what this run draws is not all followed."""
    on.unseen = on.unseen or not _mode.eager
    _mode.eager = True


def as_numpy(value: Any) -> Any:
    """Return an array of JAX as an array of NumPy, with its history; keep other values."""
    if not _imported():
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
    return _imported() and _parts() is not None and _is_noise(value)


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
                _need_eager(self.on)
            with _jax().set_trace(self.parent_trace):
                result = primitive.bind(*plainly, **params)
                if primitive.name in _BITS and tape() is not None:
                    self.on.opaque("jax.random.bits", ("", ""), lambda rng: rng.random())
                    if primitive.name == "random_bits":
                        _note_key(self.on, ("bits", plainly[0]))
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
    return isinstance(value, _jax().tracer)


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
    return _jax().tracer(on, result, answer) if is_noise(answer) else result


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
        return _jax().tracer(on, result, wrap(one.tape, _floats(result), one.draws, one.factor))
    if primitive.name in _MOVES:
        moved = _moved(primitive, args, params, result)
        return (
            _unfollowed(on, result, noises) if moved is None else _jax().tracer(on, result, moved)
        )
    ufunc = _UFUNCS.get(primitive.name)
    answer = followed(ufunc, "__call__", tuple(inputs), noises, _floats(result))
    if ufunc is None or is_noise(answer):
        return _noise_or(on, result, answer)
    return _jax().jnp.asarray(answer, dtype=result.dtype).reshape(result.shape)


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
    counted = iter(starts.tolist())
    places = [
        _jax().jnp.arange(np.size(each.noise), dtype=np.int32).reshape(each.shape) + next(counted)
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


# The samplers.


def _draws(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a replacement that calls the original outside a run, or for a key that is traced."""

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def sampler(key: Any, *given: Any, **named: Any) -> Any:
            on, trace = tape(), _current()
            own = functools.partial(original, key, *given, **named)
            if on is None or trace is None or isinstance(key, _jax().jax.core.Tracer):
                return own()
            _need_eager(on)
            noise = function(on, own, (original.__name__, key), *given, **named)
            return noise if trace is None or not is_noise(noise) else _as_tracer(noise)

        return sampler

    return replacing


def _current() -> Any:
    """Return the trace that follows noise; None if none is active."""
    trace = _jax().current()
    while trace is not None and not isinstance(trace, _jax().trace):
        trace = getattr(trace, "parent_trace", None)
    return trace


def _as_tracer(noise: Any) -> Any:
    """Return noise of NumPy as an array of JAX."""
    trace = _current()
    with _jax().set_trace(trace.parent_trace):
        value = _jax().jnp.asarray(np.array(plain(noise)))
    wide = value.dtype == np.float64
    numbers = np.asarray(value, float)
    noise = noise if wide else wrap(noise.tape, numbers, noise.draws, noise.factor)
    return _jax().tracer(trace, value, noise)


_Keyed = tuple[str, Any]
"""The name of a sampler, and its key."""


def _key_data(key: Any) -> bytes:
    jax = _jax().jax
    typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(key) if typed else key).tobytes()


def _note_key(on: Tape, keyed: _Keyed, noise: Any = None) -> None:
    """Note the use of a key; a second use is a clash, because the draws depend on each other."""
    (name, key), (file, line) = keyed, where()
    before = on.keys.setdefault(_key_data(key), (name, line, noise))
    if before[:2] != (name, line):
        on.clashes.add((file, line, f"jax.random.{name}", before[1]))


def _drawn_before(on: Tape, keyed: _Keyed, shape: tuple[int, ...]) -> Any:
    """Return the noise that this sampler drew with this key; None if it did not."""
    name, _, noise = on.keys.get(_key_data(keyed[1]), ("", 0, None))
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
        keyed: _Keyed,
        shape: Any = (),
        dtype: Any = None,
        minval: Any = 0.0,
        maxval: Any = 1.0,
        **more: Any,
    ) -> Any:
        wide = np.dtype(_jax().jax.dtypes.canonicalize_dtype(float if dtype is None else dtype))
        if wide not in (np.float32, np.float64) or np.ndim(minval) or np.ndim(maxval):
            return own()
        shape = tuple(np.atleast_1d(shape).tolist()) if np.size(shape) else ()
        before = _drawn_before(on, keyed, shape)
        if before is not None:
            return before
        span = (minval, maxval - minval) if family == "uniform" else (0.0, 1.0)
        given = float(span[0]), float(span[1]), shape
        noise = on.shift(f"jax.random.{keyed[0]}", family, given, standard[family], wide)
        _note_key(on, keyed, noise)
        return noise

    return function


def _categorical(
    on: Tape,
    own: Callable[[], Any],
    keyed: _Keyed,
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


def _choices(on: Tape, keyed: _Keyed, pool: Any, laws: Any) -> Any:
    """Choose once for each list of probabilities along the last axis."""
    _note_key(on, keyed)
    rows = np.asarray(laws, float).reshape(-1, laws.shape[-1])
    name = f"jax.random.{keyed[0]}"
    options: Any = laws.shape[-1] if pool is None else pool
    drawn = []
    for row in rows:
        law = row / row.sum()
        choose = functools.partial(_chosen, law)
        drawn.append(on.choice(name, options, law, choose))
    return _jax().jnp.asarray(np.array(drawn).reshape(laws.shape[:-1]))


def _chosen(law: Any, rng: np.random.Generator) -> int:
    return int(rng.choice(len(law), p=law))


def _bernoulli(
    on: Tape, own: Callable[[], Any], keyed: _Keyed, p: Any = 0.5, shape: Any = None, **more: Any
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
    keyed: _Keyed,
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
    if not _imported() or _parts() is None:
        return
    jax, jnp = _jax().jax, _jax().jnp
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
        if is_noise(noise) and _current() is not None:
            return original(_as_tracer(noise), *given, **named)
        return original(value, *given, **named)

    return convert


def _operator(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, other: Any) -> Any:
        follow = is_noise(other) and _current() is not None
        return original(self, _as_tracer(other) if follow else other)

    return method


def make_key(on: Tape) -> Any:
    """Return a key for a function that takes one: another one in each run with another seed."""
    key: Any = _jax().jax.random.key
    return getattr(key, "__wrapped__", key)(int(np.random.PCG64(on.seed).random_raw() >> 33))


__all__ = ["as_numpy", "following", "has_noise", "make_key", "replace", "start"]
