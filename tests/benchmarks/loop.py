"""Speed of the engine on the Laplace mechanism, beside a tight C loop and the paper's method.

    python tests/benchmarks/loop.py [--coordinates MILLIONS] [--repeats N] [--clock wall|cpu]

Million coordinates per second on all cores, medians. On a machine that is shared with others,
--clock cpu gives steadier ratios: processor time divided by the number of cores, for the columns
that use all of them. A draw, one output on one dataset, has `dim` coordinates, counted once however
many values of ε share it. The engine runs as `dpframe run` runs it, through plan, threads and
counts; compilation is done before the clock starts.
"""

from __future__ import annotations

import argparse
import platform
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpframe.commands.audit import make_plan
from dpframe.common.machine import available_cores
from dpframe.engine.run import run
from dpframe.interfaces import registry
from dpframe.spec import load_audit

if TYPE_CHECKING:
    from collections.abc import Callable

DIMS = (1, 2, 8, 32, 64, 128)
EPSILONS = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
FLAGS = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512", "-pthread"]


class CLOCK:
    """The clock to read."""

    cpu = False
    share = 1.0
    """The divisor of a second of the clock when all cores work."""


def now() -> float:
    """Seconds on the wall, or of all processors used by this process and its children."""
    if not CLOCK.cpu:
        return time.perf_counter()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def engine(dim: int, epsilons: list[float], coordinates: int) -> Callable[[], float]:
    """Measures draws per second of the engine, both datasets; compiled already."""
    document = {
        "schema": 1,
        "audit": {"name": "loop", "trials": coordinates // (2 * dim)},
        "pair": {"use": "zeros-ones", "params": {"dim": dim}},
        "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "precision"}],
        "sweep": {"mechanism.epsilon": epsilons},
    }
    plan = make_plan(load_audit(document, registry=registry.load()))
    drawn = sum(p.coordinates for p in plan.passes)
    run(plan)

    def measure() -> float:
        started = now()
        run(plan)
        return drawn / ((now() - started) / CLOCK.share)

    return measure


def tight(program: Path, dim: int, coordinates: int) -> Callable[[], float]:
    """Measures draws per second of the C loop."""
    command = [str(program), str(dim), str(coordinates // 10**6), str(available_cores())]

    def measure() -> float:
        started = now()
        subprocess.run(command, capture_output=True, check=True)
        return coordinates / ((now() - started) / CLOCK.share)

    return measure


def plain(dim: int, coordinates: int) -> Callable[[], float]:
    """Measures draws per second of the paper's method, written plainly in NumPy, at one ε."""
    trials, scale = max(1, coordinates // dim), dim / 1.0

    def measure() -> float:
        started = now()
        u = np.random.uniform(0, 1, size=(trials, dim))  # legacy, as in the paper's code
        noise = -scale * np.sign(u - 0.5) * np.log(1 - 2 * np.abs(u - 0.5))
        rounded = np.round(np.clip(0.0 + noise, 0, 1))
        np.round(np.mean(rounded, axis=1)).sum()
        return trials * dim / (now() - started)

    return measure


def in_turn(measures: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The median of each measure. They take turns, so that whoever disturbs one disturbs all."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeats):
        for name, measure in measures.items():
            found[name].append(measure())
    return {name: statistics.median(values) for name, values in found.items()}


def rates_at(dim: int, program: Path | None, coordinates: int, repeats: int) -> dict[str, float]:
    """Draws per second: `one` and `seven` values of ε, `c`, `numpy`."""
    measures = {
        "one": engine(dim, [1.0], coordinates),
        "seven": engine(dim, EPSILONS, coordinates),
        "c": tight(program, dim, coordinates) if program else lambda: float("nan"),
        "numpy": plain(dim, 32 * 10**6),
    }
    return in_turn(measures, repeats)


def build(folder: Path) -> Path | None:
    """Compiles the C loop; None, with a message, where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("no C compiler here: the C loop is left out")
        return None
    program = folder / "tight"
    source = Path(__file__).with_name("tight.c")
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(program), "-lm"], check=True)
    return program


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--coordinates", type=int, default=2000, help="million coordinates per measurement"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    options = parser.parse_args()
    CLOCK.cpu = options.clock == "cpu"
    CLOCK.share = float(available_cores()) if CLOCK.cpu else 1.0
    coordinates = options.coordinates * 10**6
    print(
        f"{platform.processor() or platform.machine()}, {available_cores()} cores; M coordinates/s"
    )
    print(f"{'dim':>4} {'1 ε':>7} {'7 ε':>7} {'C':>7} {'NumPy':>7} {'1 ε/C':>6} {'1 ε/NumPy':>9}")
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for dim in DIMS:
            found = rates_at(dim, program, coordinates, options.repeats)
            rates = " ".join(f"{rate / 1e6:7.0f}" for rate in found.values())
            one = found["one"]
            print(
                f"{dim:4} {rates} {one / found['c']:6.2f} {one / found['numpy']:9.0f}", flush=True
            )


if __name__ == "__main__":
    main()
