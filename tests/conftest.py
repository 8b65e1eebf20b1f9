"""What all tests share."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["quality.fifths"]  # the option --fifth

# The same examples on every machine and every day; a search is for whoever looks for one.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


MOST_PROCESSES = 4
"""Each imports and compiles for itself; more of them gain little."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Runs all tests on all cores, and what was asked for by name in this process.

    Files stay whole: their fixtures and compiled programs are shared. `-n` says otherwise.
    """
    option = config.option
    if (
        getattr(option, "numprocesses", 0) is None  # pytest-xdist is here, and nobody gave -n
        and "PYTEST_XDIST_WORKER" not in os.environ  # a worker would start workers of its own
        and not option.usepdb
        and not option.collectonly
        and not option.keyword
        and [Path(argument) for argument in config.args] == [Path("tests")]
    ):
        option.numprocesses = min(_cores(), MOST_PROCESSES)
        option.dist = "loadfile"


QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Most programs of the default run are used for some thousand draws, and compiling takes longer."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Compiles without LLVM's optimizations, except for slow tests: these run what users run.

    Before the first program; processes that tests start inherit it.
    """
    if config.option.markexpr == "not slow" and "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = QUICK_TO_COMPILE


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _one_compile_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Programs are compiled once for all tests, in whatever process they run.

    Half of the tests' time would be compiling: what a test defines anew is a new program to JAX,
    even where it is the same to XLA. DPFRAME_TEST_CACHE keeps them from one run to the next.
    """
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent  # that of all workers
    kept = os.environ.get("DPFRAME_TEST_CACHE")
    os.environ["DPFRAME_CACHE"] = kept or str(directory / "compiled")
    if "jax" in sys.modules:  # else no test needs it here; processes that they start may
        from dpframe.sampling.compile_cache import keep_compiled_programs

        keep_compiled_programs()


@functools.cache
def _whole_audits(confidence: float) -> Any:
    from dpframe.calibration import rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "AUDITS", 100)
        return rows.together_rows(confidence, seed=0)


@pytest.fixture(scope="module")
def whole_audits_once() -> Iterator[None]:
    """For tests of all else that `dpframe calibrate` does; tests/calibration has those of this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dpframe.commands.calibrate.together_rows",
            lambda confidence, seed: _whole_audits(confidence),
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_job_of_others() -> None:
    """Runs in tests tell the service that the tests run on nothing."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """A worker process may take a moment to end, and no longer."""
    yield
    for child in multiprocessing.active_children():
        child.join(timeout=20)
        if child.is_alive():
            child.kill()
            pytest.fail(f"the test left {child.name} behind")
