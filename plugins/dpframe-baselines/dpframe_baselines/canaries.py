"""Canaries of one run with ideal scores, and estimators of papers that assume more than dpframe."""

from __future__ import annotations

import bisect
import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpframe.plugins import (
    Array,
    Claim,
    DpframeError,
    Estimate,
    Estimator,
    GaussianDP,
    Ge,
    Gt,
    HostArray,
    Key,
    Mechanism,
    Pair,
    Query,
    Statistic,
    Tree,
)
from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.one_run import gaussian_blow_up, one_run_fdp_p_value, one_run_gaussian_mu
from dpframe_baselines.one_run_order import (
    gaussian_profile,
    wrong_guesses_mu,
    wrong_guesses_p_value,
)

IMPOSSIBLE = 1e-6  # probability of refusing the memberships of fair coins
SMALLEST_P = 1e-300
SCORES_AT_ONCE = 1 << 14  # of a chunk, because audits need few runs


class OnlyCanaries(Pair, name="only-canaries"):
    """No data but the canaries, which a mechanism draws itself; D and D′ are equal."""

    adjacency: ClassVar[str] = "add or remove one record"

    @property
    def d0(self) -> HostArray:
        return np.zeros(1, np.float32)

    @property
    def d1(self) -> HostArray:
        return np.zeros(1, np.float32)


class IdealCanaries(Mechanism, name="ideal-canaries"):
    """Scores of an ideal white-box attack on a Gaussian mechanism: N(coin · μ, 1), independent.

    A fair coin includes each canary. Nothing is trained: these are the inner products of canaries
    in orthogonal directions with one noisy sum, in units of the noise. The claim is μ-GDP, which is
    the true curve of each canary.
    """

    canaries = True

    mu: Annotated[float, Gt(0)]
    """Distance between the scores of canaries in and out, in standard deviations."""
    count: Annotated[int, Ge(1)] = 1000
    """Number of canaries."""

    @property
    def rows(self) -> int:
        return max(1, SCORES_AT_ONCE // self.count)

    def claim(self, pair: Pair) -> Claim:
        return GaussianDP(self.mu)

    def truth(self, pair: Pair) -> Claim:
        return GaussianDP(self.mu)

    def release(self, key: Key, data: Array) -> Array:
        coins, noise = jax.random.split(key)
        members = jax.random.bernoulli(coins, 0.5, (self.count,)).astype(jnp.float32)
        scores = self.mu * members + jax.random.normal(noise, (self.count,), jnp.float32)
        return jnp.stack([scores, members])


@dataclasses.dataclass(frozen=True)
class RightGuesses(Statistic):
    """The number of right guesses and of members, counts[dataset].

    The half with the highest scores is guessed to be in, the half with the lowest scores out. NaN
    counts as −inf. Ties are broken by a fixed shuffle, because the order of the canaries may reveal
    the members.
    """

    guesses: int | None

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})
    portable: ClassVar[bool] = True

    def lay_out(self, dims: tuple[int, ...]) -> dict[str, Any]:
        """Return the numbers of canaries and guesses.

        Raises:
            ValueError: more guesses than canaries.
        """
        guesses = dims[1] if self.guesses is None else self.guesses
        if guesses > dims[1]:
            raise ValueError(f"guesses = {guesses}, but there are {dims[1]} canaries")
        return {"canaries": np.int64(dims[1]), "guesses": np.int64(guesses)}

    def zero(self, layout: Tree) -> Any:
        return {"right": np.zeros(2, np.int32), "members": np.zeros(2, np.int32)}

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        xp, member = members_in_order(scores)
        m = member.shape[-1]
        place, outside = xp.arange(m), layout["guesses"] // 2
        inside = m - (layout["guesses"] - outside)
        right = xp.where(place < outside, 1 - member, xp.where(place >= inside, member, 0))
        kept = keep.astype(xp.int32)
        here = (xp.arange(2) == dataset).astype(xp.int32)
        sums = {"right": right.sum(1), "members": member.sum(1)}
        return {
            name: counts[name] + here * (kept * of_runs).sum(dtype=np.int32)
            for name, of_runs in sums.items()
        }


def members_in_order(scores: Array) -> Any:
    """Return the membership bits of each run's canaries, by rising scores; equal ones by chance.

    Args:
        scores: shape [n, 2, m]: of each run, the scores and the bits of its canaries.

    Returns:
        The array library of the scores, and bits of shape [n, m]. NaN comes first.
    """
    xp, m = scores.__array_namespace__(), scores.shape[-1]
    shuffled = scores[..., np.random.default_rng(m).permutation(m)]
    values = xp.where(xp.isnan(shuffled[:, 0]), -xp.inf, shuffled[:, 0])
    order = xp.argsort(values, axis=1, stable=True)
    return xp, xp.take_along_axis((shuffled[:, 1] > 0.5).astype(xp.int32), order, axis=1)


def check_members(members: int, canaries: int) -> None:
    """Raise DpframeError if fair coins make so many or few members with probability below 1e-6."""
    if 2 * special.bdtr(min(members, canaries - members), canaries, 0.5) < IMPOSSIBLE:
        raise DpframeError(
            f"{members:,} of {canaries:,} canaries are members: each must be included with "
            "probability ½, independently of all others"
        )


class Run(NamedTuple):
    """Guesses about the canaries of all runs."""

    canaries: int
    guesses: int
    right: int


class GaussianGuesses(Estimator):
    """The largest μ that the right guesses of one run refute, and its ε(δ)."""

    certifies: ClassVar[bool] = True

    guesses: Annotated[int, Ge(1)] | None = None
    """Number of guesses in each run, half of them *in*, fixed beforehand. Default: a guess about
    every canary."""

    def certifies_against(self, claim: Claim | None) -> bool:
        """True if no claim but that of a Gaussian mechanism could be refuted."""
        return claim is None or isinstance(claim, GaussianDP)

    def statistic(self) -> RightGuesses:
        return RightGuesses(self.guesses)

    @abstractmethod
    def mu_lower(self, run: Run, error: float) -> float:
        """Return the largest refuted μ."""

    @abstractmethod
    def mu_p_value(self, run: Run, mu: float) -> float:
        """Return the p-value of the claim of μ-GDP."""

    def estimate(self, layout: Tree, counts: Any, query: Query) -> Estimate:
        runs = sum(query.trials)
        sizes = int(layout["canaries"]) * runs, int(layout["guesses"]) * runs
        right, members = (int(np.sum(counts[name])) for name in ("right", "members"))
        run = Run(*sizes, right)
        check_members(members, run.canaries)
        point, mu = (self.mu_lower(run, error) for error in (0.5, 1 - query.confidence))
        notes = [
            f"{run.right:,} of {run.guesses:,} guesses right, {run.canaries:,} canaries",
            f"μ of a Gaussian mechanism is at least {mu:.4g}",
        ]
        if not query.delta:
            notes.append("a Gaussian mechanism has no finite ε at δ = 0; choose another δ")
            point = mu = 0.0
        epsilon, lower = (float(gaussian_epsilon(query.delta, each)) for each in (point, mu))
        if not self.certifies_against(query.claim):
            return Estimate(epsilon, interval=(lower, np.inf), notes=tuple(notes))
        estimate = Estimate(epsilon, epsilon_lower=lower, notes=tuple(notes))
        if not isinstance(query.claim, GaussianDP):
            return estimate
        p_value = max(SMALLEST_P, self.mu_p_value(run, query.claim.mu))
        return estimate._replace(p_value=p_value, p_resolved=p_value)

    def refuted(
        self, layout: Tree, counts: Any, query: Query, rounds: Sequence[int] = ()
    ) -> HostArray:
        """Compare the right guesses with the fewest that refute the claim, which is μ-GDP."""
        runs, claim = sum(query.trials), query.claim
        if not isinstance(claim, GaussianDP):
            return np.zeros(len(counts["right"]), bool)
        canaries, guesses = (int(layout[name]) * runs for name in ("canaries", "guesses"))

        def refutes(right: int) -> bool:
            p_value = self.mu_p_value(Run(canaries, guesses, right), claim.mu)
            return p_value <= 1 - query.confidence

        fewest = bisect.bisect(range(guesses + 1), False, key=refutes)
        right: HostArray = np.asarray(counts["right"], np.int64).sum(axis=1)
        return right >= fewest

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Any:
        each = np.array(trials, np.int64)
        return {
            "right": each * int(layout["guesses"]),
            "members": each * int(layout["canaries"]) // 2,
        }


class OneRunFDPGaussian(GaussianGuesses, name="one-run-fdp-gaussian"):
    """The loss of a Gaussian mechanism whose canaries were guessed as well [Mahloujifar2024].

    The recursion of `dpframe.stats.one_run` finds the largest refuted μ at the audit's error,
    one-sided; the bound is its ε(δ). It holds however scores depend on each other, but of no other
    mechanism: most losses of trained models are smaller than those of the fitted curve. Against a
    claim of μ-GDP alone it is a test without this assumption; other claims get no verdict. Papers
    that choose the best of many numbers of guesses afterwards report larger values, which are no
    bounds.
    """

    assumption: ClassVar[str] = (
        "each canary included by its own fair coin, independently of the others; independent runs; "
        "for the bound on ε also a Gaussian mechanism"
    )
    assumes: ClassVar[str] = "gaussian"
    reference: ClassVar[str] = "[Mahloujifar2024] (arXiv:2410.22235)"

    def mu_lower(self, run: Run, error: float) -> float:
        return one_run_gaussian_mu(*run, error)

    def mu_p_value(self, run: Run, mu: float) -> float:
        return one_run_fdp_p_value(*run, gaussian_blow_up(mu))


class OneRunXiang(GaussianGuesses, name="one-run-xiang"):
    """The loss of a Gaussian mechanism, by the exact law of wrong guesses [Xiang2025, theorem 2].

    The law is that of the clearest scores among independent ones. The largest refuted μ at the
    audit's error, one-sided, gives ε(δ). The bound rests on independent scores and on a Gaussian
    mechanism: if 1,000 canaries share one level of noise, the true μ is refuted in 41 % of runs.
    Claims other than μ-GDP get no verdict.
    """

    assumption: ClassVar[str] = (
        "each canary included by its own fair coin; scores that are independent given the coins; "
        "independent runs; for the bound on ε also a Gaussian mechanism"
    )
    assumes: ClassVar[str] = "independent and gaussian"
    reference: ClassVar[str] = "[Xiang2025, theorem 2] (arXiv:2509.08704)"

    def mu_lower(self, run: Run, error: float) -> float:
        wrong = run.guesses - run.right
        return wrong_guesses_mu(run.canaries, run.guesses, wrong, error)

    def mu_p_value(self, run: Run, mu: float) -> float:
        wrong = run.guesses - run.right
        return wrong_guesses_p_value(run.canaries, run.guesses, wrong, gaussian_profile(mu))
