"""The anytime estimator: bets against the claim, round by round."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpframe import (
    Array,
    BinCounts,
    Claim,
    DecisionCounts,
    Estimate,
    Estimator,
    Floats,
    HostArray,
    Ints,
    Query,
    Settled,
    Statistic,
    Tree,
)
from dpframe.builtin.estimators.events import beyond, epsilon_at
from dpframe.stats.betting import (
    MOST_AT_ONCE,
    Bet,
    History,
    bound,
    choose,
    earned,
    events,
    history,
    suspected,
)
from dpframe.stats.independence import log_chance_of_order
from dpframe.stats.joint import evidence_below, reaches

TINY = 1e-300  # no p-value is below
MOST = 690.0  # logarithms of larger wealths give smaller ones
MOST_GROWTH = 600.0  # ε whose exponential is still far from the largest float


class Lines(NamedTuple):
    """Half-planes p ≤ e^ε q + δ that contain every event under a claim."""

    slope: Floats
    delta: Floats
    group: tuple[slice, slice]  # of the exact claim, and of the claim widened by the resolution


@functools.lru_cache(maxsize=256)
def lines(claim: Claim, resolution: float) -> Lines:
    """Return the claim at each δ, exactly and widened by rates known only up to `resolution`."""
    said = [(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    said = [(epsilon, delta) for epsilon, delta in said if epsilon <= MOST_GROWTH]
    slope = np.exp(np.array([epsilon for epsilon, _ in said], np.float64))
    exact = np.array([delta for _, delta in said], np.float64)
    widened = exact + resolution * (1 + slope)
    usable, left = exact < 1, widened < 1
    number = int(usable.sum())
    return Lines(
        np.concatenate([slope[usable], slope[left]]),
        np.concatenate([exact[usable], widened[left]]),
        (slice(0, number), slice(number, number + int(left.sum()))),
    )


class Book(NamedTuple):
    """The earnings of bets against a claim, exact and widened."""

    log_wealth: Floats = np.zeros((2, 2))  # of each of the two ways to guess, shape [ways, 2]
    best: Floats = np.zeros(2)  # largest logarithm of their mean so far

    @property
    def p_values(self) -> tuple[float, float]:
        """p-values valid at every number of draws at once."""
        exact, widened = (max(math.exp(-w) if w < MOST else 0.0, TINY) for w in self.best.tolist())
        return min(exact, 1.0), min(max(exact, widened), 1.0)

    def played(self, lines: Lines, past: History) -> tuple[Book, Floats]:
        """Bet on rounds: in each against the line that the draws before it contradict most.

        Returns the new book, and the logarithm of the wealth after each round, shape [rounds, 2].
        """
        # Without the empty groups; the widened one is empty first.
        groups = [group for group in lines.group if group.stop > group.start]
        factors = np.zeros((2, len(past.trials), 2))
        size = max(1, MOST_AT_ONCE // (4 * past.above.shape[2] * max(1, len(lines.slope))))
        for at in range(0, len(past.trials) if groups else 0, size):
            block = History(*(part[at : at + size] for part in past))
            factors[:, at : at + size, : len(groups)] = _factors(lines, groups, block)
        grown = np.cumsum(np.concatenate([self.log_wealth[:, None], factors], axis=1), axis=1)
        path = np.logaddexp(*grown[:, 1:]) - math.log(2)
        return Book(grown[:, -1], np.maximum(self.best, path.max(axis=0, initial=0.0))), path


def _factors(lines: Lines, groups: list[slice], past: History) -> Floats:
    """Return the logarithms of what rounds pay, shape [2, rounds, groups]."""
    guess, z = suspected(past, lines.slope, lines.delta)
    rounds, places = np.arange(len(z))[:, None], []
    for group in groups:
        among = z[:, :, group]
        event, line = np.divmod(among.reshape(len(z), -1).argmax(axis=1), among.shape[2])
        places.append((event, line + group.start))
    event, line = (np.stack(part, axis=-1) for part in zip(*places, strict=True))
    drawn = events(past.above, past.trials)
    q, p = guess[rounds, event, 0], guess[rounds, event, 1]
    bet = Bet(event, q, p, z[rounds, event, line])
    of = (lines.slope[line], lines.delta[line])
    return earned(drawn[rounds, event], past.trials[:, None], bet, *of)


EDGES = 320  # cuts of scores; fewer of them are told apart from one another
BEYOND = 44  # cuts outside of the extremes, on each side


@dataclasses.dataclass(frozen=True)
class Cuts(BinCounts):
    """Counts of scores between edges, and of decisions: `counts[dataset][bin or decision]`.

    The edges come from the scores of the first round, on which nothing is bet.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"decision", "score"})

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> HostArray:
        if pilot0.dtype == np.bool_:
            return np.zeros(0, np.float32)
        return cuts(pilot0, pilot1)

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        if scores.dtype == np.bool_:
            return DecisionCounts().update((), counts, dataset, scores, keep)
        return super().update(layout, counts, dataset, scores, keep)

    def describe(self, layout: Tree) -> dict[str, Any]:
        edges = np.asarray(layout)
        if not len(edges):
            return DecisionCounts().describe(())
        # As short as their precision allows: a float32 has half the digits of its float64.
        return {**super().describe(layout), "edges": [float(str(edge)) for edge in edges]}


def cuts(scores0: HostArray, scores1: HostArray) -> HostArray:
    """Return ascending edges padded with inf, shape [EDGES], in the dtype of the scores.

    Edges lie at every value, just above repeated ones to isolate atoms, and between values and
    beyond the extremes as far as there is room.
    """
    dtype = scores0.dtype
    values = np.sort(np.concatenate([scores0, scores1]))
    values = values[np.isfinite(values)]
    distinct, times = np.unique(values, return_counts=True)
    atoms = distinct[times > 1]
    own = np.concatenate([distinct, np.nextafter(atoms, np.array(np.inf, dtype))])
    info = np.finfo(dtype)
    ends = np.array([info.min, np.inf], dtype)
    wide = distinct.astype(np.float64)
    outer = np.zeros(0)
    if len(wide):
        outer = beyond(wide, BEYOND, 1000, otherwise=float(np.abs(wide).max()) or 1.0)
    room = EDGES - 2 - len(outer)
    if len(own) > room:
        own = own[np.linspace(0, len(own) - 1, room).round().astype(int)]
    room -= len(own)
    between = np.zeros(0)
    if len(wide) > 1 and room > 0:
        between = np.interp(
            (np.arange(room) + 0.5) / room * (len(wide) - 1), np.arange(len(wide)), wide
        )
    with np.errstate(over="ignore"):
        every = np.concatenate([own, between.astype(dtype), outer.astype(dtype), ends])
    edges = np.unique(every[every > -np.inf])[:EDGES]
    return np.concatenate([edges, np.full(EDGES - len(edges), np.inf, dtype)]).astype(dtype)


def above(counts: HostArray) -> HostArray:
    """Count draws at or above each cut, from counts in bins, shape [2, bins − 1]."""
    return np.cumsum(counts[:, ::-1], axis=1, dtype=np.int64)[:, -2::-1]


FIRST = 64  # draws of the first round, on each side
GROWTH, LEAST = 9, 8  # a round is one of so many parts of all before it, and at least so many draws
MOST_SPLIT = 10**9  # draws that NumPy deals out exactly


def sizes(trials: int) -> list[int]:
    """Return the draws of each round, on each side; the last one takes the rest."""
    found, total = [], 0
    while total < trials:
        size = max(LEAST, total // GROWTH) if total else FIRST
        found.append(min(size, trials - total))
        total += found[-1]
    return found


def rounds_of_counts(counts: HostArray) -> Iterator[Ints]:
    """Deal counts, shape [2, bins], out to rounds as a shuffled deck, by fixed dice.

    Independent draws are as good in any order. If one side has fewer draws, some of the other are
    left out.
    """
    left = counts.astype(np.int64)
    trials = int(min(left.sum(axis=1)))
    if max(left.sum(axis=1)) >= MOST_SPLIT:
        yield left
        return
    rng = np.random.default_rng(0)
    for size in sizes(trials):
        dealt = np.stack(
            [rng.multivariate_hypergeometric(side, size, method="marginals") for side in left]
        )
        left = left - dealt
        yield dealt


ORDER_ERROR = 1e-6  # probability that scores in a random order are taken for sorted ones
SHUFFLED = (
    "the order of the scores depends on their values, so they were shuffled: bound and p-value "
    "hold for one look at them, not for one after each of several"
)


def in_order(
    scores: tuple[HostArray, HostArray], rng: np.random.Generator
) -> tuple[tuple[HostArray, HostArray], tuple[str, ...]]:
    """Return scores in an order in which they may be bet on, and a remark if it is not their own.

    Their own order is that of a file that grows at its end: what was bet on never moves, so every
    length of it shows the same bets. Scores that are sorted or grouped are shuffled.
    """
    own = (np.asarray(scores[0]), np.asarray(scores[1]))
    if min(map(log_chance_of_order, own)) >= math.log(ORDER_ERROR / 2):
        return own, ()
    return (rng.permutation(own[0]), rng.permutation(own[1])), (SHUFFLED,)


def rounds_of_scores(
    scores: tuple[HostArray, HostArray],
) -> tuple[HostArray, Iterator[Ints]]:
    """Return edges from the first of the scores, and the counts of each round between them."""
    if scores[0].dtype == np.bool_:
        edges, bins, number = np.zeros(0, np.float32), [p.astype(np.int64) for p in scores], 2
    else:
        numbers = [np.asarray(part, np.float64) for part in scores]
        edges = cuts(*(part[:FIRST] for part in numbers))
        bins = [
            np.where(np.isnan(part), 0, 1 + np.searchsorted(edges, part, side="right"))
            for part in numbers
        ]
        number = len(edges) + 2

    def dealt() -> Iterator[Ints]:
        at = 0
        for size in sizes(min(map(len, bins))):
            parts = [part[at : at + size] for part in bins]
            yield np.stack([np.bincount(part, minlength=number) for part in parts])
            at += size

    return edges, dealt()


GROWN = 1.4  # draws are this many times as many before bets are worked out again


class State(NamedTuple):
    """The counts and earnings of the rounds so far."""

    rounds: tuple[tuple[Ints, int], ...] = ()
    """Draws at or above each cut, shape [2, cuts], and how many draws on each side."""
    above: Ints | None = None  # all of them together
    trials: int = 0
    book: Book = Book()  # what was earned against the claim
    path: tuple[tuple[int, float], ...] = ()
    """Draws on each side, and the logarithm of the wealth against the claim."""
    settled_at: int = 0
    """Draws on each side in the rounds that are in the book. Several rounds are entered at a time,
    which changes nothing: a bet depends only on the rounds before its own."""


class Betting(Estimator, name="betting"):
    """Bets against the claim round by round; valid at every number of trials at once.

    Before a round the event and the guess of its probabilities are chosen that the rounds before
    suggest; the round multiplies the wealth by the likelihood ratio of the guess to what is
    nearest to it under the claim [Shafer2021], [Turner2024]. Under a true claim wealth exceeds 1/a
    at any time with probability a at most [Ville1939], so 1 / (largest wealth) is a p-value,
    whenever one stops. The bound is where wealth against every smaller ε of a fixed grid refutes
    it. No pilot is drawn, no threshold fixed, no look paid for: what was bet on chooses the next
    event. The first round fixes the cuts of the scores, and nothing is bet on it. Scores made
    elsewhere are bet on in the order of their file, which may grow at its end.

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
        # Every event, however rare: one of them may show the violation.
        hits, wanted = events(state.above, state.trials), -math.log(error)
        rarest = hits[None, hits.sum(axis=1).argmin()]
        # If one cannot be ruled out, the rest need not be looked at.
        for some in (hits,) if _decided(state) else (rarest, hits):
            found = evidence_below(some[:, None], state.trials, slope, delta)
            if np.any(found < wanted):
                return None
        return "unreachable"

    def conclude(self, state: State, layout: Tree, query: Query) -> Estimate:
        error = 1 - query.confidence
        if state.above is None or not state.trials:
            p_value = None if query.claim is None else 1.0
            return Estimate(0.0, 0.0, math.inf, p_value=p_value, p_resolved=p_value)
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
        q, p = (hits[best] / state.trials).tolist()
        none = query.claim is None
        return Estimate(
            epsilon=epsilon_at(q, p, query.delta),
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
        ordered, notes = in_order(scores, rng)
        layout, rounds = rounds_of_scores(ordered)
        return self._played(rounds, layout, query)._replace(notes=notes)

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
"""Standard errors by which an event must show a loss to be limited: more than chance among hundreds
of cuts."""


def _limited(state: State, delta: Floats) -> tuple[Ints, int]:
    """Return the events whose loss is limited, and the number of draws that did not choose them.

    Decisions have few events, all of which are limited. Far-out cuts of scores, beyond which
    nothing was counted, set no limit; so the first half of the draws chooses the cuts that show a
    loss, and the other half limits it.
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
    """Enter all rounds in the book."""
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
