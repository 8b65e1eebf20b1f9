"""An arm of a search of a black box."""

import copy
import math
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from dpframe.claims import Claim
from dpframe.common.types import HostArray
from dpframe.count.events import MOST_EXAMINED, AnswerEvents, Output, Seen, in_short, outputs_of
from dpframe.count.kept_answers import AnswerRounds
from dpframe.draw.trial_call import different, one_exception
from dpframe.interfaces.attack import Answers
from dpframe.search import arms
from dpframe.search.wealth import LOSS_LIMIT, WAYS, Point, farthest, mean, most_extreme

WARM_UP = 16
"""First answers of a pair on each dataset: half to learn from, half to estimate probabilities."""

GROWS_FROM = 256  # answers from which rounds grow by `GROWTH`; before, each round doubles them
GROWTH = 0.5  # answers of a round, as a share of those before

ALONE_FROM, ALONE_GROWTH, ALONE_LEARNED = 32, 1 / 12, 1 / 8
"""The same for the only pair of a search, and the share of its answers that attacks learn from.
Small rounds bet on what is known, early and often, as the estimator `betting` does."""

MOST_KEPT_BYTES = 1 << 30
"""Bytes of answers that all pairs of a search may keep; beyond them, attacks stop learning."""

LEARN_AGAIN = 2  # attacks learn again once there are this many times as many answers

MOST_LEARNED = 1 << 17
"""Answers per dataset from which attacks stop learning; they learn from half of them."""

LEAST_Z = 2.0
"""Standard errors beyond a claim below which nothing is bet. The best of many events lies this far
outside by chance, and after few answers a large share would be bet on it."""

LEAKED = 4.0  # standard errors beyond a claim from which kinds of answers leak by themselves


def _fresh(before: int, *, alone: bool) -> int:
    """Return the answers of a round, given those before it."""
    begin, growth = (ALONE_FROM, ALONE_GROWTH) if alone else (GROWS_FROM, GROWTH)
    return before if before < begin else int(growth * before)


def _learned_from(answers: int, *, alone: bool) -> int:
    """Return the answers that attacks learn from; the others give the probabilities of events."""
    return max(WARM_UP // 2, int(ALONE_LEARNED * answers)) if alone else answers // 2


class Room:
    """The memory left for answers of all pairs of a search."""

    def __init__(self) -> None:
        self._left = MOST_KEPT_BYTES

    def takes(self, nbytes: int) -> bool:
        """Reserve some bytes; False if they are not left."""
        fits = nbytes <= self._left
        self._left -= nbytes if fits else 0
        return fits

    def give_back(self, nbytes: int) -> None:
        """Free some bytes."""
        self._left += nbytes


class BlackBoxArm(arms.Arm):
    """One pair of a search of a black box.

    Answers are expensive to draw, so they are kept, and attacks learn again from more of them: from
    one half, while the other half gives the probabilities of events. If the search has no other
    pair, they learn from a smaller part, and each round is bet on.
    """

    def __init__(
        self,
        proposed: arms.Proposed,
        draws: AnswerRounds,
        events: AnswerEvents,
        room: Room,
        *,
        alone: bool = False,
    ) -> None:
        super().__init__(proposed, draws.stream.group)
        self.alone = alone  # True if the search has no other pair
        self._draws, self._events, self._room = draws, events, room
        most_first = max(WARM_UP, 2 * draws.sizes.rows_of(0))
        self._chunks, self._first = 0, draws.sizes.until(0, WARM_UP, most_first)
        self._kept: tuple[HostArray, HostArray] | None = None
        self._fresh: tuple[HostArray, HostArray] | None = None
        self._learned = 0  # answers that were kept when attacks last learned
        self._width = 0  # columns of these answers
        self._taken = 0  # bytes of the room
        self._raised = np.zeros(2)
        self.answers: set[tuple[int, int]] = set()
        """Codes of kind and value of all answers, or of two different ones."""
        self.raised: set[int] = set()  # kinds of exceptions among the first answers

    @property
    def least_z(self) -> float:
        """Standard errors beyond the claim below which nothing is bet."""
        return 0.0 if self.alone else LEAST_Z

    @property
    def durations(self) -> tuple[list[float], list[float]]:
        """Seconds per answer on D and on D′, each averaged over a few answers."""
        return self._draws.durations

    def first_draws(self) -> int:
        return self._draws.sizes.draws(0, self._first)

    def warm_up(self) -> None:
        self._kept = self._draws.begin(self._first)
        self._chunks, self.trials = self._first, len(self._kept[0])
        self._note(self._kept)
        self.raised = {int(kind) for rows in self._kept for kind in rows[Answers(rows).raised, 0]}
        self._learn(self._kept)

    def next_round(self, most: int) -> int:
        return self._fitting(_fresh(self.trials, alone=self.alone), most)

    def up_to(self, trials: int, most: int) -> int:
        """Return the draws per dataset until it has `trials`; 0 if the next round is as large."""
        wanted = trials - self.trials
        return 0 if wanted <= self.trials else self._fitting(wanted, most)

    def _fitting(self, wanted: int, most: int) -> int:
        stop = self._draws.sizes.until(self._chunks, wanted, most)
        return self._draws.sizes.draws(self._chunks, stop)

    def draw(self, draws: int) -> Seen:
        stop = self._draws.sizes.until(self._chunks, draws, draws)
        rows = self._draws.draw(self._chunks, stop)
        self._fresh = rows
        self._note(rows)
        self._chunks, self.trials = stop, self.trials + len(rows[0])
        # The attacks' states fit answers as wide as those that they learned from.
        return self._events.count((rows[0][:, : self._width], rows[1][:, : self._width]))

    def add_round(self, fresh: Seen) -> None:
        super().add_round(fresh)
        rows, self._fresh = self._fresh, None
        if self._kept is None or rows is None:
            return
        needed = 2 * rows[0].nbytes
        if self._learned >= MOST_LEARNED or not self._room.takes(needed):
            self._room.give_back(self._taken)
            self._kept = None  # attacks no longer learn from them
            return
        self._taken += needed
        x, y = (
            np.concatenate([self._draws.fitted(old), new])
            for old, new in zip(self._kept, rows, strict=True)
        )
        self._kept = x, y
        if len(x) >= LEARN_AGAIN * self._learned:
            self._learn(self._kept)

    def _learn(self, kept: tuple[HostArray, HostArray]) -> None:
        x, y = kept
        part = _learned_from(len(x), alone=self.alone)
        self._events.learn((x[:part], y[:part]), self._draws.shape)
        self.seen = self._events.count((x[part:], y[part:]))
        self._learned, self._width = len(x), x.shape[1]

    def _note(self, both: tuple[HostArray, HostArray]) -> None:
        self._raised += [Answers(rows).raised.sum() for rows in both]
        self.answers |= different(both)

    @property
    def exceptions(self) -> list[float]:
        """Shares of exceptions among all answers, on D and on D′."""
        shares: list[float] = (self._raised / max(1, self.trials)).tolist()
        return shares

    def same_exception(self) -> int | None:
        """Return the kind of the first answers if all are the same exception, else None.

        Call it after `warm_up`. Exceptions of several kinds may distinguish D from D′.
        """
        assert self._kept is not None
        return one_exception([Answers(rows) for rows in self._kept])

    def leaked_kinds(self) -> tuple[HostArray, tuple[int, int]] | None:
        # Those in the event farthest outside the claim, or the others if these are all exceptions
        # or not finite, or else rarer.
        if self._kept is None:
            return None
        inside, trials = [self._events.inside(rows) for rows in self._kept], len(self._kept[0])
        kinds, first, at = np.unique(np.concatenate(inside)[:, 0], True, True)
        answers = Answers(np.concatenate(inside)[first])
        odd = answers.raised | (~answers.absent & ~np.isfinite(answers.numbers)).any(axis=1)
        sides = at[: len(inside[0])], at[len(inside[0]) :]
        counts = np.stack([np.bincount(side, minlength=len(kinds)) for side in sides])
        order = np.argsort((counts[1] + 0.5) / (counts[0] + 0.5))
        above = counts[:, order[::-1]].cumsum(axis=1)[:, ::-1]
        guess = farthest(Seen(above, trials, (), trials - counts.sum(axis=1)), self.points)
        if guess is None or guess.z <= LEAKED:
            return None
        cut = int(guess.bet.event[0]) % len(kinds)
        rank = lambda of: (not odd[of].all(), counts[:, of].sum())  # noqa: E731
        leaked = kinds[min(order[:cut], order[cut:], key=rank)]
        x, y = (np.isin(rows[-self.seen.trials :, 0], leaked).sum() for rows in self._kept)
        return leaked, (int(x), int(y))

    def behind(self) -> "BlackBoxArm | None":
        """Return an arm for the answers that are not of the kinds by which this pair leaks.

        It continues the draws of this arm, which draws no more. None if no kind leaks, or if the
        other answers are so rare that they could not refute the claim.
        """
        if self._kept is None or (leaked := self.leaked_kinds()) is None:
            return None
        events, trials = self._events.behind(leaked[0]), len(self._kept[0])
        left = np.array([len(events.inside(rows)) for rows in self._kept])
        most = farthest(Seen(left[:, None] * [[0], [1]], trials, (), trials - left), self.points)
        other, needed = copy.copy(self), 2 * self._kept[0].nbytes
        if most is None or most.z <= 0 or min(left) < WARM_UP or not self._room.takes(needed):
            return None
        other._events, other._taken, other._raised = events, needed, self._raised.copy()
        other.known, other.earned, other.rounds, other.answers = "", 0.0, [], {*self.answers}
        other._learn(self._kept)
        return other

    def _event(
        self, attack: int, cut: int, words: Mapping[int, str], *, is_above: bool
    ) -> tuple[int, str | None, str]:
        return self._events.event(attack, cut, is_above=is_above, words=words)

    def _outputs(self, attack: int, cut: int, words: Mapping[int, str]) -> list[Iterable[Output]]:
        if self._kept is None:
            return [[], []]
        edge = self._events.learned[attack].cuts[cut]
        newest = [rows[-MOST_EXAMINED:, : self._width] for rows in self._kept]
        both = [self._events.inside(rows) for rows in newest]
        return [
            outputs_of(self._events.scores_of(attack, rows), edge, texts)
            for rows in both
            for texts in [[partial(_text, row, words) for row in rows]]
        ]

    def conclude(self) -> None:
        """Check the answers once more; raises WorthlessError."""
        self._draws.conclude()


def _text(row: HostArray, words: Mapping[int, str]) -> str:
    """Write one answer, shape [3 + width]."""
    answer = Answers(row[None])
    code = answer.kinds if answer.raised[0] else answer.values
    if (description := words.get(int(code[0]))) is not None:
        return in_short(np.zeros(1), {0.0: description})
    # A text in an answer is marked by half of its code.
    texts = {float(code >> 32): text for code, text in words.items()}
    return in_short(answer.numbers[0][~answer.absent[0]], texts)


MOST_NEEDED = 2**50  # draws that no search can make


def draws_needed(claim: Claim, error: float, *, alone: bool = False) -> int | None:
    """Estimate the draws per dataset after which the most extreme answers would refute a claim.

    The most extreme answers always differ. Half of the wealth is left out, because other pairs may
    have lost it, unless the pair is `alone`. `error` is the probability with which a true claim may
    be refuted. None if no number of draws is enough.
    """
    telling_points = [Point(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    points = tuple(point for point in telling_points if point.epsilon <= LOSS_LIMIT)
    before, wealth = WARM_UP, np.zeros(WAYS)
    while before < MOST_NEEDED:
        fresh = _fresh(before, alone=alone)
        # Attacks learn from some of the draws before; only the others estimate probabilities.
        estimating = before - _learned_from(before, alone=alone)
        wealth = wealth + most_extreme(estimating, fresh, points, 0.0 if alone else LEAST_Z)
        before += fresh
        if mean(wealth) - (0.0 if alone else math.log(2)) >= -math.log(error):
            return before
    return None
