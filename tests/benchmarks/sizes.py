"""Count false alarms at exact nulls: bets of the estimator `betting`, and the wealth of a search.

Each audit draws rounds that double, looks after every round, and alarms if any look refutes the
true claim at 5 %. The nulls lie on the border of their claims, so that nothing truer could alarm
more. Audits of `betting` are made together, which changes nothing but the time: the first ones
are compared with the estimator itself. A search bets on three pairs at the border, and on the one
that suggests most. Run from the root of the repository:

    python tests/benchmarks/sizes.py [--audits 20000] [--seed 1] [--kinds bets search]
        [--nulls decision Laplace corner Gauss]

Prints the size with its interval (Clopper-Pearson, 99 %). Not a test: 20,000 audits of all nulls
take some forty minutes of one core.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
from scipy.stats import beta, norm

from dpframe import ApproxDP, Claim, PureDP, Query
from dpframe.builtin.betting import FIRST_ROUND, Betting, against, cuts
from dpframe.count.events import Seen
from dpframe.search.wealth import Point, Wealth, farthest
from dpframe.stats.output_bets import LOG_PRIOR, Supposed, bets_against_each, grouped
from dpframe.stats.shares import learned, places

ERROR = 0.05
TOGETHER = 100
SIZES = tuple(FIRST_ROUND * factor for factor in (1, 1, 2, 4, 8, 16))
"""Draws on each side of the rounds of `betting`; nothing is bet on the first."""

CORNER = np.array([0.01, 0.99 * math.e / (1 + math.e), 0.99 / (1 + math.e), 0.0])
"""On D; on D′ backwards. All pairs under (1, .01) are made of this one."""

NULLS: dict[str, Claim] = {
    "decision": PureDP(1.0),
    "Laplace": PureDP(1.0),
    "corner": ApproxDP(1.0, 0.01),
    "Gauss": ApproxDP(1.0, float(norm.cdf(-0.5) - math.e * norm.cdf(-1.5))),
}


def drawn(rng: np.random.Generator, null: str, size: tuple[int, ...], side: int) -> Any:
    """Draw outputs on one dataset."""
    if null == "decision":
        return rng.random(size) < 1 / (1 + math.exp(1 - 2 * side))
    if null == "corner":
        chances = CORNER[::-1] if side else CORNER
        return rng.choice(4, size, p=chances).astype(float)
    return (rng.laplace if null == "Laplace" else rng.normal)(side, 1, size)


def counted(layout: Any, scores: Any) -> Any:
    """Count the scores of one audit in one round, shape [2, bins]."""
    if scores[0].dtype == np.bool_:
        return np.stack([np.bincount(part, minlength=2) for part in scores])
    bins = [1 + np.searchsorted(layout, part, side="right") for part in scores]
    return np.stack([np.bincount(part, minlength=len(layout) + 2) for part in bins])


def best_bets(rng: np.random.Generator, null: str, audits: int) -> Any:
    """Return the logarithm of the largest wealth of each audit by the bets of `betting`."""
    claim, query = NULLS[null], Query((1, 1), 0.0, 1 - ERROR, NULLS[null])
    own = against(claim, 0.0).exact
    assert own is not None
    rounds = [[drawn(rng, null, (audits, size), side) for side in (0, 1)] for size in SIZES]
    firsts = [[side[at] for side in rounds[0]] for at in range(audits)]
    edges = [np.zeros(0) if null == "decision" else cuts(*first) for first in firsts]
    middle = [places(one) if len(one) else None for one in edges]
    totals = [counted(edge, first) for edge, first in zip(edges, firsts, strict=True)]
    each = [[(SIZES[0], total)] for total in totals]
    wealth, best = np.zeros((len(LOG_PRIOR), audits)), np.zeros(audits)
    for size, sides in zip(SIZES[1:], rounds[1:], strict=True):
        supposed, paid = [], []
        for at in range(audits):
            new = counted(edges[at], [side[at] for side in sides])
            found, group = grouped(learned(totals[at], middle[at]), totals[at].sum(axis=0))
            supposed.append(found)
            paid.append(np.stack([np.bincount(group, side, found.mass.size) for side in new]))
            totals[at] = totals[at] + new
            each[at].append((size, new))
        whole = Supposed(*(np.stack(part) for part in zip(*supposed, strict=True)))
        log_weights = bets_against_each(whole, own.slope, own.delta)[0][..., 0, :]
        wealth += np.einsum("wsag,asg->wa", log_weights, np.stack(paid))
        best = np.maximum(best, np.logaddexp.reduce(wealth + LOG_PRIOR[:, None]))
    state = None
    for size, counts in each[0]:
        round_of = query._replace(trials=(size, size))
        state = Betting().observe(state, edges[0], counts, round_of)
    assert state is not None
    np.testing.assert_allclose(best[0], state.book.best[0], rtol=1e-9, atol=1e-12)
    return best


PAIRS, WARM_UP, STEPS = 3, 32, 8


def best_search(rng: np.random.Generator, null: str) -> float:
    """Return the logarithm of the largest wealth of one search."""
    claim = NULLS[null]
    point, wealth = (Point(claim.epsilon_at(claim.delta), claim.delta),), Wealth(claim.delta)
    at = {"decision": [1.0], "corner": [1.0, 2.0, 3.0]}.get(null, np.linspace(-3, 4, 29))

    def seen(size: int) -> Seen:
        both = [drawn(rng, null, (size,), side) for side in (0, 1)]
        above = [[np.count_nonzero(part >= cut) for cut in at] for part in both]
        return Seen(np.array(above), size, (len(at),))

    arms = [seen(WARM_UP) for _ in range(PAIRS)]
    for _ in range(STEPS):
        guesses = [farthest(arm, point) for arm in arms]
        z = [-math.inf if guess is None else guess.z for guess in guesses]
        number = int(np.argmax(z))
        before = arms[number]
        fresh = seen(before.trials)
        # Bounds have bets of their own, which cost most of the time.
        wealth.bet_against_claim(number, before, fresh, point, 0.0)
        arms[number] = Seen(before.above + fresh.above, 2 * before.trials, before.cuts)
    return wealth.best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--audits", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=["bets", "search"])
    parser.add_argument("--nulls", nargs="+", default=list(NULLS))
    asked = parser.parse_args()
    print("| what | null | audits | size at .05 | 99 % interval | at .2 | at .01 | ms an audit |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in asked.kinds:
        for null in asked.nulls:
            rng = np.random.default_rng([asked.seed, list(NULLS).index(null), kind == "search"])
            started, found = time.process_time(), []
            while len(found) < asked.audits:
                several = min(TOGETHER, asked.audits - len(found))
                if kind == "bets":
                    found += best_bets(rng, null, several).tolist()
                else:
                    found += [best_search(rng, null) for _ in range(several)]
            spent = (time.process_time() - started) / asked.audits * 1000
            n, best = asked.audits, np.array(found)
            k, *others = (int(np.sum(best >= -math.log(a))) for a in (ERROR, 0.2, 0.01))
            low = beta.ppf(0.005, k, n - k + 1) if k else 0.0
            high = beta.ppf(0.995, k + 1, n - k) if k < n else 1.0
            shares = " | ".join(f"{one / n:.4f}" for one in others)
            print(f"| {kind} | {null} | {n} | {k / n:.4f} | {low:.4f} to {high:.4f} ", end="")
            print(f"| {shares} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
