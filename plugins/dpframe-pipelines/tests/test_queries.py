"""Queries as text, and answers of any form as the same numbers."""

import math
import sqlite3

import numpy as np
import pytest
from dpframe_pipelines.programs import queries
from dpframe_pipelines.programs.queries import Query
from dpframe_pipelines.sql import UsersAndQueries
from pipelines_support import tiny_sql

BY_CITY, WHOLE = Query("COUNT", "*", ("city",)), Query("COUNT")
KEYS = [["a"], ["b"], [None]]


def test_a_query_is_text():
    query = Query("SUM", "spent", ("city",), ("city", "it's"), 2.0)
    assert query.sql == (
        "SELECT city, SUM(spent) AS value FROM data WHERE city = 'it''s' GROUP BY city "
        "HAVING SUM(spent) >= 2"
    )
    assert Query("COUNT DISTINCT", "user").sql == "SELECT COUNT(DISTINCT user) AS value FROM data"
    joined = Query("COUNT", where=("city", "a"), join="user").sql
    assert joined.endswith("FROM data JOIN other USING (user) WHERE city = 'a'")
    joined = Query("COUNT", join="user", left=True)
    assert joined.sql.endswith("FROM data LEFT JOIN other USING (user)")
    assert queries.read(queries.told(joined)) == joined
    assert "IS NOT NULL" in Query("COUNT", where=("city", None)).sql


@pytest.fixture(scope="module")
def bench():
    return UsersAndQueries.from_params({"columns": tiny_sql.COLUMNS}).bench


def test_every_query_of_the_grammar_runs_in_sqlite(bench):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (user, city, spent)")
    database.execute("INSERT INTO data VALUES ('u', 'a', 1.0), ('v', NULL, NULL)")
    for query in bench.queries():
        rows = database.execute(query.sql).fetchall()
        keys = queries.keys_of(query, bench.categories)
        found = queries.numbers(rows, query, keys)
        assert found[0] == len(rows)
        assert found[1:3] == [0, 0], query.sql
        assert len(found) == len(queries.names_of(query, keys))
        assert queries.read(queries.told(query)) == query
    database.close()


def test_parts_of_a_query_select_what_its_text_selects(bench):
    names = ("user", "city", "spent")
    rows = [("u", "a", 1.0), ("v", "b", 2.0), ("w", "a", 4.0), ("x", None, None)]
    table = [dict(zip(names, row, strict=True)) for row in rows]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (user, city, spent)")
    database.executemany("INSERT INTO data VALUES (?, ?, ?)", rows)
    for query in [query for query in bench.queries() if query.value == "COUNT(*)"]:
        kept = [query.key_of(row) for row in table if query.keeps(row)]
        counts = {key: kept.count(key) for key in (kept if query.group else [()])}
        shown = {key: count for key, count in counts.items() if query.shows(count)}
        assert {tuple(key): n for *key, n in database.execute(query.sql)} == shown, query.sql
    database.close()
    assert not Query("COUNT", having=1.0).shows(None)


@pytest.mark.parametrize(
    "answer",
    [
        [("a", 3.5), (None, 1.0)],
        [("city", "value"), ("a", 3.5), (None, 1.0)],
        [("a", 3.5), (math.nan, 1.0)],
        [[np.str_("a"), np.float64(3.5)], [None, 1]],
    ],
    ids=["rows", "header", "missing", "numpy"],
)
def test_the_form_of_an_answer_does_not_matter(answer):
    found = queries.numbers(answer, BY_CITY, KEYS)
    assert found == [2, 0, 0, *(1, 0, 3.5), *(0, 0, 0), *(1, 0, 1.0), 4.5, *(0, 2, 1)]


def test_the_order_of_rows_is_seen_and_a_dict_has_none():
    for rows, places in (
        ([("a", 3.5), (None, 1.0)], (0, 2, 1)),
        ([(None, 1.0), ("a", 3.5)], (1, 2, 0)),
        ([("z", 1.0), ("a", 3.5), ("a", 2.0), (None, 1.0)], (1, 4, 3)),
        ([], (0, 0, 0)),
    ):
        assert queries.numbers(rows, BY_CITY, KEYS)[-3:] == list(places)
    for keys in ({"a": 3.5, None: 1.0}, {(math.nan,): 1.0, ("a",): 3.5}):
        found = queries.numbers(keys, BY_CITY, KEYS)
        assert found == [2, 0, 0, *(1, 0, 3.5), *(0, 0, 0), *(1, 0, 1.0), 4.5, *(0, 0, 0)]


@pytest.mark.parametrize(("answer", "value"), [(4.0, 4.0), ([(4,)], 4.0), ([("n",), (4,)], 4.0)])
def test_an_answer_without_keys_is_one_number(answer, value):
    assert queries.numbers(answer, WHOLE, [[]]) == [1, 0, 0, 1, 0, value]


def test_what_is_missing_is_counted():
    assert queries.numbers([], WHOLE, [[]]) == queries.numbers(None, WHOLE, [[]]) == [0] * 6
    assert queries.numbers([(None,)], WHOLE, [[]]) == [1, 0, 0, 1, 1, 0]
    assert queries.numbers([("b", 1.0), ("a", "no number")], BY_CITY, KEYS)[3:6] == [1, 1, 0]


def test_unknown_and_repeated_keys_are_counted():
    found = queries.numbers([("z", 1.0), ("a", 1.0), ("a", 2.0)], BY_CITY, KEYS)
    assert found[:6] == [3, 1, 1, *(1, 0, 1.0)]


def test_names_say_key_and_aggregate():
    names = queries.names_of(BY_CITY, KEYS)
    assert (names[3], names[5]) == ("number of rows of city = a", "COUNT(*) of city = a")
    assert names[11] == "COUNT(*) of city = NULL"
    assert names[12] == "sum of COUNT(*) over all keys"
    assert names[13:] == [f"number of rows before that of city = {key}" for key in "ab"] + [
        "number of rows before that of city = NULL"
    ]
    assert queries.names_of(Query("COUNT"), [[]])[3::2] == ["number of answers", "COUNT(*)"]
