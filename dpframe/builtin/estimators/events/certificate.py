"""From events with their counts to an estimate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe import Estimate, Query, Share, epsilon_of, estimate_from_boxes
from dpframe.builtin.estimators.events.ladder import joined
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Floats, Ints
    from dpframe.builtin.estimators.events.choice import Chosen
    from dpframe.builtin.estimators.events.ladder import Events, Family

KEPT = 3
"""Events whose p-value is computed: those that say most. More would change it little."""

POINTS = 25
"""Points of a privacy profile."""


def estimate_from_events(
    parts: Sequence[Events],
    query: Query,
    *,
    epsilon_upper: float,
    rates: Floats,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Builds a certified estimate.

    Args:
        parts: events whose shares of the error sum to at most 1.
        query: what is asked.
        epsilon_upper: what the attack can show at most.
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
        epsilon_upper=max(epsilon_upper, float(said.max())),
        profile=profile(rates),
        notes=(f"the error is shared among {len(said)} events", *notes),
    )
    boxes = at_level.max(axis=1)
    shares = zip(events.share.tolist(), said.tolist(), strict=True)
    return found._replace(
        tradeoff=tuple((float(x), float(y)) for x, y in boxes),
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


def largest_shown(chosen: Sequence[Chosen], counts: Ints, query: Query) -> float:
    """Upper limit of the loss that the pilot's cuts show, both as they are and turned round."""
    error = (1 - query.confidence) / (4 * len(chosen))
    found = [0.0]
    for one in chosen:
        ladder = one.family.bins(counts)
        false, true = ladder.false[one.cut], ladder.true[one.cut]
        n, n_true = ladder.trials_false, ladder.trials_true
        lows = clopper_pearson_lower([false, true], [n, n_true], error)
        highs = clopper_pearson_upper([false, true], [n, n_true], error)
        found.append(loss_of(float(lows[0]), float(highs[1]), query.delta))
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
