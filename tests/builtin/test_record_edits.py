"""Edits of a table: each is one, none comes twice, and what breaks libraries comes first."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import tomli
from hypothesis import given, settings, strategies as st
from support.black_boxes import sample_in_this_process
from support.tiers import mostly_slow

import dpframe
from dpframe import Earned, HostMechanism, PureDP, records_params
from dpframe.builtin.record_edits import RecordEdits
from dpframe.common.text import toml
from dpframe.draw.value_digest import data_digest
from dpframe.interfaces.pair import same
from dpframe.interfaces.plain import same_cell
from dpframe.report.findings import caveats
from dpframe.report.witness import _read, as_toml
from dpframe.testing import check_neighbourhood

AGES = {"name": "age", "low": 0, "high": 100, "integer": True}
SEXES = {"name": "sex", "categories": ["m", "f", "x"]}
PEOPLE = [[31, "m"], [47, "f"], [12, "m"], [80, "m"]]
TWO: dict[str, Any] = {"table": PEOPLE, "columns": ["age", "sex"], "schema": [AGES, SEXES]}
UNIT = [{"low": 0, "high": 1}]
ONE: dict[str, Any] = {"table": [0.1, 0.4, 0.5, 0.9], "schema": UNIT}


def made(**params: Any) -> RecordEdits:
    return RecordEdits.from_params({"adjacency": "either", **params})


def proposed(neighbourhood: RecordEdits, calls: int = 3, seed: int = 0) -> list[list[Any]]:
    rng, history, found = np.random.default_rng(seed), [], []
    for _ in range(calls):
        pairs = list(neighbourhood.propose(rng, tuple(history)))
        found.append(pairs)
        history += [Earned(pair, 100, at * 7 % 5 / 1000) for at, pair in enumerate(pairs)]
    return found


def flat(calls: list[list[Any]]) -> list[Any]:
    return list(itertools.chain(*calls))


def key(rows: Any) -> Any:
    return repr(rows)


def distance(one: Any, other: Any) -> tuple[int, int]:
    """Records that differ at the same place; and whether one list is the other without one."""
    moved = len(other) - len(one)
    if moved == 0:
        return sum(not all(map(same_cell, a, b)) for a, b in zip(one, other, strict=True)), 0
    short, long = sorted((one, other), key=len)
    for at in range(len(long)):
        if key((*long[:at], *long[at + 1 :])) == key(short):
            return 0, moved
    return 99, moved


CELLS = st.sampled_from([0, 1, -3, 0.5, -0.0, math.nan, 1e30, "a", "", None, True, 2**63])


@pytest.mark.parametrize("adjacency", ["replace", "add-remove", "either"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS), min_size=0, max_size=4),
    form=st.sampled_from(
        ["auto", "array", "integers", "rows", "dicts", "columns", "arrays", "xy", "record"]
    ),
    beyond=st.booleans(),
    any_size=st.sampled_from([None, True, False]),
)
def test_every_pair_is_one_edit_and_comes_once(
    adjacency: str, rows: Any, form: str, beyond: bool, any_size: Any
) -> None:
    from dpframe.interfaces.plain import frozen, written

    params = {"table": written(frozen(rows)), "columns": ["a", "b"], "form": form}
    try:
        edits = made(**params, adjacency=adjacency, beyond=beyond, any_size=any_size, batch=20)
    except dpframe.ParameterError as refused:
        assert refused.parameter == "form"  # noqa: PT017
        return
    seen = set()
    for pair in flat(proposed(edits)):
        one, other = pair.rows
        differ, moved = distance(one, other)
        assert (differ, abs(moved)) in {"replace": [(1, 0)], "add-remove": [(0, 1)]}.get(
            adjacency, [(1, 0), (0, 1)]
        )
        assert pair.adjacency == ("add or remove one record" if moved else "replace one record")
        if any_size is False:
            assert len(one) == len(rows)
        both = frozenset(data_digest((data, None)) for data in (pair.d0, pair.d1))
        assert len(both) == 2
        assert both not in seen
        seen.add(both)
        assert pair.description


@settings(max_examples=4, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000))
def test_the_same_randomness_gives_the_same(seed: int) -> None:
    for params in (ONE, TWO):
        calls = [proposed(made(**params), calls=3, seed=seed) for _ in range(2)]
        assert calls[0] == calls[1]


def test_pairs_are_the_same_after_toml() -> None:
    for params in (ONE, TWO, {"table": ["a", "nan", "b"]}):
        for pair in flat(proposed(made(**params), calls=2)):
            again = type(pair).from_params(pair.params())
            text = "\n".join(f"{name} = {toml(_read(v))}" for name, v in pair.params().items())
            written = type(pair).from_params(tomli.loads(text))
            for back in (again, written):
                assert back == pair
                assert same((back.d0, back.d1), (pair.d0, pair.d1))


@pytest.mark.parametrize("adjacency", mostly_slow(["replace", "add-remove", "either"], ("either",)))
def test_it_keeps_what_is_asked_of_all(adjacency: str) -> None:
    for params in (ONE, TWO):
        found = check_neighbourhood(made(**params, adjacency=adjacency))
        assert {one.result for one in found} <= {"kept", "left out"}
        assert [f.promise for f in found if f.result == "left out"] == [
            "all pairs have one shape and type, if declared"
        ]


def test_inside_of_the_schema_where_that_is_wanted() -> None:
    for pair in flat(proposed(made(**TWO, beyond=False), calls=4)):
        for age, sex in itertools.chain(*pair.rows):
            assert isinstance(age, int)
            assert 0 <= age <= 100
            assert sex in ("m", "f", "x")
    beyond = {repr(age) for pair in flat(proposed(made(**TWO))) for (age, _) in pair.rows[1]}
    assert {"nan", "1e+30", "inf"} <= beyond
    assert not {"None", "'a'", "True"} & beyond
    cells = [(age, sex) for pair in flat(proposed(made(**TWO))) for age, sex in pair.rows[1]]
    assert any(sex == "unknown" for _, sex in cells)
    assert all(isinstance(sex, str) for _, sex in cells)


def kinds(params: dict[str, Any]) -> set[str]:
    """Return the kinds of cells outside the schema that come in many pairs."""
    found = set()
    for pair in flat(proposed(made(**params), calls=4)):
        for age, sex in itertools.chain(*pair.rows):
            if age is None or age != age:
                found.add("nan")
            elif isinstance(age, float | int) and not 0 <= age <= 100:
                found.add("bounds")
            if sex not in ("m", "f", "x"):
                found.add("unknown")
    return found


@pytest.mark.parametrize(
    ("beyond", "schema", "found"),
    [
        ({"nan": False}, {}, {"bounds", "unknown"}),
        ({"out_of_bounds": False}, {}, {"nan", "unknown"}),
        ({"unknown_categories": False}, {}, {"nan", "bounds"}),
        ({"nan": True, "out_of_bounds": False, "unknown_categories": False}, {}, {"nan"}),
        (None, {"nan": False}, {"bounds", "unknown"}),
        (True, {"nan": False}, {"bounds", "unknown"}),
        (False, {"nan": True}, {"nan"}),
        (None, {"nan": False, "out_of_bounds": False}, {"unknown"}),
        (True, {}, {"nan", "bounds", "unknown"}),
        (False, {}, set()),
    ],
)
def test_each_kind_of_cell_outside_of_the_schema_has_a_switch(
    beyond: Any, schema: Any, found: set[str]
) -> None:
    switched = {**TWO, "schema": [{**AGES, **schema}, SEXES], "beyond": beyond}
    assert kinds(switched) == found
    assert made(**made(**switched).params()) == made(**switched)


def test_a_missing_value_is_one_with_nan() -> None:
    mistyped = {**TWO, "mistyped": True, "schema": [{**AGES, "nan": False}, SEXES]}
    assert "nan" not in kinds(mistyped)
    with pytest.raises(ValueError, match="column age: nan is false"):
        made(**{**mistyped, "table": [*PEOPLE, [None, "m"]]})


def test_a_pair_names_what_it_needs_and_how_to_search_without() -> None:
    edits = made(**TWO, beyond={"unknown_categories": True})
    needs = {pair.description.partition(";")[0]: edits.needs(pair) for pair in first_of(edits)}
    without = {"beyond": {"unknown_categories": True, "nan": False}}
    assert needs["NaN in column age"] == {"NaN or a missing value": without}
    far = {"beyond": {"unknown_categories": True, "out_of_bounds": False}}
    assert needs["1e30 in column age"] == {"a number out of bounds": far}
    assert list(needs["an unknown category in column sex"]) == ["an unknown category"]
    assert needs["few records"] == {}
    for asked in needs.values():
        for parameters in asked.values():
            less = made(**{**TWO, **parameters})
            assert all(list(less.needs(pair)) != list(asked) for pair in first_of(less))


def first_of(edits: RecordEdits) -> list[Any]:
    return list(edits.propose(np.random.default_rng(0), ()))


def test_a_larger_table_is_named_as_a_need() -> None:
    edits = made(**ONE, adjacency="replace")
    larger = [pair for pair in first_of(edits) if len(pair.rows[0]) > 4]
    assert larger
    for pair in first_of(edits):
        assert ("more records than the table" in edits.needs(pair)) == (pair in larger)
    without = edits.needs(larger[0])["more records than the table"]
    assert all(
        len(p.rows[0]) == 4 for p in first_of(made(**ONE, **{"adjacency": "replace", **without}))
    )
    assert not any(made(**ONE).needs(pair) for pair in larger)  # any number is allowed


def groups_of(rows: Any) -> tuple[int, ...]:
    """Return the largest number of equal cells of each column."""
    return tuple(max(map(cells.count, cells)) for cells in zip(*rows, strict=True))


def test_larger_tables_have_groups_of_equal_and_different_sizes() -> None:
    for adjacency in ("replace", "add-remove"):
        pairs = first_of(made(**TWO, adjacency=adjacency, beyond=False))
        found = {groups_of(pair.rows[0]) for pair in pairs if len(pair.rows[0]) == 48}
        assert any(set(sizes) <= {24, 25} for sizes in found)
        assert any(max(sizes) > 28 for sizes in found)
    later = flat(proposed(made(**TWO, adjacency="replace", beyond=False), calls=6))
    assert len({groups_of(p.rows[0]) for p in later if len(p.rows[0]) > 4}) > 10


def test_other_types_where_that_is_wanted() -> None:
    mistyped = flat(proposed(made(**TWO, mistyped=True), calls=4))
    found = {repr(cell) for pair in mistyped for row in pair.rows[1] for cell in row}
    assert {"None", "'a'", "nan"} <= found
    missing = {**TWO, "table": [*PEOPLE, [None, None]]}  # it has them: they are no other type
    added = made(**missing).propose(np.random.default_rng(0), ())
    assert any("missing" in pair.description for pair in added)


def test_a_local_randomiser_is_for_the_values_of_its_domain() -> None:
    local = {"table": [0], "schema": [{"categories": [0, 1, 2]}], "adjacency": "replace"}
    assert {p.rows[1][0][0] for p in flat(proposed(made(**local)))} <= {0, 1, 2}
    whatever = {"table": [0], "schema": local["schema"], "form": "record"}
    assert {p.d1 for p in flat(proposed(made(**whatever)))} <= {0, 1, 2}
    further = made(**local, beyond=True, form="rows")
    assert -1 in {p.rows[1][0][0] for p in flat(proposed(further))}


def test_no_record_goes_where_only_records_are_replaced() -> None:
    """Noise may be made for their number: for fewer it may be too small, rarely for more."""
    replaced = {**ONE, "adjacency": "replace"}
    grown = {len(r) for p in flat(proposed(made(**replaced), calls=4)) for r in p.rows}
    assert min(grown) == 4 < max(grown)
    for keeps in ({"any_size": False}, {"adjacency": "zero-out"}):
        calls = proposed(made(**{**replaced, **keeps}), calls=4)
        assert {len(r) for p in flat(calls) for r in p.rows} == {4}
    free = made(**ONE, adjacency="replace", any_size=True)
    assert {1, 2, 4} <= {len(r) for p in proposed(free)[0] for r in p.rows}
    sizes = {tuple(map(len, p.rows)) for p in proposed(made(**ONE, adjacency="add-remove"))[0]}
    assert {(1, 0), (2, 1), (4, 3), (4, 5)} <= sizes


def test_children_are_of_those_that_earned() -> None:
    edits = made(**ONE)
    first = list(edits.propose(np.random.default_rng(0), ()))
    odd = next(pair for pair in first if "1e30" in pair.description)
    history = [Earned(pair, 100, 1.0 if pair == odd else 0.0) for pair in first]
    children = list(edits.propose(np.random.default_rng(1), history))[: edits.batch // 2]
    near = [p for p in children if "1e+30" in repr(p.rows)]
    assert len(near) > len(children) / 3


def test_users() -> None:
    visits = {
        "table": [["a", 1], ["b", 2], ["a", 3]],
        "columns": ["id", "x"],
        "schema": [{"name": "id", "user": True}, {"name": "x", "low": 0, "high": 5}],
    }
    for adjacency in ("replace", "add-remove", "either"):
        heavy = 0
        for pair in flat(proposed(made(**visits, adjacency=adjacency))):
            people = [
                {name: [r for r in rows if r[0] == name] for name, *_ in rows} for rows in pair.rows
            ]
            names = {*people[0], *people[1]}
            changed = [n for n in names if key(people[0].get(n)) != key(people[1].get(n))]
            gone = [n for n in changed if n not in people[1]]
            come = [n for n in changed if n not in people[0]]
            assert len(changed) == 1 or (len(gone) == len(come) == 1 and len(changed) == 2)
            assert "of one user" in pair.adjacency
            heavy = max(heavy, *(len(rows) for own in people for rows in own.values()))
        assert heavy >= 50


# --- what breaks libraries comes among the first


def first(**params: Any) -> list[Any]:
    return list(made(**params).propose(np.random.default_rng(0), ()))


def has(pairs: list[Any], told: Any) -> bool:
    """True if a pair is of a kind, in either order."""
    return any(told(*pair.rows) or told(*pair.rows[::-1]) for pair in pairs)


def column(rows: Any, at: int = 0) -> list[Any]:
    return [row[at] for row in rows]


def test_the_first_user_may_have_what_the_others_have() -> None:
    """A library that counts a value once, for whoever comes first, has more without that user."""
    table = [["u1", "a"], ["u2", "b"], ["u3", "b"]]
    schema = [{"name": "id", "user": True}, {"name": "g", "categories": ["a", "b", "c"]}]
    few = made(table=table, schema=schema, adjacency="add-remove")

    def count(rows: Any) -> int:
        owner: dict[str, str] = {}
        for user, value in rows:
            owner.setdefault(value, user)
        return len(set(owner.values()))

    changes = [abs(count(p.d0) - count(p.d1)) for p in few.propose(np.random.default_rng(0), ())]
    assert max(changes) >= 2


def test_a_nan_record() -> None:
    for adjacency in ("replace", "add-remove"):
        for form in ("array", "rows"):
            pairs = first(**ONE, adjacency=adjacency, form=form)
            assert has(pairs[:3], lambda d0, d1: any(math.isnan(x) for x in column(d1)))


def test_a_rare_label() -> None:
    rows = [[i / 20, i % 2] for i in range(20)]
    for schema in ([], [{"low": 0, "high": 1}, {"categories": [0, 1]}]):
        pairs = first(table=rows, schema=schema, adjacency="replace")
        assert has(
            pairs, lambda d0, d1: {*column(d0, 1)} == {0, 1} and len({*column(d1, 1)} - {0, 1}) == 1
        )


def test_one_large_value_among_zeros() -> None:
    rows = [[float(i % 90), 0.5] for i in range(10)]
    schema = [{"low": 0, "high": 100}, {"low": 0, "high": 1}]
    pairs = first(table=rows, schema=schema, adjacency="replace")
    assert has(pairs, lambda d0, d1: set(column(d0)) == {0.0} and max(column(d1)) == 100)


def test_the_last_bit() -> None:
    as_columns = first(table=[[0] * 8], schema=[{"categories": [0, 1]}] * 8, adjacency="replace")
    assert has(as_columns[:9], lambda d0, d1: (sum(d0[0]), d1[0][-1]) == (0, 1))
    as_records = first(table=[0] * 8, schema=[{"categories": [0, 1]}], adjacency="replace")
    assert has(as_records, lambda d0, d1: column(d0) == [0] * 8 and column(d1) == [0] * 7 + [1])


def test_values_near_where_floats_are_rounded() -> None:
    low = 2.0**50
    rows = [low + i % 3 / 2 for i in range(1024)]
    pairs = first(table=rows, schema=[{"low": low, "high": low + 1}], adjacency="replace")
    quarter = [low + 0.25] * 1023
    assert has(pairs[:14], lambda d0, d1: column(d0)[1:] == quarter and column(d1)[0] == low + 0.5)


def test_a_group_that_is_missing() -> None:
    rows = [[i % 3, i / 10] for i in range(10)]
    schema = [{"categories": [0, 1, 2]}, {"low": 0, "high": 1}]
    for adjacency in ("add-remove", "replace"):
        pairs = first(table=rows, schema=schema, adjacency=adjacency)
        assert has(pairs, lambda d0, d1: {*column(d0)} == {0, 1} and {*column(d1)} == {0})


def test_values_far_outside() -> None:
    pairs = first(table=[1.0] * 20, adjacency="replace")
    assert has(pairs[:6], lambda d0, d1: max(column(d0)) == 1 and 1e6 < max(column(d1)) < math.inf)
    both = first(table=[[0.1, 0.2]] * 5, schema=UNIT * 2, adjacency="replace")
    assert has(both, lambda d0, d1: max(max(row) for row in d1) > 100)


def test_empty_tables_come_after_those_that_libraries_accept() -> None:
    for adjacency in ("add-remove", "either"):
        for pairs in proposed(made(**ONE, adjacency=adjacency)):
            empty = [not all(pair.rows) for pair in pairs]
            assert empty == sorted(empty)
    assert any(not all(pair.rows) for pair in first(**ONE, adjacency="add-remove"))  # not vacuous


def test_one_record_more_among_few() -> None:
    pairs = first(**ONE, adjacency="add-remove")
    assert has(pairs, lambda d0, d1: (len(d0), len(d1)) == (3, 2))
    assert has(pairs, lambda d0, d1: (len(d0), len(d1)) == (1, 0))


def test_numbers_of_records_at_which_libraries_hide_a_group() -> None:
    sizes = [
        (len(pair.rows[0]), len(pair.rows[1])) for pair in first(**ONE, adjacency="add-remove")
    ]
    assert {(5, 4), (6, 5), (10, 9), (11, 10)} <= set(sizes)
    pairs = first(table=["a", "b"], adjacency="replace")
    for of in (5, 6, 10, 11):
        changed = of, of - 1
        assert has(
            pairs, lambda d0, d1, c=changed: (column(d0).count("a"), column(d1).count("a")) == c
        )


@pytest.mark.parametrize(
    ("table", "schema", "values"),
    [
        (["a"], [{"categories": ["a", "b", "c"]}], ["a", "b", "c"]),
        ([False], [], [False, True]),
        ([0], [{"categories": [0, 1]}], [0, 1]),
        ([0.0], UNIT, [0.0, 1.0]),
    ],
)
def test_any_two_values_of_a_local_randomiser(table: Any, schema: Any, values: Any) -> None:
    edits = made(table=table, schema=schema, adjacency="replace", form="record", beyond=False)
    found = {frozenset({pair.d0, pair.d1}) for pair in flat(proposed(edits))}
    for one, other in itertools.combinations(values, 2):
        assert frozenset({one, other}) in found


def test_a_median_that_jumps() -> None:
    for adjacency in ("replace", "add-remove"):
        pairs = first(**ONE, adjacency=adjacency)
        assert has(
            pairs[:12],
            lambda d0, d1: sorted(column(d0)) == [0, 0, 1, 1] and sum(column(d1)) == 3,
        )


def test_few_of_many_categories_come_first() -> None:
    many = {"table": ["k0"], "schema": [{"categories": [f"k{n}" for n in range(40)]}]}
    pairs = first(**many, adjacency="replace", form="record")
    assert [pair.d1 for pair in pairs[:3]] == ["k1", "k20", "k39"]


def test_texts_and_whole_numbers() -> None:
    texts = {
        repr(r[1])
        for p in first(**TWO, adjacency="replace", batch=100, mistyped=True)
        for r in p.rows[1]
    }
    for odd in (repr("unknown"), "None", repr(""), "nan", repr("m ")):
        assert odd in texts
    ages = {
        r[0] for p in first(**TWO, adjacency="replace", batch=100, mistyped=True) for r in p.rows[1]
    }
    assert {2**31, 2**53 + 1, 2**63 - 1, -(2**63)} <= ages


# --- mistakes


@pytest.mark.parametrize(
    ("params", "where", "says"),
    [
        ({}, "table", "or in a `file`"),
        ({"file": "no.csv"}, "file", "no such file"),
        ({"table": [[1, 2]], "schema": [{"name": "c"}]}, "schema", "no column c; there are c0, c1"),
        ({"table": [[1, 2]], "schema": [{}]}, "schema", "1 entries without names"),
        (
            {"table": [5], "schema": UNIT},
            "schema",
            "column c0 does not fit the table: record 0 has 5",
        ),
        ({"table": ["a"], "schema": UNIT}, "schema", "categories have no bounds"),
        ({"table": [1], "schema": [{"low": 1, "high": 1}]}, "schema", "is not below"),
        ({"table": [[1, 2]], "schema": [{"user": True}] * 2}, "schema", "two columns identify"),
        ({"table": [1, 2], "form": "record"}, "form", "a table of one record, but this one has 2"),
        ({"table": ["a"], "form": "array"}, "form", "no edit of this table"),
        ({"table": [0.0] * (1 << 16)}, "table", "set `first`"),
        ({"table": [1], "schema": [{"lwo": 1}]}, None, "lwo"),
    ],
)
def test_mistakes(params: Any, where: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as found:
        made(**params)
    assert getattr(found.value, "parameter", None) == where


def test_an_adjacency_has_to_be_said() -> None:
    with pytest.raises(ValueError, match="adjacency"):
        RecordEdits.from_params({"table": [1]})


# --- tables of a program


@pytest.mark.parametrize(
    ("table", "form"),
    [
        ([1.0, 2.0], "rows"),
        ([[1, "a"], [2, "b"]], "rows"),
        ([{"a": 1}, {"a": None}], "dicts"),
        ({"a": [1, 2], "b": ["x", None]}, "columns"),
        ({"a": np.array([1, 2]), "b": np.array([0.5, math.nan])}, "arrays"),
        (np.array([0.5, 1.0]), "array"),
        (np.array([[1, 2], [3, 4]]), "integers"),
        (np.array([True, False]), "array"),
        ((np.eye(2), np.array([0, 1])), "xy"),
        ("yes", "record"),
        (3, "record"),
    ],
)
def test_the_mechanism_gets_what_the_program_has(table: Any, form: str) -> None:
    params = records_params(table, adjacency="replace", beyond=True)
    assert params["form"] == form
    pairs = RecordEdits.from_params(params).propose(np.random.default_rng(0), ())
    assert any(same(pair.d0, table) for pair in pairs)


def test_a_single_column_of_users() -> None:
    users = made(table=["a", "b"], schema=[{"user": True}], form="rows", any_size=False)
    for pair in flat(proposed(users)):
        pair.check()
        assert pair.d0
        assert "of one user" in pair.adjacency


def test_a_frame_stays_one() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.5, 2.0], "b": ["x", "y"]})
    params = records_params(
        frame, adjacency="replace", schema=[{"name": "a", "low": np.float64(0)}]
    )
    for pair in RecordEdits.from_params(params).propose(np.random.default_rng(0), ()):
        assert list(pair.d0.columns) == list(pair.d1.columns) == ["a", "b"]


# --- in a search


class NaiveMean(HostMechanism, name="naive-mean"):
    """Noise for data between 0 and 1; they are not clipped where `clips` is false."""

    clips: bool = False

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        data = np.clip(np.nan_to_num(data), 0, 1) if self.clips else np.minimum(data, 1e3)
        return np.nan_to_num(np.mean(data) + rng.laplace(scale=1 / len(data), size=n))


@pytest.mark.slow
def test_a_search_over_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    table = {"table": [0.1, 0.2, 0.3, 0.4], "schema": UNIT, "adjacency": "replace", "batch": 8}
    spec = {
        "schema": 1,
        "audit": {"name": "t", "trials": 20_000, "confidence": 0.99},
        "search": {"use": "records", "params": table},
        "mechanism": [
            {"use": "naive-mean", "label": "naive"},
            {"use": "naive-mean", "label": "clipped", "params": {"clips": True}},
        ],
        "attack": [{"use": "identity"}],
        "run": {"chunk": 256, "stop": "decided"},
    }
    naive, clipped = dpframe.audit(spec, plugins=[NaiveMean]).cells
    assert (naive.verdict, clipped.verdict != "violated") == ("violated", True)
    assert naive.pair.use == "records"
    assert any("on the pair “" in note for note in naive.estimate.notes)


def test_a_table_without_names_takes_those_of_its_schema() -> None:
    ages = [{"name": "age", "low": 0, "high": 99}, {"name": "sex", "categories": ["m", "f"]}]
    given: Any = {"table": [[31, "m"], [64, "f"]], "schema": ages, "adjacency": "replace"}
    found = RecordEdits.from_params(given)
    assert found.propose(np.random.default_rng(0), ())[0].columns == ("age", "sex")
    with pytest.raises(ValueError, match="there is no column age"):
        RecordEdits.from_params({**given, "columns": ["years", "sex"]})
    with pytest.raises(ValueError, match="there is no column age"):
        RecordEdits.from_params({**given, "table": [[31], [64]]})


def test_a_bound_of_zero_is_a_parameter() -> None:
    schema = [{"low": 0.0, "high": 1.0, "integer": True}, {"categories": [0, False]}, {"high": 0.0}]
    rows = [[0, False, -1.0], [1, 0, 0.0]]
    found = made(table=rows, schema=schema).params()["schema"]
    assert found == schema
    assert made(table=rows, schema=found) == made(table=rows, schema=schema)


class Checked(HostMechanism, name="checked"):
    """A correct sum of data between 0 and 1 which are never NaN: its domain says so."""

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> float:
        if np.isnan(data).any():
            raise ValueError("NaN is outside the domain")
        return float(np.clip(data, 0, 1).sum() + rng.laplace())


def test_a_violation_outside_of_the_schema_says_so_and_how_to_search_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample_in_this_process(monkeypatch)
    table = {"table": [0.1, 0.2, 0.3, 0.4], "schema": UNIT, "adjacency": "replace", "batch": 4}

    def searched(**params: Any) -> Any:
        spec = {
            "schema": 1,
            "audit": {"name": "t", "trials": 4_000},
            "search": {"use": "records", "params": {**table, **params}},
            "mechanism": [{"use": "checked"}],
            "attack": [{"use": "answers", "params": {"look": "kinds"}}],
            "run": {"stop": "decided"},
        }
        return dpframe.audit(spec, plugins=[Checked])

    record = searched()
    (cell,) = record.cells
    (need,) = cell.pair.needs
    assert (cell.verdict, need.feature) == ("violated", "NaN or a missing value")
    assert "without (params of [search]: beyond = { nan = false })" in " ".join(caveats(record))
    filed = record.model_copy(update={"spec": record.spec.model_copy(update={"path": "a b.toml"})})
    command = "dpframe run 'a b.toml' --set 'search.beyond={ nan = false }'"
    assert command in " ".join(caveats(filed))
    assert command in as_toml(cell, filed)
    (without,) = searched(**need.without).cells
    assert without.verdict == "inconclusive"  # all answers are of one kind
    (without,) = searched(schema=[{**UNIT[0], "nan": False}]).cells
    assert without.verdict == "inconclusive"  # all answers are of one kind


class Queried(HostMechanism, name="queried"):
    """A sum of data between 0 and 1 which clips, and passes NaN on."""

    sensitivity = 1.0

    def claim(self, pair: Any) -> Any:
        return PureDP(1.0)

    def query(self, data: Any) -> float:
        return float(np.clip(data, 0, 1).sum())

    def release(self, rng: Any, data: Any) -> float:
        return self.query(data) + float(rng.laplace())


def test_an_exact_violation_outside_of_the_schema_says_so_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample_in_this_process(monkeypatch)
    spec: Any = {
        "schema": 1,
        "audit": {"name": "t", "trials": 2_000},
        "search": {"use": "records", "params": {**ONE, "adjacency": "replace", "batch": 4}},
        "mechanism": [{"use": "queried"}],
        "attack": [{"use": "answers", "params": {"look": "kinds"}}],
        "run": {"stop": "decided"},
    }
    record = dpframe.audit(spec, plugins=[Queried])
    (witness,) = record.cells[0].exact.witnesses
    (need,) = witness.pair.needs
    assert (witness.kind, need.feature) == ("not a number", "NaN or a missing value")
    told = " ".join(caveats(record)).partition("Witness against")[0]
    assert "This pair needs NaN or a missing value" in told
