"""The power of a search: simulated searches over a few pairs, one of which loses."""

import math

import numpy as np

from dpframe.engine.power import Question
from dpframe.search.arms import GROWTH, SHARE, WARM_UP
from dpframe.search.search import LUCK, expected_gain
from dpframe.search.wealth import LOSS_LIMIT, Point, Seen, Wealth, farthest

PAIRS = 8  # of a simulated search


def refutes(asked: Question, loss: float, rng: np.random.Generator) -> bool:
    """Simulate a search, and return True if it refutes the claim.

    One of the pairs has the true loss, told by one decision with equal error rates; the others lose
    nothing. Draws and bets are those of `SearchRun`, but attacks learn only once.
    """
    claim, raised = asked.query.claim, asked.query.resolution
    assert claim is not None
    said = [(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    points = [Point(e, d + raised * (1 + math.exp(e))) for e, d in said if e <= LOSS_LIMIT]

    def drawn_from(pair: int, n: int) -> Seen:
        wrong = rng.binomial(n, 0.5 if pair else asked.rate(loss), 2)
        return Seen(np.array([[wrong[0]], [n - wrong[1]]]), n)

    def gain(one: Seen) -> float:
        guess = farthest(one, points)
        return expected_gain((-math.inf if guess is None else guess.z) - LUCK) / (2 * one.trials)

    first = max(4, int(min(WARM_UP, SHARE * asked.size)))
    drawn, wealth = np.full(PAIRS, first), Wealth(asked.query.delta)
    # Attacks learn from the first half of these draws, and the next quarter places cuts.
    seen = [drawn_from(pair, first // 4) for pair in range(PAIRS)]
    gains = [gain(one) for one in seen]
    while (left := asked.size - int(drawn.sum())) > 0:
        pair = int(np.argmax(gains))
        fresh = drawn_from(pair, min(max(1, int(GROWTH * drawn[pair])), left))
        wealth.bet_against_claim(pair, seen[pair], fresh, points, 0.0)
        if wealth.best >= -math.log(asked.level):
            return True
        drawn[pair] += fresh.trials
        seen[pair] = Seen(seen[pair].above + fresh.above, seen[pair].trials + fresh.trials)
        gains[pair] = gain(seen[pair])
    return False
