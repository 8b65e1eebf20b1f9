"""What belongs to libraries, and objects of unknown classes. `reader` reads the answer."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from dpframe.workers.program.answer_encoding.arrays import read_numpy
from dpframe.workers.program.answer_encoding.content import (
    ABSENT_NUMBER,
    NAN,
    UnreadableError,
    bytes_of,
    number_of,
    sized,
)
from dpframe.workers.program.answer_encoding.frames import read_column, read_frame
from dpframe.workers.program.answer_encoding.kinds import name_of

IN_PYTHON = 1 << 9
"""The flag of classes that Python code defines; others may hold what no attribute shows."""


BASES = (
    (bool, "bool_"),
    (int, "int_"),
    (float, "float_"),
    (complex, "complex_"),
    (str, "str_"),
    (bytes, "bytes_"),
)
"""Classes of Python's own that others extend, and how a reader reads them."""


def read_named_tuple(reader: Any, value: Any) -> str:
    """By its fields."""
    return read_fields(
        reader, value, [(name, getattr(value, name)) for name in type(value)._fields]
    )


def read_fields(reader: Any, value: Any, pairs: list[tuple[str, Any]]) -> str:
    """An object by its fields, in their order."""
    reader.part(b"O", sized(name_of(type(value)).encode()) + struct.pack("<Q", len(pairs)))
    held = []
    for name, each in pairs:
        reader.part(sized(str(name).encode("utf-8", "surrogatepass")))
        held.append(f"{name}: {reader.read(each)}")
    return f"{name_of(type(value))} ({', '.join(held)})"


def read_foreign(reader: Any, value: Any, kind: Any, package: str) -> str:
    """What belongs to a library, or is an object; `package` is where its class is from."""
    if package == "pandas" and kind.__name__ in ("NAType", "NaTType"):
        reader.part(b"N", sized(kind.__name__.encode()))
        reader.add(ABSENT_NUMBER)
        return "missing"
    if package == "pandas" and hasattr(value, "columns") and hasattr(value, "index"):
        columns = [value.iloc[:, place] for place in range(len(value.columns))]
        return read_frame(reader, value, list(value.columns), columns)
    if package == "pandas" and hasattr(value, "dtype") and hasattr(value, "to_numpy"):
        return read_column(reader, value, name_of(kind))
    if package == "pandas" and hasattr(value, "left") and hasattr(value, "closed"):
        parts = ("left", "right", "closed")
        return read_fields(reader, value, [(part, getattr(value, part)) for part in parts])
    if package == "pyarrow":
        return read_arrow(reader, value)
    if package == "polars" and hasattr(value, "get_columns"):
        return read_frame(reader, value, list(value.columns), list(value.get_columns()))
    if package == "polars" and hasattr(value, "to_list"):
        return read_column(reader, value, name_of(kind))
    if package == "torch" and hasattr(value, "detach"):
        reader.part(b"J", sized(package.encode()))
        return package + " " + read_numpy(reader, value.detach().cpu().numpy())
    if hasattr(value, "tocoo") and hasattr(value, "shape"):
        whole = value.tocoo()
        held = [("shape", tuple(map(int, value.shape))), ("row", whole.row)]
        return read_fields(reader, value, [*held, ("col", whole.col), ("data", whole.data)])
    if package == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return read_numpy(reader, value)
    if hasattr(value, "__array__") and not any(hasattr(value, a) for a in reader.attributes):
        reader.part(b"J", sized(package.encode()))
        return name_of(kind) + " as " + read_numpy(reader, value.__array__())
    if isinstance(value, (Fraction, Decimal)):
        return read_ratio(reader, value)
    if isinstance(value, Enum):
        return read_fields(reader, value, [("name", value.name), ("value", value.value)])
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return read_moment(reader, value)
    for base, method in BASES:
        if isinstance(value, base):
            reader.part(b"C", sized(name_of(kind).encode()))
            return name_of(kind) + ", " + str(getattr(reader, method)(value))
    return read_object(reader, value)


def read_arrow(reader: Any, value: Any) -> str:
    """What pyarrow has, as Python's own values."""
    described = str(getattr(value, "schema", getattr(value, "type", "")))
    reader.part(b"Z", sized(name_of(type(value)).encode()) + sized(bytes_of(described)))
    for method in ("to_pydict", "to_pylist", "as_py"):
        if hasattr(value, method):
            return name_of(type(value)) + " of " + str(reader.read(getattr(value, method)()))
    return read_object(reader, value)


def read_object(reader: Any, value: Any) -> str:
    """By the attributes that are asked for, else by what it shows in public."""
    if reader.attributes and (known := [a for a in reader.attributes if hasattr(value, a)]):
        return read_fields(reader, value, [(name, getattr(value, name)) for name in known])
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is None and isinstance(value, BaseException):
        return read_fields(reader, value, [("args", value.args)])
    hidden = False
    if names is None:
        names = list(getattr(value, "__dict__", ()))
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            names += [slots] if isinstance(slots, str) else list(slots)
        hidden = any(n.startswith("_") and n not in ("__dict__", "__weakref__") for n in names)
        names = sorted(name for name in names if not name.startswith("_"))
    held = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    plain = all(base.__flags__ & IN_PYTHON for base in type(value).__mro__[:-1])
    if held or (plain and not hidden):  # a class without anything in it says what it is
        return read_fields(reader, value, held)
    if len(reader.open) > 1:  # something inside of an object that tells more
        reader.part(b"o", sized(name_of(type(value)).encode()))
        return name_of(type(value))
    raise UnreadableError(
        f"it is an object of class {name_of(type(value))}, which shows nothing: say in "
        "`attributes` what is read of it"
    )


def read_ratio(reader: Any, value: Any) -> str:
    """A fraction or a decimal number."""
    reader.part(b"R", sized(name_of(type(value)).encode()) + sized(str(value).encode()))
    none = isinstance(value, Decimal) and value.is_nan()
    reader.add(NAN if none else number_of(value))
    return name_of(type(value))


def read_moment(reader: Any, value: Any) -> str:
    """A date, a time or a span of it."""
    reader.part(b"W", sized(name_of(type(value)).encode()))
    reader.part(sized(str(value).encode()))
    if isinstance(value, datetime.timedelta):
        reader.add(value.total_seconds())
    else:
        days = value.toordinal() if hasattr(value, "toordinal") else 0
        parts = [getattr(value, part, 0) for part in ("hour", "minute", "second")]
        seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
        reader.add(days * 86400.0 + seconds + getattr(value, "microsecond", 0) / 1e6)
    return name_of(type(value))
