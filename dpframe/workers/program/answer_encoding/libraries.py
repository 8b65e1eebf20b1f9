"""Read values of NumPy, pandas, polars and other libraries, and objects of unknown classes.

Each function gets the `Reader` of the answer and returns the kind of what it read. Libraries are
recognised by the attributes of their objects, because none may be imported here.
"""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from struct import calcsize, pack
from typing import Any

from .codes import ABSENT_NUMBER, MOST_NUMBERS, NAN, PLACES, UnreadableError
from .codes import bytes_of, code, in_short, name_of, number_of, sized

_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes defined in Python, and some others

_BASES = (
    *((bool, "bool_"), (int, "int_"), (float, "float_"), (complex, "complex_")),
    *((str, "str_"), (bytes, "bytes_")),
)
"""Built-in classes that others extend, and the methods of a reader for them."""


def read_other(reader: Any, value: Any, kind: Any) -> str:
    """Read a value that is not a container of Python."""
    package, *bases = (str(one.__module__).partition(".")[0] for one in kind.__mro__)
    for library, read in _FRAMES.items():
        if library in (package, *bases) and (found := read(reader, value, kind)) is not None:
            own = shown(value)[0] if library != package else []  # a subclass of one of its classes
            own += [("attrs", value.attrs)] if getattr(value, "attrs", None) else []
            return f"{found} with {read_shown(reader, value, own)}" if own else str(found)
    if package == "pyarrow":
        return _read_arrow(reader, value)
    if package == "torch" and hasattr(value, "detach"):
        array, name = of_tensor(value)
        told = f"{package} {name} as" if name else package
        reader.part(b"J", sized(told.encode()))
        return told + " " + _read_numpy(reader, array)
    if hasattr(value, "tocoo") and hasattr(value, "shape"):
        whole, shape = value.tocoo(), tuple(map(int, value.shape))
        held = [("shape", shape), ("row", whole.row), ("col", whole.col), ("data", whole.data)]
        return read_pairs(reader, value, held)
    if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _read_numpy(reader, value)
    if package == "xarray" and hasattr(value, "to_dict"):  # coordinates, names and attributes too
        return read_pairs(reader, value, [("held", value.to_dict("array"))])
    if hasattr(value, "__array__") and not any(hasattr(value, a) for a in reader.attributes):
        return _read_array_like(reader, value, package)
    if isinstance(value, (Fraction, Decimal)):
        reader.part(b"R", sized(name_of(kind).encode()) + sized(str(value).encode()))
        none = isinstance(value, Decimal) and value.is_nan()
        reader.add(NAN if none else number_of(value))
        return name_of(kind)
    if isinstance(value, Enum):
        return read_fields(reader, value, ("name", "value"))
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return _read_moment(reader, value)
    for base, method in _BASES:
        if isinstance(value, base):
            reader.part(b"C", sized(name_of(kind).encode()))
            return name_of(kind) + ", " + str(getattr(reader, method)(value))
    return _read_object(reader, value)


def _read_pandas(reader: Any, value: Any, kind: Any) -> str | None:
    if kind.__name__ in ("NAType", "NaTType"):
        reader.part(b"N", sized(kind.__name__.encode()))
        reader.add(ABSENT_NUMBER)
        return "missing"
    if hasattr(value, "columns") and hasattr(value, "index"):
        columns = [value.iloc[:, place] for place in range(len(value.columns))]
        _read_name(reader, list(value.columns.names))
        return _read_frame(reader, value, list(value.columns), columns)
    if hasattr(value, "dtype") and hasattr(value, "to_numpy"):
        return _read_column(reader, value, name_of(kind))
    if hasattr(value, "left") and hasattr(value, "closed"):
        return read_fields(reader, value, ("left", "right", "closed"))
    if hasattr(value, "ordinal") and hasattr(value, "freqstr"):
        return read_fields(reader, value, ("ordinal", "freqstr"))
    return None


def _read_polars(reader: Any, value: Any, kind: Any) -> str | None:
    if hasattr(value, "get_columns"):
        return _read_frame(reader, value, list(value.columns), list(value.get_columns()))
    return _read_column(reader, value, name_of(kind)) if hasattr(value, "to_list") else None


_FRAMES = {"pandas": _read_pandas, "polars": _read_polars}


def read_fields(reader: Any, value: Any, names: Any) -> str:
    """Read an object by some of its attributes, in their order."""
    return read_pairs(reader, value, [(name, getattr(value, name)) for name in names])


def read_pairs(reader: Any, value: Any, pairs: list[tuple[str, Any]]) -> str:
    """Read an object as named values, in their order."""
    reader.part(b"O", sized(name_of(type(value)).encode()) + pack("<Q", len(pairs)))
    held = []
    for name, each in pairs:
        reader.part(sized(bytes_of(str(name))))
        held.append(f"{name}: {reader.read(each)}")
    return f"{name_of(type(value))} ({', '.join(held)})"


def read_shown(reader: Any, value: Any, pairs: list[tuple[str, Any]]) -> str:
    """Read an object by its public attributes; those that show nothing are read by class."""
    reader.objects += 1
    try:
        return read_pairs(reader, value, pairs)
    finally:
        reader.objects -= 1


def _read_object(reader: Any, value: Any) -> str:
    """Read the requested attributes of an object, else its public ones."""
    if reader.attributes and (known := [a for a in reader.attributes if hasattr(value, a)]):
        return read_fields(reader, value, known)
    if isinstance(value, BaseException) and not hasattr(type(value), "__dataclass_fields__"):
        return read_shown(reader, value, [("args", value.args)])
    held, hidden = shown(value)
    if held or not hidden:  # an object without attributes is its class
        return read_shown(reader, value, held)
    return read_hidden(reader, value)


def read_hidden(reader: Any, value: Any) -> str:
    """Read a part that may hide content by its class alone; refuse it as a whole answer."""
    if reader.objects:  # a part of an object that shows more
        reader.part(b"o", sized(name_of(type(value)).encode()))
        return name_of(type(value))
    instead = ", or return a list of its items" if hasattr(value, "__next__") else ""
    raise UnreadableError(
        f"it is an object of class {name_of(type(value))}, which has nothing to read: list "
        f"what to read in `attributes`{instead}"
    )


def shown(value: Any) -> tuple[list[tuple[str, Any]], bool]:
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


def _read_moment(reader: Any, value: Any) -> str:
    reader.part(b"W", sized(name_of(type(value)).encode()))
    fold = " again" if getattr(value, "fold", 0) else ""  # the second of two equal times
    reader.part(sized((str(value) + fold).encode()))
    if isinstance(value, datetime.timedelta):
        reader.add(value.total_seconds())
    else:
        days = value.toordinal() if hasattr(value, "toordinal") else 0
        hours, minutes, seconds = (getattr(value, x, 0) for x in ("hour", "minute", "second"))
        seconds += hours * 3600 + minutes * 60
        reader.add(days * 86400.0 + seconds + getattr(value, "microsecond", 0) / 1e6)
    return name_of(type(value))


def _read_arrow(reader: Any, value: Any) -> str:
    described = str(getattr(value, "schema", getattr(value, "type", "")))
    reader.part(b"Z", sized(name_of(type(value)).encode()) + sized(bytes_of(described)))
    if len(set(names := getattr(value, "column_names", ()))) < len(names):  # no dict holds them all
        return name_of(type(value)) + " of " + str(reader.read([c.to_pylist() for c in value]))
    for method in ("to_pydict", "to_pylist", "as_py"):
        if hasattr(value, method):
            return name_of(type(value)) + " of " + str(reader.read(getattr(value, method)()))
    return _read_object(reader, value)


# Arrays of NumPy and similar objects.


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


def _read_array_like(reader: Any, value: Any, package: str) -> str:
    """Read an object that gives an array, and its other content."""
    if is_masked(value):
        return name_of(type(value)) + ", " + _read_numpy(reader, value)
    array = value.__array__()
    held = shown(value)[0]
    if isinstance(value, type(array)):  # a subclass of ndarray adds only its `__dict__`
        held = sorted(getattr(value, "__dict__", {}).items())
    reader.part(b"J", sized(package.encode()))
    kind = name_of(type(value)) + " as " + _read_numpy(reader, array)
    return kind + " with " + read_shown(reader, value, held) if held else kind


def _read_masked(reader: Any, value: Any, dtype: Any, shape: tuple[int, ...]) -> str:
    """Read the mask of a masked array, and its entries that are not masked."""
    data = value.unmasked if hasattr(value, "unmasked") else value.data
    mask = value.mask.ravel().tolist() if value.mask.shape == shape else [False] * data.size
    reader.part(b"m", sized(bytes(mask)))
    fill = getattr(value, "_fill_value", None)  # the public name would set it
    fill = sys.modules["numpy"].ma.default_fill_value(data) if fill is None else fill
    reader.part(sized(str(fill).encode()))
    places = [place for place, masked in enumerate(mask, 1) if masked]
    kind = f"masked {dtype.name} array of shape {shape}, "
    kind += "masked at " + ", ".join(map(str, places)) if places else "nothing masked"
    if len(mask) > PLACES and places:
        kind = f"masked {dtype.name} array of shape {shape}, {len(places)} masked"
    if dtype.kind in "OT":
        shown = [None if masked else one for one, masked in zip(data.ravel().tolist(), mask)]
        return kind + ", " + str(reader.several("objects", shown))
    content, size = bytearray(content_of(data, dtype)), dtype.itemsize
    for place in places:
        content[(place - 1) * size : place * size] = bytes(size)
    reader.part(of_array(dtype, shape, scalar=False)[0], sized(bytes(content)))
    numbers, of_each = _numbers_of(data, dtype), 2 if dtype.kind == "c" else 1
    reader.add_all([ABSENT_NUMBER if mask[i // of_each] else x for i, x in enumerate(numbers)])
    return kind


def content_of(value: Any, dtype: Any) -> bytes:
    """Return the bytes of an array, least significant byte first, and padding as zeros."""
    order = dtype.str[:1]
    if order == ">" or (order == "=" and sys.byteorder != "little"):
        value = value.astype(dtype.newbyteorder("<"))
    content: bytes = value.tobytes()
    used, size = used_bytes(dtype)
    if used == size:
        return content
    whole = bytearray(content)
    for place in range(used, size):
        whole[place::size] = bytes(len(whole[place::size]))
    return bytes(whole)


def used_bytes(dtype: Any) -> tuple[int, int]:
    """Return the bytes of a number of a dtype that hold it, and those that it occupies.

    The long double of x86 has ten bytes; the rest of its 12 or 16 bytes is arbitrary.
    """
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.char not in "gG" or size <= 8 or sys.modules["numpy"].finfo(dtype).nmant != 63:
        return size, size
    return 10, size


def _read_numpy(reader: Any, value: Any) -> str:
    dtype, shape = value.dtype, tuple(map(int, value.shape))
    if is_masked(value) and not dtype.names:
        return _read_masked(reader, value, dtype, shape)
    if hasattr(value, "__setitem__") and type(value).__name__ in ("matrix", "recarray"):
        reader.part(b"j", sized(name_of(type(value)).encode()))
        return name_of(type(value)) + ", " + _read_numpy(reader, value.__array__())
    scalar = not hasattr(value, "__setitem__") and not shape
    before, kind = of_array(dtype, shape, scalar)
    if dtype.names:
        reader.part(b"H", sized(repr((dtype.str, shape)).encode()))
        held = []
        for name in dtype.names:
            reader.part(sized(name.encode()))
            held.append(f"{name}: {_read_numpy(reader, value[name])}")
        return f"{kind} with {', '.join(held)}"
    if dtype.kind in "OT":  # texts of any length are stored by reference, as objects are
        reader.part(b"Q", sized(repr(shape).encode()))
        return str(reader.several(kind, value.ravel().tolist()))
    reader.part(before, sized(content_of(value, dtype)))
    reader.add_all(_numbers_of(value, dtype))
    return kind


def of_array(dtype: Any, shape: tuple[int, ...], scalar: bool) -> tuple[bytes, str]:
    """Return the first bytes of the exact value of an array, and its kind without flags."""
    described = f"{dtype.kind}{dtype.itemsize} {dtype.name} {shape}"
    kind = f"{dtype.name} scalar" if scalar else f"{dtype.name} array of shape {shape}"
    return (b"a" if scalar else b"A") + sized(described.encode()), kind


def _numbers_of(value: Any, dtype: Any) -> list[float]:
    flat = value.ravel()[:MOST_NUMBERS]
    if dtype.kind in "biuf":
        return [number_of(x) for x in flat.astype("f8").tolist()]
    if dtype.kind == "c":
        return [part for x in flat.astype("c16").tolist() for part in (x.real, x.imag)]
    if dtype.kind in "mM":  # NaT is the smallest of all
        return [NAN if x == -(1 << 63) else float(x) for x in flat.astype("i8").tolist()]
    if dtype.kind == "V":
        try:  # bfloat16 and its like
            return [float(x) for x in flat.astype("f8").tolist()]
        except (TypeError, ValueError):
            return []
    return [float(code(x if isinstance(x, bytes) else bytes_of(x)) >> 32) for x in flat.tolist()]


# Data frames of pandas and polars, their columns and indices.


def _read_frame(reader: Any, value: Any, names: list[Any], columns: list[Any]) -> str:
    reader.part(b"P", sized(name_of(type(value)).encode()) + pack("<Q", len(columns)))
    held = []
    if hasattr(value, "index"):
        held.append("index: " + _read_index(reader, value.index))
    for name, column in zip(names, columns):
        _read_name(reader, name)
        held.append(f"{in_short(name) or 'column'}: {_read_column(reader, column, '')}")
    return f"{name_of(type(value))} ({'; '.join(held)})"


def _read_name(reader: Any, name: Any) -> None:
    mine = reader.aside()
    mine.read(name)
    reader.part(sized(b"".join(mine.parts)))


def _read_index(reader: Any, index: Any) -> str:
    _read_name(reader, list(getattr(index, "names", ())))
    if all(hasattr(index, name) for name in ("start", "stop", "step")):
        bounds = [int(index.start), int(index.stop), int(index.step)]
        reader.part(b"x", sized(repr(bounds).encode()))
        return f"{len(index)} rows"
    return _read_column(reader, index, "")


def _read_column(reader: Any, column: Any, title: str) -> str:
    """Read a column of a frame, or a series of its own if it has a title."""
    dtype = str(column.dtype)
    categories = getattr(column.dtype, "categories", None)
    reader.part(b"Y", sized(bytes_of(title + " " + dtype)))
    if categories is not None:  # all categories count, even those that no row has
        known = list(categories.to_list() if hasattr(categories, "to_list") else categories)
        mine = reader.aside()
        mine.several("", known)
        ordered = b"t" if getattr(column.dtype, "ordered", False) else b"u"
        reader.part(ordered, sized(b"".join(mine.parts)))
        reader.count = mine.count
        dtype += " of " + ", ".join(in_short(each) or "…" for each in known[:PLACES])
    if title:
        names = getattr(column, "names", None)
        _read_name(reader, getattr(column, "name", None) if names is None else list(names))
        if hasattr(column, "index"):
            _read_index(reader, column.index)
    if hasattr(column, "to_list"):
        values = column.to_list()
    elif hasattr(column, "isna") and column.isna().any():  # NumPy has no missing value
        values = list(column)
    else:
        values = column.to_numpy().tolist()
    before = title + " " if title else ""
    return before + dtype + ", " + str(reader.several(str(len(values)), values))
