"""Other data are other draws: a digest that tells apart what differs, and nothing else."""

from __future__ import annotations

import copyreg
import dataclasses
import datetime
import enum
import itertools
import re
import signal
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from support.black_boxes import BOXES, cells, spec
from support.small_audits import PLUGINS, load

from dpframe import HostMechanism, Pair, PureDP
from dpframe.builtin.pairs import ZerosOnes
from dpframe.count.checkpoint import Store
from dpframe.count.plan import plan
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.value_digest import data_digest
from dpframe.errors import CellError


def digest(value: Any) -> str:
    return data_digest((value, 0))


class Person(NamedTuple):
    name: str
    age: int


class Record:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def nan(payload: int) -> Any:
    return np.array([0x7FF8000000000000 + payload], np.uint64).view(np.float64)


def itself() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


PADDED = np.dtype([("a", "i1"), ("b", "f8")], align=True)

DIFFERENT: list[Any] = [
    *(None, ..., True, 0, 1, 2**70, -(2**70), 0.0, -0.0, 1.0, float("nan"), 1j, "1", "", b"1", b""),
    *((), (1,), (1, 2), [1, 2], ((1,), 2), (1, (2,)), {1: 2}, {1, 2}, frozenset({1, 2})),
    *({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, 2: "b"}, {"a": {"b": None}}, "\ud800"),
    *(Person("x", 1), Person("x", 2), ("x", 1), bytearray(b"1"), range(3), slice(1, 2)),
    *(Decimal("1.0"), Decimal("1.00"), Fraction(1, 3), datetime.date(2020, 1, 1), Path("a")),
    *(Record(a=1), Record(a=2), Record(b=1), int, str, len, itself()),
    *(np.array([1.0]), np.array([1.0], np.float32), np.array([[1.0]]), np.array(1.0), np.zeros(0)),
    *(np.array([0.0]), np.array([-0.0]), nan(0), nan(1), np.float32(1), np.int64(1), np.True_),
    *(np.array([1], ">i4"), np.array([1], "<i4"), np.array(["a"]), np.array([b"a"])),
    *(np.array(["2020"], "M8[Y]"), np.array(["2020"], "M8[D]"), np.array(["a"], "T")),
    *(np.array([1, "a", None], object), np.array([1, "b", None], object)),
    *(np.array([(1, 2.0)], PADDED), np.array([(1, 3.0)], PADDED)),
    np.array([(1, None)], [("a", int), ("b", object)]),
    *(
        np.ma.array([1, 2], mask=[0, 1]),
        np.ma.array([1, 2], mask=[1, 0]),
        jnp.zeros(3, jnp.bfloat16),
    ),
    *({"x": np.zeros(2)}, {"x": np.zeros(2, object)}, [np.zeros(2)], (np.zeros(2), "label")),
]


def test_padding_of_long_doubles_is_no_data() -> None:
    clean = np.array([1, 2], np.longdouble) / 3
    dirty = clean.copy()
    if np.finfo(np.longdouble).nmant == 63:
        dirty.view(np.uint8).reshape(2, -1)[:, 10:] = 171
    assert digest(clean) == digest(dirty) != digest(clean * 2)
    assert digest([clean[0]]) == digest([dirty[0]])


def test_what_differs_has_another_digest() -> None:
    found = [digest(value) for value in DIFFERENT]
    twice = [pair for pair in itertools.combinations(range(len(found)), 2)
             if found[pair[0]] == found[pair[1]]]  # fmt: skip
    assert [(DIFFERENT[i], DIFFERENT[j]) for i, j in twice] == []
    assert data_digest((1, "a")) != data_digest(("a", 1))


def test_what_is_equal_has_the_same() -> None:
    first, second = np.empty(1, PADDED), np.empty(1, PADDED)
    for array, rubbish in ((first, 0), (second, 255)):
        array.view(np.uint8)[:] = rubbish
        array["a"], array["b"] = 1, 2.0
    assert first.tobytes() != second.tobytes()
    assert digest(first) == digest(second)
    assert list({0, 8}) != list({8, 0})
    assert digest({0, 8}) == digest({8, 0})
    for one, other in [
        (np.zeros(3), np.broadcast_to(0.0, 3)),
        (np.arange(6.0).reshape(2, 3).T, np.array([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])),
        (Record(a=[1, {2}]), Record(a=[1, {2}])),
        (itself(), itself()),
        (np.array([Record(a="x" * 9)]), np.array([Record(a="".join(["x"] * 9))])),
    ]:
        assert digest(one) == digest(other)


def test_digests_of_arrays_stay_what_they_are() -> None:
    """They are in the addresses of draws that were published."""
    dim3 = ZerosOnes(dim=3)
    assert data_digest((dim3.d0, dim3.d1)) == "32f2cc53079e22758a6c28000c0c7b5f"
    tree = {"x": np.arange(3.0), "y": (np.True_, jnp.ones((2, 1)))}
    assert data_digest((tree, np.zeros(2))) == "f0559df451051d097ca047353029155e"


class Breaks:
    def __reduce_ex__(self, protocol: Any) -> Any:
        raise BufferError("not for you")


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), lambda: 1, (i for i in ()), Breaks(), np.array([threading], object)],
)
def test_what_cannot_be_told_apart_is_said(value: Any) -> None:
    with pytest.raises(CellError, match="D or D′ contains"):
        digest(value)


class Mixed(Pair, name="mixed"):
    """Values that only a black box can take; one of them holds a thing that has no content."""

    adjacency: ClassVar[str] = "replace one record"
    broken: bool = False

    @property
    def d0(self) -> Any:
        last: Any = threading.Lock() if self.broken else None
        return np.array(["anna", 7, last], object)

    @property
    def d1(self) -> Any:
        return np.array(["anna", 8, None], object)


class Ages(HostMechanism, name="ages"):
    """Noise on a number among other things."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        return data[1] + rng.laplace(size=(n, 1))


def test_data_of_any_kind_are_audited_and_others_fail_their_own_cells() -> None:
    document = {**spec({"use": "ages"}, trials=64), "pair": {"use": "mixed"}}
    document["sweep"] = {"pair.broken": [False, True]}
    fine, broken = cells(document, plugins=[Ages, Mixed])
    assert fine["status"] == "ok", fine["reason"]
    assert fine["pair"]["digest"] == data_digest((Mixed().d0, Mixed().d1))
    assert (broken["status"], broken["verdict"]) == ("failed", None)
    assert "D or D′ contains" in broken["reason"]


def reading(file: Path, says_all: bool) -> Any:
    class Reading(Pair, name="reading"):
        """Its parameters say nothing of its data."""

        adjacency: ClassVar[str] = "replace the table"
        parameters_say_all: ClassVar[bool] = says_all

        @property
        def d0(self) -> Any:
            return np.zeros(1)

        @property
        def d1(self) -> Any:
            return np.loadtxt(file, ndmin=1)

    return Reading


def planned(file: Path, text: str, distribution: str) -> Any:
    """The plan of an audit whose pair reads a file and comes from a distribution."""
    file.write_text(text)
    document = {**spec({"use": "flip"}), "pair": {"use": "reading"}}
    document["attack"] = [{"use": "above"}]
    loaded = load(document, [*PLUGINS, reading(file, False)])
    cells = [
        dataclasses.replace(cell, pair=dataclasses.replace(cell.pair, distribution=distribution))
        for cell in loaded.cells
    ]
    return plan(dataclasses.replace(loaded, cells=tuple(cells)), "threefry2x32", InProcessWorkers())


@pytest.mark.parametrize("distribution", ["dpframe", "somebody"])
def test_whoever_reads_a_file_has_its_content_in_the_address(
    distribution: str, tmp_path: Path
) -> None:
    one, other, again = (
        planned(tmp_path / "table", text, distribution).passes[0].stream.group
        for text in ("1.0", "2.0", "1.0")
    )
    assert one == again != other


def test_who_wrongly_says_that_parameters_say_all_mixes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "table"
    document = {**spec({"use": "box"}, trials=64), "pair": {"use": "reading"}}

    def counted(text: str, trials: int, store: Store) -> Any:
        file.write_text(text)
        audit = {**document, "audit": {**document["audit"], "trials": trials}}
        (cell,) = cells(audit, plugins=[*BOXES, reading(file, True)], store=store)
        return cell["counts"]

    direct = counted("1.0", 128, Store(tmp_path / "other"))
    store = tmp_path / "one"
    assert counted("0.0625", 64, Store(store))[1] != direct[1]
    assert counted("1.0", 128, Store(store)) == direct


def test_a_digest_of_an_exception_does_not_depend_on_what_else_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = ValueError("same", 1)
    before = data_digest((error, 0))
    monkeypatch.setitem(copyreg.dispatch_table, ValueError, lambda value: (str, ("a traceback",)))
    assert data_digest((error, 0)) == before


def test_members_of_an_enumeration_have_one_digest_in_all_releases_of_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = [signal.SIGINT, signal.SIGTERM, re.ASCII | re.DOTALL]
    found = [data_digest((one, one)) for one in values]
    monkeypatch.setattr(
        enum.Enum, "__reduce_ex__", lambda self, _: (getattr, (type(self), self.name))
    )
    assert [data_digest((one, one)) for one in values] == found
    assert len(set(found)) == 3
