"""Estimators from histograms of both score densities."""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpframe.builtin import events as _events
from dpframe.builtin.event_choice import choose, largest_shown
from dpframe.plugins import (
    Claim,
    Estimate,
    Estimator,
    Evidence,
    Floats,
    Ge,
    HostArray,
    Ints,
    Le,
    Query,
    Tree,
    epsilon_of,
    estimate_from_boxes,
)
from dpframe.stats import histograms, tradeoff
from dpframe.stats.histograms import bin_counts

Points = tuple[tuple[float, float], ...]


FINE = 1022
"""Fine bins between the two open ones. They are merged later, because Scott's rule depends on the
number of trials, which the pilot does not know."""

MOST_BINS = 100_000
"""The pilot's default number of draws; further bins would be empty and still use memory."""

OUTSIDE = 0.001  # share of a pilot's scores that each open end may hold if no range is given
REPEATED = 4  # values are discrete if the pilot saw each of them this often on average

QUARTILES = 1.3489795003921634
"""Interquartile range of a normal distribution, in standard deviations."""


@dataclasses.dataclass(frozen=True)
class PilotBins(_events.PilotGrid):
    """Counts in bins of equal width, the outermost ones open, and the pilot's own counts.

    Without a number of bins the counts are finer than the histogram (see `first_bins`). If the
    pilot has few distinct values and no range was given, each gets a bin instead.
    """

    bins: int | None
    low: float | None
    high: float | None

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, Any]:
        edges, deviation = self._edges((pilot0, pilot1))
        pilot = np.stack([bin_counts(edges, scores) for scores in (pilot0, pilot1)])
        return {"edges": edges, "pilot": pilot, "deviation": np.float64(deviation)}

    def describe(self, layout: Tree) -> dict[str, Any]:
        return {**super().describe(layout), "deviation": float(layout["deviation"])}

    def _edges(self, pilots: tuple[HostArray, HostArray]) -> tuple[HostArray, float]:
        """Return edges, and the deviation that decides how many to leave out; 0 for none."""
        dtype, values = pilots[0].dtype, _events.distinct(*pilots)
        most = FINE + 1 if self.bins is None else self.bins - 1
        few = min(_events.DISTINCT, most, sum(map(len, pilots)) // REPEATED)
        if self.low is None and self.high is None and 0 < len(values) <= few:
            # Repeated edges make empty bins, which `first_bins` leaves out.
            return np.concatenate([values, np.full(most - len(values), values[-1])]), 0.0
        finite = [scores[np.isfinite(scores)].astype(np.float64) for scores in pilots]
        low, high = self._range(finite)
        t = np.arange(FINE + 1) / FINE if self.bins is None else np.arange(1, self.bins) / self.bins
        # Not low + t (high − low), which overflows for the widest of ranges. Rounding leaves the
        # edges of a narrow range in no order.
        edges = np.sort(low * (1 - t) + high * t).astype(dtype)
        deviations = [] if self.bins is not None else [_deviation(scores) for scores in finite]
        return edges, histograms.common_deviation(*deviations) if deviations else 0.0

    def _range(self, finite: list[Floats]) -> tuple[float, float]:
        seen = [np.sort(scores) for scores in finite if len(scores)]
        inner = [int(OUTSIDE * len(scores)) for scores in seen]
        ends = [(scores[at], scores[-1 - at]) for scores, at in zip(seen, inner, strict=True)]
        low = min((float(a) for a, _ in ends), default=0.0) if self.low is None else self.low
        high = max((float(b) for _, b in ends), default=1.0) if self.high is None else self.high
        # A limit that was given may lie beyond what the pilot saw.
        return (low, max(low, high)) if self.low is not None else (min(low, high), high)


class Histograms(NamedTuple):
    """Counts of the same bins on both datasets."""

    counts: Ints  # shape [2, k]; NaN comes first if it has a bin of its own, then ascending scores

    @property
    def bins(self) -> int:
        """k, the number of bins."""
        return int(self.counts.shape[1])

    @property
    def trials(self) -> Ints:
        """Shape [2]; at least 1, so that nothing is divided by 0."""
        return np.asarray(np.maximum(self.counts.sum(axis=1), 1), np.int64)

    @property
    def q(self) -> Floats:
        """Frequencies on D."""
        return np.asarray(self.counts[0] / self.trials[0], np.float64)

    @property
    def p(self) -> Floats:
        """Frequencies on D′."""
        return np.asarray(self.counts[1] / self.trials[1], np.float64)


def grouped(layout: Tree, counts: Ints, trials: tuple[int, int]) -> Histograms:
    """Return the histograms of some counts; bins depend on layout and `trials` alone."""
    starts = first_bins(layout, trials)
    return Histograms(np.add.reduceat(np.asarray(counts, np.int64), starts, axis=1))


def first_bins(layout: Tree, trials: tuple[int, int]) -> Ints:
    """Return the counted bin with which each bin of the histogram begins, shape [k].

    Fine bins are merged to the width of Scott's rule [Koskela2024, equation 4.1], as if each
    density were normal. NaN has a bin of its own if the pilot saw one, else it joins the lowest
    bin.
    """
    edges, pilot = np.asarray(layout["edges"]), np.asarray(layout["pilot"])
    deviation = float(layout["deviation"])
    step = _merged(edges, deviation, trials) if deviation > 0 else 1
    kept = np.arange(0, len(edges), step)
    kept = kept[np.append(True, edges[kept][1:] != edges[kept][:-1])]
    nan_apart = [1] if pilot[:, 0].any() else []
    return np.array([0, *nan_apart, *(kept + 2)], np.int64)


def _merged(edges: HostArray, deviation: float, trials: tuple[int, int]) -> int:
    """Return the number of fine bins that make one of Scott's width."""
    n = 2 / sum(1 / max(1, count) for count in trials)
    # In units of the deviation, so that no power of it overflows.
    roughness = histograms.normal_roughness(1.0)
    width = float(histograms.scott_width(roughness, roughness, n))
    whole = float(edges[-1]) / deviation - float(edges[0]) / deviation
    return max(1, min(FINE, round(width * FINE / whole))) if whole > 0 else 1


def _deviation(scores: Floats) -> float:
    """Return the smaller of the standard deviation and its estimate from the quartiles."""
    largest = float(np.abs(scores).max(initial=0.0))
    if largest == 0:
        return 0.0
    scaled = scores / largest
    low, high = np.quantile(scaled, [0.25, 0.75])
    plain, quartiles = float(scaled.std()), float(high - low) / QUARTILES
    return largest * (min(plain, quartiles) if quartiles > 0 else plain)


class Binned(Estimator):
    """An estimator from the histograms of the scores, in bins of equal width."""

    bins: Annotated[int, Ge(2), Le(MOST_BINS)] | None = None
    """Number of bins, including the two open ones; default: by Scott's rule for these trials."""
    low: float | None = None
    """Lower end of the range; default: from the pilot."""
    high: float | None = None
    """Upper end of the range; default: from the pilot."""

    def check(self) -> None:
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")

    def statistic(self) -> PilotBins:
        return PilotBins(self.bins, self.low, self.high)


POINTS = 200  # points of a profile. With 25 a curve made from it would be up to 0.003 too low
LINES = 400  # points of a profile from which a curve is made here

RATES = np.concatenate([[0.0], np.geomspace(1e-5, 0.1, 9), np.linspace(0.15, 1.0, 18)])
"""False-positive rates at which an estimated curve is given."""


def largest_epsilon(both_sides: Histograms) -> float:
    """Return the largest |ln| of a ratio of two counted frequencies, at least 1."""
    both = (both_sides.p > 0) & (both_sides.q > 0)
    ratios = np.abs(np.log(both_sides.p[both] / both_sides.q[both]))
    return max(1.0, float(ratios.max(initial=0.0)))


def points(x: Floats, y: Floats) -> Points:
    """Return two arrays as pairs of Python floats."""
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


def profile_of(pair: Histograms) -> Points:
    """Return points (ε, δ) of the larger divergence of both directions."""
    epsilons = np.linspace(0.0, largest_epsilon(pair), POINTS)
    return points(epsilons, histograms.privacy_profile(pair.p, pair.q, epsilons))


UNSOUND = (
    "mode paper: not valid at the stated confidence. Both histograms must lie within the radius, "
    "but the error covers only one of them; trade-off points by lemma 7 from a lowered profile "
    "are not an upper bound of the curve"
)


class Histogram(Binned, name="histogram"):
    """The hockey-stick divergence of two histograms [Koskela2024, Algorithm 2].

    Scores are put into bins of equal width, the outermost two open. The point value is the ε at
    which the divergence of the histograms falls to δ, the larger one of both directions.

    In mode "sound", the default, each histogram lies within a radius τ of its true distribution, in
    total variation, at half of the error (lemma 2). A distance in total variation bounds the
    probabilities of all events at once: Q(E) ≤ Q̂(E) + τ_Q and P(E) ≥ P̂(E) − τ_P, so every event
    gives a box. Only unions of the first bins by falling p̂/q̂ matter, because for each ε one of them
    maximises P̂(E) − e^ε Q̂(E). So the bound of these boxes is exactly that of lemma 3,
    sup {ε: H_{e^ε}(P̂‖Q̂) − τ_P − e^ε τ_Q > δ}, in both directions, and a claim δ(·) is rejected if
    the left side exceeds δ(ε) for any ε.

    In mode "paper" the paper's interval is given, without a bound, a p-value or a verdict.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Koskela2024, lemmas 2 and 3, algorithm 2] (arXiv:2406.04827); radius after "
        "[Canonne2020, theorem 1] (arXiv:2002.11457)"
    )

    mode: Literal["sound", "paper"] = "sound"
    """A bound that is valid at finite samples, or the paper's interval."""
    sharp: bool | None = None
    """Use the sharper, one-sided radius; default: in mode "sound"."""

    def certifies_against(self, claim: Claim | None) -> bool:
        return self.mode == "sound"

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        pair = grouped(layout, counts, query.trials)
        if self.mode == "paper":
            return self._of_the_paper(pair, query)

        def boxes(error: float) -> Floats:
            return widened(pair, self.radii(pair, error / 2))

        q_radius, p_radius = self.radii(pair, (1 - query.confidence) / 2)
        estimate = estimate_from_boxes(
            boxes,
            query,
            epsilon=histograms.histogram_epsilon(pair.p, pair.q, query.delta),
            epsilon_upper=np.inf,
            profile=profile_of(pair),
            notes=(
                f"{pair.bins} bins; all of their events within {q_radius:.3g} on D and "
                f"{p_radius:.3g} on D′",
                f"total variation {histograms.total_variation(pair.p, pair.q):.6g}",
            ),
        )
        return estimate._replace(
            tradeoff=tuple(tradeoff.tradeoff_hull(estimate.tradeoff)),
            evidence=self._evidence(pair, query, estimate.epsilon_lower or 0.0),
        )

    def _evidence(self, pair: Histograms, query: Query, bound: float) -> Evidence | None:
        """Return the events with the strongest evidence against the claim and at the bound."""
        if self.sharp is False:
            return None  # the radius of [Canonne2020] is wider than the theorem's
        claim = query.claim
        claimed = [claim.epsilon_at(d) for d in claim.telling_deltas] if claim else []
        finite = [e for e in (bound, *claimed) if e < histograms.LARGEST_EPSILON]
        order = histograms.ratio_order(pair.p, pair.q)
        false, true = (np.append(0, np.cumsum(row[order])) for row in pair.counts)
        n0, n1 = pair.trials.tolist()
        slopes = np.exp([sign * e for e in dict.fromkeys(finite) for sign in (1, -1)])
        best = np.argmax(true / n1 - slopes[:, None] * (false / n0), axis=1)
        terms = {(int(false[j]), n0, int(true[j]), n1, pair.bins) for j in best}
        return Evidence("total-variation", tuple(sorted(terms)))

    def radii(self, pair: Histograms, error: float) -> tuple[float, float]:
        """Return the errors of the histograms on D and on D′, each at this error level."""
        sharp = self.mode == "sound" if self.sharp is None else self.sharp
        radius = histograms.one_sided_radius if sharp else histograms.canonne_radius
        q_radius, p_radius = radius(pair.trials, pair.bins, error).tolist()
        return q_radius, p_radius

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return _events.apart(len(layout["edges"]) + 2, (1, -1), trials)

    def _of_the_paper(self, pair: Histograms, query: Query) -> Estimate:
        """Return the interval of section 4.3: one radius for both, with the whole error."""
        radius = max(self.radii(pair, 1 - query.confidence))

        epsilons = np.linspace(0.0, largest_epsilon(pair), LINES)
        deltas = histograms.privacy_profile(pair.p, pair.q, epsilons)
        lowered = np.maximum(deltas - (1 + np.exp(epsilons)) * radius, 0.0)
        return Estimate(
            epsilon=histograms.histogram_epsilon(pair.p, pair.q, query.delta),
            interval=(epsilon_of(widened(pair, (radius, radius)), query.delta), np.inf),
            tradeoff=points(RATES, tradeoff.tradeoff_of_profile(RATES, epsilons, lowered)),
            profile=profile_of(pair),
            notes=(
                f"{pair.bins} bins; radius {radius:.3g}",
                f"total variation {histograms.total_variation(pair.p, pair.q):.6g}",
                UNSOUND,
            ),
        )


def widened(pair: Histograms, radii: tuple[float, float]) -> Floats:
    """Return the boxes of the best events, shape [k + 1, 2], for histograms within radii.

    In the reverse direction, in which an event speaks for D, its complement has the same box.
    """
    events = histograms.best_events(pair.p, pair.q)
    return np.minimum(np.stack([events.fpr + radii[0], events.fnr + radii[1]], axis=1), 1.0)


class HistogramSplit(Binned, name="histogram-split"):
    """Learns from the pilot's histograms which bins mean D′; bounds ε by the later draws.

    The pilot orders the bins by the ratio of their frequencies. This ratio is a new score, and a
    better one if large scores do not simply mean D′. The pilot chooses a few of the events {ratio
    beyond a threshold}, with their direction and share of the error; the counted draws test them,
    FPR and TPR together (`dpframe.stats.joint`). The bins themselves need no share of the error,
    because only the events are bounded.

    The point value is that of the event that gives the bound.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Kairouz2015, theorem 2.1] (arXiv:1311.0776) for events that the pilot chose; exact "
        "binomial limits [Clopper1934] (doi:10.1093/biomet/26.4.404), of both error rates "
        "together"
    )

    bins: Annotated[int, Ge(2), Le(MOST_BINS)] = 20
    """Number of bins, including the two open ones. With more bins, their order is less certain."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        if not all(query.trials):  # the pilot took the only score
            return estimate_from_boxes(lambda _: np.ones((1, 2)), query, epsilon=0.0)
        pilot, size = _pilot(layout)
        learned = grouped(layout, pilot, size)
        order = rising_ratio(learned)
        taught = learned.counts[:, order]
        # A bin that the pilot never hit has no known ratio, so it joins the one before it.
        starts = np.flatnonzero(taught.sum(axis=0))
        starts[0] = 0
        ordered = np.add.reduceat(grouped(layout, counts, size).counts[:, order], starts, axis=1)
        chosen = choose(np.add.reduceat(taught, starts, axis=1), _events.UP, query, 1.0)
        return _events.estimate_from_events(
            [one.events(ordered) for one in chosen],
            query,
            shown=largest_shown(chosen, ordered, query),
            rates=_events.binned_rates(ordered, _events.UP),
            notes=(f"events of {learned.bins} bins, in the order learned from the pilot",),
        )

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        pilot, size = _pilot(layout)
        order = rising_ratio(grouped(layout, pilot, size))
        bins = first_bins(layout, size)[order]
        return _events.apart(pilot.shape[1], (bins[0], bins[-1]), trials)


def rising_ratio(learned: Histograms) -> Ints:
    """Order bins by rising ratio of their frequencies on D′ and on D.

    Every bin gets one more score on both sides; otherwise a bin with a single score would come
    before all others.
    """
    n0, n1 = learned.trials.tolist()
    more = (learned.counts + 1) / np.array([[n0], [n1]])
    return histograms.ratio_order(more[0], more[1]).astype(np.int64)


def _pilot(layout: Tree) -> tuple[Ints, tuple[int, int]]:
    pilot = np.asarray(layout["pilot"], np.int64)
    return pilot, (int(pilot[0].sum()), int(pilot[1].sum()))
