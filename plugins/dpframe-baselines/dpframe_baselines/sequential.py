"""Sequential tests of the literature: they may stop after any round of draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from dpframe.plugins import (
    Claim,
    Estimate,
    Floats,
    HostArray,
    Ints,
    Query,
    Settled,
    Tree,
    epsilon_of,
    estimate_from_boxes,
)
from dpframe.stats.roots import bisection_each
from dpframe_baselines.common import IID, Baseline, from_test, loss, sample_of
from dpframe_baselines.divergences import gaussian_kernel

SMALLEST_ROUND, GROWTH = 8, 8  # draws of a round, at least; it is 1/GROWTH of all before it
FIRST_CHOICE = 64  # the classifier is first chosen again after four times as many draws
STAKES = 0.35 * 2.0 ** -np.arange(8)  # all below 1/(2√2), so no factor is negative


class Sequential(Baseline):
    """An estimator that chooses its test from the rounds before, and is valid at any time.

    The pilot, or the first round if there is none, chooses the bins and the first test.
    """

    certifies: ClassVar[bool] = True
    anytime: ClassVar[bool] = True
    assumption: ClassVar[str] = IID

    def settled(self, state: Any, layout: Tree, query: Query) -> Settled | None:
        found = self.conclude(state, layout, query._replace(only="p-values"))
        refuted = found.p_resolved is not None and found.p_resolved <= 1 - query.confidence
        return "violated" if refuted else None

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        """Deal the counts out to rounds as a shuffled deck, which keeps their distribution."""
        first = np.asarray(layout["pilot"], np.int64)
        state = self.observe(None, layout, first, query._replace(trials=(0, 0)))
        for part in dealt(np.asarray(counts, np.int64)):
            size = int(part[0].sum())
            state = self.observe(state, layout, part, query._replace(trials=(size, size)))
        return self.conclude(state, layout, query)


def dealt(counts: Ints) -> Iterator[Ints]:
    """Yield the counts of rounds; if one side has fewer draws, some of the other are left out."""
    rng, left, total = np.random.default_rng(0), counts.copy(), 0
    while rest := int(left.sum(axis=1).min()):
        size = min(rest, max(SMALLEST_ROUND, total // GROWTH))
        part = np.stack([rng.multivariate_hypergeometric(side, size) for side in left])
        left, total = left - part, total + size
        yield part


class Bets(NamedTuple):
    """The rounds of `SequentialMMD` so far."""

    seen: Ints  # counts of all rounds, [2, bins]
    gains: tuple[Floats, ...] = ()  # of each round but the first: f(y) − f(x) of its pairs
    trials: int = 0


class SequentialMMD(Sequential, name="sequential-mmd"):
    """Bets on a kernel witness of the mean discrepancy [Gonzalez2025].

    A pair (x, y) of draws multiplies the wealth by 1 + λ (f(y) − f(x) − τ). f has norm 1 in the
    kernel's space, so the mean of f(y) − f(x) is at most the maximum mean discrepancy, which is at
    most τ = √2 TV for a kernel in [0, 1]; and (ε, δ)-DP has TV ≤ (e^ε − 1 + 2δ)/(e^ε + 1)
    [Kairouz2015, theorem 2.1]. So under the claim wealth is a supermartingale and exceeds 1/a at
    any time with probability a at most [Ville1939]. It falls with τ, which gives the bound. f is
    the difference of the mean embeddings of earlier rounds, where the paper uses online gradient
    ascent; the wealth is a mean over λ, where it uses online Newton steps. One-sided, valid at
    every number of draws at once. The kernel is that of `auditorium-mmd`.
    """

    reference: ClassVar[str] = (
        "[Gonzalez2025] (arXiv:2509.07055), [Kairouz2015, theorem 2.1] (arXiv:1311.0776)"
    )

    def observe(self, state: Bets | None, layout: Tree, counts: Ints, query: Query) -> Bets:
        new, trials = np.asarray(counts, np.int64), min(query.trials)
        if state is None:
            return Bets(new, (), trials)
        # Counts lose the order of a round. A seed from earlier rounds is independent of this one.
        f, rng = witness(layout, state.seen), np.random.default_rng(state.seen.ravel())
        bins = np.arange(len(f))
        x, y = (rng.permutation(np.repeat(bins, side))[:trials] for side in sample_of(new))
        gains = (*state.gains, f[y] - f[x])
        return Bets(state.seen + new, gains, state.trials + trials)

    def conclude(self, state: Bets, layout: Tree, query: Query) -> Estimate:
        def most(epsilon: float, delta: float, slack: float = 0.0) -> float:
            total = 1 - 2 * (1 - delta) * special.expit(-epsilon) + 2 * slack
            return math.sqrt(2) * min(1.0, total)

        def p_value(epsilon: float, delta: float, slack: float) -> float:
            best = log_wealth(state.gains, most(epsilon, delta, slack)).max(initial=0.0)
            return math.exp(-min(best, 690.0))

        mean = float(np.concatenate(state.gains).mean()) if state.gains else 0.0
        total = min(max(0.0, mean) / math.sqrt(2), 1 - 1e-15)
        found = from_test(p_value, query, loss(1 + total - 2 * query.delta, 1 - total))
        if query.claim is None or not state.gains:
            return found
        claimed = min(most(query.claim.epsilon_at(d), d) for d in query.claim.telling_deltas)
        sizes = np.array([len(one) for one in state.gains])
        draws = state.trials - sizes[::-1].cumsum()[::-1] + sizes
        path = zip(draws.tolist(), log_wealth(state.gains, claimed).tolist(), strict=True)
        return found._replace(wealth=tuple(path))


def witness(layout: Tree, counts: Ints) -> Floats:
    """Return f of each bin, larger on D′: K(p̂ − q̂), of norm 1 in the space of the kernel K."""
    q, p = sample_of(counts).rates
    kernel = gaussian_kernel(layout)
    square = float((p - q) @ kernel @ (p - q))
    return kernel @ (p - q) / math.sqrt(square) if square > 1e-12 else np.zeros(len(q))


def log_wealth(gains: tuple[Floats, ...], tau: float) -> Floats:
    """Return the logarithm of the wealth after each round, shape [rounds]."""
    if not gains:
        return np.zeros(0)
    factors = np.log1p(STAKES[:, None] * (np.concatenate(gains) - tau))
    ends = np.cumsum([len(one) for one in gains])
    paid = np.cumsum(factors, axis=1)[:, ends - 1]
    return np.asarray(special.logsumexp(paid, axis=0) - math.log(len(STAKES)), np.float64)


class Errors(NamedTuple):
    """The rounds of `SequentialFDP` so far."""

    seen: Ints  # counts of all rounds, [2, bins]
    inside: HostArray  # True for the bins that the present classifier takes for D′
    number: int = 1  # of the present classifier
    chosen: int = 0  # draws before its choice
    own: tuple[int, int, int] = (0, 0, 0)  # its draws, false positives and false negatives
    all: tuple[tuple[int, int, int, int], ...] = ()  # after each round: its number and `own`
    trials: int = 0


class SequentialFDP(Sequential, name="sequential-fdp"):
    """Tests a trade-off curve by a classifier's two errors, at any time [Kutta2026].

    The classifier cuts the scores where the largest square fits between its errors in earlier
    rounds and the claimed curve; if none fits, where the largest bound is expected. It is chosen
    again whenever the draws have quadrupled; the j-th one has the share 1/(j (j + 1)) of the error,
    half for each of its error rates. The limit of a rate is where its likelihood falls to a times
    that of a mixture with the prior Beta(½, ½); the true rate ever exceeds it with probability a at
    most [Ville1939]. The claimed curve is refuted if the limits lie below it. The limits and the
    times of choice are not those of the paper. One-sided, valid at every number of draws at once.
    """

    reference: ClassVar[str] = (
        "after [Kutta2026] (arXiv:2602.06518), with mixtures of likelihoods [Ville1939]"
    )

    def observe(self, state: Errors | None, layout: Tree, counts: Ints, query: Query) -> Errors:
        new, trials = np.asarray(counts, np.int64), min(query.trials)
        if state is None:
            return Errors(new, classifier(new, query.claim, query.delta), trials=trials)
        if state.trials >= 4 * max(state.chosen, FIRST_CHOICE) and state.own[0]:
            inside = classifier(state.seen, query.claim, query.delta)
            state = state._replace(
                inside=inside, number=state.number + 1, chosen=state.trials, own=(0, 0, 0)
            )
        q, p = sample_of(new)
        n, k, j = state.own
        own = (n + trials, k + int(q[state.inside].sum()), j + int(p[~state.inside].sum()))
        every = (*state.all, (state.number, *own))
        return state._replace(
            seen=state.seen + new, own=own, all=every, trials=state.trials + trials
        )

    def conclude(self, state: Errors, layout: Tree, query: Query) -> Estimate:
        number, n, k, j = np.array(state.all or [(1, 0, 0, 0)]).T
        hits, draws = np.stack([k, j], axis=1), np.stack([n, n], axis=1)

        def boxes(error: float) -> Floats:
            return rate_limit(hits, draws, (error / (2 * number * (number + 1)))[:, None])

        last = np.maximum(n[-1], 1)
        rates = k[-1] / last, j[-1] / last
        ways = [(1 - rates[1], rates[0]), (1 - rates[0], rates[1])]
        point = max(loss(true - query.delta, false) for true, false in ways)
        return estimate_from_boxes(boxes, query, epsilon=point)


def rate_limit(hits: Ints, draws: Ints, error: Floats) -> Floats:
    """Return p at which p^k (1 − p)^{n−k} = error · B(k + ½, n − k + ½)/π, above k/n."""
    wanted = np.log(error) + special.betaln(hits + 0.5, draws - hits + 0.5) - math.log(math.pi)

    def beyond(p: Floats) -> Any:
        return special.xlogy(hits, p) + special.xlog1py(draws - hits, -p) < wanted

    _, high = bisection_each(beyond, hits / np.maximum(draws, 1), np.ones(hits.shape), steps=50)
    return np.asarray(high, np.float64)


def classifier(counts: Ints, claim: Claim | None, delta: float) -> HostArray:
    """Return the bins taken for D′: those of one end of the scores."""
    q, p = sample_of(counts)
    sides = [(side + 0.5 / len(side)) / (side.sum() + 0.5) for side in (q, p)]
    low, high = (np.cumsum(side)[:-1] for side in sides)
    rates = np.concatenate([np.stack([1 - low, high], 1), np.stack([low, 1 - high], 1)])
    rates = np.clip(rates, 0.0, 1.0)
    squares = np.zeros(1)
    if claim is not None:
        ends = 1 - rates.max(axis=1)

        def beyond(side: Floats) -> Any:
            return claim.tradeoff(rates[:, 0] + side) < rates[:, 1] + side

        squares, _ = bisection_each(beyond, np.zeros(len(rates)), ends, steps=30)
    best = int(squares.argmax())
    if squares[best] == 0:
        wide = rates + 1 / math.sqrt(max(1, q.sum()))
        best = int(np.argmax([epsilon_of(one[None], delta) for one in wide]))
    cut, above = best % len(low), best < len(low)
    return np.asarray((np.arange(len(q)) > cut) == above)
