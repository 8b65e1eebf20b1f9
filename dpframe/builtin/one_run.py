"""Auditors of a single training run with many canaries."""

import bisect
import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import special

from dpframe.builtin.histogram import PilotBins
from dpframe.plugins import (
    ApproxDP,
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
from dpframe.stats.guesses import (
    curve_prices,
    guess_p_value,
    priced_p_value,
    priced_rank_p_value,
    rank_cuts,
    rank_p_value,
    rank_prices,
)
from dpframe.stats.roots import crossing

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

RUNGS = 8  # of the ladder m, m/2, m/4, … of guesses
FEWEST = 8  # smallest number of guesses of the ladder; fewer could hardly show anything

SIDES: dict[Side, dict[str, float]] = {
    "any": {"both": 0.5, "in": 0.25, "out": 0.25},
    "both": {"both": 1.0},
    "in": {"in": 1.0},
    "out": {"out": 1.0},
}
"""The guesses of each choice, and their shares of the error."""

RULES: dict[Side, tuple[tuple[float, str, str], ...]] = {
    "any": (
        (0.65, "both", "ranked"),
        (0.1, "both", "half"),
        (0.1, "both", "all"),
        (0.1, "out", "half"),
        (0.05, "in", "ranked"),
    ),
    "both": ((0.7, "both", "ranked"), (0.08, "both", "half"), (0.22, "both", "all")),
    "in": ((0.7, "in", "ranked"), (0.3, "in", "half")),
    "out": ((0.7, "out", "ranked"), (0.3, "out", "half")),
}
"""The default rules of each side: share of the error, side, and number of guesses.

The shares are a compromise between Gaussian mechanisms with ε = 2 to 10 and networks that memorise
mislabelled records, with 100 to 3,000 canaries (`torch_support.memorised`, in the tests of
dpframe-torch).
"""

RANKED = 7.0  # guesses of "ranked" rules over √m


class Rule(NamedTuple):
    """Guesses that are fixed before scores are seen; `ranks` is 0 if they weigh the same."""

    inside: tuple[int, ...]  # guesses in with a weight of at least 1, 2, …
    outside: tuple[int, ...]
    ranks: int
    guesses: int  # with those of weight 0
    share: float


def default_rule(m: int, share: float, side: str, number: str) -> Rule:
    """Return a rule of `RULES` for m canaries."""
    wide = m if side == "both" else max(1, m // 2)  # about half of the canaries are in
    if number != "ranked":
        return equal_rule(wide if number == "all" else max(1, wide // 2), side, share)
    sides = 2 if side == "both" and m > 1 else 1
    ranks = max(1, min(round(RANKED * math.sqrt(m)) // sides, m // 2))
    cuts = tuple(rank_cuts(ranks).tolist())
    none = (0,) * len(cuts)
    inside = none if side == "out" else cuts
    outside = cuts if side == "out" or sides == 2 else none
    return Rule(inside, outside, ranks, sides * ranks, share)


def equal_rule(number: int, side: str, share: float) -> Rule:
    """Return the rule that guesses about a number of canaries with equal weights."""
    inside = {"both": number - number // 2, "in": number, "out": 0}[side]
    return Rule((inside,), (number - inside,), 0, number, share)


@dataclasses.dataclass(frozen=True)
class GuessCounts(Statistic):
    """Counts of right guesses, for several rules.

    The canaries with the highest scores are guessed to be members, those with the lowest scores
    non-members; no guess is made about the rest. NaN counts as −inf. Ties are broken by a fixed
    shuffle, because the order of the canaries may reveal the members. Runs add up: r guesses in
    each of t independent runs of m canaries are rt guesses in one run of mt.
    """

    guesses: tuple[int, ...] | None
    side: Side
    ladder: bool = False  # by default m, m/2, m/4, … guesses of equal weight, not `RULES`

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})
    portable: ClassVar[bool] = True

    def rules(self, m: int) -> list[Rule]:
        """Return the rules for m canaries.

        Raises:
            ValueError: more guesses than canaries.
        """
        if self.guesses and max(self.guesses) > m:
            raise ValueError(f"guesses = {max(self.guesses)}, but there are {m} canaries")
        if not (self.guesses or self.ladder):
            chosen = [default_rule(m, *rule) for rule in RULES[self.side]]
        else:
            chosen = []
            for side, part in SIDES[self.side].items():
                most = m if side == "both" else max(1, m // 2)
                rungs = [most >> j for j in range(RUNGS) if most >> j >= FEWEST]
                numbers = sorted({*(self.guesses or rungs or [most])})
                chosen += [equal_rule(number, side, part / len(numbers)) for number in numbers]
        shares: dict[Rule, float] = {}
        for rule in chosen:  # few canaries make some equal
            shares[rule._replace(share=0.0)] = shares.get(rule._replace(share=0.0), 0) + rule.share
        return [rule._replace(share=share) for rule, share in sorted(shares.items())]

    def lay_out(self, dims: tuple[int, ...]) -> dict[str, Any]:
        """Return m, of each rule its share of the error, its ranks and guesses, and all cuts.

        Raises:
            ValueError: more guesses than canaries.
        """
        rules = self.rules(dims[1])
        return {
            "canaries": np.int64(dims[1]),
            "inside": np.array([n for rule in rules for n in rule.inside], np.int64),
            "outside": np.array([n for rule in rules for n in rule.outside], np.int64),
            "cuts": np.array([len(rule.inside) for rule in rules], np.int64),
            "ranks": np.array([rule.ranks for rule in rules], np.int64),
            "guesses": np.array([rule.guesses for rule in rules], np.int64),
            "shares": np.array([rule.share for rule in rules]),
        }

    def zero(self, layout: Tree) -> Any:
        return {
            "correct": np.zeros((2, layout["inside"].shape[0]), np.int32),
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


HOPELESS = 0.9  # a larger p-value of single lines is not improved by prices


class Guessed(NamedTuple):
    """The result of one rule."""

    canaries: int
    guesses: int
    total: int  # sum of the weights of right guesses: their number if all weights are 1
    ranks: int  # 0 if all weights are 1
    share: float  # of the error

    @property
    def cuts(self) -> tuple[int, ...]:
        """Return the numbers of guesses with a weight of at least 1, 2, …."""
        if not self.ranks:
            return (self.guesses,)
        return tuple((self.guesses // self.ranks * rank_cuts(self.ranks)).tolist())

    @property
    def result(self) -> tuple[int, int, int]:
        """The first arguments of the tests of equal guesses in `dpframe.stats`."""
        return self[:3]

    @property
    def tested(self) -> tuple[int, Any, int]:
        """The first arguments of the tests in `dpframe.stats.guesses`."""
        return self.canaries, self.cuts if self.ranks else self.guesses, self.total


Prices = tuple[tuple[float, float], ...]


class Guesses(Estimator):
    """The largest bound of several rules of guesses, which share the error.

    A subclass has the test of one rule. Its counts are those of `rules`.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "each canary included by its own fair coin, independently of the others; independent runs"
    )

    guesses: tuple[Annotated[int, Ge(1)], ...] | None = None
    """Numbers of canaries to guess about in each run, with equal weights; they share the error.
    Default: those that the estimator chooses."""
    side: Side = "any"
    """Guess the highest scores to be in and as many of the lowest to be out ("both"), only "in",
    only "out", or try all three ("any")."""

    theorem: ClassVar[str]
    """Name of the theorem for `Evidence`."""
    ladder: ClassVar[bool] = True
    """True for m, m/2, m/4, … guesses of equal weight by default, False for weights by rank."""

    def check(self) -> None:
        if self.guesses is not None and not self.guesses:
            raise ValueError("guesses must not be empty")

    def statistic(self) -> GuessCounts:
        return GuessCounts(self.guesses, self.side, self.ladder)

    def estimate_canaries(
        self, scores: HostArray, members: HostArray, query: Query, rng: np.random.Generator
    ) -> Estimate:
        counts = self.statistic()
        runs = np.stack(np.atleast_2d(np.asarray(scores, np.float64), members), axis=1)
        layout = counts.lay_out(runs.shape[1:])
        zero = {name: leaf.astype(np.int64) for name, leaf in counts.zero(layout).items()}
        made = counts.update(layout, zero, np.int32(1), runs, np.ones(len(runs), bool))  # type: ignore[arg-type]
        return self.estimate(layout, made, query._replace(trials=(0, len(runs))))

    @abstractmethod
    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        """Return the bound from one rule; any value ≤ `least` if it is not larger."""

    @abstractmethod
    def level(
        self,
        one: Guessed,
        claim: Claim,
        most: float,
        query: Query,
        slack: float,
        prices: dict[Guessed, Prices],
    ) -> float:
        """Return the smallest error that rejects the claim; any value ≥ `most` if not smaller.

        Tests with prices put those that they use into `prices`, and use again what is there.
        """

    def estimate(self, layout: Tree, counts: Any, query: Query) -> Estimate:
        m, runs = int(layout["canaries"]), sum(query.trials)
        members, even, far = (int(np.sum(counts[name])) for name in ("members", "even", "far"))
        check_coins(m, runs, members, even, far)
        correct = np.asarray(counts["correct"], np.int64).sum(axis=0)
        each = _results(layout, runs, correct)
        error = 1 - query.confidence
        bound, best = self.largest(each, query.delta, error)
        starts = np.cumsum(layout["cuts"]) - layout["cuts"]
        right = int(correct[starts[each.index(best)]])
        notes = (
            f"{right:,} of {best.cuts[0]:,} guesses right{', weighted by rank' * (best.ranks > 0)}"
            f", {best.canaries:,} canaries, {members:,} of them members",
            *self.remarks(best, error, query),
            *coin_notes(m, runs, even),
        )
        point = _point(best, query.delta)
        if (claim := query.claim) is None:
            evidence = self.evidence(each, {})
            return Estimate(point, epsilon_lower=bound, notes=notes, evidence=evidence)
        prices: dict[Guessed, Prices] = {}
        p_value, telling = self._p_value(each, claim, query, 0.0, prices)
        wider = (
            self._p_value(each, claim, query, query.resolution, prices)[0]
            if query.resolution
            else 0.0
        )
        return Estimate(
            point,
            epsilon_lower=bound,
            notes=notes,
            evidence=self.evidence(each, prices),
            p_value=p_value,
            p_resolved=max(p_value, wider),
            contrast=self.contrast(each, telling, claim, query, bound),
        )

    def evidence(self, each: list[Guessed], prices: dict[Guessed, Prices]) -> Evidence:
        """Return the numbers from which the results can be recomputed."""
        design = tuple(
            (place, *price) for place, one in enumerate(each) for price in prices.get(one, ())
        )
        return Evidence(self.theorem, tuple(map(tuple, each)), design)

    def largest(self, each: list[Guessed], delta: float, error: float) -> tuple[float, Guessed]:
        """Return the largest bound at a δ, and the rule that gives it."""
        bound, best = 0.0, max(each, key=lambda one: one.total / sum(one.cuts))
        for one in _best_first(each, error):
            larger = self.lower(one, delta, error * one.share, bound)
            if larger > bound:
                bound, best = larger, one
        return bound, best

    def _p_value(
        self,
        each: list[Guessed],
        claim: Claim,
        query: Query,
        slack: float,
        prices: dict[Guessed, Prices],
    ) -> tuple[float, Guessed]:
        least, telling = 1.0, each[0]
        for one in _best_first(each, 1 - query.confidence):
            level = self.level(one, claim, least * one.share, query, slack, prices) / one.share
            if level < least:
                least, telling = level, one
        return max(least, SMALLEST_P), telling

    def refuted(
        self, layout: Tree, counts: Any, query: Query, rounds: Sequence[int] = ()
    ) -> HostArray:
        """Return the audits in which some rule refutes the claim."""
        error, claim, runs = 1 - query.confidence, query.claim, sum(query.trials)
        assert claim is not None
        correct = np.asarray(counts["correct"], np.int64).sum(axis=1)
        starts = np.cumsum(layout["cuts"]) - layout["cuts"]
        totals = np.add.reduceat(correct, starts, axis=1)
        refuting, slacks = np.zeros(len(correct), bool), {0.0, query.resolution}
        for place, one in enumerate(_results(layout, runs, np.zeros(correct.shape[1], np.int64))):
            level = error * one.share

            def refuted(total: int, one: Guessed = one, level: float = level) -> bool:
                own = one._replace(total=total), claim, np.nextafter(level, 1.0), query
                return all(self.level(*own, slack, {}) <= level for slack in slacks)

            least = bisect.bisect(range(sum(one.cuts) + 1), False, key=refuted)
            refuting |= totals[:, place] >= least
        return refuting

    def remarks(self, best: Guessed, error: float, query: Query) -> tuple[str, ...]:
        """Return further notes on the best rule."""
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


def _results(layout: Tree, runs: int, correct: HostArray) -> list[Guessed]:
    """Add up the right guesses of each rule by their weights; `correct` has those of each cut."""
    starts = np.cumsum(layout["cuts"]) - layout["cuts"]
    totals = np.add.reduceat(correct, starts)
    columns = (layout[name] for name in ("guesses", "ranks", "shares"))
    m = int(layout["canaries"])
    return [
        Guessed(m * runs, int(guesses) * runs, int(total), int(ranks), float(share))
        for total, guesses, ranks, share in zip(totals, *columns, strict=True)
    ]


def _best_first(each: list[Guessed], error: float) -> list[Guessed]:
    """Sort by a rough bound at δ = 0, the largest first; equal ones keep their order.

    After the best one, most others only need one look to see that they are not better.
    """

    def rough(one: Guessed) -> float:
        cuts = np.array(one.cuts, np.float64)
        number = cuts.sum() ** 2 / np.sum((2 * np.arange(len(cuts)) + 1) * cuts)  # (Σw)²/Σw²
        right = one.total / cuts.sum() * number
        return float(special.betaincinv(right, number - right + 1, error * one.share))

    return sorted(each, key=lambda one: -rough(one) if one.total else 0.0)


def _point(one: Guessed, delta: float) -> float:
    """Return the ε at which (ε, δ)-DP allows this share of right guesses."""
    right = one.total / sum(one.cuts)
    if right == 1:
        return math.inf
    return max(0.0, math.log(max(right - delta, 1e-300) / (1 - right)))


class OneRun(Guesses, name="one-run"):
    """Right guesses about the canaries of one run, against what the claim allows.

    Each of m canaries was in the data with probability ½. The canaries with the highest scores are
    guessed to be in, those with the lowest scores to be out. For a number of guesses that weigh the
    same, the largest probability of v right guesses over all mechanisms that satisfy the claim is
    known exactly [Steinke2023, Mahloujifar2024 bound it]: in closed form for (ε, δ), by the dual of
    a linear programme for a curve. By default most of the error goes to guesses whose weights fall
    with their rank.

    The bound holds for the whole algorithm: including the canaries, training and release. It is
    about the presence of one canary, so it suits claims about adding or removing a record. It
    assumes fair, independent coins; memberships with a probability below 1e-6 under such coins are
    refused. The number of canaries limits the largest ε that can be shown.
    """

    reference: ClassVar[str] = "[Steinke2023] (arXiv:2305.08846), as an exact test"
    theorem: ClassVar[str] = "one-run"
    ladder: ClassVar[bool] = False

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        if _p_value(one, least, delta) > error:
            return least
        return crossing(lambda epsilon: _p_value(one, epsilon, delta) - error)

    def level(
        self,
        one: Guessed,
        claim: Claim,
        most: float,
        query: Query,
        slack: float,
        prices: dict[Guessed, Prices],
    ) -> float:
        least = min(_p_at(one, claim, delta, slack) for delta in _deltas(claim, query))
        if isinstance(claim, ApproxDP):
            return least  # the curve is one line

        def raised(epsilon: float) -> float:
            return min(1.0, claim.delta_at(epsilon) + slack * (1 + math.exp(min(epsilon, 700.0))))

        if least > HOPELESS:
            return least
        if one not in prices:
            find = rank_prices if one.ranks else curve_prices
            prices[one] = tuple(find(*one.tested, claim.delta_at))
        test = priced_rank_p_value if one.ranks else priced_p_value
        return min(least, test(*one.tested, prices[one], raised))

    def contrast(
        self, each: list[Guessed], telling: Guessed, claim: Claim, query: Query, bound: float
    ) -> Contrast | None:
        delta = min(_deltas(claim, query), key=lambda delta: _p_at(telling, claim, delta, 0.0))
        if delta != query.delta:
            bound, _ = self.largest(each, delta, 1 - query.confidence)
        return Contrast(delta, bound, claim.epsilon_at(delta))


def _p_value(one: Guessed, epsilon: float, delta: float) -> float:
    """Return the p-value of (ε, δ)-DP."""
    test = rank_p_value if one.ranks else guess_p_value
    return test(*one.tested, epsilon, delta)


def _p_at(one: Guessed, claim: Claim, delta: float, slack: float) -> float:
    """Return the p-value of the line of a claimed curve at a δ."""
    epsilon = claim.epsilon_at(delta)
    raised = delta + slack * (1 + math.exp(min(epsilon, 700.0)))
    if epsilon == math.inf or raised >= 1:
        return 1.0
    return _p_value(one, epsilon, raised)


def _deltas(claim: Claim, query: Query) -> tuple[float, ...]:
    """Return the points of the claimed curve at which it is tested.

    The test holds at each for every number of right guesses, so the smallest of their p-values
    costs nothing more.
    """
    return tuple(dict.fromkeys((query.delta, *claim.telling_deltas)))
