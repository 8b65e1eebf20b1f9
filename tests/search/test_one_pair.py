"""The only pair of a search has its whole wealth, and is bet on in small rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import bdtrc
from support.leaky_boxes import searched

from dpframe import HostMechanism, Neighbourhood, PureDP, Values
from dpframe.search.wealth import Point, Seen, Wealth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Claim, Earned, Pair
    from dpframe.results.model import CellRecord

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

ALLOWED = 1e-6  # probability that a test of false alarms fails although audits are right


class OnlyPair(Neighbourhood, name="edits"):
    """Proposes 0 and 1, and nothing else."""

    adjacency = "as given"
    one_pair = True

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        return () if history else (Values(d0=0, d1=1),)


class TwoPairs(Neighbourhood, name="edits"):
    """Says that it proposes one pair, and proposes two."""

    adjacency = "as given"
    one_pair = True

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        return () if history else (Values(d0=0, d1=1), Values(d0=0, d1=2))


def audited(
    sampler: Any, seed: int, trials: int, confidence: float = 0.999, edits: Any = OnlyPair
) -> CellRecord:
    class Leaky(HostMechanism, name="leaky"):
        """Claims a loss of 1."""

        def claim(self, pair: Pair) -> Claim:
            return PureDP(1.0)

        def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
            return sampler(rng, data, n)

    audit = {"name": "one", "trials": trials, "confidence": confidence, "seed": seed}
    return searched(sampler, box=Leaky, edits=edits, audit=audit)


def responses(loss: float) -> Any:
    """Randomised response with an exact loss."""
    share = 1 / (1 + math.exp(loss))
    return lambda rng, data, n: ((rng.random(n) < share) ^ bool(data)).astype(np.int64)


def laplace(loss: float) -> Any:
    return lambda rng, data, n: data + rng.laplace(scale=1 / loss, size=n)


def draws(sampler: Any, audits: int) -> float:
    """Return the mean number of draws per dataset until a loss above the claim is refuted."""
    cells = [audited(sampler, seed, 40_000) for seed in range(audits)]
    assert all((cell.p_value or 1.0) <= 0.001 for cell in cells)
    return float(np.mean([cell.trials[0] for cell in cells]))


def test_a_fifth_more_than_claimed_takes_few_draws() -> None:
    """The best bet takes 937 for randomised response."""
    assert draws(responses(1.2), 3) < 1_700


@pytest.mark.slow
def test_means_of_many_audits_are_small() -> None:
    """The best bet takes 1,397 for Laplace noise."""
    assert draws(responses(1.2), 60) < 1_500
    assert draws(laplace(1.2), 60) < 2_900


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [responses(1.0), laplace(1.0)], ids=["response", "laplace"])
def test_exact_claims_are_refuted_as_rarely_as_stated(sampler: Any) -> None:
    audits, level = 150, 0.05
    cells = [audited(sampler, seed, 1_500, confidence=1 - level) for seed in range(audits)]
    alarms = sum((cell.p_value or 1.0) <= level for cell in cells)
    assert alarms == 0 or bdtrc(alarms - 1, audits, level) > ALLOWED


def test_the_wealth_of_one_pair_is_not_divided() -> None:
    rng, claim = np.random.default_rng(3), (Point(1.0, 0.0),)
    wealths = [Wealth(0.0, alone=alone) for alone in (False, True)]
    seen = Seen(np.array([[200], [700]]), 1000)
    for drawn in (1, 2):
        fresh = Seen(rng.binomial(1000, [[0.2], [0.7]]), 1000)
        for wealth in wealths:
            wealth.bet(seen, fresh, claim, 1.0, drawn)
    divided, whole = wealths
    assert whole.best == pytest.approx(divided.best + math.log(4 / 3), rel=1e-3)
    assert whole.bound(0.05) > divided.bound(0.05) > 1.0
    supposed = whole.supposing(0, whole.together[:, None])
    assert supposed == pytest.approx([whole.log_wealth])


def test_a_second_pair_of_one_pair_is_refused() -> None:
    cell = audited(responses(1.0), 0, 1_000, edits=TwoPairs)
    assert cell.status == "failed"
    assert cell.reason is not None
    assert "one_pair = True, but proposed several" in cell.reason
