"""Measure the cost of a scheduler per segment, and its meaning for many cores.

    python tests/benchmarks/scale.py [--tasks 4000] [--measure/--no-measure]

Measures the processor time that scheduler and driver spend on one segment, with workers that do
nothing, and then plays schedules of large audits with it: one scheduler that serves tasks in turn,
cores that take as long as a segment does, one driver that takes counts in.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

RATE = 0.8e9
"""Coordinates that one core draws a second: docs/explanation/performance.md."""


def measured(tasks: int) -> tuple[float, float]:
    """Seconds of the scheduler's and of the driver's processor for one segment."""
    import distributed
    import psutil
    from support.dask_processes import Processes

    with tempfile.TemporaryDirectory() as place:
        processes = Processes(Path(place), 2)
        try:
            client = distributed.Client(processes.address, timeout=30, set_as_default=False)
            client.wait_for_workers(2)
            both = psutil.Process(processes.scheduler.pid), psutil.Process()
            before = [sum(one.cpu_times()[:2]) for one in both]

            def ask(number: int) -> object:
                return client.submit(answered, b"x" * 2000, number, pure=False).result()

            with ThreadPoolExecutor(64) as pool:
                list(pool.map(ask, range(tasks)))
            spent = [sum(one.cpu_times()[:2]) - b for one, b in zip(both, before, strict=True)]
            client.close()
        finally:
            processes.end()
    return spent[0] / tasks, spent[1] / tasks


def answered(content: bytes, number: int) -> tuple[str, list[int]]:
    """An answer of the size of counts."""
    return "counted", [number] * 64


def played(tasks: int, seconds: float, cores: int, cost: float) -> tuple[float, float]:
    """A schedule.

    Args:
        tasks: segments.
        seconds: that a core takes for one.
        cores: of the cluster.
        cost: of the scheduler for one.

    Returns:
        Seconds until all are counted, and the share of that which the scheduler is busy.
    """
    free = [0.0] * cores
    scheduler = end = 0.0
    for _ in range(tasks):
        core = heapq.heappop(free)
        scheduler = max(scheduler, core) + cost
        done = scheduler + seconds
        end = max(end, done)
        heapq.heappush(free, done)
    return end, tasks * cost / end


def main() -> None:
    """Prints both."""
    from dpframe.draw.dask_executor import TASK_SECONDS, enlarged

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--measure", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    cost = TASK_SECONDS
    if arguments.measure:
        cost, driver = measured(arguments.tasks)
        print(f"scheduler {1e3 * cost:.2f} ms, driver {1e3 * driver:.2f} ms a segment")
    heads = f"{'audit':<44} {'cores':>7} {'segment':>9} {'segments':>9}"
    print(f"{heads} {'hours':>8} {'busy':>6} {'ideal':>6}")
    work = {
        "10^12 trials of dim 8, 7 values of epsilon": 2e12 * 8 / RATE * 1.4,
        "10^13 trials of dim 128": 2e13 * 128 / RATE,
        "10^4 models of 15,010 parameters": 1e4 / 17,
    }
    for name, core_seconds in work.items():
        for cores in (16, 1_000, 100_000):
            times = float(enlarged(core_seconds, cores))
            tasks = max(2, round(core_seconds / times))
            if tasks > 5_000_000:
                times *= tasks / 5_000_000  # nothing changes but the time that this takes
                tasks = 5_000_000
            seconds, busy = played(tasks, core_seconds / tasks, cores, cost)
            ideal = core_seconds / cores / seconds
            print(
                f"{name:<44} {cores:>7,} {core_seconds / tasks:>8.1f}s {tasks:>9,} "
                f"{seconds / 3600:>8.3f} {busy:>6.1%} {ideal:>6.1%}"
            )


if __name__ == "__main__":
    main()
