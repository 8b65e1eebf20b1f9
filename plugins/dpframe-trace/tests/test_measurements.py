"""Draws of the measurements of a synthesizer show its loss, and nothing else decides."""

import inspect

import numpy as np
import pytest
from dpframe_trace import audit_measurements
from trace_support import marginals

import dpframe
from dpframe import DpframeError, UndecidedError

CLAIM = dpframe.GaussianDP(np.sqrt(2 * marginals.RHO))


def audited(fit, claim=CLAIM, pair=(marginals.D0, marginals.D1), **more):
    given = {"measured": "all", "draws": 3_000, "confidence": 0.999, **more}
    return audit_measurements(fit, *pair, claim=claim, **given)


def line_of(function, words):
    """Return the place of a line of a function of this module or of the support."""
    lines, first = inspect.getsourcelines(function)
    (at,) = (at for at, line in enumerate(lines) if words in line)
    return f"{inspect.getsourcefile(function).rpartition('/')[2]}:{first + at}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_right_synthesizer_is_not_refuted_and_its_loss_shows(seed):
    """Each false alarm has probability 0.001; the seeds are fixed."""
    found = audited(marginals.synthesizer(), seed=seed, delta=0.01)
    assert not found.refuted
    assert 0.2 < found.mu_lower < CLAIM.mu
    assert found.epsilon_lower > 0.2
    (line,) = found.lines
    assert line.place == line_of(marginals.measure, "rng.normal")
    assert (line.scale, line.change) == (pytest.approx(5.0), 1.0)


@pytest.mark.slow
def test_a_budget_that_is_spent_four_times_is_refuted():
    found = audited(marginals.synthesizer("halved"))
    assert found.refuted
    assert found.mu_lower > CLAIM.mu
    assert "the claim is refuted by 3,000 draws of the measurements" in str(found)


@pytest.mark.slow
def test_laplace_noise_and_a_choice_are_scored():
    def fit(rng, rows):
        count = len(rows)
        chances = np.exp(np.array([count, 21.0]) / 2)
        chosen = rng.choice(2, p=chances / chances.sum())
        return chosen, count + rng.laplace(scale=(2.0, 3.0)[chosen])

    tight, loose = (audited(fit, dpframe.PureDP(epsilon)) for epsilon in (0.3, 1.0))
    assert tight.refuted
    assert not loose.refuted
    assert 0.3 < tight.epsilon_lower <= 1.0
    assert {line.family for line in tight.lines} == {"choice", "laplace"}


@pytest.mark.parametrize("large", [0.0, 0.1, 1e6 + 0.1, 1e9])
def test_the_rounding_of_sums_with_noise_accuses_no_right_mechanism(large):
    found = audited(
        lambda rng, data: data + rng.laplace(0, 1),
        dpframe.PureDP(1.0),
        (large, large + 1.0),
        draws=2_000,
    )
    assert not found.refuted
    assert 0.3 < found.epsilon_lower <= 1.0


def test_only_named_lines_are_measured():
    def fit(rng, rows):
        secret = len(rows) + rng.normal(scale=0.1)
        return len(rows) + rng.normal(scale=5.0), secret > 20.5

    with pytest.raises(UndecidedError, match=r"no measurement was seen at no\.py:1; .*test_meas"):
        audited(fit, measured="no.py:1")
    named = audited(fit, measured=[line_of(fit, "scale=5.0")], draws=300)
    assert not named.refuted
    assert len(named.lines) == 1
    assert audited(fit, draws=300).refuted


@pytest.mark.slow
def test_a_value_that_depends_on_noise_is_not_scored():
    """Its change between the datasets is not known, so it could only blur the score."""

    def fit(rng, rows):
        first = len(rows) + rng.normal(scale=2.5)
        return first, first / 2 + rng.normal(scale=2.5)

    found = audited(fit, draws=10_000)
    assert len(found.lines) == 1
    assert 0.2 < found.mu_lower < 0.4


def test_a_run_ends_with_its_last_measurement():
    generated = []

    def fit(rng, rows):
        noisy = len(rows) + rng.normal(scale=2.5)
        generated.append(noisy)
        return noisy

    audited(fit, draws=300)
    assert len(generated) <= 200


def test_equal_measurements_decide_nothing():
    with pytest.raises(UndecidedError, match="same values on D and on D"):
        audited(lambda rng, rows: 3.0 + rng.normal(), pair=([1], [2]), draws=200)


def test_wrong_arguments_are_refused():
    with pytest.raises(DpframeError, match=r"draws must be at least .*, got 10"):
        audited(marginals.synthesizer(), draws=10)
    with pytest.raises(DpframeError, match="seed must be from 0"):
        audited(marginals.synthesizer(), seed=-1)
