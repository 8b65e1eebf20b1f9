"""Draws go to the best pairs once they are spent on a bound."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpframe.count.events import Seen
from dpframe.search.search import SHARE_OF_OTHERS, UNDECIDED_SHARE_OF_OTHERS, Leading
from dpframe.search.wealth import least_losses


def arm(hits: tuple[int, int], trials: int, scale: float = 1.0) -> Any:
    return SimpleNamespace(seen=Seen(np.array([[hits[0]], [hits[1]]]), trials), scale=scale)


@pytest.mark.parametrize("share", [SHARE_OF_OTHERS, UNDECIDED_SHARE_OF_OTHERS])
def test_the_pair_with_the_largest_sure_loss_leads(share: float) -> None:
    """Not the luckiest; the others have their share of the draws all the same."""
    sure, lucky, dull = arm((1000, 2000), 10_000), arm((0, 4), 10_000), arm((900, 900), 10_000)
    leading, draws = Leading(0.0, 0.0), {True: 0, False: 0}
    for _ in range(50):
        picked, leads = leading.pick([lucky, sure, dull], lambda each: each.seen.trials, share)
        assert leads == (picked is sure)
        leading.spent(10, leads=leads)
        draws[leads] += 10
    assert draws[False] == pytest.approx(share * 500, abs=10)


def test_losses_are_in_units_of_claims() -> None:
    near, far = arm((1000, 2000), 10_000), arm((1000, 3000), 10_000, scale=2.0)
    assert Leading(0.0, 0.0).pick([far, near], lambda _: 0.0, 0.0) == (near, True)


def test_one_pair_leads_alone() -> None:
    only = arm((0, 0), 10)
    leading = Leading(0.0, 0.0)
    for _ in range(3):
        assert leading.pick([only], lambda _: 0.0, UNDECIDED_SHARE_OF_OTHERS) == (only, True)
        leading.spent(10, leads=True)


def test_a_sure_loss_is_two_standard_errors_less() -> None:
    seen = Seen(np.array([[1000], [3000]]), 10_000)
    loss, least = (np.max(part) for part in least_losses(seen, 0.0))
    assert loss == pytest.approx(math.log(3), abs=1e-3)
    assert loss - least == pytest.approx(2 * math.sqrt(0.7 / 3000 + 0.9 / 1000), rel=1e-3)
    resolved = np.max(least_losses(seen, 0.05, 0.01)[0])
    assert resolved == pytest.approx(math.log((0.3 - 0.06) / 0.11), abs=1e-3)
