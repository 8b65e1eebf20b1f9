"""Claimed and true curves and densities of the mechanisms, against exact distributions."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest
from scipy.spatial import ConvexHull
from support.exact_distributions import (
    NUMBERS,
    Number,
    geometric,
    laplace,
    lowest_errors,
    name_of,
    profile,
    randomized_response,
)
from support.outputs import MECHANISMS, Steps, resolved
from support.tiers import mostly_slow

from dpframe import ApproxDP, GaussianDP, LaplaceDP, Pair, PureDP, SubsampledGaussianDP

LEVELS = [1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99]


@pytest.mark.parametrize("number", mostly_slow(NUMBERS, range(0, 23, 2)), ids=name_of)
def test_truth_is_the_privacy_profile(number: Number) -> None:
    mechanism, pair = resolved(number.use, number.params)
    truth = mechanism.truth(pair)
    for epsilon in (0.0, 0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0):
        exact = profile(number.masses, epsilon)
        assert truth.delta_at(epsilon) == pytest.approx(exact, rel=2e-4, abs=2e-9), epsilon


@pytest.mark.parametrize("number", mostly_slow(NUMBERS, range(0, 23, 2)), ids=name_of)
def test_truth_is_the_lowest_error_curve(number: Number) -> None:
    """Both directions together, made convex: f and its inverse."""
    mechanism, pair = resolved(number.use, number.params)
    fpr, fnr = lowest_errors(number.masses)
    thin = np.unique(np.linspace(0, len(fpr) - 1, 20_000).astype(int))
    ends = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    points = np.vstack([np.stack([fpr, fnr], 1)[thin], np.stack([fnr, fpr], 1)[thin], ends])
    if np.ptp(points[:-1].sum(axis=1)) < 1e-9:  # all on the diagonal
        found = 1 - np.array(LEVELS)
    else:
        hull = points[ConvexHull(points).vertices]
        lower = hull[hull.sum(axis=1) <= 1 + 1e-12]
        lower = lower[np.argsort(lower[:, 0])]
        found = np.interp(LEVELS, lower[:, 0], lower[:, 1])
    truth = mechanism.truth(pair)
    np.testing.assert_allclose(truth.tradeoff(np.array(LEVELS)), found, atol=5e-5)


@pytest.mark.parametrize(
    "number",
    mostly_slow([n for n in NUMBERS if n.use != "laplace-numpy"], range(0, 23, 2)),
    ids=name_of,
)
def test_densities_are_those_of_the_distributions(number: Number) -> None:
    """The likelihood ratio, where neither density vanishes."""
    mechanism, pair = resolved(number.use, number.params)
    with jax.enable_x64(True):
        points = number.points[:, None]
        logs = [np.asarray(mechanism.log_density(d, points)) for d in (pair.d0, pair.d1)]
    assert logs[0].shape == number.points.shape
    likely = np.minimum(*number.masses) > 1e-250
    found = (logs[1] - logs[0])[likely]
    np.testing.assert_allclose(found, number.log_ratio[likely], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "number", [n for n in NUMBERS if n.use not in ("geometric", "randomized-response")], ids=name_of
)
def test_distribution_functions_are_those_of_the_distributions(number: Number) -> None:
    mechanism, pair = resolved(number.use, number.params)
    x = np.append(np.linspace(number.points[0], number.points[-1], 50), np.inf)
    for data, cdf in zip((pair.d0, pair.d1), number.cdf, strict=True):
        np.testing.assert_allclose(mechanism.cdf(data, x), cdf(x), atol=1e-12)
    wide, pair = resolved(number.use, number.params, dim=2)
    assert wide.cdf(pair.d0, x) is None


@pytest.mark.parametrize("nan", ["zero", "resample", "keep"])
def test_the_distribution_function_of_dptext(nan: str) -> None:
    """The noise is −2 ln(1 − 2v) for v on (0, ½) at ε = ½; elsewhere `nan` decides."""
    mechanism, pair = resolved("dptext", {"epsilon": 0.5, "nan": nan})
    rising = np.arange(0.5, 50_000) / 100_000
    noise = np.sort(-2 * np.log(1 - 2 * rising))
    other = {"zero": np.zeros_like(noise), "resample": noise, "keep": noise * np.nan}[nan]
    for data, start in ((pair.d0, 0), (pair.d1, 1)):
        outputs = start + np.concatenate([noise, other])
        x = np.array([-1, -1e-6, 0, 1e-6, 0.5, 0.99, 1, 1.5, 3, 9, np.inf])
        share = (outputs[:, None] <= x).mean(axis=0)
        np.testing.assert_allclose(mechanism.cdf(data, x), share, atol=1e-5)


def test_sampled_truths_of_the_paper() -> None:
    """Koskela and Mohammadi, q = 0.25, σ = 0.3: ε at δ."""
    params = {"sampling_probability": 0.25, "noise_multiplier": 0.3}
    mechanism, pair = resolved("subsampled-gaussian", params, dim=7)
    truth = mechanism.truth(pair)
    assert truth == mechanism.claim(pair)
    for delta, epsilon in {1e-2: 9.209904, 1e-5: 16.660645, 1e-6: 18.421371}.items():
        assert truth.epsilon_at(delta) == pytest.approx(epsilon, abs=1e-6)
    assert truth.delta_at(0) == pytest.approx(0.2261048239)


@pytest.mark.parametrize("gap", [2, 3])
def test_no_claim_has_the_curve_of_a_wider_gap(gap: int) -> None:
    """Why `geometric` knows its curve for a gap of 1 only, and then exactly."""
    points = np.arange(-200, 200)
    exact = (0.5 ** np.abs(points), 0.5 ** np.abs(points - gap))
    masses = (exact[0] / exact[0].sum(), exact[1] / exact[1].sum())
    shift = gap * math.log(2)
    assert LaplaceDP(shift).delta_at(0.5) + 0.01 < profile(masses, 0.5)
    assert profile(masses, 0.5) + 0.05 < PureDP(shift).delta_at(0.5)


def met(use: str, pair: Pair, **params: Any) -> Any:
    return MECHANISMS[use].from_params(params).resolve(pair)


@pytest.mark.parametrize(
    ("use", "params", "pair", "truth"),
    [
        ("laplace", {"epsilon": 2.0}, Steps(), LaplaceDP(2.0)),
        ("laplace", {"epsilon": 2.0}, Steps(by=-0.5), LaplaceDP(2.0)),
        ("laplace", {"epsilon": 2.0, "sensitivity": 4.0}, Steps(by=3.0), LaplaceDP(1.5)),
        ("laplace", {"epsilon": 2.0}, Steps(moved=2), None),
        ("laplace-shifted", {"epsilon": 2.0}, Steps(moved=2), None),
        ("laplace-numpy", {"epsilon": 2.0}, Steps(moved=2), None),
        ("laplace-halved", {"epsilon": 2.0}, Steps(moved=2), None),
        ("laplace-half-scale", {"epsilon": 2.0}, Steps(moved=2), None),
        ("laplace-half-scale", {"epsilon": 2.0}, Steps(), LaplaceDP(4.0)),
        ("adept", {"epsilon": 2.0}, Steps(moved=2), None),
        ("adept", {"epsilon": 2.0}, Steps(by=3.0), LaplaceDP(6.0)),
        ("gaussian", {"sigma": 2.0}, Steps(by=3.0, moved=2), GaussianDP(math.sqrt(18) / 2)),
        ("gaussian", {"sigma": 2.0}, Steps(by=1.0, start=9.0), GaussianDP(0.5)),
        ("randomized-response", {"epsilon": 2.0}, Steps(), PureDP(2.0)),
        ("randomized-response", {"epsilon": 2.0}, Steps(moved=2), None),
        ("geometric", {"epsilon": 2.0}, Steps(start=-5.0), PureDP(2.0)),
        ("geometric", {"epsilon": 2.0, "sensitivity": 4.0}, Steps(), PureDP(0.5)),
        ("geometric", {"epsilon": 2.0}, Steps(by=2.0), None),
        ("geometric", {"epsilon": 2.0}, Steps(moved=2), None),
        ("random-output", {"epsilon": 2.0}, Steps(moved=3), PureDP(0.0)),
        ("copy-input", {"epsilon": 2.0}, Steps(), None),
        ("dptext", {"epsilon": 2.0}, Steps(), None),
    ],
)
def test_truth_is_of_the_pair_and_else_none(
    use: str, params: dict[str, Any], pair: Pair, truth: Any
) -> None:
    mechanism = met(use, pair, **params)
    assert mechanism.truth(pair) == truth
    if truth is not None and use not in ("adept", "laplace-half-scale", "random-output"):
        claim = mechanism.claim(pair)
        assert claim.epsilon_at(1e-3) >= truth.epsilon_at(1e-3) - 1e-12


@pytest.mark.parametrize(
    ("pair", "truth"),
    [
        (Steps(moved=3, by=2.0), SubsampledGaussianDP(0.25, 0.5)),
        (Steps(by=0.5), SubsampledGaussianDP(0.25, 0.5)),
        (Steps(dim=1, start=2.0, by=-2.0), SubsampledGaussianDP(0.25, 0.5)),
        (Steps(dim=1, start=2.0, by=-1.0), None),
    ],
)
def test_truth_of_a_sampled_record_that_comes_or_goes(pair: Pair, truth: Any) -> None:
    params = {"sampling_probability": 0.25, "noise_multiplier": 0.5}
    assert met("subsampled-gaussian", pair, **params).truth(pair) == truth
    wider = met("subsampled-gaussian", pair, **params, sensitivity=2 * pair.distance(2))
    assert wider.claim(pair) == SubsampledGaussianDP(0.25, 0.5)
    if truth is not None:
        assert wider.truth(pair) == SubsampledGaussianDP(0.25, 1.0)


def test_a_pair_of_equals_has_no_sensitivity() -> None:
    same = Steps(by=0.0)
    for use in ("laplace", "geometric", "randomized-response"):
        with pytest.raises(ValueError, match="equal"):
            met(use, same, epsilon=1.0)
        assert met(use, same, epsilon=1.0, sensitivity=1.0).truth(same).delta_at(0.0) == 0
    with pytest.raises(ValueError, match="equal"):
        met("gaussian", same, sigma=1.0)
    assert met("gaussian", same, sigma=1.0, sensitivity=1.0).truth(same) == GaussianDP(0.0)
    sampled = {"sampling_probability": 0.5, "noise_multiplier": 1.0, "sensitivity": 1.0}
    assert met("subsampled-gaussian", same, **sampled).truth(same) == PureDP(0.0)


def test_data_must_be_what_the_mechanism_takes() -> None:
    with pytest.raises(ValueError, match="bits"):
        met("randomized-response", Steps(by=2.0), epsilon=1.0)
    with pytest.raises(ValueError, match="whole"):
        met("geometric", Steps(by=0.5), epsilon=1.0)


# --- what the Gaussian mechanisms claim


def test_a_sigma_claims_its_own_curve() -> None:
    mechanism, pair = resolved("gaussian", {"sigma": 2.0}, dim=4)
    assert mechanism.claim(pair) == mechanism.truth(pair) == GaussianDP(1.0)
    wider, pair = resolved("gaussian", {"sigma": 2.0, "sensitivity": 3.0}, dim=4)
    assert (wider.claim(pair), wider.truth(pair)) == (GaussianDP(1.5), GaussianDP(1.0))


def test_an_epsilon_is_calibrated_to() -> None:
    mechanism, pair = resolved("gaussian", {"epsilon": 1.0, "delta": 1e-6}, dim=4)
    assert mechanism.claim(pair) == ApproxDP(1.0, 1e-6)
    assert mechanism.sigma == pytest.approx(2 * 4.224679, rel=1e-6)
    assert mechanism.truth(pair).epsilon_at(1e-6) == pytest.approx(1.0, rel=1e-9)


def test_both_make_a_claim_that_may_be_false() -> None:
    mechanism, pair = resolved("gaussian", {"epsilon": 1.0, "sigma": 1.0})
    assert mechanism.claim(pair) == ApproxDP(1.0, 1e-5)
    assert mechanism.truth(pair).epsilon_at(1e-5) == pytest.approx(4.37718, abs=1e-5)
    sampled = {"sampling_probability": 0.25, "noise_multiplier": 0.3, "epsilon": 1.0, "delta": 1e-3}
    mechanism, pair = resolved("subsampled-gaussian", sampled)
    assert mechanism.claim(pair) == ApproxDP(1.0, 1e-3)
    assert mechanism.truth(pair).epsilon_at(1e-3) == pytest.approx(12.279406, abs=1e-6)


def test_neither_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="give sigma, or epsilon"):
        MECHANISMS["gaussian"].from_params({})


# --- densities of mechanisms with atoms


def log_ratio(use: str, params: dict[str, Any], points: list[float]) -> np.ndarray:
    mechanism, pair = resolved(use, params)
    d0, d1 = (mechanism.log_density(d, np.array(points)[:, None]) for d in (pair.d0, pair.d1))
    return np.asarray(d1 - d0)


def test_density_of_a_copy() -> None:
    assert log_ratio("copy-input", {"epsilon": 1.0}, [0.0, 1.0]).tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize(
    ("nan", "expected"),
    [
        ("zero", [-np.inf, -np.inf, np.inf, 2.0]),
        ("resample", [-np.inf, -np.inf, 2.0, 2.0]),
        ("keep", [-np.inf, -np.inf, 2.0, 2.0]),
    ],
)
def test_density_of_dptext(nan: str, expected: list[float]) -> None:
    """Noise that is never negative, and the atom that NaN leaves at each dataset."""
    found = log_ratio("dptext", {"epsilon": 2.0, "nan": nan}, [0.0, 0.5, 1.0, 3.0])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    if nan == "keep":
        assert log_ratio("dptext", {"epsilon": 2.0, "nan": nan}, [np.nan]).tolist() == [0.0]


def test_density_of_dptext_in_two_coordinates() -> None:
    mechanism, pair = resolved("dptext", {"epsilon": 2.0}, dim=2)
    points = np.array([[0.0, 0.0], [0.0, 2.0], [1.0, 2.0], [1.5, 2.0], [0.5, 1.0]])
    d0, d1 = (np.asarray(mechanism.log_density(d, points)) for d in (pair.d0, pair.d1))
    np.testing.assert_allclose(d1 - d0, [-np.inf, -np.inf, np.inf, 2.0, -np.inf])


def test_closed_forms_are_not_vacuous() -> None:
    """The tables above differ from each other where mechanisms do."""
    one, other = laplace("laplace", 1.0), geometric(1.0)
    assert abs(profile(one.masses, 0.5) - profile(other.masses, 0.5)) > 0.02
    assert profile(other.masses, 0.5) == pytest.approx(
        profile(randomized_response(1.0).masses, 0.5)
    )


def test_other_claims_of_the_subsampled_gaussian() -> None:
    fixed = {"sampling_probability": 0.25, "noise_multiplier": 0.3}
    for named, expected in (
        ({}, SubsampledGaussianDP(0.25, 0.3)),
        ({"mu": 2.0}, GaussianDP(2.0)),
        ({"claimed_noise_multiplier": 0.4}, SubsampledGaussianDP(0.25, 0.4)),
        ({"epsilon": 3.0}, ApproxDP(3.0, 1e-5)),
    ):
        mechanism, pair = resolved("subsampled-gaussian", {**fixed, **named})
        assert mechanism.claim(pair) == expected
        assert mechanism.truth(pair) == SubsampledGaussianDP(0.25, 0.3)
    with pytest.raises(ValueError, match="give one of them"):
        resolved("subsampled-gaussian", {**fixed, "mu": 2.0, "epsilon": 3.0})
