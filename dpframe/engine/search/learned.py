"""Draws of one pair, counted under what its attacks learned from the first of them."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.attack import Target
from dpframe.engine.addresses.address import EVAL, LEARNER, base_key, digest
from dpframe.engine.addresses.content import data_digest
from dpframe.engine.addresses.precision import as_scored, both_as_made, precision_of
from dpframe.engine.boxes.processes import available_cores
from dpframe.engine.boxes.seeing import seen, seen_shape
from dpframe.engine.checks.answers import arrays, learns
from dpframe.engine.checks.guard import guarded
from dpframe.engine.counts.tally import no_counts
from dpframe.engine.passes.device import DeviceWork
from dpframe.engine.passes.work import CHANGED
from dpframe.engine.planning.fingerprint import entry_keys
from dpframe.engine.planning.lanes import stack, unstacked
from dpframe.engine.planning.trace import check_scores
from dpframe.engine.programs import programs
from dpframe.engine.programs.parcel import count_segment
from dpframe.errors import CellError, SampleError

if TYPE_CHECKING:
    from dpframe.attack import Attack
    from dpframe.engine.addresses.chunks import Segment
    from dpframe.types import HostArray, Tree

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
        small = self.away is not None and not self.the_pass.slow
        if small and self.draws.seconds * chunks < TRIP and _CORES.acquire(blocking=False):
            try:
                return self.counted_by(count_segment, index, segment)
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
