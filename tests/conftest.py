"""What all tests share."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The same examples on every machine and every day; a search is for whoever looks for one.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _one_compile_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Programs are compiled once for all processes that tests start; nothing is left of it."""
    os.environ["DPFRAME_CACHE"] = str(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """A worker process may take a moment to end, and no longer."""
    yield
    for child in multiprocessing.active_children():
        child.join(timeout=20)
        if child.is_alive():
            child.kill()
            pytest.fail(f"the test left {child.name} behind")
