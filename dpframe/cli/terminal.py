"""Where text goes to the terminal, and the only place: nothing in it can do more than be read.

Labels, keys, file names and what plugins say may hold anything. Other modules of the command line
neither print nor write.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from dpframe.cli.output import results
from dpframe.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

_KEPT = "\n\t"
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def say(text: str, *, stderr: bool = False) -> None:
    """Prints lines of text, to standard output or to standard error."""
    stream = sys.stderr if stderr else results()
    encoding = stream.encoding or "utf-8"
    shown = printable(text, _KEPT).encode(encoding, "backslashreplace").decode(encoding)
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
    """Where a command prints tables and colours."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, *args: Any, **kwargs: Any) -> Any:
            # What rich itself tells the terminal comes later, or is marked as control.
            for segment in super().render(*args, **kwargs):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(printable(segment.text, _KEPT), segment.style)

        def on_broken_pipe(self) -> None:  # rich would exit with code 1, which means "violated"
            raise BrokenPipeError

    return Terminal(file=None if stderr else results(), stderr=stderr, highlight=False)
