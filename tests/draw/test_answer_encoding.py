"""Answers as kinds, values and numbers: equal codes for what is equal to the bit, and only then."""

from __future__ import annotations

import dataclasses
import datetime
import math
import random
import re
import struct
import sys
import threading
from collections import OrderedDict, namedtuple
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from support import processes

from dpframe.draw.worker import codes, encoding, exceptions, mechanism_sampler
from dpframe.draw.worker.answers import packed
from dpframe.draw.worker.codes import UnreadableError
from dpframe.draw.worker.encoding import encode
from dpframe.draw.worker.exceptions import encode_raised
from dpframe.draw.worker.query import Refused
from dpframe.interfaces.attack import ABSENT, Answers


def kind(answer, *attributes):
    return encode(answer, attributes)[0]


def numbers(answer, *attributes):
    return encode(answer, attributes)[2]


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Fit:
    slope: float
    names: list


class Model:
    def __init__(self, weights):
        self.weights, self._secret = weights, object()


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class Secret:
    def __init__(self):
        self._x = 1


class Nothing:
    pass


class Tagged(np.ndarray):
    """An array that knows its unit."""


def tagged(values, unit):
    found = np.array(values).view(Tagged)
    found._unit = unit
    return found


class Duck:
    """An object that NumPy takes for an array, and drops a part of."""

    def __init__(self, values, unit):
        self._values, self.unit = values, unit

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values)


Point = namedtuple("Point", "x y")
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
NAN = float("nan")
HERSELF: list = []
HERSELF.append(HERSELF)

DIFFERENT = [
    *(0.0, -0.0, NAN, OTHER_NAN, math.inf, -math.inf, 1.0, 1, True, np.float32(1)),
    *(1 + 0j, "1", b"1", bytearray(b"1")),
    *(None, False, 0, -1, 255, -256, 256, 2**63, 2**64, -(2**63), 10**400, 2**53, 2**53 + 1),
    *(Fraction(1), Decimal(1), Decimal("1.0"), Decimal("nan"), 5e-324, math.nextafter(1, 2)),
    *("", "a", "\ud800", "é", "e\u0301", b"", b"\x00", "nan", "None"),
    *([], (), {}, set(), frozenset(), [1], [1.0], [True], (1,), [[1]], [1, 1], {1}, {1: 1}),
    *([0.0], [-0.0], [NAN], [1.0, 2.0], [2.0, 1.0], [1.0, 2], [[1.0], [2.0]], [[1.0, 2.0], []]),
    *({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}, {"a": 1}, {"a": None}, {"ab": 1}),
    *(OrderedDict(a=1), {1, 2}, {"1", 2}, Point(1, 2), (1, 2), Colour.RED, Colour.BLUE),
    *(Fit(1.0, []), Fit(1.0, ["a"]), Fit(-0.0, []), Model(1.0), Model(2.0), Slotted(1), Slotted(2)),
    *(HERSELF, [HERSELF], range(3), range(0, 3, 2), ValueError("x"), TypeError("x"), int, float),
    *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1)),
    *(np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1)), np.zeros(0), -np.zeros(2)),
    *(np.zeros((0, 3)), np.array(0.0), np.array([1, 2]), np.array([True]), np.array(["a", "b"])),
    *(np.array([b"a"]), np.array([None, 1]), np.array([1, None]), np.array([1.0, 2j])),
    *(np.array("2020-01-01", "M8[D]"), np.array("2020-01-01", "M8[s]"), np.array(["ab"])),
    *(
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]).view(np.recarray),
        np.array([[1.0, 2.0]]),
        np.array([[1.0, 2.0], None], object),
    ),
    *(np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 2.0], mask=[0, 0])),
    np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    np.array([(1, 2.0)], [("a", "i4"), ("c", "f8")]),
    *(np.ma.array([1.0, 2.0], mask=[1, 0]), np.ma.masked, np.ma.array([1.0, 3.0], mask=[1, 0])),
    *(np.ma.array([1, "a"], mask=[1, 0], dtype=object), np.ma.array([1 + 2j], mask=[True])),
    *(tagged([1.0], unit="m"), tagged([1.0], unit="s"), Duck([1.0], "m"), Duck([1.0], "s")),
    *(np.array(["a" * 40], "T"), np.array(["b" * 40], "T"), np.array([1], np.longdouble)),
    *(np.array(["NaT", "2020"], "M8[D]"), np.array(["2020", "NaT"], "M8[D]")),
]


def test_different_answers_have_different_values():
    values = [encode(answer)[1] for answer in DIFFERENT]
    clashes = [
        (DIFFERENT[i], DIFFERENT[j])
        for i in range(len(values))
        for j in range(i)
        if values[i] == values[j]
    ]
    assert clashes == []
    assert len({codes.code(value) for value in values}) == len(values)


def test_the_same_answer_made_twice_has_the_same_value():
    def fresh():
        return [
            {"b": [1.5, None, "x"], "a": (np.arange(3), {3, 1, 2})},
            Model(np.ones(2)),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            {"x" * 3, "y" * 3},
        ]

    assert [encode(x) for x in fresh()] == [encode(x) for x in fresh()]
    assert encode(np.arange(6.0).reshape(2, 3)) == encode(fresh()[2])
    assert encode(np.arange(4.0)[::2]) == encode(np.array([0.0, 2.0]))


MASK = [[0, 1], [0, 1], [0, 1]]
RECORD = [("a", "f8"), ("b", "i1"), ("c", "f8")]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        *(([1.0, 2.0], "f8"), ([1, 2], "i2"), ([1j, 2j], "c16"), (["a", "b"], "U1")),
        *((["a", "b"], "S1"), ([1, "b"], object), (["2020", "2021"], "M8[D]"), ([1, 2], "m8[s]")),
        *(([1, 2], np.longdouble), ([(1, 2, 3), (4, 5, 6)], RECORD)),
    ],
)
def test_what_a_mask_hides_is_no_part_of_an_answer(values, dtype):
    plain = np.array(values, dtype)
    other = plain.copy()
    other[1] = plain[0]
    one, two = (np.ma.array(data, mask=[False, True]) for data in (plain, other))
    assert encode(one) == encode(two)
    assert encode(one) != encode(np.ma.array(plain, mask=[True, False]))
    kinds = {kind(np.ma.array(plain, mask=mask)) for mask in ([0, 0], [0, 1], [1, 0], [1, 1])}
    assert len(kinds) == 4
    assert numbers(one)[-1] is codes.ABSENT_NUMBER


def test_a_mask_is_part_of_the_kind_of_an_answer():
    array = np.ma.array([1.0, NAN, 3.0], mask=[0, 0, 1])
    assert kind(array) == "masked float64, list of 3 (float, float, None) with NaN at 2"
    assert kind(np.ma.array([1.0])) == "masked float64, list of 1 float"
    assert encode(np.ma.array([1.0])) == encode(np.ma.array([1.0], mask=[False]))
    assert kind(np.ma.masked) == "masked float64, None"


def test_no_time_is_no_number():
    times = np.array(["2020-01-01", "NaT"], "M8[D]")
    assert kind(times) == "datetime64[D] array of shape (2,) with NaN at 2"
    assert kind(times[1]) == "datetime64[D] scalar, NaN"
    assert kind(np.array(["NaT", 5], "m8[s]")).endswith("with NaN at 1")
    assert numbers(times.astype(">M8[D]"))[0] == numbers(times)[0] == 18262


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_padding_is_no_part_of_a_number(dtype):
    clean = np.array([1, -3, 0], dtype) / 3
    dirty = clean.copy()
    if np.finfo(np.longdouble).nmant == 63:  # ten bytes of sixteen
        dirty.view(np.uint8).reshape(-1, 16)[:, 10:] = 171
        assert dirty.tobytes() != clean.tobytes()
    assert (dirty == clean).all()
    assert encode(dirty) == encode(clean)
    assert encode(dirty[0]) == encode(clean[0])
    assert encode([dirty[1]]) == encode([clean[1]]) != encode([clean[0]])
    record = np.zeros(3, [("x", "i1"), ("y", dtype)])
    other = record.copy()
    record["y"], other["y"] = clean, dirty
    assert encode(record) == encode(other)


def test_the_order_of_bytes_is_no_part_of_a_value_but_the_type_is_the_same():
    big, small = np.array([1.0, 2.0], ">f8"), np.array([1.0, 2.0], "<f8")
    assert encode(big) == encode(small)


def random_answer(rng: random.Random, depth=0):
    """An answer as a tree of typed bits, from which it can be made again: (what, how to make)."""
    which = rng.randrange(12 if depth < 3 else 8)
    if which == 0:
        bits = rng.choice([0, 1 << 63, 0x7FF8 << 48, 0x3FF0 << 48, rng.getrandbits(64)])
        return ("float", bits), lambda: struct.unpack("<d", struct.pack("<Q", bits))[0]
    if which == 1:
        number = rng.choice([0, 1, -1, 2**63, rng.getrandbits(70)])
        return ("int", number), lambda: number
    if which == 2:
        flag = rng.random() < 0.5
        return ("bool", flag), lambda: flag
    if which in (3, 4):
        text = "".join(rng.choice("aé\ud800\x00=#") for _ in range(rng.randrange(4)))
        content = text.encode("utf-8", "surrogatepass")
        return (("str", text), lambda: text) if which == 3 else (("b", content), lambda: content)
    if which == 5:
        return ("none",), lambda: None
    if which in (6, 7):
        dtype = rng.choice(["f8", "f4", "i8", "u1", "?"])
        shape = rng.choice([(), (0,), (1,), (2,), (1, 2), (2, 1)])
        held = np.zeros(shape, dtype)
        if held.size:
            held.flat[0] = rng.randrange(2)
        return ("array", dtype, shape, held.tobytes()), held.copy
    parts = [random_answer(rng, depth + 1) for _ in range(rng.randrange(4))]
    whats, makes = tuple(w for w, _ in parts), [m for _, m in parts]
    if which == 8:
        return ("list", whats), lambda: [m() for m in makes]
    if which == 9:
        return ("tuple", whats), lambda: tuple(m() for m in makes)
    keys = rng.sample(["a", "b", "aa", 1, None, 2.5], len(parts))
    if which == 10:
        return ("dict", tuple(map(repr, keys)), whats), lambda: dict(
            zip(keys, (m() for m in makes), strict=True)
        )
    return ("set", frozenset(map(repr, keys))), lambda: set(keys)


def test_values_are_equal_exactly_where_answers_are_equal_to_the_bit():
    rng = random.Random(13)
    seen: dict = {}
    for _ in range(4000):
        what, make = random_answer(rng)
        answer = make()
        found = encode(answer)
        assert found[1] == encode(make())[1]
        assert seen.setdefault(found[1], what) == what
    assert len(seen) == len(set(seen.values())) > 500


def test_values_do_not_depend_on_the_process():
    script = (
        "import sys, types; m = sys.modules['alone'] = types.ModuleType('alone')\n"
        "m.__path__ = [sys.argv[1].rpartition('/')[0]]\n"
        "from alone.codes import code as c; from alone.encoding import encode as e\n"
        "print([c(e(x)[1]) for x in [{'b', 'a', 'c'}, {'k': {'z', 'y'}}, frozenset(range(9)),"
        " [1.5, None], object, ValueError('x')]])"
    )
    answers = [{"b", "a", "c"}, {"k": {"z", "y"}}, frozenset(range(9)), [1.5, None], object]
    here = [codes.code(encode(x)[1]) for x in [*answers, ValueError("x")]]
    for seed in ("1", "2"):
        words = ("-S", "-c", script, encoding.__file__)
        done = processes.run(*words, PYTHONHASHSEED=seed)
        assert done.stdout.strip() == str(here)


def test_numbers_in_texts_are_numbers():
    assert numbers('{"mean": -0.25, "n": 3}') == [-0.25, 3.0]
    assert kind('{"mean": 1e9,\n "n": 12}') == 'str like {"mean": #, "n": #}'
    assert numbers("0110") == [0.0, 1.0, 1.0, 0.0]
    assert kind("0110") == "str like 4 bits"
    assert len(numbers("q1")) == len(numbers("no number")) == 1
    assert kind("q1") == "str"
    marker = numbers({"a": "n = 3"})[0]
    assert numbers({"a": "n = 4"}) == [marker, 4.0]
    assert numbers({"a": "m = 4"})[0] != marker
    # Their number may vary; items that are no texts keep their place.
    assert numbers(["from 1 to 2", 7.0])[1:] == [7.0, 1.0, 2.0]


def test_short_answers_in_words():
    words = codes.in_words
    assert words([True, False] * 5).startswith("[True, False, True")
    assert (
        words({"a": {"b": (1, None)}, "c": np.zeros(2)})
        == "{'a': {'b': (1, None)}, 'c': [0.0, 0.0]}"
    )
    assert words({"y", "x"}) == "{'x', 'y'}"
    assert len(words(["x" * 50] * 10)) == codes.LONGEST
    assert words(list(range(40))) is None
    assert words([object()]) is None


def test_kinds_in_words():
    assert kind(1.5) == "float"
    assert kind(NAN) == "float, NaN"
    assert kind(-math.inf) == "float, -inf"
    assert [kind(x) for x in (1, True, None, "x", b"ab")] == [
        *("int", "bool", "None", "str", "bytes of length 2")
    ]
    assert kind(np.float32(2)) == "float32 scalar"
    assert kind(np.zeros((3, 1))) == "float64 array of shape (3, 1)"
    assert kind(np.array([1, NAN, math.inf])) == (
        "float64 array of shape (3,) with NaN at 2 and inf at 3"
    )
    assert kind(np.full(100, NAN)) == "float64 array of shape (100,) with NaN"
    assert kind({"b": 1.0, "a": [1, 2]}) == "dict (b: float, a: list of 2 int)"
    assert kind([1, 2.0]) == "list of 2 (int, float)"
    assert kind(Point(1, "a")) == "Point (x: int, y: str)"
    assert kind(Model(1.0)) == "Model (weights: float)"
    assert kind(Model(1.0), "weights") == "Model (weights: float)"
    assert len(kind({str(i): i for i in range(1000)})) < 300
    assert kind({str(i): i for i in range(1000)}) != kind({str(i): 1.0 for i in range(1000)})


@pytest.mark.parametrize("plain", [0.5, NAN, 3, -(1 << 40), True, "b", b"b"])
def test_a_scalar_of_numpy_is_the_scalar_of_python(plain):
    """A function that returns a value itself or `rng.choice(values)` does not show which."""
    scalar = np.array([plain])[0]
    assert type(scalar) is not type(plain)
    assert encode(scalar)[:2] == encode(plain)[:2]
    assert encode({scalar: [scalar]})[:2] == encode({plain: [plain]})[:2]


def test_numbers_in_their_order():
    assert numbers({"b": 2, "a": [1.5, True]}) == [1.5, 1.0, 2.0]
    assert numbers({"bb": 2, "a": 1, "c": 3}) == [1.0, 2.0, 3.0]
    assert numbers(np.array([[1, 2], [3, 4]])) == [1.0, 2.0, 3.0, 4.0]
    assert numbers(b"\x81") == [1, 0, 0, 0, 0, 0, 0, 1]
    assert numbers([2**70, 10**400]) == [2.0**70, sys.float_info.max]
    assert numbers(3 + 4j) == [3.0, 4.0]
    assert numbers(np.float32(0.1)) == [float(np.float32(0.1))]
    assert numbers("a") == numbers("a") != numbers("b")
    assert numbers(None)[0] is codes.ABSENT_NUMBER
    assert len(numbers(np.zeros(10**6))) == len(numbers([0.0] * 10**5)) == 8192
    assert numbers(Model([1.0, 2.0])) == [1.0, 2.0]


def test_exceptions_by_class_and_message_without_its_numbers():
    told = partial(encode_raised, messages=True)
    found = [told(ValueError(f"array of length {n} at {hex(n + 2**40)}")) for n in (3, 12)]
    assert found[0][0] == found[1][0] == "raises ValueError: array of length # at 0x"
    assert found[0][1] != found[1][1]
    assert found[0][2] == [3.0]
    at = [told(ValueError(f"{hex(n + 2**40)}")) for n in (3, 12)]
    assert at[0] == at[1]
    assert told(KeyError("x"))[0] == "raises KeyError: 'x'"
    assert told(SystemExit())[0] == "raises SystemExit"
    assert told(TypeError("dtype float64 of [1. 2. -3e5]"))[0] == (
        "raises TypeError: dtype float64 of [#]"
    )

    class OddError(Exception):
        def __str__(self):
            raise RuntimeError

    assert told(OddError())[0] == "raises OddError"
    assert len(told(ValueError("word " * 10**5))[0]) < 300


def raised(call, *args, **how):
    """Encode what a call raises."""
    try:
        call(*args)
    except BaseException as error:
        return encode_raised(error, **how)
    raise AssertionError


def test_the_kind_of_an_exception_is_its_class_and_the_line_that_raised_it():
    def reshaped(values):
        return np.asarray(values).reshape(3, 3)

    def either(number):
        if number > 1:
            raise ValueError(f"{number} is above 1")
        raise ValueError(f"{number} is below 1")

    first, second = raised(reshaped, [1, 2]), raised(reshaped, [3.25, 4, 5])
    assert first == second
    assert re.fullmatch(r"raises ValueError at [\w/]*test_answer_encoding\.py:\d+", first[0])
    assert raised(either, 2) == raised(either, 3) != raised(either, 0)
    assert raised(either, 2)[2] == []
    assert raised(either, 2, messages=True)[1] != raised(either, 3, messages=True)[1]
    assert raised(either, 2, messages=True)[2] == [2.0, 1.0]
    assert raised(either, 2, messages=True)[0] == raised(either, 2)[0] + ": # is above #"


def test_places_do_not_depend_on_the_machine():
    code = "def f():\n    raise KeyError(3)"
    for file, name, place in (
        ("/home/a/box.py", "dpframe_program_box", "box.py:2"),
        ("/site-packages/lib/sub/x.py", "lib.sub.x", "lib/sub/x.py:2"),
        ("/site-packages/lib/__init__.py", "lib", "lib/__init__.py:2"),
        ("C:\\b\\box.py", "box", "box.py:2"),
        ("<generated-17 at 0x7fffaa>", "x", "<generated-# at #>:2"),
    ):
        space: dict = {"__name__": name}
        exec(compile(code, file, "exec"), space)
        assert raised(space["f"])[0] == f"raises KeyError at {place}"

    def deeper(n):
        return deeper(n + 1) + (n and 1)

    assert raised(deeper, 0)[0] == "raises RecursionError"


def test_a_traceback_in_one_line():
    def inner():
        raise ValueError("too\nbad")

    def outer():
        inner()

    try:
        outer()
    except ValueError as error:
        told = exceptions.traced(error)
    assert re.fullmatch(r"ValueError: too bad \((\S+:\d+ in \S+( → )?){3}\)", told)
    assert told.endswith(" in inner)")
    assert exceptions.traced(KeyError("x")) == "KeyError: 'x'"


def test_what_shows_nothing_is_refused(monkeypatch):
    class Slots:
        __slots__ = ("__value", "__weakref__")

        def __init__(self):
            self.__value = 3

    in_c = (re.compile("a"), threading.Lock(), partial(len), [].append)
    code = (lambda: in_c, lambda x=3: x)
    for hidden in (iter([]), np.random.default_rng(3), Secret(), Slots(), *in_c, *code):
        with pytest.raises(
            UnreadableError, match="has nothing to read: list what to read in `attributes`"
        ):
            encode(hidden)
        # Nor may it hide among other values: of these all would be read but the one that leaks.
        for within in ([hidden], (1.5, hidden), {"a": 1.5, "b": [hidden]}, Point(1, {2: hidden})):
            with pytest.raises(UnreadableError, match="has nothing to read"):
                encode(within)
        assert encode(SimpleNamespace(value=1.5, tool=hidden))[2] == [1.5]  # shows what it is
        with pytest.raises(UnreadableError, match="has nothing to read"):
            encode(SimpleNamespace(value=1.5, tool=hidden), ["value", "tool"])  # was asked for
    assert kind(Nothing()) == "Nothing ()"
    deep: list = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(UnreadableError, match="nested deeper"):
        encode(deep)
    assert encoding._MOST_PARTS == 1 << 20
    monkeypatch.setattr(encoding, "_MOST_PARTS", 5_000)
    assert encode(["a"] * 4_000)
    with pytest.raises(UnreadableError, match="more than"):
        encode(["a"] * 5_001)


@pytest.mark.parametrize("base", [list, dict, set, tuple, int, float, complex, str, bytes])
def test_attributes_of_a_class_that_extends_a_built_in_one_are_read(base):
    class Own(base):
        pass

    one, other, third = Own(), Own(), Own()
    one.seen, other.seen, third.seen = 1, 2, 1
    assert encode(one)[1] != encode(other)[1]
    assert encode(one)[1] == encode(third)[1]
    assert kind(one).endswith("with Own (seen: int)")
    assert "with" not in kind(Own())


def test_the_second_of_two_equal_times_is_another_time():
    first, second = (datetime.datetime(2020, 10, 25, 2, 30, fold=fold) for fold in (0, 1))
    assert encode(first)[1] != encode(second)[1]


def test_data_frames_by_their_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": [1.0, NAN], "a": ["x", "y"]})
    assert kind(frame).startswith("DataFrame (b: float64 array of shape (2,), a: ")
    assert numbers(frame)[0] == 1.0
    changed = [frame.assign(b=frame.b.astype("float32")), frame[["a", "b"]], frame[::-1]]
    changed += [frame.rename(columns={"a": "c"}), frame.set_index("a"), frame.a, frame.b]
    changed += [frame.assign(a=frame.a.astype("category"))]
    changed += [frame.assign(a=pandas.Categorical(["x", "y"], ["x", "y", "z"]))]
    assert len({encode(each)[1] for each in [frame, *changed]}) == 10
    assert encode(frame.copy()) == encode(frame)


def test_frames_differ_by_names_periods_and_what_their_classes_add():
    pandas = pytest.importorskip("pandas")

    class Own(pandas.DataFrame):
        _metadata: ClassVar = ["rows"]

    def own(index, rows):
        frame = Own({"a": [1, 2]}, index)
        frame.rows = rows
        return frame

    one = pandas.DataFrame({"a": [1, 2]})
    told = pandas.DataFrame({"a": [1, 2]})
    told.attrs["rows"] = 7
    months = [pandas.period_range(year, periods=2, freq="M") for year in ("2000", "2001")]
    twice = pandas.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["x", "y"])
    changed = [one, told, one.rename_axis("x"), one.rename_axis(columns="x")]
    changed += [
        one.set_axis(each, axis=0) for each in (*months, twice, twice.set_names("z", level=0))
    ]
    changed += [*months, months[0][0], months[1][0], twice, twice.set_names("z", level=0)]
    changed += [
        own(None, 1),
        own(None, 2),
        own([5, 6], 1),
        own([5, 6], 1).rename(columns={"a": "b"}),
    ]
    assert len({encode(each)[1] for each in changed}) == len(changed)


def test_arrow_tables_may_hold_columns_of_one_name():
    arrow = pytest.importorskip("pyarrow")
    tables = [arrow.table([[one], [2]], names=["a", "a"]) for one in (1, 3)]
    assert encode(tables[0])[1] != encode(tables[1])[1]


def test_arrays_of_pandas_say_what_is_missing():
    pandas = pytest.importorskip("pandas")
    missing, nan = pandas.array([1.5, None], "Float64"), pandas.array([1.5, 0.0], "Float64")
    assert "missing" in kind(missing)
    assert encode(missing)[1] != encode(nan / nan)[1]
    assert numbers(missing)[1] is codes.ABSENT_NUMBER


def test_arrays_of_xarray_say_their_names():
    xarray = pytest.importorskip("xarray")
    arrays = [xarray.DataArray([1.0, 2.0], dims=["x"], name=name) for name in ("a", "b")]
    arrays += [arrays[0].assign_coords(x=["p", "q"]), arrays[0].assign_coords(x=["p", "r"])]
    assert len({encode(each)[1] for each in arrays}) == 4


def test_a_row_is_what_answers_lay_out():
    found = encode([1.5, None, NAN])
    kind, value = codes.code_of_kind(found[0]), codes.code(found[1])
    row = np.frombuffer(packed(kind, value, found[2], 4, 0.25), "<u8")
    answers = Answers(row[None])
    assert (answers.kinds[0], answers.values[0]) == (kind, value)
    assert answers.seconds[0] == 0.25
    assert answers.absent.tolist() == [[False, True, False, True]]
    assert answers.numbers[0, 0] == 1.5
    assert np.isnan(answers.numbers[0, 1:]).all()
    assert codes.ABSENT == ABSENT
    short = np.frombuffer(packed(kind, value, found[2], 1, 0.0), "<u8")
    assert len(short) == 4


class Named(str):
    """A text that says something else of itself."""

    def __str__(self):
        return "other"

    def __hash__(self):
        return 3


def test_texts_are_encoded_alike_with_and_without_the_memory_of_texts(monkeypatch):
    answers = [
        {"b": 1.0, "a": [1, "row 7"], "c": {"z": None, "é 2": (1, 2.0)}},
        {"a": 1, Named("b"): 2},
        {Named("b 5"): [Named("n = 4"), "n = 4"]},
        {"a": "x" * 200, "b": "\ud800"},
        [{"b": 1, "a": "t"}, {"a": "t", "b": 1}],
        {f"k{i}": [i] for i in range(100)},
    ]
    quick = [encode(answer) for answer in answers * 2]
    monkeypatch.setattr(encoding, "_MOST_KEPT", 0)
    assert [encode(answer) for answer in answers * 2] == quick
    assert numbers([Named("n = 4")])[1:] == [4.0]


class Tensor:
    """An array with the methods of a PyTorch tensor that are read."""

    __module__ = "torch"
    is_nested = is_quantized = is_meta = False

    def __init__(self, array, dtype, layout="strided"):
        self.array, self.dtype, self.layout = np.asarray(array), f"torch.{dtype}", f"torch.{layout}"

    def detach(self):
        return self

    cpu = resolve_conj = resolve_neg = detach

    def float(self):
        return Tensor(self.array.astype(np.float32), "float32")

    def cfloat(self):
        return Tensor(self.array.astype(np.complex64), "complex64")

    def numpy(self):
        if str(self.array.dtype) != self.dtype.partition(".")[2]:
            raise TypeError("Got unsupported ScalarType")
        return self.array

    def __array__(self):
        return self.numpy()


def test_tensors_of_types_that_numpy_lacks_are_read_in_wider_ones():
    plain = encode(Tensor(np.array([1.5, -2.0], np.float32), "float32"))
    assert plain[0] == "torch, float32 array of shape (2,)"
    values = {plain[1]}
    for dtype in ("bfloat16", "float8_e4m3fn", "complex32"):
        found = encode(Tensor(np.array([1.5, -2.0]), dtype))
        assert found[0].startswith(f"torch {dtype}, ")
        assert found[2] == [1.5, -2.0] if dtype != "complex32" else [1.5, 0.0, -2.0, 0.0]
        values.add(found[1])
    assert len(values) == 4  # equal numbers of another type are another answer


@pytest.mark.parametrize("what", ["layout", "is_nested", "is_quantized", "is_meta"])
def test_a_tensor_that_is_more_than_its_numbers_is_not_read(what):
    tensor = Tensor(np.zeros(2, np.float32), "float32")
    setattr(tensor, what, "torch.sparse_coo" if what == "layout" else True)
    with pytest.raises(UnreadableError, match="not a plain tensor, but has type float32"):
        encode(tensor)


def test_a_batch_of_a_type_that_numpy_lacks_is_refused_with_the_remedy():
    with pytest.raises(Refused, match=r"bfloat16 values, which NumPy lacks: return outputs.float"):
        mechanism_sampler._array(Tensor(np.zeros(2), "bfloat16"))
    assert mechanism_sampler._array(Tensor(np.ones(2), "float64")).tolist() == [1.0, 1.0]
