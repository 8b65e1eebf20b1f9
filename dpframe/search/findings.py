"""Run a search as work of the schedule, and make the record of its finding."""

import dataclasses
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpframe.claims import Claim
from dpframe.common.text import error_message, shown
from dpframe.draw.requests import RunCancelled
from dpframe.draw.worker.generators import note_of
from dpframe.engine.estimate import note_of_looks, slack
from dpframe.engine.ledger import resolution_of
from dpframe.errors import CellError
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.estimator import Contrast, Estimate, Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results.build import cell_record, choice_record, pair_record
from dpframe.results.estimate_checks import checked
from dpframe.results.model import CellRecord, FindingRecord, SearchRecord
from dpframe.results.strict_json import text
from dpframe.search.coverage import coverage_of
from dpframe.search.leaks import Leak, is_of
from dpframe.search.search import ALL_KNOWN, SearchOutcome, SearchRun, Settings
from dpframe.spec.audit import Cell
from dpframe.stats.output_bounds import in_agreement


class SearchWork:
    """A search as a piece of work: a thread of the schedule makes all of it at once."""

    in_steps = False
    the_pass = None  # its draws belong to no pass

    def __init__(self, cell: Cell, settings: Settings) -> None:
        self.cell, self.settings, self.run = cell, settings, settings.run
        self.on_host = isinstance(cell.mechanism.value, HostMechanism)
        self.record: CellRecord | None = None

    def prepare(self) -> None:
        """Search, and make the record; a mistake of a plugin fails this cell only."""
        started = time.perf_counter()
        exact = None
        try:
            search = SearchRun(self.cell, self.settings)
            try:
                search.run()
                self.record = finding(search, time.perf_counter() - started)
            finally:
                exact = search.proposals.sensitivity.record
        except RunCancelled:
            raise
        except CellError as error:
            self.record = cell_record(self.cell, reason=str(error), exact=exact)
        except Exception as error:  # raised by plugin code outside `call_plugin`
            self.record = cell_record(self.cell, reason=error_message(error))

    def units(self) -> Sequence[Any]:
        """Return nothing: the search has counted by itself."""
        return ()

    def overdue(self) -> bool:
        """Return False: a search keeps its time itself."""
        return False

    def save(self) -> None:
        """Do nothing: a search has stored each round as it was counted."""


# The finding of a search as the record of its cell.


MOST_POINTS = 200  # points of the wealth's history in a record, at most
SMALLEST_P_VALUE = 1e-300  # smallest p-value in a record


def finding(search: SearchRun, seconds: float) -> CellRecord:
    """Return the record of a cell, with the witness of the search and its most telling event."""
    if search.arms and all(arm.known for arm in search.arms) and not search.outcomes:
        raise CellError(ALL_KNOWN)
    if not search.has_bet:
        what = "time" if search.ended_by == "seconds" else "trials"
        raise CellError(f"no bet could be made: use more {what}, or a smaller neighbourhood")
    search.settle()
    cell, error, outcome = search.cell, search.error, search.outcome()
    arm, wealth = outcome.arm, outcome.wealth
    leak = search.leak(arm, refuted=outcome.refuted)
    mechanism: Any = arm.mechanism
    truth = call_plugin("truth", lambda: mechanism.truth(arm.pair))
    if not isinstance(truth, Claim | None):
        raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")
    claimed = math.inf if arm.claim is None else arm.claim.epsilon_at(cell.delta)
    place = search.arms.index(arm)

    def bound_of(question: Query) -> float:
        certified = float(wealth.bound(1 - question.confidence, place) * arm.scale)
        # Bounds and verdict have separate budgets, but a bound above the claim would refute it.
        return certified if outcome.refuted else min(certified, claimed)

    witness_cell = search.proposals.maker.of(arm.pair, mechanism, leak.attack)
    witness_cell = dataclasses.replace(witness_cell, claim=arm.claim)
    assert cell.search is not None
    witness = SearchRecord(
        neighbourhood=choice_record(cell.search.neighbourhood),
        attacks=[text(attack.label) for attack in cell.search.attacks],
        pairs=len(search.pairs),
        parameters={key: json.loads(value) for key, value in arm.setting},
        ignored=list(map(text, cell.search.ignore)),
        findings=[_finding_record(search, one) for one in search.outcomes[1:]],
        coverage=coverage_of(search, outcome),
        **_witness_fields(search, outcome, leak),
    )
    trials, resolution = (search.drawn, search.drawn), resolution_of(cell, search.settings.plan)
    query = Query(trials, cell.delta, 1 - error, arm.claim, resolution)
    bound = bound_of(query)
    tested = arm.claim is not None
    unrefuted = None if arm.claim is None or outcome.refuted else arm.claim.delta_at
    p_value = _p_value(min(wealth.best, search.first_best)) if tested else None
    profile = in_agreement(wealth.profile(error, place), bound, cell.delta, unrefuted)
    contrast = None
    if arm.claim is not None:
        contrast = _contrast(arm.claim, (cell.delta, bound), profile if outcome.refuted else ())
    estimate = Estimate(
        epsilon=max(bound, leak.loss),
        epsilon_lower=bound,
        epsilon_upper=math.inf,
        p_value=p_value,
        p_resolved=p_value,
        contrast=contrast,
        notes=_notes(search, witness, witness_cell.attack.value),
        wealth=_thinned(wealth.history) if tested else (),
        profile_lower=profile,
    )
    extreme = None
    if tested:
        least_p_value = _p_value(wealth.most)
        extreme = estimate._replace(p_value=least_p_value, p_resolved=least_p_value)
    estimate = checked(estimate, certified=True, tested=tested)
    return cell_record(
        witness_cell,
        counts=[[arm.seen.trials - hits, hits] for hits in leak.hits],
        trials=trials,
        exceptions=arm.exceptions,
        statistic={"name": "Witness", "event": leak.event},
        untested=search.untested() or (None if outcome.refuted else search.drift),
        estimate=estimate,
        slack=slack(query, cell.confidence, search.looks, estimate, truth, None, bound_of),
        certified=True,
        query=query,
        truth=truth,
        extreme=extreme,
        draw_group=arm.group,
        looks=search.looks,
        data=arm.data,
        seconds=seconds,
        search=witness,
        exact=search.proposals.sensitivity.record,
        stated=search.proposals.stated.record(),
    )


def _p_value(log_wealth: float) -> float:
    return max(math.exp(-log_wealth), SMALLEST_P_VALUE)


def _contrast(
    claim: Claim, bound: tuple[float, float], profile: Sequence[tuple[float, float]]
) -> Contrast | None:
    """Compare a bound, (δ, ε), with the claim, or else the point (ε, δ) farthest beyond it."""
    points = [bound, *((delta, epsilon) for epsilon, delta in profile if 0 < delta < 1)]
    first, *others = (Contrast(*point, claim.epsilon_at(point[0])) for point in points)
    beyond = [one for one in others if one.lower > one.claimed]
    if beyond and first.lower <= first.claimed:
        return max(beyond, key=lambda one: one.lower - one.claimed)
    return first if math.isfinite(first.claimed) else None


def _finding_record(search: SearchRun, outcome: SearchOutcome) -> FindingRecord:
    """Return one more leak that a search has found."""
    arm = outcome.arm
    leak = search.leak(arm, refuted=True)
    finding_cell = search.proposals.maker.of(arm.pair, arm.mechanism, leak.attack)
    neighbourhood = search.search.neighbourhood.value
    return FindingRecord(
        mechanism=choice_record(finding_cell.mechanism),
        pair=pair_record(finding_cell.pair.use, arm.pair, arm.data, neighbourhood),
        attack=choice_record(finding_cell.attack),
        p_value=_p_value(outcome.wealth.best),
        **_witness_fields(search, outcome, leak),
    )


def _witness_fields(search: SearchRun, outcome: SearchOutcome, leak: Leak) -> dict[str, Any]:
    """Return the fields of a `WitnessRecord`."""
    arm = outcome.arm
    return {
        "event": text(leak.event),
        "more_likely": "D′" if leak.more_likely else "D",
        "hits": list(leak.hits),
        "trials": [arm.seen.trials, arm.seen.trials],
        "pair_trials": arm.trials,
        "leak": text(outcome.name),
        **search.examples(arm, leak),
    }


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Keep as many points as a record holds, the last included."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    kept = np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)
    return tuple(points[place] for place in kept)


def _notes(search: SearchRun, witness: SearchRecord, attack: Attack) -> tuple[str, ...]:
    description = search.outcome().arm.pair.description
    on_pair = f"on the pair “{description}” " if description else ""
    on_pair += "".join(f"at {key} = {value} " for key, value in witness.parameters.items())
    black_box = search.search.mechanism
    notes = [
        f"searched {witness.pairs} {'pair' if witness.pairs == 1 else 'pairs'}; the strongest "
        f"evidence {on_pair}comes from the event “{witness.event}”, which is more likely on "
        f"{witness.more_likely}: {witness.hits[1]:,} of {witness.trials[1]:,} on D′, "
        f"{witness.hits[0]:,} of {witness.trials[0]:,} on D",
    ]
    if search.outcome().refuted and (observer := call_plugin("observer", lambda: attack.observer)):
        notes.append(f"the event is visible only to an observer who {observer}")
    elif isinstance(black_box.value, HostMechanism) and not black_box.bits:
        notes.append("the last bits of floats were not examined (outputs.bits = true does)")
    if isinstance(black_box.value, HostMechanism):
        notes += filter(None, [note_of([black_box.value])])
    for part in search.search.ignore:
        pairs = len({arm.group for arm in search.arms if is_of(part, arm.known)})
        notes.append(
            f"“{part}” is ignored: {pairs} {'pair shows' if pairs == 1 else 'pairs show'} it"
        )
    notes += note_of_looks(search.looks)
    if search.outcome().refuted and (drift := search.drift) is not None:
        notes.append(drift)
    if search.proposals.lost:
        lost = (
            "1 pair was"
            if len(search.proposals.lost) == 1
            else f"{len(search.proposals.lost):,} pairs were"
        )
        notes.append(
            f"{lost} lost to a crash or a lack of memory; at the first, {search.proposals.lost[0]}"
        )
    if search.ended_by == "seconds":
        notes.append(
            f"stopped at the time limit after {search.drawn:,} of {search.cell.trials:,} trials"
        )
    return tuple(notes)
