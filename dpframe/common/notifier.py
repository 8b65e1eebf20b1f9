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
LONGEST = 10_000  # characters of a variable


@contextlib.contextmanager
def notified(command: str | None, warn: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Run a command at the end of a block, unless a signal interrupts the block.

    The block fills the dictionary that it gets. The command has it as JSON on standard input, and
    each entry as a variable such as `DPFRAME_EXIT_CODE`. The exit code comes from the exception
    that ends the block: its `exit_code`, 2 after a mistake of the user, else 70.

    Args:
        command: split as by a shell, but not run by one, so texts of a run are data alone. None or
            an empty one runs nothing.
        warn: prints why the command failed, which changes nothing else.
    """
    outcome: dict[str, Any] = {"exit_code": 0}
    try:
        yield outcome
    except Exception as error:
        code = 2 if isinstance(error, DpframeError) else 70
        outcome["exit_code"] = getattr(error, "exit_code", code)
        outcome["error"] = "" if hasattr(error, "exit_code") else str(error)
        raise
    finally:
        if not isinstance(sys.exception(), KeyboardInterrupt | SystemExit) and command:
            _run(command, outcome, warn)


def _run(command: str, outcome: dict[str, Any], warn: Callable[[str], None]) -> None:
    variables = {}
    for name, value in outcome.items():
        text = value if isinstance(value, str) else json.dumps(value)
        variables[f"DPFRAME_{name.upper()}"] = text.replace("\0", "")[:LONGEST]
    try:
        # Standard output belongs to the run: `--json` prints nothing else there.
        done = subprocess.run(
            shlex.split(command),
            input=json.dumps(outcome).encode(),
            stdout=2,
            env={**os.environ, **variables},
            timeout=SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        warn(f"--notify {command}: {error}")
    else:
        if done.returncode:
            warn(f"--notify {command}: exit code {done.returncode}")
