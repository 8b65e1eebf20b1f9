"""Estimators from divergences and the area under the curve: DP-Auditorium's testers, and AUC."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np

from dpframe.plugins import (
    Claim,
    Estimate,
    Floats,
    GaussianDP,
    Ge,
    Gt,
    Ints,
    Query,
    RenyiDP,
    Tree,
    ZeroConcentratedDP,
)
from dpframe.stats.histograms import hockey_stick
from dpframe_baselines.common import (
    IID,
    Baseline,
    Sample,
    from_test,
    largest,
    sample_of,
    smallest,
)

BINS = 20


def groups(layout: Tree, bins: int = BINS) -> Ints:
    """Return the group of each bin, such that groups have about equal shares of the pilot."""
    pilot = sample_of(layout["pilot"])
    both = pilot.q + pilot.p
    middle = (np.cumsum(both) - both / 2) / max(1, both.sum())
    return np.asarray(np.minimum(bins * middle, bins - 1), np.int64)


def merged(layout: Tree, counts: Tree, bins: int = BINS) -> Sample:
    """Add the counts of the bins of each group."""
    sums = np.zeros((2, bins), np.int64)
    for group_sums, side in zip(sums, sample_of(counts), strict=True):
        np.add.at(group_sums, groups(layout, bins), side)
    return Sample(sums[0], sums[1])


class AUC(Baseline, name="auc"):
    """The area under the ROC curve, compared with the largest that a claim allows.

    Under (ε, δ)-DP the area above the curve is at least that under the trade-off curve
    [Kairouz2015, theorem 2.1], which is (1 − δ)²/(1 + e^ε). The area is a mean over pairs, one
    score of each dataset, ties half. It exceeds its mean by t with probability at most
    exp(−2 min(n, m) t²) [Hoeffding1963, section 5]. The pilot chooses the direction. One-sided,
    valid at finite samples.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "[Hoeffding1963, section 5] (doi:10.1080/01621459.1963.10500830) with "
        "[Kairouz2015, theorem 2.1] (arXiv:1311.0776)"
    )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        sample = sample_of(counts)
        area = sample.area if sample_of(layout["pilot"]).rising else 1 - sample.area
        fewest = min(sample.trials)

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            excess = area - 2 * slack - 1 + (1 - delta) ** 2 / (1 + math.exp(epsilon))
            return math.exp(-2 * fewest * max(0.0, excess) ** 2)

        above = max(1 - area, 1e-15)
        point = math.log(max((1 - query.delta) ** 2 / above - 1, 1.0))
        return from_test(p_value, query, point)


class AuditoriumHistogram(Baseline, name="auditorium-histogram"):
    """DP-Auditorium's test by the hockey-stick divergence of two histograms [Kong2023].

    The divergence of the frequencies, less 2/√n (Σ √p̂ + e^ε Σ √q̂) + 6 (1 + e^ε) √(ln(4/a)/(2n)),
    is a lower limit of the true one, after [Gilbert2018, algorithm 2]. One-sided, valid at finite
    samples for all ε and both directions at once: it rests on the total variation distances of p̂
    and q̂ from the truth alone. Bins have about equal shares of the pilot; DP-Auditorium's are
    equally wide between two given ends.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "[Gilbert2018, algorithm 2] (arXiv:1806.06427) in the form of [Kong2023] (arXiv:2307.05608)"
    )

    bins: Annotated[int, Ge(2)] = BINS
    """Number of bins."""

    # E TV(p̂, p) ≤ E Σ √p̂/√n: for each bin E|X − np|/2 ≤ E √X, because E √X is at least
    # np/√(1 + np), and if np < 1/3 at least 1 − (1 − p)ⁿ ≥ np (1 − p)ⁿ = E|X − np|/2. Both sides
    # change by at most 1/n with a draw. So by McDiarmid TV ≤ Σ √p̂/√n + 2 √(ln(1/b)/(2n)), but for
    # 2b, and b = a/4 for both datasets. The published limit is twice and three times as wide.

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        sample = merged(layout, counts, self.bins)
        fewest, (q, p) = min(sample.trials), sample.rates
        sides = ((p, q), (q, p))
        noise = 2 / math.sqrt(fewest)

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            growth = math.exp(epsilon)
            excess = max(
                float(hockey_stick(one, other, epsilon))
                - noise * float(np.sqrt(one).sum() + growth * np.sqrt(other).sum())
                for one, other in sides
            )
            left = max(0.0, excess - delta - slack * (1 + growth)) / (6 * (1 + growth))
            return 4 * math.exp(-2 * fewest * left**2)

        def shows(epsilon: float) -> bool:
            return any(float(hockey_stick(*side, epsilon)) > query.delta for side in sides)

        return from_test(p_value, query, largest(shows))


class AuditoriumRenyi(Baseline, name="auditorium-renyi"):
    """DP-Auditorium's test by a variational Rényi divergence [Kong2023].

    For every g, D_α(P‖Q) ≥ α/(α − 1) ln E_P e^{(α−1)g} − ln E_Q e^{αg} [Birrell2021]. The pilot
    learns g, the logarithm of its ratio, cut at ±C; DP-Auditorium trains a network. Multiplicative
    Chernoff limits of both means, each at half of the error and with its own factor, give a lower
    limit. It refutes ε-DP if it exceeds the divergence of randomised response, the largest
    that ε-DP allows [Kairouz2015]; DP-Auditorium allows more, min(ε, 2αε²). The pilot chooses the
    direction. One-sided, valid at finite samples; at δ > 0 it certifies nothing.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "[Kong2023] (arXiv:2307.05608), [Birrell2021] (arXiv:2007.03814), "
        "[Kairouz2015] (arXiv:1311.0776)"
    )

    order: Annotated[float, Gt(1)] = 2.0
    """α."""
    reach: Annotated[float, Gt(0)] = 1.0
    """C, at which the logarithm of the ratio is clipped."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        alpha, (g, forwards) = self.order, self._learned(layout)
        sample = merged(layout, counts)
        p, q = (sample.p, sample.q) if forwards else (sample.q, sample.p)
        m, n, top, base = max(1, p.sum()), max(1, q.sum()), alpha - 1, alpha
        high, low = float(p @ np.exp(top * g)) / m, float(q @ np.exp(base * g)) / n

        def divergence(error: float, slack: float) -> float:
            log = math.log(2 / error)
            over = math.sqrt(3 * log * math.exp(2 * top * self.reach) / m)
            under = math.sqrt(2 * log * math.exp(2 * base * self.reach) / n)
            above = high - 2 * slack * math.sinh(top * self.reach)
            below = low + 2 * slack * math.sinh(base * self.reach)
            if over >= 1 or under >= 1 or above <= 0:
                return 0.0
            return base / top * math.log(above / (1 + over)) - math.log(below / (1 - under))

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            most = response_divergence(epsilon, alpha)
            return smallest(lambda error: divergence(error, slack) > most) if delta == 0 else 1.0

        point = base / top * math.log(high) - math.log(low) if high > 0 and low > 0 else 0.0
        reached = largest(lambda epsilon: response_divergence(epsilon, alpha) < point)
        return from_test(p_value, query, reached)

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        g, forwards = self._learned(layout)
        evidence = (g if forwards else -g)[groups(layout)]
        counts = np.zeros(np.shape(layout["pilot"]), np.int64)
        counts[0, 1 + evidence.argmin()], counts[1, 1 + evidence.argmax()] = trials
        return counts

    def _learned(self, layout: Tree) -> tuple[Floats, bool]:
        """Return g of each group, and True if P is D′; the larger estimate of the pilot decides."""
        pilot = merged(layout, layout["pilot"])
        q, p = ((side + 1) / (side.sum() + len(side)) for side in pilot)
        g = np.clip(np.log(p / q), -self.reach, self.reach)
        top, base = self.order - 1, self.order

        def shown(p: Floats, q: Floats, g: Floats) -> float:
            return float(base / top * np.log(p @ np.exp(top * g)) - np.log(q @ np.exp(base * g)))

        forwards = shown(p, q, g) >= shown(q, p, -g)
        return (g if forwards else -g), forwards


class RenyiDonskerVaradhan(Baseline, name="renyi-donsker-varadhan"):
    """A Rényi divergence by its Donsker–Varadhan form over a bounded class [Kim2026].

    For every g, D_α(P‖Q) ≥ α/(α − 1) ln E_P e^{(α−1)g} − ln E_Q e^{αg} [Birrell2021]. The class are
    functions of 20 groups of scores within ±C; the pilot chooses g, C and the direction. The paper
    trains networks, and its interval holds for the whole class; here fresh draws limit both means
    by the empirical Bernstein inequality [Maurer2009, theorem 4], at half of the error each. It
    refutes ε-DP as `auditorium-renyi` does, and Rényi, concentrated or Gaussian DP if the limit
    exceeds their own divergence. One-sided, valid at finite samples. The bound is one on ε-DP:
    at δ > 0 it certifies nothing.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "after [Kim2026] (arXiv:2605.21938), with [Birrell2021] (arXiv:2007.03814) and "
        "[Maurer2009, theorem 4] (arXiv:0907.3740)"
    )

    order: Annotated[float, Gt(1)] = 2.0
    """α."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        alpha, (g, forwards) = self.order, self._chosen(layout, min(query.trials))
        sample = merged(layout, counts)
        sides = (sample.p, sample.q) if forwards else (sample.q, sample.p)

        def test(most: float, slack: float) -> float:
            return smallest(lambda error: limit(*sides, g, alpha, error, slack) > most)

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            return test(response_divergence(epsilon, alpha), slack) if delta == 0 else 1.0

        point = max(0.0, limit(*sides, g, alpha, math.inf, 0.0))
        reached = largest(lambda epsilon: response_divergence(epsilon, alpha) < point)
        found = from_test(p_value, query, reached)
        claimed = _claimed_divergence(query.claim, alpha)
        if claimed is None:
            return found
        exact, resolved = (test(claimed, slack) for slack in (0.0, query.resolution))
        return found._replace(p_value=exact, p_resolved=max(exact, resolved))

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        g, forwards = self._chosen(layout, min(trials))
        evidence = (g if forwards else -g)[groups(layout)]
        counts = np.zeros(np.shape(layout["pilot"]), np.int64)
        counts[0, 1 + evidence.argmin()], counts[1, 1 + evidence.argmax()] = trials
        return counts

    def _chosen(self, layout: Tree, trials: int) -> tuple[Floats, bool]:
        """Return g of each group, and True if P is D′: those of the pilot's largest limit."""
        pilot = merged(layout, layout["pilot"])
        sides = [max(1, trials) * (side + 1) / (side.sum() + len(side)) for side in pilot]
        ratio = np.log(sides[1] / sides[0])
        tries = [
            (np.clip(way * ratio, -reach, reach), way > 0) for reach in REACHES for way in (1, -1)
        ]

        def shown(one: tuple[Floats, bool]) -> float:
            p, q = sides[::-1] if one[1] else sides
            return limit(p, q, one[0], self.order, 0.1, 0.0)

        return max(tries, key=shown)


REACHES = (0.25, 0.5, 1.0, 2.0, 4.0)


def limit(
    p: Floats | Ints, q: Floats | Ints, g: Floats, alpha: float, error: float, slack: float
) -> float:
    """Return a lower limit of D_α(P‖Q) from counts p and q; at an infinite error the estimate."""
    ends = []
    for side, power, sign in ((p, alpha - 1, -1.0), (q, alpha, 1.0)):
        n, values, most = float(side.sum()), np.exp(power * g), float(np.exp(power * g).max())
        if n < 2:
            return -math.inf
        mean, spread = float(side @ values) / n, most - float(values.min())
        variance = float(side @ (values - mean) ** 2) / (n - 1)
        log = math.log(4 / error) if error <= 1 else 0.0
        width = math.sqrt(2 * variance * log / n) + 7 * spread * log / (3 * (n - 1))
        ends.append(mean + sign * (width + slack * spread))
    return alpha / (alpha - 1) * math.log(ends[0]) - math.log(ends[1]) if ends[0] > 0 else -math.inf


def _claimed_divergence(claim: Claim | None, alpha: float) -> float | None:
    """Return the largest D_α that a claim of Rényi, concentrated or Gaussian DP allows, if any."""
    match claim:
        case RenyiDP(order=order, epsilon=epsilon) if alpha <= order:
            return epsilon
        case ZeroConcentratedDP(rho=rho):
            return alpha * rho
        case GaussianDP(mu=mu):
            return alpha * mu**2 / 2
    return None


def response_divergence(epsilon: float, alpha: float) -> float:
    """Return D_α of randomised response, the largest under ε-DP [Kairouz2015, theorem 2.1]."""
    # (e^{αε} + e^{(1−α)ε})/(1 + e^ε), with e^{(α−1)ε} factored out.
    log = math.log1p(math.exp((1 - 2 * alpha) * epsilon)) - math.log1p(math.exp(-epsilon))
    return epsilon + log / (alpha - 1)


BLOCKS = 1_000_000  # blocks that are compared at most


class AuditoriumMMD(Baseline, name="auditorium-mmd"):
    """DP-Auditorium's test by the maximum mean discrepancy [Kong2023], from disjoint blocks.

    Blocks of two draws of each dataset give k(x, x′) + k(y, y′) − k(x, y′) − k(x′, y), of mean MMD²
    [Gretton2012, lemma 6]. They lie in [−2, 2], so Hoeffding's inequality and the empirical
    Bernstein inequality [Maurer2009, theorem 4] limit their mean, at half of the error each. With a
    kernel in [0, 1], MMD² ≤ 2 TV², and (ε, δ)-DP has TV ≤ (e^ε − 1 + 2δ)/(e^ε + 1)
    [Kairouz2015, theorem 2.1]; DP-Auditorium uses another conversion. The kernel is Gaussian on the
    scores, with the pilot's interquartile range as its width. One-sided, valid at finite samples.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = IID
    reference: ClassVar[str] = (
        "[Kong2023] (arXiv:2307.05608), [Gretton2012, lemma 6] (JMLR 13), "
        "[Maurer2009, theorem 4] (arXiv:0907.3740), [Kairouz2015, theorem 2.1] (arXiv:1311.0776)"
    )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        values = blocks(layout, sample_of(counts))
        number, mean = len(values), float(values.mean()) if len(values) else 0.0
        spread = math.sqrt(2 * float(values.var(ddof=1)) / number) if number > 1 else math.inf

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            total = min(1.0, 1 - 2 * (1 - delta) / (1 + math.exp(epsilon)))
            excess = mean - 8 * slack - 2 * total**2
            if number < 2 or excess <= 0:
                return 1.0
            # excess = spread √ln(2/a) + 28 ln(2/a)/(3 (number − 1)), solved for a.
            square = 28 / (3 * (number - 1))
            root = (math.sqrt(spread**2 + 4 * square * excess) - spread) / (2 * square)
            return 2 * min(math.exp(-number * excess**2 / 8), 2 * math.exp(-(root**2)))

        total = min(math.sqrt(max(0.0, mean) / 2), 1 - 1e-15)
        point = math.log(max((1 + total - 2 * query.delta) / (1 - total), 1.0))
        return from_test(p_value, query, point)


def blocks(layout: Tree, sample: Sample) -> Floats:
    """Return the values of disjoint blocks.

    Counts lose the order of the draws, so the draws are shuffled with a seed from the pilot: a
    random order has the same distribution as the true one.
    """
    kernel = gaussian_kernel(layout)
    rng = np.random.default_rng(np.asarray(layout["pilot"]).ravel())
    number = min(BLOCKS, *(int(side.sum()) // 2 for side in sample))
    bins = np.arange(len(kernel), dtype=np.int16)
    sides = [rng.permutation(np.repeat(bins, side))[: 2 * number] for side in sample]
    (x0, x1), (y0, y1) = ((side[:number], side[number:]) for side in sides)
    return np.asarray(kernel[x0, x1] + kernel[y0, y1] - kernel[x0, y1] - kernel[x1, y0], np.float64)


def gaussian_kernel(layout: Tree) -> Floats:
    """Return the kernel between bins, [bins, bins], as wide as the pilot's interquartile range."""
    edges = np.asarray(layout["edges"], np.float64)
    finite = edges[np.isfinite(edges)] if np.isfinite(edges).any() else np.zeros(1)
    places = np.append(finite[:1], edges)
    places[~np.isfinite(places)] = finite[-1]
    places /= 4  # so that no difference overflows
    pilot = sample_of(layout["pilot"])
    both = np.repeat(places, pilot.q + pilot.p)
    low, high = np.quantile(both, [0.25, 0.75]) if len(both) else (0.0, 0.0)
    width = max(high - low, 1e-9 * max(0.25, float(np.abs(places).max())))
    return np.asarray(np.exp(-(((places[:, None] - places) / width) ** 2) / 2), np.float64)
