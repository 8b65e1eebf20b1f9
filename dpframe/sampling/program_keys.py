"""Keys of compiled programs: a digest of everything that tracing depends on.

A key is computed without tracing, so a program that was compiled before is found without a trace.
A wrong program would give wrong counts. So a program has a key only if everything that it reaches
is known to be covered; a program with a class from outside dpframe has none, and is traced.
"""

import dataclasses
import functools
import hashlib
import os
import platform
import sys
import sysconfig
import time
import types
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import dpframe
from dpframe import __version__
from dpframe.common.arrays import jax
from dpframe.interfaces.plugin import Plugin
from dpframe.sampling import content, threefry

PACKAGE = Path(dpframe.__file__).parent

OUTSIDE = ("__main__", "cli", "commands", "pytest", "report", "templates", "testing")
"""Parts of dpframe that no other part imports, so that traced programs cannot reach them. Keys do
not cover their files; a program that reaches them nevertheless has no key."""

SETTLED = 10.0
"""Seconds before the start of this process in which no file may have changed, so that the process
has certainly imported the present files."""

BEGAN = time.time()

_LIBRARIES = {"jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "opt_einsum", "pydantic"}
"""Their code is not read; a program with code of any other library has no key."""

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...), range)

_GENERATOR = [value for value in vars(threefry).values() if callable(value)]
"""JAX reaches it through the type of the keys."""


class UnknownError(Exception):
    """A program depends on something that a key would not cover."""


def program_key(
    function: Callable[..., Any],
    context: tuple[str, ...],
    args: tuple[Any, ...],
    static: dict[str, Any],
) -> str:
    """Return the key of a program.

    Args:
        function: what is traced.
        context: settings under which it is traced.
        args: arrays, and trees of them.
        static: keyword arguments whose values the program is made for.

    Raises:
        UnknownError: there is none.
    """
    parts = [surroundings(), code_of_package(), *context]
    parts += [*_argument(args, static=False), *_argument(static, static=True)]
    for root in _roots(function, args, static):
        parts += _reached_once(root)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def unchanged(function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any]) -> bool:
    """True if all code of a program is still the code from which its key was made.

    Code is read once for the key. A program that was traced from code replaced since must not be
    kept under that key.
    """
    roots = _roots(function, args, static)
    return set(reached(*roots)) == {part for root in roots for part in _reached_once(root)}


def forget() -> None:
    """Read all code in memory again from now on, because some may have been replaced."""
    _reached_once.cache_clear()


def _roots(
    function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any]
) -> list[Any]:
    return list(dict.fromkeys((function, *classes_in(args), *classes_in(static), *_GENERATOR)))


def classes_in(value: Any) -> list[Any]:
    """Return the classes of dpframe in a value, whose methods a program may call."""
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
    """Describe a value in full; of traced arrays only type and shape."""
    kind: Any = type(value)
    if kind in _PLAIN:
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
    """True if the array has one of JAX's weak types."""
    return bool(getattr(array, "weak_type", False))


def _name(kind: Any) -> str:
    if kind not in (tuple, list, dict) and not _from_dpframe(kind):
        raise UnknownError(f"{kind} is not dpframe's own")
    return f"{kind.__module__}.{kind.__qualname__}"


@functools.cache
def _from_dpframe(kind: Any) -> bool:
    """True for a class that a module of dpframe's own files defines."""
    if kind.__module__.partition(".")[0] != "dpframe":
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and PACKAGE in Path(file).parents and content.is_found_by_name(kind)


# The code that a function or a class reaches, as it is in memory now: files do not show if a
# function or a constant has been replaced.


def reached(*roots: Any) -> list[str]:
    """Describe all functions, classes and constants that some functions and classes name.

    Args:
        roots: functions and classes.

    Raises:
        UnknownError: some code is neither of a known library nor of dpframe's covered files.
    """
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any, set[str]]] = [("", root, set()) for root in roots]
    while waiting:
        place, value, names = waiting.pop()
        value = _unwrapped(value)
        if isinstance(value, types.ModuleType):  # the names show which parts of it are used
            if value.__name__.partition(".")[0] == "dpframe":
                _check_covered(value.__name__)
                inside = vars(value)
                waiting += [
                    (f"{value.__name__}.{name}", inside[name], names)
                    for name in names & inside.keys()
                ]
        elif isinstance(value, tuple | list):
            waiting += [(f"{place}.{number}", one, names) for number, one in enumerate(value)]
        elif type(value) in _PLAIN:
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
            _check_covered(type(value).__module__)
            found[f"{place} is {type(value).__qualname__}"] = None
    return sorted(found)


_reached_once = functools.cache(reached)


def _inside(value: Any, found: dict[str, None]) -> Iterator[tuple[str, Any, set[str]]]:
    """Yield the objects that a function or a class uses; add a function's code to `found`."""
    if not _is_ours(value.__module__):
        return
    place = f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, type):
        yield f"{place}.__bases__", value.__bases__, set()
        for name, one in vars(value).items():
            if not name.startswith(("__pydantic", "__doc__", "_abc_")):
                yield f"{place}.{name}", one, set()
        return
    text, used = content.code_text(value.__code__)
    found[f"{place} does {text}"] = None
    for name in used:  # including modules that the function imports
        _check_covered(name)
    for name, one in _used(value, used):
        yield f"{place}.{name}", one, used


def _is_ours(module: str | None) -> bool:
    """True if the code of a module is read for a key, False for known libraries."""
    top = (module or "").partition(".")[0]
    if top == "dpframe":
        _check_covered(module)
        return True
    if top in _LIBRARIES or top in sys.stdlib_module_names or top.startswith("namedtuple_"):
        return False
    raise UnknownError(f"code of {module}")


def _check_covered(module: str | None) -> None:
    """Raise UnknownError for a module of dpframe whose file is not covered by keys."""
    top, *below = (module or "").split(".")
    if top == "dpframe" and below and below[0] in OUTSIDE:
        raise UnknownError(f"code of {module}")


def _unwrapped(value: Any) -> Any:
    """Return the function inside a method, a property, a partial or a jitted function."""
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


def _used(function: types.FunctionType, names: set[str]) -> Iterator[tuple[str, Any]]:
    for name in names & function.__globals__.keys():
        yield name, function.__globals__[name]
    yield "defaults", function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is empty
            continue


# Files and surroundings.


def code_of_package() -> str:
    """Return the digest of dpframe's covered files, read after they were imported.

    Raises UnknownError if they may have changed meanwhile, or cannot be read.
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
    """Return the files of dpframe that a traced program can reach."""
    parts = [part for part in PACKAGE.iterdir() if part.stem not in OUTSIDE]
    found = [file for part in parts for file in ([part] if part.is_file() else part.rglob("*.py"))]
    return [str(file) for file in sorted(found) if file.suffix == ".py"]


def settled() -> bool:
    """True if no covered file has changed since shortly before this process imported it."""
    try:
        found = list(map(os.stat, files()))
    except OSError:
        return False
    return all(max(one.st_mtime, one.st_ctime) < BEGAN - SETTLED for one in found)


@functools.cache
def surroundings() -> str:
    """Describe versions, settings and this machine."""
    if "dev" in jax.__version__ or "+" in jax.__version__:
        raise UnknownError("an unreleased version of JAX")
    device = jax.devices()[0]
    versions = [__version__, sys.version, jax.__version__, version("jaxlib")]
    versions += [np.__version__, scipy.__version__, sysconfig.get_platform()]
    versions += [version(name) for name in ("ml_dtypes", "opt_einsum", "pydantic")]
    versions += [device.platform, device.device_kind, device.client.platform_version]
    environment = sorted(
        f"{k}={v}" for k, v in os.environ.items() if k.startswith(("XLA", "LIBTPU"))
    )
    return repr([versions, _processor(), environment])


def _processor() -> list[str]:
    """Describe the features of this processor; if unknown, the machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return [*platform.uname()]
    told = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
    return [line for line in lines if line.startswith(told)]
