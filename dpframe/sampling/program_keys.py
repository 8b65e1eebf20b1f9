"""Keys of compiled programs: a digest of everything that tracing depends on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import platform
import sys
import sysconfig
import time
import types
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy

import dpframe
from dpframe import __version__
from dpframe.interfaces.plugin import Plugin
from dpframe.sampling import threefry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# All code that a function or a class reaches, as it is in memory now.
#
# Files do not say what somebody has put in place of a function or of a constant.


LIBRARIES = {"jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "opt_einsum", "pydantic"}
"""Known by their versions; no program with code of others but dpframe's has a key."""

PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...), range)


class UnknownError(Exception):
    """Something in a program is not known well enough."""


def reached(*roots: Any) -> list[str]:
    """What they do, with all functions, classes and constants that they name; in one order.

    Args:
        roots: functions and classes.

    Raises:
        UnknownError: some of it is neither dpframe's nor a known library's.
    """
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any, set[str]]] = [("", root, set()) for root in roots]
    while waiting:
        place, value, names = waiting.pop()
        value = _unwrapped(value)
        if isinstance(value, types.ModuleType):  # what of it is used is named
            if value.__name__.partition(".")[0] == "dpframe":
                inside = vars(value)
                waiting += [
                    (f"{value.__name__}.{name}", inside[name], names)
                    for name in names & inside.keys()
                ]
        elif isinstance(value, tuple | list):
            waiting += [(f"{place}.{number}", one, names) for number, one in enumerate(value)]
        elif type(value) in PLAIN:
            found[f"{place} = {value!r}"] = None
        elif isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            found[f"{place} = {array.dtype} {array.shape} {array.tobytes().hex()}"] = None
        elif isinstance(value, types.FunctionType | type):
            found[f"{place} is {value.__module__}.{value.__qualname__}"] = None
            if id(value) not in seen:
                seen.add(id(value))
                waiting += _inside(value, found)
        else:
            found[f"{place} is {type(value).__qualname__}"] = None
    return sorted(found)


def _inside(value: Any, found: dict[str, None]) -> Iterator[tuple[str, Any, set[str]]]:
    """What a function or a class uses; what the function does goes into what is found."""
    if not _known(value.__module__):
        return
    place = f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, type):
        yield f"{place}.__bases__", value.__bases__, set()
        for name, one in vars(value).items():
            if not name.startswith(("__pydantic", "__doc__", "_abc_")):
                yield f"{place}.{name}", one, set()
        return
    text, used = _text_of(value.__code__)
    found[f"{place} does {text}"] = None
    for name, one in _used(value, used):
        yield f"{place}.{name}", one, used


def _known(module: str | None) -> bool:
    """Whether the code of a module is looked at; else its version says all of it."""
    top = (module or "").partition(".")[0]
    if top == "dpframe":
        return True
    if top in LIBRARIES or top in sys.stdlib_module_names or top.startswith("namedtuple_"):
        return False
    raise UnknownError(f"code of {module}")


def _unwrapped(value: Any) -> Any:
    """The function inside a method, a property, a partial or a jitted function."""
    while True:
        if isinstance(value, staticmethod | classmethod | types.MethodType):
            value = value.__func__
        elif isinstance(value, property):
            return [part for part in (value.fget, value.fset) if part is not None]
        elif isinstance(value, functools.cached_property):
            value = value.func
        elif isinstance(value, functools.partial):
            return [value.func, *value.args, *value.keywords.values()]
        elif not isinstance(value, type) and callable(getattr(value, "__wrapped__", None)):
            value = value.__wrapped__
        else:
            return value


def _text_of(block: types.CodeType) -> tuple[str, set[str]]:
    """What a function does, and the names that it uses, those inside it included."""
    used, parts = set(block.co_names), [block.co_code.hex(), repr(block.co_names)]
    for value in block.co_consts:
        if isinstance(value, types.CodeType):
            text, inner = _text_of(value)
            parts.append(text)
            used |= inner
        elif isinstance(value, frozenset):
            parts.append(repr(sorted(map(repr, value))))
        else:
            parts.append(repr(value))
    return " ".join(parts), used


def _used(function: types.FunctionType, names: set[str]) -> Iterator[tuple[str, Any]]:
    for name in names & function.__globals__.keys():
        yield name, function.__globals__[name]
    yield "defaults", function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue


# What a program is made from, as a digest: everything that its tracing would depend on.
#
# It is had without tracing, so that a program that was compiled before need not be traced to be
# found. One that is found wrongly would count something else; so whatever is not known to be
# covered
# has none, and is traced: in particular every class that is not dpframe's own.


SETTLED = 10.0
"""Seconds for which files must have been as they are before this process began with them: what it
imported is then what they hold."""

PACKAGE = Path(dpframe.__file__).parent
_GENERATOR = [value for value in vars(threefry).values() if callable(value)]
"""JAX reaches it through the type of the keys."""
BEGAN = time.time()


def program_key(
    function: Callable[..., Any],
    context: tuple[str, ...],
    args: tuple[Any, ...],
    static: dict[str, Any],
) -> str:
    """Digest of a program.

    Args:
        function: what is traced.
        context: settings under which.
        args: arrays, and trees of them.
        static: keyword arguments whose values the program is made for.

    Raises:
        UnknownError: it cannot be had.
    """
    parts = [surroundings(), code_of_package(), *context]
    parts += [*_argument(args, static=False), *_argument(static, static=True)]
    for root in _roots(function, args, static):
        parts += _ingredients_known(root)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def unchanged(function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any]) -> bool:
    """Whether all code of a program is still what its key was made of.

    The key knows code as it was when it was looked at first. What is traced later may be other
    code, which must not be kept under that key.
    """
    roots = _roots(function, args, static)
    return set(reached(*roots)) == {part for root in roots for part in _ingredients_known(root)}


def _roots(
    function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any]
) -> list[Any]:
    return list(dict.fromkeys((function, *classes_in(args), *classes_in(static), *_GENERATOR)))


_ingredients_known = functools.cache(reached)


def forget() -> None:
    """Looks at all code in memory again from now on: some may have been replaced."""
    _ingredients_known.cache_clear()


def classes_in(value: Any) -> list[Any]:
    """Classes of dpframe whose methods a program may call."""
    if isinstance(value, (tuple, list)):
        own: list[Any] = [type(value)] if _from_dpframe(type(value)) else []
        return [*own, *(cls for one in value for cls in classes_in(one))]
    if isinstance(value, dict):
        return classes_in(list(value.values()))
    kind: Any = type(value)
    if _from_dpframe(kind):
        return [kind, *classes_in(list(vars(value).values()))]
    return []


def _argument(value: Any, *, static: bool) -> Iterator[str]:
    """A value, said in full; but of arrays that are handed over only what a program is made for."""
    kind: Any = type(value)
    if kind in PLAIN:
        yield f"{kind.__name__} {value!r}"
    elif isinstance(value, np.ndarray | np.generic | jax.Array):
        yield f"array {value.dtype} {value.shape} {is_weak(value)}"
        if static:
            yield np.asarray(value).tobytes().hex()
    elif kind in (tuple, list, dict) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        yield f"{_name(kind)} of {len(value)}"
        inside = value.items() if isinstance(value, dict) else value
        for one in inside:
            yield from _argument(one, static=static)
    elif dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind)]
        if set(vars(value)) - set(fields):
            raise UnknownError(f"{kind} holds more than its fields")
        yield f"{_name(kind)} of {fields}"
        traced = value.leaves if isinstance(value, Plugin) else ()
        for field in fields:
            yield from _argument(getattr(value, field), static=static or field not in traced)
    elif _from_dpframe(kind) and not vars(value):
        yield _name(kind)
    else:
        raise UnknownError(f"{kind}")


def is_weak(array: Any) -> bool:
    """Whether JAX lets the type of an array give way to others."""
    return bool(getattr(array, "weak_type", False))


def _name(kind: Any) -> str:
    if kind not in (tuple, list, dict) and not _from_dpframe(kind):
        raise UnknownError(f"{kind} is not dpframe's own")
    return f"{kind.__module__}.{kind.__qualname__}"


@functools.cache
def _from_dpframe(kind: Any) -> bool:
    """Whether a class is what a module of dpframe's own files defines."""
    if kind.__module__.partition(".")[0] != "dpframe":
        return False
    found: Any = sys.modules.get(kind.__module__)
    file = getattr(found, "__file__", None)
    if file is None or PACKAGE not in Path(file).parents:
        return False
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def code_of_package() -> str:
    """Digest of all of dpframe's files, read after what is run was imported from them.

    Raises:
        UnknownError: they may have changed meanwhile, or cannot be read.
    """
    if (found := _digest()) is None:
        raise UnknownError("dpframe's files are new, or cannot be read")
    return found


@functools.cache
def _digest() -> str | None:
    hasher = hashlib.blake2b(digest_size=16)
    try:
        for file in files():
            hasher.update(f"{os.path.relpath(file, PACKAGE)}\0".encode())
            hasher.update(hashlib.blake2b(Path(file).read_bytes()).digest())
    except OSError:
        return None
    return hasher.hexdigest() if settled() else None


@functools.cache
def files() -> list[str]:
    """All of dpframe's code."""
    return [str(file) for file in sorted(PACKAGE.rglob("*.py"))]


def settled() -> bool:
    """Whether no file of dpframe has changed since some time before this process imported it."""
    try:
        found = list(map(os.stat, files()))
    except OSError:
        return False
    return all(max(one.st_mtime, one.st_ctime) < BEGAN - SETTLED for one in found)


@functools.cache
def surroundings() -> str:
    """Versions, settings and machine."""
    if "dev" in jax.__version__ or "+" in jax.__version__:
        raise UnknownError("a version of JAX that is none")
    device = jax.devices()[0]
    versions = [__version__, sys.version, jax.__version__, version("jaxlib")]
    versions += [np.__version__, scipy.__version__, sysconfig.get_platform()]
    versions += [device.platform, device.device_kind, device.client.platform_version]
    environment = sorted(
        f"{k}={v}" for k, v in os.environ.items() if k.startswith(("XLA", "LIBTPU"))
    )
    return repr([versions, _processor(), environment])


def _processor() -> list[str]:
    """What code for this processor may use; the name of the machine where it does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return [*platform.uname()]
    told = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
    return [line for line in lines if line.startswith(told)]
