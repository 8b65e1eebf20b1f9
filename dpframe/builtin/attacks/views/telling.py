"""Events of what was learned, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.builtin.attacks.views.intervals import EDGES
from dpframe.builtin.attacks.views.labels import in_words
from dpframe.builtin.attacks.views.view import listed

if TYPE_CHECKING:
    from collections.abc import Mapping


def told(view: Any, state: Any, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
    """The event "score ≥ edge", or "score < edge" where not `above`.

    Args:
        view: what was looked at.
        state: what was learned.
        edge: a score.
        above: which of the two.
        words: texts of hashes.
    """
    scores = np.asarray(state["scores"])
    # A score may have been rounded since: what is next to the edge is on it.
    chosen = (scores >= edge - 1e-6 * abs(edge)) == above
    if view.columns == "hashes":
        return _of_hashes(view, state, chosen, words)
    if view.columns == "numbers":
        return _of_numbers(view, state, chosen, words)
    return _of_codes(view, state, chosen)


def _of_codes(view: Any, state: Any, chosen: Any) -> str | None:
    # A code that was never seen belongs to neither side, as far as a reader is concerned.
    seen = np.asarray(state["scores"]) != 0
    codes, rest = (np.flatnonzero(side & seen).tolist() for side in (chosen, ~chosen))
    place = int(state["column"]), int(state["columns"])
    if not codes or (rest and len(rest) < len(codes) and chosen[~seen].all()):
        text: str | None = view.told(*place, rest, codes) if rest else None
        return f"it does not hold that {text}" if text else None
    found: str | None = view.told(*place, codes, rest)
    return found


def _of_hashes(view: Any, state: Any, chosen: Any, words: Mapping[int, str]) -> str:
    known = int(state["known"])
    inside, rest = chosen[:known], bool(chosen[-1])
    size = -np.abs(np.asarray(state["scores"])[:known])
    hashes = np.asarray(state["hashes"])[:known].astype(np.int64)
    order = np.argsort(size, kind="stable")
    of = [[int(hashes[i]) for i in order if inside[i] == wanted] for wanted in (True, False)]
    if not rest:
        return str(view.told(0, 1, of[0], words)) if of[0] else "is none of all answers"
    if not of[1]:
        return "is any answer"
    return f"it does not hold that it {view.told(0, 1, of[1], words)}"


def _of_numbers(view: Any, state: Any, chosen: Any, words: Mapping[int, str]) -> str:
    edges = np.asarray(state["edges"], np.float64)
    number = len(np.asarray(state["weights"]))
    column = int(state["column"])
    if view.beside and column >= 0:
        name = view.name_of(column, _labels(state, column % view.beside, words))
    else:
        name = view.name(column, number)
    used = int(np.isfinite(edges).sum())
    inside = chosen[: used + 1]
    inside = np.append(inside, False)
    parts, start = [], None
    for place, is_in in enumerate(inside):
        if is_in and start is None:
            start = place
        elif not is_in and start is not None:
            parts.append(_interval(edges, start, place, used))
            start = None
    if chosen[EDGES + 1] and np.asarray(state["scores"])[EDGES + 1]:
        parts.append("no number")
    return f"{name} is {listed(parts)}" if parts else f"{name} is nothing at all"


def _labels(state: Any, group: int, words: Mapping[int, str]) -> list[str]:
    """The labels of a group that come most often, and empty places for the others."""
    values = np.asarray(state["beside"], np.float64)[group]
    labels = [in_words(value, words) for value in values[~np.isnan(values)].tolist()]
    return [*labels, *[""] * int(np.asarray(state["more"])[group])] or ["a label of a group"]


def _interval(edges: Any, start: int, stop: int, used: int) -> str:
    """Categories from `start` to before `stop`: numbers from one edge to before another."""
    low = None if start == 0 else float(edges[start - 1])
    high = None if stop > used else float(edges[stop - 1])
    if low is None:
        return "anything" if high is None else f"below {high:.6g}"
    if high is None:
        return f"{low:.6g} or more"
    if high == np.nextafter(low, np.inf):
        return f"{low:.6g}"
    return f"from {low:.6g} to below {high:.6g}"
