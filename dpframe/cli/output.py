"""Standard output is for what a command was asked for, and for nothing that a plugin prints."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_results: list[TextIO] = []


def results() -> TextIO:
    """Where a command prints what it was asked for."""
    return _results[-1] if _results else sys.stdout


@contextlib.contextmanager
def set_apart() -> Iterator[None]:
    """Sends to standard error whatever else is printed, from Python, from C or from a child.

    A record that is piped on must stay JSON, whatever the plugins do.
    """
    _open_standard_error()
    before = sys.stdout
    before.flush()
    with _own_copy(before) as ours:
        _results.append(ours)
        sys.stdout = sys.stderr
        try:
            yield
        finally:
            sys.stdout = before
            _results.pop()


@contextlib.contextmanager
def _own_copy(stream: TextIO) -> Iterator[TextIO]:
    """A stream to the same place, whose descriptor only we know; the old one leads elsewhere."""
    try:
        number = stream.fileno()
        copy = os.dup(number)
    except (OSError, ValueError):  # a test holds what is printed in memory
        yield stream
        return
    lines = 1 if stream.isatty() else -1
    ours: TextIO = open(  # noqa: SIM115, PTH123
        copy, "w", lines, encoding=stream.encoding, errors=stream.errors
    )
    with _diverted(number):
        try:
            yield ours
        except BaseException:
            with contextlib.suppress(OSError):  # the command has something else to say
                ours.close()
            raise
        ours.close()


@contextlib.contextmanager
def _diverted(number: int) -> Iterator[None]:
    kept = os.dup(number)
    os.dup2(2, number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def _open_standard_error() -> None:
    """Where it is closed, the next file that is opened would take its number and its prints."""
    try:
        os.fstat(2)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
