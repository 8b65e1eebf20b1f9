"""Every figure of docs/explanation/performance.md, in one run, as its tables.

    python tests/benchmarks/all.py [--quick] [--figure-2]

Run from the root of the repository. It lies here and not in the package because it needs a C
compiler and the specs, which no user has to have. All figures are processor time, divided by the
number of cores where all of them work, and what is compared takes turns: on a machine that others
use too, ratios hold and wall times do not.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import loop
import numpy as np
from loop import CLOCK, DIMS, build, in_turn, now, rates_at

from dpframe.commands.audit import make_plan
from dpframe.common.machine import available_cores
from dpframe.engine.run import run
from dpframe.interfaces import registry
from dpframe.spec import load_audit

if TYPE_CHECKING:
    from collections.abc import Callable

BINS = {"order-statistics": 1023, "histogram": 100}
"""Estimators, and about how many edges each counts between."""


def table(head: list[str], rows: list[list[str]]) -> None:
    """Prints a table as the documents have it."""
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def inner_loop(coordinates: int, repeats: int) -> None:
    """Decisions: the engine, the C loop, the paper's method."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for dim in DIMS:
            found = rates_at(dim, program, coordinates, repeats)
            rates = [f"{rate / 1e6:.0f}" for rate in found.values()]
            one, seven, c, numpy = found.values()
            shares = [f"{one / c:.2f}", f"{seven / one:.2f}", f"{one / numpy:.0f}"]
            rows.append([str(dim), *rates, *shares])
    threads = f"C, {available_cores()} threads"
    head = ["dim", "1 value of ε", "7 values", threads, "NumPy, as in the paper"]
    table([*head, "1 ε / C", "7 ε / 1 ε", "1 ε / NumPy"], rows)


def scores(estimator: str, trials: int) -> Callable[[], float]:
    """Measures draws per second that are scored and counted in bins, both datasets."""
    document = {
        "schema": 1,
        "audit": {"name": "scores", "trials": trials, "delta": 1e-5},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "gaussian", "params": {"sigma": 1.0}}],
        "attack": [{"use": "identity"}],
        "estimator": [{"use": estimator}],
    }
    plan = make_plan(load_audit(document, registry=registry.load()))
    run(plan)

    def measure() -> float:
        started = now()
        run(plan)
        return 2 * trials / ((now() - started) / CLOCK.share)

    return measure


def numpy_scores(edges: int, draws: int) -> Callable[[], float]:
    """Measures the same in NumPy, on one core."""
    rng = np.random.default_rng(0)
    places = np.sort(rng.standard_normal(edges).astype(np.float32))

    def measure() -> float:
        started = now()
        drawn = rng.standard_normal(draws, dtype=np.float32)
        np.bincount(np.searchsorted(places, drawn, side="right"), minlength=edges + 1)
        return draws / (now() - started)

    return measure


def bins(trials: int, repeats: int) -> None:
    """Gaussian scores in bins."""
    rows = []
    for estimator, edges in BINS.items():
        found = in_turn(
            {"ours": scores(estimator, trials), "numpy": numpy_scores(edges, 4_000_000)}, repeats
        )
        ours, numpy = found.values()
        rows.append([estimator, f"{ours / 1e6:.0f}", f"{numpy / 1e6:.0f}", f"{ours / numpy:.1f}"])
    table(["estimator", "M draws/s", "NumPy", "ratio"], rows)


def command(*words: str) -> tuple[float, float]:
    """Wall seconds and processor seconds of a dpframe command without any cache."""
    program = [sys.executable, "-m", "dpframe", *words]
    environment = {**os.environ, "DPFRAME_CACHE": "off"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(program, env=environment, capture_output=True, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def commands(repeats: int, *, figure_2: bool) -> None:
    """Whole commands."""
    rows = []
    wanted = [["--help"], ["run", "specs/quick.toml"]]
    for words in [*wanted, ["run", "specs/dptext.toml"]] if figure_2 else wanted:
        found = []
        for _ in range(1 if "specs/dptext.toml" in words else repeats):
            with tempfile.TemporaryDirectory() as folder:
                out = ["--out", folder] if "run" in words else []
                found.append(command(*words, *out))
        wall, used = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append([f"`dpframe {' '.join(words)}`", f"{wall:.2f}", f"{used:.2f}"])
    table(["without a cache", "wall, s", "processor, s"], rows)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--figure-2", action="store_true", help="the whole of it, too")
    options = parser.parse_args()
    CLOCK.cpu, CLOCK.share = True, float(available_cores())
    repeats, million = (1, 20) if options.quick else (3, 200)
    print(f"{loop.platform.processor() or loop.platform.machine()}, {available_cores()} cores")
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        print("no C compiler here: its column is nan")
    inner_loop(million * 10**6, repeats)
    bins(million // 10 * 10**6, repeats)
    commands(repeats, figure_2=options.figure_2)


if __name__ == "__main__":
    main()
