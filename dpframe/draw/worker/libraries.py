"""Values of libraries as titles and named parts, which are plain values again.

Libraries are recognised by the attributes of their objects, because none may be imported here. To
read the values of another library, add a function to `_READERS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from struct import calcsize
from typing import Any, NamedTuple

from .codes import UnreadableError, name_of

_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes defined in Python, and some others


class Parts(NamedTuple):
    """A value as parts with their names, in their order; a part without a name is all of it."""

    title: str
    pairs: list[tuple[Any, Any]]


def parts_of(value: Any) -> Parts | None:
    """Return the parts of a value of a known library; None for any other value."""
    kind = type(value)
    package, *bases = (str(one.__module__).partition(".")[0] for one in kind.__mro__)
    for library, read in _READERS.items():
        if library in (package, *bases) and (parts := read(value, kind)) is not None:
            more = [("attrs", value.attrs)] if getattr(value, "attrs", None) else []
            if library != package:  # a subclass of one of its classes
                more += public_parts(value)[0]
            return Parts(name_of(kind), [("", parts), *more]) if more else parts
    if hasattr(value, "tocoo") and hasattr(value, "shape"):  # a sparse matrix
        whole, shape = value.tocoo(), tuple(map(int, value.shape))
        named_parts = [
            ("shape", shape),
            ("row", whole.row),
            ("col", whole.col),
            ("data", whole.data),
        ]
        return Parts(name_of(kind), named_parts)
    return None


def _of_pandas(value: Any, kind: Any) -> Parts | None:
    if kind.__name__ in ("NAType", "NaTType"):
        return Parts("missing " + kind.__name__, [("", None)])
    if hasattr(value, "columns") and hasattr(value, "index"):
        columns = [_values(value.iloc[:, place]) for place in range(len(value.columns))]
        more = [("index", _index(value.index)), ("names", list(value.columns.names))]
        return Parts(name_of(kind), [*zip(value.columns, columns), *more])
    if hasattr(value, "dtype") and hasattr(value, "to_numpy"):
        pairs = [("values", _values(value))]
        if hasattr(value, "index"):
            pairs += [("name", value.name), ("index", _index(value.index))]
        elif hasattr(value, "names"):
            pairs.append(("names", list(value.names)))
        return Parts(name_of(kind), pairs)
    for names in (("left", "right", "closed"), ("ordinal", "freqstr")):  # intervals, periods
        if all(hasattr(value, name) for name in names):
            return Parts(name_of(kind), [(name, getattr(value, name)) for name in names])
    return None


def _of_polars(value: Any, kind: Any) -> Parts | None:
    if hasattr(value, "get_columns"):
        columns = [(column.name, _values(column)) for column in value.get_columns()]
        return Parts(name_of(kind), columns)
    if hasattr(value, "to_list"):
        return Parts(name_of(kind), [("values", _values(value)), ("name", value.name)])
    return None


def _index(index: Any) -> Any:
    if all(hasattr(index, name) for name in ("start", "stop", "step")):
        rows = range(int(index.start), int(index.stop), int(index.step))
        return rows if index.name is None else Parts("", [("", rows), ("name", index.name)])
    return Parts("", [("", _values(index)), ("names", list(index.names))])


def _values(column: Any) -> Any:
    """Return the values of a column: an array of numbers, or a list."""
    dtype = column.dtype
    if getattr(dtype, "kind", "O") in "biufc" and type(dtype).__module__.startswith("numpy"):
        return column.to_numpy()
    pairs: list[tuple[Any, Any]]
    pairs = [("", column.to_list() if hasattr(column, "to_list") else list(column))]
    categories = getattr(dtype, "categories", None)
    if categories is not None:  # all categories count, even those that no row has
        names = list(categories.to_list() if hasattr(categories, "to_list") else categories)
        pairs += [
            ("categories", names),
            ("ordered", bool(getattr(dtype, "ordered", False))),
        ]
    return Parts(str(dtype), pairs)


def _of_arrow(value: Any, kind: Any) -> Parts | None:
    title = f"{name_of(kind)} {getattr(value, 'schema', getattr(value, 'type', ''))}"
    if hasattr(value, "column_names"):
        columns = [column.to_pylist() for column in value.columns]
        return Parts(" ".join(title.split()), [*zip(value.column_names, columns)])
    for method in ("to_pylist", "as_py"):
        if hasattr(value, method):
            return Parts(title, [("", getattr(value, method)())])
    return None


def _of_torch(value: Any, kind: Any) -> Parts | None:
    if not hasattr(value, "detach"):
        return None
    array, name = of_tensor(value)
    return Parts(f"torch {name}".strip(), [("", array)])


def _of_xarray(value: Any, kind: Any) -> Parts | None:
    content = value.to_dict("array") if hasattr(value, "to_dict") else None
    return None if content is None else Parts(name_of(kind), [("", content)])


def _of_numpy(value: Any, kind: Any) -> Parts | None:
    if is_masked(value):
        return Parts(f"masked {value.dtype.name}", [("", value.tolist())])
    if kind.__name__ in ("matrix", "recarray"):
        return Parts(kind.__name__, [("", value.__array__())])
    return None


_READERS: dict[str, Callable[[Any, Any], Parts | None]] = {
    "pandas": _of_pandas,
    "polars": _of_polars,
    "pyarrow": _of_arrow,
    "torch": _of_torch,
    "xarray": _of_xarray,
    "numpy": _of_numpy,
}


def of_tensor(value: Any) -> tuple[Any, str]:
    """Return the array of a tensor of PyTorch, and its type if NumPy has it only in a wider one."""
    name = str(value.dtype).partition(".")[2]
    layout = str(value.layout).partition(".")[2]
    if layout != "strided" or value.is_nested or value.is_quantized or value.is_meta:
        raise UnreadableError(
            f"it is not a plain tensor, but has type {name} and layout {layout}: return "
            "`to_dense()`, `dequantize()` or a list of its parts"
        )
    whole = value.detach().cpu().resolve_conj().resolve_neg()
    if name == "complex32":
        return whole.cfloat().numpy(), name
    if name == "bfloat16" or name.startswith("float8"):  # a float32 holds each of their numbers
        return whole.float().numpy(), name
    return whole.numpy(), ""


def is_masked(value: Any) -> bool:
    """True for arrays of `numpy.ma`, which may have masked entries."""
    return hasattr(value, "dtype") and hasattr(value, "mask") and hasattr(value, "filled")


def of_array_like(value: Any) -> Parts:
    """Return the array that an object gives, and its other content."""
    array, name = value.__array__(), name_of(type(value))
    other_content = public_parts(value)[0]
    if isinstance(value, type(array)):  # a subclass of ndarray adds only its `__dict__`
        other_content = sorted(getattr(value, "__dict__", {}).items())
    return Parts(name, [("", array), *other_content])


def public_parts(value: Any) -> tuple[list[tuple[str, Any]], bool]:
    """Return the public attributes of an object, and True if it may hold anything else."""
    kind, slots = type(value), []
    for base in kind.__mro__:
        own = base.__dict__.get("__slots__", ())
        slots += [own] if isinstance(own, str) else list(own)
    slots = [name for name in slots if name not in ("__dict__", "__weakref__")]
    # An object of a class defined in Python has room only for these references.
    references = len(slots) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    plain = kind.__basicsize__ <= object.__basicsize__ + references * calcsize("P")
    hidden = not (plain and all(base.__flags__ & _IN_PYTHON for base in kind.__mro__[:-1]))
    names = getattr(kind, "__dataclass_fields__", None)
    if names is None:
        names = [*getattr(value, "__dict__", ()), *slots]
        hidden = hidden or any(name.startswith("_") for name in names)
        names = sorted(name for name in names if not name.startswith("_"))
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)], hidden


# Bytes of arrays of NumPy.


def exact(value: Any) -> Any:
    """Return an array whose equal numbers have equal bytes.

    The least significant byte is first, and bytes that hold no part of a number are zero: the long
    double of x86 has ten bytes, and the rest of its 12 or 16 is arbitrary.
    """
    dtype = value.dtype
    if dtype.byteorder == ">" or (dtype.byteorder == "=" and sys.byteorder != "little"):
        value = value.astype(dtype.newbyteorder("<"))
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.char not in "gG" or size <= 8 or sys.modules["numpy"].finfo(dtype).nmant != 63:
        return value
    whole = bytearray(value.tobytes())
    for place in range(10, size):
        whole[place::size] = bytes(len(whole[place::size]))
    return sys.modules["numpy"].frombuffer(whole, dtype).reshape(value.shape)
