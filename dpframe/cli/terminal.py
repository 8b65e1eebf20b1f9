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


_results: list[TextIO] = []


def results() -> TextIO:
    """Return the stream for the results of a command."""
    return _results[-1] if _results else sys.stdout


@contextlib.contextmanager
def set_apart() -> Iterator[None]:
    """Send all other prints to standard error, from Python, from C or from a child.

    A record on standard output must stay JSON, even if plugins print.
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
    """Yield a stream to the same place; the old descriptor leads to standard error."""
    try:
        number = stream.fileno()
        copy = os.dup(number)
    except (OSError, ValueError):  # a test keeps output in memory
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
            with contextlib.suppress(OSError):  # the command reports its own error
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


# Only these functions write to the terminal. Labels, keys, file names and messages of plugins may
# hold control characters, which are escaped here.


_KEPT = "\n\t"
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def say(text: str, *, stderr: bool = False) -> None:
    """Print lines of text to standard output or to standard error."""
    stream = sys.stderr if stderr else results()
    encoding = stream.encoding or "utf-8"
    shown = escape(text, _KEPT).encode(encoding, "backslashreplace").decode(encoding)
    stream.write(f"{shown}\n")


def complain(text: str) -> None:
    """Print lines of text to standard error."""
    say(text, stderr=True)


def say_json(text: str) -> None:
    """Print JSON to standard output; unprintable characters become escapes."""
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
            # Control codes of rich itself come later, or are marked as control.
            for segment in super().render(*args, **kwargs):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(escape(segment.text, _KEPT), segment.style)

        def on_broken_pipe(self) -> None:  # rich would exit with code 1, which means "violated"
            raise BrokenPipeError

    return Terminal(file=None if stderr else results(), stderr=stderr, highlight=False)
