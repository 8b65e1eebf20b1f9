"""Bets on training steps: their error under the stated noise, and the noise that they refute."""

import numpy as np
import pytest
from scipy import stats

from dpframe.stats.step_bets import POINTS, StepBets

ERROR = 0.05
RATE = 0.05


def trained(
    seed: int, sigma: float, *, steps: int, canaries: int = 300, shared: float = 0.0
) -> StepBets:
    """Bet on steps that state σ = 1; a share of the variance is noise that all canaries share."""
    rng, bets = np.random.default_rng(seed), StepBets()
    for _ in range(steps):
        included = rng.random(canaries) < RATE
        own, common = rng.normal(size=canaries), rng.normal()
        noise = np.sqrt(1 - shared) * own + np.sqrt(shared) * common
        bets.update(included + sigma * noise, included, 1.0, RATE)
    return bets


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_the_stated_noise_is_refuted_with_the_stated_error(shared: float) -> None:
    """Fails for a valid e-process with probability below 1e-6."""
    runs = 40
    refuted = sum(trained(n, 1.0, steps=150, shared=shared).p_value <= ERROR for n in range(runs))
    assert refuted <= stats.binom.isf(1e-6, runs, ERROR)


@pytest.mark.parametrize(("sigma", "steps"), [(0.9, 300), (0.95, 1000)])
def test_smaller_noise_is_refuted(sigma: float, steps: int) -> None:
    for seed in range(3):
        bets = trained(seed, sigma, steps=steps, canaries=1000)
        after = bets.refuted_after(ERROR)
        assert after is not None
        assert bets.p_value <= ERROR
        assert bets.wealth[after - 1] >= -np.log(ERROR)


def test_no_outcome_takes_everything() -> None:
    """Even if all canaries outside the batch exceed, step after step, wealth stays above 0."""
    bets, included = StepBets(), np.arange(50) < 2
    for step in range(40):
        bets.update(np.where(included, -9.0, 9.0 * (step % 3)), included, 1.0, RATE)
    assert np.isfinite(bets.wealth).all()
    assert bets.p_value == 1.0
    assert bets.refuted_after(ERROR) is None


def test_before_any_step_nothing_is_refuted() -> None:
    assert StepBets().p_value == 1.0
    assert StepBets().refuted_after(ERROR) is None
    assert StepBets().described() is None


@pytest.mark.parametrize("steps", [1, 2, POINTS, 450])
def test_a_description_has_few_points_with_the_last_step_and_the_one_that_refutes(
    steps: int,
) -> None:
    bets = trained(0, 0.5, steps=steps)
    bets.update(np.zeros(300), np.zeros(300, bool), 0.7, RATE)
    found = bets.described(0.25)
    assert found is not None
    assert len(found["wealth"]) <= POINTS
    assert found["wealth"][-1] == [steps + 1, round(bets.wealth[-1], 3)]
    assert found["refuted_at"] == bets.refuted_after(ERROR)
    if found["refuted_at"] is not None:
        assert found["refuted_at"] in [step for step, _ in found["wealth"]]
    assert found["largest"] == max(bets.wealth)
    assert found["sigma"] == [0.7, 1.0]
    assert (found["steps"], found["others"]) == (steps + 1, 0.25)


def test_stakes_depend_on_earlier_steps_only() -> None:
    """The mean of a step's factor over coins that are independent of the release is below 1."""
    rng, bets = np.random.default_rng(0), StepBets()
    for _ in range(20):
        bets.update(rng.normal(size=200), rng.random(200) < RATE, 1.0, RATE)
    before = bets.wealth[-1]
    factors = []
    for _ in range(400):
        again = StepBets()
        again._logs, again._exceeding = bets._logs.copy(), bets._exceeding.copy()
        again.update(np.linspace(-3, 3, 200), rng.random(200) < RATE, 1.0, RATE)
        factors.append(np.exp(again.wealth[-1] - before))
    assert np.mean(factors) < 1
