"""A pass of a search: one pair of datasets, drawn, learned from and counted in rounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.machine import available_cores
from dpframe.common.types import HostArray, Tree
from dpframe.count import checkpoint, events, fingerprint, rounds
from dpframe.count.events import Seen
from dpframe.count.scoring import fitted
from dpframe.count.work import TracedPass
from dpframe.draw import streams, threefry, trace
from dpframe.draw.local_executor import LOCAL_EXECUTOR
from dpframe.draw.streams import EVAL, LEARNER, Segment, segments
from dpframe.errors import SampleError
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.plugin_calls import arrays, call_plugin, learns

Counter = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Makes calls, perhaps concurrently, and returns their values."""

SEND_SECONDS = 0.1
"""Seconds below which a segment is counted in this process if a core is free: sending it takes
hundredths of a second, compiling elsewhere takes seconds, and a search waits for every round."""

_CORES = threading.BoundedSemaphore(available_cores())

UNDONE = "some draws of a round are missing: a search bets on whole rounds"


class PairPass(TracedPass):
    """The draws of one pair of a search, scored by attacks that learned from the first of them."""

    own_layouts: list[Tree]  # one per attack
    digest: str  # digest of everything that determines the meaning of a count

    def learn_from(self, chunks: int, cuts: int, *, look: bool) -> None:
        """Let attacks learn from `chunks` chunks, and choose cuts by `cuts` more.

        With `look`, mechanism and attacks are checked for mistakes that invalidate counts; then a
        CellError is raised.
        """
        self._at_hand: dict[range, tuple[HostArray, HostArray]] = {}
        the_pass = self.the_pass
        with streams.precision_of(self.run):
            self._make_data()
            self.learning()
            parts = range(chunks), range(chunks, chunks + cuts)
            fits = [self._fit(s.attacks[0], s.statistic, *parts) for s in the_pass.scorers]
            self.own_layouts = [layout for _, layout in fits]
            lifted = [
                trees.map(lambda leaf: np.asarray(leaf)[None, None], leaves_of_fit)
                for leaves_of_fit in fits
            ]
            self.states = tuple(state for state, _ in lifted)
            self.layouts = tuple(layout for _, layout in lifted)
            self.attacks = tuple(trace.stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.zeros = rounds.no_counts(the_pass, self.layouts)
            keys = fingerprint.entry_keys(the_pass, self.states, self.layouts)
            self._at_hand.clear()
            self.digest = streams.digest(sorted(keys.values()), 16)
            self.ready()
            self.begin()
            if look:
                self._check_first_outputs()

    def counted(self, chunks: range, store: checkpoint.Store, at_once: Counter) -> Seen:
        """Count some chunks; stored ones are not drawn again."""
        stream, key = self.the_pass.stream, f"{self.digest}-{chunks.start}-{chunks.stop}"
        zeros, structure = trees.flatten(self.zeros)
        if (total := self._stored(store, key, len(chunks))) is None:
            total = [zero.astype(np.int64) for zero in zeros]
            for counted in at_once(self._tasks(chunks)):
                leaves = trees.leaves(counted)
                total = [one + more for one, more in zip(total, leaves, strict=True)]
            done = (len(chunks), len(chunks))
            store.save(stream, key, checkpoint.Saved(done, [leaf.tolist() for leaf in total]))
        counts = trees.unflatten(structure, total)
        parts = [
            events.above(statistic, trees.map(lambda leaf: leaf[0, 0], own))
            for statistic, own in zip(self.statistics, counts, strict=True)
        ]
        cuts = tuple(part.shape[1] for part in parts)
        return Seen(np.concatenate(parts, axis=1), len(chunks) * self.the_pass.rows, cuts)

    def _stored(self, store: checkpoint.Store, key: str, chunks: int) -> list[HostArray] | None:
        """Return the leaves of stored counts of some chunks; None if absent or impossible."""
        saved = store.load(self.the_pass.stream, key)
        if saved is None or saved.done != (chunks, chunks):
            return None
        left, stored = saved.leaves, list[HostArray]()
        for statistic, zero in zip(self.statistics, self.zeros, strict=True):
            number = len(trees.leaves(zero))
            trials = np.full((1, 1, 2), chunks * self.the_pass.rows)
            own = checkpoint.stored_counts(statistic, left[:number], zero, trials, 2)
            if own is None:
                return None
            left, stored = left[number:], [*stored, *trees.leaves(own)]
        return None if left else stored

    def _tasks(self, chunks: range) -> list[Callable[[], Any]]:
        rows, slow = self.the_pass.rows, self.the_pass.slow
        size = chunks.stop * rows, rows, self.the_pass.elements, chunks.start
        return [
            partial(self.of, dataset, segment)
            for segment in segments(*size, slow=slow)
            for dataset in (0, 1)
        ]

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
        if small and self.draws.seconds * chunks < SEND_SECONDS and _CORES.acquire(blocking=False):
            try:
                return super().draw_and_count(index, segment, LOCAL_EXECUTOR)
            finally:
                _CORES.release()
        return super().draw_and_count(index, segment, executor)

    def drawn(self, chunks: range) -> tuple[HostArray, HostArray]:
        """Return the outputs of some chunks on D and on D′, as attacks see them; drawn once."""
        if chunks not in self._at_hand:
            both = self.draws.of_chunks(EVAL, 0, [(0, chunks), (1, chunks)])
            d0, d1 = (streams.as_scored(outputs, self.dtype) for outputs in both)
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
        return state, arrays("bind", call_plugin("bind", lambda: statistic.bind(*pilot)))
