"""Split slow tests into fifths: `.ci/run` runs one of them, by the date of the commit.

This is a plugin of pytest. The tests of dpframe load it themselves; any other suite loads it with
`-p fifths` and this folder in PYTHONPATH. `pytest -m slow --fifth 3` then runs only those slow
tests whose fifth is 3, and says how many of how many they are.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

FIFTHS = 5
NO_TEST_RAN = pytest.ExitCode.NO_TESTS_COLLECTED
COUNTS = pytest.StashKey[tuple[int, int]]()
"""Number of tests that run, and the number without `--fifth`."""


SALT = "1723 "
"""Stands in front of all names. With this one, each fifth takes about the same time."""


def fifth_of(name: str) -> int:
    """Return the fifth of a test: a number from 0 to 4 that depends on the name alone.

    Tests of a file with equal parameters share a fifth, because they often share a fixture, such as
    the audit of a spec, which takes longer than the tests.
    """
    file, _, test = name.partition("::")
    parameters = test.partition("[")[2]
    shared = f"{SALT}{file}[{parameters}" if parameters else f"{SALT}{name}"
    return zlib.crc32(shared.encode()) % FIFTHS


def split(items: Sequence[pytest.Item], fifth: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split tests into those of a fifth and the others, each in the order given."""
    chosen = [item for item in items if fifth_of(item.nodeid) == fifth]
    return chosen, [item for item in items if fifth_of(item.nodeid) != fifth]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fifth`."""
    parser.getgroup("dpframe").addoption(
        "--fifth",
        type=int,
        choices=range(FIFTHS),
        help="run only a fifth of the tests: those whose node id has this remainder",
    )


@pytest.hookimpl(trylast=True)  # after -m and -k, so that the count is that of the slow tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the other fifths."""
    fifth = config.getoption("fifth")
    if fifth is None:
        return
    chosen, others = split(items, fifth)
    config.stash[COUNTS] = (len(chosen), len(items))
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist; only its controller prints
        config.workeroutput["fifth"] = config.stash[COUNTS]
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the counts of a process of pytest-xdist; each of them collects all tests."""
    if "fifth" in getattr(node, "workeroutput", {}):
        node.config.stash[COUNTS] = tuple(node.workeroutput["fifth"])


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Pass if a suite has tests, but none in this fifth."""
    _, total = session.config.stash.get(COUNTS, (0, 0))
    if exitstatus == NO_TEST_RAN and total:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which fifth ran, and how many tests of how many."""
    if COUNTS in config.stash:
        count, total = config.stash[COUNTS]
        terminalreporter.write_line(
            f"fifth {config.getoption('fifth')} (of 0 to {FIFTHS - 1}): {count} of {total} tests"
        )
