"""The bound under exact nulls: at every number of canaries it exceeds the truth as rarely as said.

False-alarm rate of every test of a frequency: below 1e-6.
"""

import itertools

import numpy as np
import pytest
from dpframe_torch import Canaries
from scipy import special, stats
from torch_support import plain, table

import dpframe

ERROR = 0.05
FAR = 4.9  # standard deviations


def bound(scores, members, error=ERROR, delta=0.0):
    found = dpframe.score_one_run(
        scores, members, delta=delta, confidence=1 - error, estimators=["one-run"]
    )
    return found["rows"][0]["bounds"][0]["epsilon_lower"]


def best_threshold(scores, members, error=ERROR):
    """Return the best of all thresholds, as if it had been fixed in advance: the mutant."""
    order = np.argsort(-scores)
    right = np.cumsum(members[order])
    best = 0.0
    for guesses, correct in enumerate(right, start=1):
        if correct:
            share = stats.beta.ppf(error, correct, guesses - correct + 1)
            best = max(best, float(special.logit(share)))
    return best


@pytest.mark.parametrize("m", [1, 2, 5, 7, pytest.param(10, marks=pytest.mark.slow)])
def test_scores_that_know_nothing_exceed_zero_with_at_most_the_error_exactly(m):
    """Every outcome of m coins, so this is no estimate; memberships that are refused show none."""
    scores = np.arange(float(m))
    above = 0
    for coins in itertools.product([False, True], repeat=m):
        try:
            above += bound(scores, np.array(coins)) > 0
        except dpframe.DpframeError:
            continue
    assert above / 2**m <= ERROR


def frequency(m, epsilon, runs, estimate, seed):
    """Return how often the bound exceeds ε for randomised response with a loss of exactly ε."""
    rng = np.random.default_rng(seed)
    above = 0
    for _ in range(runs):
        members = rng.random(m) < 0.5
        right = rng.random(m) < special.expit(epsilon)
        # Strength of evidence says nothing, but ties are broken at random.
        scores = np.where(members == right, 1.0, -1.0) * (1 + 0.01 * rng.random(m))
        above += estimate(scores, members) > epsilon
    return above


@pytest.mark.parametrize(
    ("m", "epsilon"),
    [
        (30, 0.0),
        (100, 1.0),
        pytest.param(100, 0.0, marks=pytest.mark.slow),
        pytest.param(1_000, 0.0, marks=pytest.mark.slow),
    ],
)
def test_the_bound_exceeds_the_loss_of_randomised_response_as_rarely_as_it_says(m, epsilon):
    runs = 200
    limit = int(stats.binom.isf(1e-6, runs, ERROR))
    assert frequency(m, epsilon, runs, bound, 1) <= limit


def agreement(coins_of):
    """Return how often reference coins agree with the run's, in standard deviations."""
    same, number = 0, 0
    for seed in range(40):
        canaries = Canaries(table(60), 50, "as-they-are", seed=seed, out=None)
        for k in range(3):
            agreeing = coins_of(canaries, k) == canaries._members
            same, number = same + int(agreeing.sum()), number + len(agreeing)
    return abs(same - number / 2) / (number / 4) ** 0.5


def test_coins_of_reference_models_are_independent_of_those_of_the_run():
    """Otherwise scores would know the coins. False-alarm rate 1e-6; a mutant reuses the coins."""
    assert agreement(lambda canaries, k: canaries._reference_coins(k)) < FAR
    assert agreement(lambda canaries, k: canaries._members) > FAR
    canaries = Canaries(table(60), 50, "as-they-are", seed=0, out=None)
    for k in range(3):
        inside = {-1 - int(i) for i in canaries.reference_set(k).source if i < 0}
        assert inside == set(np.flatnonzero(canaries._reference_coins(k)))
        assert len(canaries.reference_set(k)) == 10 + len(inside)


@pytest.mark.slow
@pytest.mark.parametrize("score", ["lira", "rmia"])
def test_scores_from_references_exceed_zero_with_at_most_the_error(score):
    """The audited models are trained without any canary, so no coin can be known."""
    runs, above = 200, 0
    for seed in range(runs):
        canaries = Canaries(table(120, seed), 60, "as-they-are", seed=seed, out=None)
        model = plain(table(120, 1_000 + seed), epochs=3)
        references = {k: plain(canaries.reference_set(k), epochs=3) for k in range(2)}
        found = canaries.audit(model, score=score, references=references, delta=1e-9)
        above += found.epsilon_lower > 0
    assert above <= stats.binom.isf(1e-6, runs, ERROR)


def test_the_best_of_all_thresholds_would_not_hold():
    """Another tool's rule as a mutant: this suite would notice it."""
    runs = 200
    limit = int(stats.binom.isf(1e-6, runs, ERROR))
    assert frequency(100, 0.0, runs, best_threshold, 2) > limit


def test_the_bound_is_not_vacuous():
    """Scores two standard deviations apart, 1,000 canaries."""
    rng = np.random.default_rng(3)
    members = rng.random(1_000) < 0.5
    assert bound(2 * members + rng.normal(size=1_000), members, delta=1e-5) > 1.5


def test_guesses_fixed_for_gradients_show_more_than_those_of_any_score():
    """Likelihood ratios of 400 sampled Gaussian steps, ε = 8, 1,000 canaries; means of 8 runs."""
    from dpframe_torch.auditing import guesses_of

    rng, found = np.random.default_rng(4), {"any": [], "fixed": []}
    rate, noise = 0.05, 0.916
    for _ in range(8):
        members = rng.random(1_000) < 0.5
        released = noise * rng.normal(size=(400, 1_000)) + (
            rng.random((400, 1_000)) < rate * members
        )
        ratios = (2 * released - 1) / (2 * noise**2) + special.logit(rate)
        scores = np.logaddexp(0, ratios).sum(0)
        for name, parameters in (("any", {}), ("fixed", guesses_of("gradient"))):
            row = dpframe.score_one_run(
                scores,
                members,
                delta=1e-5,
                estimators=["one-run"],
                parameters=parameters,
                lower_is_member=False,
            )["rows"][0]
            found[name].append(row["bounds"][0]["epsilon_lower"])
    assert np.mean(found["fixed"]) > np.mean(found["any"]) > 1.6
    assert guesses_of("loss") == {}
