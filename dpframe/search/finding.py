"""The finding of a search, as the result of its cell."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpframe.claims import Claim
from dpframe.common.text import shown
from dpframe.engine.estimate import again
from dpframe.errors import CellError
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.checks import guarded
from dpframe.interfaces.estimator import Contrast, Estimate, Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.answer import checked
from dpframe.results.build import cell_record, choice_record
from dpframe.results.model import CellRecord, SearchRecord
from dpframe.results.plain import text
from dpframe.search.search import SearchRun, least_losses
from dpframe.search.wealth import Point, Seen
from dpframe.stats.betting import events

MOST_POINTS = 200  # points of the wealth's history in a record, at most
ABOUT = 0.9  # share of the largest distance from a claim at which an event tells as much
SMALLEST = 1e-300  # smallest p-value in a record


def finding(search: SearchRun, seconds: float) -> CellRecord:
    """Return the record of a cell, with the pair and the event that earned most as its witness.

    Args:
        search: a search that has ended.
        seconds: its duration.
    """
    cell, wealth, error = search.cell, search.wealth, search.error
    if not search.has_bet:
        what = "time" if search.ended_by_time else "trials"
        raise CellError(f"nothing could be bet on: more {what}, or a smaller neighbourhood")
    arm = search.witness()
    number, loss = most_telling(arm.seen, cell.delta, search.settings.resolution_of(cell))
    if search.is_refuted() and (clear := clearest(arm.seen, arm.points)) is not None:
        number = clear
    place, told, scores, side = arm.event(number, search.settings.source.words)
    (multiplied, other) = events(*arm.seen)[number]
    hits = (int(multiplied), int(other)) if side else (int(other), int(multiplied))
    n = arm.seen.trials
    mechanism: Any = arm.mechanism
    truth = guarded("truth", lambda: mechanism.truth(arm.pair))
    if not isinstance(truth, Claim | None):
        raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")
    bound = wealth.bound(error, search.arms.index(arm)) * arm.scale
    claimed = math.inf if arm.claim is None else arm.claim.epsilon_at(cell.delta)
    if not search.is_refuted():
        # Bounds and the verdict have budgets of their own, and a bound above a claim rejects it.
        bound = min(bound, claimed)
    found = dataclasses.replace(search.maker.of(arm.pair, mechanism, place), claim=arm.claim)
    assert cell.search is not None
    event = told or f"{found.attack.label} {scores}"
    witness = SearchRecord(
        neighbourhood=choice_record(cell.search.neighbourhood),
        attacks=[text(attack.label) for attack in cell.search.attacks],
        pairs=len(search.arms),
        event=text(event),
        more_likely="D′" if side else "D",
        hits=list(hits),
        trials=[n, n],
        pair_trials=arm.trials,
    )
    trials, resolution = (search.drawn, search.drawn), search.settings.resolution_of(cell)
    query = Query(trials, cell.delta, 1 - error, arm.claim, resolution)
    tested = arm.claim is not None
    p_value = max(math.exp(-wealth.best), SMALLEST) if tested else None
    estimate = Estimate(
        epsilon=max(bound, loss),
        epsilon_lower=bound,
        epsilon_upper=math.inf,
        p_value=p_value,
        p_resolved=p_value,
        contrast=Contrast(cell.delta, bound, claimed) if math.isfinite(claimed) else None,
        notes=_notes(search, witness, found.attack.value),
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
        exceptions=arm.exceptions,
        statistic={"name": "Witness", "event": event},
        estimate=checked(estimate, certified=True, tested=tested),
        certified=True,
        query=query,
        truth=truth,
        extreme=extreme,
        draw_group=arm.group,
        looks=search.settings.looks_of(cell),
        data=arm.data,
        seconds=seconds,
        search=witness,
        exact=search.sensitivity.found,
    )


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Keep as many points as a record holds, the last included."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    kept = np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)
    return tuple(points[place] for place in kept)


def clearest(seen: Seen, points: Sequence[Point]) -> int | None:
    """Return the number of the first event about as far outside of a claim as any; None if none is.

    Attacks come in the order of the spec, the plainest first.

    Args:
        seen: counts of one pair.
        points: of the claim.
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
    """Return the event with the largest loss less two standard errors of its logarithm.

    Without these the luckiest event would win: a few draws on one side, none on the other.

    Args:
        seen: counts of one pair.
        delta: δ of the loss.
        resolution: of the sampler: the error of either probability.

    Returns:
        Its number, and the loss that its counts show.
    """
    loss, least = least_losses(seen, delta, resolution)
    number = int(np.argmax(least))
    return number, float(max(0.0, loss[number]))


def _notes(search: SearchRun, witness: SearchRecord, attack: Attack) -> tuple[str, ...]:
    told = search.witness().pair.description
    on_pair = f"on the pair “{told}” " if told else ""
    box = search.search.mechanism
    notes = [
        f"searched {witness.pairs} {'pair' if witness.pairs == 1 else 'pairs'}; most was earned "
        f"{on_pair}by the event “{witness.event}”, which is the more likely on "
        f"{witness.more_likely}: {witness.hits[1]:,} of {witness.trials[1]:,} on D′, "
        f"{witness.hits[0]:,} of {witness.trials[0]:,} on D",
    ]
    if search.is_refuted() and (observer := guarded("observer", lambda: attack.observer)):
        notes.append(f"the event is for an observer who {observer}: others do not see it")
    elif isinstance(box.value, HostMechanism) and not box.bits:
        notes.append("the last bits of floats were not looked at (outputs.bits = true looks)")
    notes += again(search.settings.looks_of(search.cell))
    if search.ended_by_time:
        notes.append(
            f"ended by the time budget after {search.drawn:,} of {search.cell.trials:,} trials"
        )
    return tuple(notes)
