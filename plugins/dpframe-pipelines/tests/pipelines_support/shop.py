"""A shop with users, their orders and items, and a private layer that bounds users to two rows.

With a mistake: "unbounded" keeps all rows of a user, "perkey" two of each key, "having" compares
exact counts, "keys" shows the keys of the data, "distinct" adds too little noise to a count of
users, "order" sorts by exact counts, "average" divides by an exact count.
"""

import numpy as np

KEPT, CITIES = 2, ("berlin", "paris", "rome")


def tables(users=20, wide=0):
    rng = np.random.default_rng(0)
    return {
        "users": [
            {
                "user_id": 100 + n,
                "city": CITIES[n % 3],
                **{f"x{m}": float(rng.random()) for m in range(wide)},
            }
            for n in range(users)
        ],
        "orders": [
            {
                "order_id": 1000 + n,
                "user_id": 100 + int(rng.integers(users)),
                "amount": round(100 * float(rng.random()), 2),
            }
            for n in range(2 * users)
        ],
        "items": [{"order_id": 1000 + n // 2, "price": n % 7} for n in range(4 * users)],
        "cities": [{"city": city, "people": 10**6 + n} for n, city in enumerate(CITIES)],
    }


JOIN = "FROM orders JOIN users USING (user_id)"
COUNT = f"SELECT city, COUNT(*) AS n {JOIN} GROUP BY city"
QUERIES = {
    "unbounded": f"SELECT SUM(amount) AS total {JOIN} WHERE city = 'rome'",
    "perkey": f"SELECT COUNT(*) AS n {JOIN} WHERE amount >= 20",
    "having": f"{COUNT} HAVING COUNT(*) >= 12",
    "keys": COUNT,
    "distinct": f"SELECT city, COUNT(DISTINCT user_id) AS n {JOIN} GROUP BY city",
    "order": f"{COUNT} ORDER BY n DESC LIMIT 2",
    "average": f"SELECT city, AVG(amount) AS mean {JOIN} GROUP BY city",
}


def layer(mistake=""):
    """Return a private layer on a connection."""

    def private(rng, connection, sql):
        part = "user_id, amount" if mistake == "perkey" else "user_id"
        most = 10**9 if mistake == "unbounded" else KEPT
        where = sql.partition(" WHERE ")[2].partition(" GROUP BY ")[0] or "1 = 1"
        place = f"ROW_NUMBER() OVER (PARTITION BY {part} ORDER BY order_id) AS place"
        rows = f"SELECT *, {place} {JOIN} WHERE {where}"
        rows = f"SELECT user_id, city, amount FROM ({rows}) WHERE place <= {most}"
        found = {}
        for user, city, amount in connection.execute(rows).fetchall():
            found.setdefault(city if "GROUP BY" in sql else None, []).append((user, amount))
        keys = CITIES if "GROUP BY" in sql else (None,)
        answer = []
        for key in found if mistake == "keys" else keys:
            own = found.get(key, [])
            users, amounts = {user for user, _ in own}, [min(100, max(0, x)) for _, x in own]
            if "DISTINCT" in sql:
                value = len(users) + rng.laplace(scale=0.5 if mistake == "distinct" else 1)
            elif "SUM" in sql:
                value = sum(amounts) + rng.laplace(scale=100 * KEPT)
            elif "AVG" in sql:
                many = len(own) + (0 if mistake == "average" else rng.laplace(scale=2 * KEPT))
                total = sum(amounts) - 50 * len(own) + rng.laplace(scale=100 * KEPT)
                value = 50 + total / max(1, many)
            else:
                value = len(own) + rng.laplace(scale=KEPT)
            if "HAVING" not in sql or (len(own) if mistake == "having" else value) >= 12:
                answer.append((key, value, len(own)))
        if "ORDER BY" in sql:
            answer.sort(key=lambda row: -row[2 if mistake == "order" else 1])
        limit = int(sql.partition(" LIMIT ")[2] or 100)
        return [(k, v) if "GROUP BY" in sql else (v,) for k, v, _ in answer[:limit]]

    return private
