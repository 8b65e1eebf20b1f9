"""Honest mistakes of adapters: each is read as it was meant, or named at once."""

import re

import numpy as np
import pytest
from dpframe_pipelines import audit_sql, audit_synthesizer
from pipelines_support.adapters import (
    FORMS,
    binder,
    bounded,
    counts,
    misspelt,
    no_table,
    one_or,
    returns,
    synthesize,
)

from dpframe import DpframeError

COLUMNS = [
    {"name": "user", "user": True},
    {"name": "city", "categories": ["a", "b"]},
    {"name": "age", "low": 0, "high": 100},
]
SCHEMA = [{"name": "sex", "categories": ["f", "m"]}, {"name": "pay", "low": 0, "high": 1000}]
TABLE = [["f", 100.0], ["m", 320.0], ["m", 500.0], ["f", 880.0]] * 3


def audited(answer, columns=COLUMNS, **more):
    return audit_sql(answer, columns=columns, epsilon=1.0, **{"trials": 400, **more}).cells[0]


# Answers of any form are read: the counts leak 40 rows of one user, and every form shows it.


@pytest.mark.parametrize(
    "form",
    [f if f in ("named", "dicts") else pytest.param(f, marks=pytest.mark.slow) for f in FORMS],
)
def test_answers_of_any_form_are_read(form):
    def answer(rng, table, query):
        return FORMS[form](counts(rng, table, query), query)

    # Without keys there is no GROUP BY, so that one value has a name.
    columns = [COLUMNS[0], COLUMNS[2]] if form in ("named", "tuples", "frame") else COLUMNS
    cell = audited(answer, columns, trials=300)
    assert cell.verdict == "violated"
    assert re.match("the (COUNT|sum of COUNT|log-odds of D′ by the .*COUNT)", cell.search.event)


# Answers that show nothing, and queries that fail by a mistake, stop an audit.


SLIPS = {
    "forgot return": (
        returns(lambda found, query: None),
        "returned None in all .* forgot `return`",
    ),
    "forgot one return": (
        returns(lambda found, query: None if query.aggregate == "SUM" else one_or(found, query)),
        r"queries with SUM\(column\).*forgot `return`",
    ),
    "forgot the groups": (
        returns(lambda found, query: None if query.group else found),
        "queries with GROUP BY 1 key.*forgot `return`",
    ),
    "a constant": (lambda table, query: 3, "returned 3 for all"),
    "an empty list": (
        returns(lambda found, query: []),
        r"no value can be read.*\[\] is the answer",
    ),
    "sentences": (
        returns(lambda found, query: f"the count is {found}"),
        "no value can be read from the answers to any query.*the count is",
    ),
    "decimal commas": (
        returns(lambda found, query: [[k, f"{v:.2f}".replace(".", ",")] for k, v in found.items()]),
        "no value can be read|the keys",
    ),
    "objects": (returns(lambda found, query: object()), "no value can be read.*object"),
    "keys of another case": (
        returns(lambda found, query: {key.upper(): value for key, value in found.items()}),
        "the keys 'A'; 'B'.*category of city",
    ),
    "keys joined": (
        returns(lambda found, query: {f"city={key}": value for key, value in found.items()}),
        "the keys 'city=a'.*category of city",
    ),
    "an SQL binder error": (no_table, r"all .* raised .*OperationalError.* at adapters.py:\d+"),
    "a column of GROUP BY": (binder, r"OperationalError: no such column: city at adapters.py:\d+"),
    "a KeyError": (
        lambda rng, table, query: table[0]["usr"],
        r"KeyError: 'usr' at test_slips.py:\d+",
    ),
    "a column of SUM": (misspelt, r"KeyError: 'agee' at adapters.py:\d+.*SUM\(age\)"),
    "an import": (
        lambda table, query: __import__("no_such_engine"),
        "No module named 'no_such_engine'",
    ),
    "swapped arguments": (lambda query, table: query.sql, "AttributeError.*test_slips.py"),
    "the generator last": (lambda table, query, rng: 0.0, "takes rng as a later argument"),
    "a budget": (lambda table, query, epsilon: 0.0, "needs epsilon"),
    "one argument": (lambda table: 0.0, "takes table: it is called as"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_answers_that_show_nothing_stop_an_audit(slip):
    answer, message = SLIPS[slip]
    with pytest.raises(DpframeError, match=message):
        audited(answer)


def test_a_function_that_fails_on_every_record_is_no_violation():
    """It answers only the empty table, without the only user."""

    def answer(rng, table, query):
        return sum(float(row["age"][0]) for row in table) + rng.laplace()

    with pytest.raises(DpframeError, match=r"TypeError.* at test_slips.py:\d+"):
        audited(answer)


def test_an_optional_argument_gets_no_generator():
    def answer(table, query, rng=None):
        rng = rng or np.random.default_rng()
        return counts(rng, table, query)

    assert audited(answer, trials=300).verdict == "violated"


PROGRAM = """
def prepare(params, table):
    def ask(query):
        {body}
    return ask
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("len(table)", "returned None in all"),
        ("return table[0]['usr']", r"KeyError: 'usr' at engine.py:4"),
        ("import no_such_engine", r"No module named 'no_such_engine' at engine.py:4"),
    ],
)
def test_a_program_that_shows_nothing_stops_an_audit(body, message, tmp_path):
    path = tmp_path / "engine.py"
    path.write_text(PROGRAM.format(body=body))
    with pytest.raises(DpframeError, match=message):
        audited(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (COLUMNS[1:], "no column identifies users.*rows_per_user=1"),
        ([*COLUMNS, {"name": "id", "user": True}], "columns user and id have user = true"),
        ([COLUMNS[0], {"name": "age", "lo": 0, "high": 1}], "column age: lo is not one of.*low"),
        ([COLUMNS[0], {"name": "age", "low": "0", "high": 1}], "column age: low is '0'"),
        ([COLUMNS[0], {"name": "city", "categories": "ab"}], "column city: categories are a list"),
        ([COLUMNS[0], "city"], "a column is a dict with its name, not 'city'"),
    ],
)
def test_columns_are_named(columns, message):
    with pytest.raises((ValueError, DpframeError), match=message):
        audited(lambda table, query: 0.0, columns)


def test_columns_as_people_write_them():
    columns = {"user": {"user": True}, "city": ["a", "b"], "age": (0, 100)}
    others = [COLUMNS[0], COLUMNS[1], {"name": "age", "min": 0, "max": 100}]
    for given in (columns, others):
        assert audited(counts, given, trials=300).verdict == "violated"


# What is asked.


def test_having_on_exact_counts_is_found():
    def answer(rng, table, query):
        return bounded(rng, table, query, "having")

    cell = audited(answer, trials=2000)
    assert cell.verdict == "violated"
    assert "HAVING" in cell.pair.params["description"]
    assert cell.search.pairs <= 50


def test_each_part_of_queries_is_among_the_first_fifty():
    def answer(rng, table, query):
        return bounded(rng, table, query)

    sides = {"name": "side", "categories": ["l", "r"]}
    cell = audited(answer, [*COLUMNS, sides], trials=1600)
    coverage = cell.search.coverage
    assert cell.verdict == "consistent"
    assert coverage.drawn <= 50
    assert {"HAVING", "WHERE =", "WHERE IS NOT NULL", "GROUP BY 2 keys"} <= {*coverage.tried}
    assert {"several aggregates", "ORDER BY and LIMIT"} <= {*coverage.untried}
    assert not [part for part in coverage.untried if "user" in part or "column" in part]


def test_what_an_engine_refuses_is_not_asked_and_named():
    def answer(rng, table, query):
        if query.aggregate == "AVG" or query.having is not None:
            raise NotImplementedError
        return bounded(rng, table, query)

    cell = audited(answer, trials=1000)
    assert cell.verdict == "consistent"
    assert {"AVG(column)", "HAVING"} <= {*cell.search.coverage.untried}
    assert {*cell.search.neighbourhood.params["without"]} == {"AVG(column)", "HAVING"}


def test_a_claim_about_single_rows_is_tested_on_single_rows():
    """Its noise is that of one row; a user may own forty."""

    def answer(rng, table, query):
        kept = [row["city"] for row in table if query.keeps(row)]
        keys = ("a", "b") if query.group else (None,)
        found = {key: sum(key in (None, city) for city in kept) + rng.laplace() for key in keys}
        return {key: value for key, value in found.items() if query.shows(value)}

    cell = audited(answer)
    assert (cell.verdict, cell.pair.relation) == ("violated", "add or remove all rows of one user")
    cell = audited(answer, rows_per_user=1)
    assert cell.verdict == "consistent"
    assert cell.pair.relation == "add or remove one user, who owns at most 1 row"


# Synthesizers.


def fitted(fit, columns=SCHEMA, table=TABLE, **more):
    return audit_synthesizer(fit, table, columns=columns, epsilon=1.0, **{"fits": 64, **more})


def pays(rng, table):
    return [row[0] for row in synthesize(rng, table)]


TABLES = {
    "forgot return": (lambda rng, table: None, "returned None; forgot `return`"),
    "no rows": (lambda rng, table: [], "a table without rows"),
    "a number": (lambda rng, table: 3.0, "cannot be read as a table"),
    "a pair": (lambda rng, table: (synthesize(rng, table), "model"), "column (sex|pay)"),
    "order of columns": (
        lambda rng, table: [[pay, sex] for sex, pay in synthesize(rng, table)],
        "no value of column sex .*in the order of `columns`",
    ),
    "a missing column": (
        lambda rng, table: {"sex": pays(rng, table)},
        "column pay is missing from its table, which has sex",
    ),
    "a misspelt column": (
        lambda rng, table: [{"sex": s, "pays": p} for s, p in synthesize(rng, table)],
        "column pay is missing",
    ),
    "short rows": (lambda rng, table: [[sex] for sex in pays(rng, table)], "column pay is missing"),
    "codes": (
        lambda rng, table: [["fm".index(s), p] for s, p in synthesize(rng, table)],
        r"no value of column sex of its table is one of \['f', 'm'\]: the first is",
    ),
    "texts": (
        lambda rng, table: [[s, f"{p:.2f} EUR"] for s, p in synthesize(rng, table)],
        "no value of column pay of its table is from 0 to 1000: the first is '",
    ),
    "an exception": (lambda rng, table: table[0][5], r"IndexError.* at test_slips.py:\d+"),
    "an import": (lambda table: __import__("no_such_library"), "No module named 'no_such_library'"),
    "the generator last": (lambda table, rng: table, "takes rng as a later argument"),
    "a budget": (lambda table, epsilon: table, "needs epsilon"),
}


@pytest.mark.parametrize("slip", TABLES)
def test_tables_that_show_nothing_stop_an_audit(slip):
    fit, message = TABLES[slip]
    with pytest.raises(DpframeError, match=message):
        fitted(fit)


def test_a_misspelt_column_of_the_given_table_is_named():
    table = [{"sex": sex, "pay": pay} for sex, pay in TABLE]
    columns = [SCHEMA[0], {"name": "pays", "low": 0, "high": 1000}]
    with pytest.raises(DpframeError, match="no column pays; did you mean pay"):
        fitted(synthesize, columns, table)


@pytest.mark.parametrize("seed", range(2))
def test_cells_that_stay_empty_are_found(seed):
    """Only cells of the data get noise."""

    def fit(rng, table):
        cells = [(sex, min(3, int(pay // 250))) for sex, pay in table]
        found = []
        for sex, at in sorted(set(cells)):
            number = cells.count((sex, at)) + rng.laplace()
            found += [[sex, (at + 0.5) * 250] for _ in range(round(max(0, number)))]
        return found

    cell = fitted(fit, fits=300, seed=seed).cells[0]
    assert cell.verdict == "violated"
    assert cell.search.event.startswith("the number of r")
    assert cell.pair.params["description"].endswith("was 0 without it")


def test_the_right_synthesizer_is_not_accused():
    assert fitted(synthesize, fits=300).cells[0].verdict == "consistent"
