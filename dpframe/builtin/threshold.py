"""Estimators from one threshold on the scores, given or chosen by a pilot."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import special

from dpframe.builtin.events import CAUTION, PilotGrid, apart, profile
from dpframe.plugins import (
    Array,
    Claim,
    DecisionCounts,
    Estimate,
    Estimator,
    Evidence,
    Floats,
    GaussianDP,
    HostArray,
    Ints,
    Query,
    Statistic,
    Tree,
    estimate_from_boxes,
)
from dpframe.stats import binomial, credible, gaussian, histograms, joint, roots
from dpframe.stats.exact_test import EventCounts, exact_region, is_enumerable

Promise = Callable[[Floats, Floats], Floats]


def rises(pilot: Ints) -> bool:
    """True if large scores mean D′, by the largest difference at any threshold of the pilot."""
    above = _above(pilot) / np.maximum(pilot.sum(axis=1), 1)[:, None]
    gains = above[1] - above[0]
    return bool(gains.max() >= -gains.min())


def best_cut(pilot: Ints, promise: Promise, query: Query, *, rising: bool) -> int:
    """Return the bin, from 1, at which to decide: the most promising one for later draws.

    If no bin is promising, return the one that separates the pilot's own scores best. `promise`
    maps upper limits (FPR, FNR), as arrays, to their worth; at most 0 means none. If `rising`, the
    bins from the returned one on mean D′, else those below it.
    """
    trials = np.maximum(pilot.sum(axis=1), 1)[:, None]
    above = _above(pilot)[:, 1:]
    positive = above if rising else trials - above
    rates = np.stack([positive[0], trials[1] - positive[1]]) / trials
    cautious = _upper(rates, trials, CAUTION)
    z = -float(special.ndtri((1 - query.confidence) / 2))
    fpr, fnr = _upper(cautious, np.maximum(np.array(query.trials), 1)[:, None], z)
    worth = promise(fpr, fnr)
    return 1 + int(np.argmax(worth if worth.max() > 0 else -rates.sum(axis=0)))


def _above(counts: Ints) -> Ints:
    """Count the scores in each bin or a higher one, shape [2, bins]."""
    return np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]


def _upper(rate: Floats, trials: Ints, z: float) -> Floats:
    """Return the upper limit of a rate, z standard errors up [Wilson1927]."""
    wide = z * z / trials
    spread = np.sqrt(rate * (1 - rate) * wide + wide * wide / 4)
    return np.asarray(np.minimum((rate + wide / 2 + spread) / (1 + wide), 1.0), np.float64)


Direction = Literal["either", "up", "down"]


class Decisions(NamedTuple):
    """Counts of one decision rule."""

    wrong: Ints  # false positives and false negatives
    trials: Ints  # number of trials on D and on D′
    when: str | None = None  # description of the scores that mean D′, if the pilot chose them

    @property
    def rates(self) -> Floats:
        """FPR and FNR; 1 where nothing was counted."""
        return np.where(self.trials > 0, self.wrong / np.maximum(self.trials, 1), 1.0)


def decisions(
    layout: Tree, counts: Ints, direction: Direction, promise: Promise, query: Query
) -> list[Decisions]:
    """Return the decision rules that share the error: one, or both directions without a pilot.

    The layout is that of `PilotThresholds`, or `()` if the threshold was given.
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
    """True if large scores mean D′; with "either" the pilot decides, without the query."""
    if layout and direction == "either":
        return rises(np.asarray(layout["pilot"], np.int64))
    return direction != "down"


def price(ways: list[Decisions]) -> str:
    """Describe the chosen rule and the number of directions tested."""
    if len(ways) > 1:
        return f"{len(ways)} directions tested: either may mean D′"
    chosen = f", chosen by the pilot: scores {ways[0].when} mean D′" if ways[0].when else ""
    return f"1 direction tested{chosen}"


def _decided(counts: Ints, cut: int, *, rising: bool) -> Decisions:
    """Decide for D′ from a bin on, or below it."""
    high, low = counts[:, cut:].sum(axis=1), counts[:, :cut].sum(axis=1)
    positive, negative = (high, low) if rising else (low, high)
    return Decisions(np.array([positive[0], negative[1]]), counts.sum(axis=1))


def _where(edges: HostArray, cut: int, *, rising: bool) -> str:
    """Describe the bins from a cut on, or below it; bin 0 is NaN, bin 1 below all edges."""
    if cut == 1:
        return "other than NaN" if rising else "that are NaN"
    return histograms.half_line(edges[cut - 2], is_above=rising)


Limits = Literal["clopper-pearson", "jeffreys"]


LIMITS = {
    "clopper-pearson": (binomial.clopper_pearson_lower, binomial.clopper_pearson_upper),
    "jeffreys": (binomial.jeffreys_lower, binomial.jeffreys_upper),
}


def limit_rates(ways: Sequence[Decisions], error: float, limits: Limits, *, upper: bool) -> Floats:
    """Return limits of (FPR, FNR) of k decision rules, shape [k, 2], each at error / 2k."""
    wrong, trials = np.stack([way.wrong for way in ways]), np.stack([way.trials for way in ways])
    return LIMITS[limits][upper](wrong, trials, error / (2 * len(ways)))


EXACT_SHARE = 0.99
"""Share of the error for the exact test. Its p-values far below the query's error are weak, so the
limits of each rate keep the rest: p-values are at most 100 times theirs."""


def bounded(
    ways: Sequence[Decisions], query: Query, *, exact: bool = False, **estimates: Any
) -> Estimate:
    """Bound ε by the error rates of a decision, or of a decision and its reverse.

    If `exact`, all rates are tested together with most of the error, which takes few trials
    (`dpframe.stats.exact_test`). `estimates` are further arguments of `estimate_from_boxes`.
    """
    separate = 1 - EXACT_SHARE if exact else 1.0
    shares = (separate / len(ways),) * len(ways)
    terms = tuple(
        (false, n, missed, m, 1 / len(ways))
        for way in ways
        for (false, missed), (n, m) in [(way.wrong.tolist(), way.trials.tolist())]
    )
    evidence = Evidence("unconditional" if exact else "clopper-pearson", terms)
    regions: Callable[[float], Floats] = functools.partial(
        limit_rates, ways, limits="clopper-pearson", upper=True
    )
    if exact:
        false, n, missed, m = terms[0][:4]
        together = exact_region(
            EventCounts(false, n, m - missed, m),
            query.delta,
            either_rate=True,
            either_way=len(ways) > 1,
            level=EXACT_SHARE * (1 - query.confidence),
        )
        shares = (EXACT_SHARE, *shares)

        def regions(error: float) -> Floats:
            staircase = together(EXACT_SHARE * error)
            boxes = limit_rates(ways, separate * error, "clopper-pearson", upper=True)
            corners = (len(ways), *staircase.shape[1:])
            return np.concatenate([staircase, np.broadcast_to(boxes[:, None], corners)])

    return estimate_from_boxes(regions, query, shares=shares, evidence=evidence, **estimates)


@dataclasses.dataclass(frozen=True)
class ThresholdCounts(DecisionCounts):
    """Counts of scores at or above a threshold: `counts[dataset][decision]`; NaN never is."""

    threshold: float
    accepts: ClassVar[frozenset[str]] = frozenset({"score"})

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        threshold = np.asarray(self.threshold, scores.dtype)
        return super().update(layout, counts, dataset, scores >= threshold, keep)

    def edges(self, layout: Tree) -> Any:
        return np.array([self.threshold])


@dataclasses.dataclass(frozen=True)
class PilotThresholds(PilotGrid):
    """Counts between the thresholds that the pilot offers, and the pilot's own counts.

    The best threshold depends on δ and on the number of trials, which a statistic does not know. So
    scores are counted for all thresholds, and the estimator chooses by the pilot's counts alone. A
    decision is the score 0 or 1.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"decision", "score"})

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, HostArray]:
        pilots = (pilot0, pilot1)
        return super().bind(*(p.astype(np.float32) if p.dtype == np.bool_ else p for p in pilots))

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        if scores.dtype == np.bool_:
            scores = scores.astype(self.edges(layout).dtype)
        return super().update(layout, counts, dataset, scores, keep)


class OneThreshold(Estimator):
    """An estimator from the error rates of one threshold, given or chosen by the pilot."""

    threshold: float | None = None
    """Threshold of the scores; default: the pilot chooses it."""

    def statistic(self) -> Statistic:
        return PilotThresholds() if self.threshold is None else ThresholdCounts(self.threshold)


class LimitedThreshold(OneThreshold):
    """An estimator with limits of both error rates, in a direction."""

    direction: Direction = "either"
    """Larger scores mean D′ ("up", the convention for attacks), D ("down"), or either."""

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        bins = np.asarray(layout["pilot"]).shape[1] if layout else 2
        return apart(bins, (0, -1) if rises_in(layout, self.direction) else (-1, 0), trials)


class ThresholdLoss(LimitedThreshold, name="threshold"):
    """The loss that one threshold shows (equation 6.2), with limits of both error rates.

    The event {score ≥ threshold} means D′, and its complement D; with the direction "down" it is
    reversed. Decisions need no threshold. The point value is
    max{ln((1 − δ − FNR)/FPR), ln((1 − δ − FPR)/FNR)} [Koskela2024, section 6]. The bound puts upper
    limits in the place of the rates, each at half of the error [Jagielski2020], so it holds for
    both ratios at once; `epsilon_upper` has lower limits there, and limits what this threshold
    shows.

    If no threshold is given, the pilot's scores choose the one with the largest expected bound, for
    the given δ, confidence and number of trials; this needs no share of the error. With the
    direction "either" they also choose the direction. A given threshold has no pilot, so both
    directions share the error.

    With up to 1,000 trials on each side both rates are tested together, exactly: bounds are larger
    than those of Clopper-Pearson limits, and the direction "either" lowers only small bounds. With
    more trials, or with `limits = "clopper-pearson"`, each rate has an exact limit. Jeffreys limits
    are approximate: they give no bound, p-value or verdict, but an interval.
    """

    limits: Literal["clopper-pearson", "joint", "jeffreys"] = "joint"
    """Exact limits of each error rate, an exact test of both up to 1,000 trials, or approximate
    limits that certify nothing."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Kairouz2015, theorem 2.1] (arXiv:1311.0776) with an unconditional exact test "
        "[Boschloo1970] (doi:10.1111/j.1467-9574.1970.tb00104.x), exact binomial limits "
        "[Clopper1934] (doi:10.1093/biomet/26.4.404) or Jeffreys limits [Brown2001] "
        "(doi:10.1214/ss/1009213286)"
    )

    def certifies_against(self, claim: Claim | None) -> bool:
        return self.limits != "jeffreys"

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        delta, error = query.delta, 1 - query.confidence

        def loss(fpr: Floats, fnr: Floats) -> Floats:
            return joint.threshold_epsilon(fpr, fnr, delta)

        ways = decisions(layout, counts, self.direction, loss, query)
        rates = np.stack([way.rates for way in ways])
        epsilon = float(loss(*rates.T).max())
        turned = np.concatenate([rates, rates[:, ::-1]])  # the complement says D
        shown = profile(np.stack([turned[:, 0], 1 - turned[:, 1]], axis=1))
        limits: Limits = "jeffreys" if self.limits == "jeffreys" else "clopper-pearson"
        upper = float(loss(*limit_rates(ways, error, limits, upper=False).T).max())
        if limits == "jeffreys":
            lower = float(loss(*limit_rates(ways, error, limits, upper=True).T).max())
            return Estimate(
                epsilon,
                interval=(lower, upper),
                profile=shown,
                notes=(price(ways), "Jeffreys limits are approximate: an interval, not a bound"),
            )
        exact = self.limits == "joint" and is_enumerable(*ways[0].trials.tolist())
        note = "both directions tested together: either may mean D′"
        return bounded(
            ways,
            query,
            exact=exact,
            epsilon=epsilon,
            epsilon_upper=upper,
            profile=shown,
            notes=(note if exact and len(ways) > 1 else price(ways),),
        )


class Credible(OneThreshold, name="credible"):
    """Credible limits of ε from the posterior of both error rates; Bayesian, certifies nothing.

    FPR and FNR of one threshold have independent posteriors under Jeffreys' prior, and the limits
    of ε are where the region of error rates that (ε, δ)-DP allows has a given posterior mass
    [Zanella2023]. The point value has mass ½. The region is the same for both directions of an
    attack. If there is a claim, a note gives the posterior mass of the claimed region
    [Koskela2024, equation 2.5].

    A credible limit is a posterior belief. It is not right in a stated share of audits, so there is
    no bound, no p-value and no verdict. The lower limit is above 0 for all error rates, including
    those of random guesses.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = (
        "Jeffreys' prior on both error rates (Bayesian); independent, identically distributed "
        "outputs"
    )
    reference: ClassVar[str] = (
        "[Zanella2023] (arXiv:2206.05199); [Koskela2024, equation 2.5] (arXiv:2406.04827)"
    )

    sides: Literal["both", "lower"] = "both"
    """An interval with equal mass on both sides, or only a lower limit."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        def loss(fpr: Floats, fnr: Floats) -> Floats:
            return joint.threshold_epsilon(fpr, fnr, query.delta)

        # For a given threshold "up" is as good as "down"; a pilot may choose.
        (way,) = decisions(layout, counts, "either" if layout else "up", loss, query)
        fp, fn = way.wrong.tolist()
        n0, n1 = way.trials.tolist()
        posterior = credible.Posterior(fn, n1 - fn, fp, n0 - fp)
        error = 1 - query.confidence
        levels = [error / 2, 0.5, 1 - error / 2] if self.sides == "both" else [error, 0.5]
        low, middle, *high = credible.credible_epsilon(posterior, query.delta, levels)
        notes = ["credible limits under Jeffreys' prior, not a bound"]
        if way.when:
            notes.append(f"threshold chosen by the pilot: scores {way.when} mean D′")
        if query.claim is not None:
            mass = claimed_mass(posterior, query.claim)
            # The mass is 1 minus the mass outside, so smaller values are rounding errors.
            text = f"{mass:.6g}" if mass > 1e-12 else "below 1e-12"
            notes.append(f"posterior mass of the region that the claim allows: {text}")
        return Estimate(middle, interval=(low, high[0] if high else np.inf), notes=tuple(notes))


def claimed_mass(posterior: credible.Posterior, claim: Claim) -> float:
    """Return P_f for a claim's curve [Koskela2024, equation 2.5]."""

    def above_diagonal(fpr: float) -> float:
        return fpr - float(claim.tradeoff(np.array([fpr]))[0])

    # Curves that are not smooth have their kink where they meet their own reflection.
    corner = roots.crossing(above_diagonal, guess=0.25, spread=0.25, most=1.0)
    return credible.region_mass(posterior, claim.tradeoff, [corner])


class GDP(LimitedThreshold, name="gdp"):
    """The loss of a Gaussian mechanism with the error rates of one threshold; assumes Gaussian.

    With upper limits of both rates, μ ≥ Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) [Koskela2024, equation 2.4]
    [Nasr2023]. `epsilon` is ε(δ) of the point value of μ and `interval` that of its limits, each at
    the stated confidence. They are the loss of a mechanism that adds normal noise of one variance,
    at every δ, from one threshold. Of any other mechanism they can be several times the true loss:
    4.5 at δ = 1e-5 for Laplace noise with ε = 1. So they certify nothing.

    Against the claim of μ-GDP alone the same limits are a test that assumes nothing about the
    noise: error rates below the claimed curve refute it. There the estimator certifies, with a
    p-value, a verdict and, as `epsilon_lower`, the bound that holds for any mechanism with these
    error rates: that of the estimator threshold. Jeffreys limits are approximate and never certify.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "independent, identically distributed outputs; for the point value and the interval also "
        "Gaussian noise"
    )
    reference: ClassVar[str] = (
        "[Koskela2024, equation 2.4] (arXiv:2406.04827) with exact binomial limits "
        "[Clopper1934] (doi:10.1093/biomet/26.4.404) or Jeffreys limits [Brown2001] "
        "(doi:10.1214/ss/1009213286)"
    )

    limits: Limits = "clopper-pearson"
    """Exact limits of the error rates, or approximate ones that certify nothing."""

    def certifies_against(self, claim: Claim | None) -> bool:
        return self.limits == "clopper-pearson" and isinstance(claim, GaussianDP)

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        error = 1 - query.confidence
        ways = decisions(layout, counts, self.direction, gaussian.gaussian_mu, query)
        rates = (
            limit_rates(ways, error, self.limits, upper=True),
            np.stack([way.rates for way in ways]),
            limit_rates(ways, error, self.limits, upper=False),
        )
        mu = [max(0.0, float(gaussian.gaussian_mu(*each.T).max())) for each in rates]
        low, epsilon, high = (_epsilon(each, query.delta) for each in mu)
        notes = [
            price(ways),
            f"assuming Gaussian noise, μ is about {mu[1]:.4g}, from {mu[0]:.4g} to {mu[2]:.4g}",
        ]
        if not query.delta:
            notes.append("a Gaussian mechanism has no finite ε at δ = 0; choose another δ")
        if not self.certifies_against(query.claim):
            return Estimate(epsilon, interval=(low, high), notes=tuple(notes))
        notes.append(
            "the bound and the verdict are valid for any noise, the interval only for "
            "Gaussian noise"
        )
        # At every δ the curve through a point shows at least what the point shows, so its ε limits
        # what this threshold can show, Gaussian or not. It is not a lower limit.
        estimate = bounded(ways, query, epsilon=epsilon, epsilon_upper=high, notes=tuple(notes))
        return estimate._replace(interval=(low, high))


def _epsilon(mu: float, delta: float) -> float:
    """Return ε(δ) of μ-GDP; inf for an infinite μ."""
    return float(gaussian.gaussian_epsilon(delta, mu)) if np.isfinite(mu) else np.inf
