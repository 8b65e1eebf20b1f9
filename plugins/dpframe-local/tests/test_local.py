"""Samples, densities and exact losses of all protocols agree; claims are as tight as they say."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import dpframe_local
import jax
import numpy as np
import pytest
from dpframe_local import ldp_auditor
from dpframe_local.longitudinal import LongitudinalGRR, LongitudinalUnary
from dpframe_local.multidimensional import Sampled, SampledWithFakes, Split
from dpframe_local.protocols import (
    BLH,
    GRR,
    OLH,
    OUE,
    SHE,
    SUE,
    THE,
    HadamardResponse,
    SubsetSelection,
    signs,
)
from dpframe_local.shuffled import ShuffledDP, ShuffledGRR
from scipy import stats

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


AUDITED = [
    GRR(epsilon=2.0, k=20),
    SubsetSelection(epsilon=0.5, k=20),
    SUE(epsilon=2.0, k=20),
    OUE(epsilon=1.0, k=20),
    THE(epsilon=2.0, k=20),
    SHE(epsilon=2.0, k=20),
    BLH(epsilon=1.0, k=20),
    OLH(epsilon=2.0, k=20),
]


def supported(mechanism, value, n):
    """Reports by NumPy alone, each as the set of values that LDP-Auditor chooses its guess from."""
    rng, k, e = np.random.default_rng(5), mechanism.k, math.exp(mechanism.epsilon)
    own = np.arange(k) == value
    if isinstance(mechanism, GRR):
        shift = np.where(rng.random(n) < e / (e + k - 1), 0, rng.integers(1, k, n))
        return (value + shift)[:, None] % k == np.arange(k)
    if isinstance(mechanism, SubsetSelection):
        size = round(k / (e + 1))
        kept = rng.random((n, 1)) < size * e / (size * e + k - size)
        order = np.where(own, np.where(kept, -1.0, 2.0), rng.random((n, k)))
        return order <= np.sort(order, axis=1)[:, size - 1 : size]
    if isinstance(mechanism, BLH | OLH):
        g = 2 if isinstance(mechanism, BLH) else round(e + 1)
        hashes = rng.integers(0, g, (n, k))
        shift = np.where(rng.random(n) < e / (e + g - 1), 0, rng.integers(1, g, n))
        return hashes == (hashes[:, value] + shift)[:, None] % g
    if isinstance(mechanism, THE | SHE):
        noisy = own + rng.laplace(scale=2 / mechanism.epsilon, size=(n, k))
        if isinstance(mechanism, THE):
            return noisy > mechanism.theta
        noisy = np.clip(noisy, 0, 1)
        return noisy == noisy.max(axis=1, keepdims=True)
    half = math.exp(mechanism.epsilon / 2)
    p, q = (half / (half + 1), 1 / (half + 1)) if isinstance(mechanism, SUE) else (0.5, 1 / (e + 1))
    return rng.random((n, k)) < np.where(own, p, q)


@pytest.mark.parametrize("mechanism", AUDITED, ids=named)
def test_guesses_of_ldp_auditor_by_simulation(mechanism):
    """Five and a half deviations of two rates: a false alarm has a probability below 1e-7."""
    n = 20_000
    sets = supported(mechanism, mechanism.k - 1, n).astype(float)
    sets[sets.sum(axis=1) == 0] = 1.0
    guessed = sets / sets.sum(axis=1, keepdims=True)  # the probability of each guess
    rate = ldp_auditor.guess_rate(mechanism)
    rest = (1 - rate) / (mechanism.k - 1)
    for found, expected in ((guessed[:, -1], rate), (guessed[:, 0], rest)):
        assert abs(found.mean() - expected) < 5.5 * found.std() / math.sqrt(n) < 0.3 * expected


def test_the_result_of_ldp_auditor_by_hand():
    """p = e/(e + 1) for two values; n = 4: the bounds of 2.92 and 1.08 of 4 reports."""
    tail = 0.04 / 4
    rate, n = math.e / (math.e + 1), 4
    low = stats.beta.ppf(tail, n * rate, n - n * rate + 1)
    high = stats.beta.isf(tail, n - n * rate + 1, n * rate)
    found = ldp_auditor.expected_epsilon(rate, 2, trials=n, alpha=0.04)
    assert found == pytest.approx(math.log(low / high))
    assert found < 0
    many = [ldp_auditor.expected_epsilon(rate, 2, trials=10**power) for power in (3, 6, 12)]
    assert many == sorted(many)
    assert many[-1] == pytest.approx(1.0, abs=1e-4)


def rows(header):
    """Rows of the table of the README with this header, each as a list of texts."""
    lines = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").splitlines()
    below = lines[next(at for at, line in enumerate(lines) if line.startswith(header)) + 2 :]
    table = itertools.takewhile(lambda line: line.startswith("|"), below)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def number(text):
    return float(text.partition(",")[0])


def test_the_readme_has_what_ldp_auditor_is_expected_to_print():
    """Certified bounds are at most the exact loss; other columns of two tables are computed."""
    first = rows("| protocol | claimed ε | exact loss")
    for row, (_, loss, found) in zip(first, ldp_auditor.table(), strict=True):
        assert (row[2], row[4]) == (f"{loss:.2f}".removesuffix(".00"), f"{found:.2f}")
        assert 0.96 * loss < number(row[3]) <= loss
    second = rows("| pure-ldp 1.1.2 |")
    assert len(second) == 8
    for name, claimed, loss, certified, found in second:
        epsilon, cls = float(claimed), {"SUE": SUE, "OUE": OUE}[name]
        p, q = cls(epsilon=epsilon).rates(np)
        p += (1 - p) * q  # a bit is set by chance, and then set again with probability p
        expected = math.log(p * (1 - q) / (q * (1 - p)))
        guessed = ldp_auditor.expected_epsilon(ldp_auditor.supported_rate(p, q, 25), 25)
        assert loss == f"{expected:.2f}"
        assert found == f"{guessed:.2f}" + (", violated" if guessed > epsilon else "")
        assert certified.endswith(", violated")
        assert epsilon < number(certified) <= expected
    third = rows("| multi-freq-ldpy 0.2.5 |")
    assert len(third) == 11
    for _, claimed, loss, certified in third:
        assert 0.9 * number(loss) < number(certified) <= number(loss) <= number(claimed)


def test_ldp_auditor_never_gets_the_whole_loss():
    for name, loss, found in ldp_auditor.table():
        assert 0.4 < found < loss <= 2.0 + 1e-9, name
    with pytest.raises(ValueError, match="no attack on 'hadamard-response'"):
        ldp_auditor.guess_rate(HadamardResponse())


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
