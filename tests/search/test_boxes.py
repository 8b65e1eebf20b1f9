"""Searches of black boxes find what libraries gave away, and accuse nobody who is right."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import leaky_boxes as boxes
from support.leaky_boxes import searched
from support.tiers import mostly_slow

from dpframe import HostMechanism, PureDP
from dpframe.count.checkpoint import Store
from dpframe.draw import sampler, scheduling as pace
from dpframe.draw.requests import DeadlinePassed
from dpframe.engine.ledger import Ledger
from dpframe.search import black_box_arms

if TYPE_CHECKING:
    from pathlib import Path

    from dpframe import Claim, Pair

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

LEAKS: list[tuple[Any, float, str]] = [
    (boxes.nan_goes_through, 1.0, "the output is NaN"),
    (boxes.raises_for_huge, 1.0, r"raises ValueError at [\w/]*leaky_boxes.py:\d+"),
    (boxes.classes_of_data, 1.0, r"array of shape \(\d,\)"),
    (boxes.bound_used_twice, 1.0, "the output is from"),
    (boxes.last_bit_is_bare, 1.0, "output 1 is 1 or more"),
    (boxes.one_noise_for_missing_keys, 1.0, "output 2 equals output 3"),
    (boxes.computed_excess, 1.0, "the output"),
    (boxes.seed_is_fixed, 1.0, r"is -?\d+\.\d+"),
    (boxes.not_clipped, 1.0, "is 2.5e\\+29|the output"),
    (boxes.scale_from_data, 0.4, "deviation|norm|absolute"),
]


@pytest.mark.parametrize(("box", "epsilon", "words"), mostly_slow(LEAKS, range(0, len(LEAKS), 2)))
def test_what_libraries_gave_away_is_found(box: Any, epsilon: float, words: str) -> None:
    found = searched(box, epsilon, trials=1_000)
    assert found.estimate is not None, found.reason
    assert found.p_value < 1e-3
    assert found.trials[0] < 300  # few releases tell, and a slow box has no more
    assert found.search is not None
    assert re.search(words, found.search.event), found.search.event


def test_shares_that_are_off_are_found() -> None:
    found = searched(boxes.truth_kept_too_often, 1.0, trials=5_000)
    assert found.p_value < 1e-3
    assert found.trials[0] < 2_000
    assert re.fullmatch(r"is \[[01], [01]\].*|output \d is \d.*", found.search.event)


@pytest.mark.slow
def test_a_sampler_that_likes_multiples_of_three_is_found() -> None:
    found = searched(boxes.likes_threes, 1 / 3, trials=300_000)
    assert found.p_value < 1e-3


@pytest.mark.slow
def test_last_bits_count_where_an_observer_has_them() -> None:
    attack = [{"use": "answers", "params": {"look": "bits"}}]
    found = searched(boxes.textbook_floats, trials=2_000, attack=attack)
    assert found.p_value < 1e-3
    assert "bits" in found.search.event or "2^" in found.search.event
    unseen = searched(boxes.textbook_floats, trials=2_000)
    assert unseen.p_value > 1e-3


RIGHT: list[tuple[Any, float]] = [
    (boxes.clipped_mean, 1.0),
    (boxes.randomized_response, math.log(3)),
    (boxes.whole_count, 1.0),
]


@pytest.mark.parametrize(("box", "epsilon"), mostly_slow(RIGHT, [1]))
def test_who_is_right_is_not_accused(box: Any, epsilon: float) -> None:
    """P-values of right boxes at their exact claim; a p-value below 1e-6 has that false-alarm
    rate, and over all runs together at most 1 in 20 may lie below 0.05, five standard errors
    allowed."""
    runs = 2
    ps = [searched(box, epsilon, 600, seed=s, run={"stop": "never"}).p_value for s in range(runs)]
    assert min(ps) > 1e-6
    assert sum(p <= 0.05 for p in ps) <= runs / 20 + 5 * math.sqrt(runs * 0.05 * 0.95)


@pytest.mark.slow
@pytest.mark.parametrize(("box", "epsilon"), RIGHT)
def test_p_values_of_who_is_right_are_no_smaller_than_they_say(box: Any, epsilon: float) -> None:
    """False-alarm rate 1e-6: a binomial tail of the share of p ≤ 0.05 among many searches."""
    from scipy.stats import binom

    runs = 50
    ps = [searched(box, epsilon, 600, seed=s, run={"stop": "never"}).p_value for s in range(runs)]
    assert binom.sf(sum(p <= 0.05 for p in ps) - 1, runs, 0.05) > 1e-6
    # Non-vacuity: the same box with a smaller claim is found. In 600 trials the mean is in 7 of 16
    # searches, in 2,400 in all.
    wrong = [searched(box, epsilon / 2, 2_400, seed=s).p_value for s in range(4)]
    assert all(p <= 0.05 for p in wrong)


def test_what_is_bet_on_was_not_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round is drawn after its events were chosen, at an address that is drawn once."""
    drawn: list[tuple[str, int, int, int]] = []
    part = sampler.BlackBoxSampler.draw

    def noted(self: Any, dataset: int, first: int, stop: int) -> Any:
        rows = self.sizes.rows_of(first)
        where = self.stream.group, dataset
        drawn.extend((*where, chunk, rows) for chunk in range(first, stop))
        return part(self, dataset, first, stop)

    learned: list[int] = []
    draw = black_box_arms.BlackBoxArm.draw

    def bet(self: Any, draws: int) -> Any:
        before, known = self._events.learned, len(drawn)
        fresh = draw(self, draws)
        assert self._events.learned is before
        assert len(drawn) > known
        learned.append(len(before))
        return fresh

    monkeypatch.setattr(sampler.BlackBoxSampler, "draw", noted)
    monkeypatch.setattr(black_box_arms.BlackBoxArm, "draw", bet)
    searched(boxes.clipped_mean, 1.0, 800)
    assert len(learned) > 10
    assert len(drawn) == len({one[:3] for one in drawn})


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer() -> None:
    one, same, other = (searched(boxes.clipped_mean, 0.5, 500, seed=s) for s in (1, 1, 2))
    assert (one.estimate, one.search) == (same.estimate, same.search)
    assert one.estimate != other.estimate


class Vector(HostMechanism, name="leaky"):
    """Many at once, half the noise; raises for what it cannot read."""

    def claim(self, pair: Pair) -> Claim:
        return PureDP(0.5)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        if np.isnan(data).any():
            raise ValueError("NaN")
        return np.clip(data, 0, 1).mean() + rng.laplace(0, 1 / len(data), n)


def test_a_sample_that_raises_is_asked_one_at_a_time() -> None:
    found = searched(boxes.clipped_mean, box=Vector)
    assert found.estimate is not None, found.reason
    assert found.p_value < 1e-3


@pytest.mark.parametrize("trials", [20, 4_000])  # enough for one pair, and for all
def test_a_box_that_always_raises_is_no_right_box(trials: int) -> None:
    def broken(rng: Any, data: Any) -> float:
        raise RuntimeError("not installed")

    found = searched(broken, trials=trials)
    assert found.estimate is None
    assert "all answers of every pair on D and D′ were exceptions" in str(found.reason)
    assert "RuntimeError: not installed (" in str(found.reason)


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_exceptions_of_two_kinds_tell_datasets_apart(share: float) -> None:
    def raises(rng: Any, data: Any) -> float:
        if np.isnan(data).any() == (rng.random() < share):
            raise KeyError("one")
        raise ValueError("other")

    found = searched(raises, trials=2_000)
    assert found.estimate is not None, found.reason
    assert found.p_value < 1e-3
    assert re.search("raises (Key|Value)Error at", found.search.event)


def test_chunks_grow_with_their_number_and_not_with_the_machine() -> None:
    sizes = sampler.ChunkSizes(None)
    found = [sizes.rows_of(chunk) for chunk in range(400)]
    assert found[0] == sampler.FIRST_ROWS
    assert found == sorted(found)
    assert found[-1] == sampler.LARGEST_ROWS
    sizes.widest = 8 * 8195
    assert sizes.rows_of(399) * sizes.widest <= sampler.CHUNK_BYTES


class Unseeded(HostMechanism, name="leaky"):
    """Draws from elsewhere."""

    seedable = False

    def claim(self, pair: Pair) -> Claim:
        return PureDP(1.0)

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        return float(np.clip(np.nan_to_num(data), 0, 1).mean() + OTHER.laplace(0, 1 / len(data)))


OTHER = np.random.default_rng(7)


@pytest.mark.slow
def test_what_was_drawn_without_a_seed_is_another_look_every_time(tmp_path: Path) -> None:
    looks = [
        searched(boxes.clipped_mean, 1.0, 200, seed=seed, box=Unseeded, ledger=Ledger(tmp_path))
        for seed in (0, 0, 1)
    ]
    assert [one.basis.look for one in looks] == [1, 2, 3]
    assert 1 - looks[1].estimate.confidence == pytest.approx((1 - looks[0].estimate.confidence) / 6)


@pytest.mark.slow
def test_other_chunks_are_another_look(tmp_path: Path) -> None:
    """The same with a seed is none."""
    looks = [
        searched(boxes.clipped_mean, 1.0, 200, run=run, ledger=Ledger(tmp_path))
        for run in ({}, {}, {"chunk": 16}, {"chunk": 16, "seconds": 60.0})
    ]
    assert [one.basis.look for one in looks] == [1, 1, 2, 3]


class InTwos(HostMechanism, name="leaky"):
    """Two rows of a call get about the same noise."""

    def claim(self, pair: Pair) -> Claim:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        noise = np.repeat(rng.laplace(0, 0.25, n // 2), 2) + rng.normal(0, 1e-3, n)
        return np.clip(np.nan_to_num(data), 0, 1).mean() + noise


def test_answers_that_depend_on_each_other_are_worth_nothing() -> None:
    found = searched(boxes.clipped_mean, 1.0, 1_000, box=InTwos, run={"chunk": 64})
    assert found.estimate is None
    assert "rows of one call depend on each other" in str(found.reason)


@pytest.mark.slow
def test_answers_are_kept_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    learn = black_box_arms.BlackBoxArm._learn

    def noted(self: Any, kept: Any) -> None:
        learn(self, kept)
        sizes.append(self._learned)

    monkeypatch.setattr(black_box_arms.BlackBoxArm, "_learn", noted)
    searched(boxes.clipped_mean, 1.0, 1_500, run={"stop": "never"})
    usual = max(sizes)
    sizes.clear()
    monkeypatch.setattr(black_box_arms, "MOST_KEPT_BYTES", 1 << 12)
    found = searched(boxes.clipped_mean, 1.0, 1_500, run={"stop": "never"})
    assert max(sizes) < usual
    assert found.estimate is not None  # later draws are counted all the same
    assert found.trials[0] > 1_400


@pytest.mark.slow
def test_half_of_the_time_goes_into_beginning_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And who repeats the search begins as many, however fast the machine is then."""
    asked: list[float] = []

    def left(self: Any) -> float:
        asked.append(0.0)
        return 60.0 if len(asked) < 4 else 29.0 if len(asked) < 12 else -1.0

    # Whatever else this machine does.
    monkeypatch.setattr(black_box_arms.BlackBoxArm, "durations", ([1e-5], [1e-5]))
    store = Store()
    run = {"seconds": 60.0, "stop": "never"}
    with monkeypatch.context() as patch:
        patch.setattr(pace.Clock, "left", left)
        found = searched(boxes.clipped_mean, 1.0, 2_000, run=run, store=store)
    assert found.search.pairs < 8
    assert any("stopped at the time limit" in note for note in found.estimate.notes)
    again = searched(boxes.clipped_mean, 1.0, 2_000, run=run, store=store)
    assert again.search.pairs == found.search.pairs
    assert again.trials[0] > found.trials[0]
    played = len(found.estimate.wealth)
    assert again.estimate.wealth[:played] == found.estimate.wealth
    assert searched(boxes.clipped_mean, 1.0, 2_000, run=run).search.pairs == 8


@pytest.mark.slow
def test_a_round_that_time_ends_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    part, drawn = sampler.BlackBoxSampler.draw, []

    def late(self: Any, *chunks: int) -> Any:
        drawn.append(chunks)
        if len(drawn) > 60:
            raise DeadlinePassed
        return part(self, *chunks)

    monkeypatch.setattr(black_box_arms.BlackBoxArm, "durations", ([1e-5], [1e-5]))
    run = {"seconds": 60.0, "stop": "never"}
    whole = searched(boxes.clipped_mean, 1.0, 2_000, run=run)
    monkeypatch.setattr(sampler.BlackBoxSampler, "draw", late)
    cut = searched(boxes.clipped_mean, 1.0, 2_000, run=run)
    played = len(cut.estimate.wealth)
    assert 0 < played < len(whole.estimate.wealth)
    assert cut.estimate.wealth == whole.estimate.wealth[:played]
    assert any("stopped at the time limit" in note for note in cut.estimate.notes)
