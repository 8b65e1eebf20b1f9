"""The finding of a search, as the result of its cell."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.claims import Claim
from dpframe.common.text import shown
from dpframe.engine.checks import guarded
from dpframe.engine.estimate import again
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Contrast, Estimate, Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.answer import checked, text
from dpframe.results.build import cell_record, choice_record
from dpframe.results.model import CellRecord, SearchRecord
from dpframe.search.search import least_losses
from dpframe.stats.betting import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.interfaces.attack import Attack
    from dpframe.search.search import Hunt
    from dpframe.search.wealth import Point, Seen


MOST_POINTS = 200
"""Of the growth of the wealth."""

ABOUT = 0.9
"""An event that lies outside of a claim by this share of what another does tells as much."""

SMALLEST = 1e-300
"""Of p-values, as elsewhere."""


def finding(hunt: Hunt, seconds: float) -> CellRecord:
    """Return the record of a cell, with the pair and the event that earned most as its witness.

    Args:
        hunt: one that has come to an end.
        seconds: that it took.
    """
    cell, wealth, error = hunt.cell, hunt.wealth, hunt.error
    if not hunt.has_bet:
        what = "time" if hunt.ended_by_time else "trials"
        raise CellError(f"nothing could be bet on: more {what}, or a smaller neighbourhood")
    arm = hunt.witness()
    number, loss = most_telling(arm.seen, cell.delta, hunt.settings.resolution_of(cell))
    if hunt.is_refuted() and (clear := clearest(arm.seen, arm.points)) is not None:
        number = clear
    place, told, scores, side = arm.event(number, hunt.settings.source.words)
    (multiplied, other) = events(*arm.seen)[number]
    hits = (int(multiplied), int(other)) if side else (int(other), int(multiplied))
    n = arm.seen.trials
    mechanism: Any = arm.mechanism
    truth = guarded("truth", lambda: mechanism.truth(arm.pair))
    if not isinstance(truth, Claim | None):
        raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")
    bound = wealth.bound(error, hunt.arms.index(arm)) * arm.scale
    found = dataclasses.replace(hunt.maker.of(arm.pair, mechanism, place), claim=arm.claim)
    assert cell.search is not None
    event = told or f"{found.attack.label} {scores}"
    witness = SearchRecord(
        neighbourhood=choice_record(cell.search.neighbourhood),
        attacks=[text(attack.label) for attack in cell.search.attacks],
        pairs=len(hunt.arms),
        event=text(event),
        more_likely="D′" if side else "D",
        hits=list(hits),
        trials=[n, n],
        pair_trials=arm.trials,
    )
    trials, resolution = (hunt.drawn, hunt.drawn), hunt.settings.resolution_of(cell)
    query = Query(trials, cell.delta, 1 - error, arm.claim, resolution)
    tested = arm.claim is not None
    p_value = max(math.exp(-wealth.best), SMALLEST) if tested else None
    claimed = arm.claim.epsilon_at(cell.delta) if arm.claim is not None else math.inf
    estimate = Estimate(
        epsilon=max(bound, loss),
        epsilon_lower=bound,
        epsilon_upper=math.inf,
        p_value=p_value,
        p_resolved=p_value,
        contrast=Contrast(cell.delta, bound, claimed) if math.isfinite(claimed) else None,
        notes=_notes(hunt, witness, found.attack.value),
        wealth=_thinned(wealth.history) if tested else (),
    )
    extreme = None
    if tested:
        most = max(math.exp(-wealth.most), SMALLEST)
        extreme = estimate._replace(p_value=most, p_resolved=most)
    return cell_record(
        found,
        counts=[[n - hits[0], hits[0]], [n - hits[1], hits[1]]],
        trials=trials,
        statistic={"name": "Witness", "event": event},
        estimate=checked(estimate, certified=True, tested=tested),
        certified=True,
        query=query,
        truth=truth,
        extreme=extreme,
        draw_group=arm.group,
        looks=hunt.settings.looks_of(cell),
        data=arm.data,
        seconds=seconds,
        search=witness,
        exact=hunt.sensitivity.found,
    )


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Some of them, the last included; as many as a record holds."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    kept = np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)
    return tuple(points[place] for place in kept)


def clearest(seen: Seen, points: Sequence[Point]) -> int | None:
    """The first event that lies about as far outside of a claim as any; None where none does.

    Args:
        seen: of one pair.
        points: of the claim.

    Returns:
        Its number. Attacks come in the order in which the spec has them, the plainest first.
    """
    shares = (events(*seen) + 0.5) / (seen.trials + 1)
    q, p = shares.T
    zs = [
        (p - math.exp(e) * q - d) / np.sqrt(math.exp(2 * e) * q * (1 - q) + p * (1 - p))
        for e, d in points
    ]
    if not zs or not len(q):
        return None
    best = np.max(zs, axis=0)
    if best.max() <= 0:
        return None
    cuts = seen.above.shape[1]
    near = np.flatnonzero(best >= ABOUT * best.max())
    return int(min(near, key=lambda number: (number % cuts, number)))


def most_telling(seen: Seen, delta: float, resolution: float = 0.0) -> tuple[int, float]:
    """The event that shows the largest loss, less two standard errors of its logarithm.

    The event that lies farthest outside of a true claim is but the luckiest: a few draws on one
    side, and none on the other.

    Args:
        seen: of one pair.
        delta: δ of the loss.
        resolution: what the sampler does not resolve of either probability.

    Returns:
        Its number, and the loss that its shares show.
    """
    loss, least = least_losses(seen, delta, resolution)
    number = int(np.argmax(least))
    return number, float(max(0.0, loss[number]))


def _notes(hunt: Hunt, witness: SearchRecord, attack: Attack) -> tuple[str, ...]:
    told = hunt.witness().pair.description
    on_pair = f"on the pair “{told}” " if told else ""
    notes = [
        f"searched {witness.pairs} {'pair' if witness.pairs == 1 else 'pairs'}; most was earned "
        f"{on_pair}by "
        f"the event “{witness.event}”, which is the more likely on {witness.more_likely}: "
        f"{witness.hits[1]:,} of {witness.trials[1]:,} on D′, {witness.hits[0]:,} of "
        f"{witness.trials[0]:,} on D",
    ]
    if hunt.is_refuted() and (observer := guarded("observer", lambda: attack.observer)):
        notes.append(f"the event is for an observer who {observer}: others do not see it")
    elif isinstance(hunt.search.mechanism.value, HostMechanism) and not hunt.search.mechanism.bits:
        notes.append("the last bits of floats were not looked at (outputs.bits = true looks)")
    notes += again(hunt.settings.looks_of(hunt.cell))
    if hunt.ended_by_time:
        notes.append(
            f"ended by the time budget after {hunt.drawn:,} of {hunt.cell.trials:,} trials"
        )
    return tuple(notes)
