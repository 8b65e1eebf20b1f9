"""A program that talks to a command: lines of JSON on its standard input and output.

Plain Python from 3.8 on, which a worker runs; see `command.Command`.
"""

from __future__ import annotations

import contextlib
import json
import math
import queue
import random
import re
import subprocess
import threading
from typing import Any

_LONGEST = 1 << 24  # characters of an answer
_SHOWN = 200  # characters of a line in a message


class CommandError(BaseException):
    """A command broke the protocol. It is no Exception, because it must never be an answer."""


def prepare(params: dict[str, Any], data: Any) -> Any:
    """Return a function that asks a command for one release."""
    return Conversation(params, json.dumps({"params": params["given"], "data": _plain(data)}))


class Conversation:
    """A command for one dataset. After a timeout it starts again."""

    def __init__(self, params: dict[str, Any], load: str) -> None:
        self._params, self._load = params, load
        self._process: Any = None
        self._lines: Any = None
        self._number = 0
        self._start()

    def __call__(self) -> Any:
        """Return one release."""
        try:
            if self._process is None:
                self._start()
            elif not self._lines.empty():
                if extra := self._lines.get():
                    raise self._problem(f"wrote a second line for one release: {_shown(extra)}")
                self._lines.put("")  # its end, which `_answer` reports
            self._number += 1
            self._write(json.dumps({"release": self._number, "seed": random.getrandbits(53)}))
            answer = self._answer()
        except BaseException:
            self.end()  # the answer of an interrupted release must not count as the next one
            raise
        if isinstance(answer, dict) and [*answer] == ["error"]:
            name, _, text = str(answer["error"]).partition(":")
            kind = name if re.fullmatch(r"[A-Za-z_]\w*", name) else "Error"
            raise type(kind, (Exception,), {})(text.strip() if kind == name else answer["error"])
        return answer

    def _answer(self) -> Any:
        try:
            line = self._lines.get(timeout=self._params["wait"])
        except queue.Empty:
            raise self._problem(
                f"did not answer within {self._params['wait']:g} s; it must write one line for "
                "each line that it reads, and flush its output after each"
            ) from None
        if not line:
            code = self._process.wait()
            end = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise self._problem(f"{end} instead of answering; it must read lines until the last")
        if not line.endswith("\n"):
            raise self._problem(f"wrote no whole line: {_shown(line)}")
        try:
            return json.loads(line)
        except ValueError:
            raise self._problem(
                f"wrote {_shown(line)}, which is not JSON; only answers go to its standard output, "
                "all else to standard error"
            ) from None

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._params["argv"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._params["folder"],
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise CommandError(f"{self._params['argv'][0]}: {error.strerror}") from None
        self._lines, self._number = queue.SimpleQueue(), 0
        threading.Thread(
            target=_read, args=(self._process.stdout, self._lines), daemon=True
        ).start()
        self._write(self._load)

    def _write(self, line: str) -> None:
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended, as its output will show

    def _problem(self, text: str) -> CommandError:
        return CommandError(f"release {self._number} of {self._params['argv'][0]}: it {text}")

    def end(self) -> None:
        """End the command."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            with contextlib.suppress(OSError):  # nobody reads what was still to be written
                process.stdin.close()

    __del__ = end


def _read(out: Any, lines: Any) -> None:
    with out:
        while line := out.readline(_LONGEST):
            lines.put(line)
    lines.put("")


def _shown(line: str) -> str:
    return repr(line[:_SHOWN] + "…" * (len(line) > _SHOWN))


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays as lists, NaN as null, infinities as texts."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        value = value.to_dict("records")  # a frame of pandas
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
