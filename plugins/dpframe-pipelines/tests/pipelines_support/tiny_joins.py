"""A private pipeline on a join in SQLite: right, or with one planted mistake.

Users own a row of `data`. The rows of `other` belong to users too, or are public. The right form
keeps one joined row of each user. "unbounded" keeps all; "before" keeps one row of each user before
the join, which multiplies it; "left" does so for LEFT JOIN only.
"""

import sqlite3

COLUMNS = [{"name": "user", "user": True}, {"name": "city", "categories": ["a", "b"]}]
VISITS = [{"name": "user", "user": True}, {"name": "spent", "low": 0.0, "high": 10.0}]
SHOPS = [{"name": "city", "categories": ["a", "b"]}, {"name": "spent", "low": 0.0, "high": 10.0}]


def answer(rng, tables, query, mistake=""):
    """Return the rows of a private answer; the cities are public."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (user, city)")
    database.execute(f"CREATE TABLE other ({query.join}, spent)")
    database.executemany("INSERT INTO data VALUES (:user, :city)", tables["data"])
    rows = [tuple(row.values()) for row in tables["other"]]
    database.executemany("INSERT INTO other VALUES (?, ?)", rows)
    number, scale = ("1" if query.column == "*" else f"{query.column} IS NOT NULL"), 1.0
    if query.aggregate in ("SUM", "AVG"):  # AVG answers with a sum: the mistake is the join
        number, scale = "MIN(MAX(COALESCE(spent, 0), 0), 10)", 10.0
    text = query.sql.partition(" FROM ")[2].partition(" GROUP BY ")[0].partition(" HAVING ")[0]
    if mistake == "before" or (mistake == "left" and query.left):
        text = f"(SELECT *, MIN(rowid) FROM data GROUP BY user) AS {text}"
        text = f"SELECT city, {number}, 0 FROM {text}"
    else:
        text = f"SELECT city, {number}, MIN(data.rowid) FROM {text}"
        text += f" GROUP BY {'data.rowid, other.rowid' if mistake == 'unbounded' else 'user'}"
    joined = database.execute(text).fetchall()
    database.close()
    found = []
    for key in ("a", "b") if query.group else (None,):
        exact = sum(number for city, number, _ in joined if key in (None, city))
        value = exact + rng.laplace(scale=scale)
        if query.shows(value):
            found.append((key, value) if query.group else (value,))
    return found
