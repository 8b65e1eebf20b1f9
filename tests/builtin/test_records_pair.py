"""A table and one edit of it: every form, every file, and mistakes that say where they are."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.black_boxes import sample_in_this_process

import dpframe
from dpframe import HostMechanism, PureDP, SpecFile
from dpframe.builtin.pairs import Records
from dpframe.builtin.record_edits import RecordEdits
from dpframe.commands.audit import load
from dpframe.draw.value_digest import data_digest
from dpframe.draw.worker import plain_data
from dpframe.errors import SpecError
from dpframe.interfaces.pair import same, unmade
from dpframe.interfaces.plugin_files import beside
from dpframe.report.witness import as_toml
from dpframe.testing import check_pair

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = [[31, "m"], [47, "f"], [12, "m"]]


def made(**params: Any) -> Any:
    return Records.from_params({"edit": {"remove": 0}, **params})


# --- edits


@pytest.mark.parametrize(
    ("edit", "after", "adjacency"),
    [
        ({"replace": 1, "by": [9, "x"]}, [[31, "m"], [9, "x"], [12, "m"]], "replace one record"),
        ({"replace": -1, "by": {"c1": "x"}}, [*PEOPLE[:2], [None, "x"]], "replace one record"),
        ({"remove": 0}, PEOPLE[1:], "add or remove one record"),
        ({"remove": -1}, PEOPLE[:2], "add or remove one record"),
        ({"add": [1, "m"]}, [*PEOPLE, [1, "m"]], "add or remove one record"),
        ({"add": [1, "m"], "at": 0}, [[1, "m"], *PEOPLE], "add or remove one record"),
        ({"add": [{"missing": True}, ""]}, [*PEOPLE, [None, ""]], "add or remove one record"),
    ],
)
def test_one_edit(edit: Any, after: Any, adjacency: str) -> None:
    pair = made(table=PEOPLE, edit=edit)
    assert (pair.d0, pair.adjacency) == (PEOPLE, adjacency)
    assert same(pair.d1, after)
    check_pair(pair)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"replace": 3, "by": [1, "m"]}, "there is no record 3: the table has 3 records"),
        ({"replace": 0, "by": [1, "m", 2]}, r"has 3 values, the table 2 columns \(c0, c1\)"),
        ({"replace": 0, "by": {"age": 1}}, "there is no column age"),
        ({"add": [1, "m"], "at": 4}, "added at 4, but there are 3 records"),
        ({"add": [[1], "m"]}, "must not be a list"),
        ({"remove": -4}, "there is no record -4"),
    ],
)
def test_edits_that_do_not_go_with_the_table(edit: Any, says: str) -> None:
    with pytest.raises(dpframe.ParameterError, match=says) as found:
        made(table=PEOPLE, edit=edit)
    assert found.value.parameter == "edit"


@pytest.mark.parametrize(
    "edit", [{}, {"replace": 0}, {"remove": 0, "add": 1}, [0], {"remove": True}]
)
def test_what_is_no_edit(edit: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|whole numbers"):
        made(table=PEOPLE, edit=edit)


def test_all_records_of_one_user() -> None:
    visits = {"table": [["a", 1], ["b", 2], ["a", 3]], "columns": ["id", "x"], "user": "id"}
    gone = made(**visits, edit={"remove": 2})
    assert (gone.d1, gone.adjacency) == ([["b", 2]], "add or remove all records of one user")
    other = made(**visits, edit={"replace": 0, "by": [["c", 5], ["c", 6]]})
    assert other.d1 == [["c", 5], ["c", 6], ["b", 2]]
    assert other.adjacency == "replace all records of one user"
    for by, says in (
        ([["b", 1]], "already in the table"),
        ([["c", 1], ["d", 1]], "several users"),
        (["c", 1], "columns"),
        ([], "a list of records"),
    ):
        with pytest.raises(ValueError, match=says):
            made(**visits, edit={"add": by})
    with pytest.raises(ValueError, match="no column 'name'"):
        made(**{**visits, "user": "name"})


# --- forms


def test_every_form() -> None:
    table, edit = [[1, 0.5], [2, 0.25]], {"replace": 0, "by": [3, {"missing": True}]}

    def both(form: str, **more: Any) -> tuple[Any, Any]:
        pair = made(**{"table": table, "edit": edit, "form": form, "columns": ["a", "b"], **more})
        check_pair(pair)
        return pair.d0, pair.d1

    array = [[1.0, 0.5], [2.0, 0.25]]
    odd = [[3.0, math.nan], [2.0, 0.25]]
    assert same(both("auto"), (np.array(array), np.array(odd)))
    assert same(both("rows"), (table, [[3, None], [2, 0.25]]))
    assert same(both("dicts")[1], [{"a": 3, "b": None}, {"a": 2, "b": 0.25}])
    assert same(both("columns")[1], {"a": [3, 2], "b": [None, 0.25]})
    assert same(both("arrays")[1], {"a": np.array([3, 2]), "b": np.array([math.nan, 0.25])})
    assert same(both("xy")[1], (np.array([[3.0], [2.0]]), np.array([math.nan, 0.25])))
    whole = {"table": [1, 2], "columns": [], "form": "integers"}
    assert both(**whole, edit={"replace": 0, "by": 5})[1].dtype == np.int64
    assert both(**whole, edit={"replace": 0, "by": 0.5})[0].dtype == np.float64
    assert both(**whole, edit={"remove": 0})[1].shape == (1,)
    assert both("record", table=[1], columns=[], edit={"replace": 0, "by": "a"}) == (1, "a")
    assert both("record", table=[[1, 2]], edit={"replace": 0, "by": [1, 3]}) == ([1, 2], [1, 3])
    flags = both("auto", table=[True, False], columns=[], edit={"remove": 0})
    assert flags[0].dtype == flags[1].dtype == bool


def test_types_are_the_same_on_both_sides() -> None:
    """An edit must not show by the type of a whole column, which nobody would claim to hide."""
    for form in ("arrays", "xy", "integers"):
        one, other = (
            made(table=[[1, 2], [3, 4]], edit={"replace": 0, "by": [1, by]}, form=form)
            for by in (0.5, {"missing": True})
        )
        for pair in (one, other):
            leaves = [
                np.asarray(leaf).dtype for data in (pair.d0, pair.d1) for leaf in _leaves(data)
            ]
            assert leaves[: len(leaves) // 2] == leaves[len(leaves) // 2 :]


def _leaves(data: Any) -> list[Any]:
    return (
        list(data.values())
        if isinstance(data, dict)
        else list(data)
        if isinstance(data, tuple)
        else [data]
    )


def test_frames() -> None:
    pytest.importorskip("pandas")
    columns = {"age": [31, 47], "sex": ["m", {"missing": True}]}
    edit = {"replace": 0, "by": [{"missing": True}, "f"]}
    pair = made(table=columns, edit=edit, form="frame")
    check_pair(pair)
    assert pair.d0.dtypes.equals(pair.d1.dtypes)
    assert pair.d1["sex"].isna().tolist() == [False, True]
    none = made(table={"age": [31], "sex": ["m"]}, form="frame")
    assert list(none.d1.columns) == ["age", "sex"]
    assert none.d1.dtypes.equals(none.d0.dtypes)


@pytest.mark.parametrize(
    ("params", "where", "says"),
    [
        ({}, "table", "or in a `file`"),
        ({"table": [1], "file": "a.csv"}, "table", "or in a `file`"),
        ({"table": [[1, 2], [3]]}, "table", "record 1 is not as long"),
        ({"table": [[1, [2]]]}, "table", "record 0, column c1: is a list"),
        ({"table": [[1, 2]], "columns": ["a"]}, "table", "2 columns, but 1 column names"),
        ({"table": [[1, 2]], "columns": ["a", "a"]}, "table", "the same name"),
        ({"table": "text"}, "table", "not a table"),
        ({"table": {"a": [1], "b": [1, 2]}}, "table", "equal length"),
        ({"table": ["a", "b"], "form": "array"}, "form", "'a' is not a number"),
        ({"table": [1, 2], "form": "xy"}, "form", "two columns"),
        ({"table": [1, 2], "form": "record"}, "form", "one record"),
    ],
)
def test_mistakes_have_a_place(params: Any, where: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as found:
        made(**params)
    if isinstance(found.value, dpframe.ParameterError):
        assert found.value.parameter == where


# --- files


def test_files(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        'age,name,in,x\n31,Zoë,true,1\n,"a,b",False,2.5\n', "utf-8"
    )
    (tmp_path / "numbers.csv").write_text("1,2\r\n3,nan\r\n")
    np.save(tmp_path / "flat.npy", np.arange(3.0))
    np.save(tmp_path / "two.npy", np.eye(2, dtype=int))
    np.save(tmp_path / "named.npy", np.array([(1, 2.0)], [("a", int), ("b", float)]))
    np.savez(tmp_path / "parts.npz", x=np.eye(2), y=np.array(["a", "b"]))
    with beside(tmp_path):

        def rows(file: str, **more: Any) -> Any:
            pair = made(file=file, **more)
            check_pair(pair)
            return pair.rows[0]

        assert rows("people.csv") == ((31, "Zoë", True, 1.0), (None, "a,b", False, 2.5))
        assert same(rows("numbers.csv"), ((1, 2.0), (3, math.nan)))
        assert made(file="numbers.csv", columns=["a", "b"]).d0.shape == (2, 2)
        assert same(made(file="flat.npy").d0, np.arange(3.0))
        assert rows("two.npy") == ((1, 0), (0, 1))
        assert made(file="named.npy", form="dicts").d0 == [{"a": 1, "b": 2.0}]
        assert rows("parts.npz") == ((1.0, 0.0, "a"), (0.0, 1.0, "b"))
        assert made(file="people.csv").params() == {"file": "people.csv", "edit": {"remove": 0}}


def test_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": [1, 2], "b": ["x", None]}).to_parquet(tmp_path / "t.parquet")
    assert made(file=str(tmp_path / "t.parquet")).rows[0] == ((1, "x"), (2, None))


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ValueError, match=r"pip install 'dpframe\[pandas\]'"):
        made(file=str(tmp_path / "t.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("no.csv", None, "no such file"),
        ("t.xlsx", b"", "are read from .csv"),
        ("t.csv", b"", "is empty"),
        ("t.csv", b"a,b\n1\n", "record 0 has 1 cells"),
        ("t.csv", b"a,a\n1,2\n", "the same name"),
        ("t.csv", b"\xff\xfe\x00", "t.csv"),
        ("t.npy", b"nonsense", "t.npy"),
        ("t.npz", b"nonsense", "t.npz"),
    ],
)
def test_files_that_hold_no_table(tmp_path: Path, name: str, content: Any, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with beside(tmp_path), pytest.raises(ValueError, match=says):
        made(file=name)


def test_an_array_that_holds_code_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([object()]), allow_pickle=True)
    with beside(tmp_path), pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        made(file="t.npy")


def test_a_file_is_relative_to_its_spec(tmp_path: Path) -> None:
    one, other = SpecFile("t.csv", tmp_path), SpecFile("t.csv")
    assert one != other
    assert one == "t.csv"
    assert one.path == tmp_path / "t.csv"
    assert dpframe.SpecFile.__get_pydantic_core_schema__ is not None


def test_a_spec_reads_no_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link.csv").symlink_to(tmp_path / "t.csv")
    for name in ("../t.csv", str(tmp_path / "t.csv"), "link.csv"):
        with (
            beside(tmp_path / "inside"),
            pytest.raises(ValueError, match="only files in its own folder"),
        ):
            made(file=name)
    assert made(file=str(tmp_path / "t.csv"))  # from Python, without a spec file


# --- in an audit


class Mean(HostMechanism, name="records-mean"):
    """A mean with noise for one record of ten."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> Any:
        return PureDP(self.epsilon)

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        return np.mean(data) + rng.laplace(scale=1 / len(data), size=n)


def spec(folder: Path, pair: str, trials: int = 2000) -> Path:
    path = folder / "spec.toml"
    path.write_text(
        f"""schema = 1
[audit]
name = "records"
trials = {trials}
[pair]
use = "records"
{pair}
[[mechanism]]
use = "records-mean"
[[attack]]
use = "identity"
[[estimator]]
use = "betting"
"""
    )
    return path


@pytest.mark.usefixtures("coarse_bounds")
def test_a_spec_beside_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    (tmp_path / "data.csv").write_text("x\n" + "0\n" * 10)
    path = spec(tmp_path, 'params.file = "data.csv"\nparams.edit = { replace = 3, by = [50.0] }')
    (cell,) = dpframe.audit(str(path), plugins=[Mean]).cells
    assert cell.verdict == "violated"
    assert cell.pair.params == {"file": "data.csv", "edit": {"replace": 3, "by": [50.0]}}
    assert str(tmp_path) not in as_toml(cell)
    digest = cell.pair.digest
    (tmp_path / "data.csv").write_text("x\n" + "0\n" * 11)
    (other,) = dpframe.audit(str(path), plugins=[Mean]).cells
    assert digest != other.pair.digest


@pytest.mark.parametrize(
    ("pair", "line", "says"),
    [
        ('params.file = "no.csv"\nparams.edit = { remove = 0 }', 7, "no.csv: no such file"),
        ("params.table = [1, 2]\nparams.edit = { remove = 2 }", 8, "there is no record 2"),
        ("params.table = [1, 2]\nparams.edit = { drop = 2 }", 8, "must be"),
        (
            "params.table = [[1, 2], [3]]\nparams.edit = { remove = 2 }",
            7,
            "record 1 is not as long",
        ),
        ("params.table = [1]\nparams.edit = { remove = 0 }\nparams.form = 'xy'", 9, "two columns"),
    ],
)
def test_mistakes_in_a_spec_have_a_line(tmp_path: Path, pair: str, line: int, says: str) -> None:
    with pytest.raises(SpecError) as found:
        dpframe.audit(str(spec(tmp_path, pair)), plugins=[Mean])
    assert f"spec.toml:{line}: " in str(found.value)
    assert says in str(found.value)


# --- as the author's code gave them


@pytest.mark.parametrize(
    "table",
    [
        np.array([[0.5], [1.0]]),
        np.array([0.5, 1.0]),
        np.array([[0.5], [1.0]], np.float32),
        np.array([[1], [2]], np.int16),
        {"a": np.array([1, 2], np.uint8), "b": np.array([0.5, 1.0], np.float16)},
        [[1.0], [2.0]],
        [1.0, 2.0],
    ],
)
def test_arrays_keep_their_axes_and_types(table: Any) -> None:
    params = dpframe.records_params(table, adjacency="replace", beyond=False)
    edits = RecordEdits.from_params(params)
    for pair in list(edits.propose(np.random.default_rng(0), ()))[:8]:
        for one in (pair, type(pair).from_params(pair.params())):
            for data in (one.d0, one.d1):
                both: Any = [(data, table)]
                if isinstance(table, dict):
                    both = zip(data.values(), table.values(), strict=True)
                for own, given in both:
                    assert type(own) is type(given)
                    assert np.shape(own)[1:] == np.shape(given)[1:]
                    assert np.asarray(own).dtype == np.asarray(given).dtype
    assert RecordEdits.from_params(edits.params()) == edits


def test_a_type_that_does_not_hold_the_cells_gives_way_on_both_sides() -> None:
    edit = {"replace": 0, "by": [300]}
    pair = made(table=[[1], [2]], edit=edit, form="integers", types=["uint8"])
    assert (pair.d0.dtype, pair.d1.dtype) == (np.int64, np.int64)
    with pytest.raises(ValueError, match="1 columns, but 2 types"):
        Records.from_params({"table": [1], "edit": {"remove": 0}, "types": ["int8", "int8"]})


@pytest.fixture
def no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)


FRAME = {
    "table": {"age": [31, 47, 12], "sex": ["m", "f", "m"]},
    "form": "frame",
    "types": ["float32", 'category["m", "f", "x"]'],
}


@pytest.mark.usefixtures("no_pandas")
def test_a_frame_for_a_box_elsewhere_takes_no_pandas_here(tmp_path: Path) -> None:
    pair = Records.from_params({**FRAME, "edit": {"replace": 0, "by": [200, "unknown"]}})
    pair.check()
    assert "needs pandas" in str(unmade(pair))
    age, sex = pair.d1.columns
    assert (age[0], age[1].tolist()) == ("float32", [200.0, 47.0, 12.0])
    assert sex == ["category", [3, 1, 0], ["m", "f", "x", "unknown"], False]
    assert data_digest((pair.d0, pair.d1)) != data_digest((pair.d0, pair.d0))
    RecordEdits.from_params({**FRAME, "adjacency": "replace"})
    box = tmp_path / "box.py"
    box.write_text("def prepare(params, data):\n    return lambda: 0\n")
    elsewhere = {"use": "program", "params": {"module": str(box)}}
    tables = {
        "schema": 1,
        "audit": {"name": "t", "trials": 100},
        "search": {"use": "records", "params": {**FRAME, "adjacency": "replace"}},
    }
    assert len(load({**tables, "mechanism": [elsewhere]}, plugins=[box]).cells) == 1
    with pytest.raises(SpecError, match="needs pandas"):
        load({**tables, "mechanism": [{"use": "records-mean"}]}, plugins=[Mean])


def test_a_frame_made_elsewhere_is_the_one_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    params = {**FRAME, "edit": {"replace": 0, "by": [200, "x"]}}
    here = Records.from_params(params).d1
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        packed = plain_data.pack(Records.from_params(params).d1)
    pandas.testing.assert_frame_equal(plain_data.unpack(packed), here)
    given = pandas.DataFrame({"age": [1.0, 2.0], "sex": pandas.Categorical(["m", "f"])})
    own = dpframe.records_params(given.astype({"age": "float32"}), adjacency="replace")
    (pair, *_) = RecordEdits.from_params(own).propose(np.random.default_rng(0), ())
    assert [str(dtype) for dtype in pair.d0.dtypes] == ["float32", "category"]
