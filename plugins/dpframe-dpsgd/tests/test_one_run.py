"""Runs with many canaries: fair coins, canaries that leave a trace, and bounds on known losses."""

import jax
import numpy as np
import pytest
from dpframe_dpsgd import federated
from dpframe_dpsgd.canary_pairs import ManyCanaries, NoData
from dpframe_dpsgd.federated import FederatedCanaries
from dpframe_dpsgd.one_run import OneRunDPSGD
from dpframe_dpsgd.pairs import Canary
from dpsgd_support import FAR, SMALL

import dpframe
from dpframe.plugins import GaussianDP

RUNS, COUNT, DIMENSION = 200, 50, 500


def released(mechanism, data, runs, seed=0):
    """Return scores and memberships, each of shape [runs, canaries]."""
    outputs = jax.jit(lambda key: mechanism.sample(key, data, runs))(jax.random.key(seed))
    scores, members = np.moveaxis(np.asarray(outputs), 1, 0)
    assert set(np.unique(members)) == {0.0, 1.0}
    assert abs(members.sum() - members.size / 2) < FAR * members.size**0.5 / 2
    return scores, members.astype(bool)


@pytest.mark.parametrize("at_once", [1 << 22, 8 * DIMENSION])
def test_scores_in_a_sum_of_random_directions(monkeypatch, at_once):
    """Means 1 and 0, variance σ² + members/d: those of theorem 1 where d is large.

    Also where canaries are made seven blocks at a time, of which the last is not full.
    """
    monkeypatch.setattr(federated, "AT_ONCE", at_once)
    sigma = 0.7
    mechanism = FederatedCanaries(count=COUNT, dimension=DIMENSION, sigma=sigma)
    assert mechanism.block == min(COUNT, at_once // DIMENSION)
    scores, members = released(mechanism, np.zeros(1), RUNS)
    assert scores.shape == (RUNS, COUNT)
    others = COUNT / 2 / DIMENSION
    for inside, mean in ((scores[members], 1.0), (scores[~members], 0.0)):
        deviation = (sigma**2 + others) ** 0.5
        assert abs(inside.mean() - mean) < FAR * deviation / inside.size**0.5
        error = FAR * (2 / inside.size) ** 0.5 + 2 / COUNT
        assert inside.var() == pytest.approx(deviation**2, rel=error)


def test_the_loss_of_random_directions_tends_to_that_of_gaussian_noise():
    """An estimate; in few dimensions the other canaries are noise, and it is lower."""

    def estimated(dimension):
        mechanism = FederatedCanaries(count=COUNT, dimension=dimension)
        scores, members = released(mechanism, np.zeros(1), RUNS)
        found = dpframe.score(
            scores[members], scores[~members], delta=0.01, estimators=["one-shot"]
        )
        return found["rows"][0]["estimate"]["epsilon"]

    truth = GaussianDP(1.0).epsilon_at(0.01)
    low, high = estimated(20), estimated(2000)
    assert low < 0.8 * truth
    assert high == pytest.approx(truth, rel=0.1)


def test_a_claim_on_random_directions_is_kept_and_a_quarter_of_the_noise_is_seen():
    """The claim is exact for each canary; false-alarm rate 1e-6."""
    rows = {}
    for sigma in (1.0, 0.25):
        mechanism = FederatedCanaries(count=COUNT, dimension=DIMENSION, sigma=sigma)
        scores, members = released(mechanism, np.zeros(1), RUNS, seed=1)
        found = dpframe.score_one_run(
            scores.ravel(),
            members.ravel(),
            claim=GaussianDP(1.0),
            delta=1e-9,
            estimators=["one-run"],
        )
        (rows[sigma],) = found["rows"]
    assert rows[1.0]["p_value"] > 1e-6
    assert 0.5 < rows[1.0]["bounds"][0]["epsilon_lower"] < GaussianDP(1.0).epsilon_at(1e-9)
    assert rows[0.25]["verdict"] == "violated"


def test_canaries_of_a_trained_model_leave_a_trace():
    """With next to no noise; memberships of other runs say nothing of the scores."""
    pair = ManyCanaries(records=30, count=40)
    params = {**SMALL, "width": 30, "batch": 30, "learning_rate": 0.01, "clip": 5.0, "steps": 80}
    mechanism = OneRunDPSGD.from_params({**params, "noise_multiplier": 1e-3}).resolve(pair)
    scores, members = released(mechanism, pair.d0, 10)
    for own, told in ((True, members), (False, np.roll(members, 1, axis=0))):
        asked = {"estimators": ["one-run"], "lower_is_member": False}
        found = dpframe.score_one_run(scores.ravel(), told.ravel(), **asked)
        (bound,) = found["rows"][0]["bounds"]
        assert (bound["epsilon_lower"] > 0.4) == own


def test_what_is_refused():
    with pytest.raises(ValueError, match="no records that are canaries"):
        OneRunDPSGD.from_params(SMALL).resolve(Canary(records=20, canary="gradient"))
    with pytest.raises(ValueError, match="the pair has 30: leave it out"):
        OneRunDPSGD.from_params({**SMALL, "records": 50}).resolve(ManyCanaries(records=30))
    with pytest.raises(ValueError, match="output"):
        OneRunDPSGD.from_params({**SMALL, "output": "steps"}).resolve(ManyCanaries(records=30))
    with pytest.raises(ValueError, match="more than the 1797 of 'digits'"):
        ManyCanaries(records=1500, count=500).check()
    assert not NoData().d0.any()


def test_batches_of_a_run_hold_all_records_that_are_taken():
    """Half of the canaries are out, so the array is shorter; it overflows with 2e-9 at most."""
    pair = ManyCanaries(records=60, count=200)
    mechanism = OneRunDPSGD(batch=30, steps=1).resolve(pair)
    present = jax.numpy.arange(260) < 60

    def sizes(key):
        coins, choose = jax.random.split(key)
        members = jax.random.bernoulli(coins, 0.5, (200,))
        data = jax.tree.map(jax.numpy.asarray, pair.d0)
        data = data._replace(present=present.at[60:].set(members))
        batch = mechanism.batch_of(choose, data, 0)
        taken = jax.random.uniform(jax.random.fold_in(choose, 0), (260,)) < mechanism.rate
        return batch.weight.sum(), (taken & data.present).sum(), batch.weight.size

    got, wanted, length = jax.jit(jax.vmap(sizes))(jax.random.split(jax.random.key(0), 2_000))
    assert np.array_equal(got, wanted)
    assert wanted.max() > 90
    assert length[0] < 200
