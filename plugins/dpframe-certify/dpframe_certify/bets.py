"""Bets in a form that can be checked: `certified-betting`, the estimator `betting` with evidence.

Its evidence has the theorem "betting" and one term for each group of outputs of each bet:

    (against, way, round, k, k′, g, h, share)

`against` is 0 for the bets against the bound, 1 for those against the claim, and 2 for those
against the claim with all rates raised by the sampler's resolution. Each of two ways to bet has
half of the wealth as its share. In a round, k draws from D fell into the group and multiplied the
wealth of the way by g each, k′ from D′ by h each. Weights have S = 2 (`dpframe.stats.output_bets`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from dpframe.plugins import (
    Estimate,
    Estimator,
    Evidence,
    Floats,
    HostArray,
    Ints,
    Query,
    Settled,
    Statistic,
    Tree,
    find_plugin,
)
from dpframe.stats.output_bets import (
    LOG_PRIOR,
    Supposed,
    bets,
    bets_against_each,
    lines_of,
    mean_wealth,
)
from dpframe.stats.output_bounds import COARSE

DIGITS = 15  # of a weight: rounding changes S by less than its margin
SURE = (
    1e-9  # by which a logarithm of the wealth exceeds the needed one, so that rounding is harmless
)

BOUND, CLAIM, WIDENED = 0, 1, 2
SHARES: list[float] = np.exp(LOG_PRIOR).tolist()  # of the wealth, for each way to bet

Term = tuple[float, ...]
Played = tuple[
    Floats, Ints
]  # logarithms of weights, shape [ways, 2, groups], and counts [2, groups]


class CertifiedBetting(Estimator, name="certified-betting"):
    """Bets as `betting` does, and puts the bets into the record, for `certcheck.py`."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    anytime: ClassVar[bool] = True

    def statistic(self) -> Statistic:
        """Return the counts of `betting`."""
        statistic: Statistic = _betting().statistic()
        return statistic

    def observe(self, state: Any, layout: Tree, counts: Ints, query: Query) -> Any:
        """Bet on a round."""
        return _betting().observe(state, layout, counts, query)

    def refuted(
        self, layout: Tree, counts: Ints, query: Query, rounds: Sequence[int] = ()
    ) -> HostArray:
        """Return which audits are refuted."""
        refuted: HostArray = _betting().refuted(layout, counts, query, rounds)
        return refuted

    def settled(self, state: Any, layout: Tree, query: Query) -> Settled | None:
        """Return the verdict if it is settled."""
        settled: Settled | None = _betting().settled(state, layout, query)
        return settled

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        """Return the most extreme counts."""
        counts: Ints = _betting().extreme(layout, trials)
        return counts

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        """Return the estimate of `betting`, without evidence: the rounds are not known."""
        estimate: Estimate = _betting().estimate(layout, counts, query)
        return estimate

    def conclude(self, state: Any, layout: Tree, query: Query) -> Estimate:
        """Return the estimate of `betting`, with its bets as evidence."""
        estimate: Estimate = _betting().conclude(state, layout, query)
        if not state.rounds:
            return estimate
        terms = [*_against_bound(state.rounds, query, estimate.epsilon_lower or 0.0)]
        if estimate.epsilon_lower and not terms:
            return estimate  # rare: only bets against other ε refute it
        if query.claim is not None:
            kinds = (CLAIM, WIDENED) if _apart(estimate) else (WIDENED,)
            terms += [term for kind in kinds for term in _against_claim(state.rounds, query, kind)]
        return estimate._replace(evidence=Evidence("betting", tuple(terms)))


@functools.lru_cache(maxsize=1)
def _betting() -> Any:
    """Return the estimator `betting`; plugins are final, so it is not a base class."""
    return find_plugin("estimator", "betting")()


def _apart(estimate: Estimate) -> bool:
    """Return True if the resolution may decide."""
    return (estimate.p_value or 0.0) < 0.999 * (estimate.p_resolved or 0.0)


def _against_bound(rounds: Any, query: Query, bound: float) -> Iterator[Term]:
    """Yield the bets that refute a bound, up to the round in which they do most."""
    if bound == 0:
        return
    shares, masses = (np.stack(part) for part in zip(*(one for one, _ in rounds), strict=True))
    claimed = 0.0 if query.claim is None else query.claim.epsilon_at(query.delta)
    every, delta = np.union1d(COARSE, claimed), np.array([query.delta])
    end = every[np.searchsorted(every, bound)]  # of its part of the grid, whose tilts it has
    supposed = Supposed(shares, masses)
    weights, tilts = bets_against_each(supposed, np.exp([end]), delta)
    if bound != end:
        weights, _ = bets_against_each(supposed, np.exp([bound]), delta, tilts)
    played = [(weights[:, :, n, 0], counts) for n, (_, counts) in enumerate(rounds)]
    paths = _wealth(played)
    if paths.max() >= -math.log(1 - query.confidence) + SURE:
        yield from _terms(BOUND, played[: int(paths.argmax()) + 1])


def _against_claim(rounds: Any, query: Query, kind: int) -> Iterator[Term]:
    """Yield the bets against the claim, up to the round in which they had earned most."""
    claim, raised = query.claim, query.resolution if kind == WIDENED else 0.0
    assert claim is not None
    against = lines_of(claim.epsilon_at, claim.delta_at, claim.telling_deltas, raised)
    if against is not None:
        played = [(bets(supposed, against), counts) for supposed, counts in rounds]
        if (paths := _wealth(played)).max() > 0:
            yield from _terms(kind, played[: int(paths.argmax()) + 1])


def _wealth(played: list[Played]) -> Floats:
    """Return the logarithm of the wealth after each round."""
    paid = [np.sum(weights * counts, axis=(1, 2)) for weights, counts in played]
    return mean_wealth(np.cumsum(paid, axis=0).T)


def _terms(kind: int, played: list[Played]) -> Iterator[Term]:
    """Yield the terms of rounds; groups of equal weights are one.

    A group without draws is left out if another one has larger weights: it changes neither the
    wealth nor S.
    """
    for number, (log_weights, counts) in enumerate(played, 1):
        for way, weights in enumerate(np.exp(log_weights)):
            if not log_weights[way].any():
                continue
            rounded = [[float(f"{one:.{DIGITS - 1}e}") for one in side] for side in weights]
            pairs, group = np.unique(np.array(rounded).T, axis=0, return_inverse=True)
            drawn = np.array([np.bincount(group.ravel(), side, len(pairs)) for side in counts])
            larger = (pairs[:, None] <= pairs).all(axis=2) & ~np.eye(len(pairs), dtype=bool)
            for place in np.flatnonzero(drawn.any(axis=0) | ~larger.any(axis=1)):
                own = map(int, drawn[:, place])
                yield kind, way, number, *own, *pairs[place].tolist(), SHARES[way]
