"""Fail if a test is skipped, but for the operating system or the user: `pytest -p no_skips`.

A test that needs a library which nobody installs runs nowhere. So `.ci/run extras` installs every
extra and every plugin, and this plugin of pytest names what was skipped all the same.
"""

from __future__ import annotations

from typing import Any

import pytest

ELSEWHERE = (
    "root may read everything",
    "they are read from /proc",
    "Linux alone keeps the limit",
    "elsewhere nobody adopts them",
    "elsewhere nothing tells a child",
    "a system without pipes",
    "a system without owners",
    "this system does not list child processes",
    "pg_ctl is not installed",
    "a server refuses to run as root",
    "node is not installed",
)
"""Reasons that are about the operating system, its programs or the user."""

SKIPPED: list[str] = []


def _note(report: Any) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(ELSEWHERE):
        SKIPPED.append(f"{report.nodeid}: {reason}")


def pytest_runtest_logreport(report: Any) -> None:
    """Note a skipped test; with pytest-xdist this runs in the controller."""
    _note(report)


def pytest_collectreport(report: Any) -> None:
    """Note a skipped module."""
    _note(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail if something was skipped."""
    if SKIPPED and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what was skipped."""
    for line in SKIPPED:
        terminalreporter.write_line(f"skipped, and must not be: {line}")
