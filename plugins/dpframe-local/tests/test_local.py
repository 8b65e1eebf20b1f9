"""Samples, densities and exact losses of all protocols agree; claims are as tight as they say."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import dpframe_local
import jax
import numpy as np
import pytest
from dpframe_local.longitudinal import LongitudinalGRR, LongitudinalUnary
from dpframe_local.multidimensional import Sampled, SampledWithFakes, Split
from dpframe_local.protocols import (
    BLH,
    GRR,
    OLH,
    OUE,
    SUE,
    THE,
    HadamardResponse,
    SubsetSelection,
    signs,
)
from dpframe_local.shuffled import ShuffledDP, ShuffledGRR

import dpframe
from dpframe.plugins import Values
from dpframe.testing import check_mechanism

SPECS = sorted((Path(__file__).parents[1] / "specs").glob("*.toml"))
EPSILONS = 0.1, 1.0, 3.0
DRAWS = 20_000


def pair(zero, one):
    return Values(d0=list(map(float, zero)), d1=list(map(float, one)), adjacency="replace a user")


ONE = pair([0], [2])
MANY = pair([0, 1, 2], [3, 1, 2])
ALL = pair([0, 1, 2], [3, 0, 1])
SOLE = [
    (GRR(), ONE),
    (GRR(k=2, epsilon=3.0), pair([0], [1])),
    (SUE(), ONE),
    (OUE(k=3), ONE),
    (THE(), ONE),
    (SubsetSelection(k=9, epsilon=0.5), ONE),
    (SubsetSelection(k=4, omega=3), ONE),
    (BLH(k=50), ONE),
    (OLH(k=50, epsilon=2.0), ONE),
    (HadamardResponse(k=5), ONE),
    (HadamardResponse(k=4), pair([3], [0])),
    (LongitudinalGRR(), ONE),
    (LongitudinalUnary(), ONE),
    (LongitudinalUnary(permanent="oue", reports=2), ONE),
    (Split(), ALL),
    (Split(), MANY),
    (Sampled(), ALL),
    (Sampled(), MANY),
    (SampledWithFakes(), ALL),
    (SampledWithFakes(), MANY),
    (SampledWithFakes(prior=(0.4, 0.3, 0.2, 0.1)), MANY),
]


QUICK = {OLH}
"""Classes whose first entry is tried by default; slow tests try all."""


def some():
    first = {type(mechanism): at for at, (mechanism, _) in reversed(list(enumerate(SOLE)))}
    quick = {first[cls] for cls in QUICK}
    return [
        pytest.param(*both, id=both[0].name, marks=() if at in quick else pytest.mark.slow)
        for at, both in enumerate(SOLE)
    ]


def named(value):
    return value.name if hasattr(value, "name") else ""


@pytest.mark.parametrize(("mechanism", "at"), some())
def test_samples_densities_and_truth_agree(mechanism, at):
    """The mean of the likelihood ratio is 1, and of its part below 1 the total variation.

    Six deviations of 42 means: a false alarm has a probability below 1e-7 for each.
    """
    mechanism = mechanism.resolve(at)
    distance = mechanism.truth(at).delta_at(0.0)
    datasets = [jax.numpy.asarray(data, jax.numpy.float32) for data in (at.d0, at.d1)]
    for number, (mine, other) in enumerate((datasets, datasets[::-1])):
        outputs = mechanism.sample(jax.random.key(number), mine, DRAWS)
        ratio = np.exp(
            np.asarray(mechanism.log_density(other, outputs), float)
            - np.asarray(mechanism.log_density(mine, outputs), float)
        )
        for sample, mean in ((ratio, 1.0), (np.maximum(0, 1 - ratio), distance)):
            error = 6 * sample.std() / math.sqrt(DRAWS) + 1e-5
            assert abs(sample.mean() - mean) < error


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    "cls", [GRR, SUE, OUE, SubsetSelection, BLH, OLH, HadamardResponse], ids=named
)
def test_a_tight_claim_is_the_loss(cls, epsilon):
    mechanism = cls(epsilon=epsilon, k=7).resolve(ONE)
    assert mechanism.truth(ONE).epsilon_at(0.0) == pytest.approx(epsilon)
    assert mechanism.claim(ONE).epsilon_at(0.0) == epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_threshold_hides_a_part_of_the_loss(epsilon):
    loss = THE(epsilon=epsilon).truth(ONE).epsilon_at(0.0)
    p = 1 - math.exp(epsilon / 2 * (0.67 - 1)) / 2
    q = math.exp(-epsilon / 2 * 0.67) / 2
    assert loss == pytest.approx(math.log(p * (1 - q) / (q * (1 - p))))
    assert 0.4 * epsilon < loss < epsilon


@pytest.mark.parametrize("size", [1, 2, 3])
def test_subsets_by_enumeration(size):
    """The naive oracle: every set of ω values, with its probability."""
    k, epsilon = 5, 1.2
    mechanism = SubsetSelection(k=k, epsilon=epsilon, omega=size)
    found = {}
    for value in (0, 2):
        weights = [
            math.exp(epsilon) if value in chosen else 1.0
            for chosen in itertools.combinations(range(k), size)
        ]
        found[value] = np.array(weights) / sum(weights)
    distance = np.maximum(0, found[0] - found[2]).sum()
    assert mechanism.truth(ONE).delta_at(0.0) == pytest.approx(distance)


def test_hadamard_rows_are_orthogonal():
    rows = np.arange(16)
    matrix = np.where(signs(rows[:, None], rows[None, :], np), 1, -1)
    assert np.array_equal(matrix @ matrix.T, 16 * np.eye(16))


def test_reports_by_enumeration():
    """The naive oracle: every permanent response and every sequence of reports."""
    mechanism = LongitudinalGRR(k=3, reports=3, epsilon=1.5, epsilon_report=0.8)
    (p1, q1), (p2, q2) = mechanism._rates(np)
    found = []
    for value in (0, 2):
        sums = [
            sum(
                (p1 if kept == value else q1)
                * math.prod(p2 if told == kept else q2 for told in reports)
                for kept in range(3)
            )
            for reports in itertools.product(range(3), repeat=3)
        ]
        found.append(np.array(sums))
        assert sum(sums) == pytest.approx(1)
    truth = mechanism.truth(ONE)
    assert truth.delta_at(0.0) == pytest.approx(np.maximum(0, found[0] - found[1]).sum())
    ratio = np.abs(np.log(found[0] / found[1])).max()
    assert truth.epsilon_at(0.0) == pytest.approx(ratio)


@pytest.mark.parametrize("cls", [LongitudinalGRR, LongitudinalUnary], ids=named)
def test_reports_about_a_kept_response_lose_no_more_than_it(cls):
    losses = [cls(k=3, reports=n).truth(ONE).epsilon_at(0.0) for n in (1, 2, 8, 60)]
    assert losses == sorted(losses)
    assert losses[0] == pytest.approx(cls(k=3, reports=1).claim(ONE).epsilon_at(0.0))
    assert losses[0] < losses[1] < losses[-1] <= 2.0 + 1e-9
    assert losses[-1] > 1.99
    assert cls(k=3, reports=60).claim(ONE).epsilon_at(0.0) == 2.0


@pytest.mark.parametrize("changed", [1, 2, 3])
def test_the_loss_grows_with_the_attributes_that_change(changed):
    at = pair([0, 0, 0], [1] * changed + [0] * (3 - changed))
    for mechanism in (Split(), SampledWithFakes(), SampledWithFakes(epsilon=0.3, k=2)):
        truth = mechanism.truth(at).epsilon_at(0.0)
        assert truth == pytest.approx(mechanism.claim(at).epsilon_at(0.0))
    assert Sampled().truth(at).epsilon_at(0.0) == pytest.approx(1.0)
    if changed == 1:
        assert SampledWithFakes().claim(at).epsilon_at(0.0) == pytest.approx(1.0)


def test_a_rare_fake_value_tells_more():
    rare = SampledWithFakes(prior=(0.5, 0.25, 0.2, 0.05))
    assert rare.truth(pair([3, 0], [0, 0])).epsilon_at(0.0) > 1.2
    assert rare.claim(MANY) is None
    with pytest.raises(ValueError, match="add to 1"):
        SampledWithFakes(prior=(0.5, 0.1)).check()


@pytest.mark.parametrize(
    ("people", "epsilon"), [(400, 0.5), pytest.param(2000, 1.0, marks=pytest.mark.slow)]
)
def test_shuffled_reports_lose_no_more_than_the_theorem(people, epsilon):
    mechanism = ShuffledGRR(epsilon=epsilon)
    for others in (0.0, 1.0):
        at = pair([0.0, *[others] * (people - 1)], [1.0, *[others] * (people - 1)])
        claim, truth = mechanism.claim(at), mechanism.truth(at)
        for delta in (1e-6, 1e-4, 1e-2, 0.05):
            assert truth.epsilon_at(delta) <= claim.epsilon_at(delta) <= epsilon
    assert truth.epsilon_at(1e-4) < epsilon / 2  # a crowd does hide


def test_the_theorem_by_hand():
    """n = 10⁴, ε₀ = 1, δ = 10⁻⁶, with each factor of the formula alone."""
    e = math.e
    factor = (e - 1) / (e + 1)
    crowd = 8 * math.sqrt(e * math.log(4e6)) / 100 + 8 * e / 10_000
    claim = ShuffledDP(1.0, 10_000)
    assert claim.epsilon_at(1e-6) == pytest.approx(math.log(1 + factor * crowd))
    few = ShuffledDP(1.0, 500)  # 500 < 16 e ln(2e6)
    assert few.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-5)
    assert claim.epsilon_at(0.0) == 1.0
    assert claim.epsilon_at(1.0) == 0.0


@pytest.mark.parametrize("claim", [ShuffledDP(1.0, 2000)])
def test_the_claim_is_one_curve(claim):
    deltas = np.geomspace(1e-12, 0.9, 60)
    epsilons = [claim.epsilon_at(delta) for delta in deltas]
    assert epsilons == sorted(epsilons, reverse=True)
    for epsilon in np.linspace(0, claim.epsilon_report, 20):
        delta = claim.delta_at(float(epsilon))
        assert claim.epsilon_at(delta) <= epsilon + 1e-9
        assert delta == 0 or claim.epsilon_at(delta * 0.999) > epsilon - 1e-9
    assert claim.delta_at(claim.epsilon_report) == 0.0
    rates = np.linspace(0, 1, 11)
    alone = dpframe.PureDP(claim.epsilon_report).tradeoff(rates)
    assert (claim.tradeoff(rates) >= alone - 1e-6).all()
    with pytest.raises(ValueError, match="people"):
        ShuffledDP(1.0, 0)


def test_two_people_are_no_neighbours():
    with pytest.raises(ValueError, match="one person"):
        ShuffledGRR().claim(pair([0, 0], [1, 1]))


def test_shuffled_counts_are_those_of_the_truth():
    at = pair([0, 1, 1, 0, 1], [1, 1, 1, 0, 1])
    mechanism = ShuffledGRR()
    told = mechanism.sample(jax.random.key(0), jax.numpy.asarray(at.d0, jax.numpy.float32), DRAWS)
    assert (np.asarray(told).sum(axis=1) == 5).all()
    counts = np.bincount(np.asarray(told)[:, 1].astype(int), minlength=6) / DRAWS
    expected = np.array(mechanism.truth(at).on_zero)
    error = 6 * np.sqrt(expected * (1 - expected) / DRAWS)
    assert (np.abs(counts - expected) < error).all()


@pytest.mark.slow
@pytest.mark.parametrize("cls", dpframe_local.dpframe_mechanisms(), ids=named)
def test_a_mechanism_keeps_its_promises(cls):
    check_mechanism(cls(), MANY if cls.__module__.endswith("multidimensional") else ONE)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [BLH, OLH], ids=named)
def test_the_attack_sees_the_hash_function(cls):
    """It would not if it rounded the number of the function."""
    record = dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "hashed", "trials": 20_000, "confidence": 0.999},
            "pair": {"use": "zeros-ones"},
            "mechanism": [{"use": cls.name, "params": {"epsilon": 2.0}}],
            "attack": [{"use": "likelihood-ratio"}],
            "estimator": [{"use": "order-statistics"}],
        },
        plugins=[cls],
    )
    assert record.cells[0].estimate.epsilon_lower > 1.7


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_a_spec_runs_small(spec):
    draws = [f"{key}=4000" for key in ("audit.trials", "run.fit", "run.pilot")]
    record = dpframe.audit(spec, overrides=[*draws, "audit.confidence=0.999999"])
    for cell in record.cells:
        assert cell.status == "ok", cell.reason
        assert cell.verdict != "violated" or "not kept" in cell.mechanism.label


@pytest.mark.slow
@pytest.mark.parametrize("cls", [LongitudinalGRR, LongitudinalUnary], ids=named)
def test_a_response_that_is_not_kept_is_found(cls):
    record = dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "not-kept", "trials": 100_000, "confidence": 0.999},
            "pair": {"use": "zeros-ones"},
            "mechanism": [{"use": cls.name, "params": {"reports": 12, "mistake": "not-kept"}}],
            "attack": [{"use": "likelihood-ratio"}],
            "estimator": [{"use": "order-statistics"}],
        },
        plugins=[cls],
    )
    assert record.cells[0].verdict == "violated"
