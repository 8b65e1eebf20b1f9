"""Processes of Dask that the tests of a cluster share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from support.dask_processes import Processes


@pytest.fixture(scope="package")
def processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    workers = 1 if request.config.option.markexpr == "not slow" else 2  # each imports for itself
    started = Processes(tmp_path_factory.mktemp("dask"), workers)
    yield started
    started.end()


@pytest.fixture(autouse=True)
def _no_rubbish_for_other_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "processes" not in request.fixturenames:  # nothing was connected; collecting takes a while
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
