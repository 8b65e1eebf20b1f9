"""Canaries with ideal scores, and the estimators that assume a Gaussian mechanism.

False-alarm rate: 1e-6 a test, at fixed seeds.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpframe_baselines.canaries import (
    IdealCanaries,
    OneRunFDPGaussian,
    OneRunXiang,
    OnlyCanaries,
    RightGuesses,
    Run,
)
from scipy import stats

import dpframe
from dpframe.plugins import ApproxDP, DpframeError, GaussianDP, PureDP, Query
from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.one_run import one_run_gaussian_mu

DELTA = 1e-5
BOTH = pytest.mark.parametrize("cls", [OneRunFDPGaussian, OneRunXiang], ids=lambda cls: cls.name)


def ideal(rng, mu, m):
    members = rng.random(m) < 0.5
    return mu * members + rng.normal(size=m), members


def estimated(estimator, scores, members, claim=None, delta=DELTA, confidence=0.95):
    query = Query((0, 1), delta, confidence, claim, 1e-6)
    return estimator.estimate_canaries(scores, members, query, np.random.default_rng(0))


def naive_right(scores, members, guesses):
    """Count right guesses of one run without ties."""
    order = np.argsort([-np.inf if score != score else score for score in scores])
    low, high = order[: guesses // 2], order[len(order) - (guesses - guesses // 2) :]
    return sum(not members[i] for i in low) + sum(bool(members[i]) for i in high)


@pytest.mark.parametrize("guesses", [1, 2, 7, 40, 41])
@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_right_guesses_are_those_of_a_sorted_list(guesses, xp):
    rng, m = np.random.default_rng(guesses), 41
    runs = np.stack([ideal(rng, 1.0, m) for _ in range(6)]).astype(np.float32)
    runs[2, 0, 5] = np.nan
    runs[3, 0, 5] = np.inf
    statistic = RightGuesses(guesses)
    layout, keep = statistic.lay_out((2, m)), np.array([1, 1, 1, 1, 0, 1], bool)
    counts = statistic.update(
        layout, statistic.zero(layout), np.int32(1), xp.asarray(runs), xp.asarray(keep)
    )
    kept = [run for run, is_kept in zip(runs, keep, strict=True) if is_kept]
    assert counts["right"].tolist() == [0, sum(naive_right(*run, guesses) for run in kept)]
    assert counts["members"].tolist() == [0, sum(int(run[1].sum()) for run in kept)]


def test_ties_are_broken_without_the_coins_and_too_many_guesses_are_refused():
    members = np.arange(1000) < 500  # the order of the canaries is that of the coins
    found = estimated(OneRunXiang(guesses=300), np.zeros(1000), members, GaussianDP(0.2))
    assert found.epsilon_lower == 0
    assert found.p_value > 0.01
    with pytest.raises(ValueError, match="guesses = 11, but there are 10 canaries"):
        RightGuesses(11).lay_out((2, 10))
    with pytest.raises(DpframeError, match="900 of 1,000 canaries are members"):
        estimated(OneRunXiang(), np.zeros(1000), np.arange(1000) < 900)


@BOTH
def test_a_bound_is_where_the_verdict_on_the_claim_changes(cls):
    scores, members = ideal(np.random.default_rng(3), 2.0, 400)
    estimator = cls(guesses=100)
    bound = estimated(estimator, scores, members)
    mu = next(float(note.split()[-1]) for note in bound.notes if note.startswith("μ of"))
    assert bound.epsilon_lower == pytest.approx(float(gaussian_epsilon(DELTA, mu)), rel=1e-3)
    assert 4 < bound.epsilon_lower < bound.epsilon
    for claimed, is_refuted in ((0.99 * mu, True), (1.01 * mu, False)):
        found = estimated(estimator, scores, members, GaussianDP(claimed))
        assert (found.p_value <= 0.05) == is_refuted
        assert found.epsilon_lower == bound.epsilon_lower
    right = naive_right(scores, members, 100)
    by_formula = one_run_gaussian_mu(400, 100, right, 0.05)
    assert cls is OneRunXiang or mu == pytest.approx(by_formula, rel=1e-3)


@BOTH
@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, DELTA)], ids=["pure", "approx"])
def test_a_claim_on_other_mechanisms_gets_no_bound_and_no_verdict(cls, claim):
    scores, members = ideal(np.random.default_rng(3), 3.0, 400)
    found = estimated(cls(), scores, members, claim)
    assert not cls().certifies_against(claim)
    assert (found.epsilon_lower, found.p_value) == (None, None)
    assert found.interval[0] > 4


@BOTH
def test_there_is_no_bound_at_delta_0(cls):
    scores, members = ideal(np.random.default_rng(3), 3.0, 400)
    found = estimated(cls(), scores, members, delta=0.0)
    assert found.epsilon_lower == found.epsilon == 0
    assert any("no finite ε at δ = 0" in note for note in found.notes)


def shared_level(rng, m):
    """Answer all coins by randomised response at one level, so that each curve is that of μ = 1."""
    level = abs(rng.normal() + (rng.random() < 0.5) - 0.5)
    members = rng.random(m) < 0.5
    truthful = rng.random(m) < 1 / (1 + np.exp(-level))
    return np.where(truthful, members, ~members) + rng.random(m) / 2, members


def alarms(cls, draw, runs, guesses, mu=1.0):
    """Count the runs in which an estimator refutes μ-GDP at 5 %."""
    rng, estimator = np.random.default_rng(11), cls(guesses=guesses)

    @functools.cache
    def refutes(canaries, right):
        return estimator.mu_p_value(Run(canaries, guesses, right), mu) <= 0.05

    drawn = [draw(rng) for _ in range(runs)]
    return sum(refutes(len(scores), naive_right(scores, in_, guesses)) for scores, in_ in drawn)


@BOTH
@pytest.mark.parametrize("guesses", [10, 100])
def test_a_true_claim_is_refuted_in_at_most_5_percent_of_runs(cls, guesses):
    runs = 400
    wrong = alarms(cls, lambda rng: ideal(rng, 1.0, 100), runs, guesses)
    assert stats.binom.sf(wrong - 1, runs, 0.05) > 1e-6


def test_the_law_of_independent_scores_is_nearly_exact():
    """A guess about every canary: the test refutes the truth about as often as it may."""
    runs = 400
    wrong = alarms(OneRunXiang, lambda rng: ideal(rng, 1.0, 1000), runs, 1000)
    assert stats.binom.cdf(wrong, runs, 0.03) > 1e-6
    assert alarms(OneRunXiang, lambda rng: ideal(rng, 1.5, 1000), 20, 1000) >= 19


def test_noise_that_canaries_share_needs_the_bound_for_dependent_scores():
    """The law of independent scores refutes the truth in 41 % of these runs."""
    runs = 200
    by_order = alarms(OneRunXiang, lambda rng: shared_level(rng, 1000), runs, 1000)
    assert stats.binom.sf(by_order - 1, runs, 0.05) < 1e-6
    by_recursion = alarms(OneRunFDPGaussian, lambda rng: shared_level(rng, 1000), runs, 1000)
    assert stats.binom.sf(by_recursion - 1, runs, 0.05) > 1e-6


def test_ideal_scores_have_the_stated_law():
    mechanism = IdealCanaries(mu=1.5, count=2000)
    runs = np.stack([mechanism.release(jax.random.key(seed), jnp.zeros(1)) for seed in range(5)])
    scores, members = runs[:, 0].ravel().astype(float), runs[:, 1].ravel()
    assert set(members) == {0.0, 1.0}
    assert stats.binomtest(int(members.sum()), len(members)).pvalue > 1e-6
    assert stats.kstest(scores - 1.5 * members, "norm").pvalue > 1e-6
    assert mechanism.claim(OnlyCanaries()) == mechanism.truth(OnlyCanaries()) == GaussianDP(1.5)


def test_runs_add_up_in_an_audit():
    record = dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "ideal", "trials": 2, "delta": DELTA},
            "pair": {"use": "only-canaries"},
            "mechanism": [{"use": "ideal-canaries", "params": {"mu": 1.0, "count": 300}}],
            "attack": [{"use": "canaries"}],
            "estimator": [{"use": "one-run-xiang"}],
        }
    )
    (cell,) = record["cells"]
    assert cell["verdict"] != "violated"
    assert "of 1,200 guesses right, 1,200 canaries" in cell["estimate"]["notes"][0]
    assert 3 < cell["estimate"]["epsilon_lower"] < 5


@BOTH
@pytest.mark.parametrize("claim", [GaussianDP(0.8), PureDP(1.0)], ids=["gaussian", "pure"])
def test_power_counts_the_audits_whose_estimate_refutes_the_claim(cls, claim):
    estimator, query = cls(guesses=30), Query((1, 1), DELTA, 0.95, claim, 1e-6)
    layout = estimator.statistic().lay_out((2, 100))
    right = np.arange(61)
    counts = {
        "right": np.stack([right // 2, right - right // 2], 1),
        "members": np.full((61, 2), 50),
    }
    refuted = estimator.refuted(layout, counts, query)
    for k in range(30, 61):
        own = {name: leaf[k] for name, leaf in counts.items()}
        p_value = estimator.estimate(layout, own, query).p_value
        assert refuted[k] == (p_value is not None and p_value <= 0.05)
    assert refuted[-1] == isinstance(claim, GaussianDP)


def test_scores_of_one_run_are_judged_by_these_estimators_only_if_they_are_named():
    scores, members = ideal(np.random.default_rng(3), 2.0, 400)
    for more in ({}, {"assume": "independent"}):
        found = dpframe.score_one_run(scores, members, delta=DELTA, lower_is_member=False, **more)
        labels = {row["estimator"]["label"] for row in found["rows"]}
        assert not labels & {"one-run-xiang", "one-run-fdp-gaussian"}
    named = dpframe.score_one_run(
        scores, members, delta=DELTA, lower_is_member=False, estimators=["one-run-xiang"]
    )
    (row,) = named["rows"]
    assert "a Gaussian mechanism" in row["estimate"]["assumption"]
    assert row["bounds"][0]["epsilon_lower"] > 5
