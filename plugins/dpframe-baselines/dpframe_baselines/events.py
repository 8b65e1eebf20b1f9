"""Estimators from events {score beyond a cut}: DP-Sniper, StatDP, Katz, BCa, Bernstein and DKW."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from scipy import special

from dpframe.plugins import (
    Estimate,
    Evidence,
    Floats,
    Ge,
    Gt,
    Ints,
    Lt,
    Query,
    Tree,
    clopper_pearson_upper,
    estimate_from_boxes,
)
from dpframe_baselines.common import IID, Baseline, Way, from_test, loss, sample_of, ways


class OneEvent(Baseline):
    """An estimator from the counts of one event, which the pilot chooses."""

    def counted(self, layout: Tree, counts: Ints, query: Query) -> tuple[int, int, int, int]:
        """Return hits and draws on the dataset where the event is rarer, and on the other."""
        pilot = sample_of(layout["pilot"])
        few = max(1, min(query.trials))
        worth = [self.worth(way, query, few) for way in ways(pilot, rising=pilot.rising)]
        end = int(worth[1].max() > worth[0].max())
        cut = int(worth[end].argmax())
        way = ways(sample_of(counts), rising=pilot.rising)[end]
        return int(way.false[cut]), way.n, int(way.true[cut]), way.m

    def worth(self, way: Way, query: Query, few: int) -> Floats:
        """Return the expected bound of each cut: a lower limit of its log ratio, from the pilot.

        The limit is that of [Katz1978], widened by the noise of the pilot itself.
        """
        x, y = (way.false + 0.5) / (way.n + 1), (way.true + 0.5) / (way.m + 1)
        z = -float(special.ndtri((1 - query.confidence) / 2))
        noise = z / math.sqrt(few) + CAUTION / math.sqrt(min(way.n, way.m))
        ratios = _log_ratio(y - query.delta, x)
        return ratios - noise * np.sqrt(_spread(x, y, query.delta, 1.0, 1.0))


CAUTION = 3.0  # standard deviations: the best of hundreds of cuts is partly luck


def _log_ratio(above: Floats, below: Floats) -> Floats:
    """Return ln(above/below), -inf unless above > 0."""
    ratios = np.full(np.shape(above), -np.inf)
    return np.log(above / below, out=ratios, where=above > 0)


def _spread(x: Floats, y: Floats, delta: float, n: float, m: float) -> Floats:
    """Return the variance of ln((y − δ)/x) of two rates, by the delta method."""
    left = np.maximum(y - delta, 1e-100)
    return np.asarray(y * (1 - y) / (m * left**2) + (1 - x) / (n * x), np.float64)


class DPSniper(OneEvent, name="dp-sniper"):
    """A lower confidence limit of ln(p/q) of one event [Bichsel2021].

    The scores of a classifier, here the attack, are cut so that the event has the share c of one
    dataset. Fresh draws bound both probabilities by Clopper-Pearson limits, each at half of the
    error. One-sided; it has the error of the query. If ties make the share larger than 2c, the next
    smaller event is a candidate too; DP-Sniper randomises instead. The pilot chooses the end of the
    scores and the direction; DP-Sniper searches both. DP-Sniper tests ε-DP; this version also
    counts the complement of the event, and subtracts δ > 0.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "[Bichsel2021] (doi:10.1109/SP40001.2021.00081) with exact binomial limits "
        "[Clopper1934] (doi:10.1093/biomet/26.4.404)"
    )

    share: Annotated[float, Gt(0), Lt(1)] = 0.01
    """c, the smallest share of the event on the dataset where it is rarer."""

    def worth(self, way: Way, query: Query, few: int) -> Floats:
        rates = way.false / way.n
        ratios = np.full(len(rates), -np.inf)
        cut = int(np.where(rates >= self.share, rates, 2.0).argmin())
        smaller = np.where(
            rates < self.share, rates + way.true / (2 * way.n * way.m), -1.0
        ).argmax()
        cuts = [cut] if rates[cut] <= 2 * self.share else [cut, int(smaller)]
        ratios[cuts] = (way.true[cuts] + 0.5) / (way.m + 1) / (rates[cuts] + 0.5 / way.n)
        return ratios

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        k, n, j, m = self.counted(layout, counts, query)

        def boxes(error: float) -> Floats:
            return clopper_pearson_upper(np.array([[k, m - j]]), np.array([n, m]), error / 2)

        return estimate_from_boxes(
            boxes,
            query,
            epsilon=loss(j / m - query.delta, k / n),
            evidence=Evidence("clopper-pearson", ((k, n, m - j, m, 1.0),)),
        )


class StatDP(OneEvent, name="statdp"):
    """The test of one event by thinning and Fisher's exact test [Ding2018, algorithm 2].

    If p ≤ e^ε q, hits of the event that are kept with probability e^−ε are no more likely than hits
    on the other dataset. Given the sum of both, they are at most hypergeometric. StatDP averages
    the p-values of many thinnings. Their mean is not a p-value, but twice their mean is [Vovk2020],
    so this doubles the mean over all thinnings, computed exactly. One-sided; it has the error of
    the query, and the bound is the largest ε that the test rejects. The pilot chooses event and
    direction. It tests ε-DP: at δ > 0 it certifies nothing.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "[Ding2018, algorithm 2] (doi:10.1145/3243734.3243818) with twice the mean p-value "
        "[Vovk2020] (doi:10.1093/biomet/asaa027)"
    )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        k, n, j, m = self.counted(layout, counts, query)
        known: dict[float, Floats] = {}

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            false, true = k + math.ceil(slack * n), max(0, j - math.ceil(slack * m))
            if delta > 0 or false >= n:
                return 1.0
            if slack not in known:
                known[slack] = fisher_p_values(true, m, false, n)
            return 2 * mean_p_value(known[slack], math.exp(-epsilon))

        return from_test(p_value, query, loss(j / m, k / n))


def fisher_p_values(most: int, m: int, k: int, n: int) -> Floats:
    """Return Fisher's p-values of 0 to `most` hits of m against k of n, k < n; shape [most + 1].

    That of c hits is Pr[X ≥ c], X hypergeometric: c of the m come before the (k + 1)-th of the n if
    all are put in random order. Hits before it have a negative hypergeometric distribution.
    """
    top = min(m, most + 60 * math.isqrt(most + k + 100))
    c = np.arange(top + 1.0)
    log = special.gammaln(c + k + 1) - special.gammaln(c + 1)
    log += special.gammaln(m - c + n - k) - special.gammaln(m - c + 1)
    log += special.gammaln(n + 1) + special.gammaln(m + 1) - special.gammaln(n + m + 1)
    mass = np.exp(log - special.gammaln(k + 1) - special.gammaln(n - k))
    # From the mode on the ratio of neighbours falls, so the rest is below a geometric sum.
    ratio = (top + k + 1) / (top + 1) * (m - top) / max(1, m + n - top - k - 1)
    rest = mass[-1] * ratio / (1 - ratio) if ratio < 1 else 1.0
    tails = np.cumsum(mass[::-1])[::-1] + rest
    return np.asarray(np.minimum(tails[: most + 1], 1.0), np.float64)


def mean_p_value(tails: Floats, kept: float) -> float:
    """Return the mean of p-values over randomly kept hits, at most 1e-9 of it too small.

    Args:
        tails: p-values by number of hits, from 0 to all.
        kept: probability with which each hit is kept.
    """
    hits = len(tails) - 1
    reach = 40 * math.sqrt(hits * kept * (1 - kept)) + 40
    low = max(0, math.floor(hits * kept - reach))
    high = min(hits, math.ceil(hits * kept + reach))
    c = np.arange(low, high + 1.0)
    log = special.gammaln(hits + 1) - special.gammaln(c + 1) - special.gammaln(hits - c + 1)
    mass = np.exp(log + special.xlogy(c, kept) + special.xlog1py(hits - c, -kept))
    outside = special.bdtr(low - 1, hits, kept) if low else 0.0
    if high < hits:
        outside += tails[high] * special.bdtrc(high, hits, kept)
    return float(mass @ tails[low : high + 1] + outside)


class Katz(OneEvent, name="katz"):
    """The log-ratio interval of two rates, asymptotic [Katz1978].

    ln(p̂/q̂) ± z √((1 − p̂)/(m p̂) + (1 − q̂)/(n q̂)), with half a hit added on each side; at δ > 0 with
    p̂ − δ and its variance by the delta method. Two-sided at the confidence of the query. It is a
    normal approximation, so it certifies nothing. The pilot chooses the event.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "the logarithm of the ratio of two rates is normal"
    reference: ClassVar[str] = "[Katz1978] (doi:10.2307/2530610)"

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        k, n, j, m = self.counted(layout, counts, query)
        x, y = (k + 0.5) / (n + 1), (j + 0.5) / (m + 1)
        middle = math.log(max(y - query.delta, 1e-300) / x)
        spread = float(_spread(np.array(x), np.array(y), query.delta, n, m))
        width = -float(special.ndtri((1 - query.confidence) / 2)) * math.sqrt(spread)
        limits = max(0.0, middle - width), max(0.0, middle + width)
        return Estimate(loss(j / m - query.delta, k / n), interval=limits)


class BCa(OneEvent, name="bca"):
    """The bias-corrected and accelerated bootstrap interval of ln((p − δ)/q) [Efron1987].

    Two-sided at the confidence of the query. Resampled counts are binomial; the acceleration comes
    from the empirical influence of each draw. The interval is only second-order accurate, so it
    certifies nothing; if a count is 0, it is 0 in every resample. The pilot chooses the event.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "a transformation makes the estimate normal"
    reference: ClassVar[str] = "[Efron1987] (doi:10.1080/01621459.1987.10478410)"

    resamples: Annotated[int, Ge(100)] = 2000
    """Number of resamples."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        k, n, j, m = self.counted(layout, counts, query)
        rng = np.random.default_rng([k, n, j, m])

        def ratio(false: Ints, true: Ints) -> Floats:
            left = np.maximum((true + 0.5) / (m + 1) - query.delta, 1e-300)
            return np.asarray(np.log(left) - np.log((false + 0.5) / (n + 1)), np.float64)

        own = float(ratio(np.array(k), np.array(j)))
        drawn = np.sort(
            ratio(
                rng.binomial(n, k / n, self.resamples),
                rng.binomial(m, j / m, self.resamples),
            )
        )
        below = float(np.mean(drawn < own) + np.mean(drawn == own) / 2)
        shift = float(special.ndtri(np.clip(below, 1e-3, 1 - 1e-3)))
        bend = _acceleration(k / n, n, j / m, m, query.delta)
        z = shift + special.ndtri([(1 - query.confidence) / 2, (1 + query.confidence) / 2])
        levels = special.ndtr(shift + z / np.maximum(1 - bend * z, 1e-3))
        low, high = np.maximum(np.quantile(drawn, np.sort(levels), method="nearest"), 0.0)
        return Estimate(
            loss(j / m - query.delta, k / n),
            interval=(float(low), float(high)),
        )


def _acceleration(q: float, n: int, p: float, m: int, delta: float) -> float:
    """Return a sixth of the skewness of ln((p − δ)/q) by the influence of single draws."""
    cubes = squares = 0.0
    for rate, size, weight in ((p, m, p - delta), (q, n, -q)):
        if abs(weight) > 1e-50:  # its cube is not 0
            squares += rate * (1 - rate) / size / weight**2
            cubes += rate * (1 - rate) * (1 - 2 * rate) / size**2 / weight**3
    return cubes / (6 * squares**1.5) if squares > 0 else 0.0


class EmpiricalBernstein(OneEvent, name="empirical-bernstein"):
    """Limits of both rates of one event by the empirical Bernstein inequality.

    A mean of n values in [0, 1] with sample variance V errs on one side by at most
    √(2 V ln(2/a)/n) + 7 ln(2/a)/(3 (n − 1)) [Maurer2009, theorem 4]; each rate gets half of the
    error. One-sided, valid at finite samples. The inequality holds for means of any bounded values;
    exact binomial limits are tighter for rates. The pilot chooses the event.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = "[Maurer2009, theorem 4] (arXiv:0907.3740)"

    def worth(self, way: Way, query: Query, few: int) -> Floats:
        x, y = (way.false + 0.5) / (way.n + 1), (way.true + 0.5) / (way.m + 1)
        lower, upper = (
            rate + sign * bernstein_width(rate, few, (1 - query.confidence) / 2)
            for rate, sign in ((y, -1), (x, 1))
        )
        noise = CAUTION / math.sqrt(min(way.n, way.m))
        ratios = _log_ratio(lower - query.delta, upper)
        return ratios - noise * np.sqrt(_spread(x, y, query.delta, 1.0, 1.0))

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        k, n, j, m = self.counted(layout, counts, query)
        rates, trials = np.array([[k / n, 1 - j / m]]), np.array([n, m])

        def boxes(error: float) -> Floats:
            return np.minimum(rates + bernstein_width(rates, trials, error / 2), 1.0)

        return estimate_from_boxes(boxes, query, epsilon=loss(j / m - query.delta, k / n))


def bernstein_width(rates: Floats, trials: Ints | int, error: float) -> Floats:
    """Return the distance by which a rate exceeds its frequency with at most this probability."""
    n = np.maximum(trials, 2)
    log = math.log(2 / error)
    # V has the divisor n − 1, so V/n is r (1 − r)/(n − 1).
    width = np.sqrt(2 * rates * (1 - rates) * log / (n - 1)) + 7 * log / (3 * (n - 1))
    return np.asarray(np.where(np.less(trials, 2), 1.0, width), np.float64)


class DKW(Baseline, name="dkw"):
    """Bands around both distribution functions, for all cuts and both directions at once.

    sup |F̂ − F| exceeds √(ln(2/a)/(2n)) with probability at most a [Massart1990, corollary 1]; each
    dataset gets half of the error. The bands hold for all cuts at once, so choosing one costs
    nothing, but they are as wide for rare events as for frequent ones. One-sided, valid at finite
    samples.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = "[Massart1990, corollary 1] (doi:10.1214/aop/1176990746)"

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        sample = sample_of(counts)
        both = [way for rising in (True, False) for way in ways(sample, rising=rising)]
        false = np.stack([way.false / way.n for way in both])
        miss = np.stack([1 - way.true / way.m for way in both])
        sizes = np.broadcast_to(np.array([[[way.n, way.m]] for way in both]), (4, len(false[0]), 2))
        each = np.concatenate([np.stack([false, miss], axis=2), sizes], axis=2)
        # Most cuts of discrete scores are alike, and a p-value tries all of them many times.
        rates, trials = np.split(np.unique(each.reshape(-1, 4), axis=0), 2, axis=1)
        spread = np.sqrt(0.5 / trials)

        def boxes(error: float) -> Floats:
            return np.minimum(rates + math.sqrt(math.log(4 / error)) * spread, 1.0)

        best = boxes(1 - query.confidence)
        index = int(_log_ratio(1 - query.delta - best[:, 1], best[:, 0]).argmax())
        x, y = rates[index].tolist()
        return estimate_from_boxes(boxes, query, epsilon=loss(1 - y - query.delta, x))
