"""The command line in the process of the tests: a real one costs a second or two each."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from dpframe.cli import app
from dpframe.cli.app import _work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def dpframe(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `dpframe WORDS` in a directory, in a terminal of 80 columns."""
    arguments = [*map(str, words)]
    with contextlib.chdir(cwd), _own_signals():
        done = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def worked(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same, of the whole program but for its supervisor: a wrong call has its own message."""
    arguments = [*map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        pytest.MonkeyPatch.context() as patch,
        _own_signals(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setenv("COLUMNS", "80")
        code = _work(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


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
