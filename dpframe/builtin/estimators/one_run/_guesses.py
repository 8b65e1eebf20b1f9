"""Guesses which canaries are members, from their scores, and how many of them are right."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from dpframe import Statistic
from dpframe.builtin.estimators.one_run._coins import FAR

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Tree

Side = Literal["any", "both", "in", "out"]

RUNGS = 8
"""Of the default ladder m, m/2, m/4, … of guesses."""

FEWEST = 8
"""It ends where so few guesses could hardly show anything."""

SIDES: dict[Side, dict[str, float]] = {
    "any": {"both": 0.5, "in": 0.25, "out": 0.25},
    "both": {"both": 1.0},
    "in": {"in": 1.0},
    "out": {"out": 1.0},
}
"""Which guesses are tried, and their shares of the error."""


@dataclasses.dataclass(frozen=True)
class GuessCounts(Statistic):
    """How many guesses are right, for each of some numbers of guesses.

    The highest scores are guessed to be members, the lowest not to be, and the rest is abstained
    from. NaN counts as −inf. Ties are broken by a shuffle that is fixed beforehand: the order in
    which canaries come may tell members from others. Runs add up: r guesses in each of t
    independent runs of m canaries are rt guesses in one run of mt.
    """

    guesses: tuple[int, ...] | None
    side: Side

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})

    def lay_out(self, dims: tuple[int, ...]) -> dict[str, Any]:
        """m, and for each rule how many are guessed to be in and out, and its share of the error.

        Raises:
            ValueError: more guesses than canaries.
        """
        m = dims[1]
        if self.guesses and max(self.guesses) > m:
            raise ValueError(f"guesses = {max(self.guesses)}, but there are {m} canaries")
        rules: dict[tuple[int, int], float] = {}
        for side, part in SIDES[self.side].items():
            # More than half of the canaries are hardly ever all in, or all out.
            numbers = self.guesses or _ladder(m if side == "both" else max(1, m // 2))
            own = {_split(side, number) for number in numbers}
            for rule in own:
                rules[rule] = rules.get(rule, 0.0) + part / len(own)
        ordered = sorted(rules)
        return {
            "canaries": np.int64(m),
            "inside": np.array([rule[0] for rule in ordered], np.int64),
            "outside": np.array([rule[1] for rule in ordered], np.int64),
            "shares": np.array([rules[rule] for rule in ordered]),
        }

    def zero(self, layout: Tree) -> Any:
        rules = layout["inside"].shape[0]
        return {
            "correct": jnp.zeros((2, rules), jnp.int32),
            **{name: jnp.zeros(2, jnp.int32) for name in ("members", "even", "far")},
        }

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        found = of_each_run(jnp, layout, scores)

        def added(total: Array, of_runs: Array) -> Array:
            weights = keep.reshape(-1, *(1,) * (of_runs.ndim - 1)).astype(jnp.int32)
            return total.at[dataset].add((weights * of_runs).sum(0, dtype=jnp.int32))

        return {name: added(counts[name], found[name]) for name in counts}

    def count(self, layout: Tree, runs: HostArray) -> Any:
        """The same on the host, of runs on D′, shape [n, 2, m]: nothing has to be compiled."""
        found = of_each_run(np, layout, runs)
        totals = {name: np.asarray(each).sum(0, dtype=np.int64) for name, each in found.items()}
        return {name: np.stack([0 * total, total]) for name, total in totals.items()}

    def describe(self, layout: Tree) -> dict[str, Any]:
        told = {name: np.asarray(leaf).tolist() for name, leaf in layout.items()}
        return {**super().describe(layout), **told}


def of_each_run(xp: Any, layout: Tree, runs: Any) -> dict[str, Any]:
    """What is counted of each run, first axis the run; traced, or on the host.

    Args:
        xp: jax.numpy or numpy.
        layout: of `GuessCounts`.
        runs: scores and memberships, shape [n, 2, m].
    """
    m = runs.shape[-1]
    shuffled = runs[..., np.random.default_rng(m).permutation(m)]
    values = xp.where(xp.isnan(shuffled[:, 0]), -xp.inf, shuffled[:, 0])
    order = xp.argsort(values, axis=1, stable=True)
    member = xp.take_along_axis((shuffled[:, 1] > 0.5).astype(xp.int32), order, axis=1)
    # How many of the k highest are members, and how many of the k lowest are not.
    highest = xp.cumsum(xp.pad(member[:, ::-1], ((0, 0), (1, 0))), axis=1)
    lowest = xp.cumsum(xp.pad(1 - member, ((0, 0), (1, 0))), axis=1)
    inside = member.sum(1)
    excess = xp.abs(2 * inside - m)
    return {
        "correct": highest[:, layout["inside"]] + lowest[:, layout["outside"]],
        "members": inside,
        "even": excess == 0,
        "far": excess > FAR * m**0.5,
    }


def _ladder(m: int) -> list[int]:
    rungs = [m >> j for j in range(RUNGS)]
    return [r for r in rungs if r >= FEWEST] or [m]


def _split(side: str, guesses: int) -> tuple[int, int]:
    """How many are guessed to be in, and out."""
    if side == "both":
        return guesses - guesses // 2, guesses // 2
    return (guesses, 0) if side == "in" else (0, guesses)
