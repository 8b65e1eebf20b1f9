"""Changes that a box leaves in its process are noticed, and nothing else is."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from support import ROOT
from support.process_changes import CHANGES

from dpframe.workers.program.process_state import surroundings


@pytest.fixture(scope="module")
def noticed() -> Any:
    command = [sys.executable, "-m", "support.process_changes"]
    done = subprocess.run(
        command,
        cwd=ROOT / "tests",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(noticed: Any, name: str) -> None:
    assert noticed[name] == [[], [name.removeprefix("deleted: ")], []]


def test_every_part_is_tried() -> None:
    """The locale and tracing belong to whoever runs the tests."""
    assert set(surroundings()) - set(CHANGES) == {"the locale", "tracing"}
