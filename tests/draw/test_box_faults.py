"""Whatever a black box does, its own cells fail with the reason, and nobody else's."""

from __future__ import annotations

import functools
import os
import re
from typing import Any

import pytest
from support.black_boxes import BOXES, cells, record, spec
from support.faults_of_boxes import FAILED, FAULTS, FAULTY, LATER, NO_ANSWER

from dpframe.common.machine import descendants, running
from dpframe.draw.pool import Workers

TRIALS = 70

COMMON = ["prints", "reads standard input", "comes back twice"]
COMMON += [name for name, fault in FAULTS.items() if re.match("raise|return|change. its", name)]
COMMON += ["seeds the global generators", "recurses", "wants too much memory", "exits"]
"""Cost no process."""

DEAR = ["ends well"]
"""Costs some; every new one takes a second, so the others are left to the slow tests."""


HANGS = 6.0
"""Seconds that a box has; on a busy machine, one without a fault needs two."""


@functools.cache
def healthy() -> Any:
    """The counts of the box beside it, without any process."""
    (cell,) = cells(spec({"use": "box"}, trials=TRIALS, run={"chunk": 16}))
    return cell["counts"]


def check(names: list[str], *, later: bool = False, seconds: float = 60.0) -> None:
    """Audits faulty boxes between two that are not."""
    boxes = [
        {"use": FAULTY[name].name, "label": name, "params": {"later": later}} for name in names
    ]
    around = [{"use": "box", "label": place} for place in ("before", "after")]
    document = spec(
        around[0], *boxes, around[1], trials=TRIALS, run={"chunk": 16, "seconds": seconds}
    )
    already = set(descendants(os.getpid()))  # an earlier test's, such as multiprocessing's own
    with Workers(2) as workers:
        found = record(document, workers, [*BOXES, *map(FAULTY.__getitem__, names)])
    new = [one for one in descendants(os.getpid()) if one not in already]
    assert [one for one in new if running(one)] == []
    before, *own, after = found["cells"]
    for cell in (before, after):
        assert cell["status"] == "ok", cell["reason"]
        assert cell["counts"] == healthy()
    for name, cell in zip(names, own, strict=True):
        fault = FAULTS[name]
        assert cell["mechanism"]["label"] == name
        assert cell["status"] == ("failed" if fault.outcome == FAILED else "ok"), cell["reason"]
        if fault.outcome == FAILED:
            assert re.search(fault.says, cell["reason"]), cell["reason"]
            assert (cell["verdict"], "\n" in cell["reason"]) == (None, False)
        else:
            assert [sum(row) for row in cell["counts"]] == [TRIALS, TRIALS]
    assert found["summary"]["failed"] == sum(FAULTS[name].outcome == FAILED for name in names)


def test_faults_fail_their_own_cells() -> None:
    check([*COMMON[::4], "exits", "writes into every pipe"])


@pytest.mark.slow
def test_all_common_faults_fail_their_own_cells() -> None:
    check([*COMMON, *DEAR])


@pytest.mark.slow
def test_faults_that_come_later() -> None:
    check([name for name in LATER if name in COMMON], later=True)


@pytest.mark.slow
def test_what_hangs_has_had_its_time() -> None:
    check(["hangs and ignores signals"], seconds=HANGS)


@pytest.mark.slow
def test_faults_that_come_later_all_of_them() -> None:
    check([name for name in LATER if name not in NO_ANSWER], later=True)
    check(["hangs"], later=True, seconds=HANGS)


@pytest.mark.slow
def test_faults_that_cost_a_process_all_of_them() -> None:
    check([name for name in FAULTS if name not in {*COMMON, *NO_ANSWER}])


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_ANSWER)
def test_whatever_hangs_has_had_its_time(name: str) -> None:
    check([name], seconds=HANGS)
