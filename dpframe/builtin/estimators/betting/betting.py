"""The estimator that may be looked at at any time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from dpframe import Estimate, Estimator, Query, Statistic
from dpframe.builtin.estimators.betting._book import Book, lines
from dpframe.builtin.estimators.betting._cuts import Cuts, above
from dpframe.builtin.estimators.betting._split import rounds_of_counts, rounds_of_scores
from dpframe.stats.betting import choose, events
from dpframe.stats.betting_bound import History, bound, history
from dpframe.stats.reach import evidence_below, reaches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe import Floats, HostArray, Ints, Settled, Tree


GROWN = 1.4
"""Draws are this many times as many before bets are worked out again."""


class State(NamedTuple):
    """What is known after some rounds."""

    rounds: tuple[tuple[Ints, int], ...] = ()
    """Draws at or above each cut, shape [2, cuts], and how many draws on each side."""
    above: Ints | None = None
    """All of them together."""
    trials: int = 0
    book: Book = Book()
    """What was earned against the claim."""
    path: tuple[tuple[int, float], ...] = ()
    """Draws on each side, and the logarithm of the wealth against the claim."""
    settled_at: int = 0
    """Draws on each side of the rounds that the book knows. What a bet earns is worked out for
    several rounds at a time, which changes nothing: it depends on the rounds before it alone."""


class Betting(Estimator, name="betting"):
    """Bets against the claim round by round; valid at every number of trials at once.

    Before a round the event and the guess of its probabilities are chosen that the rounds before
    suggest; the round multiplies the wealth by the likelihood ratio of the guess to what is
    nearest to it under the claim [Shafer2021], [Turner2024]. Under a true claim wealth exceeds 1/a
    at any time with probability a at most [Ville1939], so 1 / (largest wealth) is a p-value,
    whenever one stops. The bound is where wealth against every smaller ε of a fixed grid refutes
    it. No pilot is drawn, no threshold fixed, no look paid for: what was bet on chooses the next
    event. The first round fixes the cuts of the scores, and nothing is bet on it.

    Against a claim that is a curve each bet is against the point of it that the past contradicts
    most. Assumes nothing but independent, identically distributed outputs. The point value is that
    of the event with the largest loss at the bound.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    anytime: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "bets in terms of likelihood ratios [Shafer2021] (doi:10.1111/rssa.12647), against the "
        "nearest point of the claim [Turner2024] (arXiv:2106.02693)"
    )

    def statistic(self) -> Statistic:
        return Cuts()

    def observe(self, state: State | None, layout: Tree, counts: Ints, query: Query) -> State:
        before = state or State()
        new, trials = above(np.asarray(counts)), min(query.trials)
        total = before.trials + trials
        after = before._replace(
            rounds=(*before.rounds, (new, trials)),
            above=new if before.above is None else before.above + new,
            trials=total,
        )
        if not before.rounds or total >= GROWN * before.settled_at:
            return _caught_up(after, query)
        return after

    def settled(self, state: State, layout: Tree, query: Query) -> Settled | None:
        error = 1 - query.confidence
        if query.claim is None or state.settled_at < state.trials:
            return None
        if state.book.p_values[1] <= error:
            return "violated"
        against = lines(query.claim, query.resolution)
        slope, delta = against.slope[against.group[0]], against.delta[against.group[0]]
        if state.above is None or not state.trials or not len(slope):
            return None
        # Every event, also those that hardly ever happened: one of them may show the violation.
        hits, wanted = events(state.above, state.trials), -math.log(error)
        rarest = hits[None, hits.sum(axis=1).argmin()]
        # Where one is out of reach of proof, the rest need none.
        for some in (hits,) if _decided(state) else (rarest, hits):
            found = evidence_below(some[:, None], state.trials, slope, delta)
            if np.any(found < wanted):
                return None
        return "unreachable"

    def conclude(self, state: State, layout: Tree, query: Query) -> Estimate:
        error = 1 - query.confidence
        if state.above is None or not state.trials:
            return _nothing(query)
        state = _caught_up(state, query)
        assert state.above is not None
        lower = bound(history(list(state.rounds)), query.delta, error)
        if query.claim is not None and state.book.p_values[0] > error:
            # The claim's own wealth is part of the grid: a bound above a claim rejects it.
            lower = min(lower, query.claim.epsilon_at(query.delta))
        hits = events(state.above, state.trials)
        some, drawn = _limited(state, np.array([query.delta]))
        limit = max(lower, reaches(some, drawn, query.delta, error))
        slope = np.exp(np.array([lower]))
        best = int(choose(state.above, state.trials, slope, query.delta).event[0])
        none = query.claim is None
        return Estimate(
            epsilon=_loss(hits[best] / state.trials, query.delta),
            epsilon_lower=lower,
            epsilon_upper=limit,
            epsilon_upper_of="every event" if _decided(state) else "chosen thresholds",
            p_value=None if none else state.book.p_values[0],
            p_resolved=None if none else state.book.p_values[1],
            wealth=state.path,
        )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        return self._played(rounds_of_counts(np.asarray(counts)), layout, query)

    def estimate_scores(
        self, scores: tuple[HostArray, HostArray], query: Query, rng: np.random.Generator
    ) -> Estimate:
        layout, rounds = rounds_of_scores(scores, rng)
        return self._played(rounds, layout, query)

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        bins = max(2, len(layout) + 2)
        counts = np.zeros((2, bins), np.int64)
        counts[0, 0], counts[1, -1] = trials
        return counts

    def _played(self, rounds: Iterable[Ints], layout: Tree, query: Query) -> Estimate:
        state = State()
        for counts in rounds:
            trials = int(counts[0].sum())
            state = self.observe(state, layout, counts, query._replace(trials=(trials, trials)))
        return self.conclude(state, layout, query)


LOSSES = np.array([0.0, *np.geomspace(0.01, 20, 24)])
"""Against which the events are chosen whose loss is limited."""

TELLING = 4.0
"""Standard errors by which an event must show a loss to be limited; more than the luckiest of
hundreds of cuts shows."""


def _limited(state: State, delta: Floats) -> tuple[Ints, int]:
    """Events whose loss is limited, and draws that did not choose them.

    All of them for decisions. Of scores, cuts so far out that nothing was counted beyond them set
    no limit. So the first half of the draws chooses the cuts that show a loss, and the other half
    limits how much they show.
    """
    assert state.above is not None
    if _decided(state):
        return events(state.above, state.trials), state.trials
    past = history(list(state.rounds))
    half = int(np.searchsorted(past.drawn, state.trials / 2))
    if half >= len(past.drawn):
        return np.zeros((1, 2), np.int64), 1
    before, drawn = past.before[half], int(past.drawn[half])
    slopes, deltas = (part.ravel() for part in np.meshgrid(np.exp(LOSSES), np.unique(delta)))
    found = choose(before, drawn, slopes, deltas)
    telling = found.z * math.sqrt(drawn) > TELLING
    chosen = np.unique(found.event[telling | (slopes == 1)])
    left = state.trials - drawn
    return events(state.above - before, left)[chosen], left


def _caught_up(state: State, query: Query) -> State:
    """With a book of all rounds."""
    path = state.path
    if query.claim is None or len(path) == len(state.rounds):
        return state._replace(settled_at=state.trials)
    known = max(1, len(path))
    if not path:
        path = ((state.rounds[0][1], 0.0),)
    if len(state.rounds) == 1:
        return state._replace(path=path, settled_at=state.trials)
    whole = history(list(state.rounds))
    past = History(*(part[known - 1 :] for part in whole))
    book, grown = state.book.played(lines(query.claim, query.resolution), past)
    ends = (past.drawn + past.trials).tolist()
    path += tuple(zip(ends, grown[:, 0].tolist(), strict=True))
    return state._replace(book=book, path=path, settled_at=state.trials)


def _decided(state: State) -> bool:
    return state.above is not None and state.above.shape[1] == 1


def _loss(rates: HostArray, delta: float) -> float:
    q, p = float(rates[0]), float(rates[1])
    if p <= delta:
        return 0.0
    return max(0.0, math.log((p - delta) / q)) if q > 0 else math.inf


def _nothing(query: Query) -> Estimate:
    p_value = None if query.claim is None else 1.0
    return Estimate(0.0, 0.0, math.inf, p_value=p_value, p_resolved=p_value)
