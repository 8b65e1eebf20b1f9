"""Whatever the command line is given: a documented exit code and a message that can be read.

Some dozens of cases by default; `DPFRAME_FUZZ_CLI=100000 pytest tests/cli/test_fuzz.py` tries so
many of each kind, other ones with `DPFRAME_FUZZ_FROM=200000`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import ROOT, mutated_scores
from support.command_line import worked
from support.damage import damaged
from support.mutated_specs import OPTIONS, RAW_VALUES, Mutator

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

TIMES = int(os.environ.get("DPFRAME_FUZZ_CLI", "0"))
FIRST = int(os.environ.get("DPFRAME_FUZZ_FROM", "0"))
PATIENCE = 30
"""Seconds for one case."""

QUICK = ROOT / "specs" / "quick.toml"


def complaints(done: subprocess.CompletedProcess[str], codes: tuple[int, ...] = (0, 2)) -> str:
    """What is wrong with how a command ended; empty if nothing."""
    printed = done.stdout + done.stderr
    if done.returncode not in codes:
        return f"exit code {done.returncode}: {done.stderr[-2000:]}"
    if "Traceback" in printed or "mistake in dpframe" in printed:
        return done.stderr[-2000:]
    if done.returncode == 2 and not done.stderr.strip():
        return "no message"
    wrong = [line for line in printed.split("\n") if not line.replace("\t", "").isprintable()]
    return repr(wrong[0]) if wrong else ""


def tried(words_of: Callable[[int], tuple[Any, ...]], directory: Path, times: int) -> list[int]:
    """Runs the commands of so many numbers; their exit codes, if nothing is wrong with any."""
    codes, failures = [], []
    for number in range(FIRST, FIRST + times):
        words = words_of(number)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            done = worked(*words, cwd=directory)
        except Exception as error:
            failures.append((number, words, f"{type(error).__name__}: {error}"))
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        codes.append(done.returncode)
        if wrong := complaints(done):
            failures.append((number, words, wrong))
    assert failures[:10] == []
    return codes


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise TimeoutError(f"a case took more than {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[TIMES or 12, pytest.param(TIMES or 120, marks=pytest.mark.slow)])
def times(request: pytest.FixtureRequest) -> int:
    """The number of cases of each kind."""
    return int(request.param)


@pytest.fixture(scope="module")
def mutator() -> Mutator:
    texts = [file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("specs/**/*.toml"))]
    return Mutator(texts)


@pytest.mark.parametrize("command", [("check",), ("plan", "--no-rehearsal")], ids=lambda c: c[0])
def test_any_spec(command: tuple[str, ...], mutator: Mutator, tmp_path: Path, times: int) -> None:
    def words_of(number: int) -> tuple[Any, ...]:
        case = mutator.case(number)
        (tmp_path / "spec.toml").write_bytes(case.content)
        words: list[Any] = [*command, "spec.toml"]
        for option, value in (("--trials", case.trials), ("--seed", case.seed)):
            words += [] if value is None else [option, value]
        for override in case.overrides:
            words += ["--set", override.replace("\0", "")]  # no system hands that over
        return tuple(words)

    codes = tried(words_of, tmp_path, times)
    assert codes.count(2) > times / 3


def test_any_override_of_a_right_spec(tmp_path: Path, times: int) -> None:
    shutil.copy(QUICK, tmp_path / "spec.toml")

    def words_of(number: int) -> tuple[Any, ...]:
        rng = random.Random(number)
        words = [rng.choice(("check", "check", "check", "plan")), "spec.toml"]
        words += ["--no-rehearsal"] * (words[0] == "plan")
        for _ in range(rng.choice((1, 1, 2, 3))):
            value = rng.choice(RAW_VALUES).replace("\0", "")
            words += ["--set", f"{rng.choice(OPTIONS)}={value}"]
        return tuple(words)

    codes = tried(words_of, tmp_path, times)
    assert codes.count(0) > times / 100
    assert codes.count(2) > times / 3


def test_any_record(tmp_path: Path, times: int) -> None:
    """Shown, compared as if it were a spec, and found where a run should leave its own."""
    shutil.copy(QUICK, tmp_path / "spec.toml")
    run = ("run", "spec.toml", "--trials", 100, "--set", "pair.dim=1", "--set", "run.chunk=128")
    run += ("--set", "mechanism.epsilon=1.0", "--out", ".", "--quiet")
    done = worked(*run, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    whole = (tmp_path / "record.json").read_text(encoding="utf-8")
    taken: list[tuple[Any, ...]] = [
        ("show", "."),
        ("show", "record.json", "--json"),
        ("show", "record.json", "--numbers", "--notes"),
        ("compare", "record.json", "--quiet"),
        ("check", "record.json"),
    ]

    def words_of(number: int) -> tuple[Any, ...]:
        rng = random.Random(number)
        (tmp_path / "record.json").write_bytes(damaged(whole, rng))
        return rng.choice(taken)

    codes = tried(words_of, tmp_path, times)
    assert codes.count(2) > times / 2
    for number in range(FIRST, FIRST + max(1, times // 30)):
        (tmp_path / "record.json").write_bytes(damaged(whole, random.Random(number)))
        assert not complaints(worked(*run, cwd=tmp_path), (0, 1, 2)), number


def test_any_scores(tmp_path: Path, times: int) -> None:
    np.save(tmp_path / "out.npy", np.random.default_rng(0).normal(size=20))

    def words_of(number: int) -> tuple[Any, ...]:
        file = mutated_scores.case(number)
        (tmp_path / file.name).write_bytes(file.content)
        sides = ["--in", file.name, "--out", "out.npy"]
        if number % 2:
            sides = ["--out", file.name, "--in", "out.npy"]
        return ("score", *sides, "--estimator", "order-statistics", *["--json"][: number % 3])

    codes = tried(words_of, tmp_path, times)
    assert codes.count(0) > times / 100
    assert codes.count(2) > times / 3


def test_what_is_printed_as_json_is_json(tmp_path: Path) -> None:
    """Hostile names and all."""
    for name in ("in\x1b[31m.npy", "out\u202e.npy"):
        np.save(tmp_path / name, np.random.default_rng(0).normal(size=20))
    words = ("score", "--in", "in\x1b[31m.npy", "--out", "out\u202e.npy", "--json")
    done = worked(*words, "--estimator", "order-statistics", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["in"]["name"] == "in\x1b[31m.npy"
    assert "\x1b" not in done.stdout
