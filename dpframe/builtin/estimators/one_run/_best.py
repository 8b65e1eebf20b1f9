"""What several numbers of guesses certify together, each with its share of the error."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from dpframe import Contrast, Estimate, Estimator, Ge, Query, Statistic
from dpframe.builtin.estimators.one_run._coins import check_coins, coin_notes
from dpframe.builtin.estimators.one_run._guesses import GuessCounts, Side

if TYPE_CHECKING:
    from dpframe import Claim, HostArray, Tree

SMALLEST_P = 1e-300


class Guessed(NamedTuple):
    """One number of guesses and what came of it."""

    canaries: int
    guesses: int
    correct: int
    share: float
    """Of the error."""


class Guesses(Estimator):
    """The largest bound of several numbers of guesses, which share the error."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "each canary in by a fair coin of its own, independent of the others; runs independent"
    )

    guesses: tuple[Annotated[int, Ge(1)], ...] | None = None
    """How many canaries to guess about, in each run; several share the error. Default: m, m/2,
    m/4, … of m canaries."""
    side: Side = "any"
    """Guess the highest scores to be in and as many of the lowest to be out ("both"), only "in",
    only "out", or try all three ("any")."""

    def check(self) -> None:
        if self.guesses is not None and not self.guesses:
            raise ValueError("guesses names no number")

    def statistic(self) -> Statistic:
        return GuessCounts(self.guesses, self.side)

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        counts = GuessCounts(self.guesses, self.side)
        run = np.stack([np.asarray(scores, np.float64), members])[None]
        layout = counts.lay_out(run.shape[1:])
        return self.estimate(layout, counts.count(layout, run), query._replace(trials=(0, 1)))

    @abstractmethod
    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        """The bound of one number of guesses, or anything not above `least`."""

    @abstractmethod
    def level(self, one: Guessed, claim: Claim, most: float, query: Query, slack: float) -> float:
        """Smallest error at which it rejects the claim, or anything not below `most`."""

    def estimate(self, layout: Tree, counts: Any, query: Query) -> Estimate:
        m, runs = int(layout["canaries"]), sum(query.trials)
        members, even, far = (int(np.sum(counts[name])) for name in ("members", "even", "far"))
        check_coins(m, runs, members, even, far)
        correct = np.asarray(counts["correct"], np.int64).sum(axis=0)
        made = np.asarray(layout["inside"]) + np.asarray(layout["outside"])
        each = [
            Guessed(m * runs, int(r) * runs, int(v), float(share))
            for r, v, share in zip(made, correct, layout["shares"], strict=True)
        ]
        error = 1 - query.confidence
        bound, best = self.largest(each, query.delta, error)
        notes = (
            f"{best.correct:,} of {best.guesses:,} guesses right, {best.canaries:,} canaries, "
            f"{members:,} of them members",
            *self.remarks(best, error, query),
            *coin_notes(m, runs, even),
        )
        answer = Estimate(_point(best, query.delta), epsilon_lower=bound, notes=notes)
        if (claim := query.claim) is None:
            return answer
        p_value, telling = self._p_value(each, claim, query, 0.0)
        resolved = p_value
        if query.resolution:
            resolved = self._p_value(each, claim, query, query.resolution)[0]
        return answer._replace(
            p_value=p_value,
            p_resolved=max(p_value, resolved),
            contrast=self.contrast(each, telling, claim, query),
        )

    def largest(self, each: list[Guessed], delta: float, error: float) -> tuple[float, Guessed]:
        """The largest bound at a δ, and of which number of guesses it is."""
        bound, best = 0.0, max(each, key=lambda one: one.correct / one.guesses)
        for one in each:
            found = self.lower(one, delta, error * one.share, bound)
            if found > bound:
                bound, best = found, one
        return bound, best

    def _p_value(
        self, each: list[Guessed], claim: Claim, query: Query, slack: float
    ) -> tuple[float, Guessed]:
        least, telling = 1.0, each[0]
        for one in each:
            found = self.level(one, claim, least * one.share, query, slack) / one.share
            if found < least:
                least, telling = found, one
        return max(least, SMALLEST_P), telling

    def remarks(self, best: Guessed, error: float, query: Query) -> tuple[str, ...]:
        """What else the best number of guesses says."""
        return ()

    def contrast(
        self, each: list[Guessed], telling: Guessed, claim: Claim, query: Query
    ) -> Contrast | None:
        """Bound and claim where they differ most."""
        return None

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Any:
        m = int(layout["canaries"])
        made = np.asarray(layout["inside"]) + np.asarray(layout["outside"])
        nothing = np.zeros(2, np.int64)
        return {
            "correct": np.outer(trials, made),
            "members": np.array(trials) * m // 2,
            "even": nothing,
            "far": nothing,
        }


def _point(one: Guessed, delta: float) -> float:
    """ε at which so large a share of right guesses is what (ε, δ)-DP allows at most."""
    right = one.correct / one.guesses
    if right <= 0.5:
        return 0.0
    if right == 1:
        return math.inf
    return max(0.0, math.log(max(right - delta, 1e-300) / (1 - right)))
