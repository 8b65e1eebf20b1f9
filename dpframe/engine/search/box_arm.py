"""One pair of a search of a black box: its answers are kept, since they are dear to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.answers import Answers
from dpframe.engine.search.wealth import Point, Seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.claims import Claim
    from dpframe.engine.search.arm import Counter
    from dpframe.engine.search.box_draws import BoxDraws
    from dpframe.engine.search.views import Views
    from dpframe.pair import Pair
    from dpframe.types import HostArray

WARM_UP = 16
"""Answers of each dataset with which a pair begins: half to learn from, half to guess by."""

GROWTH = 0.5
"""Answers of a round, as a share of those before, once there are some hundreds; at first more."""

MANY = 256

ROOM = 1 << 30
"""Bytes of answers that all pairs of a search keep together; then attacks do not learn again."""

AGAIN = 2
"""Answers after which attacks learn again, as a multiple of those when they last did."""

MOST_LEARNED = 1 << 17
"""Answers per dataset after which they do not any more: half of them are learned from."""

CLEAR = 2.0
"""Standard errors beyond a claim below which nothing is bet: the luckiest of many events lies as
far outside, and of few answers it would be bet on with much."""


class Room:
    """What is left of the memory in which the pairs of a search keep answers."""

    def __init__(self, nbytes: int = ROOM) -> None:
        self._left = nbytes

    def takes(self, nbytes: int) -> bool:
        """Takes so much, if it is left."""
        fits = nbytes <= self._left
        self._left -= nbytes if fits else 0
        return fits

    def give_back(self, nbytes: int) -> None:
        """So much is not kept any more."""
        self._left += nbytes


class BoxArm:
    """One pair of a search of a black box.

    What is bet on in a round is decided by the rounds before: half of all answers were learned
    from, the other half says how likely events are. Answers that were drawn are kept, and attacks
    learn again from more of them.

    Args:
        pair: the pair.
        mechanism: resolved for it.
        claim: for this pair.
        points: of the claim, that are bet against.
        scale: loss claimed for this pair, as a multiple of the first one's.
        draws: where answers come from.
        views: what attacks make of them.
        data: digest of the pair.
        room: where answers are kept.
    """

    least = CLEAR
    at_once = True

    def __init__(
        self,
        pair: Pair,
        mechanism: Any,
        claim: Claim | None,
        points: tuple[Point, ...],
        scale: float,
        draws: BoxDraws,
        views: Views,
        data: str,
        room: Room,
    ) -> None:
        self.pair, self.mechanism, self.claim = pair, mechanism, claim
        self.points, self.scale, self.data = points, scale, data
        self.group = draws.stream.group
        self.trials = 0
        self.seen = Seen(np.zeros((2, 0), np.int64), 0)
        self.earned = 0.0
        self._draws, self._views, self._room = draws, views, room
        self._chunks, self._first = (
            0,
            draws.sizes.until(0, WARM_UP, max(WARM_UP, 2 * draws.sizes.rows_of(0))),
        )
        self._kept: tuple[HostArray, HostArray] | None = None
        self._learned = 0
        """Answers that were kept when attacks last learned."""
        self._taken = 0
        """Bytes of the room."""
        self._width = 0
        """Columns of the answers then."""
        self._fresh: tuple[HostArray, HostArray] | None = None

    @property
    def drawn(self) -> int:
        """Changes whenever anything was drawn."""
        return self._chunks

    def first(self) -> int:
        """Draws of each dataset that it begins with."""
        return self._draws.sizes.draws(0, self._first)

    def warm_up(self, count: Counter) -> None:
        """Draws for the first time."""
        self._kept = self._draws.begin(self._first)
        self._chunks, self.trials = self._first, len(self._kept[0])
        self._learn()

    def next_round(self, most: int) -> int:
        """Draws of each dataset in the next round; 0 if none is left."""
        share = 1.0 if self.trials < MANY else GROWTH
        stop = self._draws.sizes.until(self._chunks, int(share * self.trials), most)
        return self._draws.sizes.draws(self._chunks, stop)

    def up_to(self, trials: int, most: int) -> int:
        """Draws of each dataset until it has had so many; 0 if the next round is as large."""
        wanted = trials - self.trials
        if wanted <= self.trials:
            return 0
        stop = self._draws.sizes.until(self._chunks, wanted, most)
        return self._draws.sizes.draws(self._chunks, stop)

    @property
    def paces(self) -> tuple[list[float], list[float]]:
        """Seconds per answer on D and on D′, each of a few of them."""
        return self._draws.paces

    def draw(self, draws: int, count: Counter) -> Seen:
        """Draws a round and counts the events that were chosen before."""
        stop = self._draws.sizes.until(self._chunks, draws, draws)
        rows = self._draws.draw(self._chunks, stop)
        self._fresh = rows
        self._chunks, self.trials = stop, self.trials + len(rows[0])
        # What attacks have learned fits answers as wide as those that they learned from.
        return self._views.seen((rows[0][:, : self._width], rows[1][:, : self._width]))

    def take_in(self, fresh: Seen, count: Counter) -> None:
        """A round that was bet on serves to choose what is bet on next."""
        self.seen = Seen(self.seen.above + fresh.above, self.seen.trials + fresh.trials)
        fresh_rows, self._fresh = self._fresh, None
        if self._kept is None or fresh_rows is None:
            return
        needed = 2 * fresh_rows[0].nbytes
        if self._learned >= MOST_LEARNED or not self._room.takes(needed):
            self._room.give_back(self._taken)
            self._kept = None  # nothing is learned from them any more
            return
        self._taken += needed
        x, y = (
            np.concatenate([self._draws.fitted(old), new])
            for old, new in zip(self._kept, fresh_rows, strict=True)
        )
        self._kept = x, y
        if len(x) >= AGAIN * self._learned:
            self._learn()

    @property
    def shows_nothing(self) -> bool:
        """Whether all answers until now, on D and on D′, were one and the same exception."""
        assert self._kept is not None
        both = [Answers(rows) for rows in self._kept]
        kinds = np.unique(np.concatenate([answers.kinds for answers in both]))
        return len(kinds) == 1 and all(bool(answers.raised.all()) for answers in both)

    @property
    def first_kind(self) -> int:
        """The code of the kind of its first answer."""
        assert self._kept is not None
        return int(Answers(self._kept[0]).kinds[0])

    def event(self, number: int, words: Mapping[int, str]) -> tuple[int, str | None, str, int]:
        """An event of `seen`.

        Args:
            number: which.
            words: what codes of kinds and values stand for.

        Returns:
            Which attack, the event in words if there are any, in scores, and the dataset under
            which it is the more likely.
        """
        side, cut = divmod(number, self.seen.above.shape[1])
        above = side in (0, 2)
        place, told = self._views.event(cut, above=above, words=words)
        return place, told, self._views.plain(cut, above=above), 1 if side < 2 else 0

    def conclude(self) -> None:
        """A last look at the answers; raises WorthlessError."""
        self._draws.conclude()

    def _learn(self) -> None:
        assert self._kept is not None
        x, y = self._kept
        half = len(x) // 2
        self._views.learn((x[:half], y[:half]), self._draws.shape)
        self.seen = self._views.seen((x[half:], y[half:]))
        self._learned, self._width = len(x), x.shape[1]
