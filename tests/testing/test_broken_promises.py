"""Every promise is broken once, and found broken; by the message an author would get."""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow

from dpframe import (
    Attack,
    BinCounts,
    DecisionCounts,
    Estimate,
    Estimator,
    HostMechanism,
    Mechanism,
    Pair,
    PureDP,
    clopper_pearson_upper,
    estimate_from_boxes,
)
from dpframe.builtin.pairs import ZerosOnes
from dpframe.builtin.pure_mechanisms import Laplace
from dpframe.testing import (
    NotKeptError,
    attacks,
    check_attack,
    check_mechanism,
    check_pair,
    estimators,
    examined,
    mechanisms as of_mechanisms,
    neighbourhoods as pairs,
)
from dpframe.testing.plugins import examine


def finding(kind: str, subject: Any, promise: str) -> Any:
    trials = {
        "mechanism": of_mechanisms.TRIALS,
        "attack": attacks.TRIALS,
        "estimator": estimators.TRIALS,
        "pair": pairs.OF_PAIRS,
    }[kind]
    (found,) = examine(subject, [trial for trial in trials if trial[0] == promise])
    return found


# Mechanisms: what `sample` or `claim` would be, and which promise that breaks.


def noise(key: Any, n: int, dim: int = 2) -> Any:
    return jax.random.laplace(key, (n, dim))


def signed(x: Any) -> Any:
    """Every second row is the one before, negated."""
    return jnp.stack([x, -x], axis=1).reshape(-1, 2)[: len(x)]


STEPS = iter(range(10**9))
BROKEN_SAMPLES = {
    "leading axis": (
        "returns n outputs along the first axis",
        lambda key, data, n: noise(key, n).T,
        "first axis must be n",
    ),
    "another shape for one": (
        "returns n outputs along the first axis",
        lambda key, data, n: data[: 2 if n > 1 else 1] + noise(key, n)[:, : 2 if n > 1 else 1],
        "has the shapes",
    ),
    "NaN": (
        "outputs are numbers, without NaN unless declared",
        lambda key, data, n: jnp.where(noise(key, n) > 4, jnp.nan, 0.0),
        "may_be_nan",
    ),
    "time": (
        "same key, same bits",
        lambda key, data, n: (
            data
            + noise(key, n)
            + jax.pure_callback(
                lambda: np.float32(next(STEPS)), jax.ShapeDtypeStruct((), np.float32)
            )
        ),
        "same randomness gave different outputs",
    ),
    "NumPy": (
        "different key, different bits",
        lambda key, data, n: data + np.random.default_rng(3).laplace(size=(n, 2)),
        "under different keys",
    ),
    "one draw for all": (
        "different key, different bits",
        lambda key, data, n: data + jnp.broadcast_to(noise(key, 1), (n, 2)),
        "all outputs of one call are equal",
    ),
    "half the draws": (
        "outputs are independent",
        lambda key, data, n: data + jnp.repeat(noise(key, (n + 1) // 2), 2, axis=0)[:n],
        "repeats rows",
    ),
    "a moving average": (
        "outputs are independent",
        lambda key, data, n: data + noise(key, n + 1)[:-1] + noise(key, n + 1)[1:],
        "neighbours are similar, or dissimilar",
    ),
    "antithetic": (
        "outputs are independent",
        lambda key, data, n: data + signed(noise(key, n)),
        "neighbours are similar, or dissimilar",
    ),
    "a law of n": (
        "same distribution one by one and in a batch",
        lambda key, data, n: data + noise(key, n) * n**0.5,
        "follow a different distribution",
    ),
}


@pytest.mark.parametrize("fault", BROKEN_SAMPLES)
def test_a_mechanism_that_breaks_a_promise(fault: str) -> None:
    promise, sample, says = BROKEN_SAMPLES[fault]

    class Faulty(Mechanism, name="faulty"):
        """Faulty."""

        def sample(self, key: Any, data: Any, n: int) -> Any:
            return sample(key, data, n)

    pair = ZerosOnes(dim=2)
    found = finding("mechanism", of_mechanisms.MechanismOnPair(Faulty(), pair), promise)
    assert found.result == "broken"
    assert says in found.detail


class Branching(Mechanism, name="branching"):
    """Branches on a traced float."""

    epsilon: float = 1.0
    """The claim."""

    def claim(self, pair: Pair) -> Any:
        return "ε"

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + noise(key, n) / (self.epsilon if self.epsilon > 0.9 else 1.0)


class Dense(Mechanism, name="dense"):
    """Its density is that of half the noise."""

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + noise(key, n)

    def log_density(self, data: Any, outputs: Any) -> Any:
        return -2 * jnp.abs(outputs - data).sum(axis=1)


class Distributed(Mechanism, name="distributed"):
    """Laplace noise, and the distribution function of noise of half its scale."""

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + jax.random.laplace(key, (n, 1))

    def cdf(self, data: Any, x: Any) -> Any:
        return stats.laplace.cdf(x, data[0], 0.5)


class Undescribed(Mechanism, name="undescribed"):
    scale: float = 1.0

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + noise(key, n)


class Greedy(HostMechanism, name="greedy"):
    """Changes what it is given, and draws from its own generator."""

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        data += 1
        return data + np.random.default_rng(next(STEPS)).laplace(size=(n, 2))


class Meddling(HostMechanism, name="meddling"):
    """Changes one number in the middle of a long table."""

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        data[len(data) // 2] += 1
        return rng.laplace(size=(n, 2))


class Long(Pair, name="long"):
    """Arrays that NumPy abbreviates in print."""

    adjacency = "replace one record"

    @property
    def d0(self) -> Any:
        return TABLES[0]

    @property
    def d1(self) -> Any:
        return TABLES[1]


TABLES = np.zeros(5000), np.ones(5000)


class Own(Pair, name="own"):
    """Data of its own that can be changed."""

    adjacency = "replace one record"

    def __init__(self) -> None: ...

    @property
    def d0(self) -> Any:
        return ZEROS

    @property
    def d1(self) -> Any:
        return ONES


ZEROS, ONES = np.zeros(2), np.ones(2)


class Queried(Mechanism, name="queried"):
    """Its query has noise, or its noise is made for less than nothing."""

    noisy: bool = True
    sensitivity = -1.0

    def query(self, data: Any) -> Any:
        return np.random.random() if self.noisy else 0.0

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return jax.random.uniform(key, (n,))


class Stated(Mechanism, name="stated"):
    """It states a fair coin, and always answers 1."""

    def choices(self, data: Any) -> Any:
        return [math.log(0.5)] * 2

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return jnp.ones(n, int)


def test_a_distribution_function_is_that_of_the_outputs() -> None:
    promise = "its distribution function matches its outputs"
    played = of_mechanisms.MechanismOnPair(Distributed(), ZerosOnes())
    found = finding("mechanism", played, promise)
    assert found.result == "broken"
    assert "differs by" in found.detail


@pytest.mark.parametrize(
    ("mechanism", "promise", "says"),
    [
        (Branching(), "claims a privacy loss for the pair", "must be a Claim or None"),
        (Branching(), "one trace for all values of its floats", "TracerBoolConversionError"),
        (Dense(), "its density matches its outputs", "does not match the outputs"),
        (Queried(), "its query has a sensitivity and no noise", "two different answers"),
        (Queried(noisy=False), "its query has a sensitivity and no noise", "sensitivity is -1"),
        (Stated(), "its outputs have the distribution that it states", "does not sample from"),
        (Greedy(), "does not change its input", "changes the data"),
        (Greedy(), "same key, same bits", "all of it must come from the argument"),
    ],
)
def test_a_mechanism_with_another_fault(mechanism: Any, promise: str, says: str) -> None:
    found = finding("mechanism", of_mechanisms.MechanismOnPair(mechanism, Own()), promise)
    assert found.result == "broken"
    assert says in found.detail


def test_a_mechanism_without_a_docstring() -> None:
    (first, *_) = examined(Undescribed())
    assert first.promise == "describes itself and its parameters"
    assert first.result == "broken"
    assert "no docstring" in first.detail


def test_a_change_in_the_middle_of_a_large_input_is_seen() -> None:
    played = of_mechanisms.MechanismOnPair(Meddling(), Long())
    assert finding("mechanism", played, "does not change its input").result == "broken"


# Attacks.


class Reversed(Attack, name="reversed"):
    """Larger scores mean D."""

    gives = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return -outputs.sum(axis=1)


class Mean(Attack, name="mean"):
    """Looks at the rows beside."""

    gives = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs.sum(axis=1) - outputs.mean()


class Deciding(Attack, name="deciding"):
    """Says that it scores, and decides; learns something else each time."""

    gives = "score"

    def fit(self, key: Any, target: Any, train: Any) -> Any:
        return np.float32(next(STEPS))

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs.sum(axis=1) > 1


class Doubled(Attack, name="doubled"):
    """Says that it hands out what it doubles."""

    gives = "score"
    hands_out = True

    def score(self, state: Any, outputs: Any) -> Any:
        return 2 * outputs[:, 0]


def test_an_attack_that_says_so_hands_out_the_output() -> None:
    played = of_mechanisms.MechanismOnPair(Laplace(epsilon=8.0, sensitivity=2.0), ZerosOnes())
    found = finding(
        "attack",
        attacks.AttackOnPair(Doubled(), played),
        "returns what it declares, one per output",
    )
    assert found.result == "broken"
    assert "hands_out" in found.detail


@pytest.mark.parametrize(
    ("attack", "promise", "says"),
    [
        (Reversed(), "larger scores mean D′", "larger scores must mean D′"),
        (Mean(), "scores every output alone", "score every row independently"),
        (Deciding(), "returns what it declares, one per output", "gives = 'score'"),
        (Deciding(), "learns the same from the same draws", "something different"),
    ],
)
def test_an_attack_that_breaks_a_promise(attack: Any, promise: str, says: str) -> None:
    played = of_mechanisms.MechanismOnPair(Laplace(epsilon=8.0, sensitivity=2.0), ZerosOnes(dim=2))
    found = finding("attack", attacks.AttackOnPair(attack, played), promise)
    assert found.result == "broken"
    assert says in found.detail


def test_an_attack_that_does_not_suit_its_target_is_not_played() -> None:
    class Picky(Attack, name="picky"):
        """Suits nothing."""

        gives = "score"

        def unsuited(self, target: Any) -> str:
            return "it wants peace"

        def score(self, state: Any, outputs: Any) -> Any:
            raise ValueError

    played = of_mechanisms.MechanismOnPair(Laplace(epsilon=8.0, sensitivity=2.0), ZerosOnes(dim=2))
    found = examine(attacks.AttackOnPair(Picky(), played), attacks.TRIALS)
    (broken,) = (one for one in found if one.result == "broken")
    assert broken.promise == "suits the target"
    assert "it wants peace" in broken.detail
    assert sum(one.result == "left out" for one in found) == len(attacks.TRIALS) - 1


class OfIndices(Attack, name="of-indices"):
    """Looks an index up in a table of ratios; raises on other numbers."""

    gives = "score"
    sign: float = 1.0
    """The sign of the scores."""

    def fit(self, key: Any, target: Any, train: Any) -> Any:
        zero, one = (np.bincount(outputs.ravel(), minlength=4) + 1 for outputs in train)
        return np.float32(self.sign * np.log(one / zero))

    def score(self, state: Any, outputs: Any) -> Any:
        return state[outputs.ravel()]


def test_an_attack_on_indices_is_tried_on_indices() -> None:
    found = {one.promise: one.result for one in check_attack(OfIndices)}
    assert found.pop("scores NaN, infinities and other extremes") in ("kept", "left out")
    assert set(found.values()) == {"kept"}


def test_a_broken_promise_names_the_options_for_other_data() -> None:
    options = r"--set mechanism.use=… --set pair.use=…"
    with pytest.raises(NotKeptError, match=f"(?s)larger scores must mean D′.*{options}"):
        check_attack(OfIndices(sign=-1.0))
    with pytest.raises(NotKeptError) as raised:
        check_attack(Reversed(), Laplace(epsilon=8.0), ZerosOnes(dim=2))
    assert options not in str(raised.value)


# Estimators: Clopper-Pearson limits of decisions, with one thing wrong.


EXACT = "bounds hold at every confidence, by exact sums"
FAIR = "its bets are fair whatever came before, by exact sums"


class Limits(Estimator):
    """Both limits of one event."""

    certifies = True
    assumption = "independent outputs"
    generous: float = 1.0
    """The error is multiplied by it."""
    vacuous: bool = False
    """Certifies nothing."""
    backwards: bool = False
    """More confidence, larger bound."""
    mild: bool = False
    """`extreme` is not."""
    divides: bool = False
    """By the number of decisions."""
    radius: float = 0.0
    """If above 0: limits of Hoeffding, whose radius is multiplied by it."""

    def statistic(self) -> Any:
        return DecisionCounts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Any:
        errors = [[counts[0, 1], counts[1, 0]]]
        if self.divides:
            assert counts[0, 1] / int(counts[0, 1]) >= 0

        def boxes(error: float) -> Any:
            level = min(0.999, self.generous * error / 2)
            level = 1 - query.confidence if self.vacuous else level
            if self.radius and counts.sum(axis=1).all():
                trials = counts.sum(axis=1)
                found = errors / trials + self.radius * np.sqrt(np.log(2 / error) / (2 * trials))
                return np.minimum(1.0, found)
            found = clopper_pearson_upper(errors, counts.sum(axis=1), level)
            return np.ones_like(found) if self.vacuous else found

        asked = query._replace(confidence=1 - query.confidence) if self.backwards else query
        return estimate_from_boxes(boxes, asked, epsilon=1.0)

    def extreme(self, layout: Any, trials: Any) -> Any:
        n0, n1 = trials
        return np.array([[n0 // 2, n0 - n0 // 2], [0, n1]] if self.mild else [[n0, 0], [0, n1]])


class OneEvent(Limits, name="one-event"):
    """One event."""


@dataclasses.dataclass(frozen=True)
class Forgetful(BinCounts):
    """Counts masked scores too."""

    def bind(self, pilot0: Any, pilot1: Any) -> Any:
        return np.quantile(pilot0, [0.1, 0.5, 0.9])

    def update(self, layout: Any, counts: Any, dataset: Any, scores: Any, keep: Any) -> Any:
        return super().update(layout, counts, dataset, scores, jnp.ones_like(keep).at[0].set(False))


class Sloppy(Limits, name="sloppy"):
    """Counts what it should not."""

    def statistic(self) -> Any:
        return Forgetful()


@pytest.mark.parametrize(
    ("estimator", "promise", "says"),
    [
        (Sloppy(), "counts add, and masked scores are not counted", "do not add up"),
        (OneEvent(divides=True), "answers whatever the counts are: none, all, NaN, no draws", ""),
        (OneEvent(backwards=True), "more confidence, smaller bound", "mean bounds"),
        (OneEvent(backwards=True), "bound and p-value agree", "does not reject it"),
        (OneEvent(mild=True), "extreme is most extreme", "no counts may give stronger evidence"),
        (OneEvent(generous=9.0), "bounds hold as often as they promise", "is not valid"),
        pytest.param(
            OneEvent(generous=2.0), EXACT, "exceeds the truth with", marks=pytest.mark.slow
        ),
        (OneEvent(radius=0.5), EXACT, "is not valid at the confidence 0.999"),
        (OneEvent(vacuous=True), "finds a large loss", "hardly find anything"),
    ],
)
def test_an_estimator_that_breaks_a_promise(estimator: Any, promise: str, says: str) -> None:
    found = finding("estimator", estimators.ScoredEstimator(estimator), promise)
    assert found.result == "broken"
    assert says in found.detail


@pytest.mark.parametrize("radius", mostly_slow([0.0, 1.0], (1,)))
def test_the_same_estimator_without_a_fault_keeps_them(radius: float) -> None:
    asked = estimators.ScoredEstimator(OneEvent(radius=radius))
    found = examine(asked, estimators.TRIALS)
    assert {one.result for one in found} == {"kept", "left out"}
    assert [one.promise for one in found if one.result == "left out"] == [
        "binds the same from the same pilot",
        "is valid at every number of trials at once, if declared",
        FAIR,
    ]


def test_half_of_a_radius_is_noticed_by_exact_sums_alone() -> None:
    """200 audits at one confidence are too few to see it."""
    found = examine(estimators.ScoredEstimator(OneEvent(radius=0.5)), estimators.TRIALS)
    assert [one.promise for one in found if one.result == "broken"] == [EXACT]


# Pairs.


class Shaky(Pair, name="shaky"):
    """Other data each time, of another shape."""

    adjacency = "replace one record"

    @property
    def d0(self) -> Any:
        return np.full(2, next(STEPS), np.float32)

    @property
    def d1(self) -> Any:
        return np.zeros(3, np.float32)


class Still(Pair, name="still"):
    """Data that no other process can be given."""

    adjacency = "replace one record"
    d0 = property(lambda self: {"lock": threading.Lock()})
    d1 = property(lambda self: {"lock": None})


class Same(Pair, name="same"):
    """D = D′."""

    adjacency = " "

    @property
    def d0(self) -> Any:
        return np.zeros(2, np.float32)

    d1 = d0


@pytest.mark.parametrize(
    ("pair", "promise", "says"),
    [
        (Still(), "D and D′ are data that a mechanism can be given", "cannot be sent"),
        (Shaky(), "the data depend on the parameters alone", "d0 differs"),
        (Same(), "D and D′ differ", "equal"),
        (Same(), "states the relation of the neighbours", "adjacency"),
        (Same(), "has a finite distance", "distance(1) is 0"),
    ],
)
def test_a_pair_that_breaks_a_promise(pair: Any, promise: str, says: str) -> None:
    found = finding("pair", pair, promise)
    assert found.result == "broken"
    assert says in found.detail


# As in an author's test.


class Titled(Pair, name="titled"):
    """Has a text."""

    adjacency = "replace one record"
    d0 = d1 = 0
    title: str = '\N{GRINNING FACE} \x7f "'
    """Any text."""


def test_any_text_survives_toml() -> None:
    (found,) = [one for one in examined(Titled()) if one.promise == "parameters survive TOML"]
    assert found.result == "kept", found.detail


def test_an_author_is_told_every_broken_promise_at_once() -> None:
    with pytest.raises(NotKeptError, match=r"pair 'same' breaks 3 of 9:") as raised:
        check_pair(Same)
    assert "* D and D′ differ: D and D′ are equal" in str(raised.value)
    assert len(raised.value.findings) == 9


def test_a_claimless_mechanism_is_told_apart_from_a_broken_one() -> None:
    class Silent(Mechanism, name="silent"):
        """Claims nothing."""

        def sample(self, key: Any, data: Any, n: int) -> Any:
            return data + noise(key, n)

    found = {one.promise: one for one in check_mechanism(Silent)}
    assert found["claims a privacy loss for the pair"].result == "left out"
    assert PureDP(1.0) is not None


class Peeks(Estimator, name="peeks"):
    """Bets on a round what the round itself suggests."""

    certifies = True
    assumption = "none"
    anytime = True

    def statistic(self) -> Any:
        return DecisionCounts()

    def observe(self, state: Any, layout: Any, counts: Any, query: Any) -> Any:
        rates = (counts[:, 1] + 0.5) / (counts.sum(axis=1) + 1)
        truth = np.array([1, np.e]) / (1 + np.e)
        ratio = (
            np.log(rates / truth) @ counts[:, 1] + np.log((1 - rates) / (1 - truth)) @ counts[:, 0]
        )
        return (state or 0.0) + float(ratio)

    def conclude(self, state: Any, layout: Any, query: Any) -> Any:
        p_value = float(min(1.0, max(np.exp(-state), 1e-300)))
        wealth = ((query.trials[0], state),)
        return Estimate(0.0, 0.0, p_value=p_value, p_resolved=p_value, wealth=wealth)

    def estimate(self, layout: Any, counts: Any, query: Any) -> Any:
        return Estimate(0.0, 0.0, p_value=1.0, p_resolved=1.0)


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        (
            "is valid at every number of trials at once, if declared",
            "does a round choose its own bet?",
        ),
        (FAIR, "multiplies its wealth against a true claim by"),
    ],
)
def test_an_estimator_that_chooses_by_what_it_bets_on(promise: str, says: str) -> None:
    assert says in str(finding("estimator", estimators.ScoredEstimator(Peeks()), promise))
