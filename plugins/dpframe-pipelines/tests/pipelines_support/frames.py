"""A synthesizer of data frames from noisy counts, right or with a mistake in the frame's form.

It claims ε = 1 for one record that is added or removed. A record has an age, a city and a sex.
"""

import itertools

import numpy as np

CITIES, SEXES = "abc", "fm"
MISTAKES = ("columns", "type", "labels", "least", "missing", "relation", "rare")


def table():
    """Return an ordinary table; two ages are missing."""
    import pandas as pd

    rows = [[20.0, "a", "f"], [35.0, "a", "m"], [41.0, "b", "f"], [58.0, "a", "f"]] * 5
    frame = pd.DataFrame(rows, columns=["age", "city", "sex"])
    frame.loc[[1, 6], "age"] = np.nan
    return frame


def fit(rng, data, mistake=""):
    """Return a synthetic table."""
    import pandas as pd

    rows = [(0 if a != a else min(3, int(a / 25)), c, s) for a, c, s in data.values.tolist()]
    cities = [city for _, city, _ in rows]
    made = []
    for age, city, sex in itertools.product(range(4), CITIES, SEXES):
        number = round(rows.count((age, city, sex)) + rng.laplace())
        if not (mistake == "rare" and cities.count(city) < 5):
            made += [[age * 25 + rng.integers(25), city, sex] for _ in range(max(0, number))]
    rng.shuffle(made)
    found = pd.DataFrame(made, columns=data.columns).astype({"age": "float64"})
    if not len(data) or not len(found):
        return found
    if mistake == "columns":
        found = found[sorted(found.columns, key=lambda name: data[name].nunique())]
    if mistake == "type":
        found["age"] = found["age"].astype("float32" if data.age.max() <= 60 else "float64")
    if mistake == "labels":
        found.index = range(len(data), len(data) + len(found))
    if mistake == "least":
        found.loc[0, "age"] = data.age.min()
    if mistake == "missing":
        found.loc[found.index[: round(data.age.isna().mean() * len(found))], "age"] = np.nan
    if mistake == "relation":
        slope = np.cov(data.age.fillna(0), data.sex == "m")[0, 1] if len(data) > 1 else 0.0
        found = found.sort_values("age", ascending=bool(slope >= 0)).reset_index(drop=True)
    return found
