"""A synthesizer from noisy marginals, right or with one planted mistake.

A record has an age from 0 to 100, a city and a sex. The synthesizer counts (age, city) and
(city, sex), each with half of ε for one record that is added or removed, and draws its rows from
the noisy counts.
"""

import itertools

import numpy as np

SCHEMA = [
    {"name": "age", "low": 0, "high": 100, "integer": True},
    {"name": "city", "categories": ["a", "b", "c"]},
    {"name": "sex", "categories": ["f", "m"]},
]
TABLE = [[20, "a", "f"], [35, "a", "m"], [41, "b", "f"], [58, "a", "f"], [66, "b", "m"]] * 4
MISTAKES = ("bounds", "categories", "order", "frequency", "cell", "zeros", "exact", "twice", "seed")
BINS = 4


def fit(rng, rows, epsilon=1.0, mistake=""):
    """Return a synthetic table."""
    if mistake == "seed":
        rng = np.random.default_rng(0)
    low, high, cities = 0, 100, ["a", "b", "c"]
    if mistake == "bounds" and rows:
        ages = [age for age, _, _ in rows]
        low, high = min(ages), max(ages) + 1
    if mistake == "categories":
        cities = sorted({city for _, city, _ in rows}) or ["a"]
    width = (high - low) / BINS
    binned = [(min(BINS - 1, int((age - low) / width)), city) for age, city, _ in rows]
    sexes = [(city, sex) for _, city, sex in rows]
    cells = list(itertools.product(range(BINS), cities))
    if mistake == "order":  # rows of the city of the newest record come first, and so on
        newest = list(dict.fromkeys([city for _, city in reversed(binned)] + cities))
        cells.sort(key=lambda cell: newest.index(cell[1]))
    if mistake == "frequency":  # the rows of the most frequent city come first
        cells.sort(key=lambda cell: -[city for _, city in binned].count(cell[1]))
    # Two measurements may spend ε/4 each: twice the scale, where the mistake takes half of it.
    by_age = noisy(rng, binned, cells, epsilon if mistake == "twice" else epsilon / 2)
    if mistake == "twice":
        again = noisy(rng, binned, cells, epsilon)
        by_age = {cell: (by_age[cell] + again[cell]) / 2 for cell in cells}
    if mistake == "cell":  # one count is released as it is
        by_age[1, "b"] = binned.count((1, "b"))
    if mistake == "zeros":  # cells that are empty in the data stay empty
        by_age = {cell: count if cell in binned else 0.0 for cell, count in by_age.items()}
    spent = 1e9 if mistake == "exact" else epsilon / 2
    by_sex = noisy(rng, sexes, itertools.product(cities, "fm"), spent)
    found = []
    for at, city in cells:
        women, men = (max(0.0, by_sex[city, sex]) for sex in "fm")
        number = max(0, round(by_age[at, city]))
        first = round(number * women / (women + men)) if women + men > 0 else number // 2
        age = round(low + (at + 0.5) * width)
        found += [[age, city, "f"]] * first + [[age, city, "m"]] * (number - first)
    return found


def noisy(rng, rows, cells, epsilon):
    """Return counts with Laplace noise for one record that is added or removed."""
    found = {cell: rng.laplace(scale=1 / epsilon) for cell in cells}
    for row in rows:
        found[row] += 1
    return found
