"""Fixtures that all tests share."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import multiprocessing
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

# The same examples on every machine and every day; a search is for whoever looks for one.
settings.register_profile("fixed", max_examples=30, derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


DONT_WRITE_BYTECODE = sys.dont_write_bytecode
sys.dont_write_bytecode = (
    False  # until all tests are collected: rewriting their asserts takes longer
)

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all files that need processes of Dask to the same worker: each would start its own."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            folder = "tests/draw/cluster/"
            return folder if nodeid.startswith(folder) else str(super()._split_scope(nodeid))

    return Files(config, log)


def pytest_collection_finish() -> None:
    """Write bytecode again as the interpreter was told to."""
    sys.dont_write_bytecode = DONT_WRITE_BYTECODE


QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if importlib.metadata.version("jaxlib").startswith("0.10."):  # later ones end on an unknown flag
    QUICK_TO_COMPILE += " --xla_cpu_use_fusion_emitters=false"
"""Most programs of the default run are used for some thousand draws, and compiling takes longer."""


MOST_KEPT = 1 << 30
"""Bytes of compiled programs; when there are more, the next run starts without any."""


def pytest_configure(config: pytest.Config) -> None:
    """Set what is read before the first program is compiled; processes of tests inherit it.

    Programs are compiled without LLVM's optimizations, except for slow tests: these run what users
    run. They are kept for other processes and for the next run, because compiling is half of the
    tests' time: what a test defines anew is a new program to JAX, even if it is the same to XLA.
    The directory is that of pytest's own cache, unless DPFRAME_TEST_CACHE names another one.
    """
    # No gc.freeze(): the lowest hypothesis looks for referrers, and finds none that are frozen.
    gc.set_threshold(100_000, 20, 20)  # jaxlib adds work to each collection
    os.environ.setdefault("DPFRAME_NO_PLUGINS", "1")  # other installed packages decide no test
    if config.option.markexpr == "not slow" and "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = QUICK_TO_COMPILE
    if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker inherits the directory
        kept = os.environ.get("DPFRAME_TEST_CACHE")
        os.environ["DPFRAME_CACHE"] = kept or _cache_directory(config)


@pytest.hookimpl(trylast=True)  # after the fixtures of the session
def pytest_sessionfinish() -> None:
    """Collect garbage once; pytest and the interpreter do so several times before they end."""
    gc.collect()
    gc.freeze()


def _cache_directory(config: pytest.Config) -> str:
    if not hasattr(config, "cache"):  # -p no:cacheprovider
        found = tempfile.mkdtemp()
        config.add_cleanup(functools.partial(shutil.rmtree, found, ignore_errors=True))
        return found
    directory: Path = config.cache.mkdir("compiled")
    directory.chmod(0o700)  # programs of a directory that others can write to are not run
    if sum(file.stat().st_size for file in directory.iterdir()) > MOST_KEPT:
        shutil.rmtree(directory)
    return str(directory)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _one_compile_cache() -> None:
    """Keep compiled programs in this process, too, if its tests need JAX."""
    if "jax" in sys.modules:
        from dpframe.draw.compile_cache import keep_compiled_programs

        keep_compiled_programs()


SMALL_CHUNKS = 1 << 12
"""Output coordinates per chunk. Before an audit counts, it draws and scores some thirty chunks to
check the plugins, which takes most of the time of an audit of some thousand draws."""


@pytest.fixture(scope="session", autouse=True)
def _small_chunks(pytestconfig: pytest.Config) -> Iterator[None]:
    """Draw smaller chunks by default, except in slow tests: these draw what users draw."""
    if pytestconfig.option.markexpr != "not slow" or "jax" not in sys.modules:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpframe.draw.streams.CHUNK_ELEMENTS", SMALL_CHUNKS)
        yield


@pytest.fixture(scope="module")
def usual_chunks() -> Iterator[None]:
    """For tests of draws that were made with chunks of the usual size, or elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpframe.draw.streams.CHUNK_ELEMENTS", 1 << 16)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_command_line() -> Iterator[None]:
    """Build the commands of an app once, and not for each call."""
    if "typer" not in sys.modules:
        yield
        return
    import typer.main
    import typer.testing

    build = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", build)
        patch.setattr(typer.testing, "_get_command", build)
        yield


def _coarse_bounds() -> Iterator[None]:
    """Certify what bets show on grids of a few points: the fine ones take most of their time.

    For tests of what is drawn, asked, kept and stopped. Bets and p-values stay as they are.
    """
    from dpframe.stats import output_bounds

    coarse = {"COARSE": output_bounds.COARSE[::8], "FINE": 4, "POINTS": 3, "HALVINGS": 8}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in coarse.items():
            patch.setattr(output_bounds, name, value)
        yield


coarse_bounds = pytest.fixture(_coarse_bounds)
coarse_bounds_of_module = pytest.fixture(scope="module")(_coarse_bounds)


@pytest.fixture(scope="session", autouse=True)
def _whole_cores() -> Iterator[None]:
    """Count seconds of tests alike on a busy machine, where they would be stretched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpframe.draw.scheduling.core_share", lambda: 1.0)
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
