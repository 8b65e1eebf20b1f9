"""Find the generators that a black box keeps between calls, and give each its own stream.

A test file often has `rng = np.random.default_rng()` at module level. Every worker would continue
a copy of it, and draw the same noise. So the generators of the user's own code are found, and
seeded by the address of each chunk, like the global generators of the process. A generator inside
an installed package stays as it is: a constant seed there is a finding.
"""

from __future__ import annotations

import collections
import dis
import functools
import os
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

_MOST_VISITED = 5_000  # values that are looked at
_MOST_ITEMS = 256  # items of a container that are looked at
_MOST_STEPS_OUTSIDE = 3  # steps from the user's own code into values of installed packages

_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = tuple(
    os.path.join(os.path.realpath(place), "")
    for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if place
)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, types.ModuleType)
_MOST_NAMED = 3  # generators or lines that a message names

GAVE = "gave each worker process its own stream of"
"""Begin of the note on generators that got streams."""

_SEEDERS = (
    *("default_rng", "RandomState", "SeedSequence", "Random", "seed", "manual_seed"),
    *("PRNGKey", "key", "PCG64", "Philox", "MT19937", "SFC64"),
)
"""Names of functions that make or seed a generator."""

_WITHOUT_GENERATORS = (
    "builtins",
    "typing",
    "dataclasses",
    "_abc",
    "_thread",
    "datetime",
    "decimal",
    "re",
)
"""Common modules whose objects hold no generator."""

_LEAST_ENTROPY = 1 << 64  # a seed from the system's entropy is larger, almost surely


class Generator(NamedTuple):
    """A generator that a black box keeps between calls."""

    value: Any
    path: str  # from the black box to it; equal in all processes
    name: str  # variable or attribute that holds it
    home: str  # file or package whose code holds it
    own: bool  # True if the user's code holds it, False if an installed package does

    def __str__(self) -> str:
        return f"`{self.name}`, a generator of {self.home}" if self.home else f"`{self.name}`"

    @property
    def can_be_seeded(self) -> bool:
        """True if it may get a stream: it is the user's own, or no constant has seeded it."""
        return _is_stateful(self.value) and (self.own or _is_of_entropy(self.value))


def generators_of(black_boxes: Mapping[str, Any]) -> list[Generator]:
    """Return the generators that black boxes reach, each once, except for global ones.

    The names of the black boxes are equal in all processes.

    They are searched in the globals, closures, defaults and attributes of the user's own functions
    and objects, and in the values that these hold.
    """
    by_identity: dict[int, Generator] = {}
    paths: collections.Counter[str] = collections.Counter()
    shared = {id(one) for one in global_generators().values()}
    for value, place in _visited(black_boxes):
        own = place.outside == 0
        if (
            _is_generator(value)
            and id(value) not in shared
            and (own or id(value) not in by_identity)
        ):
            paths[place.path] += 1
            path = f"{place.path}#{paths[place.path]}"
            by_identity[id(value)] = Generator(value, path, place.name, place.home, own)
    return list(by_identity.values())


def note_of(black_boxes: Sequence[Any]) -> str | None:
    """Return a note on the generators that got streams; None if there are none."""
    own = [one for one in generators_of(_named(black_boxes)) if one.can_be_seeded]
    return f"{GAVE} {_listed(own)}" if own else None


def advice(black_boxes: Sequence[Any]) -> str:
    """Return a sentence on the likely reason for equal draws; "" if none is known."""
    lines = [line for value, _ in _visited(_named(black_boxes)) for line in _seeding(value)]
    if lines:
        first = ", ".join(list(dict.fromkeys(lines))[:_MOST_NAMED])
        return f". See {first}: seed once, outside the function, or from its rng"
    unseeded = [one for one in generators_of(_named(black_boxes)) if not one.can_be_seeded]
    if unseeded:
        which = _listed(unseeded)
        return f". See {which}: make it anew in each call, and seed it from rng or not at all"
    return ""


def _named(black_boxes: Sequence[Any]) -> dict[str, Any]:
    return {str(number): black_box for number, black_box in enumerate(black_boxes)}


def _listed(generators: list[Generator]) -> str:
    names = list(dict.fromkeys(map(str, generators)))
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def seed(generators: list[Generator], address: bytes) -> None:
    """Give each generator that may get one a stream of its own, by the address of a chunk."""
    for one in generators:
        if one.can_be_seeded:
            words = blake2b(one.path.encode(), digest_size=32).digest()
            _seed(one.value, blake2b(address + words, digest_size=32, person=b"own").digest())


def seed_torch(address: bytes) -> None:
    """Seed the global generator of torch if it is loaded; those of devices stay as they are."""
    default = getattr(sys.modules.get("torch"), "default_generator", None)
    if default is not None:
        _seed(default, blake2b(address, digest_size=32, person=b"torch").digest())


def keep(generators: list[Generator]) -> Callable[[], None]:
    """Return a function that restores the states of these generators and of the global ones."""
    every = [*global_generators().values(), *(g.value for g in generators if g.can_be_seeded)]
    restores = [_restore(one) for one in every]

    def restore() -> None:
        for one in restores:
            one()

    return restore


def global_generators() -> dict[tuple[str, str], Any]:
    """Return the global generators of loaded libraries by their modules and names."""
    places = (("random", "_inst"), ("numpy.random.mtrand", "_rand"), ("torch", "default_generator"))
    by_place = {place: getattr(sys.modules.get(place[0]), place[1], None) for place in places}
    return {place: one for place, one in by_place.items() if one is not None}


# Kinds of generators.


def _is(value: Any, package: str, *names: str) -> bool:
    """True if a value is of a class of a package; the package is not imported for it."""
    module = sys.modules.get(package)
    kinds = [getattr(module, name, None) for name in names]
    return isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


def _is_generator(value: Any) -> bool:
    """True for a generator, and for a source of randomness that cannot be seeded in place."""
    if _is_stateful(value) or _is(value, "numpy.random", *_OF_NUMPY, "SeedSequence"):
        return True
    # The class comes first: `pytest.mark` fails when it is asked for `dtype`.
    return _is(value, "jax", "Array") and "key<" in str(getattr(value, "dtype", ""))


def _is_stateful(value: Any) -> bool:
    """True for a generator that can be seeded: of the standard library, NumPy or torch."""
    if isinstance(value, random.Random):
        return not isinstance(value, random.SystemRandom)
    if _is(value, "torch", "Generator"):
        return True
    bits = _bits(value)
    return bits is not None and type(bits).__module__.partition(".")[0] == "numpy"


_OF_NUMPY = ("BitGenerator", "Generator", "RandomState")


def _bits(value: Any) -> Any:
    """Return the bit generator of a generator of NumPy; None for other values."""
    if not _is(value, "numpy.random", *_OF_NUMPY):
        return None
    if _is(value, "numpy.random", "BitGenerator"):
        return value
    return getattr(value, "bit_generator", None) or getattr(value, "_bit_generator", None)


def _is_legacy(value: Any) -> bool:
    return _is(value, "numpy.random", "RandomState")


def _is_of_entropy(value: Any) -> bool:
    """True if a generator of NumPy was seeded by the system's entropy, not by a constant."""
    words = getattr(getattr(_bits(value), "seed_seq", None), "entropy", None)
    return isinstance(words, int) and words >= _LEAST_ENTROPY


def _seed(value: Any, digest: bytes) -> None:
    number = int.from_bytes(digest, "little")
    if isinstance(value, random.Random):
        random.Random.seed(value, number)
    elif _is(value, "torch", "Generator"):
        value.manual_seed(number & ((1 << 63) - 1))
    else:
        bits = _bits(value)
        bits.state = type(bits)(number).state
        if _is_legacy(value):  # it keeps half of the last pair of normal variables
            value.set_state({**value.get_state(legacy=False), "has_gauss": 0, "gauss": 0.0})


def _restore(value: Any) -> Callable[[], None]:
    """Return a function that brings back the present state of a generator."""
    if isinstance(value, random.Random):
        return functools.partial(value.setstate, value.getstate())
    if _is_legacy(value):
        return functools.partial(value.set_state, value.get_state(legacy=False))
    if _is(value, "torch", "Generator"):
        return functools.partial(value.set_state, value.get_state())
    return functools.partial(setattr, _bits(value), "state", _bits(value).state)


# The search.


class _Place(NamedTuple):
    """The place of a value."""

    path: str
    name: str
    home: str
    outside: int  # steps since the user's own code; 0 if this code holds the value

    def step(self, mark: str, name: str | None = None) -> _Place:
        name = self.name if name is None else name
        return self._replace(path=f"{self.path}/{mark}", name=name)

    def enter(self, kind: str, home: str) -> _Place:
        """Return the place of what code of some kind holds; see `_kind`."""
        if kind == "own":
            return self._replace(outside=0, home=home or self.home)
        if kind == "dpframe":
            return self
        return self._replace(outside=self.outside + 1, home=home or self.home)


def _visited(black_boxes: Mapping[str, Any]) -> Iterator[tuple[Any, _Place]]:
    """Yield values breadth first, so that the user's own code comes before libraries."""
    seen: dict[tuple[int, bool], Any] = {}  # the values are kept, so that no id is used again
    queue = collections.deque(
        (black_box, _Place(name, "", "", 0)) for name, black_box in black_boxes.items()
    )
    while queue and len(seen) < _MOST_VISITED:
        value, place = queue.popleft()
        key = id(value), place.outside == 0
        if isinstance(value, _PLAIN) or key in seen:
            continue
        seen[key] = value
        yield value, place
        if place.outside < _MOST_STEPS_OUTSIDE and not _is_generator(value):
            try:
                queue.extend(_inside(value, place))
            except Exception:  # raised by the code of an object
                continue


def _inside(value: Any, place: _Place) -> Iterator[tuple[Any, _Place]]:
    """Yield the values that one holds, with their places."""
    if isinstance(value, functools.partial):
        yield value.func, place.step("func")
        for number, one in enumerate(value.args):
            yield one, place.step(str(number), f"argument {number + 1} of a partial")
        for name, one in value.keywords.items():
            yield one, place.step(name, name)
    elif isinstance(value, (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)):
        yield value.__self__, place.step("self")
        yield getattr(value, "__func__", None), place.step("func")
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value, place)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__, place.step("func")
    elif isinstance(value, property):
        yield value.fget, place.step("fget")
    elif isinstance(value, dict):
        for number, (key, one) in enumerate(list(value.items())[:_MOST_ITEMS]):
            shown = f"{place.name}[{key!r}]" if isinstance(key, (str, int)) else place.name
            yield one, place.step(str(number), shown)
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        for number, one in enumerate(list(value)[:_MOST_ITEMS]):
            yield one, place.step(str(number), f"{place.name}[{number}]")
    elif isinstance(value, type):
        yield from _of_class(value, place)
    else:
        yield from _of_object(value, place)


def _of_function(fn: types.FunctionType, place: _Place) -> Iterator[tuple[Any, _Place]]:
    code, module_globals = fn.__code__, fn.__globals__
    here = place.enter(*_kind(module_globals, code.co_filename))
    defaults = fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    for name, one in zip(names[len(names) - len(defaults) :], defaults):
        yield one, here.step(name, name)
    for name, one in {**(fn.__kwdefaults__ or {}), **vars(fn)}.items():
        yield one, here.step(name, name)
    for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
        try:
            content = cell.cell_contents
        except ValueError:  # it is empty
            continue
        if isinstance(content, types.ModuleType):
            yield from _of_name(name, content, module_globals, _names(code), here)
        else:
            yield content, here.step(name, "" if here is place else name)
    if _kind(module_globals, code.co_filename)[0] != "dpframe":
        for name in (used := _names(code)):
            module = sys.modules.get(name)  # perhaps imported inside the function
            yield from _of_name(name, module_globals.get(name, module), module_globals, used, here)


def _of_name(
    name: str, value: Any, module_globals: dict[str, Any], used: list[str], here: _Place
) -> Iterator[tuple[Any, _Place]]:
    """Yield the value of a global name; of a module, the members that the code uses."""
    if not isinstance(value, types.ModuleType):
        path = f"{module_globals.get('__name__')}:{name}"
        yield value, here._replace(path=path, name=name)
        return
    inner, kind = vars(value), _kind(vars(value), "")
    if kind[0] == "dpframe":
        return
    there = here.enter(*kind)
    for one in used:
        member = inner.get(one)
        if isinstance(member, types.ModuleType) and kind[0] == "own":  # a submodule
            fewer = [each for each in used if each not in (name, one)]
            yield from _of_name(one, member, inner, fewer, there)
        elif member is not None:
            path = f"{inner.get('__name__')}:{one}"
            yield member, there._replace(path=path, name=f"{name}.{one}")


def _of_class(kind: type, place: _Place) -> Iterator[tuple[Any, _Place]]:
    for base in kind.__mro__:
        source, home = _kind_of_class(base)
        if source != "installed" and not base.__module__.startswith("dpframe."):
            here = place.enter(source, home)
            for name, one in list(vars(base).items())[:_MOST_ITEMS]:
                yield one, here.step(f"{base.__qualname__}.{name}", f"{base.__name__}.{name}")


def _of_object(value: Any, place: _Place) -> Iterator[tuple[Any, _Place]]:
    kind = type(value)
    if kind.__module__ in _WITHOUT_GENERATORS or kind.__module__.startswith("dpframe."):
        return
    source, home = _kind_of_class(kind)
    here = place.enter(source, place.home if source == "own" else home)
    held = dict(getattr(value, "__dict__", None) or {})
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = vars(base).get(name)
            if isinstance(member, types.MemberDescriptorType):
                held.setdefault(name, getattr(value, name, None))
    for name, one in list(held.items())[:_MOST_ITEMS]:
        shown = ".".join(part for part in (place.name, str(name)) if part)
        yield one, here.step(str(name), shown)
    if source != "installed":
        yield kind, here.step("type")


def _names(code: types.CodeType) -> list[str]:
    """Return the global names and attributes that code uses, with those of its inner functions."""
    return list(dict.fromkeys(name for one in _codes(code) for name in one.co_names))


def _seeding(fn: Any) -> list[str]:
    """Return the lines that call a function with a seed, if `fn` is a function of the user's."""
    if not isinstance(fn, types.FunctionType):
        return []
    kind, home = _kind(fn.__globals__, fn.__code__.co_filename)
    if kind != "own" or not set(_SEEDERS) & set(_names(fn.__code__)):
        return []
    lines, line = [], fn.__code__.co_firstlineno
    for code in _codes(fn.__code__):
        starts = dict(dis.findlinestarts(code))
        for step in dis.get_instructions(code):
            line = starts.get(step.offset) or line
            if step.argval in _SEEDERS and step.opname.startswith("LOAD"):
                lines.append(f"{home}:{line} ({step.argval})")
    return lines


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """Return code with that of its inner functions."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return [code, *(deeper for one in inner for deeper in _codes(one))]


def _kind_of_class(kind: type) -> tuple[str, str]:
    module = sys.modules.get(kind.__module__)
    return _kind({"__name__": kind.__module__} if module is None else vars(module), "")


def _kind(module: Mapping[str, Any], file: str) -> tuple[str, str]:
    """Return "own", "installed" or "dpframe" for code of a module, and its file or package.

    `file` is that of the code, if it is known.
    """
    if not file or file.startswith("<"):
        file = str(module.get("__file__") or file)
    return _kind_of(str(module.get("__name__") or ""), file)


@functools.lru_cache(maxsize=None)
def _kind_of(name: str, file: str) -> tuple[str, str]:
    root = name.partition(".")[0]
    package = getattr(sys.modules.get(root), "__path__", None) is not None
    if root == "dpframe" or (root.startswith("dpframe_") and package):
        return "dpframe", ""
    path = os.path.realpath(file) if file and not file.startswith("<") else ""
    parts = path.replace("\\", "/").split("/")
    installed = path.startswith(_STANDARD) or any(one in parts for one in _INSTALLED)
    if installed or file.startswith("<frozen") or root in sys.builtin_module_names:
        return "installed", root
    return "own", os.path.basename(path) or name
