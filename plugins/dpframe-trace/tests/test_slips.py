"""Imports inside a traced function are not accused, and noisy counts are judged."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import random
import secrets
import subprocess
import sys

import numpy as np
import pytest
from dpframe_trace import trace

D0 = np.array([0.2, 0.9, 0.7])
D1 = D0[:2]
NAMES = (f"lazily_imported_{number}" for number in itertools.count())


def total(data):
    return float(np.clip(data, 0, 1).sum())


@pytest.fixture
def lazy(tmp_path, monkeypatch):
    """Write a module that the traced function imports itself, and return its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text):
        name = next(NAMES)
        (tmp_path / f"{name}.py").write_text(f"import random\nimport numpy as np\n{text}\n")
        importlib.invalidate_caches()
        return name

    yield write
    for name in [name for name in sys.modules if name.startswith("lazily_imported_")]:
        del sys.modules[name]


def imported_then(name, release):
    def function(rng, data):
        module = importlib.import_module(name)
        return release(module, rng, data)

    return function


def own_noise(module, rng, data):
    return total(data) + rng.laplace()


@pytest.mark.parametrize(
    "text",
    [
        "np.random.seed(0)",
        "random.seed(0)",
        "example = np.random.default_rng(615681484984984).normal(size=3)",
        "example = np.random.RandomState(3)",
        "example = random.Random(3).random()",
        "example = np.random.laplace() + random.random()",
        "example = random.Random(3).choices([1, 2], [1, 3])",
    ],
)
def test_a_module_that_the_function_imports_may_seed_and_draw(text, lazy):
    found = trace(imported_then(lazy(text), own_noise), D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])
    (line,) = found.lines
    assert (line.name, line.epsilon) == ("laplace", pytest.approx(0.7))


def test_a_module_that_restores_the_state_is_not_accused(lazy):
    name = lazy(
        "before = np.random.get_state(), random.getstate()\n"
        "np.random.seed(0)\nrandom.seed(0)\n"
        "np.random.set_state(before[0])\nrandom.setstate(before[1])"
    )

    def release(module, rng, data):
        return total(data) + np.random.laplace(), total(data) + 5 * random.gauss(0, 1)

    found = trace(imported_then(name, release), D0, D1, epsilon=2.0, delta=1e-5)
    assert found.findings == []


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("rng = np.random.default_rng(7)", lambda module, data: module.rng.laplace()),
        ("rng = np.random.RandomState(7)", lambda module, data: module.rng.laplace()),
        ("rng = random.Random(7)", lambda module, data: 5 * module.rng.gauss(0, 1)),
        ("np.random.seed(7)", lambda module, data: np.random.laplace()),
        ("random.seed(7)", lambda module, data: 5 * random.gauss(0, 1)),
    ],
)
def test_noise_from_a_generator_that_an_import_seeds_is_found(text, release, lazy):
    name = lazy(text)

    def function(data):
        return total(data) + release(importlib.import_module(name), data)

    found = trace(function, D0, D1, epsilon=2.0, delta=1e-5)
    assert {finding.kind for finding in found.findings} == {"seed"}
    assert "seeded with 7" in str(found)


def test_a_seed_set_in_the_first_call_only_is_found():
    ready = []

    def function(data):
        if not ready:
            np.random.seed(11)
            ready.append(True)
        return total(data) + np.random.laplace()

    found = trace(function, D0, D1, epsilon=1.0)
    assert [(finding.kind, finding.file) for finding in found.findings] == [("seed", __file__)]


def test_a_seed_set_in_every_call_is_found_once():
    def function(data):
        random.seed(11)
        return total(data) + 5 * random.gauss(0, 1)

    found = trace(function, D0, D1, epsilon=1.0, delta=1e-5)
    assert [finding.kind for finding in found.findings] == ["seed"]


def test_a_cache_that_the_first_call_fills_is_no_difference():
    cache = {}

    def function(rng, data):
        if "grid" not in cache:
            cache["grid"] = rng.uniform(size=4)
        return len(data) + rng.laplace()

    found = trace(function, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])


# Counts whose noise is released as it is.


def in_a_float(rng, data):
    return len(data) + float(rng.laplace())


def in_a_sum(rng, data):
    return np.sum([len(data), rng.laplace()])


def in_fsum(rng, data):
    return math.fsum([(data > 0.5).sum(), rng.laplace()])


def added_to_zero_first(rng, data):
    noise = 0.0
    noise += rng.laplace()
    return len(data) + noise


def clipped_above_zero(rng, data):
    return np.maximum(len(data) + rng.laplace(), -100)


def rounded_noise(rng, data):
    return len(data) + round(rng.laplace())


def rint_noise(rng, data):
    return int(len(data) + np.rint(rng.laplace()))


def two_geometric(rng, data):
    chance = 1 - math.exp(-1)
    return len(data) + int(rng.geometric(chance)) - int(rng.geometric(p=chance))


def two_geometric_of_the_module(data):
    chance = 1 - math.exp(-1)
    return len(data) + np.random.geometric(chance) - np.random.geometric(chance)


def geometric_histogram(rng, data):
    chance = 1 - math.exp(-1)
    counts = np.histogram(data, bins=2, range=(0, 1))[0]
    noise = rng.geometric(chance, size=2) - rng.geometric(chance, size=2)
    return dict(zip(["low", "high"], (counts + noise).tolist(), strict=True))


def two_exponentials(rng, data):
    return len(data) + rng.exponential() - rng.exponential()


def difference_of_exponentials(data):
    return len(data) + (random.expovariate(1) - random.expovariate(1))


def of_scipy(data):
    from scipy import stats

    return len(data) + stats.laplace.rvs()


def geometric_of_scipy(data):
    from scipy import stats

    return len(data) + stats.dlaplace.rvs(1.0)


COUNTS = [
    in_a_float,
    in_a_sum,
    in_fsum,
    added_to_zero_first,
    clipped_above_zero,
    rounded_noise,
    rint_noise,
    two_geometric,
    two_geometric_of_the_module,
    geometric_histogram,
    two_exponentials,
    difference_of_exponentials,
    of_scipy,
    geometric_of_scipy,
]


@pytest.mark.parametrize("count", COUNTS)
def test_a_count_is_judged(count):
    found = trace(count, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon == pytest.approx(1.0)
    found = trace(count, D0, D1, epsilon=0.5)
    assert [finding.kind for finding in found.findings] == ["budget"]


@pytest.mark.parametrize("count", COUNTS)
def test_a_count_that_stays_the_same_is_judged(count):
    found = trace(count, D0, D0 + 1e-9, epsilon=1.0)
    assert (found.findings, found.unknown, found.epsilon) == ([], [], 0.0)


def truncated_noise(rng, data):
    return len(data) + int(rng.laplace())


def scale_of_lost_noise_from_data(rng, data):
    return len(data) + len(data) * float(rng.laplace())


def chance_from_data(rng, data):
    chance = 1 - math.exp(-1 / len(data))
    return len(data) + int(rng.geometric(chance)) - int(rng.geometric(chance))


def sum_with_rounded_noise(rng, data):
    return total(data) + round(rng.laplace())


def one_geometric(rng, data):
    return len(data) + int(rng.geometric(0.5))


def noise_twice(rng, data):
    noise = float(rng.laplace())
    return len(data) + noise, total(data) + noise


def geometric_and_a_secret(rng, data):
    noise = int(rng.geometric(0.5)) - int(rng.geometric(0.5))
    return len(data) + noise, noise > 0 and len(data) > 2


@pytest.mark.parametrize(
    "count",
    [
        truncated_noise,
        scale_of_lost_noise_from_data,
        chance_from_data,
        sum_with_rounded_noise,
        one_geometric,
        noise_twice,
        geometric_and_a_secret,
    ],
)
def test_other_noise_of_a_count_is_not_called_right(count):
    assert trace(count, D0, D1, epsilon=1.0).exit_code != 0


def geometric_twice(rng, data):
    noise = int(rng.geometric(0.5)) - int(rng.geometric(0.5))
    return len(data) + noise, 3 * len(data) - noise


@pytest.mark.parametrize("count", [noise_twice, geometric_twice])
def test_lost_noise_that_is_used_twice_is_found(count):
    found = trace(count, D0, D1, epsilon=9.0)
    assert "reused" in [finding.kind for finding in found.findings]


def test_lost_noise_in_two_equal_counts_is_used_once():
    def function(rng, data):
        count = len(data) + round(rng.laplace())
        return count, count

    found = trace(function, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon == pytest.approx(1.0)


def test_discrete_noise_that_is_not_recorded_is_no_reason_to_accuse():
    """Two runs on D are often equal."""
    draws = itertools.cycle([0, 0, 0, 0, 0, 0, 0, 1])
    found = trace(lambda data: len(data) + next(draws), D0, D1, epsilon=1.0)
    assert (found.findings, found.exit_code) == ([], 3)


# OpenDP.


@pytest.fixture
def opendp():
    prelude = pytest.importorskip("opendp.prelude")
    prelude.enable_features("contrib")
    return prelude


def opendp_count(dp, data, scale):
    space = dp.vector_domain(dp.atom_domain(T=float)), dp.symmetric_distance()
    return (space >> dp.t.then_count() >> dp.m.then_laplace(scale))(data)


def opendp_number(dp, data, scale):
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    return (space >> dp.m.then_laplace(scale))(len(data))


def opendp_context(dp, data, scale):
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1 / scale),
        split_evenly_over=1,
    )
    return context.query().count().laplace().release()


@pytest.mark.parametrize("count", [opendp_count, opendp_number, opendp_context])
@pytest.mark.parametrize(("scale", "kinds"), [(1.0, []), (0.5, ["budget"])])
def test_a_count_of_opendp_is_judged(count, scale, kinds, opendp):
    found = trace(lambda data: count(opendp, data, scale), [0.2, 30.0], [0.2], epsilon=1.0)
    assert ([finding.kind for finding in found.findings], found.unknown) == (kinds, [])
    assert found.epsilon == pytest.approx(1 / scale)


def test_a_replaced_record_does_not_change_a_count_of_opendp(opendp):
    found = trace(lambda data: opendp_count(opendp, data, 1.0), [0.2, 30.0], [0.2, 77.0])
    assert (found.findings, found.unknown, found.epsilon) == ([], [], 0.0)


def test_normal_noise_of_opendp_has_the_loss_of_its_rho(opendp):
    from dpframe import GaussianDP

    def function(data):
        space = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
        return (space >> opendp.m.then_gaussian(4.0))(len(data))

    found = trace(function, D0, D1, epsilon=0.5, delta=1e-5)
    assert [finding.kind for finding in found.findings] == ["budget"]
    assert found.epsilon == pytest.approx(GaussianDP(0.25).epsilon_at(1e-5))


# Seeds that are drawn.


@pytest.mark.parametrize(
    "seed", [lambda: secrets.randbits(32), lambda: int.from_bytes(os.urandom(4))]
)
def test_a_seed_that_is_drawn_is_not_fixed(seed):
    def function(data):
        return len(data) + np.random.default_rng(seed()).laplace()

    assert trace(function, D0, D1, epsilon=1.0).findings == []


def test_a_trace_imports_no_framework():
    text = (
        "import sys, numpy, dpframe_trace as t\n"
        "t.trace(lambda rng, data: data.sum() + rng.laplace(), numpy.zeros(2), numpy.ones(2))\n"
        "assert not {'torch', 'jax'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
