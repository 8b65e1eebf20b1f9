"""Programs are kept also where dpframe was checked out just before its tests."""

from __future__ import annotations

import time

import pytest

from dpframe.sampling import program_keys as ingredients


@pytest.fixture(autouse=True)
def long_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are taken for older than this process; tests of that say otherwise."""
    monkeypatch.setattr(ingredients, "BEGAN", time.time() + 2 * ingredients.SETTLED)
    ingredients._digest.cache_clear()  # other tests of this process may have asked before
    ingredients.forget()
