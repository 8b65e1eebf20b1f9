"""Audits of a small SQL engine: planted mistakes are found and shrunk, the right form is not."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from dpframe_pipelines import audit_sql, shrink
from dpframe_pipelines.programs.queries import Query
from dpframe_pipelines.query_cases import ME, Case
from dpframe_pipelines.sql import SmallerCases, UsersAndQueries, smaller
from pipelines_support import tiny_joins, tiny_sql

import dpframe
from dpframe.testing import check_neighbourhood

CLAIM = {"columns": tiny_sql.COLUMNS, "epsilon": tiny_sql.EPSILON, "delta": tiny_sql.DELTA}


def engine(mistake=""):
    def answer(rng, table, query):
        return tiny_sql.answer(rng, table, query, mistake)

    return answer


def pipeline(mistake=""):
    def answer(rng, tables, query):
        return tiny_joins.answer(rng, tables, query, mistake)

    return answer


TABLES = {
    "one": {"columns": tiny_sql.COLUMNS},
    "visits": {"columns": tiny_joins.COLUMNS, "joined": tiny_joins.VISITS},
    "shops": {"columns": tiny_joins.COLUMNS, "joined": tiny_joins.SHOPS},
}


@pytest.fixture(params=itertools.product(TABLES, ["add-remove", "replace"]), ids="-".join)
def neighbourhood(request):
    tables, change = request.param
    return UsersAndQueries.from_params({**TABLES[tables], "change": change})


def test_every_pair_differs_in_one_user_and_has_one_query(neighbourhood):
    bench, rng = neighbourhood.bench, np.random.default_rng(0)
    planned = list(itertools.islice(bench.planned(), 150))
    for case in [*planned, *(bench.by_chance(rng) for _ in range(50))]:
        pair = bench.pair(case)
        assert pair.d0["query"] == pair.d1["query"]
        rest = [[r for r in data["rows"] if r[bench.user] != ME] for data in (pair.d0, pair.d1)]
        assert rest[0] == rest[1]
        assert bench.case(pair) == case
        if bench.replace:
            assert all(ME in [r[bench.user] for r in d["rows"]] for d in (pair.d0, pair.d1))
        if bench.joined:
            others = [data["other"]["rows"] for data in (pair.d0, pair.d1)]
            kept = [[row for row in rows if row[0] != ME] for rows in others]
            assert kept[0] == kept[1]
            assert bench.owner is not None or others[0] == others[1]


def test_every_query_comes_with_tables_and_every_table_with_queries(neighbourhood):
    bench = neighbourhood.bench
    cases = list(bench.planned())
    asked = {case.query._replace(having=1.0 if case.query.having else None) for case in cases}
    assert asked >= set(bench.queries())
    assert {case.words for case in cases} >= {words for _, _, words in bench.users()}


def test_numbers_out_of_bounds_come_only_if_asked_for():
    params = {"columns": tiny_sql.COLUMNS, "beyond": False}
    for case in UsersAndQueries.from_params(params).bench.planned():
        cells = [row[2] for row in case.rows + case.mine]
        assert all(cell is None or 0 <= cell <= 10 for cell in cells)


def test_smaller_cases_are_smaller_and_none_is_missed():
    rows = (("u0", "a", 1.0), ("u1", "b", None))
    query = Query("SUM", "spent", ("city",), ("city", "a"), 1.0)
    start = Case(query, rows, ((ME, "a", 1.0),) * 3)
    found, front = {start}, [start]
    while front:
        for case in smaller(front.pop()):
            assert case.size < start.size
            if case not in found:
                found.add(case)
                front.append(case)
    assert Case(Query("COUNT"), (), ((ME, "a", 1.0),)) in found
    assert Case(query, (rows[1],), start.mine) in found


def test_the_neighbourhood_keeps_its_promises():
    check_neighbourhood(UsersAndQueries.from_params({"columns": tiny_sql.COLUMNS, "batch": 4}))


def test_candidates_come_in_their_order(neighbourhood):
    bench = neighbourhood.bench
    pairs = [bench.pair(case) for case in itertools.islice(bench.planned(), 3)]
    texts = [json.dumps(pair.params()) for pair in pairs]
    made = SmallerCases.from_params({"pairs": texts})
    assert list(made.propose(np.random.default_rng(0), [])) == pairs


@pytest.mark.parametrize("tables", ["visits", "shops"])
def test_some_users_have_rows_that_match_many_rows(tables):
    bench = UsersAndQueries.from_params(TABLES[tables]).bench
    for case in itertools.islice(bench.planned(), 200):
        data = bench.pair(case).d0
        assert case.query.join == data["other"]["columns"][0]
        assert f" {'LEFT ' if case.query.left else ''}JOIN other USING " in case.query.sql
    (first, *_) = bench.planned()
    data = bench.pair(first).d0
    (mine,) = [row for row in data["rows"] if row[bench.user] == ME]
    at = data["columns"].index(first.query.join)
    assert sum(row[0] == mine[at] for row in data["other"]["rows"]) >= 40


@pytest.mark.parametrize(
    "joined",
    [
        [{"name": "size", "low": 0, "high": 1}],
        [{"name": "user", "low": 0, "high": 1}],
        [{"name": "owner", "user": True}, tiny_joins.COLUMNS[1]],
        [*tiny_joins.VISITS, tiny_joins.COLUMNS[1]],
    ],
)
def test_two_tables_share_the_column_that_joins_them(joined):
    with pytest.raises((ValueError, dpframe.DpframeError), match="shares one column"):
        UsersAndQueries.from_params({"columns": tiny_joins.COLUMNS, "joined": joined})


@pytest.mark.parametrize(
    ("mistake", "tables", "tried"),
    [
        ("unbounded", "visits", 1),
        ("left", "shops", 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("unbounded", "shops", 1),
                ("before", "visits", 1),
                ("before", "shops", 1),
                ("left", "visits", 2),
            ]
        ),
    ],
)
def test_a_join_that_ignores_how_often_a_row_matches_is_found(mistake, tables, tried):
    record = audit_sql(pipeline(mistake), **TABLES[tables], epsilon=1.0, trials=1000)
    (cell,) = record.cells
    assert (cell.verdict, cell.search.pairs) == ("violated", tried)
    assert cell.search.event.startswith("the COUNT(*) of city = b is below ")
    joins = "LEFT JOIN" if mistake == "left" else "data JOIN"
    assert f"{joins} other USING" in cell.pair.params["description"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tables", ["visits", "shops"])
def test_a_join_is_found_and_shrunk_and_a_bounded_one_is_consistent(tables, seed):
    (cell,) = audit_sql(pipeline(), **TABLES[tables], epsilon=1.0, trials=8000, seed=seed).cells
    assert cell.verdict == "consistent"
    assert cell.search.pairs >= 50
    wrong = pipeline("unbounded")
    found = audit_sql(wrong, **TABLES[tables], epsilon=1.0, trials=2000, seed=seed)
    smallest = shrink(found, wrong, trials=500).cells[0]
    data = smallest.pair.params["d0"]
    assert smallest.verdict == "violated"
    assert len(data["rows"]) == 1
    assert 2 <= len(data["other"]["rows"]) <= 3  # one match may change a count by one


def test_an_order_of_exact_counts_is_found():
    (cell,) = audit_sql(engine("order"), **CLAIM, trials=3000).cells
    assert cell.verdict == "violated"
    assert cell.search.pairs <= 50
    assert cell.search.event == (
        "the number of rows before that of city = a is below 0.5 "
        "(sort the rows in the adapter if the engine promises no order)"
    )
    words = cell.pair.params["description"]
    assert words.endswith("a user whose key decides which of two keys is more frequent")


def test_keys_from_the_data_are_found():
    record = audit_sql(engine("keys"), **CLAIM, trials=2000)
    (cell,) = record.cells
    assert cell.verdict == "violated"
    assert sum(cell.search.trials) < 200
    assert cell.search.event == "the number of rows of city = d is below 0.5"
    assert cell.pair.params["description"].startswith("SELECT city, COUNT(*)")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mistake", tiny_sql.MISTAKES)
def test_planted_mistakes_are_found(mistake, seed):
    (cell,) = audit_sql(engine(mistake), **CLAIM, trials=10_000, seed=seed).cells
    assert cell.verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_right_engine_is_consistent(seed):
    (cell,) = audit_sql(engine(), **CLAIM, trials=10_000, seed=seed).cells
    assert cell.verdict == "consistent"
    assert cell.search.pairs >= 100


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "users"), [("unbounded", 1), ("keys", 1), ("average", 1)])
def test_a_finding_is_shrunk(mistake, users):
    found = audit_sql(engine(mistake), **CLAIM, trials=10_000)
    smallest = shrink(found, engine(mistake)).cells[0]
    assert smallest.verdict == "violated"
    pair = dpframe.plugins.find_plugin("pair", smallest.pair.use).from_params(smallest.pair.params)
    assert len({row[0] for row in pair.d0["rows"]}) == users
    assert len(pair.d0["rows"]) <= 2
    assert "WHERE" not in smallest.pair.params["description"]


def test_a_replaced_user_is_never_shrunk_to_nobody():
    """The number of users is public here; only the sum breaks the claim."""

    def answer(rng, table, query):
        if query.value in ("COUNT(*)", "COUNT(DISTINCT who)"):
            return len({row["who"] for row in table})
        return sum(row["spent"] or 0.0 for row in table) + rng.laplace(0, 10)

    columns = [{"name": "who", "user": True}, {"name": "spent", "low": 0.0, "high": 10.0}]
    how = {"columns": columns, "epsilon": 1.0, "change": "replace", "confidence": 0.99}
    found = audit_sql(answer, **how, trials=4000, seed=3)
    assert found.cells[0].verdict == "violated"
    pair = shrink(found, answer, trials=2000).cells[0].pair.params
    assert [len({row[0] for row in pair[d]["rows"]}) for d in ("d0", "d1")] == [1, 1]
    assert "SUM" in pair["description"]


def test_only_a_finding_is_shrunk():
    record = SimpleNamespace(cells=[SimpleNamespace(verdict="consistent")])
    with pytest.raises(dpframe.DpframeError, match="nothing to shrink"):
        shrink(record, engine())


PROGRAM = """
import random

def prepare(params, table):
    keys = [column["name"] for column in params["columns"] if "categories" in column]

    def ask(query):
        rows = [query.key_of(row) for row in table if query.keeps(row)]
        noise = random.expovariate(1.0) - random.expovariate(1.0)
        return {key: rows.count(key) + noise for key in rows or [()]}

    return ask
"""


@pytest.mark.slow
def test_the_spec_of_the_readme_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    spec = page.split("```toml\n")[1].split("```")[0]
    (tmp_path / "engine.py").write_text(PROGRAM)
    (tmp_path / "engine.toml").write_text(spec)
    monkeypatch.chdir(tmp_path)
    (cell,) = dpframe.audit("engine.toml", plugins=["engine.py"]).cells
    assert (cell.mechanism.use, cell.verdict) == ("sql-engine", "violated")


@pytest.mark.slow
def test_a_program_is_audited_and_its_finding_shrunk(tmp_path):
    path = tmp_path / "engine.py"
    path.write_text(PROGRAM)
    record = audit_sql(path, **CLAIM, trials=1000)
    assert record.cells[0].verdict == "violated"
    assert record.cells[0].mechanism.use == "sql-engine"
    smallest = shrink(record, path, trials=500)
    params = smallest.cells[0].pair.params
    assert params["description"] == "SELECT COUNT(*) AS value FROM data"
    assert len(params["d0"]["rows"]) == 2  # one alone may change a count by one
