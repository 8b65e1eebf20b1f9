"""Plants every mistake of `mutants.py` in a copy of the project: do the tests find it?

    python tests/quality/plant.py [NUMBER]...
    python tests/quality/plant.py --fifth N     those whose number leaves the remainder N, by five

Prints a line for each and ends with 0 if all were found. What has to find them are ordinary tests,
and `dpframe calibrate` for those that it is made for. A mistake counts as found if a test fails,
not if the program no longer starts.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from quality.mutants import MUTANTS, Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

CHECKED_HASH = PycInvalidationMode.CHECKED_HASH
ROOT = Path(__file__).parents[2]
FIFTHS = 5
COPIED = ("dpframe", "tests", "pyproject.toml")
CALIBRATE = ("-m", "dpframe", "calibrate", "tests/quality/seen.toml", "--repeats", "100", "--quiet")

FAILED = 1
"""Exit code of pytest and of `dpframe calibrate` where something is not as it should be."""

MOST_AT_ONCE = 4
"""Each compiles for itself."""


def copied(to: Path) -> Path:
    """A copy of what the tests need.

    Its bytecode is found by what is in a file, not by when it was written: a mistake may come and
    go within a second.
    """
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, to / name)
    compileall.compile_dir(to / "dpframe", quiet=2, invalidation_mode=CHECKED_HASH)
    return to


def survivor(mutant: Mutant, copy: Path) -> str | None:
    """Plants a mistake, and takes it out again.

    Args:
        mutant: the mistake.
        copy: of the project.

    Returns:
        Who did not find it, and what they said; None if all did.
    """
    file = copy / mutant.file
    before = file.read_text(encoding="utf-8")
    if before.count(mutant.old) != 1:
        return f"{mutant.file} does not hold {mutant.old!r} once: it cannot be planted"
    file.write_text(before.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        found = [_missed(copy, "-m", "pytest", "-x", "-p", "no:cacheprovider", *mutant.tests)]
        if mutant.calibrate:
            found.append(_missed(copy, *CALIBRATE))
    finally:
        file.write_text(before, encoding="utf-8")
    return "\n".join(filter(None, found)) or None


def complaint(mutants: Sequence[Mutant], copy: Path) -> str | None:
    """Return the complaint of a finder of mistakes about correct code; None if there is none."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    for words in (("-m", "pytest", "-x", "-p", "no:cacheprovider", *tests), CALIBRATE):
        done = _run(copy, *words)
        if done.returncode:
            return f"without any mistake, exit code {done.returncode}: {_end(done)}"
    return None


def _missed(copy: Path, *words: str) -> str | None:
    done = _run(copy, *words)
    if done.returncode == FAILED and "NameError" not in done.stdout:  # else it does not even run
        return None
    return f"exit code {done.returncode} of {' '.join(words)}: {_end(done)}"


def _run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=copy, env=env, capture_output=True, text=True, check=False
    )


def _end(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr)[-2000:]


def fifth(number: int) -> set[int]:
    """Return the numbers of the mistakes of a fifth; by remainder, for all fifths to be as long."""
    return {each.number for each in MUTANTS if each.number % FIFTHS == number}


def main(numbers: Collection[int]) -> int:
    """Plants the mistakes with these numbers, or all; gives the exit code."""
    mutants = [each for each in MUTANTS if not numbers or each.number in numbers]
    at_once = min(_cores(), MOST_AT_ONCE)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        first = copied(Path(folder) / "0")
        for number in range(1, at_once):
            copies.put(shutil.copytree(first, Path(folder) / str(number)))
        copies.put(first)

        def in_a_copy(task: Callable[[Path], str | None]) -> str | None:
            copy = copies.get()
            try:
                return task(copy)
            finally:
                copies.put(copy)

        without = pool.submit(in_a_copy, partial(complaint, mutants))
        found = pool.map(in_a_copy, [partial(survivor, mutant) for mutant in mutants])
        alive = defaultdict[int, int](int)
        for mutant, missed in zip(mutants, found, strict=True):
            word = "killed" if missed is None else f"SURVIVED\n{missed}"
            print(f"({mutant.number}) {mutant.name}: {word}", flush=True)
            alive[mutant.number] += missed is not None
        if problem := without.result():
            print(problem)
            return 1
    print(f"{sum(not left for left in alive.values())} of {len(alive)} killed")
    return int(any(alive.values()))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER")
    parser.add_argument("--fifth", type=int, choices=range(FIFTHS), metavar="N")
    asked = parser.parse_args()
    numbers = set(asked.numbers)
    if asked.fifth is not None:
        numbers = fifth(asked.fifth)
        print(f"fifth {asked.fifth}: {len(numbers)} of {len({m.number for m in MUTANTS})} mistakes")
    sys.exit(main(numbers))
