"""Output of a box is printed once for it, from however many processes and releases."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

from dpframe import HostMechanism, PureDP
from dpframe.draw.pool import Workers
from dpframe.draw.process import LONGEST_LINE, MOST_MESSAGES, WorkerStderr, split_messages
from dpframe.draw.requests import BlackBoxPayload, Request
from dpframe.draw.streams import EVAL, Asking, Stream


class Chatty(HostMechanism, name="chatty"):
    """Warns with every release, as some libraries do, and says when it began."""

    level: float

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def prepare(self, data: Any) -> Any:
        sys.stdout.write(f"prepared at level {self.level}\n")
        return data

    def release(self, rng: np.random.Generator, data: Any) -> float:
        warnings.simplefilter("always")
        warnings.warn("nobody should rely on this", stacklevel=1)
        return float(rng.laplace())


@pytest.mark.slow
def test_each_thing_is_printed_once_for_each_mechanism(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Workers(2) as workers:
        for level in (1.0, 2.0):
            for first in (0.0, 5.0)[: 3 - int(level)]:  # two pairs of one search, and another one
                load = BlackBoxPayload((Chatty(level=level),), (np.array([first]), np.ones(1)))
                with workers.lend(load, 2) as lent:
                    assert len(lent) == 2
                    for worker in lent:
                        where = (Stream(0, "g", 0, EVAL), 0, 0, 4, 8)
                        request = Request(0, 0, *where, Asking(True, False, False, None))
                        assert len(worker.outputs(request, None)) == 32
    said = capsys.readouterr().err
    # Output that is read late counts for the next mechanism; without any care there are 192 and 4.
    assert 1 <= said.count("UserWarning: nobody should rely on this") <= 2
    assert said.count("warnings.warn(") == said.count("UserWarning")  # its source, below it
    assert 1 <= said.count("prepared at level 1.0\n") <= 2
    assert said.count("prepared at level 2.0\n") == 1


def test_a_thing_is_a_line_with_what_is_indented_below_it() -> None:
    said = b"a.py:1: W: x\n  x()\nTraceback\n  File\n    y()\nValueError\nhalf"
    found, rest = split_messages(said)
    assert found == [b"a.py:1: W: x\n  x()\n", b"Traceback\n  File\n    y()\n", b"ValueError\n"]
    assert rest == b"half"
    assert split_messages(b"x" * (LONGEST_LINE + 1)) == ([b"x" * (LONGEST_LINE + 1) + b"\n"], b"")
    assert split_messages(b"  orphan\n") == ([b"  orphan\n"], b"")


def test_nothing_is_lost_when_too_much_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    messages = WorkerStderr()
    for number in range(MOST_MESSAGES + 1):
        messages.print_once("", b"%d\n" % number)
    for _ in range(2):
        messages.print_once("", b"late\n")
        messages.print_once("", b"0\n")
    said = capsys.readouterr().err.split()
    assert said.count("late") == 2
    assert said.count("0") == 1
    assert len(said) == MOST_MESSAGES + 3
