"""A private SQL engine over SQLite, right or with one planted mistake.

Each user contributes one row of one key. The engine is told the users, the keys and the bounds of
numbers. With GROUP BY it releases a key if enough users have it, by a noisy count; AVG is a noisy
sum over a noisy count. Rows come in the order of their keys.
"""

import math
import sqlite3

COLUMNS = [
    {"name": "user", "user": True},
    {"name": "city", "categories": ["a", "b", "c", "d"]},
    {"name": "spent", "low": 0.0, "high": 10.0},
]
EPSILON, DELTA = 1.0, 1e-3
MISTAKES = ("unbounded", "keys", "threshold", "average", "order")


def answer(rng, table, query, mistake=""):
    """Return the rows of a private answer."""
    parts = 1 + bool(query.group) + (query.aggregate == "AVG")
    epsilon = EPSILON / parts

    def noisy(number, most):
        return number + rng.laplace(scale=most / epsilon)

    threshold = 1 + math.log(1 / (2 * DELTA)) / epsilon
    found = []
    for key, rows in ordered(bounded(table, query, mistake), mistake):
        users = len({user for user, _ in rows})
        many = users if mistake == "threshold" else noisy(users, 1)
        if query.group and mistake != "keys" and many < threshold:
            continue
        clipped = [min(max(x, 0.0), 10.0) for _, x in rows if x is not None]
        if query.aggregate == "SUM":
            value = noisy(sum(clipped), 10)
        elif query.aggregate == "AVG":
            count = len(clipped) if mistake == "average" else noisy(len(clipped), 1)
            value = noisy(sum(clipped), 10) / count if count > 0 else None
        else:
            value = noisy(len(rows) if query.column in ("*", "user") else len(clipped), 1)
        if query.having is None or (value is not None and value >= query.having):
            found.append((*key, value))
    return found


def ordered(found, mistake):
    """Return keys and rows in the order of the keys, or of the exact number of rows."""
    items = sorted(found.items(), key=lambda item: str(item[0]))
    return sorted(items, key=lambda item: -len(item[1])) if mistake == "order" else items


def bounded(table, query, mistake):
    """Return (user, number) by key: one row of each user, or all of them."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (user, city, spent)")
    rows = [(row["user"], row["city"], row["spent"]) for row in table]
    database.executemany("INSERT INTO data VALUES (?, ?, ?)", rows)
    keys = "".join(f"{name}, " for name in query.group)
    where = query.sql.partition(" WHERE ")[2].partition(" GROUP BY ")[0].partition(" HAVING ")[0]
    text = f"SELECT user, spent, {keys} MIN(rowid) FROM data WHERE {where or 1}"
    text += " GROUP BY rowid" if mistake == "unbounded" else " GROUP BY user"
    found = {} if query.group else {(): []}
    for user, spent, *key, _ in database.execute(text):
        found.setdefault(tuple(key), []).append((user, spent))
    database.close()
    return found
