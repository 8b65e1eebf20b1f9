"""Build environments, audit new versions, and store the results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from dpframe import DpframeError, load, report
from dpframe.plugins import bound_to_parent
from dpframe_watch.disclosure import reproduction, violated, without_paths
from dpframe_watch.registry import LATEST, AuditTask, LibraryRegistry, toml

GRACE_SECONDS = 10.0  # seconds between asking a process to end and ending it
LONGEST_REASON = 400  # characters of a reason
NO_REASON = "no reason given"
INTERRUPTED = (130, 143)  # exit codes of dpframe after Ctrl-C and SIGTERM


class Done(NamedTuple):
    """The result of a finished dpframe command."""

    code: int
    errors: str  # what it wrote to standard error
    timed_out: bool = False


def call(words: list[str], folder: Path, seconds: float | None = None) -> Done:
    """Run a command of dpframe in a process of its own, because it may crash or hang.

    Raises:
        KeyboardInterrupt: a signal ended the command, so it has no result yet.
    """
    process = subprocess.Popen(
        # If this process is killed, dpframe ends too, to free the directory for a later run.
        bound_to_parent([sys.executable, "-m", "dpframe", *words]),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    try:
        errors = process.communicate(timeout=seconds)[1]
        if process.returncode in INTERRUPTED:
            raise KeyboardInterrupt
        return Done(process.returncode, errors)
    except subprocess.TimeoutExpired:
        return Done(-1, "", timed_out=True)
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
            process.kill()
            process.communicate()


class Result(NamedTuple):
    """A record and its task."""

    key: str
    task: AuditTask
    date: str


class WatchState:
    """The results of all audits so far, in a directory.

    `state.json` lists them by key, in the order of their audits. A key hashes the question, the
    environment and dpframe's version, so an audit is repeated only if one of them has changed.

    Args:
        folder: the directory; created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "state.json"
        folder.mkdir(parents=True, exist_ok=True)
        self._results, self._problems = self._read()

    def _read(self) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
        content: dict[str, Any] = {"schema": 1, "results": {}, "problems": {}}
        with contextlib.suppress(FileNotFoundError):
            try:
                content = json.loads(self.file.read_text(encoding="utf-8"))
            except ValueError:
                raise DpframeError(f"{self.file}: not JSON; restore it, or start again") from None
        if not isinstance(content, dict) or content.get("schema") != 1:
            raise DpframeError(f"{self.file}: not a state that this version can read")
        return content["results"], content["problems"]

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the directory; raise DpframeError if another process holds the lock."""
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise DpframeError(f"{self.folder}: another process is using it") from None
        try:
            self._results, self._problems = self._read()  # another process may have changed them
            yield
        finally:
            lock.release()

    @property
    def results(self) -> list[Result]:
        """All results, the oldest first."""
        return [
            Result(key, AuditTask(one["library"], one["version"], one["adapter"]), one["date"])
            for key, one in self._results.items()
        ]

    @property
    def problems(self) -> dict[AuditTask, dict[str, str]]:
        """Date and reason of each task whose last attempt failed."""
        return {AuditTask(*place.split("/")): one for place, one in self._problems.items()}

    def record_of(self, key: str) -> Path:
        """Return the directory of a record."""
        return self.folder / "records" / key

    def knows(self, key: str) -> bool:
        """True if there is a result of this question."""
        return key in self._results and (self.record_of(key) / "record.json").is_file()

    def keep(self, key: str, task: AuditTask) -> None:
        """Add a result, and forget the problem of its task."""
        self._problems.pop(task.place, None)
        self._results[key] = {**task._asdict(), "date": today()}
        self._save()

    def fail(self, task: AuditTask, reason: str, key: str = "") -> None:
        """Store why a task failed; a repeated reason keeps its date."""
        before = self._problems.get(task.place, {})
        if (before.get("reason"), before.get("key")) != (reason, key):
            self._problems[task.place] = {"date": today(), "reason": reason, "key": key}
            self._save()

    def forget(self, tasks: list[AuditTask]) -> None:
        """Forget the problems of tasks."""
        for task in tasks:
            del self._problems[task.place]
        self._save()

    def _save(self) -> None:
        content = {"schema": 1, "results": self._results, "problems": self._problems}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        new.replace(self.file)


def today() -> str:
    """Return the date in UTC; SOURCE_DATE_EPOCH overrides it, for reproducible builds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(given), UTC) if given else datetime.now(UTC)
    return now.date().isoformat()


class Watch:
    """The audits of a registry.

    Args:
        registry: the registry.
        state: the earlier results.
        notify: receives progress messages.
        retry: True to repeat failed audits even if nothing has changed.
        allow_source: True if packages may be built from source, which runs their code.
    """

    def __init__(
        self,
        registry: LibraryRegistry,
        state: WatchState,
        notify: Callable[[str], None],
        *,
        retry: bool = False,
        allow_source: bool = False,
    ) -> None:
        self.registry, self.state, self.notify = registry, state, notify
        self.retry, self.source = retry, ["--allow-source"] * allow_source
        self.seen: list[AuditTask] = []

    def run(self) -> None:
        """Run the missing audits; a failure affects only its own rows."""
        for library, table in self.registry.content.libraries.items():
            for version in table.versions:
                try:
                    self._version(library, version)
                except (OSError, DpframeError) as error:
                    self._fail([*self.registry.tasks(library, version)], str(error))
        self.state.forget([*self.state.problems.keys() - {*self.seen}])
        wanted = {one["key"] for one in self.state.problems.values()}
        for work in (self.state.folder / "work").glob("*"):
            if work.name not in wanted:
                shutil.rmtree(work, ignore_errors=True)

    def _version(self, library: str, version: str) -> None:
        tasks = [*self.registry.tasks(library, version)]
        place = _EnvironmentSpec(self.state.folder / "environments" / library / version)
        place.describe(f"{library} {version}", self.registry.environment(library, version))
        if version == LATEST:
            place.clear()
        elif (lock := place.lock) and all(self._is_known(task, lock) for task in tasks):
            self.seen += tasks
            return
        done = call(["environments", "build", place.file.name, *self.source], place.folder)
        lock = place.lock
        if done.code or lock is None:
            self._fail(tasks, done.errors)
            return
        if version == LATEST:
            actual = _version_in(lock, library)
            tasks = [task._replace(version=actual) for task in tasks]
        self.seen += tasks
        for task in tasks:
            if not self._is_known(task, lock):
                self._audit(task, self._key(task, lock), place)

    def _key(self, task: AuditTask, lock: str) -> str:
        whole = [task.library, task.adapter, self.registry.question(task), lock]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:24]

    def _is_known(self, task: AuditTask, lock: str) -> bool:
        key = self._key(task, lock)
        has_failed = self.state.problems.get(task, {}).get("key") == key
        return self.state.knows(key) or (has_failed and not self.retry)

    def _audit(self, task: AuditTask, key: str, place: _EnvironmentSpec) -> None:
        """Audit a task in its environment; continue an interrupted audit from its counts."""
        adapter = self.registry.adapter(task)
        assert adapter is not None
        self.notify(f"{task.library} {task.version}, {task.adapter}: audit")
        work = self.state.folder.resolve() / "work" / key
        finished = self.state.record_of(key)
        if not (finished / "record.json").is_file():
            sources = work / "sources"
            for one in adapter.sources:
                (sources / one).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.registry.folder / one, sources / one)
            if adapter.module is not None:
                (sources / "adapter.toml").write_text(self.registry.spec(task), encoding="utf-8")
            changes = {
                f"environments.{place.name}": place.table,
                "mechanism.environment": place.name,
                "audit.confidence": self.registry.content.confidence,
                # Another question has other draws, so records are independent of each other.
                "audit.seed": int(key[:7], 16),
            }
            words = ["run", adapter.spec or "adapter.toml", "--quiet", "--out", str(work / "run")]
            for change, value in changes.items():
                words += ["--set", f"{change}={toml(value)}"]
            for file in [*adapter.plugins, *([adapter.module] if adapter.module else [])]:
                words += ["--plugin", file]
            done = call(words, sources, adapter.seconds)
            if problem := self._problem(done, work / "run", adapter.seconds):
                self._fail([task], problem, key)
                return
            self._finish(work, finished)
        self.state.keep(key, task)
        shutil.rmtree(work, ignore_errors=True)

    def _problem(self, done: Done, run: Path, seconds: float) -> str | None:
        """Return the reason why an audit has no result; None if it has one."""
        if done.timed_out:
            return f"the audit took longer than {seconds:g} s"
        try:
            record = load(run)
        except DpframeError:
            return done.errors or f"exit code {done.code}"
        failed = [cell.reason or NO_REASON for cell in record.cells if cell.status != "ok"]
        skipped = [skip.reason for skip in record.skipped]
        if len(failed) == len(record.cells):
            return [*failed, *skipped, "nothing was audited"][0]
        return None

    def _finish(self, work: Path, finished: Path) -> None:
        """Move record, page and witness to their final place, all at once."""
        new = work / "finished"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        shutil.copyfile(work / "run" / "record.json", new / "record.json")
        record = load(new)
        report(record, new / "report.html")
        for cell in violated(record)[:1]:
            text = reproduction(record, cell, [work / "sources"])
            (new / "witness.py").write_text(text, encoding="utf-8")
        finished.parent.mkdir(exist_ok=True)
        shutil.rmtree(finished, ignore_errors=True)
        new.rename(finished)

    def _fail(self, tasks: list[AuditTask], reason: str, key: str = "") -> None:
        self.seen += tasks
        reason = reason[
            max(0, reason.find("environment '")) :
        ]  # the lines before are progress messages
        lines = [line for line in reason.splitlines() if not line.strip().startswith("WARNING")]
        reason = textwrap.shorten(" ".join(lines), LONGEST_REASON, placeholder="…") or NO_REASON
        reason = "".join(c if c.isprintable() else " " for c in without_paths(reason))
        for task in tasks:
            self.notify(f"{task.library} {task.version}, {task.adapter}: {reason}")
            self.state.fail(task, reason, key)


class _EnvironmentSpec:
    """The description of an environment in a directory, with its lock beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "environment.toml"
        self.name, self.table = "", dict[str, Any]()

    def describe(self, name: str, table: dict[str, Any]) -> None:
        """Write the description; a changed one removes the lock and the environment."""
        self.name, self.table = name, table
        text = f"schema = 1\n\n[environments]\n{toml(name)} = {toml(table)}\n"
        if not self.file.is_file() or self.file.read_text(encoding="utf-8") != text:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            self.file.write_text(text, encoding="utf-8")

    def clear(self) -> None:
        """Remove the environment and its lock, so that the next one has newer versions."""
        for lock in self.folder.glob("*.lock"):
            lock.unlink()
        call(["environments", "remove", self.name], self.folder)

    @property
    def lock(self) -> str | None:
        """Installed packages: the version of Python, then names and versions; None if not built."""
        for lock in self.folder.glob("*.lock"):
            lines = lock.read_text(encoding="utf-8").splitlines()
            described = ("# environment:", "# requirements:")
            return "\n".join(line for line in lines if not line.startswith(described))
        return None


def _version_in(lock: str, library: str) -> str:
    """Return the version of a library that a lock lists."""

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    for line in lock.splitlines():
        name, equals, version = line.partition("==")
        if equals and plain(name) == plain(library):
            return version
    raise DpframeError(f"{LATEST}: {library} is not among the installed packages")
