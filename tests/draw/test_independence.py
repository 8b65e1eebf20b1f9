"""Outputs that are no independent draws fail their cell; whatever is independent is counted."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.black_boxes import cells, spec
from support.tiers import mostly_slow

from dpframe import Attack, HostMechanism, Mechanism, PureDP, host_mechanism
from dpframe.count.checkpoint import Store
from dpframe.count.work import SLOW_CHUNKS
from dpframe.draw import independence
from dpframe.draw.independence import (
    AGAIN,
    BETWEEN,
    DRIFTS,
    IN_STEP,
    NEIGHBOURS,
    NOT_SEEDABLE,
    WITHIN,
    Independence,
)
from dpframe.draw.pool import Workers
from dpframe.errors import WorthlessError

SHARED = itertools.count(7)  # of seeds
"""A value that a module makes when it is imported: the same in every process that imports it."""

Sample = Callable[[np.random.Generator, Any, int], Any]


def box(sample: Sample, *, seedable: bool = True) -> Any:
    return host_mechanism(sample, name="it", claim=PureDP(20.0), seedable=seedable)


def judged(
    sample: Sample, *, seedable: bool = True, source: Any = None, **spec_of: Any
) -> dict[str, Any]:
    spec_of = {"trials": 200, "run": {"chunk": 16}, **spec_of}
    (cell,) = cells(spec({"use": "it"}, **spec_of), source, [box(sample, seedable=seedable)])
    return cell


def test_few_chunks_of_slow_releases_show_frozen_draws() -> None:
    """Trainers make 8 models at once; of such chunks only few are drawn to check them."""
    frozen = np.tile(np.random.default_rng(0).normal(size=(8, 3)), (SLOW_CHUNKS[0], 1))
    with pytest.raises(WorthlessError, match=AGAIN.split(":", maxsplit=1)[0]):
        Independence(8, 1).see(0, 0, 0, frozen, counted=True)
    Independence(8, 1).see(0, 0, 0, frozen[:-8], counted=True)  # chance could do this


def noise(rng: Any, n: int) -> Any:
    return rng.laplace(size=(n, 1))


@functools.cache
def cached() -> Any:
    return np.random.default_rng().laplace(size=(1, 1))


def seeds_its_own(rng: Any, data: Any, n: int) -> Any:
    np.random.seed(0)
    return data + np.random.laplace(size=(n, 1))


def seeds_few(rng: Any, data: Any, n: int) -> Any:
    return data + noise(np.random.default_rng(rng.integers(5)), n)


def coins_of_one_seed(rng: Any, data: Any, n: int) -> Any:
    return np.random.default_rng(1).integers(2, size=(n, 1))


def goes_on(rng: Any, data: Any, n: int) -> Any:
    """Each row's noise is most of the one before, and something new."""
    return data + np.cumsum(rng.normal(size=(n, 1)), axis=0)


GUILTY: dict[str, tuple[Sample, str]] = {
    "noise that goes on": (goes_on, NEIGHBOURS),
    "noise with both signs": (
        lambda rng, data, n: data + np.concatenate([z := noise(rng, n // 2), -z], 1).reshape(n, 1),
        NEIGHBOURS,
    ),
    "one draw for all rows": (lambda rng, data, n: data + np.repeat(noise(rng, 1), n, 0), WITHIN),
    "one coin for all rows": (lambda rng, data, n: np.full((n, 1), rng.integers(2)), WITHIN),
    "each draw twice": (lambda rng, data, n: data + np.repeat(noise(rng, n // 2), 2, 0), WITHIN),
    "half of them again": (lambda rng, data, n: data + np.tile(noise(rng, n // 2), (2, 1)), WITHIN),
    "a constant seed": (seeds_its_own, AGAIN),
    "coins of a constant seed": (coins_of_one_seed, AGAIN),
    "five seeds": (seeds_few, AGAIN),
}


@pytest.mark.parametrize("name", GUILTY)
@pytest.mark.parametrize("seedable", [True, False])
def test_dependent_outputs_fail_the_cell(name: str, seedable: bool) -> None:
    sample, reason = GUILTY[name]
    cell = judged(sample, seedable=seedable)
    assert (cell["status"], cell["verdict"]) == ("failed", None)
    assert cell["reason"].startswith(reason)


def answers_rarely(rng: Any, data: Any, n: int) -> Any:
    return (rng.random((n, 1)) > 0.9999) * 1.0


INNOCENT: dict[str, Sample] = {
    "continuous": lambda rng, data, n: data + noise(rng, n),
    "global noise, which is seeded": lambda rng, data, n: data + np.random.laplace(size=(n, 1)),
    "coins": lambda rng, data, n: rng.integers(2, size=(n, 1)),
    "nearly always 0": answers_rarely,
    "deterministic": lambda rng, data, n: np.repeat(data[None], n, axis=0),
    "an atom": lambda rng, data, n: np.maximum(0.0, noise(rng, n)),
    "the same for D and D′": lambda rng, data, n: rng.poisson(3, size=(n, 1)),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_independent_outputs_are_counted(name: str) -> None:
    cell = judged(INNOCENT[name])
    assert cell["status"] == "ok", cell["reason"]


def test_randomness_from_elsewhere_must_be_declared() -> None:
    def fresh(rng: Any, data: Any, n: int) -> Any:
        return data + noise(np.random.default_rng(), n)

    assert judged(fresh)["reason"] == NOT_SEEDABLE
    assert judged(fresh, seedable=False)["status"] == "ok"


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(2) as own:
        yield own


def test_processes_that_start_with_the_same_generator_are_noticed(workers: Workers) -> None:
    """Code travels with the state of its counter: every process goes through the same noise."""

    def own(rng: Any, data: Any, n: int) -> Any:
        return data + noise(np.random.default_rng(next(SHARED)), n)

    for seedable in (True, False):
        reason = judged(own, seedable=seedable, source=workers)["reason"]
        assert reason.startswith(AGAIN)
        assert "test_independence.py:" in reason  # the line that seeds


def test_outputs_for_d_must_not_come_again_for_d_prime() -> None:
    """Here D is asked for some outputs more, so that the rows that come again are not in step."""
    seeds = [itertools.count(7), itertools.count(7)]

    def each_its_own(rng: Any, data: Any, n: int) -> Any:
        return noise(np.random.default_rng(next(seeds[int(data[0])])), n)

    cell = judged(each_its_own, seedable=False)
    assert cell["reason"].startswith(BETWEEN)


def test_noise_that_d_and_d_prime_share_is_noticed() -> None:
    """No row comes again: the data are added to it."""

    def see(*seeds: int) -> None:
        tests, generators = Independence(16, 1), [np.random.default_rng(seed) for seed in seeds]
        for chunk in range(25):
            for index, rng in enumerate(generators):
                tests.see(0, index, chunk, index + noise(rng, 16), counted=True)
        tests.conclude()

    see(7, 8)
    with pytest.raises(WorthlessError, match=IN_STEP):
        see(7, 7)


class OneVariant(HostMechanism, name="it"):
    """Does not take its randomness from the seed, for one value of its parameter."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return data + noise(np.random.default_rng() if self.epsilon == 2.0 else rng, n)


def test_every_variant_is_drawn_twice_at_its_address() -> None:
    swept = spec({"use": "it"}, trials=64, run={"chunk": 16})
    swept["sweep"] = {"mechanism.epsilon": [1.0, 2.0, 3.0]}
    found = cells(swept, None, [OneVariant])
    assert [cell["reason"] == NOT_SEEDABLE for cell in found] == [False, True, False]


def few_keys(self: Any, key: Any, data: Any, n: int) -> Any:
    """Three keys for all chunks: which of them, the key says."""
    few = jax.random.key(jax.random.randint(key, (), 0, 3))
    return data + jax.random.laplace(few, (n, 1))


def walks(self: Any, key: Any, data: Any, n: int) -> Any:
    return data + jnp.cumsum(jax.random.normal(key, (n, 1)), axis=0)


def own_rows(self: Any, key: Any, data: Any, n: int) -> Any:
    return data + jax.random.laplace(key, (n, 1))


@pytest.mark.parametrize(
    ("sample", "reason"), [(few_keys, AGAIN), (walks, NEIGHBOURS), (own_rows, None)]
)
def test_traced_mechanisms_are_looked_at_too(sample: Any, reason: str | None) -> None:
    class Traced(Mechanism, name="traced"):
        """The path of this file."""

        def claim(self, pair: Any) -> PureDP:
            return PureDP(20.0)

        def sample(self, key: Any, data: Any, n: int) -> Any:
            return sample(self, key, data, n)

    (cell,) = cells(spec({"use": "traced"}, trials=2048, run={"chunk": 256}), None, [Traced])
    assert (cell["status"], cell["reason"] == reason) == (
        "failed" if reason else "ok",
        bool(reason),
    )


def test_dependent_counts_are_not_gone_on_with(tmp_path: Path) -> None:
    """The test may come after they were counted and stored."""
    sample, _ = GUILTY["one draw for all rows"]
    store = Store(tmp_path)
    for _ in range(2):
        (cell,) = cells(spec({"use": "it"}, run={"chunk": 16}), None, [box(sample)], store)
        assert cell["reason"] == WITHIN
    stored = [json.loads(file.read_text())["entries"] for file in tmp_path.glob("*.json")]
    assert {key for entries in stored for key in entries} <= {"calls"}  # how many, and no counts


def test_accusations_are_as_rare_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """At an error of .2 the tests of one pass accuse at most a fifth of correct boxes."""
    monkeypatch.setattr(independence, "ERROR", 0.2)
    rng, accused, repeats = np.random.default_rng(3), 0, 100
    for _ in range(repeats):
        seen = Independence(rows=8, variants=1)
        try:
            for chunk in range(32):
                for dataset in (0, 1):
                    outputs = rng.integers(3, size=(8, 1))
                    seen.see(0, dataset, chunk, outputs, counted=True)
                seen.passes()
            seen.conclude()
        except WorthlessError:
            accused += 1
    assert accused <= 41  # more of 100 come with probability below 1e-6


RUNS = itertools.count()
"""Releases so far: state that a module keeps from call to call."""


def drifting(rng: Any, data: Any, n: int) -> Any:
    places = [0.3 * (-1) ** (next(RUNS) // 500) for _ in range(n)]
    return data + np.array(places)[:, None] + noise(rng, n)


@pytest.mark.parametrize("seedable", [True, False])
def test_a_box_whose_state_drifts_fails_its_cell(seedable: bool) -> None:
    cell = judged(drifting, seedable=seedable, trials=6000, run={"chunk": 64})
    assert (cell["status"], cell["verdict"], cell["reason"]) == ("failed", None, DRIFTS)


class Last(Attack, name="last", api=1):
    gives = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, -1]


def drifting_at_the_end(rng: Any, data: Any, n: int) -> Any:
    shares = [0.3 + 0.15 * (-1) ** (next(RUNS) // 500) for _ in range(n)]
    outputs = rng.laplace(size=(n, 64))
    outputs[:, -1] = data[0] + 5.0 * (rng.random(n) < shares)
    return outputs


@pytest.mark.parametrize("params", [{}, {"threshold": 3.0}])
def test_a_box_drifts_where_only_the_attack_sees_it(params: dict[str, float]) -> None:
    drifts = host_mechanism(drifting_at_the_end, name="it", claim=PureDP(20.0), seedable=False)
    audit = spec({"use": "it"}, trials=6000, run={"chunk": 64})
    audit |= {"attack": [{"use": "last"}], "estimator": [{"use": "threshold", "params": params}]}
    (cell,) = cells(audit, None, [drifts, Last])
    assert (cell["status"], cell["verdict"], cell["reason"]) == ("failed", None, DRIFTS)


def test_of_a_box_that_drifts_one_release_in_many_can_be_counted() -> None:
    """On request: a bound from n / every draws, which says so in its record."""
    states, made = np.random.default_rng(1).normal(size=10_000), [0]

    def wavy(rng: Any, data: Any, n: int) -> Any:
        at = made[0] + np.arange(n)
        made[0] += n
        return data + states[at // 100][:, None] + noise(rng, n)

    some = {"trials": 1500, "run": {"chunk": 64}}
    assert judged(wavy, seedable=False, **some)["reason"] == DRIFTS
    every = host_mechanism(wavy, name="it", claim=PureDP(20.0), seedable=False, every=101)
    (cell,) = cells(spec({"use": "it"}, **some), None, [every])
    assert (cell["status"], cell["trials"]) == ("ok", [1500, 1500]), cell["reason"]
    assert cell["mechanism"]["params"] == {"every": 101}


@pytest.mark.parametrize("of", ["fn", "release"])
def test_every_third_release_is_an_output(of: str) -> None:
    numbers = itertools.count()

    def release(rng: Any, data: Any) -> int:
        if (number := next(numbers)) % 3 == 0:
            raise ValueError("of one that is left out")
        return number

    def many(rng: Any, data: Any, n: int) -> Any:
        return np.arange(n)

    given: Any = {"release": release} if of == "release" else {"fn": many}
    made = host_mechanism(**given, name="third", every=3)()
    rng = np.random.default_rng(0)
    assert list(made.sample(rng, None, 4)) == [2, 5, 8, 11]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        host_mechanism(**given, every=0)


LONG, ROWS = 64, 256  # chunks, and rows of each

Drift = Callable[[np.random.Generator, np.ndarray], np.ndarray]
DRIFTING: dict[str, Drift] = {
    "a walk": lambda rng, at: 0.2 * np.cumsum(rng.choice([-1, 1], 99))[at // 1000],
    "there and back": lambda rng, at: 0.15 * (-1.0) ** (at // 1000),
    "one step": lambda rng, at: 0.2 * (at > 9000),
    "a rare event for a while": lambda rng, at: 50.0 * ((at // 2000 == 3) & (at % 20 == 0)),
    "absent for a while": lambda rng, at: np.where(at // 1000 == 7, np.nan, 0.0),
}


def after(rng: np.random.Generator, side: int, place: Drift) -> str | None:
    """Return what is found in a dataset that drifts, beside one that does not."""
    seen = Independence(ROWS, 1, drift=True)
    try:
        for chunk in range(LONG):
            for dataset in (0, 1):
                at = chunk * ROWS + np.arange(ROWS)
                moved = place(np.random.default_rng(1), at) if dataset == side else 0.0
                seen.see(0, dataset, chunk, (rng.laplace(size=ROWS) + moved)[:, None], counted=True)
            seen.passes()
        seen.conclude()
    except WorthlessError as found:
        return str(found)
    return None


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", DRIFTING)
def test_drift_is_noticed_on_either_dataset(name: str, side: int) -> None:
    assert after(np.random.default_rng(2), side, DRIFTING[name]) == DRIFTS


def test_drift_of_counts_is_noticed_where_outputs_hide_it() -> None:
    """An attack may look at one of many coordinates, or at all of them at once."""
    rng, found = np.random.default_rng(4), []
    for step in (0.0, 0.05):
        seen = Independence(ROWS, 1, drift=True, attacks=2)
        for batch in range(50):
            share = 0.3 + step * (-1) ** (batch // 5)
            for attack in (0, 1):
                bins = rng.multinomial(1000, [0.0, 1 - share, share][-2 - attack :])
                seen.see_counts(0, 1, attack, 1000 * batch, bins)
        try:
            seen.conclude()
            found.append(None)
        except WorthlessError as error:
            found.append(str(error))
    assert found == [None, DRIFTS]


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        [
            *("rare", "continuous"),
            *(pytest.param(name, marks=pytest.mark.slow) for name in ("coins", "constant", "NaN")),
        ],
        ("rare",),
    ),
)
def test_drift_is_found_in_correct_boxes_as_rarely_as_stated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an error of .2, which drift has a third of; this test's false-alarm rate is 1e-6."""
    monkeypatch.setattr(independence, "ERROR", 0.2)
    monkeypatch.setattr(Independence, "_compare_rows", lambda _: None)
    monkeypatch.setattr(Independence, "_compare_whole", lambda *_: None)
    rng, accused, repeats = np.random.default_rng(3), 0, 60
    boxes: dict[str, Any] = {
        "coins": lambda n: rng.integers(2, size=n),
        "rare": lambda n: rng.random(n) < 0.001,
        "constant": np.zeros,
        "continuous": lambda n: rng.laplace(size=n),
        "NaN": lambda n: np.where(rng.random(n) < 0.3, np.nan, rng.geometric(0.2, n)),
    }
    for _ in range(repeats):
        seen = Independence(rows=64, variants=1, drift=True)
        try:
            for first in range(0, 60, 3):
                for dataset in (0, 1):
                    outputs = boxes[name](192)[:, None]
                    seen.see(0, dataset, first, outputs, counted=True)
                seen.passes()
            seen.conclude()
        except WorthlessError:
            accused += 1
    assert accused <= 17  # more of 60 come with probability below 1e-6 at .2 / 3


@pytest.mark.parametrize("sizes", [(16, 2976, 8), (16, 8, 8, 2960), (1, 1, 1, 500)])
def test_counts_of_any_number_of_draws_are_all_taken_in(sizes: tuple[int, ...]) -> None:
    """An event that always comes, or never, does not drift; every one of these draws is in some
    block."""
    seen, start = Independence(8, 1, drift=True, attacks=2), 0
    for size in sizes:
        for attack, bins in enumerate(([0, size], [size, 0, 0])):
            seen.see_counts(0, 0, attack, start, np.array(bins))
        start += size
    seen.conclude()
    for blocks in seen._blocks.values():
        assert blocks._sizes.sum() == sum(sizes[1:])
        assert blocks._hits is not None
        assert set(blocks._hits.sum(axis=0).tolist()) <= {0, sum(sizes[1:])}
    assert seen._blocks[0, 0, 0]._hits.sum() == sum(sizes[1:])  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_pass_that_failed_stays_failed() -> None:
    seen = Independence(rows=16, variants=1)
    outputs = np.arange(16.0)[:, None]
    seen.see(0, 0, 0, outputs, counted=True)
    with pytest.raises(WorthlessError):
        seen.see(0, 0, 1, outputs, counted=True)
    assert not seen.passes()
    with pytest.raises(WorthlessError):
        seen.conclude()


def test_a_variant_without_counted_rows_is_passed_over() -> None:
    seen, rng = Independence(rows=8, variants=2), np.random.default_rng(1)
    seen.see(0, 0, 0, rng.random((8, 1)), counted=False)
    seen.see(1, 0, 0, rng.random((8, 1)), counted=True)
    seen.conclude()


def test_looks_at_rows_share_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come one by one are looked at twelve times: together the looks have one error."""
    levels = []

    class Chance(float):
        def __lt__(self, level: float) -> bool:
            levels.extend([level] * (level < 0))
            return False

    monkeypatch.setattr(independence, "_tests_of_rows", lambda *_: [(WITHIN, Chance(0.0))])
    seen, rng = Independence(rows=1, variants=1), np.random.default_rng(1)
    for chunk in range(independence.ROWS):
        for dataset in (0, 1):
            seen.see(0, dataset, chunk, rng.random((1, 1)), counted=True)
        assert seen.passes()
    seen.conclude()
    assert len(levels) > 8
    spent = np.exp(levels).sum() / (independence.ERROR / 3 / independence.MOST_TESTS)
    assert 0.5 < spent <= 1.0
