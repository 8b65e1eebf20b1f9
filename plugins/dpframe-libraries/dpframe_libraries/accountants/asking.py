"""Ask the accountants of other interpreters, each in a process that may crash or hang."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

from dpframe.plugins import DpframeError
from dpframe_libraries.accountants.questions import AccountantQuestion
from dpframe_libraries.accountants.truth import Interval
from dpframe_libraries.base import PROGRAMS

WORKER = PROGRAMS / "accountants" / "answer.py"
ADAPTERS = tuple(sorted(WORKER.parent.glob("of_*.py")))
LOADING = 300.0
"""Time limit for loading the libraries of an environment, in seconds."""


@dataclasses.dataclass(frozen=True)
class Accountant:
    """An accountant in an environment."""

    name: str
    environment: str
    claim: str
    """ "upper" or "lower": the side of the true ε that it promises."""
    statement: str
    """The neighbours and the sampling that its library documents."""
    version: str = ""

    def __str__(self) -> str:
        words = (self.name, self.version, self.environment and f"({self.environment})")
        return " ".join(filter(None, words))


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of an accountant: ε for each δ, or the reason why there are none."""

    epsilons: tuple[float, ...] = ()
    not_asked: str = ""
    failure: str = ""
    """An exception, a crash or a timeout."""


class AccountantProcess:
    """An interpreter with accountants, in a process that is restarted when it ends."""

    def __init__(
        self, name: str, python: Path, adapters: Sequence[Path] = ADAPTERS, seconds: float = 60.0
    ) -> None:
        self.name, self.python, self.seconds = name, python, seconds
        self.adapters = tuple(adapters)
        self.accountants: tuple[Accountant, ...] = ()
        self.missing: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None  # standard error of the process
        self._pending = b""

    def __enter__(self) -> Self:
        hello = self._start()
        self.missing = hello["missing"]
        self.accountants = tuple(
            Accountant(name, self.name, one["claim"], one["statement"], one["version"])
            for name, one in hello["accountants"].items()
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        self._last_words()

    def ask(self, accountant: Accountant, question: AccountantQuestion) -> Answer:
        """Return the answer of one accountant; a crash or a hang loses only this answer."""
        if self._process is None:
            self._start()
        try:
            reply = self._exchange(
                {"accountant": accountant.name, **question.message()}, self.seconds
            )
        except TimeoutError:
            self._stop()
            return Answer(failure=f"no answer within {self.seconds:g} seconds")
        except (OSError, ValueError):
            code = self._stop()
            return Answer(failure=f"its process ended with code {code}: {self._last_words()}")
        if "epsilons" not in reply:
            return Answer(
                not_asked=reply.get("not_asked", ""), failure=_one_line(reply.get("error", ""))
            )
        epsilons = tuple(map(float, reply["epsilons"]))
        if len(epsilons) != len(question.deltas):
            return Answer(failure=f"{len(epsilons)} answers to {len(question.deltas)} values of δ")
        return Answer(epsilons)

    def _start(self) -> dict[str, Any]:
        self._last_words()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115
        quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        command = [str(self.python), "-X", "utf8", str(WORKER), *map(str, self.adapters)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                env={**os.environ, **quiet, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise DpframeError(f"{self.name}: {self.python} cannot be started: {error}") from None
        try:
            return self._exchange(None, LOADING)
        except (TimeoutError, OSError, ValueError):
            self._stop()
            raise DpframeError(
                f"{self.name}: {self.python} did not answer: {self._last_words()}"
            ) from None

    def _exchange(self, message: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        """Send a message, if any, and return the next line; raise ValueError if none arrives."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        if message is not None:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    raise ValueError("the process ended")
                self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        reply = json.loads(line)
        if not isinstance(reply, dict):
            raise ValueError("a table is wanted")
        return reply

    def _stop(self) -> int | None:
        process, self._process, self._pending = self._process, None, b""
        if process is None:
            return None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.5)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, 9)
        return process.wait()

    def _last_words(self) -> str:
        """Return the last line of the process that ended."""
        words, self._words = self._words, None
        if words is None:
            return ""
        with words:
            words.seek(0)
            lines = words.read().decode(errors="replace").strip().splitlines()
        return _one_line(lines[-1]) if lines else "no message"


class ComparisonFile:
    """A file of answers and intervals, one per line, from which a killed comparison continues.

    Its first line is a digest of the code, the adapters and the time limit, because any of these
    may change the answers. An incomplete last line is ignored.
    """

    def __init__(self, file: Path, given: Sequence[Path], seconds: float) -> None:
        self.file = file
        self._answers: dict[tuple[str, str], dict[str, Any]] = {}
        self._truths: dict[str, list[list[Any]]] = {}
        sources = [*Path(__file__).parent.glob("*.py"), WORKER, *ADAPTERS, *given]
        digest = hashlib.sha256(f"{seconds}".encode())
        for source in sorted(sources):
            digest.update(source.read_bytes())
        head = json.dumps({"answers of": digest.hexdigest()})
        try:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            if text[: len(head)] != head[: len(text)]:
                raise DpframeError(f"--out {file}: something else wrote it, choose another file")
            whole = text[: text.rfind("\n") + 1] or f"{head}\n"
            if whole != text:
                file.write_text(whole, encoding="utf-8")
            for one in map(json.loads, whole.splitlines()[1:]):
                if "truths" in one:
                    self._truths[one["question"]] = one["truths"]
                else:
                    self._answers[one["accountant"], one["question"]] = one
        except (OSError, ValueError, KeyError) as error:
            raise DpframeError(f"--out {file} cannot be used: {error}") from None

    def truths(
        self, question: AccountantQuestion, find: Callable[[], tuple[Interval, ...]]
    ) -> tuple[Interval, ...]:
        """Return the intervals of a question; compute them unless they are stored."""
        from dpframe_libraries.accountants.truth import Interval

        name = json.dumps(question.message())
        if name not in self._truths:
            found = [[one.lower, one.upper, one.exact] for one in find()]
            self._put({"question": name, "truths": found})
            self._truths[name] = found
        return tuple(Interval(*one) for one in self._truths[name])

    def answer(self, accountant: Accountant, question: AccountantQuestion) -> Answer | None:
        """Return the stored answer of an accountant."""
        one = self._answers.get((str(accountant), json.dumps(question.message())))
        if one is None:
            return None
        return Answer(tuple(one["epsilons"]), one["not_asked"], one["failure"])

    def put(self, accountant: Accountant, question: AccountantQuestion, answer: Answer) -> None:
        """Store an answer."""
        name = json.dumps(question.message())
        own = {"accountant": str(accountant), "question": name}
        self._put(own | dataclasses.asdict(answer))

    def _put(self, line: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _one_line(text: str) -> str:
    plain = " ".join(text.split())[:300]
    return "".join(letter if letter.isprintable() else "?" for letter in plain)
