"""What D and D′ hold, as a digest: other data are other draws, even under the same parameters.

Two values have the same digest where they hold the same, in every process: what order, type or bit
tells them apart counts (−0.0 and 0.0, 1 and 1.0, NaNs of other payloads), where they lie does not.
"""

from __future__ import annotations

import copyreg
import hashlib
import struct
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.common.text import error_message, shown
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.common.types import HostArray


def data_digest(data: tuple[Any, Any]) -> str:
    """Digest of D and D′ as a pair makes them, whatever the precision of the run.

    Arrays and pytrees of arrays are read as a whole; every other value part by part.

    Raises:
        CellError: they hold something that cannot be told from another of its kind.
    """
    hasher = hashlib.blake2b(digest_size=16)
    for one in data:
        arrays = _plain_arrays(one)
        if arrays is None:
            _Reader(hasher.update).read(one)
            continue
        leaves, structure = arrays
        hasher.update(str(structure).encode())
        for array in leaves:
            hasher.update(f"{array.dtype}{array.shape}".encode())
            hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _plain_arrays(data: Any) -> tuple[list[HostArray], Any] | None:
    """The leaves and the structure of a pytree of arrays; None if it is not one."""
    try:
        leaves, structure = jax.tree.flatten(data)
    except Exception:  # keys that have no order, lists that hold themselves
        return None
    if not leaves or not all(_is_plain(leaf) for leaf in leaves):
        return None
    return [np.asarray(leaf) for leaf in leaves], structure


def _is_plain(leaf: Any) -> bool:
    if type(leaf) is np.ndarray or isinstance(leaf, np.generic):
        return _is_bytes(leaf.dtype)
    return isinstance(leaf, jax.Array) and isinstance(leaf.dtype, np.dtype)  # else it is a key


def _is_bytes(dtype: np.dtype[Any]) -> bool:
    """Whether the bytes of a number say all about it: no references, no padding."""
    return dtype.kind in "biufcSUmM" or (dtype.kind == "V" and dtype.names is None)


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
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


class _Reader:
    """Reads a value part by part; what it tells is the same for equal contents only.

    Args:
        tell: takes bytes in.
    """

    def __init__(self, tell: Callable[[bytes], object]) -> None:
        self._tell = tell
        self._open: dict[int, int] = {}
        """Values that are being read, by identity, and how deep they lie: some hold themselves."""

    def read(self, value: Any) -> None:
        """Reads one value."""
        kind = type(value)
        if kind in _SINGLE:
            self._say(kind.__name__, _SINGLE[kind](value))
        elif isinstance(value, _NAMED):
            self._say("name", _importable(value).encode())
        elif id(value) in self._open:
            self._say("itself", str(self._open[id(value)]).encode())
        else:
            self._open[id(value)] = len(self._open)
            self._read_parts(value, kind)
            del self._open[id(value)]

    def _read_parts(self, value: Any, kind: type) -> None:
        if kind in (tuple, list):
            self._all(kind.__name__, value)
        elif kind is dict:
            self._all("dict", [part for item in value.items() for part in item])
        elif kind in (set, frozenset):
            self._all(kind.__name__, sorted(map(_alone, value)))  # they have no order of their own
        elif kind is np.ndarray:
            self._array("array", value)
        elif isinstance(value, np.generic):
            self._array("scalar", np.asarray(value))
        elif isinstance(value, jax.Array) and _is_plain(value):
            self._array("array", np.asarray(value))
        else:
            self._all("object", _reduced(value))

    def _array(self, name: str, value: HostArray) -> None:
        self._say(name, f"{value.dtype}{value.shape}".encode())
        if _is_bytes(value.dtype):
            self._say("bytes", np.ascontiguousarray(value).tobytes())
        elif value.dtype.names is not None:
            for field in value.dtype.names:  # between fields may lie anything
                self._array(field, value[field])
        else:
            self._all("elements", value.reshape(-1).tolist())

    def _all(self, name: str, parts: Iterable[Any]) -> None:
        listed = list(parts)
        self._say(name, str(len(listed)).encode())
        for part in listed:
            self.read(part)

    def _say(self, name: str, content: bytes) -> None:
        self._tell(f"{len(name)} {name} {len(content)} ".encode())
        self._tell(content)


def _alone(value: Any) -> bytes:
    hasher = hashlib.blake2b(digest_size=16)
    _Reader(hasher.update).read(value)
    return hasher.digest()


def _importable(value: Any) -> str:
    """Where a class or a function is found: its code is no data."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    found: Any = sys.modules.get(str(module))
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise _unknown(value, "it is not found under its name")
    return f"{module}:{name}"


def _reduced(value: Any) -> list[Any]:
    """What an object would be made of again, in the way in which Python copies and pickles it."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        parts: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(parts, str):
            return [type(value).__module__, parts]
        made, arguments, *rest = parts
        return [made, arguments, *(_listed(part) for part in rest)]
    except Exception as error:  # whatever its author raises
        raise _unknown(value, error_message(error)) from error


def _listed(part: Any) -> Any:
    return list(part) if hasattr(part, "__next__") else part


def _unknown(value: Any, why: str) -> CellError:
    return CellError(
        f"D or D′ holds {shown(value)}, of which it cannot be said whether it is the same each "
        f"time: {why}; data are numbers, texts, arrays and what is made of them"
    )
