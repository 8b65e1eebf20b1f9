"""Own queries on own tables: who owns which rows, which neighbours come, and what is found."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pg8000.dbapi
import polars
import pytest
from dpframe_pipelines import DuckDB, Polars, PostgreSQL, SQLite, audit_sql, describe_tables
from dpframe_pipelines.own_neighbours import Maker
from dpframe_pipelines.own_queries import OwnQueries, own_queries
from dpframe_pipelines.own_tables import OwnTables, plain_table
from dpframe_pipelines.programs import queries
from dpframe_pipelines.sql_text import equal_columns, parse, tables_in
from pipelines_support import postgresql, shop

import dpframe
from dpframe.errors import SpecError
from dpframe.testing import check_neighbourhood

COUNT = "SELECT COUNT(*) FROM users"


def own(user="user_id", columns=None, **more):
    given = {name: plain_table(one) for name, one in shop.tables().items()}
    return OwnTables(given, user, columns or {}, **more)


# Texts.


@pytest.mark.parametrize(
    ("sql", "items", "keys"),
    [
        ("SELECT u.city, COUNT(*) AS n FROM u GROUP BY u.city", ["city", "n"], [0]),
        ("SELECT COUNT(*) n, city FROM u GROUP BY 2", ["n", "city"], [1]),
        ("WITH a AS (SELECT 1, 2) SELECT AVG(x) FROM a", ["AVG(x)"], []),
        ("SELECT DISTINCT city FROM u", ["city"], [0]),
        ("SELECT f(t, 1) m, SUM(x) FROM u GROUP BY f(t, 1)", ["m", "SUM(x)"], [0]),
        ("SELECT city, age, MAX(x) AS y FROM u GROUP BY ALL", ["city", "age", "y"], [0, 1]),
    ],
)
def test_the_columns_of_an_answer_are_read_from_the_text(sql, items, keys):
    parsed = parse(sql)
    assert (parsed.items, parsed.keys) == (items, keys)


def test_comparisons_with_literals_are_read():
    text = "SELECT 1 FROM t WHERE a >= 3 AND b IN ('x', 'y''s') AND c BETWEEN 1 AND 2.5 -- d = 4"
    found = [(one.column, one.operator, one.literals) for one in parse(text).compared]
    assert found == [("a", ">=", (3,)), ("b", "IN", ("x", "y's")), ("c", "BETWEEN", (1, 2.5))]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ('SELECT EXTRACT(day FROM x.a) FROM a x, "s".b JOIN c ON c.d = 1, d', "a s.b c d"),
        ("WITH e AS (SELECT f(1, 2), x FROM a) SELECT 1 FROM (b JOIN c USING (x, y))", "a b c"),
        ("FROM a SELECT x, y WHERE x IS DISTINCT FROM y AND z IN (SELECT z FROM b, c)", "a b c"),
        ("SELECT x FROM LATERAL (SELECT 1 FROM a) b, c -- FROM d", "a c"),
    ],
)
def test_the_tables_of_a_text_are_found(sql, names):
    assert [".".join(one) for one in tables_in(sql)] == names.split()


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT 1 FROM a x JOIN s.b AS y ON x.p = y.q AND (r = x.s)", "a.p=b.q .r=a.s"),
        ("SELECT x.p = y.q FROM a x, b y WHERE x.p = 3 AND a.p = y.q GROUP BY 1", "a.p=b.q"),
        ("SELECT 1 FROM a x JOIN b y ON x.p = y.q OR x.r = y.s", ""),
        ("SELECT 1 FROM a x JOIN b y ON x.p = y.q + 1 JOIN c ON c.d = f(x.p)", ""),
        ("SELECT 1 FROM a JOIN (SELECT q FROM b) y ON a.p = y.q", ""),
        ("SELECT 1 FROM a x WHERE x.p IN (SELECT x.p FROM b x WHERE x.q = a.q)", ""),
        ("SELECT 1 FROM a, b WHERE (a.x = b.y) OR a.z = 1", ""),
        ("SELECT 1 FROM a, b WHERE a.z = 1 OR a.w = 2 AND a.x = b.y", ""),
        ("SELECT 1 FROM a, b WHERE NOT (a.x = b.y)", ""),
        ("SELECT SUM(CASE WHEN (a.x = b.y) THEN 1 END) FROM a, b", ""),
        ("SELECT 1 FROM a JOIN b ON (a.x = b.y) WHERE a.z = 1 OR a.z = 2", "a.x=b.y"),
    ],
)
def test_equal_columns_are_read_from_the_text(sql, found):
    pairs = [" ".join("=".join(map(".".join, pair)) for pair in equal_columns(sql))]
    assert pairs == [found]


def test_a_text_keeps_its_lines_and_its_label_is_one_line():
    (query,) = own_queries(["SELECT 1 -- one\nFROM t;\n"], 1.0, 0.0)
    assert (query.sql, query.name) == ("SELECT 1 -- one\nFROM t", "SELECT 1 -- one FROM t")


FORMS = {
    "rows": [(1.5, "a", 2), (2.5, "b", 3)],
    "dicts": [{"k": "a", "v": 1.5, "w": 2}, {"k": "b", "v": 2.5, "w": 3}],
    "by key": {"a": (1.5, 2), "b": (2.5, 3)},
    "columns": {"v": [1.5, 2.5], "k": ["a", "b"], "w": [2, 3]},
    "Polars": polars.DataFrame({"w": [2, 3], "k": ["a", "b"], "v": [1.5, 2.5]}).lazy(),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_with_several_values_is_read_in_any_form(form):
    given = {"sql": "", "group": ["k"], "values": ["v", "w"], "order": [1, 0, 2], "ordered": False}
    query = queries.read({**given, "keys": [["a"], ["b"], [None]]})
    named = dict(
        zip(
            queries.names_of(query, query.keys),
            queries.numbers(FORMS[form], query, query.keys),
            strict=True,
        )
    )
    assert (named["v of k = a"], named["w of k = b"], named["number of rows"]) == (1.5, 3.0, 2.0)
    assert (named["sum of w over all keys"], named["number of rows of k = NULL"]) == (5.0, 0.0)


# Owners of rows.


def test_owners_are_found_by_the_user_and_by_links():
    tables = own().tables
    assert {name: (t.parent, t.owner is not None) for name, t in tables.items()} == {
        "users": (None, True),
        "orders": (None, True),
        "items": ("orders", True),
        "cities": (None, False),
    }
    assert tables["users"].one
    assert own().adjacency == (
        "add or remove all rows of one user: users.user_id, orders.user_id, items.order_id"
    )


def test_owners_can_be_given():
    tables = own({"users": "user_id", "orders": "user_id", "items": None}).tables
    assert tables["items"].owner is None
    with pytest.raises(dpframe.plugins.ParameterError, match="no table has a column 'nobody'"):
        own("nobody")
    with pytest.raises(dpframe.plugins.ParameterError, match="orders has no column 'who'"):
        own({"orders": "who"})
    details = {"users": shop.tables()["users"], "details": [{"city": c} for c in shop.CITIES]}
    details["users"] = details["users"][:3]
    given = {name: plain_table(one) for name, one in details.items()}
    with pytest.raises(dpframe.plugins.ParameterError, match="are the rows of details public"):
        OwnTables(given, "user_id", {})


@pytest.mark.parametrize("names", [("orders", "items"), ("items", "orders")])
def test_a_link_is_kept_although_its_values_are_also_those_of_users(names):
    rows = {
        "orders": [{"order_id": 1 + at, "user_id": 1 + at % 7} for at in range(20)],
        "items": [{"order_id": 1 + at % 20, "price": at} for at in range(40)],
    }
    user = {"orders": "user_id", "items": "order_id"}
    given = {name: plain_table(rows[name]) for name in names}
    tables = OwnTables(given, user, {})
    assert tables.tables["items"].parent == "orders"
    assert {row[1] % 20 % 7 for row in tables.users[3]["items"]} == {2}
    rows["items"].append({"order_id": 99, "price": 1})  # of no order
    with pytest.raises(dpframe.plugins.ParameterError, match="to orders or users; name the col"):
        OwnTables({name: plain_table(rows[name]) for name in names}, user, {})


def test_tables_of_different_users_are_no_links():
    given = {name: plain_table([{"user_id": at}]) for at, name in enumerate("ab")}
    tables = OwnTables(given, "user_id", {}).tables.values()
    assert [table.parent for table in tables] == [None, None]


def test_keys_of_tables_of_users_are_no_links():
    people = [{"id": at, "email": f"m{at}"} for at in range(1, 9)]
    orders = [{"id": at, "user_id": 1 + at % 8, "email": f"m{at}"} for at in range(1, 9)]
    given = {"users": plain_table(people), "orders": plain_table(orders)}
    for user in ({"users": "id", "orders": "user_id"}, {"users": "id", "orders": "email"}):
        tables = OwnTables(given, user, {}).tables
        assert tables["users"].parent is None
        assert tables["orders"].parent == ("users" if user["orders"] == "email" else None)


def linked(*texts, user="user_id", **more):
    """Return tables whose links have other names than the keys."""
    given = {
        "users": [{"id": 1 + at, "city": "ab"[at % 2]} for at in range(7)],
        "orders": [{"id": 1 + at, "user_id": 1 + at % 7} for at in range(20)],
        "lines": [{"id": 1 + at, "order_id": 1 + at % 20, "shop": at % 3} for at in range(40)],
        "shops": [{"id": at} for at in range(3)],
        **more,
    }
    tables = {name: plain_table(rows) for name, rows in given.items()}
    return OwnTables(tables, user, {}, equal=[one for sql in texts for one in equal_columns(sql)])


OF_USERS = "SELECT COUNT(*) FROM orders JOIN users u ON u.id = orders.user_id"
OF_ORDERS = "SELECT COUNT(*) FROM lines l JOIN shops s ON l.shop = s.id JOIN orders ON order_id = "
OF_ORDERS += "orders.id"
STATED = {"users": "id", "orders": "user_id", "lines": ("order_id", "orders.id"), "shops": None}
AS_STATED = {**STATED, "lines": ["order_id", "orders.id"]}


@pytest.mark.parametrize(
    ("user", "texts"),
    [
        (STATED, []),
        ({**STATED, "orders": ("user_id", "users.id")}, []),
        ({"users": "id", "orders": "user_id", "shops": None}, [OF_ORDERS]),
        ({"users": "id", "orders": "user_id", "lines": "order_id", "shops": None}, [OF_ORDERS]),
    ],
)
def test_links_by_other_names_are_stated_or_read_from_joins(user, texts):
    tables = linked(*texts, user=user)
    assert tables.stated() == AS_STATED
    assert linked(user=tables.stated()).stated() == AS_STATED
    assert tables.adjacency.endswith("orders.user_id, lines.order_id = orders.id")
    assert {row[1] % 20 % 7 for row in tables.users[3]["lines"]} == {3}
    for case in itertools.islice(Maker(tables, parse(OF_ORDERS)).planned(), 40):
        orders = {row[0] for row in case.mine.get("orders", ())}
        assert {row[1] for row in case.mine.get("lines", ())} <= orders


def test_joins_find_the_users_of_all_tables_but_not_of_public_ones():
    assert linked(OF_USERS, OF_ORDERS, shops=[{"number": 7}]).stated() == {
        **AS_STATED,
        "shops": None,
    }
    parts = [{"line": 1 + at % 40} for at in range(50)]
    tables = linked(
        OF_USERS,
        OF_ORDERS,
        "SELECT 1 FROM lines l, parts p WHERE p.line = l.id",
        parts=parts,
        shops=[{"number": 7}],
    )
    assert tables.stated()["parts"] == ["line", "lines.id"]
    assert str(tables).splitlines()[-1].startswith("parts: rows of lines by line = lines.id;")


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"lines": ("order_id", "orders.number")}, "one of another table"),
        ({"lines": ("order_id", "id")}, "one of another table"),
        ({"lines": ("order_id", "shops.id"), "shops": None}, "whose rows no user owns"),
        ({"lines": ("shop", "orders.user_id")}, None),
        ({"orders": "user_id", "lines": ("order_id", "lines.id")}, "one of another table"),
        ({"lines": ("id", "clicks.line"), "clicks": ("line", "lines.id")}, "no user owns"),
        ({"clicks": ("line", "lines.shop"), "lines": ("order_id", "orders.id")}, "a value twice"),
        ({"clicks": "name"}, r"clicks\.name has no value that users have"),
    ],
)
def test_a_link_that_cannot_be_is_refused(user, message):
    clicks = [{"line": 1 + at % 40, "name": f"c{at}"} for at in range(50)]
    given = {"users": "id", "orders": "user_id", "shops": None, **user}
    if message is None:  # a shop may be the number of a user
        assert linked(user=given, clicks=clicks).stated()["lines"] == "shop"
        return
    with pytest.raises(dpframe.plugins.ParameterError, match=message):
        linked(user=given, clicks=clicks)


def test_joins_that_tell_several_owners_are_refused():
    both = "SELECT 1 FROM lines l JOIN orders o ON l.order_id = o.id JOIN users u ON l.shop = u.id"
    with pytest.raises(dpframe.plugins.ParameterError, match=r"lines\.order_id = orders\.id or by"):
        linked(both, user={"users": "id", "orders": "user_id", "shops": None})
    one = [{"person": 1 + at} for at in range(7)]
    text = "SELECT 1 FROM users JOIN ages ON ages.person = users.id"
    with pytest.raises(dpframe.plugins.ParameterError, match="are the rows of ages public"):
        linked(text, user={"users": "id", "orders": "user_id", "shops": None}, ages=one)


def test_columns_are_read_from_the_rows_unless_they_are_given():
    text = str(own(columns={"orders": {"amount": {"low": 0, "high": 50}}}))
    assert "amount REAL (0 to 50)" in text
    assert "city TEXT (3 categories)" in text
    assert "price INTEGER (0 to 6, as its rows)" in text
    with pytest.raises(dpframe.plugins.ParameterError, match="no column 'price' of orders"):
        own(columns={"orders": {"price": {"low": 0, "high": 1}}})


# Neighbours.


@pytest.mark.parametrize("change", ["add-remove", "replace"])
@pytest.mark.parametrize("sql", [shop.QUERIES["having"], "SELECT SUM(price) FROM items"])
def test_all_pairs_differ_in_the_rows_of_one_user(sql, change):
    tables, rng = own(replace=change == "replace"), np.random.default_rng(0)
    maker = Maker(tables, parse(sql))
    cases = [*itertools.islice(maker.planned(), 150), *(maker.by_chance(rng) for _ in range(20))]
    for case in cases:
        mine, others = (
            {
                name: {row[tables.tables[name].owner] for row in rows[name]}
                for name in rows
                if tables.tables[name].parent is None
            }
            for rows in (case.mine, case.rows)
        )
        users = set().union(*mine.values())
        assert len(users) <= 1
        assert not users & set().union(*others.values(), ())
        orders = {row[0] for row in case.mine.get("orders", ())}
        assert {row[0] for row in case.mine.get("items", ())} <= orders
        assert len(case.mine.get("users", ())) <= 1
        if change == "replace":
            assert any(case.theirs.values())


@pytest.mark.parametrize("most", [1, 3])
def test_users_with_more_rows_than_the_claim_covers_are_left_out(most):
    visits = [{"user_id": f"p{at % 5}"} for at in range(9)]  # p4 has one, the others have two
    tables = OwnTables({"visits": plain_table(visits)}, "user_id", {}, rows_per_user=most)
    maker, rng = Maker(tables, parse("SELECT COUNT(*) FROM visits")), np.random.default_rng(0)
    for case in [*maker.planned(), *(maker.by_chance(rng) for _ in range(20))]:
        rows = [row[0] for each in (case.mine, case.rows) for row in each.get("visits", ())]
        assert max(map(rows.count, rows)) <= most
    assert len(tables.given_users) == (1 if most == 1 else 5)


def test_the_rows_of_few_parents_have_keys_of_their_own():
    few = {
        "orders": [{"order_id": at + 1, "user_id": f"p{at}"} for at in range(10)],
        "items": [{"order_id": 1 + at % 10, "price": at} for at in range(11)],
    }
    tables = OwnTables({name: plain_table(one) for name, one in few.items()}, "user_id", {})
    maker = Maker(tables, parse("SELECT COUNT(*) FROM orders JOIN items USING (order_id)"))
    for case in maker.planned():
        rows = case.mine.get("orders", ()) + case.rows.get("orders", ())
        assert len({row[0] for row in rows}) == len(rows)


def test_rows_are_kept_by_the_comparisons_and_groups_pass_its_numbers():
    maker = Maker(own(), parse(shop.QUERIES["having"] + " AND amount >= 20"))
    cases = [case for case in maker.planned() if "passes 12 rows" in case.words]
    assert {len(case.rows["users"]) for case in cases} == {11, 12}
    assert all(row[2] >= 20 for case in cases for row in case.rows["orders"])
    assert {row[1] for row in Maker(own(), parse(shop.QUERIES["unbounded"])).crowd(9)["users"]} == {
        "rome"
    }


def test_what_the_tables_do_not_allow_is_never_tried():
    given = {"tables": shop.tables(), "user": "user_id", "query": shop.QUERIES["average"]}
    features = OwnQueries.from_params(given).all_features()
    assert "missing values (no column has any)" in features
    assert "numbers out of bounds (give low and high of a column)" in features
    given["columns"] = {"orders": {"amount": {"low": 0, "high": 100}}}
    assert "a user with orders.amount out of bounds" in OwnQueries.from_params(given).all_features()


@pytest.mark.parametrize("users", [["me", "u1", "U2_", "x"], [1, 2, 3, 9]])
def test_nobody_is_called_as_a_made_up_user(users):
    given = {
        "users": plain_table([{"user_id": one} for one in users]),
        "orders": plain_table([{"user_id": one} for one in users[:3]]),
    }
    maker = Maker(OwnTables(given, "user_id", {}), parse(COUNT))
    people = [maker.person(number) for number in range(13)]
    made = [{rows[name][0][0] for name in ("users", "orders")} for rows in people]
    assert all(len(one) == 1 for one in made)
    assert not set(users) & set().union(*made)


def test_numbers_stay_in_their_bounds_if_the_claim_says_so():
    visits = [{"user_id": f"p{at}", "x": float(at)} for at in range(10)]  # two out of bounds
    given = {"v": plain_table(visits)}
    bounds = {"v": {"x": {"low": 0, "high": 7}}}
    for sql in ("SELECT SUM(x) FROM v WHERE x < 100", "SELECT SUM(x) FROM v WHERE x > 50"):
        maker = Maker(OwnTables(given, "user_id", bounds, beyond=False), parse(sql))
        for case in maker.planned():
            rows = case.mine.get("v", ()) + case.rows.get("v", ())
            assert all(0 <= row[1] <= 7 for row in rows)
    params = {"tables": {"v": visits}, "user": "user_id", "columns": bounds, "query": sql}
    features = OwnQueries.from_params({**params, "beyond": False}).all_features()
    assert "numbers out of bounds (beyond is false)" in features
    assert not any("v.x out of bounds" in one for one in features)


def test_the_neighbourhood_keeps_its_promises():
    params = {"tables": shop.tables(), "user": "user_id", "query": shop.QUERIES["having"]}
    check_neighbourhood(OwnQueries.from_params({**params, "batch": 4}))


# Audits.


def test_records_hold_the_owners_and_columns_as_they_were_understood():
    bounds = {"orders": {"amount": {"low": 0, "high": 100}}}
    (cell,) = audited(noisy_count, [COUNT], columns=bounds, trials=100).cells
    params = cell.search.neighbourhood.params
    assert params["user"]["items"] == ["order_id", "orders.order_id"]
    read = params["understood"]
    assert read["orders"]["columns"]["amount"] == {
        **{"kind": "number", "type": "REAL", "low": 0, "high": 100},
        "bounds": "given",
    }
    assert read["items"]["columns"]["price"]["bounds"] == "of the rows"
    assert read["users"]["columns"]["city"]["categories"] == ["berlin", "paris", "rome"]
    assert read["cities"]["user"] == "public"
    again = OwnQueries.from_params({**params, "query": COUNT})
    assert again.params() == {**params, "query": COUNT}
    params["tables"]["users"]["rows"].append([99, "oslo"])
    with pytest.raises(dpframe.plugins.ParameterError, match="not as they were"):
        OwnQueries.from_params({**params, "query": COUNT}).check()


def noisy_count(rng, tables, query):
    return len(tables["users"]) + rng.laplace()


def audited(engine, queries, **more):
    how = {"tables": shop.tables(), "epsilon": 1.0, "trials": 1000, **more}
    return audit_sql(engine, queries=queries, **how)


def test_each_query_is_a_claim_of_its_own():
    calls = []

    def answer(rng, tables, query):
        calls.append(id(tables))
        noise = rng.laplace(scale=1 if query.values[0] == "n" else 4)
        return len(tables["users"]) + noise

    record = audited(
        answer, {"right": "SELECT COUNT(*) AS n FROM users", "loud": COUNT}, trials=300
    )
    assert [cell.mechanism.label for cell in record.cells] == ["right", "loud"]
    assert record.summary.m == 2
    assert [cell.verdict for cell in record.cells] == ["consistent", "consistent"]


@pytest.mark.parametrize("mistake", ["unbounded", "having"])
def test_a_mistake_of_a_layer_on_a_database_is_found(mistake):
    (cell,) = audited(SQLite(shop.layer(mistake)), [shop.QUERIES[mistake]]).cells
    assert cell.verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mistake", shop.QUERIES)
def test_all_mistakes_are_found_and_the_right_layer_is_consistent(mistake, seed):
    tables = shop.tables(wide=40)
    how = {"tables": tables, "seed": seed, "trials": 10_000}
    (cell,) = audited(SQLite(shop.layer(mistake)), [shop.QUERIES[mistake]], **how).cells
    assert cell.verdict == "violated"
    (cell,) = audited(SQLite(shop.layer()), [shop.QUERIES[mistake]], **how).cells
    assert cell.verdict == "consistent"


def noisy(connection, sql):
    """Claims ε = 1 for each user, and adds noise for one row."""
    rows = connection.execute(sql).fetchall()
    return [(*key, value + np.random.default_rng().laplace()) for *key, value in rows]


def frames(lazy, sql):
    rows = lazy["orders"].select(polars.len()).collect().item()
    return polars.DataFrame({"n": [rows + np.random.default_rng().laplace()]})


def rewritten(sql):
    """Claims ε = 1 for each user, and adds uniform noise, which hides nothing."""
    return sql.replace("COUNT(*)", "COUNT(*) + random()")


@pytest.mark.parametrize(
    "engine", [SQLite(noisy), DuckDB(noisy), DuckDB(rewritten), Polars(frames)]
)
def test_layers_on_databases_are_audited(engine):
    (cell,) = audited(engine, ["SELECT COUNT(*) AS n FROM orders"], trials=300).cells
    assert cell.verdict == "violated"
    assert cell.search.event.startswith("the n is ")


needs_server = pytest.mark.skipif(
    postgresql.missing() is not None, reason=postgresql.missing() or ""
)

LAYER = """
import random

def private(connection, sql):
    rows = connection.execute(sql).fetchall()
    noise = [random.expovariate(1) - random.expovariate(1) for _ in rows]
    return [(*key, float(x or 0) + one) for (*key, x), one in zip(rows, noise)]
"""


@needs_server
def test_the_page_audits_tables_of_a_server_in_twelve_lines(tmp_path):
    page = Path(__file__).parents[3] / "docs" / "how-to" / "audit-sql.md"
    (code,) = re.findall(
        r"```python\n(from dpframe_pipelines import Post.*?)```", page.read_text(), re.S
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    with postgresql.server() as source:
        connection = PostgreSQL(source=source).connect()
        connection.execute("CREATE TABLE users (user_id int PRIMARY KEY, city text NOT NULL)")
        connection.execute("CREATE TABLE orders (user_id int, amount numeric(8, 2))")
        connection.execute("INSERT INTO users SELECT n, 'rome' FROM generate_series(1, 9) n")
        connection.execute("INSERT INTO orders SELECT n % 9 + 1, n FROM generate_series(1, 20) n")
        (tmp_path / "my_layer.py").write_text(LAYER)
        (tmp_path / "page.py").write_text(code.replace("dbname=shop", source))
        run = [sys.executable, "page.py"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
        # Users have one row of `users`, and noise for one row hides it.
        verdicts = [line.count("violated") for line in done.stdout.splitlines()]
        assert verdicts == [1, 0, 1], done.stderr
        left = connection.execute("SELECT COUNT(*), SUM(user_id) FROM users").fetchall()
        assert left == [(9, 45)]  # nothing was written into the user's own tables
        connection.close()


@needs_server
def test_postgresql_works_with_pg8000():
    with postgresql.server() as source:
        folder = dict(one.split("=") for one in source.split())

        def connect():
            socket = f"{folder['host']}/.s.PGSQL.5432"
            found = pg8000.dbapi.connect("audit", unix_sock=socket, database="postgres")
            found.autocommit = True
            return found

        ask = PostgreSQL(source=connect).prepare(shop.tables())
        params = {"tables": shop.tables(), "user": "user_id", "query": COUNT}
        query = queries.read(OwnQueries.from_params(params).asked)
        assert list(map(list, ask(query))) == [[20]]
        ask.close()


SPEC = """
schema = 1
audit = { name = "shop", trials = 300, confidence = 0.999 }
run = { stop = "decided" }
[search]
use = "sql-queries"
params = { files = ["users.csv", "orders.csv"], user = "user_id" }
[[mechanism]]
use = "sql-engine"
label = "users"
params = { file = "engine.py", epsilon = 1.0 }
search.params.query = "SELECT city, COUNT(*) AS n FROM users GROUP BY city"
[[mechanism]]
use = "sql-engine"
label = "amounts"
params = { file = "engine.py", epsilon = 1.0 }
search.params.query = "SELECT SUM(amount) FROM orders"
[[attack]]
use = "answers"
[[attack]]
use = "features"
"""

PROGRAM = """
import random

def prepare(params, tables):
    def noise():
        return random.expovariate(1) - random.expovariate(1)

    def ask(query):
        if query.group:
            rows = [row["city"] for row in tables["users"]]
            return [(city, rows.count(city) + noise()) for city in ("paris", "rome")]
        return sum(row["amount"] for row in tables["orders"]) + noise()
    return ask
"""


def test_a_spec_names_files_and_queries(tmp_path, monkeypatch):
    (tmp_path / "users.csv").write_text("user_id,city\n1,rome\n2,paris\n3,paris\n4,rome\n")
    (tmp_path / "orders.csv").write_text("user_id,amount\n1,10.5\n2,20\n2,1\n")
    (tmp_path / "engine.py").write_text(PROGRAM)
    (tmp_path / "shop.toml").write_text(SPEC)
    (tmp_path / "out.toml").write_text(SPEC.replace('"users.csv"', '"../users.csv"'))
    monkeypatch.chdir(tmp_path)
    record = dpframe.audit("shop.toml", plugins=["engine.py"])
    assert [cell.verdict for cell in record.cells] == ["consistent", "violated"]
    with pytest.raises(SpecError, match="not in the folder of the spec"):
        dpframe.audit("out.toml", plugins=["engine.py"])


def test_an_engine_gets_its_tables_once_for_each_dataset(tmp_path):
    loads = tmp_path / "loads"

    class Engine:
        def prepare(self, tables):
            with loads.open("a") as file:
                file.write("x")
            noise = np.random.default_rng()
            return lambda query: len(tables["users"]) + noise.laplace()

    (cell,) = audited(Engine(), [COUNT], trials=300).cells
    answers = 2 * 300
    assert cell.verdict == "consistent"
    assert len(loads.read_text()) < answers


def test_a_function_that_changes_its_tables_gets_copies(tmp_path):
    def answer(rng, tables, query):
        people = tables["users"]
        while len(people) > 1:
            people.pop()
        return len(tables["orders"]) + rng.laplace()

    (cell,) = audited(answer, ["SELECT COUNT(*) FROM orders"], trials=300).cells
    assert (cell.status, cell.verdict) == ("ok", "violated")


@pytest.mark.slow
def test_queries_are_generated_for_one_table_if_none_are_given():
    tables = {"data": shop.tables()["users"]}
    (cell,) = audited(SQLite(noisy), None, tables=tables, without=["HAVING"]).cells
    assert cell.verdict == "violated"
    assert "SELECT" in cell.pair.params["description"]


def test_tables_are_described():
    assert describe_tables(shop.tables()).splitlines()[2:] == [
        "cities: public; city TEXT (3 categories), people INTEGER (1e+06 to 1e+06, as its rows)",
        "items: rows of orders by order_id; order_id INTEGER (link), "
        "price INTEGER (0 to 6, as its rows)",
    ]


def test_what_is_missing_is_named():
    with pytest.raises(dpframe.DpframeError, match="queries needs tables"):
        audit_sql(noisy_tables, queries=[COUNT], epsilon=1.0)
    with pytest.raises(dpframe.DpframeError, match="lacks a claim: pass epsilon"):
        audit_sql(noisy_tables, tables=shop.tables(), queries=[COUNT])
    with pytest.raises(dpframe.DpframeError, match="pass queries for several tables"):
        audit_sql(noisy_tables, tables=shop.tables(), epsilon=1.0)
    with pytest.raises(dpframe.DpframeError, match=r"write users in place of public\.users"):
        audited(SQLite(), ["SELECT COUNT(*) FROM public.users"])
    for public in ('"public".users', "cities c, public . users"):
        with pytest.raises(dpframe.DpframeError, match=r"write users in place of public\.users"):
            audited(SQLite(), [f"SELECT COUNT(*) FROM {public}"])
    with pytest.raises(dpframe.DpframeError, match="no such table: user"):
        audited(SQLite(), ["SELECT COUNT(*) FROM user, users"])
    for text in ("SELECT 5", "SELECT COUNT(*) FROM cities", "SELECT COUNT(*) FROM user"):
        with pytest.raises(dpframe.plugins.ParameterError, match="no table whose rows users own"):
            audited(SQLite(), [text])


def noisy_tables(tables, query):
    return 0.0
