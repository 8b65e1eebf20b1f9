"""Adaptive guesses about the canaries of one run [Keinan2025], with a bet on each."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from scipy import special

from dpframe.plugins import Array, Estimate, Estimator, Floats, HostArray, Query, Statistic, Tree
from dpframe_baselines.canaries import check_members, members_in_order
from dpframe_baselines.common import loss, smallest

MEMORIES = (0.9, 0.97, 0.99, 1.0)  # weight of a guess after each later one
PRIOR_RIGHT, PRIOR_MADE = 1.9, 2.0  # guesses before the first, so that it bets at once
GRID = 0.01  # of the bound on ε, in nats
LARGEST = 20.0


@dataclasses.dataclass(frozen=True)
class MembersByRank(Statistic):
    """The number of members and of runs by the rank of the score, counts[dataset][rank].

    NaN counts as −inf. Ties are broken by a fixed shuffle, because the order of the canaries may
    reveal the members.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})
    portable: ClassVar[bool] = True

    def lay_out(self, dims: tuple[int, ...]) -> Any:
        return np.zeros(dims[1], np.int64)

    def zero(self, layout: Tree) -> Any:
        both = (2, len(np.asarray(layout)))
        return {"members": np.zeros(both, np.int32), "runs": np.zeros(both, np.int32)}

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        xp, member = members_in_order(scores)
        kept = keep.astype(xp.int32)[:, None]
        here = (xp.arange(2) == dataset).astype(xp.int32)[:, None]
        sums = {"members": kept * member, "runs": kept * xp.ones_like(member)}
        return {n: counts[n] + here * each.sum(0, dtype=np.int32) for n, each in sums.items()}


class OneRunAdaptive(Estimator, name="one-run-adaptive"):
    """Guesses from the clearest canaries inwards, each with all coins before it revealed.

    Under ε-DP a guess is right with probability q = e^ε/(1 + e^ε) at most, whatever coins were
    revealed and whatever canaries the guesser leaves out [Keinan2025]. So a bet that multiplies the
    wealth by r/q if it is right and by (1 − r)/(1 − q) if not, r ≥ q, is fair; the probability that
    wealth ever exceeds 1/a is at most a. r is the share of earlier guesses that were right; the
    wealth is a mean over memories. No number of guesses is chosen. The bets and δ > 0 are not the
    paper's: guess i exceeds q by x_i, and given all other coins E x_i ≤ δ/(1 + e^ε). The means of
    the factors are at most e^{x_i/q}, and Σ x_i exceeds mδ/((1 + e^ε) b) with probability b at
    most, here half of the error. One-sided; the claim is tested at the δ of the audit alone.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "each canary included by its own fair coin, independently of the others; independent runs"
    )
    reference: ClassVar[str] = "after [Keinan2025] (arXiv:2503.07199)"

    def statistic(self) -> MembersByRank:
        return MembersByRank()

    def estimate(self, layout: Tree, counts: Any, query: Query) -> Estimate:
        """Raise DpframeError if fair coins make such memberships with probability below 1e-6."""
        members, runs = (np.asarray(counts[name]).sum(0) for name in ("members", "runs"))
        check_members(int(members.sum()), int(runs.sum()))
        right = guesses(members, runs)
        shares, delta = expected(right, int(runs.max(initial=0))), query.delta

        def wanted(error: float, epsilon: float) -> float:
            excess = int(runs.sum()) * delta * math.exp(-epsilon)  # mδ/((1 + e^ε) q)
            return math.log(2 / error) + 2 * excess / error if delta else -math.log(error)

        def refuted(epsilon: float) -> bool:
            best = best_wealth(right, runs, shares, epsilon)
            return best > 0 and best >= wanted(1 - query.confidence, epsilon)

        # The claim of every point of the grid up to the bound is refuted, so the first one that is
        # not below the true ε is among them if the bound exceeds it.
        grid = np.arange(GRID, LARGEST, GRID).tolist()
        first = next((e for e in grid if not refuted(e)), LARGEST)
        lower = max(0.0, first - GRID)
        wrong = int(runs.sum() - right.sum())
        point = loss(int(right.sum()), wrong)
        if query.claim is None:
            return Estimate(point, epsilon_lower=lower)
        claimed, p = query.claim.epsilon_at(delta), 1.0
        best = best_wealth(right, runs, shares, claimed) if claimed < LARGEST else 0.0
        if best > 0:
            p = smallest(lambda error: best >= wanted(error, claimed))
        return Estimate(point, epsilon_lower=lower, p_value=p, p_resolved=p)

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Any:
        m, each = len(np.asarray(layout)), np.array(trials, np.int64)[:, None]
        inside = np.arange(m) >= m // 2
        return {"members": each * inside, "runs": each * np.ones(m, np.int64)}


def guesses(members: HostArray, runs: HostArray) -> HostArray:
    """Return the right guesses of each turn: by turns the highest rank is in, the lowest out."""
    outward = np.arange(len(members))
    turns = np.where(outward % 2 == 0, len(members) - 1 - outward // 2, outward // 2)
    return np.asarray(np.where(outward % 2 == 0, members[turns], runs[turns] - members[turns]))


def expected(right: HostArray, runs: int) -> Floats:
    """Return the share of right guesses before each turn, shape [memories, turns]."""
    shares = np.zeros((len(MEMORIES), len(right)))
    for row, memory in zip(shares, MEMORIES, strict=True):
        hits, made = PRIOR_RIGHT, PRIOR_MADE
        for turn, own in enumerate(right.tolist()):
            row[turn] = hits / made
            hits, made = memory * hits + own, memory * made + runs
    return shares


def best_wealth(right: HostArray, runs: HostArray, shares: Floats, epsilon: float) -> float:
    """Return the largest logarithm of the wealth against ε-DP after any turn, at least 0."""
    q = float(special.expit(epsilon))
    bets = np.clip(shares, q, 1 - 1e-9)
    bets = np.maximum(bets, q)  # q itself leaves a guess out
    gains = right * np.log(bets / q) + (runs - right) * np.log((1 - bets) / (1 - q))
    wealth = special.logsumexp(np.cumsum(gains, axis=1), axis=0) - math.log(len(MEMORIES))
    return float(max(0.0, wealth.max()))
