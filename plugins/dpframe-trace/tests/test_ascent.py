"""The search along gradients finds what mutations miss.

False-alarm rate: 5 % for an audit that is violated, at a fixed seed.
"""

from pathlib import Path

import jax
import numpy as np
import pytest
from dpframe_trace.ascent import Ascent
from trace_support import weighted_sum

import dpframe
from dpframe.plugins import Earned, Mechanism, PureDP
from dpframe.testing import check_neighbourhood

SPEC = """
schema = 1
[audit]
name = "weighted-sum"
trials = 300_000
[search]
use = "USE"
params = { length = 32 }
[[mechanism]]
use = "weighted-sum"
[[attack]]
use = "identity"
[[estimator]]
use = "betting"
"""


def searched(tmp_path, use, trials=300_000):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.replace("USE", use), encoding="utf-8")
    record = dpframe.audit(spec, trials=trials, plugins=[Path(weighted_sum.__file__)])
    (cell,) = record["cells"]
    return cell


def test_it_finds_the_direction_of_32_weights_that_mutations_miss(tmp_path):
    """The loss is 4/3 on one pair in 2^32 of those where every answer changes by 1."""
    by_gradient, by_mutation = (searched(tmp_path, use) for use in ("ascent", "climb"))
    assert by_gradient["verdict"] == "violated"
    assert by_gradient["estimate"]["epsilon_lower"] == pytest.approx(1.31, abs=0.01)
    assert by_mutation["verdict"] != "violated"
    assert by_mutation["estimate"]["epsilon_lower"] < 0.6


@pytest.mark.slow
def test_mutations_miss_it_with_two_million_draws(tmp_path):
    assert searched(tmp_path, "climb", 2_000_000)["verdict"] == "consistent"


def test_it_follows_the_neighbourhood_checks():
    check_neighbourhood(Ascent(length=4))


def test_a_gradient_leads_to_the_worst_pair_and_proposes_it_once():
    ascent = Ascent(length=32, starts=6).for_mechanism(weighted_sum.WeightedSum())
    rng = np.random.default_rng(1)
    first = list(ascent.propose(rng, ()))
    again = ascent.propose(rng, [Earned(pair, 100, 0.0) for pair in first])
    changes = [abs(weighted_sum.WEIGHTS @ (pair.d1 - pair.d0)) for pair in (*first, *again)]
    assert sum(change == pytest.approx(32) for change in changes) >= 1
    for pair in (*first, *again):
        assert np.abs(pair.d1 - pair.d0).max() <= 1
        assert min(pair.d0.min(), pair.d1.min()) >= 0
        assert max(pair.d0.max(), pair.d1.max()) <= 1
    pairs = {frozenset({pair.d0.tobytes(), pair.d1.tobytes()}) for pair in (*first, *again)}
    assert len(pairs) == len(first) + len(again)


class WithoutGradient(Mechanism, name="without-gradient"):
    """A count with a loop of unknown length, or a decision."""

    decides: bool

    def claim(self, pair):
        return PureDP(1.0)

    def sample(self, key, data, n):
        noisy = data.sum() + jax.random.laplace(key, (n, 1))
        if self.decides:
            return noisy > 1
        return jax.lax.while_loop(lambda x: (x > 9).any(), lambda x: x / 2, noisy)


@pytest.mark.parametrize("decides", [True, False])
def test_a_mechanism_without_a_gradient_is_searched_by_mutations(decides):
    ascent = Ascent(length=3).for_mechanism(WithoutGradient(decides=decides))
    pairs = ascent.propose(np.random.default_rng(1), ())
    assert pairs == ascent._climb.propose(np.random.default_rng(1), ())


@pytest.mark.parametrize("mechanism", [None, "a black box"])
def test_without_gradients_it_proposes_what_climb_does(mechanism):
    ascent = Ascent(length=3)
    assert ascent.for_mechanism(mechanism) is ascent
    history = [Earned(pair, 100, 0.0) for pair in ascent.propose(np.random.default_rng(1), ())]
    pairs = ascent.propose(np.random.default_rng(2), history)
    climbed = ascent._climb.propose(np.random.default_rng(2), history)
    assert pairs == climbed
