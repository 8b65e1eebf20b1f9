"""An arm of a search of a black box."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.checkpoint import Saved
from dpframe.interfaces.attack import Answers
from dpframe.search.wealth import LOSS_LIMIT, Point, Seen, farthest
from dpframe.stats.betting import pay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpframe.claims import Claim
    from dpframe.common.types import HostArray
    from dpframe.engine.checkpoint import Store
    from dpframe.interfaces.pair import Pair
    from dpframe.sampling.address import Stream
    from dpframe.search.arms import Counter
    from dpframe.search.box_draws import BoxDraws
    from dpframe.search.views import Views


# How much of a fast box is looked at at once, before anything is bet on it.
#
# To learn from answers takes some time however few they are, and a fast box gives thousands of
# them
# in that time. A pair that shows nothing in its first few answers is bet on with nothing anyway.
# So
# it is not followed in small steps: its next answers are as many as the box gives in a moment,
# they
# are learned from, and then it is seen how far the pair lies from the claim.
#
# Whether a box is fast enough depends on this machine. There are only two answers, so that one
# seed
# gives the same draws wherever a box is clearly the one or the other; and what counts is the
# median
# of what the answers of all pairs took, by the workers' own clocks: what else the machine does
# holds
# some of them up, but not half. The answer is kept, so that a search that was interrupted goes
# through the same steps.


MOMENT = 0.5
"""Seconds of the box's work for a whole look, on both datasets together, at most."""

LARGEST = 1 << 11
"""Answers of each dataset: attacks that are slow to learn are not asked yet."""


DEARER = 10
"""Times what a look may take, that it may take of one pair: its data may be larger."""


def is_fast(own: Sequence[Sequence[float]], all_pairs: Sequence[Sequence[float]]) -> bool:
    """Whether a box gives all answers of a look in a moment.

    Args:
        own: seconds per answer of the pair that would be looked at, on D and on D′, each of a few
            answers.
        all_pairs: of every pair and dataset.
    """
    told, limit = [pace for paces in all_pairs for pace in paces], MOMENT / (2 * LARGEST)
    if not told or statistics.median_low(told) > limit:
        return False
    return all(paces and min(paces) <= DEARER * limit for paces in own)


class Haste:
    """The sizes of all looks of one search, in their order.

    Args:
        store: where they are kept.
        stream: address of the search.
        key: of what is searched.
    """

    def __init__(self, store: Store, stream: Stream, key: str) -> None:
        self._store, self._stream, self._key = store, stream, key
        kept = store.load(stream, key)
        self._sizes: list[int] = [] if kept is None else list(kept.leaves)
        self._taken = 0
        self.last = 0
        """Answers per dataset that a pair had after the last look; 0 where the box is too slow."""

    def next(self, fast: bool, most: int) -> int:
        """How many answers per dataset a pair should have had after a look.

        Args:
            fast: whether the box is fast enough.
            most: how many there may be.
        """
        if self._taken == len(self._sizes):
            fits = min(most, LARGEST) if fast else 0
            # Few sizes: what is compiled for one serves for all.
            self._sizes.append(1 << (fits.bit_length() - 1) if fits else 0)
            number = len(self._sizes)
            self._store.save(self._stream, self._key, Saved((number, number), [*self._sizes]))
        self.last = self._sizes[self._taken]
        self._taken += 1
        return self.last


# One pair of a search of a black box: its answers are kept, since they are dear to draw.


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


# How many draws a search of a black box takes before it could refute a claim at all.


FIRST = WARM_UP
"""Draws before the first bet."""

MOST = 2**50


def draws_needed(claim: Claim, error: float) -> int | None:
    """Draws per dataset after which the most extreme answers would have refuted a claim, about.

    Answers that always differ: nothing tells more. Of half of the wealth nothing is counted, which
    other pairs may have lost.

    Args:
        claim: what is claimed.
        error: with which a true claim may be refuted.

    Returns:
        None where no number of draws would do.
    """
    points = [Point(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    points = [point for point in points if point.epsilon <= LOSS_LIMIT]
    before, wealth = FIRST, np.zeros(2)
    while before < MOST:
        fresh = before if before < MANY else int(GROWTH * before)
        # Half of what came before was learned from, and does not say how likely events are.
        past, now = (Seen(np.array([[0], [n]]), n) for n in (before // 2, fresh))
        guess = farthest(past, points)
        if guess is not None and guess.z > CLEAR:
            slope = np.exp([guess.point.epsilon])
            wealth = wealth + pay(now.above, now.trials, guess.bet, slope, guess.point.delta)[:, 0]
        before += fresh
        if np.logaddexp(*wealth) - 2 * math.log(2) >= -math.log(error):
            return before
    return None
