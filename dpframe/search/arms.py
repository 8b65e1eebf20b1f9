"""Arms of a search: each is a pair with its draws and its attacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common import trees
from dpframe.common.types import HostArray
from dpframe.count import checkpoint, events
from dpframe.count.events import Output, Seen
from dpframe.count.pair_pass import PairPass
from dpframe.count.plan import Pass
from dpframe.draw import streams
from dpframe.errors import CellError
from dpframe.interfaces.pair import Pair
from dpframe.search.wealth import Point
from dpframe.spec.sweep import Setting

if TYPE_CHECKING:
    from dpframe.search.search import Settings

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
    def least_z(self) -> float:
        """Standard errors beyond the claim below which nothing is bet."""
        return 0.0

    @property
    def exceptions(self) -> list[float] | None:
        """Shares of exceptions among its answers, on D and on D′; None if none count."""
        return None

    def leaked_kinds(self) -> tuple[HostArray, tuple[int, int]] | None:
        """Return the codes of kinds of answers that leak, and their hits in `seen`, if any leak."""
        return None

    @property
    def shows_one_output(self) -> bool:
        """True if every event has probability 0 or 1 so far, the same on D and on D′."""
        above = self.seen.above
        return bool(np.isin(above, (0, self.seen.trials)).all() and (above[0] == above[1]).all())

    @abstractmethod
    def first_draws(self) -> int:
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

    def add_round(self, fresh: Seen) -> None:
        """Add a round to the draws that choose later bets; attacks may learn from them."""
        above, trials = self.seen.above + fresh.above, self.seen.trials + fresh.trials
        outside = None if fresh.outside is None else self.seen.outside + fresh.outside
        self.seen = self.seen._replace(above=above, trials=trials, outside=outside)

    def event(self, number: int, words: Mapping[int, str]) -> tuple[int, str | None, str, int]:
        """Describe an event of `seen`.

        `words` are texts of codes of kinds and values; arrays have none.

        Returns:
            The attack; the event in the attack's words, if it has any; the event in terms of
            scores; and the dataset under which it is more likely.
        """
        side = number // self.seen.above.shape[1]
        described = self._event(*self.seen.place(number), words, is_above=side in (0, 2))
        return *described, 1 if side < 2 else 0

    def examples(self, number: int, words: Mapping[int, str]) -> dict[str, Any]:
        """Return different outputs inside an event of `seen`, and outside it."""
        side = number // self.seen.above.shape[1]
        try:
            outputs = self._outputs(*self.seen.place(number), words)
            return events.examples_of(outputs, is_above=side in (0, 2))
        except CellError:  # a finding must not fail for lack of examples
            return {}

    @abstractmethod
    def _outputs(self, attack: int, cut: int, words: Mapping[int, str]) -> list[Iterable[Output]]:
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
        self._work: PairPass | None = None

    def _outputs(self, attack: int, cut: int, words: Mapping[int, str]) -> list[Iterable[Output]]:
        work, edge = self._work, self._edge(attack, cut)
        assert work is not None
        of = self.the_pass.scorers[attack].attacks[0]
        state = trees.map(lambda leaf: leaf[0, 0], work.states[attack])
        outputs_of_both: list[Iterable[Output]] = []
        # Outputs are not kept, but a chunk can be drawn again at its address.
        with streams.precision_of(self.settings.run):
            for outputs in work.drawn(range(self.drawn - 1, self.drawn)):
                part = outputs[: events.MOST_EXAMINED]
                scores = events.compiled_scores(of, state, part, work.dtype, events.MOST_EXAMINED)
                outputs_of_both.append(
                    events.outputs_of(scores, edge, (partial(events.in_short, one) for one in part))
                )
        return outputs_of_both

    def _edge(self, attack: int, cut: int) -> Any:
        """Return the score at a cut; decisions, which have no layout, have one cut, True."""
        assert self._work is not None
        edges = np.ravel(self._work.own_layouts[attack])
        return edges[cut] if len(edges) else True

    def first_draws(self) -> int:
        return self.the_pass.rows * chunks_at_first(self.the_pass.trials, self.the_pass.rows)

    def warm_up(self) -> None:
        self._note_chunks(self.first_draws() // self.the_pass.rows)
        self._learn(self.drawn // 2)

    def next_round(self, most: int) -> int:
        rows = self.the_pass.rows
        return rows * min(max(1, int(GROWTH * self.drawn)), most // rows)

    def draw(self, draws: int) -> Seen:
        chunks = draws // self.the_pass.rows
        fresh = self._counted(range(self.drawn, self.drawn + chunks))
        self._note_chunks(chunks)
        return fresh

    def _note_chunks(self, chunks: int) -> None:
        self.drawn += chunks
        self.trials = self.drawn * self.the_pass.rows

    def add_round(self, fresh: Seen) -> None:
        super().add_round(fresh)
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
        work = PairPass(self.the_pass, run, prng, checkpoint.Store(), self.tried)
        work.executor = self.settings.executor
        cuts = chunks_for_cuts(chunks, self.the_pass.rows)
        work.learn_from(chunks, cuts, look=self._work is None)
        self._work, self._learned = work, chunks
        self.seen = self._counted(range(chunks + cuts, self.drawn))

    def _counted(self, chunks: range) -> Seen:
        assert self._work is not None
        return self._work.counted(chunks, self.settings.store, self.settings.at_once)
