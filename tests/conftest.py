"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from support import ROOT

# The same examples on every machine and every day; a search is for whoever looks for one.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
