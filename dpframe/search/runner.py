"""Run the searches of an audit, several at once."""

import dataclasses
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common.text import error_message, shown
from dpframe.common.types import HostArray
from dpframe.engine.checkpoint import Store
from dpframe.engine.estimate import again, slack
from dpframe.engine.ledger import resolution_of, share_of_error
from dpframe.engine.plan import Plan
from dpframe.errors import CellError, UntrustedError
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.checks import guarded
from dpframe.interfaces.estimator import Contrast, Estimate, Query
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.answer import checked
from dpframe.results.build import cell_record, choice_record, pair_record
from dpframe.results.model import CellRecord, FindingRecord, SearchRecord
from dpframe.results.strict_json import text
from dpframe.results.verdict import Looks
from dpframe.search.coverage import coverage_of
from dpframe.search.leaks import Leak, is_of
from dpframe.search.search import ALL_KNOWN, SearchOutcome, SearchRun
from dpframe.spec.audit import Cell, RunSettings
from dpframe.stats.output_bounds import in_agreement
from dpframe.workers.program.generators import note_of
from dpframe.workers.requests import Stopped, WorkerSource

FAREWELL = 1.0  # seconds that threads get to finish when the caller leaves


class Settings(NamedTuple):
    """Settings that all searches of a run share."""

    plan: Plan
    run: RunSettings
    store: Store
    source: WorkerSource
    executor: Executor  # counts and draws traced mechanisms
    asked: Mapping[str, str]  # digests of the questions, by the cell's id
    looks: Mapping[str, Looks]  # at the draws of each cell
    look_at: Callable[[Cell, Sequence[HostArray]], None]
    """Renumbers the look of a cell, given the counts of each round."""

    def error_of(self, cell: Cell) -> float:
        """Return a cell's share of the error, at its look."""
        return share_of_error(cell, self.plan) / self.looks[cell.id].price


class Drawn(NamedTuple):
    """Draws were made, on both datasets together."""

    cell: Cell
    draws: int


class SearchRunner:
    """Runs searches, each in a thread of its own; all count on `threads` shared threads."""

    def __init__(self, cells: Sequence[Cell], settings: Settings, threads: int) -> None:
        self._waiting, self._left = list(cells), len(cells)
        self._settings = settings
        self._events: queue.SimpleQueue[Drawn | CellRecord | BaseException] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dpframe-count")
        self._drivers = [
            threading.Thread(target=self._drive, name=f"dpframe-search-{n}", daemon=True)
            for n in range(min(threads, len(cells)))
        ]

    def events(self, timeout: float) -> Generator[Drawn | CellRecord | None]:
        """Yield events as they come, and None after `timeout` seconds without one.

        If the caller leaves the loop, the searches stop after their current segments.
        """
        try:
            for driver in self._drivers:
                driver.start()
            while self._left:
                try:
                    event = self._events.get(timeout=timeout)
                except queue.Empty:
                    event = None
                if isinstance(event, BaseException):
                    raise event
                self._left -= isinstance(event, CellRecord)
                yield event
        finally:
            self._stopping.set()
            if self._left:
                self._settings.source.stop()
            self._pool.shutdown(wait=False, cancel_futures=True)
            deadline = time.monotonic() + FAREWELL
            for driver in self._drivers:
                if driver.ident is not None:
                    driver.join(max(0.0, deadline - time.monotonic()))

    def _drive(self) -> None:
        while not self._stopping.is_set():
            try:
                cell = self._waiting.pop(0)
            except IndexError:
                return
            try:
                self._events.put(self._searched(cell))
            except Stopped:
                return
            except BaseException as error:  # else the caller would wait forever
                self._events.put(error)
                return

    def _searched(self, cell: Cell) -> CellRecord:
        started = time.perf_counter()
        search = SearchRun(
            cell, self._settings, self._count, lambda draws: self._events.put(Drawn(cell, draws))
        )
        try:
            search.run()
            return finding(search, time.perf_counter() - started)
        except (Stopped, UntrustedError):
            raise
        except CellError as error:
            return cell_record(cell, reason=str(error), exact=search.sensitivity.found)
        except Exception as error:  # raised by plugin code outside a guarded call
            return cell_record(cell, reason=error_message(error))

    def _count(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        if self._stopping.is_set():
            raise Stopped
        try:
            return [found.result() for found in [self._pool.submit(call) for call in calls]]
        except RuntimeError as error:  # the pool is closed
            if self._stopping.is_set():
                raise Stopped from error
            raise


# The finding of a search as the record of its cell.


MOST_POINTS = 200  # points of the wealth's history in a record, at most
SMALLEST = 1e-300  # smallest p-value in a record


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
    truth = guarded("truth", lambda: mechanism.truth(arm.pair))
    if not isinstance(truth, Claim | None):
        raise CellError(f"truth returned {shown(truth)}, which is neither a claim nor None")
    claimed = math.inf if arm.claim is None else arm.claim.epsilon_at(cell.delta)
    place = search.arms.index(arm)

    def bound_of(asked: Query) -> float:
        shown = float(wealth.bound(1 - asked.confidence, place) * arm.scale)
        # Bounds and verdict have separate budgets, but a bound above the claim would refute it.
        return shown if outcome.refuted else min(shown, claimed)

    found = dataclasses.replace(search.maker.of(arm.pair, mechanism, leak.attack), claim=arm.claim)
    assert cell.search is not None
    witness = SearchRecord(
        neighbourhood=choice_record(cell.search.neighbourhood),
        attacks=[text(attack.label) for attack in cell.search.attacks],
        pairs=len(search.arms),
        parameters={key: json.loads(value) for key, value in arm.setting},
        ignored=list(map(text, cell.search.ignore)),
        findings=[_listed(search, one) for one in search.outcomes[1:]],
        coverage=coverage_of(search, outcome),
        **_witnessed(search, outcome, leak),
    )
    trials, resolution = (search.drawn, search.drawn), resolution_of(cell, search.settings.plan)
    query = Query(trials, cell.delta, 1 - error, arm.claim, resolution)
    bound = bound_of(query)
    tested = arm.claim is not None
    stands = None if arm.claim is None or outcome.refuted else arm.claim.delta_at
    p_value = _p_value(wealth.best) if tested else None
    profile = in_agreement(wealth.profile(error, place), bound, cell.delta, stands)
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
        notes=_notes(search, witness, found.attack.value),
        wealth=_thinned(wealth.history) if tested else (),
        profile_lower=profile,
    )
    extreme = None
    if tested:
        most = _p_value(wealth.most)
        extreme = estimate._replace(p_value=most, p_resolved=most)
    estimate = checked(estimate, certified=True, tested=tested)
    looks = search.settings.looks[cell.id]
    return cell_record(
        found,
        counts=[[arm.seen.trials - hits, hits] for hits in leak.hits],
        trials=trials,
        exceptions=arm.exceptions,
        statistic={"name": "Witness", "event": leak.event},
        untested=search.untested() or (None if outcome.refuted else search.drift),
        estimate=estimate,
        slack=slack(query, cell.confidence, looks, estimate, truth, None, bound_of),
        certified=True,
        query=query,
        truth=truth,
        extreme=extreme,
        draw_group=arm.group,
        looks=looks,
        data=arm.data,
        seconds=seconds,
        search=witness,
        exact=search.sensitivity.found,
    )


def _p_value(log_wealth: float) -> float:
    return max(math.exp(-log_wealth), SMALLEST)


def _contrast(
    claim: Claim, bound: tuple[float, float], profile: Sequence[tuple[float, float]]
) -> Contrast | None:
    """Compare a bound, (δ, ε), with the claim, or else the point (ε, δ) farthest beyond it."""
    told = [bound, *((delta, epsilon) for epsilon, delta in profile if 0 < delta < 1)]
    found = [Contrast(*one, claim.epsilon_at(one[0])) for one in told]
    beyond = [one for one in found if one.lower > one.claimed]
    if beyond and found[0].lower <= found[0].claimed:
        return max(beyond, key=lambda one: one.lower - one.claimed)
    return found[0] if math.isfinite(found[0].claimed) else None


def _listed(search: SearchRun, outcome: SearchOutcome) -> FindingRecord:
    """Return one more leak that a search has found."""
    arm = outcome.arm
    leak = search.leak(arm, refuted=True)
    found = search.maker.of(arm.pair, arm.mechanism, leak.attack)
    neighbourhood = search.search.neighbourhood.value
    return FindingRecord(
        mechanism=choice_record(found.mechanism),
        pair=pair_record(found.pair.use, arm.pair, arm.data, neighbourhood),
        attack=choice_record(found.attack),
        p_value=_p_value(outcome.wealth.best),
        **_witnessed(search, outcome, leak),
    )


def _witnessed(search: SearchRun, outcome: SearchOutcome, leak: Leak) -> dict[str, Any]:
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
    told = search.outcome().arm.pair.description
    on_pair = f"on the pair “{told}” " if told else ""
    on_pair += "".join(f"at {key} = {value} " for key, value in witness.parameters.items())
    box = search.search.mechanism
    notes = [
        f"searched {witness.pairs} {'pair' if witness.pairs == 1 else 'pairs'}; the strongest "
        f"evidence {on_pair}comes from the event “{witness.event}”, which is more likely on "
        f"{witness.more_likely}: {witness.hits[1]:,} of {witness.trials[1]:,} on D′, "
        f"{witness.hits[0]:,} of {witness.trials[0]:,} on D",
    ]
    if search.outcome().refuted and (observer := guarded("observer", lambda: attack.observer)):
        notes.append(f"the event is visible only to an observer who {observer}")
    elif isinstance(box.value, HostMechanism) and not box.bits:
        notes.append("the last bits of floats were not examined (outputs.bits = true does)")
    if isinstance(box.value, HostMechanism) and (given := note_of([box.value])) is not None:
        notes.append(given)
    for part in search.search.ignore:
        pairs = sum(is_of(part, arm.known) for arm in search.arms)
        notes.append(
            f"“{part}” is ignored: {pairs} {'pair' if pairs == 1 else 'pairs'} skipped for it"
        )
    notes += again(search.settings.looks[search.cell.id])
    if search.outcome().refuted and (drift := search.drift) is not None:
        notes.append(drift)
    if search.lost:
        lost = "1 pair was" if len(search.lost) == 1 else f"{len(search.lost):,} pairs were"
        notes.append(f"{lost} lost to a crash or a lack of memory; at the first, {search.lost[0]}")
    if search.ended_by == "seconds":
        notes.append(
            f"ended by the time budget after {search.drawn:,} of {search.cell.trials:,} trials"
        )
    return tuple(notes)
