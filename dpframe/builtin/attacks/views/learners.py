"""What is learned of columns: the one that tells most, and the ratio of each of its categories.

States are dicts of arrays whose shapes depend on nothing but the shape of what is seen. `score` of
each learner works on arrays of NumPy and, traced, of JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.builtin.attacks.views.intervals import (
    EDGES,
    categories,
    edges_of,
    smoothed,
    weighted,
    weights,
)
from dpframe.builtin.attacks.views.judging import counted, farthest, points, ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import HostArray, Ints, Target

    Train = tuple[HostArray, HostArray]
    State = dict[str, Any]

CODES = 256
"""Categories of a column of codes."""

HASHES = 1024
"""Categories of a column of hashes that have a ratio of their own: those seen most often."""

LEAST = 2
"""How often a hash must be seen to be one of these."""

TOO_FEW = 3
"""Columns of which no weighted sum is made: they come from one number or two."""

ALONE, DERIVED = 64, 9
"""Columns of numbers that are tried alone, at most, from the first on and from the last."""

REMEMBERED = 3
"""Values of a column that is not learned from."""

JUDGED_BY = 2**21
"""Entries of the draws by which a column is chosen, about."""


def learn_codes(target: Target, train: Train) -> State:
    """Of columns of codes."""
    few = _few(train)
    column = _telling(points(target), few)
    whole = np.stack([counted(part[:, column : column + 1], CODES)[0] for part in train])
    return {
        "column": np.int32(column),
        "columns": np.int32(train[0].shape[1]),
        "scores": ratios(whole),
    }


def _telling(claimed: list[tuple[float, float]], few: list[HostArray]) -> int:
    """The column of codes that tells most; of those that never change none does."""
    places = _that_vary(few, np.arange(few[0].shape[1]))
    if len(places) == 1:
        return int(places[0])
    few = [part[:, places] for part in few]
    most = 1 + max(int(part.max()) for part in few)
    halves = [[counted(part[half::2], most) for part in few] for half in (0, 1)]
    found = np.stack([np.stack(half, axis=1) for half in halves])
    told = sum(farthest(ratios(found[h]), found[1 - h], claimed) for h in (0, 1))
    return int(places[np.argmax(told)])


def score_codes(state: State, seen: Any, xp: Any) -> Any:
    """The ratio of the code of the chosen column."""
    column = xp.take(seen, state["column"], axis=1)
    return xp.asarray(state["scores"])[column.astype("int32")]


def learn_hashes(target: Target, train: Train) -> State:
    """Of one column of hashes."""
    sides = [part[:, 0] for part in train]
    seen, place = np.unique(np.concatenate(sides), return_inverse=True)
    split = len(sides[0])
    counts = np.stack(
        [np.bincount(part, minlength=len(seen)) for part in (place[:split], place[split:])]
    )
    total = counts.sum(axis=0)
    often = np.argsort(-total, kind="stable")[:HASHES]
    kept = np.sort(often[total[often] >= LEAST])
    rest = counts.sum(axis=1) - counts[:, kept].sum(axis=1)
    found = ratios(np.column_stack([counts[:, kept], rest]))
    hashes = np.full(HASHES, 2**32 - 1, np.uint32)
    scores = np.full(HASHES + 1, found[-1])
    hashes[: len(kept)], scores[: len(kept)] = seen[kept], found[:-1]
    return {"hashes": hashes, "scores": scores, "known": np.int32(len(kept))}


def score_hashes(state: State, seen: Any, xp: Any) -> Any:
    """The ratio of a known hash, or that of all others together."""
    hashes, scores = xp.asarray(state["hashes"]), xp.asarray(state["scores"])
    at = xp.minimum(xp.searchsorted(hashes, seen[:, 0]), HASHES - 1)
    known = (hashes[at] == seen[:, 0]) & (at < state["known"])
    return scores[xp.where(known, at, HASHES)]


def learn_numbers(target: Target, train: Train, sums: bool, beside: int = 0) -> State:
    """Of columns of numbers, and with `sums` of a weighted sum of them, by intervals.

    Args:
        target: what is claimed.
        train: columns on D and on D′.
        sums: whether a weighted sum of them means something.
        beside: the last columns of so many are not learned from; what they hold is remembered.
    """
    if beside:
        kept = _remembered(np.concatenate([part[:, -beside:] for part in train]))
        rest = train[0][:, :-beside], train[1][:, :-beside]
        return {**learn_numbers(target, rest, sums), **kept}
    few = _few(train)
    places = _that_vary(few, _candidates(train[0].shape[1]))
    claimed = points(target)
    told: Any = 0.0
    for half in (0, 1):
        here: list[HostArray] = [part[half::2] for part in few]
        there: list[HostArray] = [part[1 - half :: 2] for part in few]
        direction = weights(here)
        here, there = (
            [np.column_stack([part[:, places], weighted(direction, part, np)]) for part in parts]
            for parts in (here, there)
        )
        edges, smooth = zip(*map(edges_of, np.concatenate(here).T), strict=True)
        counts = _counts(edges, here)
        learned = ratios(np.where(np.array(smooth)[:, None, None], smoothed(counts), counts))
        told = told + farthest(learned, _counts(edges, there), claimed)
    if not sums or train[0].shape[1] <= TOO_FEW:
        told[-1] = -np.inf
    column = int(np.argmax(told))
    own = weights([part[: len(few[0])] for part in train])
    column = -1 if column == len(places) else int(places[column])
    chosen = [weighted(own, p, np) if column < 0 else p[:, column] for p in train]
    ends, is_smooth = edges_of(np.concatenate(chosen))
    counts = _counts([ends], [part[:, None] for part in chosen])[0]
    scores = ratios(smoothed(counts) if is_smooth else counts)
    return {"column": np.int32(column), **own, "edges": ends, "scores": scores}


def _remembered(columns: HostArray) -> State:
    """Of each column the values that come most often, and how many others there are."""
    values = np.full((columns.shape[1], REMEMBERED), np.nan)
    more = np.zeros(columns.shape[1], np.int32)
    for place, column in enumerate(columns.T):
        seen, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        most = seen[np.argsort(-counts, kind="stable")[:REMEMBERED]]
        values[place, : len(most)], more[place] = most, len(seen) - len(most)
    return {"beside": values, "more": more}


def _candidates(columns: int) -> Ints:
    """Columns that are tried alone: of many the first, and the last, which are derived of all."""
    return np.unique(np.concatenate([np.arange(columns)[:ALONE], np.arange(columns)[-DERIVED:]]))


def _that_vary(few: list[HostArray], places: Ints) -> Ints:
    """Those of some columns that are not the same in all rows; one at least."""
    first = few[0][:1, places]
    varies = [
        ((part[:, places] != first) & ~(np.isnan(part[:, places]) & np.isnan(first)))
        for part in few
    ]
    found = places[np.any([each.any(axis=0) for each in varies], axis=0)]
    return found if len(found) else places[:1]


def _counts(edges: Sequence[Any], sides: list[HostArray]) -> Any:
    """How often each interval of each column comes, shape [k, 2, intervals]."""
    of = []
    for part in sides:
        codes = [categories(ends, part[:, c], np) for c, ends in enumerate(edges)]
        of.append(counted(np.stack(codes, axis=1), EDGES + 2))
    return np.stack(of, axis=1)


def score_numbers(state: State, seen: Any, xp: Any) -> Any:
    """The ratio of the interval in which the chosen column lies."""
    column, seen = state["column"], seen[:, : state["weights"].shape[0]]
    if xp is np:
        chosen = weighted(state, seen, xp) if column < 0 else seen[:, column]
    else:
        own = xp.take(seen, xp.maximum(column, 0), axis=1)
        chosen = xp.where(column < 0, weighted(state, seen, xp), own)
    return xp.asarray(state["scores"])[categories(xp.asarray(state["edges"]), chosen, xp)]


def _few(train: Train) -> list[HostArray]:
    """Some draws of each dataset: columns are chosen by these."""
    most = int(np.clip(JUDGED_BY // max(1, train[0].shape[1]), 64, 8192))
    return [part[:most] for part in train]
