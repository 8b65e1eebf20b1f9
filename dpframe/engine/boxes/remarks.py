"""What black boxes print: each thing once for every mechanism, not once for every process.

A library that warns does so in each worker, and some warn with every release. A thing is a line
with the indented lines that follow it, as warnings have their source and tracebacks their frames.
"""

from __future__ import annotations

import contextlib
import sys
import threading

MOST = 1 << 16
"""Things that are remembered; what comes then is printed as often as it comes."""

LONGEST = 1 << 16
"""Bytes after which a line counts as ended."""


class Remarks:
    """Prints what it has not printed for a mechanism yet, to standard error."""

    def __init__(self) -> None:
        self._known: set[tuple[str, bytes]] = set()
        self._lock = threading.Lock()

    def take(self, topic: str, said: bytes) -> None:
        """Takes one thing in.

        Args:
            topic: whose it is.
            said: lines, or the part of one that is not ended.
        """
        with self._lock:
            if (topic, said) in self._known:
                return
            if len(self._known) < MOST:
                self._known.add((topic, said))
            with contextlib.suppress(Exception):  # standard error may be closed, or somebody's own
                sys.stderr.write(said.decode(errors="replace"))
                sys.stderr.flush()


def things(said: bytes) -> tuple[list[bytes], bytes]:
    """The things in what a process has written, and the line that is not ended yet."""
    *lines, rest = said.split(b"\n")
    if len(rest) > LONGEST:
        lines, rest = [*lines, rest], b""
    found: list[bytes] = []
    for line in lines:
        if found and line[:1] in (b" ", b"\t"):
            found[-1] += line + b"\n"
        else:
            found.append(line + b"\n")
    return found, rest
