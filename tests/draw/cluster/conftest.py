"""Processes of Dask that the tests of a cluster share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from support.dask_processes import Processes


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    started = Processes(tmp_path_factory.mktemp("dask"), workers=2)
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
