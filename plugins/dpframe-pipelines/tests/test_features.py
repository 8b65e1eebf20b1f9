"""The attack on named features: what it chooses, what it says, and that it keeps its promises."""

from types import SimpleNamespace

import numpy as np
import pytest
from dpframe_pipelines.features import NamedFeatures, difference, telling

import dpframe
from dpframe.plugins import Target
from dpframe.testing import check_attack

NAMES = ["rows", "largest", "other"]
MECHANISM = SimpleNamespace(names_of=lambda pair: NAMES, claim=lambda pair: dpframe.PureDP(1.0))
TARGET = Target(MECHANISM, None, (3,))


def learned(x, y, look="cut"):
    attack = NamedFeatures(look=look)
    return attack, attack.fit(None, TARGET, (np.asarray(x, float), np.asarray(y, float)))


def test_the_feature_that_differs_is_cut_halfway():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 8, 3))
    y[:, 1] += 20
    attack, state = learned(x, y)
    scores = attack.score(state, np.concatenate([x, y]))
    assert scores[:8].max() < scores[8:].min()
    edge = scores[8:].min()
    told = attack.words(state, edge, True, {})
    assert told.startswith("the largest is above ")
    assert x[:, 1].max() < float(told.split()[-1]) < y[:, 1].min()
    assert attack.words(state, edge, False, {}).startswith("the largest is below ")


def test_a_missing_number_is_an_event():
    x, y = np.zeros((8, 3)), np.zeros((8, 3))
    y[:6, 2] = np.nan
    attack, state = learned(x, y)
    scores = attack.score(state, np.concatenate([x, y]))
    assert (scores[8:14] > scores[:8].max()).all()
    assert attack.words(state, scores[8], True, {}) == "the other is no number"


@pytest.mark.parametrize("look", ["cut", "intervals"])
@pytest.mark.parametrize("fill", [0.0, np.nan, np.inf, -np.inf, 1e300])
def test_features_that_never_differ_are_no_problem(look, fill):
    x = np.full((8, 3), fill)
    attack, state = learned(x, x, look)
    scores = np.asarray(attack.score(state, x))
    assert np.isfinite(scores).all()
    assert len(set(scores)) == 1
    assert attack.words(state, float(scores[0]), True, {}) is not None


def test_equal_columns_are_kept_once_and_constant_ones_are_not():
    rng = np.random.default_rng(2)
    column = rng.normal(size=(2, 10, 1))
    x, y = np.concatenate([column, column, column * 0, 2 * column + 1], axis=2)
    assert telling((x, y), 24).tolist() == [0, 3]


def test_means_spreads_and_missing_numbers_differ():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 200, 4))
    y[:, 1] += 2
    y[:, 2] *= 5
    y[:150, 3] = np.nan
    found = difference([x, y])
    assert found[0] < 4
    assert (found[1:] > 6).all()


def test_it_is_for_answers_with_names(adjacent):
    plain = dpframe.host_mechanism(release=lambda rng, data: 1.0, name="plain")()
    assert "no named features" in NamedFeatures().unsuited(Target(plain, adjacent, (1,)))


@pytest.fixture
def adjacent():
    return dpframe.plugins.Values(d0=[0.0], d1=[1.0])


@pytest.mark.slow
def test_the_attack_keeps_its_promises(adjacent):
    check_attack(NamedFeatures(), Named(), adjacent)


class Named(dpframe.plugins.HostMechanism, name="named"):
    def names_of(self, pair):
        return ["noise"]

    def claim(self, pair):
        return dpframe.PureDP(1.0)

    def sample(self, rng, data, n):
        return data[0] + rng.normal(size=(n, 1))
