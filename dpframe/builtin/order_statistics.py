"""Thresholds at order statistics, the default estimator; and the estimate of the DPText paper."""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dpframe.builtin import events as _events
from dpframe.builtin.columns import tallied
from dpframe.builtin.event_choice import choose, largest_shown
from dpframe.builtin.threshold import Decisions, bounded
from dpframe.plugins import (
    DecisionCounts,
    Estimate,
    Estimator,
    Floats,
    HostArray,
    Ints,
    Query,
    Tree,
    estimate_from_boxes,
)
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper
from dpframe.stats.exact_test import is_enumerable
from dpframe.stats.histograms import bin_counts
from dpframe.stats.one_run import binned_exposures, exposure_epsilon


def exposure_note(counts: npt.ArrayLike, delta: float = 0.0) -> str:
    """Describe the median and mean exposure of the scores on D′ among those on D in one line.

    [Carlini2019]; the loss at δ beside it is that of [Jagielski2023]. Counts of ascending bins,
    shape [2, bins], at least one on each side.
    """
    most = math.log2(np.asarray(counts, np.float64)[0].sum())
    exposures, weights = binned_exposures(counts)
    middle = int(np.searchsorted(np.cumsum(weights), weights.sum() / 2))
    median, mean = float(exposures[middle]), float(exposures @ weights / weights.sum())
    return (
        f"exposure of D′ among D: median {median:.3g} bits, mean {mean:.3g}, of at most "
        f"{most:.3g} (1 and 1.44 by chance); the median corresponds to "
        f"ε = {exposure_epsilon(median, delta):.3g} at δ = {delta:.3g}, an estimate"
    )


Shares = tuple[tuple[_events.Family, float], ...]

DISCRETE_SHARE = 0.1
"""Share of the error that is kept for fixed thresholds, in case the scores are discrete."""

PILOT_SHARE = 0.1
"""Share of the scores that decides if they are discrete; fixed thresholds do not count it."""

BINS = 512  # order statistics between which scores are counted for their exposure
FEWEST = 100  # with fewer scores nothing is kept for fixed thresholds


def raw_events(
    scores: tuple[HostArray, HostArray], families: Shares, query: Query, rng: np.random.Generator
) -> list[_events.Events]:
    """Return events beyond ranks of all scores, and fixed ones if the scores are discrete.

    A few scores choose the fixed events. Both kinds are valid at their own share of the error, so
    the scores may also decide if there are fixed events.
    """
    small = min(len(values) for values in scores) < FEWEST
    kept = 0.0 if small else DISCRETE_SHARE
    _, counts = tallied(scores)
    ranked = [_events.geometric(f.bins(counts), (1 - kept) * share) for f, share in families]
    if small:
        return ranked
    return ranked + _fixed_events(scores, [family for family, _ in families], query, kept, rng)


def _fixed_events(
    scores: tuple[HostArray, HostArray],
    families: Sequence[_events.Family],
    query: Query,
    share: float,
    rng: np.random.Generator,
) -> list[_events.Events]:
    parts = [_split(values, rng) for values in scores]
    pilots, rest = (tuple(part[n] for part in parts) for n in (0, 1))
    if len(_events.distinct(*pilots)) > _events.DISTINCT:
        return []
    edges = _events.grid(*pilots)
    pilot, counts = (np.stack([bin_counts(edges, s) for s in group]) for group in (pilots, rest))
    query = query._replace(trials=(len(rest[0]), len(rest[1])))
    exact = is_enumerable(*query.trials)
    chosen = choose(pilot.astype(np.int64), families, query, share, exact=exact)
    return [one.events(counts) for one in chosen]


def _split(values: HostArray, rng: np.random.Generator) -> tuple[HostArray, HostArray]:
    """Draw a random part, because the scores are sorted; return it and the rest."""
    chosen = np.zeros(len(values), bool)
    chosen[rng.choice(len(values), int(len(values) * PILOT_SHARE), replace=False)] = True
    return values[chosen], values[~chosen]


def rank_counts(scores: tuple[HostArray, HostArray]) -> HostArray:
    """Count scores between order statistics of those on D, dense at the top; shape [2, bins]."""
    ranks = np.geomspace(1, len(scores[0]), BINS).astype(np.int64)
    edges = np.unique(scores[0][len(scores[0]) - ranks])
    cuts = [np.searchsorted(values, edges) for values in scores]
    return np.stack(
        [np.diff([0, *cut, len(values)]) for cut, values in zip(cuts, scores, strict=True)]
    )


def ascending(scores: HostArray) -> HostArray:
    """Sort scores as float64, with NaN as −inf, an atom below everything else.

    −inf becomes the least finite number, so that NaN stays below it.
    """
    values = np.array(scores, np.float64)
    values[values == -np.inf] = np.finfo(np.float64).min
    values[np.isnan(values)] = -np.inf
    values.sort()
    return values


LADDER_SHARE = 0.1
"""Share of the error for the ranks 1, 3, 9, …, if a pilot has chosen events."""

REVERSED_SHARE = 0.1  # share of the error for an attack whose scores run the wrong way round


class OrderStatistics(Estimator, name="order-statistics"):
    """Bounds by events beyond order statistics of the scores; valid at finite samples, untuned.

    The r-th largest of n scores on D is a threshold that a new score on D exceeds with a
    probability of exactly known distribution, Beta(r, n + 1 − r), whatever the scores are (ties
    only lower it). So no threshold is chosen, and no draw is lost for it. Each event gets a share
    of the error, and within it FPR and TPR are tested together (`dpframe.stats.joint`).

    In a run, scores are rounded to a grid that the pilot fixes. The pilot also chooses the end of
    the scores, the direction and the rank; a tenth of the error stays with the ranks 1, 3, 9, ….
    If many scores are tied, events are fixed thresholds instead, whose counts are binomial. On raw
    scores, without a pilot, ranks get nine tenths of the error, and fixed thresholds get one tenth
    in case the scores are discrete. With up to 1,000 trials on each side, nearly all that fixed
    thresholds and the chosen rank get goes to one threshold whose rates are tested together exactly
    (`dpframe.stats.exact_test`), unless its event is too rare for the pilot to choose it.

    The only assumption is that outputs are independent and identically distributed. The point value
    is that of the event that gives the bound.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Kairouz2015, theorem 2.1] (arXiv:1311.0776) for events beyond order statistics, whose "
        "probabilities are Beta; exact binomial limits [Clopper1934] "
        "(doi:10.1093/biomet/26.4.404), of both error rates together; up to 1,000 trials an "
        "unconditional exact test [Boschloo1970] (doi:10.1111/j.1467-9574.1970.tb00104.x)"
    )

    direction: Literal["either", "up", "down"] = "either"
    """Larger scores mean D′ ("up", the convention for attacks), D ("down"), or either."""

    def statistic(self) -> _events.PilotGrid:
        return _events.PilotGrid()

    def families(self) -> tuple[tuple[_events.Family, float], ...]:
        """Return the families of events with their shares of the error."""
        shares = {"up": (1.0, 0.0), "down": (0.0, 1.0)}.get(
            self.direction, (1 - REVERSED_SHARE, REVERSED_SHARE)
        )
        return tuple(
            (family, share / 2)
            for kind, share in zip((_events.UP, _events.DOWN), shares, strict=True)
            for family in kind
            if share
        )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        if 0 in query.trials:
            return estimate_from_boxes(lambda _: np.ones((1, 2)), query, epsilon=0.0)
        pilot = np.asarray(layout["pilot"], np.int64)
        shares = self.families()
        families = [family for family, _ in shares]
        exact = is_enumerable(*query.trials)
        chosen = choose(pilot, families, query, 1 - LADDER_SHARE, exact=exact)
        events = [one.events(counts) for one in chosen]
        events += [_events.geometric(f.bins(counts), LADDER_SHARE * share) for f, share in shares]
        return _events.estimate_from_events(
            events,
            query,
            shown=largest_shown(chosen, counts, query, np.asarray(layout["edges"])),
            rates=_events.binned_rates(counts, families),
            notes=(exposure_note(counts, query.delta),),
        )

    def estimate_scores(
        self, scores: tuple[HostArray, HostArray], query: Query, rng: np.random.Generator
    ) -> Estimate:
        values = (ascending(scores[0]), ascending(scores[1]))
        events = raw_events(values, self.families(), query, rng)
        rates = np.concatenate([np.stack([part.fpr, part.tpr], axis=1) for part in events])
        return _events.estimate_from_events(
            events,
            query,
            shown=_events.Shown(math.inf, "chosen thresholds"),
            rates=rates,
            notes=(exposure_note(rank_counts(values), query.delta),),
        )

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        pilot = np.asarray(layout["pilot"], np.int64)
        bins = pilot.shape[1]
        means = pilot @ np.arange(bins) / pilot.sum(axis=1)
        rising = self.direction == "up" or (self.direction == "either" and means[1] >= means[0])
        return _events.apart(bins, (0, -1) if rising else (-1, 0), trials)


LIMITS_OF_RATES = 4
"""One-sided limits that share the error: lower and upper of Pr[1|D] and of Pr[1|D′]."""


class Precision(Estimator, name="precision"):
    """Compares the precision of the attack's two guesses [Habernal2022, section 4].

    With r and r′ the rates at which the attack decides D′ on D and on D′, the point value is the
    largest |ln(Pr[D | guess] / Pr[D′ | guess])|, that is of |ln(r/r′)| and |ln((1−r)/(1−r′))|; it
    is inf when a guess occurs on one side only. The bound holds for both guesses and both
    directions at once. With up to 1,000 trials on each side it comes from an exact test of both
    rates together; with more, from four one-sided Clopper-Pearson limits, each at a quarter of the
    error. With δ > 0 the ratios are (r − δ)/r′ and their like.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Habernal2022, section 4] (arXiv:2202.12138) for the point value; an unconditional exact "
        "test [Boschloo1970] (doi:10.1111/j.1467-9574.1970.tb00104.x) or exact binomial limits "
        "[Clopper1934] (doi:10.1093/biomet/26.4.404)"
    )

    def statistic(self) -> DecisionCounts:
        return DecisionCounts()

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        zeros, ones = counts[:, 0], counts[:, 1]
        trials = counts.sum(axis=1)
        at_level = (1 - query.confidence) / LIMITS_OF_RATES

        # Decisions as the attack makes them, and reversed.
        errors = np.array([[ones[0], zeros[1]], [zeros[0], ones[1]]])
        guesses = np.stack([zeros, ones])
        low = clopper_pearson_lower(guesses, trials, at_level)
        high = clopper_pearson_upper(guesses, trials, at_level)
        rates = guesses / np.maximum(trials, 1)
        return bounded(
            [Decisions(each, trials) for each in errors],
            query,
            exact=is_enumerable(*trials.tolist()),
            epsilon=largest_loss(rates, rates, query.delta),
            epsilon_upper=largest_loss(high, low, query.delta),
            epsilon_upper_of="every event",
        )

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return _events.apart(2, (0, 1), trials)


def largest_loss(numerators: Floats, denominators: Floats, delta: float) -> float:
    """Return the largest ln((Pr[guess|one] − δ)/Pr[guess|other]) over both guesses and directions.

    Numerators and denominators have shape [guess, dataset]. The result is at least 0; inf if a
    guess occurs on one dataset and never on the other.
    """
    return max(
        _events.epsilon_at(denominators[guess, 1 - dataset], numerators[guess, dataset], delta)
        for guess in (0, 1)
        for dataset in (0, 1)
    )
