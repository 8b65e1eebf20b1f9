"""Records as libraries want them."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "dpframe_libraries" / "programs"))

import library_tables as tables


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (np.array([1.0, 2.0]), [[1.0], [2.0]]),
        (np.array([[1.0, 2.0]]), [[1.0, 2.0]]),
        ([["a", 1], ["b", None]], [["a", 1], ["b", None]]),
        (["a", "b"], [["a"], ["b"]]),
        ([], []),
        (np.zeros((0, 2)), []),
    ],
)
def test_every_form_of_a_table_is_a_list_of_records(data, found):
    assert tables.records(data) == found


@pytest.mark.parametrize("value", [None, "x", math.nan, {"missing": True}])
def test_what_is_no_number_is_missing_and_the_lower_bound_where_tables_are_clean(value):
    params = {"bounds": [[2.0, 5.0]]}
    assert math.isnan(tables.numbers(params, [[value]])[0])
    assert tables.numbers({**params, "clean": True}, [[value]]) == [2.0]


def test_clean_tables_are_clipped_and_others_are_not():
    params = {"bounds": [[0.0, 1.0], [0.0, 9.0]]}
    table = [[1e30, -math.inf], [0.5, 4.0]]
    assert tables.matrix(params, table) == [[1e30, -math.inf], [0.5, 4.0]]
    assert tables.matrix({**params, "clean": True}, table) == [[1.0, 0.0], [0.5, 4.0]]


def test_an_unknown_category_is_one_more_or_the_first():
    params = {"categories": ["a", "b"]}
    assert tables.codes(params, [["b"], ["c"], [None]]) == [1, 2, 2]
    assert tables.codes({**params, "clean": True}, [["b"], ["c"]]) == [1, 0]


def test_rounded_answers_keep_their_shape_and_lose_their_bits():
    answer = {"coef": np.array([[0.1 + 0.2, 1 / 3]]), "of": (1, 0.25)}
    assert tables.rounded(answer, 3) == {"coef": [[0.3, 0.333]], "of": [1, 0.25]}
