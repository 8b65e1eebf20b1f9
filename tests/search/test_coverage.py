"""The loss that a search would have shown, beside naive simulations of its bets."""

import math

import numpy as np
import pytest

import dpframe
from dpframe.count.events import Seen
from dpframe.plugins import HostMechanism, Neighbourhood, PureDP, Values
from dpframe.search.coverage import PROBABILITY, earned
from dpframe.search.wealth import Point, Wealth

CLAIM = 1.0
ROUNDS = [(16, 8, 16), (32, 16, 32), (64, 32, 64), (128, 64, 128), (256, 128, 128), (384, 128, 192)]
ERROR = 0.05


def naive(rate, rng):
    """Return the largest wealth of one audit of randomised response, answer by answer."""
    wrong = rng.random((2, ROUNDS[-1][0] + ROUNDS[-1][2])) < rate
    above = np.array([wrong[0], ~wrong[1]])
    wealth, points = Wealth(0.0), (Point(CLAIM, 0.0),)
    for drawn, known, fresh in ROUNDS:
        parts = above[:, drawn - known : drawn], above[:, drawn : drawn + fresh]
        before, now = (Seen(part.sum(axis=1, keepdims=True), part.shape[1]) for part in parts)
        wealth.bet_against_claim(0, before, now, points, 2.0)
    return wealth.best


def test_simulated_bets_are_those_of_a_search():
    """Each share has a standard error of at most .03; they differ by five at most."""
    rng, wealth = np.random.default_rng(0), Wealth(0.0)
    losses = np.array([1.3, 1.7, 2.2])
    best = earned(
        [Point(CLAIM, 0.0)],
        ROUNDS,
        1 / (1 + np.exp(losses)),
        300,
        2.0,
        lambda own: wealth.supposing(0, own),
    )
    shares = np.mean(best >= -math.log(ERROR), axis=1)
    assert shares[0] < shares[1] < shares[2]
    for loss, share in zip(losses, shares, strict=True):
        found = [naive(1 / (1 + math.exp(loss)), rng) for _ in range(100)]
        assert np.mean(np.array(found) >= -math.log(ERROR)) == pytest.approx(share, abs=0.25)


class Response(HostMechanism, name="response"):
    """Randomised response with another loss than the claimed one."""

    loss: float = 0.2

    def claim(self, pair):
        return PureDP(CLAIM)

    def release(self, rng, data):
        return int((rng.random() < 1 / (1 + math.exp(self.loss))) != (data[0] > 0))


class OnePair(Neighbourhood, name="one-pair"):
    """One pair."""

    adjacency = "any"

    def propose(self, rng, history):
        return () if history else (Values(d0=[0.0], d1=[1.0], adjacency="any"),)


def searched(loss, seed, trials):
    spec = {
        "schema": 1,
        "audit": {"name": "response", "seed": seed, "trials": trials},
        "search": {"use": "one-pair"},
        "mechanism": [{"use": "response", "params": {"loss": loss}}],
        "run": {"stop": "decided"},
    }
    return dpframe.audit(spec, plugins=[Response, OnePair]).cells[0]


@pytest.mark.slow
@pytest.mark.parametrize("trials", [200, 2_000])
def test_whole_searches_find_the_loss_as_often_as_they_state(trials):
    """With probability .8, a share of 40 below .475 has a probability of 1e-6."""
    loss = searched(0.2, 0, trials).search.coverage.detectable
    found = [searched(loss, seed, trials).verdict == "violated" for seed in range(40)]
    assert np.mean(found) >= PROBABILITY - 0.325
