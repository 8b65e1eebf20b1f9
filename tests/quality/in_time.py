"""Start no test after LAST_START, in seconds since 1970, and count those left out: `-p in_time`.

A slow machine would otherwise fail a step although none of its tests did. A test that hangs still
fails it, because only the limit of the step ends that test.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

REASON = "left out: no time"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would start too late."""
    if time.time() > float(os.environ.get("LAST_START", "inf")):
        pytest.skip(REASON)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests were left out."""
    skipped = terminalreporter.stats.get("skipped", [])
    late = sum(report.longrepr[2].endswith(REASON) for report in skipped)
    if late:
        terminalreporter.write_line(f"{late} tests {REASON}")
