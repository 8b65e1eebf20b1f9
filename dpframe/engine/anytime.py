"""Feed anytime estimators round by round."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from dpframe.common import trees
from dpframe.common.text import shown
from dpframe.common.types import Tree
from dpframe.count.checkpoint import Saved, Store, stored_counts
from dpframe.count.plan import Pass, PassPosition
from dpframe.count.rounds import Rounds
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate, Estimator, Query, Settled
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.results.verdict import FIRST_LOOK, Looks
from dpframe.spec.audit import Cell

MOST_POINTS = 200  # points of the wealth in a record


@dataclasses.dataclass
class EstimatorState:
    """An anytime estimator and its state."""

    estimator: Estimator
    layout: Tree
    query: Query  # the question; `trials` are set for each call
    state: Any = None
    trials: int = 0
    rounds: int = 0

    def observe(self, counts: Tree, trials: int) -> None:
        """Show one round to the estimator."""
        query = self.query._replace(trials=(trials, trials))
        call = self.estimator.observe
        self.state = call_plugin("observe", call, self.state, self.layout, counts, query)
        self.trials += trials
        self.rounds += 1

    @property
    def query_so_far(self) -> Query:
        """The question about all rounds so far."""
        return self.query._replace(trials=(self.trials, self.trials))

    def concluded(self, only: Literal["p-values"] | None = None) -> Estimate:
        """Return the estimate, with at most `MOST_POINTS` points of the wealth."""
        query = self.query_so_far._replace(only=only)
        estimate = self.estimator.conclude(self.state, self.layout, query)
        if isinstance(estimate, Estimate) and len(estimate.wealth) > MOST_POINTS:
            chosen = np.linspace(0, len(estimate.wealth) - 1, MOST_POINTS).round().astype(int)
            return estimate._replace(wealth=tuple(estimate.wealth[n] for n in chosen.tolist()))
        return estimate

    def bound(self, query: Query) -> float | None:
        """Return the bound of all rounds so far for another query."""
        query = query._replace(only="bound")
        return self.estimator.conclude(self.state, self.layout, query).epsilon_lower

    def settled(self) -> Settled | None:
        """Return the verdict if the estimator has settled it."""
        call = self.estimator.settled
        verdict = call_plugin("settled", call, self.state, self.layout, self.query_so_far)
        if verdict not in (None, "violated", "unreachable"):
            raise CellError(
                f"settled returned {shown(verdict)}; "
                'it must return "violated", "unreachable" or None'
            )
        return verdict  # type: ignore[no-any-return]


class ExtremeCounts:
    """The most extreme counts in the same rounds; they show if a claim could be refuted yet.

    Cells that ask the same question without a layout share one, even if threads prepare their
    passes at the same time.
    """

    def __init__(self, progress: EstimatorState) -> None:
        self._states = {0: dataclasses.replace(progress, state=None, trials=0, rounds=0)}
        """By draws on each dataset, which fix the rounds: only the last may be cut."""
        self.estimates: dict[int, Estimate] = {}  # by draws on each dataset
        self._lock = threading.Lock()

    def after(self, ends: list[int]) -> EstimatorState:
        """Return the progress after rounds with these ends; only the last round may be cut."""
        with self._lock:
            for before, end in itertools.pairwise([0, *ends]):
                if end not in self._states:
                    self._states[end] = self._next(self._states[before], end - before)
        return self._states[ends[-1]]

    @staticmethod
    def _next(before: EstimatorState, size: int) -> EstimatorState:
        progress = dataclasses.replace(before)
        extreme = progress.estimator.extreme
        counts = call_plugin("extreme", extreme, progress.layout, (size, size))
        progress.observe(trees.map(np.asarray, counts), size)
        return progress


@dataclasses.dataclass
class AnytimeCell:
    """A cell of a pass in rounds, and its estimator."""

    cell: Cell
    place: PassPosition
    rounds: Rounds  # of the pass
    progress: EstimatorState
    extremes: ExtremeCounts
    looks: Looks = FIRST_LOOK  # the look at its draws
    counts: Any = None  # counts of all rounds that it was shown
    ends: list[int] = dataclasses.field(default_factory=list)
    """Draws on each dataset after each round."""
    settled: Settled | None = None
    problem: CellError | None = None  # the error of its estimator

    @property
    def over(self) -> bool:
        """True if the cell needs no more rounds."""
        return self.settled is not None or self.problem is not None

    def feed(self, *, stops: bool) -> None:
        """Show the estimator the rounds of its variant that it has not seen."""
        while self.progress.rounds < self.rounds.upto[self.place.variant] and not self.over:
            number = self.progress.rounds
            part = self.rounds.parts[number]
            own = trees.map(np.array, self.place.own(self.rounds.counts[number]))
            more = own if self.counts is None else trees.map(np.add, self.counts, own)
            try:
                # A copy: an estimator that writes into its counts must not change the sum.
                self.progress.observe(trees.map(np.copy, own), part.end - part.start)
                self.counts = more
                self.ends.append(part.end)
                if stops:
                    verdict = self.progress.settled()
                    if verdict == "unreachable":  # ignored until extreme counts would violate
                        extremes = self.extremes.after(self.ends)
                        verdict = verdict if extremes.settled() == "violated" else None
                    self.settled = verdict
            except CellError as error:
                self.problem = error

    def shown(self) -> tuple[list[Tree], int]:
        """Return the counts of each round that it was shown, and the number of full rounds."""
        number = self.progress.rounds
        whole = sum(part.full for part in self.rounds.parts[:number])
        return self.rounds.of(self.place, number), whole

    def ask_again(self, query: Query, looks: Looks) -> None:
        """Show the estimator all of its rounds once more, at the price of another look."""
        progress = dataclasses.replace(self.progress, query=query, state=None, trials=0, rounds=0)
        self.extremes, self.looks = ExtremeCounts(progress), looks
        for counts, part in zip(self.shown()[0], self.rounds.parts, strict=False):
            progress.observe(trees.map(np.copy, counts), part.end - part.start)
        self.progress = progress


class AnytimePass:
    """The cells of a pass that is counted in rounds.

    `query_of` maps a cell and its stored rounds to its question and its look. `extremes` has the
    most extreme counts of all passes. With `stops`, cells stop once they are settled.
    """

    def __init__(
        self,
        the_pass: Pass,
        query_of: Callable[[Cell, Sequence[Tree]], tuple[Query, Looks]],
        extremes: dict[Any, ExtremeCounts],
        *,
        stops: bool,
    ) -> None:
        self.the_pass, self.query_of, self.stops = the_pass, query_of, stops
        self.extremes = extremes
        self.of: dict[str, AnytimeCell] = {}

    def begin(
        self, rounds: Rounds, layouts: tuple[Tree, ...], keys: dict[str, str], store: Store
    ) -> None:
        """Show the cells their stored rounds; layouts have leaves [variants, attacks, …]."""
        self.rounds, self.store = rounds, store
        self.keys = {cell: f"rounds-{key}" for cell, key in keys.items()}
        self._load()
        ends = self.the_pass.rows, self.the_pass.costly  # these fix the rounds
        for cell, place in self.the_pass.cells:
            layout = place.own(layouts)
            stored = rounds.of(place, rounds.upto[place.variant])
            query, looks = self.query_of(cell, stored)
            progress = EstimatorState(cell.estimator.value, layout, query)
            has_layout = any(map(np.size, trees.leaves(layout)))
            shared = cell.id if has_layout else (ends, _key_of(progress))
            extreme = self.extremes.setdefault(shared, ExtremeCounts(progress))
            self.of[cell.id] = AnytimeCell(cell, place, rounds, progress, extreme, looks)
        self.advance()

    def advance(self) -> None:
        """Show the cells the new rounds, and decide which variants go on."""
        for anytime_cell in self.of.values():
            anytime_cell.feed(stops=self.stops)
        left = [
            anytime_cell.place.variant for anytime_cell in self.of.values() if not anytime_cell.over
        ]
        self.rounds.go_on(sorted(set(left)))

    def save(self) -> None:
        """Hand all complete rounds to the store."""
        for cell, place in self.the_pass.cells:
            upto = self.rounds.upto[place.variant]
            own_rounds = zip(self.rounds.of(place, upto), self.rounds.parts, strict=False)
            full = [trees.leaves(counts) for counts, part in own_rounds if part.full]
            own = [[leaf.tolist() for leaf in leaves] for leaves in full]
            if own:
                saved = Saved((len(own), len(own)), own)
                self.store.save(self.the_pass.stream, self.keys[cell.id], saved)

    def forget(self) -> None:
        """Take the rounds back from the store."""
        for key in self.keys.values():
            self.store.forget(self.the_pass.stream, key)

    def _load(self) -> None:
        by_variant: dict[int, list[list[Any]]] = {}
        upto: dict[int, int] = {}
        for cell, place in self.the_pass.cells:
            stored = self.store.load(self.the_pass.stream, self.keys[cell.id])
            stored_rounds = [] if stored is None else self._usable(stored.leaves, place)
            by_variant.setdefault(place.variant, []).append([place, stored_rounds])
            upto[place.variant] = min(
                upto.get(place.variant, len(stored_rounds)), len(stored_rounds)
            )
        for variant, cells in by_variant.items():
            self.rounds.take_stored(
                variant,
                upto[variant],
                {(place.scorer, place.attack): stored_rounds for place, stored_rounds in cells},
            )

    def _usable(self, stored: list[Any], place: PassPosition) -> list[Any]:
        """Return the stored counts of the first rounds, up to the first impossible one."""
        zero = trees.map(lambda leaf: leaf[0, 0], self.rounds.zero[place.scorer])
        statistic, usable = self.the_pass.scorers[place.scorer].statistic, []
        for part, leaves in zip(self.rounds.parts, stored, strict=False):
            counts = stored_counts(statistic, leaves, zero, [part.end - part.start] * 2)
            if counts is None or not part.full:
                break
            usable.append(counts)
        return usable


def _key_of(progress: EstimatorState) -> Any:
    """Return a key of the question; if a plugin cannot be hashed, one of the progress."""
    key = (progress.estimator, progress.query)
    try:
        hash(key)
    except TypeError:  # a plugin that cannot be hashed
        return id(progress)
    return key
