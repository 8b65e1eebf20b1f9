"""Features of synthetic tables, against counts made by hand."""

import math

import numpy as np
import pytest
from dpframe_pipelines.boxes import Column, columns_of
from dpframe_pipelines.programs.table_features import Features, rows_of
from dpframe_pipelines.scouting import targets_of

SCHEMA = [
    {"name": "age", "low": 0, "high": 100},
    {"name": "city", "categories": ["a", "b"]},
]
ROWS = [[10.0, "a"], [100.0, "b"], [math.nan, "b"], [130.0, "c"], ["x", None]]


@pytest.fixture
def features():
    return Features(SCHEMA, [[100, "b"]])


def named(features, table):
    return dict(zip(features.names, features.of(table), strict=True))


def test_features_count_what_stands_in_a_table(features):
    found = named(features, ROWS)
    assert found["number of rows"] == 5
    assert found["number of records equal to (100, b)"] == 1
    assert found["share of records equal to (100, b)"] == 0.2
    assert found["number of records equal to (100, b) but for one column"] == 1  # NaN and b
    assert found["number of missing values of age"] == 1
    assert found["number of values of age outside the schema"] == 2  # 130 and x
    assert found["number of values of age of another type"] == 1
    assert (found["smallest value of age"], found["largest value of age"]) == (10.0, 130.0)
    assert found["number of missing values of city"] == 1
    assert found["number of values of city outside the schema"] == 1
    assert found["number of records with age from 75 to 100 and city = b"] == 1
    assert found["number of records with city = b"] == 2


def test_features_see_the_order_of_the_rows(features):
    found = named(features, ROWS)
    assert (found["first value of age"], found["last value of age"]) == (10.0, 130.0)
    assert found["number of neighbouring rows with equal city"] == 1  # b and b
    assert found["number of rows with a smaller city than the row before"] == 0
    assert found["number of rows before the first with city = b"] == 1
    assert found["number of rows after the last with city = b"] == 2
    assert found["number of rows with city = b right after one = a"] == 1
    turned = named(features, ROWS[::-1])
    assert (turned["first value of age"], turned["last value of age"]) == (130.0, 10.0)
    assert turned["number of rows with a smaller city than the row before"] == 2
    assert turned["number of rows with a smaller age than the row before"] == 2
    assert turned["number of rows before the first with city = b"] == 2
    assert turned["number of rows with city = b right after one = a"] == 0
    order = ("neighbouring", "before", "after", "first", "last", "code of the type")
    assert {n: v for n, v in found.items() if not any(word in n for word in order)} == {
        n: v for n, v in turned.items() if not any(word in n for word in order)
    }


@pytest.mark.parametrize(
    "table",
    [
        [{"age": a, "city": c} for a, c in ROWS],
        {"age": [a for a, _ in ROWS], "city": [c for _, c in ROWS]},
        np.array(ROWS, object),
    ],
    ids=["dicts", "columns", "array"],
)
def test_the_form_of_a_table_does_not_matter(features, table):
    assert features.of(table) == features.of(ROWS)


def test_a_frame_is_a_table(features):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[10.0, "a"], [100.0, "b"]], columns=["age", "city"])
    found, same = named(features, frame), named(features, [[10.0, "a"], [100.0, "b"]])
    apart = {name for name in found if found[name] != same[name]}
    assert all(name.startswith("code of the type of column ") for name in apart)


def test_the_form_of_a_frame_has_features(features):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"city": ["a", "b"], "age": [10.0, 2.5]}, index=[7, 1])
    found = named(features, frame)
    assert (found["place of column age"], found["place of column city"]) == (1, 0)
    assert found["first label of a row"] == 7
    assert found["number of rows whose label is not their place"] == 1
    assert found["number of whole numbers of age"] == 1
    code = "code of the type of column age"
    assert named(features, frame.astype({"age": "float32"}))[code] != found[code]
    assert named(features, {"age": frame.age.to_numpy()})[code] == found[code]


@pytest.mark.parametrize("table", [[], {}, {"age": [], "city": []}, [{}], [[]], np.zeros((0, 2))])
def test_an_empty_table_has_all_features(features, table):
    found = features.of(table)
    assert len(found) == len(features.names)
    assert not np.isnan(found).any()
    ends = named(features, table)
    assert (ends["smallest value of age"], ends["largest value of age"]) == (100.0, 0.0)


def test_columns_may_be_missing_and_others_may_be_there(features):
    found = named(features, {"age": [1.0], "more": [2]})
    assert found["number of missing columns"] == 1
    assert found["number of unexpected columns"] == 1
    assert found["number of missing values of city"] == 1


def test_infinities_are_outside_and_no_extremes(features):
    found = named(features, [[math.inf, "a"], [-math.inf, "a"]])
    assert found["number of values of age outside the schema"] == 2
    assert (found["smallest value of age"], found["largest value of age"]) == (100.0, 0.0)


def test_marginals_add_up_to_the_number_of_rows(features):
    found = named(features, ROWS)
    for start in ("number of records with age", "number of records with city"):
        cells = [v for n, v in found.items() if n.startswith(start) and " and city" not in n]
        assert sum(cells) == 5


def test_a_category_written_as_a_float_is_the_same():
    found = named(Features([{"name": "k", "categories": [1, 2]}], []), [[1.0], [2]])
    assert (found["number of records with k = 1"], found["number of records with k = 2"]) == (1, 1)


def test_marginals_of_many_columns_are_left_out_before_those_of_few():
    wide = [{"name": f"c{n}", "categories": list(range(15))} for n in range(9)]
    names = Features(wide, []).names
    assert "number of records with c8 = 3" in names
    assert len(names) < 5000


def test_names_of_columns_are_those_of_the_table():
    assert rows_of([{"a": 1}, {"b": 2}], ["z"]) == (["a", "b"], [[1, None], [None, 2]])


def test_targets_lie_at_the_ends_of_all_columns():
    columns = columns_of(SCHEMA, users=0)
    assert targets_of(columns) == [[0, "a"], [100, "b"]]
    assert Column(name="x", low=0.0, high=1.0).params() == {"name": "x", "low": 0.0, "high": 1.0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"name": "a", "low": 1, "high": 1}], "larger high"),
        ([{"name": "a"}], "categories"),
        ([{"name": "a", "user": True}], "no column"),
        ([{"name": "a", "low": 0, "high": 1}] * 2, "two columns"),
    ],
)
def test_columns_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        columns_of(given, users=0)
