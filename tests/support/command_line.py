"""The command line in the process of the tests: a real one costs a second or two each."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from dpframe.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def dpframe(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What `dpframe WORDS` does in a directory, in a terminal of 80 columns."""
    arguments = [*map(str, words)]
    with contextlib.chdir(cwd), _own_signals():
        done = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Puts back what a command that takes long does to the process."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before, hook = [signal.getsignal(number) for number in numbers], sys.unraisablehook
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        sys.unraisablehook = hook
