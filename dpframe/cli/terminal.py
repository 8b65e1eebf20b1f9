"""Standard output and the terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

import typer

from dpframe.common.text import escape
from dpframe.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


class _Stream(io.TextIOWrapper):
    """A standard stream.

    A failure to write to standard output raises OutputError, because the call is at fault; a
    failure to write to standard error is ignored.
    """

    is_output = True

    def write(self, text: str) -> int:
        with self._guarded():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._guarded():
            super().flush()

    def close(self) -> None:
        with self._guarded():
            super().close()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.is_output:
                return
            if isinstance(error, BrokenPipeError):  # the reader left
                raise
            why = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise OutputError(f"cannot write to standard output: {why}") from None


def open_streams() -> None:
    """Open the standard streams of this process, before any file or pipe takes their numbers.

    A closed stream gets the null device; for standard output it is opened read-only, so that writes
    fail.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        _open(number, mode)
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)


def _open(number: int, mode: int) -> None:
    """Point a closed descriptor to the null device, so that no file gets its number."""
    try:
        os.fstat(number)
    except OSError:
        if (opened := os.open(os.devnull, mode)) != number:
            os.dup2(opened, number)
            os.close(opened)


def _stream(number: int, like: TextIO | None) -> TextIO:
    """Open a stream with the encoding of another one, or in UTF-8 if that is closed."""
    lines = number == 2 or os.isatty(number)
    encoding = (like and like.encoding) or "utf-8"
    errors = (like and like.errors) or "backslashreplace"
    raw = open(number, "wb", closefd=number > 2)  # noqa: SIM115
    stream = _Stream(raw, encoding=encoding, errors=errors, line_buffering=lines)
    stream.is_output = number != 2
    return stream


def give_up_output() -> None:
    """Point standard output to the null device, so that Python does not flush it again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


_results: list[TextIO] = []


def results() -> TextIO:
    """Return the stream for the results of a command."""
    return _results[-1] if _results else sys.stdout


@contextlib.contextmanager
def set_apart() -> Iterator[None]:
    """Send all prints but our results to standard error, from Python, C and child processes.

    A record on standard output must stay valid JSON even if plugins print.
    """
    _open(2, os.O_WRONLY)
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
    """Yield a stream to the same file; meanwhile the old descriptor points to standard error."""
    try:
        number = stream.fileno()
        copy = os.dup(number)
    except (OSError, ValueError):  # a test keeps output in memory
        yield stream
        return
    ours = _stream(copy, stream)
    with _diverted(number):
        try:
            yield ours
        except typer.Exit:
            ours.close()
            raise
        except BaseException:
            with contextlib.suppress(OSError, OutputError):  # the command reports its own error
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


# Only these functions write to the terminal. They escape control characters, which labels, keys,
# file names and messages of plugins may contain.


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


def print_json(value: Any) -> None:
    """Print a record, or plain values, as strict JSON; unprintable characters become escapes."""
    from dpframe.results.store import dumps

    encoding = results().encoding or "utf-8"

    def escaped(match: re.Match[str]) -> str:
        char = match.group()
        encodable = char.isprintable() and char.encode(encoding, "ignore")
        return char if encodable else json.dumps(char)[1:-1]

    results().write(_BEYOND_ASCII.sub(escaped, dumps(value)))


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables and colours."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, *args: Any, **kwargs: Any) -> Any:
            # Rich adds its own control codes later, or marks them as control.
            for segment in super().render(*args, **kwargs):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(escape(segment.text, _KEPT), segment.style)

        def on_broken_pipe(self) -> None:  # rich would exit with code 1, which means "violated"
            raise BrokenPipeError

    return Terminal(file=None if stderr else results(), stderr=stderr, highlight=False)
