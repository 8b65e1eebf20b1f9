"""Arrays of NumPy and what looks like one. `reader` is the one that reads the answer."""

from __future__ import annotations

import sys
from typing import Any

from dpframe.workers.program.answer_encoding.content import (
    MOST_NUMBERS,
    bytes_of,
    code,
    number_of,
    sized,
)
from dpframe.workers.program.answer_encoding.kinds import name_of


def read_numpy(reader: Any, value: Any) -> str:
    """An array or a scalar of NumPy, or something that looks like one."""
    dtype, shape = value.dtype, tuple(map(int, value.shape))
    if hasattr(value, "mask") and hasattr(value, "filled"):
        reader.part(b"m")
        return (
            "masked " + read_numpy(reader, value.data) + ", mask " + read_numpy(reader, value.mask)
        )
    if hasattr(value, "__setitem__") and type(value).__name__ in ("matrix", "recarray"):
        reader.part(b"j", sized(name_of(type(value)).encode()))
        return name_of(type(value)) + ", " + read_numpy(reader, value.__array__())
    scalar = not hasattr(value, "__setitem__") and not shape
    before, kind = of_array(dtype, shape, scalar)
    if dtype.names:
        reader.part(b"H", sized(repr((dtype.str, shape)).encode()))
        held = []
        for name in dtype.names:
            reader.part(sized(name.encode()))
            held.append(f"{name}: {read_numpy(reader, value[name])}")
        return f"{kind} with {', '.join(held)}"
    if dtype.kind == "O":
        reader.part(b"Q", sized(repr(shape).encode()))
        return str(reader.several(kind, value.ravel().tolist()))
    content = value.tobytes()
    order = dtype.str[:1]
    if order == ">" or (order == "=" and sys.byteorder != "little"):
        content = value.astype(dtype.newbyteorder("<")).tobytes()
    reader.part(before, sized(content))
    reader.add_all(numbers_of(value, dtype))
    return kind


def of_array(dtype: Any, shape: tuple[int, ...], scalar: bool) -> tuple[bytes, str]:
    """What the value of an array begins with, and its kind as far as its numbers do not matter."""
    described = f"{dtype.kind}{dtype.itemsize} {dtype.name} {shape}"
    kind = f"{dtype.name} scalar" if scalar else f"{dtype.name} array of shape {shape}"
    return (b"a" if scalar else b"A") + sized(described.encode()), kind


def numbers_of(value: Any, dtype: Any) -> list[float]:
    """The first numbers of an array, in order."""
    flat = value.ravel()[:MOST_NUMBERS]
    if dtype.kind in "biuf":
        return [number_of(x) for x in flat.astype("f8").tolist()]
    if dtype.kind == "c":
        return [part for x in flat.astype("c16").tolist() for part in (x.real, x.imag)]
    if dtype.kind in "mM":
        return [number_of(x) for x in flat.view("i8").tolist()]
    if dtype.kind == "V":
        try:  # bfloat16 and its like
            return [float(x) for x in flat.astype("f8").tolist()]
        except (TypeError, ValueError):
            return []
    return [float(code(x if isinstance(x, bytes) else bytes_of(x)) >> 32) for x in flat.tolist()]
