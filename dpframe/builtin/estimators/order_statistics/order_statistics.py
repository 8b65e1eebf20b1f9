"""The default estimator: thresholds at order statistics, with exact limits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpframe import Estimate, Estimator, Query, Statistic, estimate_from_boxes
from dpframe.builtin.estimators.events.certificate import (
    Shown,
    binned_rates,
    estimate_from_events,
    largest_shown,
)
from dpframe.builtin.estimators.events.choice import choose
from dpframe.builtin.estimators.events.grid import PilotGrid
from dpframe.builtin.estimators.events.ladder import DOWN, UP, Family, geometric
from dpframe.builtin.estimators.order_statistics._exposure import exposure_note
from dpframe.builtin.estimators.order_statistics._raw import ascending, rank_counts, raw_events

if TYPE_CHECKING:
    from dpframe import HostArray, Ints, Tree

LADDER_SHARE = 0.1
"""Share of the error that goes to the ranks 1, 3, 9, … where a pilot has chosen events."""

REVERSED_SHARE = 0.1
"""Share of the error for an attack whose scores run the wrong way round."""


class OrderStatistics(Estimator, name="order-statistics"):
    """Bounds by events beyond order statistics of the scores; valid at finite samples, untuned.

    The r-th largest of n scores on D is a threshold that a new score on D exceeds with a
    probability of exactly known distribution, Beta(r, n + 1 − r), whatever the scores are (ties
    only lower it). So no threshold is chosen, and no draw is lost for it. Each event gets a share
    of the error, and within it FPR and TPR are tested together (`dpframe.stats.joint`).

    In a run, scores are rounded to a grid that the pilot fixes. The pilot also chooses the end of
    the scores, the direction and the rank; a tenth of the error stays with the ranks 1, 3, 9, …
    where many scores are tied, events are fixed thresholds instead, and their counts are
    binomial. On raw scores, without a pilot, all of the error goes to ranks, but for a tenth to
    fixed thresholds in case the scores turn out to be discrete.

    Assumes nothing but independent, identically distributed outputs. The point value is that of
    the event that gives the bound.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Kairouz2015, theorem 2.1] (arXiv:1311.0776) for events beyond order statistics, whose "
        "probabilities are Beta; exact binomial limits [Clopper1934] "
        "(doi:10.1093/biomet/26.4.404), of both error rates together"
    )

    direction: Literal["either", "up", "down"] = "either"
    """Whether larger scores mean D′ ("up", as attacks should have it), D, or may mean either."""

    def statistic(self) -> Statistic:
        return PilotGrid()

    def families(self) -> tuple[tuple[Family, float], ...]:
        """Ends of the scores with what they say, and the share of the error of each."""
        shares = {"up": (1.0, 0.0), "down": (0.0, 1.0)}.get(
            self.direction, (1 - REVERSED_SHARE, REVERSED_SHARE)
        )
        return tuple(
            (family, share / 2)
            for kind, share in zip((UP, DOWN), shares, strict=True)
            for family in kind
            if share
        )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        if 0 in query.trials:
            return estimate_from_boxes(lambda _: np.ones((1, 2)), query, epsilon=0.0)
        pilot = np.asarray(layout["pilot"], np.int64)
        shares = self.families()
        families = [family for family, _ in shares]
        chosen = choose(pilot, families, query, 1 - LADDER_SHARE)
        events = [one.events(one.family.bins(counts)) for one in chosen]
        events += [geometric(f.bins(counts), LADDER_SHARE * share) for f, share in shares]
        return estimate_from_events(
            events,
            query,
            shown=largest_shown(chosen, counts, query, np.asarray(layout["edges"])),
            rates=binned_rates(counts, families),
            notes=(exposure_note(counts, query.delta),),
        )

    def estimate_scores(
        self, scores: tuple[HostArray, HostArray], query: Query, rng: np.random.Generator
    ) -> Estimate:
        values = (ascending(scores[0]), ascending(scores[1]))
        events = raw_events(values, self.families(), query, rng)
        rates = np.concatenate([np.stack([part.fpr, part.tpr], axis=1) for part in events])
        return estimate_from_events(
            events,
            query,
            shown=Shown(math.inf, "chosen thresholds"),
            rates=rates,
            notes=(exposure_note(rank_counts(values), query.delta),),
        )

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        pilot = np.asarray(layout["pilot"], np.int64)
        bins = pilot.shape[1]
        means = pilot @ np.arange(bins) / pilot.sum(axis=1)
        rising = self.direction == "up" or (self.direction == "either" and means[1] >= means[0])
        counts = np.zeros((2, bins), np.int64)
        counts[1, -1 if rising else 0], counts[0, 0 if rising else -1] = trials[1], trials[0]
        return counts
