"""The tape of a run: its noise calls, and the values that their noise was added to.

A primitive returns noise as a number that remembers its draw. Multiplying it scales the noise.
Adding a value to it records the value, and returns a plain number. A tape that replays another tape
returns the recorded number for each sum, so both runs release the same noised values. Any remaining
difference depends on the data in another way.
"""

from __future__ import annotations

import copy
import hashlib
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import Floats, HostArray, Ints

_Generator = np.random.Generator  # a trace replaces the name in NumPy

UNKNOWN = float("nan")
"""The scale of noise after a function that is not linear."""

Site = tuple[str, int, str]
"""A file, a line and the name of a primitive."""


class Key(NamedTuple):
    """A place in the code, and the number of earlier visits in this run."""

    file: str
    line: int
    name: str
    nth: int

    @property
    def site(self) -> Site:
        """The place alone."""
        return self[:3]


@dataclass
class Call:
    """One call of a noise primitive."""

    key: Key
    family: str
    """`laplace`, `normal`, `gumbel`, `uniform`, `choice`, …; `other` if it is not followed."""
    first: int = 0
    """Number of the first of its draws in this run."""
    shape: tuple[int, ...] = ()
    loc: Floats = field(default_factory=lambda: np.zeros(()))
    scale: Floats = field(default_factory=lambda: np.ones(()))
    law: Any = None
    """Other parameters of the distribution, such as the probabilities of a choice."""
    odds: Any = None
    """For a draw that is not followed, what its distribution depends on: `law`, or for positions
    in a list, the length of the list and not its contents."""
    chance: float | None = None
    """The probability of success of a geometric distribution."""
    result: Any = None
    released: Any = None
    """The result of a choice."""
    tracked: bool = False
    compared: bool = False
    declared: dict[str, float] = field(default_factory=dict)
    """Sensitivity, ε and δ given to a library's mechanism."""


class Use(NamedTuple):
    """Noise that was added to a value, or compared with it."""

    key: Key
    calls: tuple[Key, ...]
    draws: Ints
    """Numbers of the draws, shape of the sum."""
    value: Floats
    scale: Floats
    """Scale of the noise after all factors; NaN if unknown."""
    result: Any
    own: Any
    """The result with this run's own noise and value; `result` may be that of another run."""
    compared: bool = False


class Tape:
    """All noise of one run. With `before`, the noised values are those of that run.

    The calls in `loose` keep their own noise; with `flip`, their comparisons have the opposite
    result.
    """

    def __init__(
        self,
        seed: int,
        before: Tape | None = None,
        loose: frozenset[Key] = frozenset(),
        *,
        flip: bool = False,
    ) -> None:
        self.seed, self.before, self.loose, self.flip = seed, before, loose, flip
        self.calls: dict[Key, Call] = {}
        self.uses: dict[Key, Use] = {}
        self.seeds: set[tuple[str, int, str]] = set()
        """Places that seed a generator, and the seed."""
        self.threads: set[int] = set()
        """The threads that drew noise."""
        self.keys: dict[bytes, tuple[str, int, Any]] = {}
        """For each key of JAX: the sampler, its line and its noise."""
        self.clashes: set[tuple[str, int, str, int]] = set()
        """Second uses of a key: file, line, sampler, and the line of the first use."""
        self.unseen = False
        """True if a framework drew numbers that are not on the tape."""
        self._visits: Counter[Site] = Counter()
        self._listed: list[Call] = []
        self._draws = 0
        self._inside = 0

    def generator(self, key: Key) -> np.random.Generator:
        """Return the generator of one call: the same in every run with this seed.

        The folder of the traced code makes no difference.
        """
        text = repr((self.seed, Path(key.file).name, *key[1:])).encode()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        return _Generator(np.random.PCG64(int.from_bytes(digest, "big")))

    def key(self, name: str) -> Key:
        """Return the key of a call that the traced code makes now."""
        file, line = where()
        site = file, line, name
        self._visits[site] += 1
        return Key(*site, self._visits[site] - 1)

    def seeded(self, seed: Any) -> None:
        """Note that the traced code fixes a seed."""
        self.seeds.add((*where(), f"{seed!r:.40}"))

    # The primitives.

    def shift(
        self,
        name: str,
        family: str,
        given: tuple[Any, Any, Any],
        standard: Callable[[np.random.Generator, Any], Any],
        dtype: Any = float,
    ) -> Any:
        """Draw noise of a location-scale family; `given` is location, scale and size."""
        loc, scale, size = given
        shape = size_of(size, loc, scale)
        key = self.key(name)
        here, width = np.asarray(plain(loc), float), np.asarray(plain(scale), float)
        noise = width * np.asarray(standard(self.generator(key), shape), float)
        call = Call(key, family, shape=shape, loc=here, scale=np.broadcast_to(width, shape))
        old = self._register(call)
        like = self._like(call)
        alone = family == "uniform" or not np.any(here != 0)
        call.tracked = alone if like is None else like.tracked
        drawn = (here + noise) if old is None else np.asarray(old.result, float)
        drawn = np.asarray(np.asarray(drawn, dtype), float)
        call.result = drawn
        if not call.tracked:
            return drawn.copy() if shape else float(drawn)
        ids = call.first + np.arange(drawn.size).reshape(shape)
        return wrap(self, drawn, ids, np.ones(shape))

    def opaque(
        self,
        name: str,
        laws: tuple[Any, Any],
        draw: Callable[[Any], Any],
        legacy: Any = None,
        chance: float | None = None,
    ) -> Any:
        """Make a draw that is not followed: integers, permutations, families without a location.

        Args:
            name: the name of the primitive.
            laws: all of its parameters, and those that its distribution depends on.
            draw: makes the draw.
            legacy: makes the generator for `draw` from a seed; None for one of NumPy.
            chance: the probability of success of geometric noise.
        """
        key = self.key(name)
        law, odds = laws
        call = Call(key, "other", law=law, odds=odds, chance=chance)
        old = self._register(call)
        rng = self.generator(key)
        call.result = draw(rng if legacy is None else legacy(int(rng.integers(2**32))))
        if old is not None and np.shape(old.result) == np.shape(call.result) and old.law == law:
            return copy.deepcopy(old.result)
        return copy.deepcopy(call.result)

    def choice(
        self, name: str, pool: Any, chances: Any, draw: Callable[[np.random.Generator], int]
    ) -> Any:
        """Choose from a pool with given probabilities; a replay chooses the same position."""
        key = self.key(name)
        options = list(range(pool)) if isinstance(pool, int | np.integer) else list(pool)
        law = np.asarray(plain(chances), float)
        call = Call(key, "choice", law=(law, repr(options)))
        old = self._register(call)
        at = draw(self.generator(key)) if old is None else int(old.result)
        call.result = at
        call.released = options[min(at, len(options) - 1)]
        return call.released

    def mechanism(
        self, name: str, value: Any, declared: dict[str, float], run: Callable[[], Any], family: str
    ) -> Any:
        """Run a mechanism of a library; in a replay its answer is the recorded one."""
        if self._inside:
            return run()
        key = self.key(name)
        call = Call(key, family, law=value, declared=declared)
        old = self._register(call)
        with self.within():
            call.result = run()
        return copy.deepcopy(call.result if old is None else old.result)

    @contextmanager
    def within(self) -> Iterator[None]:
        """Draws in this block belong to a mechanism of a library and are not listed."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def released(self, call: Call) -> Ints:
        """List a call that stands for lost noise, and return the numbers of its draws."""
        self._register(call)
        return call.first + np.arange(int(np.prod(call.shape))).reshape(call.shape)

    def _register(self, call: Call) -> Call | None:
        """List a call; return the same call of the run before, if its answer has this form."""
        self.threads.add(threading.get_ident())
        call.first = self._draws
        self._draws += int(np.prod(call.shape))
        self._listed.append(call)
        if not self._inside:
            self.calls[call.key] = call
        return None if call.key in self.loose else self._like(call)

    def _like(self, call: Call) -> Call | None:
        """Return the same call of the run before, if it has this shape."""
        old = self.before.calls.get(call.key) if self.before else None
        return old if old is not None and old.shape == call.shape else None

    def calls_of(self, draws: Ints) -> list[Call]:
        """Return the calls that made some draws, each once."""
        starts = np.array([call.first for call in self._listed])
        indices = np.searchsorted(starts, np.unique(draws), side="right") - 1
        return [self._listed[at] for at in dict.fromkeys(indices.tolist())]

    def scales(self, draws: Ints) -> Floats:
        """Return the scale that each draw was made with."""
        scales = np.full(draws.shape, UNKNOWN)
        for call in self.calls_of(draws):
            mine = (draws >= call.first) & (draws < call.first + int(np.prod(call.shape)))
            scales[mine] = np.ravel(call.scale)[draws[mine] - call.first]
        return scales

    def use(
        self, draws: Ints, factor: Floats, value: Any, result: Any, *, compared: bool = False
    ) -> Any:
        """Note that noise meets a value; return the plain result, or the recorded one."""
        try:
            number = np.asarray(plain(value), float)
        except (TypeError, ValueError):
            return result
        if self._inside or not draws.size:
            return result
        key = self.key("compared" if compared else "added")
        shape = np.broadcast_shapes(draws.shape, number.shape)
        draws = np.broadcast_to(draws, shape)
        calls = self.calls_of(draws)
        for call in calls:
            call.compared = call.compared or compared
        old, own = self.before.uses.get(key) if self.before else None, copy.deepcopy(result)
        scale = self.scales(draws) * np.abs(factor)
        if old is not None and np.shape(old.result) == np.shape(result):
            if self.loose.isdisjoint(call.key for call in calls):
                # Noise of scale 0 hides nothing.
                result = _as_python(np.where(scale == 0, result, old.result))
            elif compared and self.flip:
                result = _as_python(np.logical_not(old.result))
        self.uses[key] = Use(
            key,
            tuple(call.key for call in calls),
            draws,
            np.where(factor < 0, -number, number),
            scale,
            copy.deepcopy(result),
            own,
            compared,
        )
        return result


# Places in the code.

_HERE = str(Path(__file__).parent)
_STANDARD = Path(sysconfig.get_paths()["stdlib"])
_LIBRARIES = (
    *("numpy", "scipy", "pandas", "opendp", "torch/", "jax/", "jaxlib/"),
    *("diffprivlib/mechanisms", "diffprivlib/utils"),
)
_SITES = ("site-packages/", "dist-packages/")
_MODULES = {str(_STANDARD / name) for name in ("random.py", "secrets.py", "functools.py")}


def where() -> tuple[str, int]:
    """Return file and line of the innermost frame outside the libraries that make noise."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        after = next((name.partition(site)[2] for site in _SITES if site in name), "")
        made = name.startswith((_HERE, "<__array")) or name in _MODULES
        if not made and not after.startswith(_LIBRARIES):
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def size_of(size: Any, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of a draw, as NumPy finds it."""
    if size is None:
        return np.broadcast_shapes(*(np.shape(plain(p)) for p in parameters))
    return tuple(int(n) for n in size) if np.ndim(size) else (int(size),)


# Numbers that know the draw that they come from.


def is_noise(value: Any) -> bool:
    """True if a value is noise to which nothing has been added."""
    return isinstance(value, FloatNoise) or (
        isinstance(value, NoiseArray) and value.tape is not None
    )


def plain(value: Any) -> Any:
    """Return a value without its history."""
    if isinstance(value, FloatNoise):
        return float.__float__(value)
    return value.view(np.ndarray) if isinstance(value, NoiseArray) else value


def wrap(tape: Tape, value: Any, draws: Any, factor: Any) -> Any:
    """Return noise that remembers its draws and the factor by which it was multiplied."""
    if np.ndim(value) == 0:
        return FloatNoise(float(value), tape, int(draws), float(factor))
    array = np.array(value, float).view(NoiseArray)
    array.tape, array.draws = tape, np.asarray(draws)
    array.factor = np.broadcast_to(np.asarray(factor, float), array.shape)
    return array


def listed(values: Any) -> Any:
    """Return a list of noise as an array that remembers its draws; keep other values."""
    if not (isinstance(values, list | tuple) and values and all(map(_is_float_noise, values))):
        return values
    draws = np.array([value.draws for value in values])
    return wrap(values[0].tape, [plain(v) for v in values], draws, [v.factor for v in values])


def _is_float_noise(value: Any) -> bool:
    return isinstance(value, FloatNoise)


_ADDS = {np.add: (1, 1), np.subtract: (1, -1)}
_COMPARES = {np.less, np.less_equal, np.greater, np.greater_equal}


def combine(ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Apply a NumPy function to values, some of which are noise."""
    noises = [value for value in inputs if is_noise(value)]
    out = keywords.pop("out", None)
    result = getattr(ufunc, method)(*map(plain, inputs), **keywords)
    if not noises or not isinstance(result, np.ndarray | np.generic | float | bool):
        combined = result
    else:
        combined = followed(ufunc, method, inputs, noises, result)
    if out is None:
        return combined
    target = out[0]
    plain(target)[...] = plain(combined)
    if isinstance(target, NoiseArray):
        target.tape = None
        if isinstance(combined, NoiseArray):
            target.tape, target.draws, target.factor = (
                combined.tape,
                combined.draws,
                combined.factor,
            )
    return target


def followed(  # noqa: PLR0911  # one for each kind of function
    ufunc: Any, method: str, inputs: tuple[Any, ...], noises: list[Any], result: Any
) -> Any:
    """Return the result of a function of noise, with its history if it is still noise."""
    one = noises[0]
    tape, draws, factor = one.tape, np.asarray(one.draws), np.asarray(one.factor, float)
    alone = method == "__call__" and len(noises) == 1 and len(inputs) <= 2
    first = inputs[0] is one
    if alone and len(inputs) == 2:
        other = inputs[1 if first else 0]
        if ufunc in _ADDS:
            sign = _ADDS[ufunc]
            signed = factor * sign[0 if first else 1]
            value = np.multiply(sign[1 if first else 0], other) if _is_number(other) else other
            added = tape.use(draws, signed, value, _as_python(result))
            shape = np.shape(added)
            if any(call.family == "uniform" for call in tape.calls_of(draws)):
                # Other noise is often made of uniform noise, so a sum of it is not released.
                return wrap(tape, added, _near(draws, shape), np.full(shape, UNKNOWN))
            return added
        if ufunc in _COMPARES:
            return tape.use(draws, factor, other, _as_python(result), compared=True)
        linear = ufunc is np.multiply or (ufunc is np.true_divide and first)
        if linear and _is_number(other):
            factor = ufunc(factor, np.asarray(other, float))
            return wrap(tape, result, np.broadcast_to(draws, factor.shape), factor)
    if alone and ufunc in (np.negative, np.positive):
        return wrap(tape, result, draws, ufunc(factor))
    if getattr(result, "dtype", np.dtype(float)).kind != "f":
        return _as_python(result)
    shape = np.shape(result)
    return wrap(tape, result, _near(draws, shape), np.full(shape, UNKNOWN))


def _near(draws: Ints, shape: tuple[int, ...]) -> Ints:
    """Return the draws of a result of some shape, or the first of them for each of its parts."""
    return draws if draws.shape == shape else np.broadcast_to(np.ravel(draws)[0], shape)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.generic | np.ndarray | list | tuple)


def _as_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) or np.ndim(value) == 0 else value


def _binary(ufunc: Any, *, swap: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: FloatNoise, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        return combine(ufunc, "__call__", (other, self) if swap else (self, other), {})

    return method


class FloatNoise(float):
    """One number of noise."""

    tape: Tape
    draws: int
    factor: float

    def __new__(cls, value: float, tape: Tape, draws: int, factor: float) -> FloatNoise:
        noise = super().__new__(cls, value)
        noise.tape, noise.draws, noise.factor = tape, draws, factor
        return noise

    __add__, __radd__ = _binary(np.add), _binary(np.add, swap=True)
    __sub__, __rsub__ = _binary(np.subtract), _binary(np.subtract, swap=True)
    __mul__, __rmul__ = _binary(np.multiply), _binary(np.multiply, swap=True)
    __truediv__, __rtruediv__ = _binary(np.true_divide), _binary(np.true_divide, swap=True)
    __pow__, __rpow__ = _binary(np.power), _binary(np.power, swap=True)  # type: ignore[assignment]
    __lt__, __le__ = _binary(np.less), _binary(np.less_equal)
    __gt__, __ge__ = _binary(np.greater), _binary(np.greater_equal)

    def __neg__(self) -> Any:
        return combine(np.negative, "__call__", (self,), {})

    def __abs__(self) -> Any:
        return combine(np.absolute, "__call__", (self,), {})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return combine(ufunc, method, inputs, keywords)

    def __reduce__(self) -> Any:
        return float, (plain(self),)

    def __deepcopy__(self, memo: Any) -> float:
        return float(plain(self))


class NoiseArray(np.ndarray[Any, Any]):
    """An array of noise."""

    tape: Tape | None
    draws: HostArray
    factor: HostArray

    def __array_finalize__(self, other: Any) -> None:
        self.tape = None  # until a method that knows the draws sets it

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if any(_has_own(value) for value in inputs):
            return NotImplemented
        return combine(ufunc, method, inputs, keywords)

    def __getitem__(self, at: Any) -> Any:
        part = plain(self)[at]
        if self.tape is None:
            return part
        return wrap(self.tape, part, self.draws[at], self.factor[at])

    def __setitem__(self, at: Any, value: Any) -> None:
        plain(self)[at] = plain(value)
        if self.tape is not None:
            self.factor = np.array(self.factor)
            self.factor[at] = UNKNOWN  # the array now holds something other than its draws

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def _moved(self, name: str, *shape: Any) -> Any:
        moved = getattr(plain(self), name)(*shape)
        if self.tape is None:
            return moved
        return wrap(
            self.tape, moved, getattr(self.draws, name)(*shape), getattr(self.factor, name)(*shape)
        )

    def reshape(self, *shape: Any, **more: Any) -> Any:
        return self._moved("reshape", *shape)

    def ravel(self, *order: Any) -> Any:
        return self._moved("ravel", *order)

    def flatten(self, *order: Any) -> Any:
        return self._moved("flatten", *order)

    def copy(self, *order: Any) -> Any:
        return self._moved("copy")

    def astype(self, dtype: Any, *more: Any, **keywords: Any) -> Any:
        return self.copy() if np.dtype(dtype) == float else plain(self).astype(dtype)

    def tolist(self) -> Any:
        return list(self) if self.ndim == 1 else plain(self).tolist()

    def item(self, *at: Any) -> Any:
        return self.ravel()[at[0] if at else 0]

    def __reduce__(self) -> Any:
        return plain(self).__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        return plain(self).copy()


def _has_own(value: Any) -> bool:
    """True for values with arithmetic of their own, such as pandas' series."""
    own = getattr(type(value), "__array_ufunc__", None)
    known = (
        np.ndarray.__array_ufunc__,
        np.generic.__array_ufunc__ if hasattr(np.generic, "__array_ufunc__") else None,
    )
    return not isinstance(value, FloatNoise | NoiseArray) and own is not None and own not in known
