"""How many draws a search of a black box takes before it could refute a claim at all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe.engine.search.box_arm import CLEAR, GROWTH, MANY, WARM_UP
from dpframe.engine.search.wealth import LARGEST, Point, Seen, farthest
from dpframe.stats.betting import pay

if TYPE_CHECKING:
    from dpframe.claims import Claim

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
    points = [point for point in points if point.epsilon <= LARGEST]
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
