"""The small package, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import scan_support
from dpframe_scan import trials
from dpframe_scan.trials import Interpreter


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has the packages `tinydp` and `rightdp`."""
    return scan_support.made(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call end because the machine is busy."""
    monkeypatch.setattr(trials, "CALL_SECONDS", 600.0)
    monkeypatch.setattr(trials, "IMPORT_SECONDS", 600.0)


@pytest.fixture(scope="session")
def interpreter(python: str) -> Iterator[Interpreter]:
    """A process of it, for `tinydp`."""
    with Interpreter(python, "tinydp") as running:
        yield running


@pytest.fixture(scope="session")
def right(python: str) -> Iterator[Interpreter]:
    """A process of it, for `rightdp`."""
    with Interpreter(python, "rightdp") as running:
        yield running
