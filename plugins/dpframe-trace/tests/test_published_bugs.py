"""The trace names published bugs, and accuses none of their controls."""

from __future__ import annotations

import pytest
from dpframe_trace import trace
from trace_support.published_bugs import BUGS

NAMES = [bug.wrong.__name__ for bug in BUGS]


@pytest.mark.parametrize("bug", BUGS, ids=NAMES)
def test_a_published_bug_is_found_and_its_control_is_not_accused(bug):
    claim = {"epsilon": bug.epsilon, "delta": bug.delta}
    kinds = [finding.kind for finding in trace(bug.wrong, bug.d0, bug.d1, **claim).findings]
    assert bug.kind in kinds if bug.kind else not kinds
    assert trace(bug.right, bug.d0, bug.d1, **claim).findings == []


def test_twelve_of_thirteen_are_found():
    assert (len(BUGS), sum(bool(bug.kind) for bug in BUGS)) == (13, 12)
