"""Attacks describe outputs, and give larger scores to D′."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from support.outputs import ATTACKS, MECHANISMS, Steps, fitted, outputs, resolved, score
from support.tiers import mostly_slow

from dpframe import Target
from dpframe.builtin.fixed_attacks import MajorityVote
from dpframe.builtin.learned_attacks import logistic_regression
from dpframe.builtin.pairs import ZerosOnes

DRAWS = 4_000
DIMS = (1, 3)
PARAMS = {
    "gaussian": {"sigma": 1.0},
    "subsampled-gaussian": {"sampling_probability": 0.5, "noise_multiplier": 0.5},
}
NAN_IS_AN_OUTPUT = ("learned", "categories")
"""Attacks that learn what NaN tells, where others give it no score."""
VARIANTS = {
    "learned": [{"hidden": 0}],
    "threshold": [{}, {"value": 0.6}, {"value": 0.6, "direction": "up"}],
}
PLAYED = [
    (attack, params, mechanism, dim)
    for attack in ATTACKS
    for params in VARIANTS.get(attack, [{}])
    for mechanism in MECHANISMS
    for dim in DIMS
]

QUICK = [a if a != "learned" else pytest.param(a, marks=pytest.mark.slow) for a in ATTACKS]
"""Another file tests its learning from outputs of every kind."""


def made(attack: str, params: dict[str, Any] | None = None) -> Any:
    return ATTACKS[attack].from_params(params or {})


@functools.cache
def drawn(mechanism: str, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    target, pair = resolved(mechanism, PARAMS.get(mechanism, {"epsilon": 1.0}), dim)
    return outputs(target, pair, DRAWS, seed)


def wins(*found: np.ndarray) -> tuple[int, int]:
    """Pairs of draws in which D′ scores higher, and in which it scores lower; NaN is lowest."""
    d0, d1 = (np.nan_to_num(part.astype(float), nan=-np.inf, posinf=np.inf) for part in found)
    return int(np.sum(d1 > d0)), int(np.sum(d1 < d0))


def evidence(higher: int, lower: int) -> float:
    """p-value of "D′ scores at least as high as D, as often as not"."""
    return float(stats.binom.cdf(higher, higher + lower, 0.5))


# By default one attack of each kind, in one of the dimensions; each compiles every mechanism.
BY_DEFAULT = {("likelihood-ratio", 3), ("threshold", 1), ("logistic", 3), ("majority-vote", 3)}
OF_NUMBERS = ("identity", "threshold", "histogram-ratio")  # they take outputs of one number
OF_DIMENSIONS = [(a, dim) for a in ATTACKS for dim in DIMS if dim == 1 or a not in OF_NUMBERS]


@pytest.mark.parametrize(
    ("attack", "dim"),
    mostly_slow(OF_DIMENSIONS, (0, 3)),
)
def test_larger_means_d_prime(attack: str, dim: int) -> None:
    """With every mechanism that it suits; false-alarm rate 1e-6 together."""
    played = 0
    for _, params, mechanism, _ in (play for play in PLAYED if play[::3] == (attack, dim)):
        target, pair = resolved(mechanism, PARAMS.get(mechanism, {"epsilon": 1.0}), dim)
        player = made(attack, params)
        if player.unsuited(Target(target, pair, (dim,))) is not None:
            continue
        played += 1
        train, played_on = (drawn(mechanism, dim, seed) for seed in (1, 2))
        state = fitted(player, target, pair, train)
        d0, d1 = (score(player, state, part) for part in played_on)
        higher, lower = wins(d0, d1)
        assert evidence(higher, lower) > 1e-6 / len(PLAYED), (params, mechanism, dim)
        continuous = len(np.unique(played_on[0])) > DRAWS // 2
        if mechanism not in ("random-output", "dptext") and not (
            attack == "categories" and continuous
        ):
            # Non-vacuity: turned around it would be noticed.
            assert evidence(lower, higher) < 1e-6, (params, mechanism, dim)
    assert played >= len(MECHANISMS) - 1


@pytest.mark.parametrize("attack", mostly_slow(QUICK, range(0, len(QUICK), 2)))
def test_every_kind_of_output_gets_a_score(attack: str) -> None:
    """Integers, booleans and single numbers without an axis; ±inf and NaN."""
    mechanism, pair = resolved("laplace", {"epsilon": 1.0})
    player = made(attack)
    for shape in ((), (1,)):
        if player.unsuited(Target(mechanism, pair, shape)) is not None:
            continue
        train = outputs(mechanism, pair, 200)
        whole = [np.round(part).astype(np.int32).reshape(-1, *shape) for part in train]
        for part in (whole, [w > 0 for w in whole]):
            state = fitted(player, mechanism, pair, (part[0], part[1]))
            found = score(player, state, part[1])
            assert found.shape == (200,)
            assert found.dtype == bool or np.isfinite(found).all()
        odd = np.array([np.nan, -np.inf, np.inf, 0.5, -np.nan], np.float32).reshape(-1, *shape)
        # As many as before, so that one program serves.
        both = tuple(np.concatenate([odd, part.reshape(-1, *shape)[5:]]) for part in train)
        state = fitted(player, mechanism, pair, (both[0], both[1]))
        assert not any(np.isnan(leaf).any() for leaf in jax.tree.leaves(state))
        found = score(player, state, both[0])[:5]
        assert found.shape == (5,)
        if attack in NAN_IS_AN_OUTPUT:
            assert np.isfinite(found).all()
            assert found[0] == found[4]
        elif found.dtype != bool:
            assert np.isnan(found[[0, 4]]).all()
            assert found[3] == pytest.approx(found[3])
            if attack not in ("likelihood-ratio", "histogram-ratio"):
                assert found[1] < found[3] < found[2]


# --- which attacks suit which targets


@pytest.mark.parametrize(
    ("attack", "mechanism", "dims", "reason"),
    [
        ("identity", "laplace", (2,), "takes single numbers, but outputs have shape (2,)"),
        ("threshold", "laplace", (2, 1), "takes single numbers, but outputs have shape (2, 1)"),
        ("histogram-ratio", "laplace", (0,), "takes single numbers, but outputs have shape (0,)"),
        ("identity", "laplace", (1, 1), None),
        ("identity", "laplace", (), None),
        ("projection", "laplace", (3,), None),
        (
            "projection",
            "laplace",
            (),
            "takes outputs with the shape of the data, (3,); these have ()",
        ),
        ("likelihood-ratio", "laplace", (3,), None),
        ("likelihood-ratio", "laplace-numpy", (3,), "laplace-numpy has no log_density"),
        ("logistic", "laplace-numpy", (4, 4), None),
        ("majority-vote", "laplace-numpy", (4, 4), None),
    ],
)
def test_unsuited(attack: str, mechanism: str, dims: tuple[int, ...], reason: str | None) -> None:
    target, pair = resolved(mechanism, {"epsilon": 1.0}, dim=3)
    assert made(attack).unsuited(Target(target, pair, dims)) == reason


def test_every_built_in_that_jax_traces_gives_its_density() -> None:
    lacking = [
        name
        for name, cls in MECHANISMS.items()
        if not getattr(cls, "has_log_density", lambda: False)()
    ]
    assert lacking == ["laplace-numpy"]


# --- likelihood-ratio: closed forms


GRID = np.linspace(-4, 5, 361, dtype=np.float32)[:, None]


def ratio(use: str, params: dict[str, Any], points: np.ndarray, **attack: Any) -> np.ndarray:
    mechanism, pair = resolved(use, params, points.shape[1])
    player = made("likelihood-ratio", attack)
    state = fitted(player, mechanism, pair, outputs(mechanism, pair, 5000))
    return score(player, state, points)


def test_ratio_of_gaussians() -> None:
    found = ratio("gaussian", {"sigma": 0.7}, GRID, low_bits=True)
    np.testing.assert_allclose(found, (2 * GRID[:, 0] - 1) / (2 * 0.49), rtol=1e-5, atol=1e-6)


def test_ratio_of_a_mixture() -> None:
    q, sigma = 0.25, 0.3
    params = {"sampling_probability": q, "noise_multiplier": sigma}
    with np.errstate(over="ignore"):
        bare = (2 * GRID[:, 0].astype(float) - 1) / (2 * sigma**2)
    exact = np.logaddexp(math.log(1 - q), math.log(q) + bare)
    found = ratio("subsampled-gaussian", params, GRID, low_bits=True)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=2e-6)


def test_ratio_of_laplaces() -> None:
    exact = 2.0 * np.clip(2 * GRID[:, 0] - 1, -1, 1)
    for use in ("laplace", "laplace-shifted", "adept"):
        found = ratio(use, {"epsilon": 2.0}, GRID, low_bits=True)
        np.testing.assert_allclose(found, exact, atol=2e-6)
    halved = ratio("laplace-halved", {"epsilon": 2.0}, GRID / 2, low_bits=True)
    np.testing.assert_allclose(halved, exact, atol=2e-6)


def test_ratio_of_discrete_mechanisms() -> None:
    whole = np.arange(-5, 7, dtype=np.float32)[:, None]
    np.testing.assert_allclose(
        ratio("geometric", {"epsilon": 2.0}, whole), np.where(whole[:, 0] >= 1, 2.0, -2.0)
    )
    bits = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]], np.float32)
    found = ratio("randomized-response", {"epsilon": 3.0}, bits)
    np.testing.assert_allclose(found, [-3.0, -1.0, 1.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("given", ["NoneType", "shape ()", "shape (1,)", "shape (361, 2)"])
def test_a_density_of_another_shape_is_named(given: str) -> None:
    made_of = {"NoneType": lambda x: None, "shape ()": np.sum, "shape (1,)": lambda x: x[:1, 0]}

    class Stated:
        def log_density(self, data: Any, outputs: Any) -> Any:
            return made_of.get(given, lambda x: np.repeat(x, 2, axis=1))(outputs)

    state = {"mechanism": Stated(), "d0": np.zeros(1), "d1": np.ones(1)}
    message = rf"log_density returned {re.escape(given)} for 361 outputs"
    with pytest.raises(ValueError, match=message):
        made("likelihood-ratio", {"low_bits": True}).score(state, GRID)


def test_ratio_of_vectors_is_the_projection() -> None:
    points = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    mechanism, pair = resolved("gaussian", {"sigma": 2.0}, dim=4)
    player = made("projection")
    state = fitted(player, mechanism, pair, outputs(mechanism, pair, 10))
    along = score(player, state, points)
    exact = ratio("gaussian", {"sigma": 2.0}, points, low_bits=True)
    np.testing.assert_allclose(along * 2 / 4, exact, rtol=1e-4, atol=1e-5)


def test_rounding_hides_the_last_bits_and_little_else() -> None:
    """On D the output keeps bits that 1 + noise has lost; rounded to 2⁻⁸ it does not."""
    seen = np.float32([0.25, 0.75, 1e-9, -1e-9, -0.25, -0.625, -1.25])
    fine = np.float32(seen + 1e-4)
    exact = np.clip(2 * seen - 1, -1, 1)
    rounded, finer = (ratio("laplace", {"epsilon": 1.0}, x[:, None]) for x in (seen, fine))
    np.testing.assert_array_equal(rounded, finer)
    np.testing.assert_allclose(rounded, exact, atol=2.0**-7)
    assert (rounded[2:] == -1.0).all()
    raw, finer = (
        ratio("laplace", {"epsilon": 1.0}, x[:, None], low_bits=True) for x in (seen, fine)
    )
    assert (raw != finer).any()


# --- projection, identity


def test_projection_is_the_distance_from_the_midpoint() -> None:
    mechanism, pair = resolved("laplace", {"epsilon": 1.0}, dim=4)
    player = made("projection")
    state = fitted(player, mechanism, pair, outputs(mechanism, pair, 10))
    points = np.array([[0] * 4, [1] * 4, [0.5] * 4, [2, 0, 1, -1], [np.nan, 0, 0, 0]], np.float32)
    found = score(player, state, points)
    np.testing.assert_allclose(found, [-1.0, 1.0, 0.0, 0.0, np.nan])


def test_projection_leaves_out_what_agrees() -> None:
    pair = Steps(by=2.0, dim=2)
    mechanism = MECHANISMS["laplace"].from_params({"epsilon": 1.0}).resolve(pair)
    player = made("projection")
    state = fitted(player, mechanism, pair, outputs(mechanism, pair, 10))
    points = np.array([[2, np.inf], [0, np.nan], [np.inf, 0], [np.nan, 0]], np.float32)
    assert score(player, state, points).tolist()[:3] == [1.0, -1.0, np.inf]
    same = Steps(by=0.0)
    assert "equal" in player.unsuited(Target(mechanism, same, (3,)))


# --- threshold


def chosen(train: tuple[Any, Any], params: dict[str, Any] | None = None) -> tuple[float, bool]:
    mechanism, pair = resolved("laplace", {"epsilon": 1.0})
    columns = tuple(np.asarray(part, np.float32)[:, None] for part in train)
    state = fitted(made("threshold", params), mechanism, pair, (columns[0], columns[1]))
    return float(state["value"]), bool(state["up"])


@pytest.mark.slow
def test_threshold_is_near_the_best_one() -> None:
    """The best cut of all gets hardly more than the fit stream certifies."""
    rng = np.random.default_rng(0)
    train = rng.normal(size=3000), rng.normal(size=3000) + 1
    value, up = chosen(train)
    assert up

    def certified(cut: float) -> float:
        false, missed = int(np.sum(train[0] >= cut)), int(np.sum(train[1] < cut))
        limits = [stats.beta.ppf(0.975, k + 1, 3000 - k) for k in (false, missed)]
        return max(math.log((1 - b) / a) for a, b in (limits, limits[::-1]))

    best = max(certified(cut) for cut in np.concatenate(train))
    assert certified(value) > 0.97 * best
    assert certified(0.5) < 0.9 * best  # non-vacuity


def test_threshold_turns_around() -> None:
    rng = np.random.default_rng(0)
    train = rng.normal(size=3000) + 1, rng.normal(size=3000)
    value, up = chosen(train)
    assert not up
    assert chosen(train, {"direction": "up"})[1]
    assert chosen(train, {"value": 0.5}) == (0.5, False)
    assert chosen(train[::-1], {"value": 0.5}) == (0.5, True)
    assert chosen(train, {"value": 0.5, "direction": "up"}) == (0.5, True)
    player = made("threshold")
    points = np.array([value, value + 0.1, np.nan], np.float32)[:, None]
    state = {"value": np.float32(value), "up": np.bool_(False)}
    assert score(player, state, points).tolist() == [True, False, False]
    state = {"value": np.float32(value), "up": np.bool_(True)}
    assert score(player, state, points).tolist() == [True, True, False]


@pytest.mark.parametrize(
    "train",
    [
        ([0.0], [1.0]),
        ([1.0] * 9, [1.0] * 9),
        ([np.nan] * 9, [np.nan] * 9),
        ([np.inf] * 9, [-np.inf] * 9),
        ([np.nan] * 9, [0.0] * 9),
    ],
)
def test_threshold_of_odd_draws(train: tuple[Any, Any]) -> None:
    value, _ = chosen(train)
    assert not math.isnan(value)


# --- histogram-ratio


def histogram(train: tuple[Any, Any], points: Any, params: dict[str, Any] | None = None) -> Any:
    mechanism, pair = resolved("laplace", {"epsilon": 1.0})
    columns = tuple(np.asarray(part, np.float32)[:, None] for part in train)
    player = made("histogram-ratio", params)
    state = fitted(player, mechanism, pair, (columns[0], columns[1]))
    assert state["edges"].shape == (player.bins - 1,)
    return score(player, state, np.asarray(points, np.float32)[:, None])


def test_histogram_learns_a_ratio_that_turns_around() -> None:
    rng = np.random.default_rng(0)
    train = rng.normal(size=100_000), 2 * rng.normal(size=100_000)
    points = np.linspace(-4, 4, 81)
    exact = stats.norm(0, 2).logpdf(points) - stats.norm(0, 1).logpdf(points)
    found = histogram(train, points)
    # A bin's ratio is that of its average; six standard errors and the slope across a bin.
    assert np.abs(found - exact)[np.abs(points) < 2.5].max() < 0.4
    assert found[0] > 2
    assert found[-1] > 2
    assert found[40] < -0.5


def test_histogram_of_few_values_has_a_bin_for_each() -> None:
    train = [0.0] * 30 + [1.0] * 10 + [5.0] * 2, [0.0] * 10 + [1.0] * 30 + [5.0] * 2
    found = histogram(train, [0, 1, 5, -3, 0.5, 9, np.nan], {"bins": 128, "smoothing": 1.0})
    np.testing.assert_allclose(
        found, np.log([11 / 31, 31 / 11, 1, 1, 11 / 31, 1, np.nan]), rtol=1e-6
    )


@pytest.mark.parametrize("bins", [2, 3, 7])
def test_histogram_scores_have_at_most_as_many_values_as_bins(bins: int) -> None:
    rng = np.random.default_rng(bins)
    train = rng.normal(size=500), rng.normal(size=500) + 1
    found = histogram(train, np.linspace(-9, 9, 999), {"bins": bins})
    assert len(np.unique(found)) <= bins
    assert np.isfinite(found).all()


@pytest.mark.parametrize("train", [([np.nan], [np.nan]), ([0.0], [0.0]), ([np.inf], [-np.inf])])
def test_histogram_of_odd_draws(train: tuple[Any, Any]) -> None:
    found = histogram(train, [-np.inf, 0.0, np.inf, np.nan])
    assert np.isfinite(found[:3]).all()
    assert np.isnan(found[3])


# --- logistic


def test_logistic_finds_the_direction() -> None:
    """Log-odds of N(v, 1) against N(0, 1) are ⟨v, x⟩ − ½‖v‖²; six standard errors."""
    rng = np.random.default_rng(0)
    shift = np.array([1.0, 0.0, -0.5])
    train = rng.normal(size=(40_000, 3)), rng.normal(size=(40_000, 3)) + shift
    mechanism, pair = resolved("laplace", {"epsilon": 1.0}, dim=3)
    player = made("logistic", {"ridge": 1e-6})
    states = [fitted(player, mechanism, pair, train) for _ in range(2)]
    assert all((states[0][name] == states[1][name]).all() for name in states[0])
    np.testing.assert_allclose(states[0]["weights"], shift, atol=0.08)
    points = rng.normal(size=(100, 3)).astype(np.float32)
    exact = points @ shift - (shift @ shift) / 2
    np.testing.assert_allclose(score(player, states[0], points), exact, atol=0.4)


def test_logistic_is_not_carried_away() -> None:
    """By infinite outputs, by coordinates that do not vary, by data told apart without error."""
    train = np.zeros((60, 3), np.float32), np.ones((60, 3), np.float32)
    for part in train:
        part[:, 1] = 7.0
        part[:5, 2] = np.inf
        part[5:9, 2] = np.nan
    mechanism, pair = resolved("laplace", {"epsilon": 1.0}, dim=3)
    state = fitted(made("logistic"), mechanism, pair, train)
    assert state["weights"][0] > 0
    assert state["weights"][1] == 0
    assert np.isfinite(state["weights"]).all()


def test_logistic_is_not_deceived_by_a_few_huge_outputs() -> None:
    rng = np.random.default_rng(0)
    train = rng.normal(size=(10_000, 1)), rng.normal(size=(10_000, 1)) + 1
    train[0][:20], train[1][:5] = 1e6, -1e6
    mechanism, pair = resolved("laplace", {"epsilon": 1.0})
    state = fitted(made("logistic"), mechanism, pair, train)
    assert 0.7 < state["weights"][0] < 1.1


def test_logistic_ignores_what_lies_after_the_end_of_a_short_list() -> None:
    rng = np.random.default_rng(0)
    train = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2)) + 1
    padded = [np.pad(part, ((0, 0), (0, 1)), constant_values=np.nan) for part in train]
    mechanism, pair = resolved("laplace", {"epsilon": 1.0}, dim=2)
    player = made("logistic")
    states = [fitted(player, mechanism, pair, each) for each in (train, padded)]
    points = rng.normal(size=(100, 2)).astype(np.float32)
    beside = np.column_stack([points, np.full(100, np.nan)]).astype(np.float32)
    plain, found = score(player, states[0], points), score(player, states[1], beside)
    np.testing.assert_array_equal(found, plain)


def test_logistic_needs_something_to_learn_from() -> None:
    nothing = np.full((4, 1), np.nan, np.float32)
    mechanism, pair = resolved("laplace", {"epsilon": 1.0})
    with pytest.raises(ValueError, match="NaN"):
        fitted(made("logistic"), mechanism, pair, (nothing, nothing))


def test_identity_is_the_output() -> None:
    points = np.array([[-1.0], [np.inf], [2.5]], np.float32)
    assert score(made("identity"), (), points).tolist() == [-1.0, np.inf, 2.5]
    assert ZerosOnes(dim=1).d1.shape == (1,)


def naive(rows: np.ndarray, labels: np.ndarray, ridge: float) -> np.ndarray:
    def loss(w: np.ndarray) -> float:
        margins = (rows @ w[:-1] + w[-1]) * (1 - 2 * labels)
        return float(np.logaddexp(0, margins).mean() + ridge / 2 * w[:-1] @ w[:-1])

    return minimize(loss, np.zeros(rows.shape[1] + 1), method="BFGS", tol=1e-9).x


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("k", [1, 4])
def test_optimum(ridge: float, k: int) -> None:
    rng = np.random.default_rng(k)
    labels = np.repeat([0.0, 1.0], [300, 500])
    rows = rng.normal(size=(800, k)) + labels[:, None] * np.linspace(-1, 2, k)
    intercept, weights = logistic_regression(rows, labels, ridge)
    np.testing.assert_allclose([*weights, intercept], naive(rows, labels, ridge), atol=2e-5)


def test_more_rows_than_a_block() -> None:
    rng = np.random.default_rng(0)
    labels = np.tile([0.0, 1.0], 20_000)
    rows = (rng.normal(size=40_000) + labels)[:, None]
    intercept, weights = logistic_regression(rows, labels, 1e-9)
    # Log-odds of N(1, 1) against N(0, 1) are x − ½; six standard errors.
    assert weights[0] == pytest.approx(1.0, abs=0.08)
    assert intercept == pytest.approx(-0.5, abs=0.08)


def test_separable_rows_have_finite_weights() -> None:
    rows = np.array([[-8.0], [-8.0], [8.0], [8.0]])
    intercept, weights = logistic_regression(rows, np.array([0.0, 0.0, 1.0, 1.0]), 1e-3)
    assert 0.1 < weights[0] < 100
    assert intercept == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_alone(label: float) -> None:
    rows = np.array([[1.0], [2.0]])
    intercept, weights = logistic_regression(rows, np.full(2, label), 1e-3)
    assert np.isfinite([intercept, *weights]).all()


def test_columns_that_do_not_vary() -> None:
    rows = np.zeros((6, 2))
    intercept, weights = logistic_regression(rows, np.array([0, 0, 1, 1, 1, 1.0]), 1e-3)
    assert weights.tolist() == [0.0, 0.0]
    assert intercept == pytest.approx(np.log(2))


SHAPES = [
    *[(dim,) for dim in (1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 100, 128, 255, 256, 257)],
    *[(dim,) for dim in (300, 511, 512, 513, 1100)],
    *[(4, 8), (2, 4, 8), (3, 5, 7), (1, 1)],
]


def near_ties(shape: tuple[int, ...]) -> np.ndarray:
    """Rows with every number of ones around a half, with none and with all, ones NaN or above ½."""
    rng = np.random.default_rng(3)
    dim = int(np.prod(shape))
    ones = [k for k in (0, *range(dim // 2 - 2, dim // 2 + 4), dim) if 0 <= k <= dim]
    rows = np.full((4 * len(ones), dim), 0.5, np.float32)
    for row, number in zip(rows, ones * 4, strict=True):
        row[rng.permutation(dim)[:number]] = rng.choice([np.nan, 0.6, np.inf], number)
    return rows.reshape(-1, *shape)


def test_the_vote_is_that_of_a_plain_sum_at_every_length() -> None:
    outputs = [near_ties(shape) for shape in SHAPES]
    vote = MajorityVote()
    decided = jax.jit(lambda every: [vote.score((), one) for one in every])(outputs)
    for shape, one, found in zip(SHAPES, outputs, decided, strict=True):
        wanted = 2 * np.sum(~(one.reshape(len(one), -1) <= 0.5), axis=1) > np.prod(shape)
        np.testing.assert_array_equal(found, wanted, err_msg=str(shape))
        assert wanted.any()
        assert not wanted.all()
