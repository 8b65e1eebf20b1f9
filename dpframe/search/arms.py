"""Arms of a search: each is a pair with its draws and its attacks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common import trees
from dpframe.common.machine import available_cores
from dpframe.common.types import HostArray, Tree
from dpframe.engine import checkpoint, fingerprint, rounds, trace
from dpframe.engine.plan import Pass
from dpframe.engine.scoring import fitted
from dpframe.engine.work import TracedPass
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.checks import arrays, guarded, learns
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.pair import Pair
from dpframe.sampling import address, threefry
from dpframe.sampling.address import EVAL, LEARNER, Segment, segments
from dpframe.search import events
from dpframe.search.events import Output
from dpframe.search.wealth import Point, Seen
from dpframe.spec.sweep import Setting
from dpframe.workers.executor import HERE

if TYPE_CHECKING:
    from dpframe.search.search import Settings

Counter = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Makes calls, perhaps concurrently, and returns their values."""

WARM_UP = 3 << 10
"""First draws of every pair on each dataset, before bets, if there are many trials."""

SHARE = 1 / 24  # largest share of the trials with which a pair is warmed up
GROWTH = 0.4  # draws of a round, as a share of those that its pair had before
MOST_LEARNED = 1 << 21  # draws per dataset that attacks learn from, at most

ENTRIES = 1 << 25
"""Approximate limit of the coordinates that attacks learn from, which are all in memory."""

MOST_FOR_CUTS = 1 << 16  # draws per dataset that cuts are chosen from, at most


class Proposed(NamedTuple):
    """A proposed pair, with the mechanism and the claim that are resolved for it."""

    pair: Pair
    mechanism: Any
    claim: Claim | None
    points: tuple[Point, ...]  # of the claim, to bet against
    scale: float  # loss claimed for this pair as a multiple of that of the first pair
    data: str  # digest of the pair
    setting: Setting  # of the mechanism, if the search varies it


class Arm(ABC):
    """One pair of a search.

    Only earlier draws choose the bet on a round: states of attacks, cuts and estimated
    probabilities come from draws that were already bet on, or are never bet on.
    """

    least = 0.0  # standard errors beyond a claim below which nothing is bet

    def __init__(self, proposed: Proposed, group: str) -> None:
        self.pair, self.mechanism, self.claim, self.points, *_ = proposed
        self.scale, self.data, self.setting = proposed[4:]
        self.group = group  # draw group
        self.trials = 0  # draws of each dataset
        self.seen = Seen(np.zeros((2, 0), np.int64), 0)
        self.earned = 0.0  # logarithm of its rounds' earnings against the claim
        self.known = ""  # name of the known leak that it shows, if any
        self.rounds: list[tuple[int, int, int]] = []
        """Draws per dataset before each round, those that estimate its probabilities, its own."""

    @property
    def exceptions(self) -> list[float] | None:
        """Shares of exceptions among its answers, on D and on D′; None if none count."""
        return None

    @property
    def saw_nothing(self) -> bool:
        """True if every event has probability 0 or 1 so far, the same on D and on D′."""
        above = self.seen.above
        return bool(np.isin(above, (0, self.seen.trials)).all() and (above[0] == above[1]).all())

    @abstractmethod
    def first(self) -> int:
        """Return the number of draws of each dataset that `warm_up` makes."""

    @abstractmethod
    def warm_up(self) -> None:
        """Draw for the first time, and learn."""

    @abstractmethod
    def next_round(self, most: int) -> int:
        """Return the number of draws of each dataset in the next round; 0 if none fits."""

    @abstractmethod
    def draw(self, draws: int) -> Seen:
        """Draw a round and count it under cuts that were chosen before."""

    def take_in(self, fresh: Seen) -> None:
        """Add a round to the draws that choose later bets; attacks may learn from them."""
        above, trials = self.seen.above + fresh.above, self.seen.trials + fresh.trials
        self.seen = Seen(above, trials, self.seen.cuts)

    def event(self, number: int, words: Mapping[int, str]) -> tuple[int, str | None, str, int]:
        """Describe an event of `seen`.

        `words` are texts of codes of kinds and values; arrays have none.

        Returns:
            The attack; the event in the attack's words, if it has any; the event in terms of
            scores; and the dataset under which it is more likely.
        """
        side = number // self.seen.above.shape[1]
        found = self._event(*self.seen.place(number), words, is_above=side in (0, 2))
        return *found, 1 if side < 2 else 0

    def examples(self, number: int, words: Mapping[int, str]) -> dict[str, Any]:
        """Return different outputs inside an event of `seen`, and outside it."""
        side = number // self.seen.above.shape[1]
        try:
            outputs = self._outputs(*self.seen.place(number), words)
            return events.examples_of(outputs, is_above=side in (0, 2))
        except CellError:  # a finding must not fail for lack of examples
            return {}

    @abstractmethod
    def _outputs(self, attack: int, cut: int, words: Mapping[int, str]) -> list[list[Output]]:
        """Return, for outputs on D and D′, True if at or above a cut, and a function for a text."""

    @abstractmethod
    def _event(
        self, attack: int, cut: int, words: Mapping[int, str], *, is_above: bool
    ) -> tuple[int, str | None, str]: ...


def chunks_at_first(trials: int, rows: int) -> int:
    """Return the chunks of the first draws of a pair."""
    return 3 * max(1, int(min(WARM_UP, SHARE * trials)) // (3 * rows))


def chunks_to_learn_from(drawn: int, learned: int, enough: int) -> int:
    """Return the chunks that attacks learn from: `learned`, until enough new ones are drawn."""
    is_due = learned < enough and drawn >= 16 * learned
    return min(drawn // 4, enough) if is_due else learned


def chunks_for_cuts(learned: int, rows: int) -> int:
    """Return the chunks, after those that attacks learn from, that cuts are chosen from."""
    return max(1, min(learned // 2, MOST_FOR_CUTS // rows))


class TracedArm(Arm):
    """One pair of a search of a mechanism that JAX traces.

    The pass has one mechanism, and one scorer per attack. `tried` has the checked mechanisms and
    attacks, and is shared by all arms.
    """

    def __init__(
        self,
        proposed: Proposed,
        the_pass: Pass,
        settings: Settings,
        tried: set[Any],
    ) -> None:
        super().__init__(proposed, the_pass.stream.group)
        self.the_pass, self.settings, self.tried = the_pass, settings, tried
        self.drawn = 0  # chunks of each dataset that were drawn
        self._learned = 0  # chunks that attacks have learned from
        self._work: LearnedDraws | None = None

    def _outputs(self, attack: int, cut: int, words: Mapping[int, str]) -> list[list[Output]]:
        work, edge = self._work, self._edge(attack, cut)
        assert work is not None
        of = self.the_pass.scorers[attack].attacks[0]
        state = trees.map(lambda leaf: leaf[0, 0], work.states[attack])
        found: list[list[Output]] = []
        # Outputs are not kept, but a chunk can be drawn again at its address.
        with address.precision_of(self.settings.run):
            for outputs in work.drawn(range(self.drawn - 1, self.drawn)):
                part = outputs[: events.MOST_EXAMINED]
                scores = events.compiled_scores(of, state, part, work.dtype, events.MOST_EXAMINED)
                found.append(
                    events.outputs_of(scores, edge, (partial(events.in_short, one) for one in part))
                )
        return found

    def _edge(self, attack: int, cut: int) -> Any:
        """Return the score at a cut; decisions, which have no layout, have one cut, True."""
        assert self._work is not None
        edges = np.ravel(self._work.own_layouts[attack])
        return edges[cut] if len(edges) else True

    def first(self) -> int:
        return self.the_pass.rows * chunks_at_first(self.the_pass.trials, self.the_pass.rows)

    def warm_up(self) -> None:
        self._drew(self.first() // self.the_pass.rows)
        self._learn(self.drawn // 2)

    def next_round(self, most: int) -> int:
        rows = self.the_pass.rows
        return rows * min(max(1, int(GROWTH * self.drawn)), most // rows)

    def draw(self, draws: int) -> Seen:
        chunks = draws // self.the_pass.rows
        fresh = self._counted(range(self.drawn, self.drawn + chunks))
        self._drew(chunks)
        return fresh

    def _drew(self, chunks: int) -> None:
        self.drawn += chunks
        self.trials = self.drawn * self.the_pass.rows

    def take_in(self, fresh: Seen) -> None:
        super().take_in(fresh)
        most = min(MOST_LEARNED, max(MOST_FOR_CUTS, ENTRIES // max(1, self.the_pass.elements)))
        chunks = chunks_to_learn_from(self.drawn, self._learned, -(-most // self.the_pass.rows))
        if chunks != self._learned:
            self._learn(chunks)

    def _event(
        self, attack: int, cut: int, words: Mapping[int, str], *, is_above: bool
    ) -> tuple[int, str | None, str]:
        gives = self.the_pass.scorers[attack].attacks[0].gives
        return attack, None, events.in_words(gives, self._edge(attack, cut), is_above=is_above)

    def _learn(self, chunks: int) -> None:
        """Let attacks learn from the first chunks, choose cuts by the next, and count the rest."""
        run, prng = self.settings.run, self.settings.plan.prng
        work = LearnedDraws(self.the_pass, run, prng, checkpoint.Store(), self.tried)
        work.executor = self.settings.executor
        cuts = chunks_for_cuts(chunks, self.the_pass.rows)
        work.learn_from(chunks, cuts, look=self._work is None)
        self._work, self._learned = work, chunks
        self.seen = self._counted(range(chunks + cuts, self.drawn))

    def _counted(self, chunks: range) -> Seen:
        """Count some chunks; stored ones are not drawn again."""
        work = self._work
        assert work is not None
        stream, key = self.the_pass.stream, f"{work.digest}-{chunks.start}-{chunks.stop}"
        zeros, structure = trees.flatten(work.zeros)
        if (total := self._stored(work, key, len(chunks))) is None:
            total = [zero.astype(np.int64) for zero in zeros]
            for counted in self.settings.at_once(self._tasks(work, chunks)):
                leaves = trees.leaves(counted)
                total = [one + more for one, more in zip(total, leaves, strict=True)]
            done = (len(chunks), len(chunks))
            self.settings.store.save(
                stream, key, checkpoint.Saved(done, [leaf.tolist() for leaf in total])
            )
        counts = trees.unflatten(structure, total)
        found = [
            events.above(statistic, trees.map(lambda leaf: leaf[0, 0], own))
            for statistic, own in zip(work.statistics, counts, strict=True)
        ]
        cuts = tuple(part.shape[1] for part in found)
        return Seen(np.concatenate(found, axis=1), len(chunks) * self.the_pass.rows, cuts)

    def _stored(self, work: LearnedDraws, key: str, chunks: int) -> list[HostArray] | None:
        """Return the leaves of stored counts of some chunks; None if absent or impossible."""
        saved = self.settings.store.load(self.the_pass.stream, key)
        if saved is None or saved.done != (chunks, chunks):
            return None
        left, found = saved.leaves, list[HostArray]()
        for statistic, zero in zip(work.statistics, work.zeros, strict=True):
            number = len(trees.leaves(zero))
            trials = np.full((1, 1, 2), chunks * self.the_pass.rows)
            own = checkpoint.stored_counts(statistic, left[:number], zero, trials, 2)
            if own is None:
                return None
            left, found = left[number:], [*found, *trees.leaves(own)]
        return None if left else found

    def _tasks(self, work: LearnedDraws, chunks: range) -> list[Callable[[], Any]]:
        rows, slow = self.the_pass.rows, self.the_pass.slow
        size = chunks.stop * rows, rows, self.the_pass.elements, chunks.start
        return [
            partial(work.of, dataset, segment)
            for segment in segments(*size, slow=slow)
            for dataset in (0, 1)
        ]


TRIP = 0.1
"""Seconds below which a segment is counted in this process if a core is free: sending it takes
hundredths of a second, compiling elsewhere takes seconds, and a search waits for every round."""

_CORES = threading.BoundedSemaphore(available_cores())

UNDONE = "some draws of a round are missing: a search bets on whole rounds"


class LearnedDraws(TracedPass):
    """Draws of a traced mechanism, scored by attacks that learned from the first of them."""

    own_layouts: list[Tree]  # one per attack
    digest: str  # digest of everything that determines the meaning of a count

    def learn_from(self, chunks: int, cuts: int, *, look: bool) -> None:
        """Let attacks learn from `chunks` chunks, and choose cuts by `cuts` more.

        With `look`, mechanism and attacks are checked for mistakes that invalidate counts; then a
        CellError is raised.
        """
        self._at_hand: dict[range, tuple[HostArray, HostArray]] = {}
        the_pass = self.the_pass
        with address.precision_of(self.run):
            self._make_data()
            self.learning()
            parts = range(chunks), range(chunks, chunks + cuts)
            fits = [self._fit(s.attacks[0], s.statistic, *parts) for s in the_pass.scorers]
            self.own_layouts = [layout for _, layout in fits]
            lifted = [trees.map(lambda leaf: np.asarray(leaf)[None, None], fit) for fit in fits]
            self.states = tuple(state for state, _ in lifted)
            self.layouts = tuple(layout for _, layout in lifted)
            self.attacks = tuple(trace.stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.zeros = rounds.no_counts(the_pass, self.layouts)
            keys = fingerprint.entry_keys(the_pass, self.states, self.layouts)
            self._at_hand.clear()
            self.digest = address.digest(sorted(keys.values()), 16)
            self.ready()
            self.begin()
            if look:
                self._look()

    def of(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Count a whole segment of one dataset."""
        done, counts = self.count(index, segment)
        if done != segment:
            raise SampleError(UNDONE)
        return counts

    def draw_and_count(
        self, index: int, segment: Segment, executor: Executor | None = None
    ) -> tuple[Segment, tuple[Tree, ...]]:
        chunks = segment.stop - segment.first
        small = not self.executor.is_local and not self.the_pass.slow
        if small and self.draws.seconds * chunks < TRIP and _CORES.acquire(blocking=False):
            try:
                return super().draw_and_count(index, segment, HERE)
            finally:
                _CORES.release()
        return super().draw_and_count(index, segment, executor)

    def drawn(self, chunks: range) -> tuple[HostArray, HostArray]:
        """Return the outputs of some chunks on D and on D′, as attacks see them; drawn once."""
        if chunks not in self._at_hand:
            both = self.draws.of_chunks(EVAL, 0, [(0, chunks), (1, chunks)])
            d0, d1 = (address.as_scored(outputs, self.dtype) for outputs in both)
            self._at_hand[chunks] = d0, d1
        return self._at_hand[chunks]

    def _fit(self, attack: Attack, statistic: Any, first: range, then: range) -> tuple[Tree, Tree]:
        """Return the state of an attack, and the cuts of its statistic."""
        the_pass, state = self.the_pass, ()
        if attack.has_fit():
            target = Target(the_pass.mechanisms[0], the_pass.pair, the_pass.shape.dims)
            key = threefry.base_key(the_pass.stream.of(LEARNER), self.prng)
            train = self.drawn(first) if learns(attack) else self.draws.nothing()
            state = fitted(attack, key, target, train)
        if not statistic.needs_pilot():
            return state, ()
        size = min(1024, the_pass.rows * len(then))
        pilot = [
            events.compiled_scores(attack, state, part, self.dtype, size, size)
            for part in self.drawn(then)
        ]
        return state, arrays("bind", guarded("bind", lambda: statistic.bind(*pilot)))
