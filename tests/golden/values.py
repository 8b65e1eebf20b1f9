"""Values of many kinds that a black box may answer with, or a dataset may hold."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import types
import uuid
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np


@dataclasses.dataclass
class Point:
    x: float
    y: float
    name: str = "here"


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: int
    inner: Point


class Slots:
    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first, self.second = 1, "two"


class Plain:
    def __init__(self) -> None:
        self.shown, self._hidden = [1.5, 2.5], 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain)

    __hash__ = None  # type: ignore[assignment]


class Nothing:
    pass


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.Flag):
    A = 1
    B = 2


class Pairing(NamedTuple):
    left: int
    right: float


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class OwnError(ValueError):
    pass


def _itself() -> list[Any]:
    holds: list[Any] = [1]
    holds.append(holds)
    return holds


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def _nan(bits: int) -> float:
    return float(np.array([bits], np.uint64).view(np.float64)[0])


def values() -> dict[str, Any]:
    """Return every value under a name, made anew at each call."""
    record = np.zeros(2, [("a", "<f8"), ("b", "<i4")])
    record["a"] = [0.5, -0.0]
    return _singles() | {
        "tuple": (),
        "tuple 1": (1,),
        "tuple mixed": (1, 2.5, "x", None, True),
        "list": [],
        "list of ints": [1, 2, 3],
        "list of floats": [1.0, 2.0, -0.0, float("nan")],
        "list of bools": [True, False],
        "list of texts": ["a", "b", "7"],
        "list int float": [1, 1.0],
        "list nested": [[1, 2], [3.0, (4, [5])]],
        "list of pairs": [(1, "a"), (2, "b")],
        "list long": [float(i) / 7 for i in range(500)],
        "list longer than is kept": list(range(5000)),
        "list that holds itself": _itself(),
        "list deep": _deep(60),
        "list too deep": _deep(70),
        "dict": {},
        "dict ab": {"a": 1, "b": 2},
        "dict ba": {"b": 2, "a": 1},
        "dict floats": {"x": 1.5, "y": -0.0},
        "dict int keys": {1: "one", 2: "two"},
        "dict int keys turned": {2: "two", 1: "one"},
        "dict mixed keys": {1: 0, "1": 1, (1,): 2, None: 3, 1.5: 4},
        "dict nested": {"a": {"b": {"c": [1, {"d": None}]}}},
        "dict quoted keys": {"it's": 1, 'a "b"': 2, "é\n": 3},
        "dict large": {f"key {i}": i for i in range(100)},
        "dict of arrays": {"w": np.arange(3.0), "b": np.float32(0.5)},
        "ordered dict": collections.OrderedDict([("b", 1), ("a", 2)]),
        "counter": collections.Counter("abracadabra"),
        "default dict": collections.defaultdict(int, {"a": 1}),
        "deque": collections.deque([1, 2, 3]),
        "mapping proxy": types.MappingProxyType({"a": 1}),
        "set": set(),
        "set of ints": {3, 1, 2},
        "set of texts": {"b", "a", "c"},
        "set mixed": {1, "a", 2.5, None},
        "frozenset": frozenset({1, 2}),
        "set of tuples": {(1, 2), (0, 5)},
        "range": range(3),
        "range of steps": range(10, 0, -3),
        "array.array": array.array("d", [1.0, 2.0]),
        "array.array of ints": array.array("i", [1, 2]),
        "named tuple": Pairing(1, 2.0),
        "dataclass": Point(1.0, -2.0),
        "dataclass other": Point(1.0, -2.0, "there"),
        "dataclass frozen": Frozen(3, Point(0.0, 0.5)),
        "slots": Slots(),
        "object": Plain(),
        "object that shows nothing": Nothing(),
        "namespace": types.SimpleNamespace(a=1, b=[2.0]),
        "enum text": Colour.RED,
        "enum number": Colour.BLUE,
        "int enum": Level.HIGH,
        "flag": Bits.A | Bits.B,
        "text of a class": Text("text"),
        "int of a class": Whole(5),
        "fraction": fractions.Fraction(1, 3),
        "fraction whole": fractions.Fraction(4, 2),
        "decimal": decimal.Decimal("1.10"),
        "decimal shorter": decimal.Decimal("1.1"),
        "decimal nan": decimal.Decimal("NaN"),
        "decimal -0": decimal.Decimal("-0"),
        "date": datetime.date(2024, 2, 29),
        "time": datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
        "time with zone": datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
        "duration": datetime.timedelta(days=1, seconds=2.5),
        "uuid": uuid.UUID(int=7),
        "path": PurePosixPath("a/b.txt"),
        "class": Point,
        "function": values,
        "built-in": len,
        "array 0-d": np.array(1.5),
        "array empty": np.zeros(0),
        "array empty 2-d": np.zeros((0, 3)),
        "array float64": np.array([1.0, -0.0, np.nan, np.inf]),
        "array float64 +0": np.array([1.0, 0.0, np.nan, np.inf]),
        "array float32": np.array([1.0, 2.5], np.float32),
        "array float16": np.array([1.0, 2.5], np.float16),
        "array int64": np.arange(5),
        "array int32": np.arange(5, dtype=np.int32),
        "array int8": np.array([-128, 127], np.int8),
        "array uint8": np.array([0, 255], np.uint8),
        "array uint64": np.array([2**64 - 1], np.uint64),
        "array bool": np.array([True, False]),
        "array complex": np.array([1 + 2j, -0.0j]),
        "array texts": np.array(["a", "bcd"]),
        "array bytes": np.array([b"a", b"bcd"]),
        "array objects": np.array([1, "a", None], object),
        "array times": np.array(["2024-02-29", "NaT"], "datetime64[D]"),
        "array durations": np.array([1, 2], "timedelta64[s]"),
        "array record": record,
        "array 2-d": np.arange(6.0).reshape(2, 3),
        "array 2-d Fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "array 2-d turned": np.arange(6.0).reshape(3, 2).T,
        "array big-endian": np.array([1.0, 2.0], ">f8"),
        "array every second": np.arange(6.0)[::2],
        "array large": np.arange(3000.0) / 3,
        "list of arrays": [np.arange(2), np.arange(2.0)],
        "tuple of scalars": (np.float64(1.0), np.int64(1), np.bool_(True)),
        "masked array": np.ma.masked_array([1.0, 2.0], [False, True]),
    }


def _singles() -> dict[str, Any]:
    return {
        "none": None,
        "true": True,
        "false": False,
        "ellipsis": ...,
        **{
            f"int {number}": number
            for number in (0, 1, -1, 2, 127, 128, -128, 255, 256, 2**31, 2**53, 2**53 + 1)
        },
        **{f"int 2**{power}": 2**power for power in (63, 64, 200, 2000)},
        **{f"int -2**{power}": -(2**power) for power in (63, 64, 200)},
        **{
            f"float {number!r}": number
            for number in (0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 1e-300, 5e-324, 1e300, 1e22, 2.5)
        },
        "float inf": float("inf"),
        "float -inf": float("-inf"),
        "float nan": float("nan"),
        "float nan of another payload": _nan(0x7FF8000000000001),
        "float -nan": _nan(0xFFF8000000000000),
        "complex": 1 - 2j,
        "complex -0": complex(-0.0, 0.0),
        "str": "",
        "str a": "a",
        "str b": "b",
        "str number": "17",
        "str numbers": "mean 3.5, n = 1,200, p < 1e-9",
        "str other numbers": "mean 4.5, n = 1,300, p < 1e-8",
        "str hex": "0xff",
        "str address": "<object at 0x7f3a12345678>",
        "str bits": "0110100",
        "str json": '{"a": [1, 2.5, null], "b": "x"}',
        "str accents": "é, ü, 漢字, 🙂",
        "str composed otherwise": "é",
        "str surrogate": "\ud800",
        "str control": "a\x00b\x1b[31m\n\t",
        "str long": "word 1.5 " * 200,
        "str longer than is read": "x" * 5000 + " 7",
        "str of a table": "a,b\n1,2\n3,4\n",
        "bytes": b"",
        "bytes a": b"a",
        "bytes high": b"\x00\xff\x80",
        "bytes long": bytes(range(256)) * 2,
        "bytearray": bytearray(b"abc"),
        "memoryview": memoryview(b"abc"),
        "numpy float64": np.float64(1.5),
        "numpy float64 -0": np.float64(-0.0),
        "numpy float64 nan": np.float64("nan"),
        "numpy float32": np.float32(0.1),
        "numpy float16": np.float16(0.1),
        "numpy int64": np.int64(1),
        "numpy int8": np.int8(-1),
        "numpy uint64": np.uint64(2**64 - 1),
        "numpy bool": np.bool_(True),
        "numpy complex": np.complex128(1 + 1j),
        "numpy str": np.str_("a"),
        "numpy bytes": np.bytes_(b"a"),
        "numpy time": np.datetime64("2024-02-29"),
        "error": ValueError("a message"),
        "error without a message": ValueError(),
        "error with numbers": ValueError("3 columns, 2.5 expected at 0x7f3a12345678"),
        "error with other numbers": ValueError("4 columns, 3.5 expected at 0x7f3a12345679"),
        "error of a key": KeyError("name"),
        "error of a class": OwnError("mine", 1),
        "error of zero": ZeroDivisionError("division by zero"),
        "error of a system": FileNotFoundError(2, "No such file", "a.txt"),
        "error of time": TimeoutError(),
    }
