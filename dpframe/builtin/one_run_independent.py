"""The auditor of one training run under the assumption that scores are independent."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpframe.builtin.one_run import FAR, check_coins, coin_notes
from dpframe.plugins import (
    ApproxDP,
    Array,
    Claim,
    DpframeError,
    Estimate,
    Estimator,
    GaussianDP,
    HostArray,
    Query,
    Statistic,
    Tree,
)
from dpframe.stats.independent_ranks import (
    RankTest,
    rank_gaussian_mu,
    rank_p_value,
    rank_test,
)
from dpframe.stats.roots import crossing

INDEPENDENT = "independent"
SHARE = 0.1  # of the expected number of canaries that are out: the rank that refutes curves
FEW = 2  # the rank that bounds ε at a small δ
MOST_EPSILON = 60.0


@dataclasses.dataclass(frozen=True)
class CoinOrder(Statistic):
    """The coins of a run's canaries in ascending order of their scores: counts[dataset][rank].

    NaN counts as −inf. Ties are broken by a fixed shuffle, because the order of the canaries may
    reveal the members.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})
    portable: ClassVar[bool] = True

    def lay_out(self, dims: tuple[int, ...]) -> dict[str, Any]:
        """Return the number of canaries."""
        return {"canaries": np.int64(dims[1])}

    def zero(self, layout: Tree) -> Any:
        return np.zeros((2, int(layout["canaries"])), np.int32)

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        xp = scores.__array_namespace__()
        m = scores.shape[-1]
        shuffled = scores[..., np.random.default_rng(m).permutation(m)]
        values = xp.where(xp.isnan(shuffled[:, 0]), -xp.inf, shuffled[:, 0])
        order = xp.argsort(values, axis=1, stable=True)
        coins = xp.take_along_axis((shuffled[:, 1] > 0.5).astype(xp.int32), order, axis=1)
        more = (coins * keep.astype(np.int32)[:, None]).sum(0, dtype=np.int32)
        return counts + (xp.arange(2, dtype=np.int32) == dataset)[:, None] * more


class OneRunIndependent(Estimator, name="one-run-independent"):
    """An exact test between order statistics of canaries that are in and of those that are out.

    Two ranks share the error: a tenth of the canaries that are out, which refutes a curve with
    fewest canaries, and the third, which bounds ε at a small δ. It is a two-sample test with the
    canaries as trials, so it needs more than a training run promises: **canaries are drawn alike at
    random, and the score of each depends on its own coin only**, not on the other canaries, nor on
    any statistic of the scores. Inner products with the noisy gradients of steps have this property
    if the directions of canaries are orthogonal and the noise is Gaussian; losses of one model do
    not. One run cannot reveal if it fails, and then the bound may exceed the true loss.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "each canary included by its own fair coin; canaries drawn alike, with scores that are "
        "independent of each other given the coins"
    )
    assumes: ClassVar[str] = INDEPENDENT
    reference: ClassVar[str] = "[Hoeffding1956] (doi:10.1214/aoms/1177728178)"

    def statistic(self) -> CoinOrder:
        return CoinOrder()

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        """Count the canaries of several runs as those of one, since all are independent."""
        flat = np.asarray(scores, np.float64).ravel(), np.asarray(members).ravel()
        return super().estimate_canaries(*flat, query._replace(trials=(1, 0)), rng)

    def estimate(self, layout: Tree, counts: Any, query: Query) -> Estimate:
        """Raise DpframeError unless the counts are those of one run with fair coins."""
        if sum(query.trials) != 1:
            raise DpframeError("takes the canaries of one run, because it compares their ranks")
        coins = np.asarray(counts).sum(axis=0) > 0
        m, inside = len(coins), int(coins.sum())
        excess = abs(2 * inside - m)
        check_coins(m, 1, inside, int(excess == 0), int(excess > FAR * m**0.5))
        tests = _tests(coins)
        error = 1 - query.confidence
        notes = (
            f"{m:,} canaries, {inside:,} of them members",
            *(f"{one.exceeding:,} canaries beyond rank {one.rank + 1:,}" for one in tests),
            *coin_notes(m, 1, int(excess == 0)),
        )
        point, bound = (_largest(tests, query.delta, level) for level in (0.5, error))
        answer = Estimate(point, epsilon_lower=bound, notes=notes)
        if query.claim is None:
            return answer
        p_value = _p_value(tests, query.claim)
        return answer._replace(p_value=p_value, p_resolved=p_value)

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Any:
        m = int(layout["canaries"])
        order = (np.arange(m) >= m // 2).astype(np.int64)
        return np.stack([order * min(1, trials[0]), order * min(1, trials[1])])


class GaussianBound(NamedTuple):
    """The bound of one run if its scores are independent and the mechanism is Gaussian."""

    mu_lower: float
    """Largest μ of a refuted μ-GDP claim [Dong2022]."""
    p_value: float | None
    """The p-value of the given claim; None unless it is μ-GDP."""


def gaussian_bound(
    scores: HostArray, members: HostArray, error: float, claim: Claim | None
) -> GaussianBound:
    """Test μ-GDP claims with the whole error at one rank; scores and members have shape [m]."""
    statistic = CoinOrder()
    layout = statistic.lay_out((2, scores.size))
    runs = np.stack([np.asarray(scores, np.float64).ravel(), members.ravel()])[None]
    zero: Any = np.zeros((2, scores.size), np.int64)
    one: Any = np.int32(1)
    coins = statistic.update(layout, zero, one, runs, np.ones(1, bool))[1] > 0  # type: ignore[arg-type]
    test = rank_test(coins, int(SHARE * len(coins) / 2))
    if test is None:
        return GaussianBound(0.0, None)
    tested = isinstance(claim, GaussianDP)
    p_value = rank_p_value(test, claim.tradeoff) if claim is not None and tested else None
    return GaussianBound(rank_gaussian_mu(test, error), p_value)


def _tests(coins: HostArray) -> list[RankTest]:
    """Return the tests, which share the error equally."""
    ranks = sorted({FEW, int(SHARE * len(coins) / 2)})
    return [test for rank in ranks if (test := rank_test(coins, rank)) is not None]


def _p_value(tests: Sequence[RankTest], claim: Claim) -> float:
    return min([1.0, *(len(tests) * rank_p_value(test, claim.tradeoff) for test in tests)])


def _largest(tests: Sequence[RankTest], delta: float, error: float) -> float:
    """Return the largest ε that is refuted at δ."""
    return crossing(
        lambda epsilon: _p_value(tests, ApproxDP(epsilon, delta)) - error,
        most=MOST_EPSILON,
        tolerance=1e-4,
    )
