"""Auditors of a single training run with many canaries."""

import bisect
import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import special

from dpframe.builtin.histogram import PilotBins
from dpframe.plugins import (
    Array,
    Claim,
    Contrast,
    DpframeError,
    Estimate,
    Estimator,
    Evidence,
    Ge,
    HostArray,
    Query,
    Statistic,
    Tree,
)
from dpframe.stats import one_run
from dpframe.stats.gaussian import gaussian_epsilon

FAR = 4.5
"""Standard deviations by which the number of members may differ from half of the canaries."""

IMPOSSIBLE = 1e-6  # probability of refusing fair coins; three tests share it
RULE = "each canary must be included with probability ½, independently of all others"


def check_coins(canaries: int, runs: int, members: int, even: int, far: int) -> None:
    """Refuse memberships that fair coins would make with probability below 1e-6.

    Some dependence cannot be detected, such as one run with exactly half of its canaries in. Every
    run has `canaries` canaries, and `members` were in, over all runs. In `even` runs exactly half
    were in; in `far` runs |2 · members of the run − canaries| > FAR √canaries.
    """
    n = canaries * runs
    few = min(members, n - members)
    if 2 * float(special.bdtr(few, n, 0.5)) < IMPOSSIBLE / 3:
        raise DpframeError(f"{members:,} of {n:,} canaries are members: {RULE}")
    half = _half(canaries)
    if even and float(special.betainc(even, runs - even + 1, half)) < IMPOSSIBLE / 3:
        raise DpframeError(
            f"{even:,} of {runs:,} runs include exactly half of the canaries: {RULE}"
        )
    rare = 2 * math.exp(-(FAR**2) / 2)  # Hoeffding
    if far and float(special.betainc(far, runs - far + 1, rare)) < IMPOSSIBLE / 3:
        raise DpframeError(f"{far:,} of {runs:,} runs include nearly none or all of them: {RULE}")


def coin_notes(canaries: int, runs: int, even: int) -> tuple[str, ...]:
    """Return a note if a single run has exactly half of its canaries in, which is rare."""
    if runs != 1 or not even or _half(canaries) > 0.1:
        return ()
    return (
        "exactly half of the canaries are members; if this was arranged instead of tossing a coin "
        "for each, these results are invalid",
    )


def _half(canaries: int) -> float:
    """Return the probability that exactly half of the canaries are in."""
    if canaries % 2:
        return 0.0
    k = canaries / 2
    return math.exp(math.lgamma(canaries + 1) - 2 * math.lgamma(k + 1) - canaries * math.log(2))


Side = Literal["any", "both", "in", "out"]

RUNGS = 8  # of the default ladder m, m/2, m/4, … of guesses
FEWEST = 8  # smallest number of guesses of the ladder; fewer could hardly show anything

SIDES: dict[Side, dict[str, float]] = {
    "any": {"both": 0.5, "in": 0.25, "out": 0.25},
    "both": {"both": 1.0},
    "in": {"in": 1.0},
    "out": {"out": 1.0},
}
"""The guesses of each choice, and their shares of the error."""


@dataclasses.dataclass(frozen=True)
class GuessCounts(Statistic):
    """Counts of right guesses, for several numbers of guesses.

    The canaries with the highest scores are guessed to be members, those with the lowest scores
    non-members; no guess is made about the rest. NaN counts as −inf. Ties are broken by a fixed
    shuffle, because the order of the canaries may reveal the members. Runs add up: r guesses in
    each of t independent runs of m canaries are rt guesses in one run of mt.
    """

    guesses: tuple[int, ...] | None
    side: Side

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})
    portable: ClassVar[bool] = True

    def lay_out(self, dims: tuple[int, ...]) -> dict[str, Any]:
        """Return m, and for each rule its guesses in and out and its share of the error.

        Raises:
            ValueError: more guesses than canaries.
        """
        m = dims[1]
        if self.guesses and max(self.guesses) > m:
            raise ValueError(f"guesses = {max(self.guesses)}, but there are {m} canaries")
        rules: dict[tuple[int, int], float] = {}
        for side, part in SIDES[self.side].items():
            # About half of the canaries are in, so more guesses of one kind are partly wrong.
            most = m if side == "both" else max(1, m // 2)
            rungs = [most >> j for j in range(RUNGS) if most >> j >= FEWEST]
            numbers = self.guesses or rungs or [most]
            inside = [{"both": n - n // 2, "in": n, "out": 0}[side] for n in numbers]
            own = {(one, n - one) for one, n in zip(inside, numbers, strict=True)}
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
            "correct": np.zeros((2, rules), np.int32),
            **{name: np.zeros(2, np.int32) for name in ("members", "even", "far")},
        }

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        found = of_each_run(layout, scores)
        xp = scores.__array_namespace__()

        def added(total: Array, of_runs: Array) -> Any:
            weights = keep.reshape(-1, *(1,) * (of_runs.ndim - 1)).astype(np.int32)
            more = (weights * of_runs).sum(0, dtype=np.int32)
            here = xp.arange(2, dtype=np.int32).reshape(2, *(1,) * more.ndim) == dataset
            return total + here * more

        return {name: added(counts[name], found[name]) for name in counts}

    def describe(self, layout: Tree) -> dict[str, Any]:
        rules = {name: np.asarray(leaf).tolist() for name, leaf in layout.items()}
        return {**super().describe(layout), **rules}


def of_each_run(layout: Tree, runs: Any) -> dict[str, Any]:
    """Count each run of shape [n, 2, m], first axis the run."""
    m, xp = runs.shape[-1], runs.__array_namespace__()
    shuffled = runs[..., np.random.default_rng(m).permutation(m)]
    values = xp.where(xp.isnan(shuffled[:, 0]), -xp.inf, shuffled[:, 0])
    order = xp.argsort(values, axis=1, stable=True)
    member = xp.take_along_axis((shuffled[:, 1] > 0.5).astype(xp.int32), order, axis=1)
    # Members among the k highest scores, and non-members among the k lowest.
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


@dataclasses.dataclass(frozen=True)
class InAndOut(Statistic):
    """Counts[dataset][in][bin] of the scores of canaries; a pilot of runs chooses the bins."""

    bins: PilotBins

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})
    portable: ClassVar[bool] = True

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Any:
        runs = np.concatenate([pilot0, pilot1])
        values, members = runs[:, 0].ravel(), runs[:, 1].ravel() > 0.5
        return self.bins.bind(values[~members], values[members])

    def zero(self, layout: Tree) -> Any:
        zero = self.bins.zero(layout)
        return np.stack([zero, zero])

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        values, members = scores[:, 0].ravel(), scores[:, 1].ravel() > 0.5
        xp = scores.__array_namespace__()
        kept, own = xp.repeat(keep, scores.shape[-1]), xp.zeros_like(counts[0])
        for side, chosen in ((0, ~members), (1, members)):
            own = self.bins.update(layout, own, xp.asarray(side), values, kept & chosen)
        here = xp.arange(2, dtype=np.int32).reshape(2, *(1,) * own.ndim) == dataset
        return counts + here * own

    def describe(self, layout: Tree) -> dict[str, Any]:
        return {**self.bins.describe(layout), "name": type(self).__name__}


SMALLEST_P = 1e-300


class Guessed(NamedTuple):
    """One number of guesses and its result."""

    canaries: int
    guesses: int
    correct: int
    share: float  # of the error

    @property
    def result(self) -> tuple[int, int, int]:
        """The arguments of the formulas of `dpframe.stats.one_run`."""
        return self[:3]


class Guesses(Estimator):
    """The largest bound of several numbers of guesses, which share the error."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "each canary included by its own fair coin, independently of the others; independent runs"
    )

    guesses: tuple[Annotated[int, Ge(1)], ...] | None = None
    """Numbers of canaries to guess about in each run, which share the error. Default: m, m/2, m/4,
    … of m canaries."""
    side: Side = "any"
    """Guess the highest scores to be in and as many of the lowest to be out ("both"), only "in",
    only "out", or try all three ("any")."""

    theorem: ClassVar[str]
    """Name of the theorem for `Evidence`."""

    def check(self) -> None:
        if self.guesses is not None and not self.guesses:
            raise ValueError("guesses names no number")

    def statistic(self) -> GuessCounts:
        return GuessCounts(self.guesses, self.side)

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        counts = GuessCounts(self.guesses, self.side)
        runs = np.stack(np.atleast_2d(np.asarray(scores, np.float64), members), axis=1)
        layout = counts.lay_out(runs.shape[1:])
        zero = {name: leaf.astype(np.int64) for name, leaf in counts.zero(layout).items()}
        made = counts.update(layout, zero, np.int32(1), runs, np.ones(len(runs), bool))  # type: ignore[arg-type]
        return self.estimate(layout, made, query._replace(trials=(0, len(runs))))

    @abstractmethod
    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        """Return the bound from one number of guesses; any value ≤ `least` if it is not larger."""

    @abstractmethod
    def level(self, one: Guessed, claim: Claim, most: float, query: Query, slack: float) -> float:
        """Return the smallest error that rejects the claim; any value ≥ `most` if not smaller."""

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
        evidence = Evidence(self.theorem, tuple(map(tuple, each)))
        point = _point(best, query.delta)
        answer = Estimate(point, epsilon_lower=bound, notes=notes, evidence=evidence)
        if (claim := query.claim) is None:
            return answer
        p_value, telling = self._p_value(each, claim, query, 0.0)
        wider = self._p_value(each, claim, query, query.resolution)[0] if query.resolution else 0.0
        return answer._replace(
            p_value=p_value,
            p_resolved=max(p_value, wider),
            contrast=self.contrast(each, telling, claim, query, bound),
        )

    def largest(self, each: list[Guessed], delta: float, error: float) -> tuple[float, Guessed]:
        """Return the largest bound at a δ, and the number of guesses that gives it."""
        bound, best = 0.0, max(each, key=lambda one: one.correct / one.guesses)
        for one in _best_first(each, error):
            found = self.lower(one, delta, error * one.share, bound)
            if found > bound:
                bound, best = found, one
        return bound, best

    def _p_value(
        self, each: list[Guessed], claim: Claim, query: Query, slack: float
    ) -> tuple[float, Guessed]:
        least, telling = 1.0, each[0]
        for one in _best_first(each, 1 - query.confidence):
            found = self.level(one, claim, least * one.share, query, slack) / one.share
            if found < least:
                least, telling = found, one
        return max(least, SMALLEST_P), telling

    def refuted(
        self, layout: Tree, counts: Any, query: Query, rounds: Sequence[int] = ()
    ) -> HostArray:
        """Return the audits in which some number of right guesses refutes the claim."""
        error, claim, runs = 1 - query.confidence, query.claim, sum(query.trials)
        correct = np.asarray(counts["correct"], np.int64).sum(axis=1)
        made = (np.asarray(layout["inside"]) + np.asarray(layout["outside"])) * runs
        found, slacks = np.zeros(len(correct), bool), {0.0, query.resolution}
        assert claim is not None
        for place, share in enumerate(layout["shares"].tolist()):
            one = Guessed(int(layout["canaries"]) * runs, int(made[place]), 0, share)
            level = error * share

            def refuted(right: int, one: Guessed = one, level: float = level) -> bool:
                own = one._replace(correct=right), claim, np.nextafter(level, 1.0), query
                return all(self.level(*own, slack) <= level for slack in slacks)

            least = bisect.bisect(range(one.guesses + 1), False, key=refuted)
            found |= correct[:, place] >= least
        return found

    def remarks(self, best: Guessed, error: float, query: Query) -> tuple[str, ...]:
        """Return further notes on the best number of guesses."""
        return ()

    def contrast(
        self, each: list[Guessed], telling: Guessed, claim: Claim, query: Query, bound: float
    ) -> Contrast | None:
        """Compare bound and claim at the δ where they differ most; `bound` is at the query's δ."""
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


def _best_first(each: list[Guessed], error: float) -> list[Guessed]:
    """Sort by the bound at δ = 0, the largest first; equal ones keep their order.

    After the best one, most others only need one look to see that they are not better.
    """
    guesses, correct, share = np.array(each, np.float64).T[1:]
    limits = special.betaincinv(correct, guesses - correct + 1, error * share)
    order = np.argsort(-np.where(correct > 0, limits, 0.0), kind="stable")
    return [each[place] for place in order]


def _point(one: Guessed, delta: float) -> float:
    """Return the ε at which (ε, δ)-DP allows this share of right guesses."""
    right = one.correct / one.guesses
    if right == 1:
        return math.inf
    return max(0.0, math.log(max(right - delta, 1e-300) / (1 - right)))


class OneRun(Guesses, name="one-run"):
    """The number of right guesses about the canaries of one run, against what ε allows.

    Each of m canaries was in the data with probability ½. The canaries with the highest scores are
    guessed to be in, those with the lowest scores to be out. If the algorithm is (ε, δ)-DP for the
    presence of one canary, the number of right guesses among r is at most about Bin(r, q),
    q = e^ε/(1 + e^ε), and slightly more for δ > 0 [Steinke2023, theorem 5.2]. Several numbers of
    guesses share the error.

    The bound holds for the whole algorithm: including the canaries, training and release. It is
    about the presence of one canary, so it suits claims about adding or removing a record. It
    assumes fair, independent coins; memberships with a probability below 1e-6 under such coins are
    refused. The number of canaries limits the largest ε that can be shown.
    """

    reference: ClassVar[str] = "[Steinke2023, theorem 5.2] (arXiv:2305.08846)"
    theorem: ClassVar[str] = "one-run"

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        if one_run.one_run_p_value(*one.result, least, delta) > error:
            return least
        return one_run.one_run_epsilon(*one.result, delta, error)

    def level(self, one: Guessed, claim: Claim, most: float, query: Query, slack: float) -> float:
        return min(_level(one, claim, delta, slack) for delta in _deltas(claim, query))

    def contrast(
        self, each: list[Guessed], telling: Guessed, claim: Claim, query: Query, bound: float
    ) -> Contrast | None:
        delta = min(_deltas(claim, query), key=lambda delta: _level(telling, claim, delta, 0.0))
        if delta != query.delta:
            bound, _ = self.largest(each, delta, 1 - query.confidence)
        return Contrast(delta, bound, claim.epsilon_at(delta))


def _deltas(claim: Claim, query: Query) -> tuple[float, ...]:
    """Return the points of the claimed curve at which it is tested.

    The theorem holds at each for every number of right guesses, so the smallest of their p-values
    costs nothing more.
    """
    return tuple(dict.fromkeys((query.delta, *claim.telling_deltas)))


def _level(one: Guessed, claim: Claim, delta: float, slack: float) -> float:
    epsilon = claim.epsilon_at(delta)
    raised = delta + slack * (1 + math.exp(min(epsilon, 700.0)))
    if epsilon == math.inf or raised >= 1:
        return 1.0
    return one_run.one_run_p_value(*one.result, epsilon, raised)


DIGITS = 2.0**-52
"""Spacing of float64 near 1. It is added to 1 − x: curves are lower there, so they refute less."""


class OneRunFDP(Guesses, name="one-run-fdp"):
    """The number of right guesses about the canaries of one run, against a trade-off curve.

    As `one-run`, but the claim is tested as a whole curve [Mahloujifar2024]: a recursion over the
    number of right guesses applies the curve to the exchange of one canary. The bound on ε comes
    from the curves of (ε, δ)-DP and holds for every mechanism. A note gives μ and its ε(δ), which
    hold only for Gaussian mechanisms, and trained models need not be Gaussian. The test of a claim
    of μ-GDP does not assume it.
    """

    reference: ClassVar[str] = "[Mahloujifar2024] (arXiv:2410.22235)"
    theorem: ClassVar[str] = "one-run-fdp"

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        curve = one_run.approximate_blow_up(least, delta)
        if not one_run.one_run_rejects(*one.result, curve, error):
            return least
        return one_run.one_run_fdp_epsilon(*one.result, delta, error)

    def level(self, one: Guessed, claim: Claim, most: float, query: Query, slack: float) -> float:
        blow_up = _blow_up(claim, slack)
        if not one_run.one_run_rejects(*one.result, blow_up, most):
            return most
        return one_run.one_run_fdp_p_value(*one.result, blow_up)

    def remarks(self, best: Guessed, error: float, query: Query) -> tuple[str, ...]:
        mu = one_run.one_run_gaussian_mu(*best.result, error * best.share)
        text = f"assuming Gaussian noise, μ is at least {mu:.4g}"
        if query.delta:
            text += f", ε at least {float(gaussian_epsilon(query.delta, mu)):.4g}"
        return (text,)


def _blow_up(claim: Claim, slack: float) -> Callable[[float], float]:
    """Return the map x ↦ f(1 − x) of a claimed curve, both error rates raised by the slack."""
    return lambda x: max(
        0.0, float(claim.tradeoff(np.array([min(1.0, 1 - x + DIGITS + slack)]))[0]) - slack
    )
