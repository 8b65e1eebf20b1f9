"""The noise primitives that a trace replaces: NumPy's, `random`, `secrets`, diffprivlib, OpenDP.

The replacements act only while a tape is active. Otherwise they do what the originals do.
"""

from __future__ import annotations

import functools
import math
import random
import secrets
import sys
import types
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe_trace import frameworks, jax_noise
from dpframe_trace.active import check_seed, importing, note_seed, put, recording, tape
from dpframe_trace.noise import UNKNOWN, Tape, is_noise, listed, plain, wrap

_GLOBAL = np.random.mtrand._rand


# NumPy.


class _Noise(NamedTuple):
    """A family of noise with a location and a scale."""

    family: str
    parameters: tuple[tuple[str, float], ...]
    standard: Callable[[np.random.Generator, Any], Any]


def _with(family: str, draw: Callable[[np.random.Generator, Any], Any], *names: str) -> _Noise:
    defaults = {"loc": 0.0, "scale": 1.0, "low": 0.0, "high": 1.0}
    return _Noise(family, tuple((name, defaults[name]) for name in names), draw)


def _normal(rng: np.random.Generator, shape: Any) -> Any:
    return rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, shape: Any) -> Any:
    return rng.random(shape)


def _exponential(rng: np.random.Generator, shape: Any) -> Any:
    return rng.standard_exponential(shape)


_BOTH = "loc", "scale"
_SHIFTS = {
    "laplace": _with("laplace", lambda rng, shape: rng.laplace(size=shape), *_BOTH),
    "normal": _with("normal", _normal, *_BOTH),
    "gumbel": _with("gumbel", lambda rng, shape: rng.gumbel(size=shape), *_BOTH),
    "logistic": _with("logistic", lambda rng, shape: rng.logistic(size=shape), *_BOTH),
    "exponential": _with("exponential", _exponential, "scale"),
    "uniform": _with("uniform", _uniform, "low", "high"),
    "standard_normal": _with("normal", _normal),
    "standard_exponential": _with("exponential", _exponential),
    "random": _with("uniform", _uniform),
}
_LEGACY = {"random_sample": _SHIFTS["random"], "ranf": _SHIFTS["random"]}
_PLAIN = {"spawn", "get_state", "set_state", "seed", "bit_generator"}


def _shift(name: str, noise: _Noise, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        on = tape()
        out = named.pop("out", None)
        if on is None:
            return original(self, *given, **named, **({} if out is None else {"out": out}))
        names = [*(n for n, _ in noise.parameters), "size"]
        values = dict(noise.parameters) | dict(zip(names, given, strict=False)) | named
        size = values.get("size") if out is None else out.shape
        loc, scale = values.get("loc", 0.0), values.get("scale", 1.0)
        if "low" in values:
            loc, scale = values["low"], np.subtract(values["high"], values["low"])
        elif np.any(np.asarray(plain(scale), float) < 0):
            raise ValueError("scale < 0")  # as NumPy
        check_seed(self, on)
        drawn = on.shift(name, noise.family, (loc, scale, size), noise.standard)
        if out is None:
            return drawn
        out[...] = plain(drawn)
        return out

    return method


def _opaque(
    name: str, original: Callable[..., Any], legacy: Callable[[int], Any] | None
) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        on = tape()
        if on is None:
            return original(self, *given, **named)
        check_seed(self, on)
        given = tuple(plain(value) for value in given)
        laws = _laws(name, given, named)
        chance: Any = (*given, named.get("p"))[0] if name == "geometric" else None
        chance = float(chance) if chance is not None and np.ndim(chance) == 0 else None
        draw = lambda rng: getattr(rng, name)(*given, **named)  # noqa: E731
        return on.opaque(name, laws, draw, legacy, chance)

    return method


_ORDERS = {"permutation", "shuffle", "permuted", "choice", "sample", "choices"}


def _laws(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, str]:
    """Return the parameters of a draw, and those that its distribution depends on.

    The contents of a list do not change which of its positions are drawn.
    """
    law = repr(_whole((given, named)))
    if name in _ORDERS and given and isinstance(given[0], Sized):
        given = len(given[0]), *given[1:]
    return law, repr(_whole((given, named)))


def _whole(value: Any) -> Any:
    """Return a value whose text shows all of it, as that of a long array does not."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return value


def _choice(original: Callable[..., Any], fallback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(
        self: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, **more: Any
    ) -> Any:
        on = tape()
        if on is None or p is None or size is not None or np.ndim(a) > 1:
            return fallback(self, a, size, replace, p, **more)
        check_seed(self, on)
        chances = np.asarray(plain(p), float)
        return on.choice("choice", a, p, lambda rng: int(rng.choice(len(chances), p=chances)))

    return method


class _Standing(type):
    """The metaclass of replacement classes: instances of the original count as theirs."""

    original: type

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.original)


def _standing(original: type, methods: dict[str, Any], init: Callable[..., None]) -> type:
    body = {"original": original, "__init__": init, **methods}
    meta = _Standing if type(original) is type else type(original)
    return types.new_class(
        original.__name__, (original,), {"metaclass": meta}, lambda ns: ns.update(body)
    )


def _methods(
    original: type, shifts: dict[str, _Noise], legacy: Callable[[int], Any] | None
) -> dict[str, Any]:
    methods: dict[str, Any] = {}
    for name in dir(original):
        own = getattr(original, name)
        if name.startswith("_") or name in _PLAIN or not callable(own):
            continue
        shift = shifts.get(name)
        methods[name] = _shift(name, shift, own) if shift else _opaque(name, own, legacy)
    methods["choice"] = _choice(original.choice, methods["choice"])  # type: ignore[attr-defined]
    return methods


def _init_generator(self: Any, bit_generator: Any, known: bool = True) -> None:
    _Generator.__init__(self, bit_generator)
    self.known = known
    if known:
        note_seed(bit_generator, self)


def _init_state(self: Any, seed: Any = None) -> None:
    note_seed(seed, self)
    _RandomState.__init__(self, seed)


def _seed_state(self: Any, seed: Any = None) -> None:
    note_seed(seed, self)
    _RandomState.seed(self, seed)


def _set_state(self: Any, state: Any) -> None:
    self.fixed = None
    _RandomState.set_state(self, state)


def _randn(self: Any, *shape: int) -> Any:
    return self.standard_normal(shape or None)


def _rand(self: Any, *shape: int) -> Any:
    return self.random_sample(shape or None)


_Generator, _RandomState = np.random.Generator, np.random.RandomState
_Random = random.Random
_SystemRandom = random.SystemRandom
_default_rng = np.random.default_rng
TracedGenerator: Any = _standing(_Generator, _methods(_Generator, _SHIFTS, None), _init_generator)
TracedState: Any = _standing(
    _RandomState,
    {
        **_methods(_RandomState, _SHIFTS | _LEGACY, _RandomState),
        "randn": _randn,
        "rand": _rand,
        "seed": _seed_state,
        "set_state": _set_state,
    },
    _init_state,
)


def _traced_default_rng(seed: Any = None) -> Any:
    if isinstance(seed, _Generator):
        return seed
    return TracedGenerator(_default_rng(seed).bit_generator)


# The standard library.


class _Tossed(_Random):
    """`random.Random` with recorded draws; also in place of SystemRandom."""

    def __init__(self, seed: Any = None) -> None:
        self._quiet = True
        super().__init__(seed)
        self._quiet = False
        note_seed(seed, self)

    def seed(self, a: Any = None, version: int = 2) -> None:
        if not getattr(self, "_quiet", True):
            note_seed(a, self)
        super().seed(a, version)

    def setstate(self, state: Any) -> None:
        self.fixed = None
        super().setstate(state)

    def _shift(self, name: str, loc: Any, scale: Any, own: Callable[[], Any]) -> Any:
        on = tape()
        if on is None:
            return own()
        check_seed(self, on)
        noise = _SHIFTS[name]
        return on.shift(f"random.{name}", noise.family, (loc, scale, None), noise.standard)

    def random(self) -> Any:
        return self._shift("random", 0.0, 1.0, super().random)

    def uniform(self, a: Any, b: Any) -> Any:
        return self._shift("uniform", a, b - a, functools.partial(super().uniform, a, b))

    def gauss(self, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
        return self._shift("normal", mu, sigma, functools.partial(super().gauss, mu, sigma))

    normalvariate = gauss

    def expovariate(self, lambd: Any = 1.0) -> Any:
        return self._shift(
            "exponential", 0.0, 1.0 / lambd, functools.partial(super().expovariate, lambd)
        )


def _tossed(name: str) -> Callable[..., Any]:
    original = getattr(_Random, name)

    @functools.wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        on = tape()
        if on is None:
            return original(self, *given, **named)
        check_seed(self, on)
        laws = _laws(name, given, named)
        return on.opaque(
            f"random.{name}", laws, lambda rng: getattr(rng, name)(*given, **named), _Random
        )

    return method


def _choices(fallback: Callable[..., Any]) -> Callable[..., Any]:
    def choices(self: Any, population: Any, weights: Any = None, **more: Any) -> Any:
        on = tape()
        if on is None or weights is None or set(more) - {"k"} or more.get("k", 1) != 1:
            return fallback(self, population, weights, **more)
        check_seed(self, on)
        sizes = np.asarray([plain(weight) for weight in weights], float)
        law, name = sizes / sizes.sum(), "random.choices"
        return [on.choice(name, population, law, lambda rng: int(rng.choice(len(law), p=law)))]

    return choices


_OPAQUE = (
    "getrandbits choice choices sample shuffle randint randrange randbytes betavariate "
    "gammavariate lognormvariate paretovariate triangular vonmisesvariate weibullvariate "
    "binomialvariate"
)
_Traced: Any = types.new_class(
    "Random",
    (_Tossed,),
    {},
    lambda ns: ns.update(
        {n: _tossed(n) for n in _OPAQUE.split() if hasattr(_Random, n)}
        | {"choices": _choices(_tossed("choices"))}
    ),
)


class _TracedRandom(_Traced):  # type: ignore[misc]
    original = _Random


# The module math.

_MATH = "log log1p log2 log10 exp expm1 sqrt sin cos tan copysign fabs pow"


def _mathematical(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `math` that gives noise for noise, as NumPy's functions do."""

    @functools.wraps(original)
    def method(*given: Any) -> Any:
        result = original(*given)
        one = next((value for value in given if is_noise(value)), None)
        return result if one is None else wrap(one.tape, result, one.draws, UNKNOWN)

    return method


# The libraries.


def _of_diffprivlib(stack: ExitStack) -> None:
    base = sys.modules.get("diffprivlib.mechanisms.base")
    pending = [base.DPMechanism] if base is not None else []
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        if "randomise" in vars(cls) and not getattr(cls.randomise, "__isabstractmethod__", False):
            put(stack, cls, "randomise", _randomise(cls.randomise))


def _randomise(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def randomise(self: Any, *value: Any) -> Any:
        on = tape()
        if on is None:
            return original(self, *value)
        kind = type(self).__name__
        declared = {
            name: float(getattr(self, name))
            for name in ("epsilon", "delta", "sensitivity")
            if isinstance(getattr(self, name, None), int | float)
        }
        given = value[0] if value else getattr(self, "utility", None)
        chances = getattr(self, "_probabilities", None)
        if not value and chances is not None:  # cumulative
            law = np.diff(np.concatenate([[0.0], np.asarray(chances, float)]))
            # With a measure, the release is not the choice but a draw around it.
            measure = repr(getattr(self, "measure", None))
            return on.mechanism(
                f"diffprivlib {kind}", (law, measure), {}, lambda: original(self), "choice"
            )
        families = {"Laplace": "laplace", "Geometric": "laplace", "Gaussian": "normal"}
        family = next((to for word, to in families.items() if kind.startswith(word)), "declared")
        scale = getattr(self, "_scale", None)
        if family != "declared" and isinstance(scale, int | float) and kind in families:
            declared["scale"] = 1 / scale if kind == "Geometric" and scale else float(scale)
        return on.mechanism(
            f"diffprivlib {kind}", given, declared, lambda: original(self, *value), family
        )

    return randomise


def _of_scipy(stack: ExitStack) -> None:
    module = sys.modules.get("scipy.stats._distn_infrastructure")
    if module is None:
        return
    original = module.rv_generic.rvs

    @functools.wraps(original)
    def rvs(self: Any, *given: Any, **named: Any) -> Any:
        shared = getattr(self, "_random_state", None) is _GLOBAL
        if shared and tape() is not None and named.get("random_state") is None:
            named["random_state"] = np.random.mtrand._rand  # the replacement
        return original(self, *given, **named)

    put(stack, module.rv_generic, "rvs", rvs)


def _of_opendp(stack: ExitStack) -> None:
    module = sys.modules.get("opendp.mod")
    if module is None:
        return
    original = module.Measurement.__call__

    def call(self: Any, arg: Any) -> Any:
        on = tape()
        if on is None:
            return original(self, arg)
        with on.within():
            answer = original(self, arg)
        return _answered(on, answer, arg, self)

    def query(self: Any, question: Any) -> Any:
        on = tape()
        if on is None or not hasattr(self, "asked_about"):
            return original_query(self, question)
        with on.within():
            answer = original_query(self, question)
        return _answered(on, answer, self.asked_about, question)

    def _answered(on: Tape, answer: Any, data: Any, measurement: Any) -> Any:
        if isinstance(answer, module.Queryable):  # answers queries about the data, with noise
            answer.asked_about = data
            return answer
        with on.within():
            measurement, data = _innermost(measurement, data)
        declared = {"map": measurement}
        return on.mechanism("opendp measurement", data, declared, lambda: answer, "opendp")

    original_query = module.Queryable.__call__
    put(stack, module.Queryable, "__call__", query)
    put(stack, module.Measurement, "__call__", call)
    if "invoke" in vars(module.Measurement):
        put(stack, module.Measurement, "invoke", call)


def _innermost(measurement: Any, data: Any) -> tuple[Any, Any]:
    """Return the measurement that a chain ends with, and the value that its noise is added to."""
    made = getattr(measurement, "__opendp_dict__", {})
    parts = made.get("__kwargs__", {})
    inner, before = parts.get("measurement1"), parts.get("transformation0")
    if made.get("__function__") == "make_chain_mt" and inner is not None and before is not None:
        return _innermost(inner, before(data))
    if made.get("__function__") == "make_pureDP_to_zCDP" and "measurement" in parts:
        return _innermost(parts["measurement"], data)
    return measurement, data


# Replacing.


_SKIPPED = {
    "numpy",
    "random",
    "secrets",
    "dpframe",
    "dpframe_trace",
    "jax",
    "torch",
    "pytest",
    "_pytest",
}
_DEPTH = 3  # objects inside objects that are searched for generators


@contextmanager
def replaced(function: Any) -> Iterator[None]:
    """Replace the primitives everywhere: in their modules, under other names, in objects.

    Generators that exist already, in modules or held by the function, are replaced too.
    """
    with ExitStack() as stack:
        swaps: dict[int, tuple[Any, Any]] = {}

        def swap(holder: Any, name: str, new: Any) -> None:
            old = getattr(holder, name)
            swaps[id(old)] = old, new  # the object is kept, so its identity is not used again
            put(stack, holder, name, new)

        state = TracedState(np.random.randint(2**32, dtype=np.uint64))
        for name in dir(np.random):
            old = getattr(np.random, name)
            if getattr(old, "__self__", None) is np.random.mtrand._rand and hasattr(state, name):
                swap(np.random, name, getattr(state, name))
        swap(np.random.mtrand, "_rand", state)
        swap(np.random, "default_rng", _traced_default_rng)
        swap(np.random, "Generator", TracedGenerator)
        swap(np.random, "RandomState", TracedState)
        tosser = _TracedRandom()
        for name in dir(random):
            old = getattr(random, name)
            if getattr(old, "__self__", None) is random._inst:
                swap(random, name, getattr(tosser, name))
        for name in ("Random", "SystemRandom"):
            swap(random, name, _TracedRandom)
        for name in ("choice", "randbits", "randbelow", "token_bytes", "SystemRandom"):
            swap(secrets, name, _of_secrets(tosser, name))
        for name in _MATH.split():
            swap(math, name, _mathematical(getattr(math, name)))
        for name in ("array", "asarray"):
            swap(np, name, _array(getattr(np, name)))
        _of_diffprivlib(stack)
        _of_opendp(stack)
        _of_scipy(stack)
        frameworks.replace(stack, swap)
        for home, module in list(sys.modules.items()):
            root = home.partition(".")[0]
            if root in _SKIPPED or (root in sys.stdlib_module_names and root != "__main__"):
                continue
            _swap_names(stack, vars(module) if isinstance(module, types.ModuleType) else {}, swaps)
        _swap_held(stack, function, swaps, _DEPTH, set())
        yield


def _of_secrets(tosser: Any, name: str) -> Any:
    names = {"randbits": "getrandbits", "randbelow": "randrange", "choice": "choice"}
    if name == "SystemRandom":
        return _TracedRandom
    if name == "token_bytes":
        return lambda nbytes=None: tosser.randbytes(32 if nbytes is None else nbytes)
    return getattr(tosser, names[name])


def _array(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def array(value: Any, *given: Any, **named: Any) -> Any:
        if tape() is not None and not given and not named:
            noise = frameworks.as_numpy(value) if frameworks.has_noise(value) else listed(value)
            if noise is not value:
                return noise
        return original(value, *given, **named)

    return array


def _new(value: Any, swaps: dict[int, tuple[Any, Any]]) -> Any:
    """Return the replacement of a value, or None."""
    swap = swaps.get(id(value))
    if swap is not None and swap[0] is value:
        return swap[1]
    kind = type(value)
    if kind is _Generator:
        return TracedGenerator(value.bit_generator, known=False)
    if kind is _RandomState:
        return TracedState()
    return _TracedRandom() if kind in (_Random, _SystemRandom) else None


def _swap_names(stack: ExitStack, names: dict[str, Any], swaps: dict[int, tuple[Any, Any]]) -> None:
    for name, value in list(names.items()):
        new = None if name == "__builtins__" else _new(value, swaps)
        if new is not None:
            stack.callback(names.__setitem__, name, value)
            names[name] = new


def _swap_held(
    stack: ExitStack, value: Any, swaps: dict[int, tuple[Any, Any]], depth: int, seen: set[int]
) -> None:
    """Replace generators in closures, attributes and module objects that a function reaches."""
    if depth < 0 or id(value) in seen or isinstance(value, type | types.ModuleType):
        return
    seen.add(id(value))
    inner: list[Any] = []
    if isinstance(value, types.MethodType):
        inner = [value.__self__, value.__func__]
    elif isinstance(value, functools.partial):
        inner = [value.func]
    elif isinstance(value, types.FunctionType) and _replacement(value):
        return
    elif isinstance(value, types.FunctionType):
        names = [n for n in value.__code__.co_names if n in value.__globals__]
        inner = [value.__globals__[n] for n in names]
        _swap_names(stack, value.__globals__, swaps)
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                old = cell.cell_contents
                new = _new(old, swaps)
                inner.append(old)
                if new is not None:
                    stack.callback(setattr, cell, "cell_contents", old)
                    cell.cell_contents = new
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict) and not isinstance(value, types.FunctionType):
        _swap_names(stack, held, swaps)
        inner += held.values()
    for each in inner:
        _swap_held(stack, each, swaps, depth - 1, seen)


def _replacement(function: types.FunctionType) -> bool:
    """True for functions of this package, whose closures keep the originals."""
    return Path(function.__code__.co_filename).parent == Path(__file__).parent


def generator_for_argument() -> Any:
    """Return the generator to pass to a function that takes one."""
    return TracedGenerator(np.random.PCG64())


def key_for_argument() -> Any:
    """Return the key of JAX to pass to a function that takes one."""
    import jax  # noqa: F401  # the function takes a key, so its process imports JAX

    on = tape()
    return jax_noise.make_key(Tape(0) if on is None else on)


__all__ = [
    "generator_for_argument",
    "importing",
    "key_for_argument",
    "recording",
    "replaced",
    "tape",
]
