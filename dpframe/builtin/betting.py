"""The anytime estimator: bets against the claim, round by round."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpframe.builtin.events import apart, beyond, epsilon_at
from dpframe.plugins import (
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
    Tree,
)
from dpframe.stats import output_bets
from dpframe.stats.betting import choose, events
from dpframe.stats.independence import log_chance_of_order
from dpframe.stats.joint import evidence_below, reaches
from dpframe.stats.output_bounds import History, bound, history, in_agreement, profile_below
from dpframe.stats.shares import learned, places

TINY = 1e-300  # smallest p-value
MOST_WEALTH = 690.0  # log-wealth from which the p-value is `TINY`


class Against(NamedTuple):
    """A claim as lines, exactly and widened by the resolution of the rates."""

    exact: output_bets.Lines | None  # None if no line leaves anything to bet against
    widened: output_bets.Lines | None  # allows more; None if `exact` is

    def bets(self, supposed: output_bets.Supposed) -> Sequence[Floats | None]:
        """Return the bets against both; the same array if both are the same lines."""
        if self.exact is None:
            return None, None
        if self.widened is not None and self.widened is not self.exact:
            return output_bets.bets_of_both(supposed, self.exact, self.widened)
        bets = output_bets.bets(supposed, self.exact)
        return bets, None if self.widened is None else bets


@functools.lru_cache(maxsize=256)
def against(claim: Claim, resolution: float) -> Against:
    """Return the lines of a claim."""
    curve = claim.epsilon_at, claim.delta_at, claim.telling_deltas
    exact = output_bets.lines_of(*curve)
    return Against(exact, output_bets.lines_of(*curve, resolution) if resolution else exact)


class Book(NamedTuple):
    """The earnings of bets against a claim, exact and widened."""

    log_wealth: Floats = np.zeros(
        (len(output_bets.LOG_PRIOR), 2)
    )  # of each way to bet, shape [ways, 2]
    best: Floats = np.zeros(2)  # largest logarithm of their mean so far

    @property
    def p_values(self) -> tuple[float, float]:
        """p-values valid at every number of draws at once."""
        # NaN, which no bet pays, stays NaN, and the engine refuses it.
        exact, widened = (
            TINY if w >= MOST_WEALTH else min(math.exp(-w), 1.0) for w in self.best.tolist()
        )
        return exact, max(widened, exact)

    @property
    def now(self) -> Floats:
        """Logarithm of the wealth, shape [2]."""
        return output_bets.mean_wealth(self.log_wealth)

    def played(self, claim: Against, supposed: output_bets.Supposed, counts: Ints) -> Book:
        """Bet on a round against a claim.

        The distribution of the output is estimated from all earlier rounds. The round has the
        counts of each group, with equally many draws on both datasets.
        """
        paid = np.zeros_like(self.log_wealth)
        for place, chosen in enumerate(claim.bets(supposed)):
            if chosen is not None:
                paid[:, place] = np.sum(chosen * counts, axis=(1, 2))
        after = self._replace(log_wealth=self.log_wealth + paid)
        return after._replace(best=np.maximum(self.best, after.now))


@functools.lru_cache(maxsize=1 << 14)
def _supposed(
    edges: bytes, dtype: str, bins: int, seen: tuple[int, ...], counts: bytes
) -> tuple[output_bets.Supposed, Ints]:
    """Return `grouped` for the counts of all rounds so far, and the groups of the seen bins."""
    every = np.zeros((2, bins), np.int64)
    every[:, seen] = np.frombuffer(counts, np.int64).reshape(2, -1)
    middle = places(np.frombuffer(edges, dtype)) if edges else None
    supposed, group = output_bets.grouped(learned(every, middle), every.sum(axis=0))
    return supposed, group[list(seen)]


EDGES = 320  # cuts of scores; fewer of them may be different
BEYOND = 44  # cuts outside the extremes, on each side


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


FIRST_ROUND = 8  # draws of the first round, on each side
LEAST_ROUND = 4  # draws of a round
GROWTH, LATER = 12, 6  # a round is 1/GROWTH of all before it, and later 1/LATER
LATER_FROM = 10_000  # draws from which LATER applies
MOST_SPLIT = 10**9  # draws that NumPy deals out exactly


def sizes(trials: int) -> list[int]:
    """Return the draws of each round, on each side; the last one takes the rest."""
    rounds, total = [], 0
    while total < trials:
        size = max(LEAST_ROUND, total // (GROWTH if total < LATER_FROM else LATER))
        rounds.append(min(size if total else FIRST_ROUND, trials - total))
        total += rounds[-1]
    return rounds


def rounds_of_counts(counts: HostArray) -> Iterator[Ints]:
    """Deal counts, shape [2, bins], out to rounds as a shuffled deck, by fixed dice.

    The order of independent draws does not matter. If one side has fewer draws, some of the other
    are left out.
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
    "the order of the scores depends on their values, so they were shuffled: bound and p-value are "
    "valid for one look at them, not for several"
)


def in_order(
    scores: tuple[HostArray, HostArray], rng: np.random.Generator
) -> tuple[tuple[HostArray, HostArray], tuple[str, ...]]:
    """Return scores in a valid order for bets, and a remark if this is not their own order.

    A file keeps its own order because it may grow at its end: scores that were bet on never move,
    so the same bets are repeated at every length. Scores that are sorted or grouped are shuffled.
    """
    own = (np.asarray(scores[0]), np.asarray(scores[1]))
    if min(map(log_chance_of_order, own)) >= math.log(ORDER_ERROR / 2):
        return own, ()
    return _shuffled(own, rng), (SHUFFLED,)


def _shuffled(
    scores: tuple[HostArray, HostArray], rng: np.random.Generator
) -> tuple[HostArray, HostArray]:
    return rng.permutation(scores[0]), rng.permutation(scores[1])


def rounds_of_scores(scores: tuple[HostArray, HostArray]) -> tuple[HostArray, Iterator[Ints]]:
    """Return edges chosen from the first scores, and the counts of each round between them."""
    if scores[0].dtype == np.bool_:
        edges, bins, number = np.zeros(0, np.float32), [p.astype(np.int64) for p in scores], 2
    else:
        numbers = [np.asarray(part, np.float64) for part in scores]
        edges = cuts(*(part[:FIRST_ROUND] for part in numbers))
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


Profile = tuple[tuple[float, float], ...]  # points (ε, δ), by ascending ε


class State(NamedTuple):
    """The counts and earnings of the rounds so far."""

    rounds: tuple[tuple[output_bets.Supposed, Ints], ...] = ()
    """For each round but the first, the estimated distribution before it and its counts by
    group."""
    parts: tuple[Ints, ...] = ()  # counts of each round, shape [2, bins]
    counts: Ints | None = None  # in all rounds together, shape [2, bins]
    trials: int = 0
    book: Book = Book()  # what was earned against the claim
    path: tuple[tuple[int, float], ...] = ()
    """Draws on each side, and the logarithm of the wealth against the claim."""
    past: list[History] | None = None  # of `rounds`, once it is asked for; None without any

    @property
    def above(self) -> Ints:
        """Draws at or above each cut in all rounds together, shape [2, cuts]."""
        assert self.counts is not None
        return above(self.counts)


class Betting(Estimator, name="betting"):
    """Bets against the claim round by round; valid at every number of trials at once.

    Before a round every bin of outputs gets a weight for each dataset, from the shares that the
    rounds before suggest; a draw multiplies the wealth by the weight of its bin. The weights are
    log-optimal against the claim, at all δ at once if it is a curve [Grunwald2024], [Larsson2025].
    Under a true claim wealth exceeds 1/a at any time with probability a at most [Ville1939], so
    1 / (largest wealth) is a p-value, whenever one stops. The bound is the largest ε of a grid
    for which the same bets refute it and every smaller one; the claim is a point of this grid.
    Each round's counts choose the next weights, so there is no pilot, no fixed threshold and no
    look to pay for. The first round fixes the cuts of the scores, and nothing is bet on it. Scores
    made elsewhere are bet on in the order of their file, which may grow at its end.

    Assumes nothing but independent, identically distributed outputs. The point value is that of the
    event with the largest loss at the bound.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    anytime: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "bets in terms of likelihood ratios [Shafer2021] (doi:10.1111/rssa.12647), against the "
        "reverse information projection on the claim [Grunwald2024] (arXiv:1906.07801)"
    )

    def statistic(self) -> Cuts:
        return Cuts()

    def observe(self, state: State | None, layout: Tree, counts: Ints, query: Query) -> State:
        before, new, trials = state or State(), np.asarray(counts), min(query.trials)
        total, parts = before.trials + trials, (*before.parts, new)
        if before.counts is None:
            start = () if query.claim is None else ((total, 0.0),)
            return State((), parts, new.astype(np.int64), total, Book(), start)
        book, rounds, path = before.book, before.rounds, before.path
        if before.trials:
            middle = places(np.asarray(layout)) if np.size(layout) else None
            share = learned(before.counts, middle)
            supposed, group = output_bets.grouped(share, before.counts.sum(axis=0))
            own = np.stack([np.bincount(group, side, supposed.mass.size) for side in new])
            rounds = (*rounds, (supposed, own))
            if query.claim is not None:
                book = book.played(against(query.claim, query.resolution), supposed, own)
        if query.claim is not None:
            path = (*path, (total, float(book.now[0])))
        return State(rounds, parts, before.counts + new, total, book, path, [])

    def refuted(
        self, layout: Tree, counts: Ints, query: Query, rounds: Sequence[int] = ()
    ) -> HostArray:
        """Play all audits round by round; those with equal counts so far share their bets."""
        every, edges = np.asarray(counts), np.asarray(layout)
        bins = tuple(np.flatnonzero(every.any(axis=(0, 1, 2))).tolist())
        key = edges.tobytes(), edges.dtype.str, every.shape[-1], bins
        every, wanted = every[..., bins], -math.log(1 - query.confidence)
        before = np.cumsum(every, axis=1)
        wealth, best = (
            np.zeros((len(output_bets.LOG_PRIOR), 2, len(every))),
            np.zeros((2, len(every))),
        )
        assert query.claim is not None
        claim = against(query.claim, query.resolution)
        for number in range(1, len(rounds)):
            live = np.flatnonzero(best.min(axis=0) < wanted)
            seen = before[live, number - 1].reshape(len(live), -1)
            distinct, same = np.unique(seen, axis=0, return_inverse=True)
            known = [_supposed(*key, each.tobytes()) for each in distinct]
            supposed = output_bets.Supposed(
                *map(np.stack, zip(*(one for one, _ in known), strict=True))
            )
            groups, new = np.stack([group for _, group in known]), every[live, number]
            paid: Any = [0.0, 0.0]
            chosen = claim.bets(supposed)
            for place, own in enumerate(chosen):
                if place and own is chosen[0]:
                    paid[1] = paid[0]
                elif own is not None:
                    each = np.take_along_axis(own, groups[None, None], axis=-1)
                    paid[place] = np.einsum("wsab,asb->wa", each[:, :, same.ravel()], new)
            for place in (0, 1):
                wealth[:, place, live] += paid[place]
            best[:, live] = np.maximum(best[:, live], output_bets.mean_wealth(wealth[:, :, live]))
        return np.asarray(best.min(axis=0) >= wanted)

    def settled(self, state: State, layout: Tree, query: Query) -> Settled | None:
        error = 1 - query.confidence
        if query.claim is None:
            return None
        if state.book.p_values[1] <= error:
            return "violated"
        claim = against(query.claim, query.resolution).exact
        if not state.trials or claim is None:
            return None
        # Every event, however rare: one of them may show the violation.
        hits, wanted = events(state.above, state.trials), -math.log(error)
        rarest = hits[None, hits.sum(axis=1).argmin()]
        # If one cannot be ruled out, the rest need not be examined.
        for some in (hits,) if _decided(state) else (rarest, hits):
            evidence = evidence_below(some[:, None], state.trials, claim.slope, claim.delta)
            if np.any(evidence < wanted):
                return None
        return "unreachable"

    def conclude(self, state: State, layout: Tree, query: Query) -> Estimate:
        error, lower = 1 - query.confidence, 0.0
        exact, resolved = (None, None) if query.claim is None else state.book.p_values
        if not state.trials or query.only == "p-values":
            return Estimate(0.0, lower, math.inf, p_value=exact, p_resolved=resolved)
        claimed = 0.0 if query.claim is None else query.claim.epsilon_at(query.delta)
        profile: Profile = ()
        if state.rounds:
            assert state.past is not None
            if not state.past:
                state.past.append(history(state.rounds))
            past = state.past[0]
            lower = bound(past, query.delta, error, claimed=claimed)
            if query.only is None:
                profile = profile_below(past, query.delta, error, lower)
        delta_at = None
        if query.claim is not None and exact is not None and exact > error:
            # The claim's own wealth is part of the grid: a bound above a claim rejects it.
            lower, delta_at = min(lower, claimed), query.claim.delta_at
        if query.only == "bound":
            return Estimate(lower, lower)
        hits = events(state.above, state.trials)
        some, drawn = _limited(state, np.array([query.delta]))
        limit = max(lower, reaches(some, drawn, query.delta, error))
        slope = np.exp(np.array([lower]))
        best = int(choose(state.above, state.trials, slope, query.delta).event[0])
        q, p = (hits[best] / state.trials).tolist()
        return Estimate(
            epsilon=epsilon_at(q, p, query.delta),
            epsilon_lower=lower,
            epsilon_upper=limit,
            epsilon_upper_of="every event" if _decided(state) else "chosen thresholds",
            p_value=exact,
            p_resolved=resolved,
            wealth=state.path,
            profile_lower=in_agreement(profile, lower, query.delta, delta_at),
        )

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        return self._played(rounds_of_counts(np.asarray(counts)), layout, query)

    def estimate_scores(
        self, scores: tuple[HostArray, HostArray], query: Query, rng: np.random.Generator
    ) -> Estimate:
        ordered, notes = in_order(scores, rng)
        own = self._played_in_order(ordered, query)
        shows_loss = (own.epsilon_lower or 0.0) > 0 or (own.p_value or 1.0) <= 1 - query.confidence
        if notes or not shows_loss:
            return own._replace(notes=notes)
        # A short file, or one with rare scores, may be sorted without being noticed. A result in
        # its own order must also hold in another order. Each is valid, under an assumption of its
        # own.
        other = self._played_in_order(_shuffled(ordered, rng), query)
        return own._replace(
            epsilon_lower=_of_both(min, own.epsilon_lower, other.epsilon_lower),
            epsilon_upper=_of_both(max, own.epsilon_upper, other.epsilon_upper),
            p_value=_of_both(max, own.p_value, other.p_value),
            p_resolved=_of_both(max, own.p_resolved, other.p_resolved),
            profile_lower=_lower_profile(own.profile_lower, other.profile_lower),
        )

    def _played_in_order(self, scores: tuple[HostArray, HostArray], query: Query) -> Estimate:
        layout, rounds = rounds_of_scores(scores)
        return self._played(rounds, layout, query)

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return apart(max(2, len(layout) + 2), (0, -1), trials)

    def _played(self, rounds: Iterable[Ints], layout: Tree, query: Query) -> Estimate:
        state = State()
        for counts in rounds:
            trials = int(counts[0].sum())
            state = self.observe(state, layout, counts, query._replace(trials=(trials, trials)))
        return self.conclude(state, layout, query)


def _of_both(
    choose: Callable[[float, float], float], one: float | None, other: float | None
) -> float | None:
    return None if one is None or other is None else choose(one, other)


def _lower_profile(one: Profile, other: Profile) -> Profile:
    """Return the lower of two certified profiles, whose points also hold for all smaller ε."""
    return tuple((e, min(d, next((v for at, v in other if at >= e), 0.0))) for e, d in one)


LOSSES = np.array([0.0, *np.geomspace(0.01, 20, 24)])
"""Losses of the claims against which the events to limit are chosen."""

TELLING = 4.0
"""Standard errors by which an event must show a loss to be limited: more than chance among hundreds
of cuts."""


def _limited(state: State, delta: Floats) -> tuple[Ints, int]:
    """Return the events whose loss is limited, and the number of draws that limit it.

    Decisions have few events, all of which are limited. Far-out cuts of scores, beyond which
    nothing was counted, set no limit; so the first half of the draws chooses the cuts that show a
    loss, and the other half limits it.
    """
    if _decided(state):
        return events(state.above, state.trials), state.trials
    ends = np.cumsum([part[0].sum() for part in state.parts])
    half = int(np.searchsorted(ends[:-1], state.trials / 2))
    if half >= len(ends) - 1:
        return np.zeros((1, 2), np.int64), 1
    before = above(np.sum(state.parts[: half + 1], axis=0))
    drawn = int(ends[half])
    slopes, deltas = (part.ravel() for part in np.meshgrid(np.exp(LOSSES), np.unique(delta)))
    bets = choose(before, drawn, slopes, deltas)
    telling = bets.z * math.sqrt(drawn) > TELLING
    chosen = np.unique(bets.event[telling | (slopes == 1)])
    left = state.trials - drawn
    return events(state.above - before, left)[chosen], left


def _decided(state: State) -> bool:
    return state.counts is not None and state.counts.shape[1] == 2
