"""The event that a search shows is one that many draws speak for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpframe.search.finding import most_telling
from dpframe.search.wealth import Seen
from dpframe.stats.betting import events


def test_few_lucky_draws_are_not_the_most_telling() -> None:
    seen = Seen(np.array([[40_000, 0], [16_000, 3]]), 100_000)
    number, loss = most_telling(seen, 0.0)
    q, p = events(*seen)[number]
    assert (int(q), int(p)) == (16_000, 40_000)
    assert loss == pytest.approx(math.log(2.5), abs=1e-3)


def test_a_delta_is_taken_off() -> None:
    seen = Seen(np.array([[1_000], [4_000]]), 10_000)
    assert most_telling(seen, 0.1)[1] == pytest.approx(math.log(3), abs=2e-3)
    assert most_telling(seen, 0.999)[1] == 0.0


def test_ends() -> None:
    for above in ([[0], [0]], [[9], [0]], [[9], [9]]):
        assert math.isfinite(most_telling(Seen(np.array(above), 9), 0.0)[1])
