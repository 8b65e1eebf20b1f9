"""Run a command of the user when a run has ended."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from dpframe.errors import DpframeError

SECONDS = 60.0  # time limit of the command


@contextlib.contextmanager
def notified(command: str | None, warn: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Run a command at the end of a block, unless a signal interrupts the block.

    The block fills the dictionary that it gets. The command has it as JSON on standard input, and
    each entry as a variable such as `DPFRAME_EXIT_CODE`. The exit code comes from the exception
    that ends the block: its `exit_code`, 2 after a mistake of the user, else 70. The command is
    split as by a shell, but no shell runs it. If it fails, `warn` prints the reason.
    """
    outcome: dict[str, Any] = {"exit_code": 0}
    try:
        yield outcome
    except Exception as error:
        code = 2 if isinstance(error, DpframeError) else 70
        outcome["exit_code"] = getattr(error, "exit_code", code)
        if not hasattr(error, "exit_code"):
            outcome["error"] = str(error)
        raise
    finally:
        interrupted = isinstance(sys.exception(), KeyboardInterrupt | SystemExit)
        if command and command.strip() and not interrupted:
            _run(command, outcome, warn)


def _run(command: str, outcome: dict[str, Any], warn: Callable[[str], None]) -> None:
    variables = {}
    for name, value in outcome.items():
        text = value if isinstance(value, str) else json.dumps(value)
        variables[f"DPFRAME_{name.upper()}"] = text.replace("\0", "")
    given: dict[str, Any] = {"input": json.dumps(outcome).encode(), "env": os.environ | variables}
    try:
        # Standard output belongs to the run: `--json` prints nothing else there.
        subprocess.run(shlex.split(command), **given, stdout=2, timeout=SECONDS, check=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        warn(f"--notify {command}: {error}")
