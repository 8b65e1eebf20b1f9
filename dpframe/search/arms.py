"""An arm of a search: one pair, its draws and its attacks."""

from __future__ import annotations

import dataclasses
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.common.machine import available_cores
from dpframe.engine.checkpoint import Saved, Store
from dpframe.engine.checks import arrays, guarded, learns
from dpframe.engine.fingerprint import entry_keys
from dpframe.engine.passes import CHANGED, DeviceWork
from dpframe.engine.rounds import no_counts
from dpframe.engine.trace import check_scores, stack, unstacked
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.attack import Target
from dpframe.interfaces.statistic import BinCounts, DecisionCounts, Statistic
from dpframe.sampling import programs
from dpframe.sampling.address import (
    EVAL,
    LEARNER,
    as_scored,
    base_key,
    both_as_made,
    digest,
    precision_of,
    segments,
)
from dpframe.sampling.content import data_digest
from dpframe.search.wealth import Point, Seen
from dpframe.workers.tasks import HERE
from dpframe.workers.trial_call import seen, seen_shape

if TYPE_CHECKING:
    from dpframe.common.types import HostArray, Ints, Tree
    from dpframe.interfaces.attack import Attack
    from dpframe.sampling.address import Segment


# Scores between cuts that reach far into both tails: what a search chooses its events from.


@dataclasses.dataclass(frozen=True)
class Cuts(BinCounts):
    """Counts of scores between cuts at quantiles of what was seen before."""

    number: int = 64
    """Cuts; where scores take fewer values there is one at each."""

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Any:
        seen = np.concatenate([pilot0, pilot1])
        seen = np.sort(seen[~np.isnan(seen)])
        if not len(seen):
            return np.zeros(self.number, pilot0.dtype)
        values = np.unique(seen)
        if len(values) <= self.number:
            return np.resize(values, self.number)[np.argsort(np.resize(values, self.number))]
        # Ranks from either end, each a little farther from it: a tail has events of every size.
        ranks = np.geomspace(1, len(seen) / 2, self.number // 2).astype(int)
        return np.sort(np.concatenate([seen[ranks - 1], seen[-ranks]]))


def above(statistic: Statistic, layout: Tree, counts: Tree) -> Ints:
    """Draws at or above each cut, shape [2, cuts]: on D, on D′.

    Args:
        statistic: `Cuts`, or counts of decisions, where "at or above" means D′.
        layout: the cuts.
        counts: of the statistic.
    """
    (leaf,) = jax.tree.leaves(counts)
    found = np.asarray(leaf, np.int64)
    if isinstance(statistic, DecisionCounts):
        return found[:, 1:]
    return np.cumsum(found[:, :1:-1], axis=1)[:, ::-1]


def in_words(statistic: Statistic, layout: Tree, cut: int, *, is_above: bool) -> str:
    """One event of a statistic, after the name of its attack."""
    if isinstance(statistic, DecisionCounts):
        return "decides D′" if is_above else "decides D"
    edge = float(np.asarray(layout)[cut])
    return f"scores {edge:.6g} or more" if is_above else f"scores less than {edge:.6g}"


# Draws of one pair, counted under what its attacks learned from the first of them.


TRIP = 0.1
"""Seconds below which a segment is not sent away if a core is free here: the way there and back
takes some hundredths, what is compiled there some seconds, and a search waits for every round."""

_CORES = threading.BoundedSemaphore(available_cores())

UNDONE = "the draws of a round did not all come: a search bets on whole rounds"


class Learned(DeviceWork):
    """Draws of a mechanism that JAX traces."""

    own_layouts: list[Tree]
    """One per attack."""
    digest: str
    """Of all that decides what a count means."""

    def learn_from(self, chunks: int, cuts: int) -> None:
        """Attacks learn from the first chunks; the next say where cuts stand.

        Args:
            chunks: how many are learned from.
            cuts: how many say where cuts stand.

        Raises:
            CellError: the author's mistake.
        """
        self._at_hand: dict[range, tuple[HostArray, HostArray]] = {}
        the_pass = self.the_pass
        with precision_of(self.run):
            self.made = guarded("the pair", partial(both_as_made, the_pass.pair))
            if guarded("the pair", partial(data_digest, self.made)) != the_pass.data:
                raise CellError(CHANGED)
            self.learning()
            parts = range(chunks), range(chunks, chunks + cuts)
            fitted = [self._fit(s.attacks[0], s.statistic, *parts) for s in the_pass.scorers]
            self.own_layouts = [layout for _, layout in fitted]
            lifted = [jax.tree.map(lambda leaf: np.asarray(leaf)[None, None], f) for f in fitted]
            self.states = tuple(state for state, _ in lifted)
            self.layouts = tuple(layout for _, layout in lifted)
            self.attacks = tuple(stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.zeros = no_counts(the_pass, self.layouts)
            keys = entry_keys(the_pass, self.states, self.layouts)
            self._at_hand.clear()
            self.digest = digest(sorted(keys.values()), 16)
            self.ready()
        self.begin()

    def look(self) -> None:
        """Looks for mistakes of authors that would make every count worthless."""
        with precision_of(self.run):
            self._look()

    def of(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Counts of a segment of one dataset, all of it."""
        done, counts = self.count(index, segment)
        if done != segment:
            raise SampleError(UNDONE)
        return counts

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        chunks = segment.stop - segment.first
        small = not self.executor.is_local and not self.the_pass.slow
        if small and self.draws.seconds * chunks < TRIP and _CORES.acquire(blocking=False):
            try:
                return self.counted_by(HERE, index, segment)
            finally:
                _CORES.release()
        return super().draw_and_count(index, segment)

    def _drawn(self, chunks: range) -> tuple[HostArray, HostArray]:
        """Outputs of some chunks on D and on D′, as attacks see them; drawn once."""
        if chunks not in self._at_hand:
            both = self.draws.of_chunks(EVAL, 0, [(0, chunks), (1, chunks)])
            d0, d1 = (as_scored(outputs, self.dtype) for outputs in both)
            self._at_hand[chunks] = d0, d1
        return self._at_hand[chunks]

    def _fit(self, attack: Attack, statistic: Any, first: range, then: range) -> tuple[Tree, Tree]:
        """What an attack learns, and where its statistic has cuts."""
        the_pass, state = self.the_pass, ()
        if attack.has_fit():
            dims = seen_shape(attack, the_pass.shape, self.dtype).dims
            target = Target(the_pass.mechanisms[0], the_pass.pair, dims)
            key = base_key(the_pass.stream.of(LEARNER), self.prng)
            drawn = self.draws.nothing()
            if learns(attack):
                drawn = self._drawn(first)
            d0, d1 = (seen(attack, part, the_pass.shape, self.dtype) for part in drawn)
            state = arrays("fit", guarded("fit", lambda: attack.fit(key, target, (d0, d1))))
        if not statistic.needs_pilot():
            return state, ()
        leaves, size = unstacked(attack, self.dtype), min(1024, the_pass.rows * len(then))

        def score(outputs: HostArray) -> HostArray:
            # So many at a time: one program serves any number.
            whole = np.resize(outputs, (size, *outputs.shape[1:]))
            call = partial(programs.score_given, leaves, state, whole)
            found = np.asarray(guarded("score", call))
            check_scores(found, size, attack.gives)
            return found[: len(outputs)]

        drawn = self._drawn(then)
        pilot = [seen(attack, part, the_pass.shape, self.dtype) for part in drawn]
        scores = [
            np.concatenate([score(part[at : at + size]) for at in range(0, len(part), size)])
            for part in pilot
        ]
        return state, arrays("bind", guarded("bind", lambda: statistic.bind(*scores)))


# One pair of a search: what was drawn of it, what its attacks have learned, what it has shown.


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpframe.claims import Claim
    from dpframe.engine.plan import Pass
    from dpframe.interfaces.executor import Executor
    from dpframe.interfaces.pair import Pair
    from dpframe.sampling.address import Segment
    from dpframe.spec.audit import RunSettings

    Counter = Callable[[Sequence[Callable[[], Any]]], list[Any]]

WARM_UP = 3 << 10
"""Draws of each dataset that every pair gets before anything is bet on, where trials abound."""

SHARE = 1 / 24
"""Of the trials, which a pair is warmed up with at most."""

GROWTH = 0.4
"""Draws of a round, as a share of those that its pair had before."""

MOST_LEARNED = 1 << 21
"""Draws per dataset that attacks learn from, at most."""

ENTRIES = 1 << 25
"""Coordinates of the outputs of a dataset that they learn from, about: so many are in memory."""

MOST_FOR_CUTS = 1 << 16
"""Draws per dataset that cuts are chosen from, at most."""


class Arm:
    """One pair of a search.

    Draws are numbered by chunks. What an attack learns, where the cuts stand and what is guessed of
    an event all come from chunks that were bet on before, or never are.

    Args:
        the_pass: the draws: one mechanism, one scorer per attack.
        claim: for this pair.
        points: of the claim, that are bet against.
        scale: loss claimed for this pair, as a multiple of the first one's.
        run: settings of the audit.
        prng: name of the generator.
        store: where counts are kept.
        tried: what was looked at already; shared by all arms.
        executor: counts.
    """

    least = 0.0
    """Standard errors beyond a claim below which nothing is bet."""
    at_once = False
    """Whether it is played as soon as it looks promising, before other pairs are begun."""

    def __init__(
        self,
        the_pass: Pass,
        claim: Claim | None,
        points: tuple[Point, ...],
        scale: float,
        run: RunSettings,
        prng: str,
        store: Store,
        tried: set[Any],
        executor: Executor = HERE,
    ) -> None:
        self.the_pass, self.claim, self.points, self.scale = the_pass, claim, points, scale
        self.run, self.prng, self.tried = run, prng, tried
        self.store, self.executor = store, executor
        self.drawn = 0
        """Chunks of each dataset that were drawn."""
        self.seen = Seen(np.zeros((2, 0), np.int64), 0)
        self.earned = 0.0
        """What its rounds have earned against the claim, as a logarithm."""
        self._learned = 0
        """Chunks that attacks have learned from."""
        self._work: Learned | None = None

    @property
    def pair(self) -> Pair:
        """Its pair."""
        return self.the_pass.pair

    @property
    def mechanism(self) -> Any:
        """Resolved for the pair."""
        return self.the_pass.mechanisms[0]

    @property
    def group(self) -> str:
        """Of its draws."""
        return self.the_pass.stream.group

    @property
    def data(self) -> str:
        """Digest of the pair."""
        return self.the_pass.data

    @property
    def trials(self) -> int:
        """Draws of each dataset."""
        return self.drawn * self.the_pass.rows

    def first(self) -> int:
        """Draws of each dataset that it begins with."""
        rows = self.the_pass.rows
        return 3 * rows * max(1, int(min(WARM_UP, SHARE * self.the_pass.trials)) // (3 * rows))

    def warm_up(self, count: Counter) -> None:
        """Draws for the first time: half to learn from, the rest for cuts and to guess by."""
        self.drawn = self.first() // self.the_pass.rows
        self._learn(self.drawn // 2, count)

    def next_round(self, most: int) -> int:
        """Draws of each dataset in the next round, at most so many; 0 if none can be."""
        rows = self.the_pass.rows
        return rows * min(max(1, int(GROWTH * self.drawn)), most // rows)

    def draw(self, draws: int, count: Counter) -> Seen:
        """Draws a round and counts it, under cuts that were chosen before."""
        chunks = draws // self.the_pass.rows
        fresh = self._counted(range(self.drawn, self.drawn + chunks), count)
        self.drawn += chunks
        return fresh

    def take_in(self, fresh: Seen, count: Counter) -> None:
        """A round that was bet on serves to choose what is bet on next."""
        self.seen = Seen(self.seen.above + fresh.above, self.seen.trials + fresh.trials)
        most = min(MOST_LEARNED, max(MOST_FOR_CUTS, ENTRIES // max(1, self.the_pass.elements)))
        enough = -(-most // self.the_pass.rows)
        if self._learned < enough and self.drawn >= 16 * self._learned:
            self._learn(min(self.drawn // 4, enough), count)

    def event(self, number: int, words: Mapping[int, str]) -> tuple[int, str | None, str, int]:
        """An event of `seen`.

        Args:
            number: which.
            words: what codes of kinds and values stand for; arrays have none.

        Returns:
            Which attack, the event in words where there are any, in terms of scores, and the
            dataset under which it is the more likely.
        """
        assert self._work is not None
        cuts = self.seen.above.shape[1]
        side, cut = divmod(number, cuts)
        scorers = zip(self._work.statistics, self._work.own_layouts, strict=True)
        for place, (statistic, layout) in enumerate(scorers):
            own = 1 if not np.size(layout) else len(np.asarray(layout))
            if cut < own:
                scores = in_words(statistic, layout, cut, is_above=side in (0, 2))
                return place, None, scores, 1 if side < 2 else 0
            cut -= own
        raise IndexError(number)

    def _learn(self, chunks: int, count: Counter) -> None:
        """Attacks learn from the first chunks, cuts come from the next; the rest is counted."""
        work = Learned(self.the_pass, self.run, self.prng, Store(), self.tried)
        work.executor = self.executor
        cuts = max(1, min(chunks // 2, MOST_FOR_CUTS // self.the_pass.rows))
        work.learn_from(chunks, cuts)
        if self._work is None:
            work.look()
        self._work, self._learned = work, chunks
        self.seen = self._counted(range(chunks + cuts, self.drawn), count)

    def conclude(self) -> None:
        """A last look at the outputs; raises WorthlessError."""
        if self._work is not None:
            self._work.conclude()

    def _counted(self, chunks: range, count: Counter) -> Seen:
        """Counts of some chunks; those that are stored are not drawn again."""
        work = self._work
        assert work is not None
        stream, key = self.the_pass.stream, f"{work.digest}-{chunks.start}-{chunks.stop}"
        zeros, structure = jax.tree.flatten(work.zeros)
        saved = self.store.load(stream, key)
        if saved is None or [np.shape(leaf) for leaf in saved.leaves] != [z.shape for z in zeros]:
            parts = [partial(work.of, index, piece) for index, piece in self._pieces(chunks)]
            total = [zero.astype(np.int64) for zero in zeros]
            for counted in count(parts):
                leaves = jax.tree.leaves(counted)
                total = [one + more for one, more in zip(total, leaves, strict=True)]
            done = (len(chunks), len(chunks))
            self.store.save(stream, key, Saved(done, [leaf.tolist() for leaf in total]))
        else:
            total = [np.asarray(leaf, np.int64) for leaf in saved.leaves]
        counts = jax.tree.unflatten(structure, total)
        found = [
            above(statistic, layout, jax.tree.map(lambda leaf: leaf[0, 0], own))
            for statistic, layout, own in zip(
                work.statistics, work.own_layouts, counts, strict=True
            )
        ]
        return Seen(np.concatenate(found, axis=1), len(chunks) * self.the_pass.rows)

    def _pieces(self, chunks: range) -> list[tuple[int, Segment]]:
        rows, elements = self.the_pass.rows, self.the_pass.elements
        size = (chunks.stop * rows, rows, elements, chunks.start)
        return [
            (index, piece) for piece in segments(*size, slow=self.the_pass.slow) for index in (0, 1)
        ]
