"""One way of deciding between D and D′ by a threshold, and how often it was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from dpframe.builtin.estimators.threshold._best_cut import best_cut, rises

if TYPE_CHECKING:
    from dpframe import Floats, HostArray, Ints, Query, Tree
    from dpframe.builtin.estimators.threshold._best_cut import Promise

Direction = Literal["either", "up", "down"]


class Decisions(NamedTuple):
    """Counts of a way of deciding."""

    wrong: Ints
    """False positives and false negatives."""
    trials: Ints
    """Out of how many: on D and on D′."""
    when: str | None = None
    """Which scores mean D′, in words, if that was chosen."""

    @property
    def rates(self) -> Floats:
        """FPR and FNR; 1 where nothing was counted."""
        return np.where(self.trials > 0, self.wrong / np.maximum(self.trials, 1), 1.0)


def decisions(
    layout: Tree, counts: Ints, direction: Direction, promise: Promise, query: Query
) -> list[Decisions]:
    """The ways of deciding that are to be paid for: one, or both directions if nothing chose.

    Args:
        layout: of `PilotThresholds`; `()` if the threshold was given.
        counts: shape [2, bins] of the one, [2, 2] of the other.
        direction: whether large scores mean D′ ("up"), D ("down"), or may mean either.
        promise: what a way of deciding with upper limits (FPR, FNR) is worth.
        query: what is asked.
    """
    if not layout:
        ways = {"up": (True,), "down": (False,), "either": (True, False)}[direction]
        return [_decided(counts, 1, rising=rising) for rising in ways]
    pilot = np.asarray(layout["pilot"], np.int64)
    rising = rises_in(layout, direction)
    cut = best_cut(pilot, promise, query, rising=rising)
    when = _where(layout["edges"], cut, rising=rising)
    return [_decided(counts, cut, rising=rising)._replace(when=when)]


def rises_in(layout: Tree, direction: Direction) -> bool:
    """The direction that is taken; the pilot chooses it without knowing what is asked."""
    if layout and direction == "either":
        return rises(np.asarray(layout["pilot"], np.int64))
    return direction != "down"


def price(ways: list[Decisions]) -> str:
    """A note on what was chosen and what was paid for."""
    if len(ways) > 1:
        return f"{len(ways)} ways of deciding paid for: either direction may mean D′"
    chosen = f", chosen by the pilot: scores {ways[0].when} mean D′" if ways[0].when else ""
    return f"1 way of deciding paid for{chosen}"


def extreme_counts(layout: Tree, trials: tuple[int, int], direction: Direction) -> Ints:
    """Counts of a perfect attack, in the direction that is taken."""
    bins = np.asarray(layout["pilot"]).shape[1] if layout else 2
    ends = (0, -1) if rises_in(layout, direction) else (-1, 0)
    counts = np.zeros((2, bins), np.int64)
    counts[0, ends[0]], counts[1, ends[1]] = trials
    return counts


def _decided(counts: Ints, cut: int, *, rising: bool) -> Decisions:
    """Decides for D′ from a bin on, or below it."""
    high, low = counts[:, cut:].sum(axis=1), counts[:, :cut].sum(axis=1)
    positive, negative = (high, low) if rising else (low, high)
    return Decisions(np.array([positive[0], negative[1]]), counts.sum(axis=1))


def _where(edges: HostArray, cut: int, *, rising: bool) -> str:
    """The bins from a cut on, or those below it, in words; bin 0 is NaN, bin 1 below all edges."""
    if cut == 1:
        return "other than NaN" if rising else "that are NaN"
    edge = f"{float(str(edges[cut - 2])):.6g}"
    return f"from {edge} on" if rising else f"below {edge}"
