"""All code that a function or a class reaches, as it is in memory now.

Files do not say what somebody has put in place of a function or of a constant.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

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
