"""Attacks learn from outputs of any shape, and find the leak in each."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest
from scipy import stats
from support.outputs import fitted, score
from support.tiers import mostly_slow

from dpframe import clopper_pearson_lower, clopper_pearson_upper
from dpframe.builtin import columns as _columns, columns as _words
from dpframe.builtin.learned_attacks import Categories, Learned
from dpframe.testing import check_attack

if TYPE_CHECKING:
    from collections.abc import Callable

Both = tuple[np.ndarray, np.ndarray]
FIT, PLAYED = 8_000, 100_000


def laplace(scale: float, shift: list[float]) -> Callable[[np.random.Generator, int], Both]:
    def draw(rng: np.random.Generator, n: int) -> Both:
        d0, d1 = (rng.laplace(0, scale, (n, len(shift))) + by for by in (0.0, np.array(shift)))
        return d0.astype(np.float32), d1.astype(np.float32)

    return draw


def coins(*shares: tuple[float, float]) -> Callable[[np.random.Generator, int], Both]:
    """Independent bits, with a probability of 1 on D and on D′."""

    def draw(rng: np.random.Generator, n: int) -> Both:
        d0, d1 = (rng.random((n, len(shares))) < [share[at] for share in shares] for at in (0, 1))
        return d0, d1

    return draw


def same_signs(rng: np.random.Generator, n: int) -> Both:
    """Every coordinate alone is the same; on D′ two have the same sign."""
    d0, d1 = (rng.normal(size=(n, 3)).astype(np.float32) for _ in range(2))
    d1[:, 1] = np.abs(d1[:, 1]) * np.sign(d1[:, 0])
    return d0, d1


def markers(rng: np.random.Generator, n: int) -> Both:
    """Seldom a NaN on D′, where an infinity would be on D."""
    d0, d1 = (rng.normal(size=(n, 2, 2)).astype(np.float32) for _ in range(2))
    d0[rng.random(n) < 0.02, 0, 1], d1[rng.random(n) < 0.02, 0, 1] = np.inf, np.nan
    return d0, d1


def float_laplace(rng: np.random.Generator, n: int) -> Both:
    """The textbook sampler in floating point, on 0 and on 1 [Mironov 2012]."""
    d0, d1 = (rng.laplace(size=(n, 1)).astype(np.float32) for _ in range(2))
    return d0, np.float32(1) + d1


@functools.cache
def shown(attack: Any, draw: Any, share: float) -> tuple[float, float]:
    """Limits of ln Pr′/Pr of the highest scores on fresh outputs; an error of 1e-6 each.

    The cut is at what a share of a second stream on D′ exceeds.
    """
    rng = np.random.default_rng(7)
    train, pilot, played = (draw(rng, n) for n in (FIT, PLAYED, PLAYED))
    state = fitted(attack, None, None, train)
    cut = np.quantile(score(attack, state, pilot[1]), 1 - share)
    k0, k1 = (int(np.sum(score(attack, state, part) >= cut)) for part in played)
    upper, lower = clopper_pearson_upper, clopper_pearson_lower
    return (
        float(np.log(lower(k1, PLAYED, 1e-6) / upper(k0, PLAYED, 1e-6))),
        float(np.log(upper(k1, PLAYED, 1e-6) / max(lower(k0, PLAYED, 1e-6), 1e-9))),
    )


LEAKS = {
    "one of five": (laplace(1.0, [0, 1, 0, 0, 0]), 0.1, 0.8, 1.0),
    "all of five": (laplace(5.0, [1, 1, 1, 1, 1]), 0.02, 0.45, 1.0),
    "bits": (coins(*[(0.45, 0.55)] * 4, *[(0.5, 0.5)] * 12), 0.1, 0.55, 0.81),
    "signs that agree": (same_signs, 0.5, 0.6, 0.7),
    "markers": (markers, 0.02, 3.0, np.inf),
}


@pytest.mark.parametrize("leak", mostly_slow(LEAKS, ("one of five",)))
def test_it_finds_most_of_what_leaks(leak: str) -> None:
    """And a bound above the truth, of the last column, has a probability of 1e-6."""
    draw, share, least, true = LEAKS[leak]
    bound, _ = shown(Learned(), draw, share)
    assert least < bound <= true


@pytest.mark.slow
def test_what_it_needs_the_perceptron_for() -> None:
    _, most = shown(Learned(hidden=0), same_signs, 0.5)
    assert most < 0.1


@pytest.mark.slow
def test_what_it_needs_the_bits_for() -> None:
    _, without = shown(Learned(), float_laplace, 0.02)
    bound, _ = shown(Learned(bits=True), float_laplace, 0.02)
    assert without < 1.5 < bound


@pytest.mark.parametrize(("bits", "dim"), mostly_slow([(False, 3), (True, 1)], (1,)))
def test_of_equal_laws_it_learns_nothing(bits: bool, dim: int) -> None:
    """False-alarm rate 1e-6 each; above are leaks of these shapes that are found in this way."""
    bound, most = shown(Learned(bits=bits), laplace(1.0, [0] * dim), 0.02)
    assert bound < 0 < most


# --- outputs of all kinds


def odd_outputs() -> dict[str, Both]:
    rng = np.random.default_rng(0)
    n = 400

    def both(make: Callable[[], np.ndarray]) -> Both:
        return make(), make()

    numbers = rng.normal(size=(4, n))
    spoiled = np.where(rng.random((4, n)) < 0.3, rng.choice([np.nan, np.inf, -np.inf], (4, n)), 0.0)
    return {
        "scalars": both(lambda: rng.normal(size=n).astype(np.float32)),
        "constant": both(lambda: np.full((n, 2), 3.0, np.float32)),
        "constant NaN": both(lambda: np.full((n, 2), np.nan, np.float32)),
        "constant infinity": both(lambda: np.full((n, 2), -np.inf, np.float32)),
        "huge": both(lambda: (rng.choice([-3e38, 3e38], (n, 2))).astype(np.float32)),
        "tiny": both(lambda: (rng.normal(size=(n, 2)) * 1e-38).astype(np.float32)),
        "heavy tails": both(lambda: (rng.standard_cauchy((n, 2)) ** 9).astype(np.float32)),
        "signed zeros": both(lambda: rng.choice([-0.0, 0.0], (n, 2)).astype(np.float32)),
        "booleans": both(lambda: rng.random((n, 3)) < 0.5),
        "integers": both(lambda: rng.integers(-(2**31), 2**31 - 1, (n, 2)).astype(np.int32)),
        "bytes": both(lambda: rng.integers(0, 255, (n, 2)).astype(np.uint8)),
        "half precision": both(lambda: rng.normal(size=(n, 2)).astype(np.float16)),
        "images": both(lambda: rng.normal(size=(n, 9, 9)).astype(np.float32)),
        "nothing": both(lambda: np.zeros((n, 0), np.float32)),
        "mostly NaN": (
            (numbers[:2] + spoiled[:2]).T.astype(np.float32),
            (numbers[2:] + spoiled[2:]).T.astype(np.float32),
        ),
        "one side": (np.zeros((n, 1), np.float32), np.full((n, 1), np.nan, np.float32)),
    }


ODD = odd_outputs()


@pytest.mark.parametrize("kind", mostly_slow(ODD, ("heavy tails", "booleans")))
@pytest.mark.parametrize("attack", [Learned(hidden=0, bits=True), Categories()])
def test_every_output_has_a_score(attack: Any, kind: str) -> None:
    train = ODD[kind]
    state = fitted(attack, None, None, train)
    assert not any(np.isnan(leaf).any() for leaf in jax.tree.leaves(state))
    for part in train:
        found = score(attack, state, part)
        assert found.shape == (len(part),)
        assert np.isfinite(found).all()
    if kind == "one side":
        assert score(attack, state, train[0]).max() < score(attack, state, train[1]).min() - 3


def test_few_outputs_teach_nothing() -> None:
    few = np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32)
    assert not score(Learned(), fitted(Learned(), None, None, few), few[1]).any()


@pytest.mark.parametrize("attack", mostly_slow([Learned(), Categories()], [1]))
def test_states_have_one_shape(attack: Any) -> None:
    """So that one program scores for all pairs of a mechanism."""
    rng = np.random.default_rng(5)
    cases = [same_signs(rng, 2000), markers(rng, 2000), laplace(1.0, [1, 1, 1])(rng, 500)]
    cases[1] = tuple(part.reshape(2000, 4)[:, :3] for part in cases[1])  # type: ignore[assignment]
    states = [fitted(attack, None, None, train) for train in cases]
    shapes = {tuple((x.shape, x.dtype.str) for x in jax.tree.leaves(state)) for state in states}
    assert len(shapes) == 1


@pytest.mark.slow
def test_it_learns_in_double_precision_too() -> None:
    with jax.enable_x64(True):
        train = tuple(
            part.astype(np.float64) for part in same_signs(np.random.default_rng(3), 4000)
        )
        state = fitted(Learned(bits=True), None, None, (train[0], train[1]))
        d0, d1 = (score(Learned(bits=True), state, part) for part in train)
    assert d0.dtype == np.float64
    assert stats.mannwhitneyu(d1, d0, alternative="greater").pvalue < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, bool])
def test_host_and_device_see_the_same(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    outputs = rng.integers(-3, 4, (64, 3)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        outputs = outputs / dtype(3)
        outputs[0], outputs[1], outputs[2] = np.nan, -np.inf, -0.0
    on_device = np.asarray(jax.jit(_words.words)(outputs))
    np.testing.assert_array_equal(on_device, _words.words(outputs))
    both = [np.asarray(part) for part in jax.jit(_words.digests)(on_device)]
    np.testing.assert_array_equal(both, _words.digests(on_device))
    rows = np.asarray(jax.jit(functools.partial(_columns.rows, bits=True))(outputs))
    np.testing.assert_array_equal(rows, _columns.rows(outputs, True))


# --- categories


@pytest.mark.slow
def test_categories_know_whole_outputs() -> None:
    """Shares of pairs of bits that agree; each bit alone is fair."""

    def draw(rng: np.random.Generator, n: int) -> Both:
        first = rng.random((2, n)) < 0.5
        other = [rng.random(n) < 0.5, first[1] ^ (rng.random(n) < 0.1)]
        return np.stack([first[0], other[0]], 1), np.stack([first[1], other[1]], 1)

    bound, _ = shown(Categories(), draw, 0.8)
    assert 0.45 < bound <= np.log(1.8)
    assert bound > shown(Learned(hidden=0), draw, 0.8)[1]


def test_categories_give_log_ratios_of_smoothed_shares() -> None:
    d0 = np.repeat(np.int32([0, 1, 2, 3]), [60, 30, 9, 1]).reshape(-1, 1)
    d1 = np.repeat(np.int32([0, 1, 2, 4]), [30, 60, 9, 1]).reshape(-1, 1)
    asked = np.array([[0], [1], [2], [3], [4], [99]])
    for caution in (0.0, 1.0, 9.0):
        attack = Categories(values=3, caution=caution)
        found = score(attack, fitted(attack, None, None, (d0, d1)), asked)
        ratio = max(np.log(61 / 31) - caution * np.sqrt(1 / 61 + 1 / 31), 0)
        np.testing.assert_allclose(found[:2], [-ratio, ratio], rtol=1e-5)
        np.testing.assert_allclose(found[2:], 0, atol=1e-6)  # 9 to 9, and what is rare as one


def test_rare_values_do_not_rank_above_those_that_tell() -> None:
    """Half of all outputs are one of 500 that tell nothing."""

    def draw(rng: np.random.Generator, n: int) -> Both:
        rest = rng.integers(2, 502, (2, n))
        d0, d1 = (rng.random(n) < share for share in (0.4, 0.6))
        common = np.stack([d0, d1])
        found = np.where(rng.random((2, n)) < 0.5, common, rest).astype(np.int32)[:, :, None]
        return found[0], found[1]

    bound, _ = shown(Categories(), draw, 0.03)
    assert 0.3 < bound <= np.log(1.5)
    assert shown(Categories(caution=0.0), draw, 0.03)[1] < bound


def test_zeros_and_nan_are_one_value_each() -> None:
    zeros = np.float32([[0.0], [-0.0]] * 50), np.float32([[np.nan], [-np.nan]] * 50)
    found = [score(Categories(), fitted(Categories(), None, None, zeros), part) for part in zeros]
    assert len(np.unique(found[0])) == len(np.unique(found[1])) == 1
    assert found[0][0] < -2 < 2 < found[1][0]


def test_outputs_that_never_come_twice_score_alike() -> None:
    train = laplace(1.0, [1, 1])(np.random.default_rng(0), 1000)
    assert not score(Categories(), fitted(Categories(), None, None, train), train[1]).any()


# --- the suite for authors


@pytest.mark.slow
@pytest.mark.parametrize("attack", [Learned(), Learned(bits=True), Learned(hidden=0)])
def test_it_keeps_what_is_asked_of_all(attack: Any) -> None:
    assert {found.result for found in check_attack(attack)} == {"kept"}
