"""Events that a histogram of the pilot teaches, tested on the draws that are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dpframe import Estimate, Ge, Le, Query, estimate_from_boxes
from dpframe.builtin.estimators.events.certificate import (
    binned_rates,
    estimate_from_events,
    largest_shown,
)
from dpframe.builtin.estimators.events.choice import choose
from dpframe.builtin.estimators.events.ladder import UP
from dpframe.builtin.estimators.histogram._binned import Binned
from dpframe.builtin.estimators.histogram._bins import (
    MOST_BINS,
    Histograms,
    first_bins,
    grouped,
)
from dpframe.stats.hockeystick import ratio_order

if TYPE_CHECKING:
    from dpframe import Ints, Tree


class HistogramSplit(Binned, name="histogram-split"):
    """Learns from the pilot's histograms which bins say D′; bounds ε by what is counted after.

    The pilot orders the bins by the ratio of their frequencies. That makes a new score of the old
    one, and where large scores do not simply mean D′, a better one. Of the events {ratio beyond a
    threshold} the pilot chooses a few, with their direction and the share of the error that each
    gets; the draws that are counted test them, FPR and TPR together (`dpframe.stats.joint`). The
    histogram itself is never bounded, so its bins cost nothing: what is paid for are the events.

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
    """How many, the two open ones included. With more, their order is less certain."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        if not all(query.trials):  # the pilot took the only score
            return estimate_from_boxes(lambda _: np.ones((1, 2)), query, epsilon=0.0)
        pilot, size = _pilot(layout)
        learned = grouped(layout, pilot, size)
        order = rising_ratio(learned)
        taught = learned.counts[:, order]
        # A bin that the pilot never met teaches nothing: it goes with the one before it.
        starts = np.flatnonzero(taught.sum(axis=0))
        starts[0] = 0
        ordered = np.add.reduceat(grouped(layout, counts, size).counts[:, order], starts, axis=1)
        chosen = choose(np.add.reduceat(taught, starts, axis=1), UP, query, 1.0)
        return estimate_from_events(
            [one.events(one.family.bins(ordered)) for one in chosen],
            query,
            shown=largest_shown(chosen, ordered, query),
            rates=binned_rates(ordered, UP),
            notes=(f"events of {learned.bins} bins, in the order that the pilot taught",),
        )

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        pilot, size = _pilot(layout)
        order = rising_ratio(grouped(layout, pilot, size))
        bins = first_bins(layout, size)
        counts = np.zeros(pilot.shape, np.int64)
        counts[0, bins[order[0]]], counts[1, bins[order[-1]]] = trials
        return counts


def rising_ratio(learned: Histograms) -> Ints:
    """Bins by rising ratio of their frequencies on D′ and on D.

    One more score counts in every bin on both sides: otherwise a bin with a single score would
    stand before all others.
    """
    n0, n1 = learned.trials.tolist()
    more = (learned.counts + 1) / np.array([[n0], [n1]])
    order: Ints = ratio_order(more[0], more[1]).astype(np.int64)
    return order


def _pilot(layout: Tree) -> tuple[Ints, tuple[int, int]]:
    pilot = np.asarray(layout["pilot"], np.int64)
    return pilot, (int(pilot[0].sum()), int(pilot[1].sum()))
