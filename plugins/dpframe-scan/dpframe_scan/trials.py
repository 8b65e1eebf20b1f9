"""Trial calls in the interpreter of a package, and what follows from them.

No bound uses their answers: they only choose how a callable is called, or show that it cannot be.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpframe import DpframeError
from dpframe.plugins import bound_to_parent
from dpframe_scan.callables import Target, target_of
from dpframe_scan.guesses import domain, guesses
from dpframe_scan.proposals import Proposal, parameters_of, proposals
from dpframe_scan.repairs import repaired
from dpframe_scan.sources import source_of

PROGRAM = Path(__file__).parent / "programs" / "adapter.py"

IMPORT_SECONDS = 120.0  # of a package
OUTSIDE = 1_000_000  # a value that no domain of a few values has
CALL_SECONDS = 20.0  # of all calls of one proposal, on a machine that is not busy
MOST_BUSY = 10.0  # on a busy machine everything may take up to this multiple of its time
MOST_TRIALS = 40  # calls of one callable, repairs included
MOST_REPAIRS = 8  # of one proposal


def busyness() -> float:
    """Return how much longer than its processor time a process may take here, from 1.5."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 1.0
    return min(MOST_BUSY, max(1.5, 1.5 * load / (os.cpu_count() or 1)))


class Interpreter:
    """A process of another interpreter, which describes a package and makes trial calls.

    It is started again if it crashes, or if a call takes too long.

    Args:
        python: path of the interpreter.
        package: the package that is scanned.
    """

    def __init__(self, python: str, package: str) -> None:
        self.python, self.package = python, package
        self._folder = tempfile.TemporaryDirectory(prefix="dpframe-scan-")
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def targets(self) -> tuple[list[Target], list[str]]:
        """Return the public callables of the package, and what could not be imported.

        Raises:
            PackageImportError: the package cannot be imported.
        """
        reply = self._ask({"do": "describe", "package": self.package}, IMPORT_SECONDS)
        if isinstance(reply, dict):
            raise PackageImportError(reply["error"], reply.get("missing"))
        if reply is None:
            raise PackageImportError(
                f"importing {self.package} took over {IMPORT_SECONDS:g} s", None
            )
        failed = [f"{one['failed']}: {one['why']}" for one in reply if "failed" in one]
        return [target_of(one) for one in reply if "failed" not in one], failed

    def tried(self, proposal: Proposal) -> dict[str, Any]:
        """Make trial calls; see `tried` in the program."""
        asked = {"do": "try", "source": source_of(proposal), "cases": proposal.data.cases()}
        seconds = CALL_SECONDS * busyness()
        reply = self._ask(asked, seconds)
        if reply is None:
            return {
                "raised": "TimeoutError",
                "message": f"took over {seconds:.0f} s, or crashed",
            }
        if "error" in reply:
            kind, _, message = reply["error"].partition(": ")
            return {"raised": kind, "message": message}
        result: dict[str, Any] = reply
        return result

    def _ask(self, asked: Mapping[str, Any], seconds: float) -> Any:
        """Return a reply; None if there was none in time, or the process ended."""
        if self._process is None:
            self._start()
            self._exchange({"do": "import", "package": self.package}, IMPORT_SECONDS)
        return self._exchange(asked, seconds)

    def _exchange(self, asked: Mapping[str, Any], seconds: float) -> Any:
        process = self._process
        if process is None:  # it did not survive the import
            return None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except (queue.Empty, OSError):
            line = None
        if line is None:
            self._stop()
            return None
        return json.loads(line)

    def _start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            self._process = subprocess.Popen(
                bound_to_parent([self.python, "-u", str(PROGRAM)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder.name,
                env=environment,
                encoding="utf-8",
            )
        except OSError as error:
            raise DpframeError(f"{self.python}: {(error.strerror or str(error)).lower()}") from None
        self._lines = queue.Queue()
        threading.Thread(
            target=_forward, args=(self._process.stdout, self._lines), daemon=True
        ).start()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(OSError):
                self._process.communicate()
            self._process = None


def _forward(stream: Any, lines: queue.Queue[str | None]) -> None:
    with contextlib.suppress(ValueError):  # closed
        for line in stream:
            lines.put(line)
    lines.put(None)


class PackageImportError(DpframeError):
    """A package cannot be imported; `missing` is the module that it lacks, if known."""

    def __init__(self, message: str, missing: str | None) -> None:
        super().__init__(message)
        self.missing = missing


class Called(NamedTuple):
    """The result of all trial calls of a callable."""

    target: Target
    proposal: Proposal | None  # how it is called; None if it was not
    outcome: str
    """"release", "not a mechanism", "not a budget" or "not called"."""
    reason: str
    """Why it is no release."""
    variants: tuple[Proposal, ...] = ()
    """The same with one option changed."""
    kind: str = ""
    """Type of an answer."""
    cost: float = 0.0
    """Processor seconds of a call."""
    first_cost: float = 0.0
    """The same of the first call, in which some libraries compile."""


def call(target: Target, interpreter: Interpreter, until: float) -> Called:
    """Find a way to call a callable, and judge if it makes releases.

    Args:
        target: the callable.
        interpreter: where it is installed.
        until: time on the monotonic clock at which the search for a way ends.
    """
    if not target.budgets:
        return Called(target, None, "not a budget", "; ".join(target.no_budgets))
    if reason := _no_mechanism(target):
        return Called(target, None, "not a mechanism", reason)
    problem, number = "", 0
    plain: Called | None = None
    for first in proposals(target):
        proposal = first
        seen: set[str] = set()
        for _ in range(MOST_REPAIRS):
            if number >= MOST_TRIALS or time.monotonic() > until:
                break
            source = source_of(proposal)
            if source in seen:
                break
            seen.add(source)
            number += 1
            outcome = interpreter.tried(proposal)
            if "raised" not in outcome:
                verdict = _judged(target, proposal, outcome, interpreter)
                if verdict.outcome == "release":
                    assert verdict.proposal is not None
                    return verdict._replace(
                        proposal=_with_guesses(verdict.proposal, target, interpreter),
                        variants=(*_variants(verdict, interpreter),),
                    )
                plain = plain or verdict
                break
            told = f"{outcome['raised']}: {outcome['message']}".strip(": ")
            if outcome["raised"] == "TimeoutError":
                return Called(target, None, "not called", f"{told} (called as {_call_in(source)})")
            problem = problem or f"{told} (called as {_call_in(source)})"
            changed = repaired(proposal, target, outcome)
            if changed is None:
                break
            proposal = changed
    if plain is not None:
        return plain
    untried = not number and time.monotonic() <= until
    return _without_call(target, problem or "no time was left", untried=untried)


def _without_call(target: Target, problem: str, *, untried: bool) -> Called:
    """Return why no call worked: the problem of the first one, or that none could be proposed."""
    if untried:
        others = [one.name for one in target.methods if any(p.required for p in one.parameters)]
        if not others:
            return Called(target, None, "not a mechanism", "it takes no data")
        problem = f"none of its methods is known to make a release: {', '.join(others)}"
    if problem.startswith("NotImplementedError"):
        return Called(target, None, "not a mechanism", f"it is abstract: {problem}")
    return Called(target, None, "not called", problem)


OPTIONS = re.compile(
    r"(?!.*(priv|dp|noise|clip|secure|safe|seed|test|debug))"
    r"(fit_intercept|with_\w+|use_\w+|(is_)?optimal|optimi[sz]ed)"
)
"""Options that choose an algorithm. Others may switch privacy off, or declare facts about the data,
such as an order."""

MOST_VARIANTS = 2


def _variants(called: Called, interpreter: Interpreter) -> Iterator[Proposal]:
    """Yield proposals in which an option has its other value."""
    target, proposal = called.target, called.proposal
    assert proposal is not None
    own = parameters_of(proposal, target).values()
    options = [one for one in own if isinstance(one.default, bool) and OPTIONS.fullmatch(one.name)]
    for one in options[:MOST_VARIANTS]:
        field = "arguments" if one in target.parameters else "of_method"
        given = {**getattr(proposal, field), one.name: repr(not one.default)}
        changed: dict[str, Any] = {field: given, "option": f"{one.name}={not one.default}"}
        variant = dataclasses.replace(proposal, **changed)
        outcome = interpreter.tried(variant)
        if "raised" not in outcome and outcome["random"]:
            yield _with_guesses(variant, target, interpreter)


def _with_guesses(proposal: Proposal, target: Target, interpreter: Interpreter) -> Proposal:
    """Add the guesses on which a violation depends, but for those that an exception confirms."""
    found = guesses(proposal, target)
    given = proposal.given
    sizes = {domain(name) for name in given} & {*found}
    if sizes and [*proposal.data.inputs.values()] == ["data"]:
        far = {"categories": [OUTSIDE]}
        outside = dataclasses.replace(proposal.data, table=(OUTSIDE,), schema=(far,))
        if "raised" in interpreter.tried(dataclasses.replace(proposal, data=outside)):
            found = tuple(one for one in found if one not in sizes)
    return dataclasses.replace(proposal, conditions=found)


def _call_in(source: str) -> str:
    body = source.partition("def release(data):")[2]
    return " ".join(body.split()).removeprefix("return ")[:200]


ACCOUNTING = re.compile(
    r"accountant|accounting|privacy_?(loss|profile)|(^|[._])(pld|pmf|rdp)([._]|$)", re.I
)
"""Dotted names of modules and callables that account for budgets."""

NO_MECHANISM = (
    (r"(^|_)budget$|^Budget|DpEvent$", "it accounts for budgets"),
    (r"^_?(check|validate|verify|assert|is)_", "it checks its arguments"),
    (
        r"^(compute|get|calibrate|calculate|find|search|convert|estimate|optimi[sz]e|total)_.*"
        r"(eps|epsilon|sigma|delta|noise|rho|multiplier|privacy|budget|scale|tresh|threshold)",
        "it computes a parameter",
    ),
    (r"(aggregator|server|estimator_mi)", "it estimates from reports, which are private already"),
    (
        r"^(var|variance|mse|err|error|bound)_|(_to_|_from_)(eps|rho|sigma|delta|zcdp|dp|rdp)",
        "it computes a parameter",
    ),
)
"""Patterns in names of callables that make no release, with what they do."""


def _no_mechanism(target: Target) -> str:
    if ACCOUNTING.search(target.name):
        return "it accounts for budgets"
    for pattern, reason in NO_MECHANISM:
        if re.search(pattern, target.title, 0 if pattern[0] == "^" and "B" in pattern else re.I):
            return reason
    return ""


def _costs(outcome: Mapping[str, Any]) -> tuple[float, float]:
    return outcome["cost"], outcome["first cost"]


def _judged(
    target: Target, proposal: Proposal, outcome: Mapping[str, Any], interpreter: Interpreter
) -> Called:
    """Judge a callable that could be called; a fitted model releases its attributes."""
    if proposal.method and not proposal.answer:
        fitted = _fitted(target, proposal, outcome)
        for model in fitted:
            again = interpreter.tried(model)
            if "raised" not in again and again["random"]:
                proposal, outcome = model, again
                break
        else:
            if fitted and outcome["kind"] == target.title:
                return Called(target, proposal, "not called", "nothing of the model can be read")
    if outcome["none"]:
        return Called(target, proposal, "not called", "it returns None")
    if not outcome["random"]:
        what = "depends on the data only" if outcome["varies"] else "is always the same"
        return Called(target, proposal, "not a mechanism", f"it is not random: its answer {what}")
    return Called(target, proposal, "release", "", (), outcome["kind"], *_costs(outcome))


OF_TRAINING = re.compile(r"(labels|inertia|classes|n_\w+|support\w*|\w+_in|\w+_iter)_")
"""Attributes of models that say something of the training itself, and are no release."""


def _fitted(target: Target, proposal: Proposal, outcome: Mapping[str, Any]) -> list[Proposal]:
    """Return ways to read a fitted model: its documented attributes, then its predictions."""
    if proposal.method not in ("fit", "fit_transform"):
        return []
    n = len(proposal.data.table)
    names = [
        one["name"]
        for one in outcome.get("attributes", ())
        if not OF_TRAINING.fullmatch(one["name"])
        and one["shape"][:1] != [n]
        and re.search(rf"\b{one['name']}(?!\w)", target.doc)
    ]
    methods = {one.name for one in target.methods}
    wide = any("-1, 2" in one for one in proposal.data.inputs.values())
    probes = (
        "np.array([[2.0, 2.0], [5.0, 5.0], [9.0, 1.0]])" if wide else "np.array([[2.0], [9.0]])"
    )
    calls = [f"{name}({probes})" for name in ("predict", "transform", "sample") if name in methods]
    if "sample" in methods:
        calls[-1] = "sample(5)"
    ways = [tuple(names)] if names else []
    ways += [(one,) for one in calls]
    return [dataclasses.replace(proposal, answer=one) for one in ways]
