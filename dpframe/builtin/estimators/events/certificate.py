"""From events with their counts to an estimate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe import Estimate, Query, Share, epsilon_of, estimate_from_boxes
from dpframe.builtin.estimators.events.every_cut import every_cut_shows, possible
from dpframe.builtin.estimators.events.ladder import joined
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper
from dpframe.stats.certified_profile import certified_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Floats, HostArray, Ints, UpperOf
    from dpframe.builtin.estimators.events.choice import Chosen
    from dpframe.builtin.estimators.events.ladder import Events, Family

TELLING = 1.0
"""How far the limit of every cut may lie above that of the chosen thresholds. Beyond it, it says
how few rare scores were counted rather than what the attack shows."""

KEPT = 3
"""Events whose p-value is computed: those that say most. More would change it little."""

POINTS = 25
"""Points of a privacy profile."""


class Shown(NamedTuple):
    """What an attack can show at most, and what of it was limited."""

    epsilon: float
    of: UpperOf


def estimate_from_events(
    parts: Sequence[Events],
    query: Query,
    *,
    shown: Shown,
    rates: Floats,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Builds a certified estimate.

    Args:
        parts: events whose shares of the error sum to at most 1.
        query: what is asked.
        shown: what the attack can show at most.
        rates: estimated (FPR, TPR) of many events, shape [k, 2], for the privacy profile.
        notes: remarks for the record.
    """
    events = joined(parts)
    at_level = events.staircases(1 - query.confidence)
    said = np.array([epsilon_of(one[None], query.delta) for one in at_level])
    best = int(said.argmax())
    if said[best] == 0:  # nothing is certified: the point value of what comes closest
        loose = events.staircases(1.0)
        best = int(np.argmax([epsilon_of(one[None], query.delta) for one in loose]))
    loudest = set(np.argsort(-said, kind="stable")[:KEPT].tolist())
    if query.claim is not None:
        corners = np.clip(at_level, 0, 1)
        gaps = query.claim.tradeoff(corners[..., 0]) - corners[..., 1]
        loudest |= set(np.argsort(-gaps.min(axis=1), kind="stable")[:KEPT].tolist())
    kept = events.only(sorted(loudest))
    found = estimate_from_boxes(
        kept.staircases,
        query,
        epsilon=loss_of(events.fpr[best], events.tpr[best], query.delta),
        epsilon_upper=max(shown.epsilon, float(said.max())),
        epsilon_upper_of=shown.of,
        profile=profile(rates),
        notes=(f"the error is shared among {len(said)} events", *notes),
    )
    boxes = at_level.max(axis=1)
    shares = zip(events.share.tolist(), said.tolist(), strict=True)
    return found._replace(
        tradeoff=tuple((float(x), float(y)) for x, y in boxes),
        profile_lower=certified_profile(at_level),
        shares=tuple(Share(share, lower) for share, lower in shares),
    )


def epsilon_at(fpr: float, tpr: float, delta: float) -> float:
    """max{0, ln((TPR − δ)/FPR)}, the loss that an event shows; inf if it never happens falsely."""
    if tpr <= delta:
        return 0.0
    return max(0.0, math.log((tpr - delta) / fpr)) if fpr > 0 else math.inf


def loss_of(fpr: float, tpr: float, delta: float) -> float:
    """The loss that an event or its complement shows."""
    return max(epsilon_at(fpr, tpr, delta), epsilon_at(1 - tpr, 1 - fpr, delta))


def largest_shown(
    chosen: Sequence[Chosen], counts: Ints, query: Query, edges: HostArray | None = None
) -> Shown:
    """Upper limit of the loss of every cut of the score, or else of the cuts that a pilot chose.

    The first is tried only if there are enough trials for it whatever is counted; then each has
    half of the error. Both hold together at the confidence, so it does not matter that the counts
    decide which of the two is said.

    Args:
        chosen: cuts that the pilot chose.
        counts: shape [2, bins].
        query: what is asked.
        edges: between the bins; None if the bins are not in the order of the score.
    """
    error = 1 - query.confidence
    half = error / 2
    if edges is None or not possible(query.trials, query.delta, half):
        return Shown(_of_chosen(chosen, counts, query.delta, error), "chosen thresholds")
    some = _of_chosen(chosen, counts, query.delta, half)
    every = every_cut_shows(counts, edges, query.delta, half)
    if every <= some + TELLING:
        return Shown(every, "every cut")
    return Shown(some, "chosen thresholds")


def _of_chosen(chosen: Sequence[Chosen], counts: Ints, delta: float, error: float) -> float:
    """Upper limit of the loss that cuts show, whichever dataset they say."""
    each = error / 2  # of the best cut alone: see `every_cut`
    found = [0.0]
    for one in chosen:
        ladder = one.family.bins(counts)
        false, true = ladder.false[one.cut], ladder.true[one.cut]
        n, n_true = ladder.trials_false, ladder.trials_true
        lows = clopper_pearson_lower([false, true], [n, n_true], each).tolist()
        highs = clopper_pearson_upper([false, true], [n, n_true], each).tolist()
        found += [loss_of(lows[0], highs[1], delta), loss_of(lows[1], highs[0], delta)]
    return max(found)


def binned_rates(counts: Ints, families: Sequence[Family]) -> Floats:
    """Estimated (FPR, TPR) of every cut of every family, shape [k, 2]."""
    found = []
    for family in families:
        ladder = family.bins(counts)
        found.append([ladder.false / ladder.trials_false, ladder.true / ladder.trials_true])
    return np.concatenate(found, axis=1).T


def profile(rates: Floats) -> tuple[tuple[float, float], ...]:
    """Estimated δ(ε) = max over events of TPR − e^ε FPR, biased upwards by the maximum.

    The ε run from 0 to where the estimate, at events seen at least once falsely, has fallen to 0.
    """
    seen = (rates[:, 0] > 0) & (rates[:, 1] > 0)
    largest = max(1.0, float(np.log(rates[seen, 1] / rates[seen, 0]).max(initial=0.0)))
    epsilons = np.linspace(0, largest, POINTS)
    deltas = (rates[:, 1] - np.exp(epsilons)[:, None] * rates[:, 0]).max(axis=1)
    return tuple((float(e), float(d)) for e, d in zip(epsilons, np.maximum(deltas, 0), strict=True))
