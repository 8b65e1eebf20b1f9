"""Noise that the trace does not follow is never taken for noise that hides everything."""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from dpframe_trace import trace

D0 = np.array([0.0, 0.4, 0.3])
D1 = np.array([1.0, 0.4, 0.3])
MANY = np.arange(3000.0)
ANOTHER = np.where(MANY == 1500, 5000.0, MANY)


def total(data):
    return float(np.clip(data, 0, 1).sum())


def weights(data, factor):
    sizes = np.exp(factor * np.array([(data < 0.5).sum(), (data >= 0.5).sum()]))
    return sizes / sizes.sum()


def difference_of_uniforms(rng, data):
    return total(data) + 3 * (rng.uniform() - rng.uniform())


def noise_times_a_matrix(rng, data):
    matrix = np.array([[1.0, 0.0], [1.0, 1.0]])
    return matrix @ weights(data, 1.0) + matrix @ rng.laplace(scale=0.1, size=2)


def choice_by_cumulative_weights(data):
    return int(np.searchsorted(np.cumsum(weights(data, 3)), random.random()))


def several_choices(rng, data):
    return rng.choice(2, size=3, p=weights(data, 3)).tolist()


def one_record(rng, data):
    return float(data[rng.integers(len(data))])


def all_records(rng, data):
    return rng.permutation(data)


def probability_from_data(rng, data):
    return int(rng.binomial(1, 0.4 + 0.2 * data[0]))


def uniform_around_the_data(rng, data):
    return rng.uniform(total(data) - 5, total(data) + 5)


def uniform_noise(data):
    return total(data) + random.uniform(-5, 5)


def one_sided(data):
    return total(data) - math.log(1 - random.random())


@pytest.mark.parametrize(
    ("function", "d0", "d1"),
    [
        (difference_of_uniforms, D0, D1),
        (noise_times_a_matrix, D0, D1),
        (choice_by_cumulative_weights, D0, D1),
        (several_choices, D0, D1),
        (one_record, MANY, ANOTHER),
        (all_records, MANY, ANOTHER),
        (probability_from_data, D0, D1),
        (uniform_around_the_data, D0, D1),
        (uniform_noise, D0, D1),
        (one_sided, D0, D1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_trace_says_that_it_cannot_tell(function, d0, d1):
    found = trace(function, d0, d1, epsilon=1.0)
    assert (found.findings, found.exit_code) == ([], 3)


def test_several_threads_are_not_compared():
    """Their order may differ between runs, and with it which value gets which noise."""
    import threading

    both = threading.Barrier(2)

    def function(rng, data):
        def part(value):
            both.wait()
            return value + rng.laplace()

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(part, data[:2].tolist()))

    found = trace(function, D0, D1, epsilon=1.0)
    assert (found.findings, found.exit_code) == ([], 3)
    assert "several threads" in found.unknown[0]


def test_one_thread_is_followed():
    def function(rng, data):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: total(data) + rng.laplace(scale=0.5)).result()

    assert [finding.kind for finding in trace(function, D0, D1, epsilon=1.0).findings] == ["budget"]


def test_random_values_for_missing_ones_are_no_mistake():
    def function(rng, data):
        filled = [rng.uniform() if np.isnan(value) else value for value in data]
        return total(np.array(filled)) + rng.laplace()

    found = trace(function, D0, np.array([np.nan, 0.4, 0.3]), epsilon=1.0)
    assert (found.findings, found.exit_code) == ([], 3)


def released_alone(rng, data):
    noise = rng.laplace()
    return total(data) + noise, noise


def released_in_an_object(rng, data):
    class Model:
        pass

    model = Model()
    model.noise_ = rng.laplace(size=2)
    model.sum_ = total(data) + model.noise_
    return model


def scaled_by_the_data(rng, data):
    return data.max() * rng.laplace()


def seeded_bit_generator(data):
    return total(data) + np.random.Generator(np.random.PCG64(11)).laplace(scale=9.0)


def seeded_sequence(data):
    return total(data) + np.random.default_rng(np.random.SeedSequence(11)).laplace(scale=9.0)


def weighted_choices(data):
    return random.choices(["low", "high"], weights=weights(data, 3).tolist())[0]


def laplace_of_uniforms(rng, data):
    level = rng.uniform(-0.5, 0.5, size=2)
    return total(data) - 0.3 * np.sign(level) * np.log(1 - 2 * np.abs(level))


def quantile(level, scale):
    return scale * np.log(2 * level) if level < 0.5 else -scale * np.log(2 - 2 * level)


def not_clipped(data):
    draws = np.random.uniform(size=2)
    for at in range(2):
        draws[at] = quantile(draws[at], 1.0)
    return list(np.array([data.sum(), data.max()]) + draws)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (released_alone, "reused"),
        (released_in_an_object, "reused"),
        (scaled_by_the_data, "scale"),
        (seeded_bit_generator, "seed"),
        (seeded_sequence, "seed"),
        (weighted_choices, "budget"),
        (laplace_of_uniforms, "budget"),
        (not_clipped, "budget"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_is_found(function, kind):
    assert kind in [finding.kind for finding in trace(function, D0, D1, epsilon=1.0).findings]


def test_laplace_noise_made_of_uniform_numbers_is_found_added_to_nan():
    found = trace(not_clipped, D0, np.array([np.nan, 0.4, 0.3]), epsilon=1.0)
    assert [finding.kind for finding in found.findings] == ["not-a-number"]


def large_numbers(data):
    level = random.random() - 0.5
    return 1e9 * total(data) - 1e9 * math.copysign(math.log(1 - 2 * abs(level)), level)


def rows_in_another_order(rng, data):
    return total(rng.permutation(data)) + rng.laplace()


def some_rows(rng, data):
    return total(data[rng.random(len(data)) < 0.5]) + rng.laplace()


def children(rng, data):
    return total(data) + rng.spawn(2)[0].laplace()


def below_a_level(data):
    return random.uniform(-0.5, 0.5) < (0.1 if data[0] > 0.5 else -0.1)


def nothing_to_add(rng, data):
    return (data[:0] + rng.laplace(size=0)).tolist(), total(data) + rng.laplace()


@pytest.mark.parametrize(
    ("function", "loss"),
    [
        (large_numbers, 1.0),
        (rows_in_another_order, 1.0),
        (some_rows, 1.0),
        (children, 1.0),
        (below_a_level, math.log(0.6 / 0.4)),
        (nothing_to_add, 1.0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_right_function_is_not_accused(function, loss):
    found = trace(function, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon == pytest.approx(loss)
