"""One pair of a search: what was drawn of it, what its attacks have learned, what it has shown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.addresses.chunks import segments
from dpframe.engine.counts.checkpoint import Saved, Store
from dpframe.engine.search.cuts import above, in_words
from dpframe.engine.search.learned import Learned
from dpframe.engine.search.wealth import Point, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpframe.claims import Claim
    from dpframe.engine.addresses.chunks import Segment
    from dpframe.engine.planning.plan import Pass
    from dpframe.engine.programs.recipe import Away
    from dpframe.pair import Pair
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
        away: who counts elsewhere; None: counted here.
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
        away: Away | None = None,
    ) -> None:
        self.the_pass, self.claim, self.points, self.scale = the_pass, claim, points, scale
        self.run, self.prng, self.tried = run, prng, tried
        self.store, self.away = store, away
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
        work.away = self.away
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
