"""Common idioms of test files work, or a message says what to write instead."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import gauss
from typing import Any

import numpy as np
import pytest
from numpy.random import laplace
from scipy import stats
from support.tiers import mostly_slow

import dpframe
from dpframe import assert_dp, audit
from dpframe.draw.pool import Workers
from dpframe.draw.worker.generators import generators_of
from dpframe.pytest import UndecidedError, ViolationError

SCALE = 2.0
ONE = {"d0": [0.0], "d1": [1.0], "epsilon": 1.0, "trials": 300, "seconds": 300.0}


@pytest.fixture(scope="module")
def _processes() -> Iterator[Workers]:
    with Workers(2) as workers:
        yield workers


@pytest.fixture(autouse=True)
def _shared(
    _processes: Workers, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Use the same two processes for all tests: they need seconds to start."""
    monkeypatch.setattr("dpframe.pytest._workers", lambda: contextlib.nullcontext(_processes))


# Generators at module level.

rng = np.random.default_rng()
seeded = np.random.default_rng(0)
legacy = np.random.RandomState(2)
plain = random.Random()
method = rng.laplace
frozen = stats.laplace(scale=SCALE)
pool = {"a": [np.random.default_rng(1)]}


class Source:
    def __init__(self) -> None:
        self.noise = np.random.Generator(np.random.Philox(3))

    def __call__(self, values: Any) -> float:
        return float(sum(values) + self.noise.laplace(scale=SCALE))

    def release(self, values: Any) -> float:
        return self(values)


class OfClass:
    noise = np.random.default_rng(4)

    @classmethod
    def release(cls, values: Any) -> float:
        return float(sum(values) + cls.noise.laplace(scale=SCALE))


class Slotted:
    __slots__ = ("noise",)

    def __init__(self) -> None:
        self.noise = np.random.default_rng(1)


slotted = Slotted()


def with_default(values: Any, noise: Any = np.random.default_rng(0)) -> float:  # noqa: B008
    return float(sum(values) + noise.laplace(scale=SCALE))


def with_keyword(values: Any, *, noise: Any = np.random.default_rng(0)) -> float:  # noqa: B008
    return float(sum(values) + noise.laplace(scale=SCALE))


def given(noise: Any, values: Any) -> float:
    return float(sum(values) + noise.laplace(scale=SCALE))


def enclosed(*, seed: int | None) -> Any:
    noise = np.random.default_rng(seed)

    def release(values: Any) -> float:
        def inner() -> float:
            return float(noise.laplace(scale=SCALE))

        return sum(values) + inner()

    return release


@functools.cache
def made_once() -> Any:
    return np.random.default_rng(0)


late: Any = None


def made_late(values: Any) -> float:
    global late  # noqa: PLW0603
    if late is None:
        late = np.random.default_rng(7)
    return float(sum(values) + late.laplace(scale=SCALE))


def noise_of(scale: float) -> float:
    return float(seeded.laplace(scale=scale))


KEPT: dict[str, tuple[Any, str | None]] = {
    "fresh": (lambda v: sum(v) + rng.laplace(scale=SCALE), "`rng`"),
    "seeded": (lambda v: sum(v) + seeded.laplace(scale=SCALE), "`seeded`"),
    "legacy": (lambda v: sum(v) + legacy.laplace(scale=SCALE), "`legacy`"),
    "standard library": (lambda v: sum(v) + plain.gauss(0, 6), "`plain`"),
    "a method of a generator": (lambda v: sum(v) + method(scale=SCALE), "`method`"),
    "the global one by name": (lambda v: sum(v) + gauss(0, 6), None),
    "NumPy's global one by name": (lambda v: sum(v) + laplace(scale=SCALE), None),
    "a distribution of SciPy": (lambda v: sum(v) + frozen.rvs(), None),
    "in a container": (lambda v: sum(v) + pool["a"][0].laplace(scale=SCALE), "`pool['a'][0]`"),
    "in a slot": (lambda v: sum(v) + slotted.noise.laplace(scale=SCALE), "`slotted.noise`"),
    "of an object": (Source(), "`noise`"),
    "of a bound method": (Source().release, "`noise`"),
    "of a class": (OfClass.release, "`OfClass.noise`"),
    "a default": (with_default, "`noise`"),
    "a keyword's default": (with_keyword, "`noise`"),
    "in a partial": (functools.partial(given, np.random.default_rng(0)), "`argument 1 of a "),
    "in a closure": (enclosed(seed=0), "`noise`"),
    "made at the first call": (made_late, None),
    "of a helper": (lambda v: sum(v) + noise_of(SCALE), "`seeded`"),
    "beside rng": (lambda generator, v: sum(v) + rng.laplace(scale=SCALE), "`rng`"),
}


@pytest.mark.parametrize("name", KEPT)
def test_each_process_gets_its_own_stream_of_a_generator(name: str) -> None:
    release, shown = KEPT[name]
    (cell,) = assert_dp(release, **ONE).cells
    assert cell.verdict == "consistent"
    notes = [note for note in cell.estimate.notes if note.startswith("gave each worker")]
    if shown is not None:
        (note,) = notes
        assert shown in note
        assert "test_idioms.py" in note


def test_equal_seeds_of_a_module_give_the_same_record() -> None:
    asked = {**ONE, "trials": 1_500}
    del asked["seconds"]  # with a limit of time, sizes of looks depend on it
    one, two = (assert_dp(enclosed(seed=None), **asked) for _ in range(2))
    assert one.cells[0].search == two.cells[0].search
    assert one.cells[0].counts == two.cells[0].counts


def test_two_generators_with_equal_seeds_get_different_streams() -> None:
    first, second = np.random.default_rng(0), np.random.default_rng(0)

    def difference(values: Any) -> float:
        return float(sum(values) + first.laplace(scale=SCALE) - second.laplace(scale=SCALE))

    assert assert_dp(difference, **ONE).cells[0].verdict == "consistent"


def test_the_generators_of_this_process_stay_where_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    monkeypatch.setattr("dpframe.pytest._workers", lambda: Workers(1))  # the audit stops them

    lock, own = threading.Lock(), np.random.default_rng(0)  # a lock cannot be sent to a worker

    def release(values: Any) -> float:
        with lock:
            return float(sum(values) + own.laplace(scale=SCALE))

    assert assert_dp(release, **ONE).cells[0].verdict == "consistent"
    assert own.random() == np.random.default_rng(0).random()


def test_a_value_that_fails_when_it_is_asked_for_attributes_is_no_generator() -> None:
    own, marks = np.random.default_rng(0), pytest.mark  # its markers are listed strictly

    def release(values: Any) -> float:
        assert marks
        return float(sum(values) + own.laplace(scale=SCALE))

    assert [one.value for one in generators_of({"release": release})] == [own]


LIBRARY = """
import numpy as np
rng = np.random.default_rng(0)
def add_noise(x):
    return x + rng.laplace(scale=2.0)
class Mechanism:
    def __init__(self, random_state=42):
        self.state = np.random.RandomState(random_state)
    def run(self, x):
        return x + self.state.laplace(scale=2.0)
class Seeding:
    def run(self, x):
        return x + np.random.RandomState(0).laplace(scale=2.0)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package that is installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "noisy_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("dpframe.pytest._workers", lambda: Workers(2))  # with the new path
    import noisy_library  # type: ignore[import-not-found]

    yield noisy_library
    del sys.modules["noisy_library"]


def refused_or_left_alone(release: Any) -> str:
    """Return the message about equal draws; empty if the processes did not meet in their draws."""
    try:
        (cell,) = assert_dp(release, **ONE).cells
    except UndecidedError as error:
        return str(error)
    assert not any(note.startswith("gave each worker") for note in cell.estimate.notes)
    return ""


def test_a_generator_of_an_installed_package_gets_no_stream(library: Any) -> None:
    mechanism = library.Mechanism()
    for release, shown in (
        (lambda v: library.add_noise(sum(v)), "`rng`, a generator of noisy_library"),
        (lambda v: mechanism.run(sum(v)), "`mechanism.state`, a generator of noisy_library"),
    ):
        message = refused_or_left_alone(release)
        assert not message or shown in message
    with pytest.raises(ViolationError):
        assert_dp(lambda v: library.Seeding().run(sum(v)), **ONE)


def test_a_generator_that_cannot_be_reached_is_named_by_the_line_that_makes_it() -> None:
    message = refused_or_left_alone(lambda v: sum(v) + made_once().laplace(scale=SCALE))
    line = made_once.__wrapped__.__code__.co_firstlineno + 2
    assert not message or f"test_idioms.py:{line} (default_rng)" in message


def test_a_constant_seed_inside_the_function_is_found_with_its_line() -> None:
    def release(values: Any) -> float:
        return float(sum(values) + np.random.default_rng(0).laplace(scale=SCALE))

    with pytest.raises(ViolationError) as found:
        assert_dp(release, **ONE)
    line = release.__code__.co_firstlineno + 1
    assert f"test_idioms.py:{line} (default_rng)" in str(found.value)


PLUGIN = """
import numpy as np
from dpframe.plugins import HostMechanism, PureDP

rng = np.random.default_rng({seed})

class Noisy(HostMechanism, name="noisy"):
    "A sum with noise."
    def claim(self, pair):
        return PureDP(1.0)
    def sample(self, generator, data, n):
        return data.sum() + rng.laplace(scale=2.0, size=(n, 1))
"""


@pytest.mark.parametrize("seed", ["", "0"])
def test_generators_of_a_plugin_file_get_streams(tmp_path: Path, seed: str) -> None:
    file = tmp_path / "noisy.py"
    file.write_text(PLUGIN.format(seed=seed))
    spec = {
        "schema": 1,
        "audit": {"name": "file", "seed": 0, "trials": 3_000},
        "mechanism": [{"use": "noisy"}],
        "pair": {"use": "zeros-ones", "params": {"dim": 1}},
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "precision"}],
    }
    (cell,) = audit(spec, plugins=[file]).cells
    assert cell.status == "ok", cell.reason
    assert any("`rng`, a generator of noisy.py" in note for note in cell.estimate.notes)


# Budgets, and what a test costs.


def test_errors_are_importable_from_the_package() -> None:
    assert dpframe.UndecidedError is UndecidedError
    assert dpframe.ViolationError is ViolationError


def scored(values: Any) -> float:
    return float(sum(values) + np.random.laplace(scale=SCALE))


def test_trials_alone_mean_no_time_limit() -> None:
    record = assert_dp(scored, d0=[0.0], d1=[1.0], epsilon=1.0, trials=1_500)
    assert record.cells[0].trials[0] > 1_000
    assert "seconds" not in record.spec.text


SUITE = """
from dpframe import assert_dp
import numpy as np

def test_it():
    assert_dp(lambda v: sum(v) + np.random.laplace(scale=2), d0=[0.0], d1=[1.0], epsilon=1.0)
"""


@pytest.mark.parametrize("by_file", mostly_slow([False, True], (0,)))
def test_the_session_sets_the_seconds_and_a_green_test_says_its_cost(
    tmp_path: Path, by_file: bool
) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n" + "dpframe_seconds = 1\n" * by_file)
    command = [sys.executable, "-m", "pytest", "-p", "dpframe.pytest", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(Path(dpframe.__file__).parents[1]), str(tmp_path)])
    kept = {name: one for name, one in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command + ([] if by_file else ["--dpframe-seconds", "1"]),
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout
    assert re.search(r"no violation of ε = 1 found in [\d,]+ runs, [\d.]+ s", done.stdout)
    assert "stopped at its limit of 1 s" in done.stdout
