"""Digests of Python values, equal for equal contents only, and of the code of classes."""

import copyreg
import enum
import functools
import hashlib
import inspect
import os
import struct
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import is_jax_array
from dpframe.common.text import PARSING, error_message, shown
from dpframe.common.types import HostArray
from dpframe.errors import CellError
from dpframe.interfaces.pair import Pair
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.interfaces.plugin_files import CODE


def made_by(pair: Pair) -> tuple[tuple[Any, Any], str]:
    """Make D and D′ of a pair once, and return them with their digest; raises CellError."""
    datasets = call_plugin("the pair", lambda: (pair.d0, pair.d1))
    return datasets, call_plugin("the pair", data_digest, datasets)


def data_digest(data: tuple[Any, Any]) -> str:
    """Return the digest of D and D′ as a pair makes them; the run's precision does not matter.

    Arrays and pytrees of arrays are read as a whole, other values part by part.

    Raises:
        CellError: a value has no canonical content.
    """
    hasher = hashlib.blake2b(digest_size=16)
    for one in data:
        try:
            leaves, structure = trees.flatten(one)
        except Exception:  # keys without an order, lists that contain themselves
            leaves, structure = [], None
        if not leaves or not all(map(_is_plain, leaves)):
            ValueReader(hasher.update).read(one)
            continue
        hasher.update(str(structure).encode())
        for array in map(np.asarray, leaves):
            hasher.update(f"{array.dtype}{array.shape}".encode())
            hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _is_plain(leaf: Any) -> bool:
    if type(leaf) is np.ndarray or isinstance(leaf, np.generic):
        return _is_bytes(leaf.dtype)
    return is_jax_array(leaf) and isinstance(leaf.dtype, np.dtype)  # else it is a key


def _is_bytes(dtype: np.dtype[Any]) -> bool:
    """True if the bytes of a dtype's values hold no references and no padding."""
    return (dtype.char not in "gG" and dtype.kind in "biufcSUmM") or (
        dtype.kind == "V" and dtype.names is None
    )


_SINGLE: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: b"1" if value else b"0",
    int: lambda value: value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True),
    float: lambda value: struct.pack(">d", value),
    complex: lambda value: struct.pack(">dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    bytearray: bytes,
    type(None): lambda value: b"",
    type(Ellipsis): lambda value: b"",
}


class ValueReader:
    """Reads a value part by part, and passes its bytes to `tell`."""

    def __init__(self, tell: Callable[[bytes], object]) -> None:
        self.tell = tell
        self._open: dict[int, int] = {}
        """Depths of the values being read, by identity, because a value may contain itself."""

    def read(self, value: Any) -> None:
        """Read one value."""
        kind = type(value)
        if kind in _SINGLE:
            self.add(kind.__name__, _SINGLE[kind](value))
        elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            if not is_found_by_name(value):  # its content is its name, because code is not data
                raise _unknown(value, "it cannot be imported by its name")
            self.add("name", f"{value.__module__}:{value.__qualname__}".encode())
        elif id(value) in self._open:
            self.add("itself", str(self._open[id(value)]).encode())
        else:
            self._open[id(value)] = len(self._open)
            self._read_parts(value, kind)
            del self._open[id(value)]

    def parts_of(self, value: Any) -> list[Any]:
        """Return the parts from which Python copies an object, as pickle does."""
        if isinstance(value, enum.Enum):  # versions of Python copy its members in different ways
            return [type(value), (value._value_,)]
        # Libraries register ways to pickle exceptions with their tracebacks (tblib, for Dask): the
        # digest must not depend on what else is imported.
        has_reducer_table = not isinstance(value, BaseException)
        reduce = copyreg.dispatch_table.get(type(value)) if has_reducer_table else None
        try:
            parts: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
            if isinstance(parts, str):
                return [type(value).__module__, parts]
            made, arguments, *rest = parts
            return [made, arguments, *(list(x) if hasattr(x, "__next__") else x for x in rest)]
        except Exception as error:  # plugin code may raise anything
            raise _unknown(value, error_message(error)) from error

    def add(self, name: str, content: bytes) -> None:
        """Tell a name and some bytes."""
        self.tell(f"{len(name)} {name} {len(content)} ".encode())
        self.tell(content)

    def _read_parts(self, value: Any, kind: type) -> None:
        if kind in (tuple, list):
            self._all(kind.__name__, value)
        elif kind is dict:
            self._all("dict", [part for item in value.items() for part in item])
        elif kind in (set, frozenset):  # they have no order of their own
            self._all(kind.__name__, sorted(map(self._digest_alone, value)))
        elif kind is np.ndarray:
            self._array("array", value)
        elif isinstance(value, np.generic):
            self._array("scalar", np.asarray(value))
        elif is_jax_array(value) and _is_plain(value):
            self._array("array", np.asarray(value))
        else:
            self._all("object", self.parts_of(value))

    def _array(self, name: str, value: HostArray) -> None:
        self.add(name, f"{value.dtype}{value.shape}".encode())
        if _is_bytes(value.dtype):
            self.add("bytes", np.ascontiguousarray(value).tobytes())
        elif value.dtype.char in "gG":
            self._all("elements", map(repr, value.reshape(-1)))
        elif value.dtype.names is not None:
            for field in value.dtype.names:  # the padding between fields is arbitrary
                self._array(field, value[field])
        else:
            self._all("elements", value.reshape(-1).tolist())

    def _all(self, name: str, parts: Iterable[Any]) -> None:
        listed = list(parts)
        self.add(name, str(len(listed)).encode())
        for part in listed:
            self.read(part)

    def _digest_alone(self, value: Any) -> bytes:
        hasher = hashlib.blake2b(digest_size=16)
        type(self)(hasher.update).read(value)
        return hasher.digest()


def _unknown(value: Any, reason: str) -> CellError:
    return CellError(
        f"D or D′ contains {shown(value)}, which may not be the same each time: {reason}; data "
        "are numbers, texts, arrays and combinations of these"
    )


# Code.


def is_found_by_name(value: Any) -> bool:
    """True if an imported module holds a class or function by its name."""
    named: Any = sys.modules.get(str(getattr(value, "__module__", None)))
    for part in getattr(value, "__qualname__", "").split("."):
        named = getattr(named, part, None)
    return named is value


def code_text(block: types.CodeType) -> tuple[str, set[str]]:
    """Return a text of everything that a code object does, and the names that it looks up.

    Code inside it, such as comprehensions and inner functions, is included.
    """
    used = set(block.co_names)
    parts = [block.co_code.hex(), repr((block.co_names, block.co_varnames, block.co_freevars))]
    for value in block.co_consts:
        if isinstance(value, types.CodeType):
            text, inner = code_text(value)
            parts.append(text)
            used |= inner
        elif isinstance(value, frozenset):
            parts.append(repr(sorted(map(repr, value))))
        else:
            parts.append(repr(value))
    return " ".join(parts), used


def code_digest(cls: type) -> str:
    """Return a digest of the Python files of the packages that define a class and its bases.

    For a class in a single module that module is read, for a class in a notebook its own source.
    Other imports of a plugin, and bases in dpframe, are left out.

    Returns:
        Hex digits; if there is no source, they differ between processes.
    """
    standard = {"dpframe", *sys.stdlib_module_names} - {"__main__"}
    bases = [base for base in cls.__mro__[1:] if base.__module__.partition(".")[0] not in standard]
    parts = dict.fromkeys(_code_of(one) for one in (cls, *bases))
    return _hash(*(part.encode() for part in parts)) if len(parts) > 1 else next(iter(parts))


def _code_of(cls: type) -> str:
    top = sys.modules.get(cls.__module__.partition(".")[0])
    if loaded_digest := getattr(top, CODE, None):
        return str(loaded_digest)  # as it was when it was loaded
    try:
        if top is None or cls.__module__ == "__main__":
            with PARSING:
                return _hash(inspect.getsource(cls).encode())
        folders = getattr(top, "__path__", None)
        return _digest_of(tuple(dict.fromkeys(folders or (inspect.getfile(cls),))))
    except (OSError, TypeError):
        return UNKNOWN_CODE


UNKNOWN_CODE = os.urandom(8).hex()


@functools.cache
def _digest_of(places: tuple[str, ...]) -> str:
    files = [
        file
        for place in map(Path, places)
        for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    ]
    return _hash(*(part for file in files for part in (file.name.encode(), file.read_bytes())))


def _hash(*parts: bytes) -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()
