"""Standard output and the terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from dpframe.common.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


# Standard output is for what a command was asked for, and for nothing that a plugin prints.


_results: list[TextIO] = []


def results() -> TextIO:
    """Return the stream for the results of a command."""
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
    """Open standard error if it is closed: the next file would take its number and its prints."""
    try:
        os.fstat(2)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


# Where text goes to the terminal, and the only place: nothing in it can do more than be read.
#
# Labels, keys, file names and what plugins say may hold anything. Other modules of the command
# line
# neither print nor write.


_KEPT = "\n\t"
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def say(text: str, *, stderr: bool = False) -> None:
    """Prints lines of text, to standard output or to standard error."""
    stream = sys.stderr if stderr else results()
    encoding = stream.encoding or "utf-8"
    shown = escape(text, _KEPT).encode(encoding, "backslashreplace").decode(encoding)
    stream.write(f"{shown}\n")


def complain(text: str) -> None:
    """Prints lines of text to standard error."""
    say(text, stderr=True)


def say_json(text: str) -> None:
    """Prints JSON to standard output; characters that are not to be shown become escapes."""
    encoding = results().encoding or "utf-8"

    def escaped(match: re.Match[str]) -> str:
        char = match.group()
        return char if char.isprintable() and _has(encoding, char) else json.dumps(char)[1:-1]

    results().write(_BEYOND_ASCII.sub(escaped, text).rstrip("\n") + "\n")


def _has(encoding: str, char: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables and colours."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, *args: Any, **kwargs: Any) -> Any:
            # What rich itself tells the terminal comes later, or is marked as control.
            for segment in super().render(*args, **kwargs):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(escape(segment.text, _KEPT), segment.style)

        def on_broken_pipe(self) -> None:  # rich would exit with code 1, which means "violated"
            raise BrokenPipeError

    return Terminal(file=None if stderr else results(), stderr=stderr, highlight=False)
