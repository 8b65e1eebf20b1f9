"""Black boxes that a worker process can import, and ways to draw from them in tests.

A worker imports this file before its first draw, and so what only audits need is imported late.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe import HostMechanism, PureDP

if TYPE_CHECKING:
    import pytest

    from dpframe.count.checkpoint import Store
    from dpframe.draw.requests import WorkerSource

ROWS = 32


class Box(HostMechanism, name="box"):
    """Uniform noise around the data, in plain Python."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return data + self.epsilon * (rng.random((n, *data.shape)) - 0.5)


class OneVariantDies(HostMechanism, name="one-variant-dies"):
    """Ends its process for one value of its parameter, once it is asked for more than a look."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        if n > 2 and self.epsilon == 2.0:
            os._exit(9)
        return rng.random((n, *data.shape))


class Slow(HostMechanism, name="slow"):
    """Takes its time for every release."""

    seconds: float = 0.001

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        time.sleep(n * self.seconds)
        return rng.random((n, *data.shape))


class Answers(HostMechanism, name="answers-box"):
    """Says a text where D′ differs in all records, else a number."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        number = rng.random()
        return "none" if not np.any(data) and number < 0.5 else round(number, 1)


class Unseeded(HostMechanism, name="unseeded"):
    """Draws from nowhere that could be gone back to."""

    seedable = False

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return np.frombuffer(os.urandom(8 * n), np.uint32).reshape(n, 2) / 2.0**32


BOXES: list[Any] = [Box, OneVariantDies, Slow]


def spec(*mechanisms: Any, trials: int = 9 * ROWS + 5, **tables: Any) -> dict[str, Any]:
    """An audit of black boxes with the cheapest attack and estimator."""
    from support.small_audits import document

    return document(
        mechanism=list(mechanisms),
        audit={"trials": trials},
        estimator=[{"use": "precision"}],
        **tables,
    )


def record(
    document: dict[str, Any],
    source: WorkerSource | None = None,
    plugins: list[Any] | None = None,
    store: Store | None = None,
) -> dict[str, Any]:
    """The record of an audit; its outputs come from this process unless there is a source."""
    from dpframe.commands.audit import make_plan, make_record
    from dpframe.draw.in_process import InProcessWorkers
    from dpframe.engine.run import run
    from support.small_audits import PLUGINS, load

    source = source or InProcessWorkers()
    loaded = load(document, [*PLUGINS, *(BOXES if plugins is None else plugins)])
    before = source.calls
    plan = make_plan(loaded, source=source)
    results = run(plan, store=store, source=source)
    return make_record(plan, results, 0.0, source.calls - before).as_dict()


def cells(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """The cells of that record."""
    found: list[dict[str, Any]] = record(*args, **kwargs)["cells"]
    return found


def notes(cell: dict[str, Any]) -> str:
    """Return the notes of its estimate."""
    return " | ".join(cell["estimate"]["notes"])


def sample_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Starts no worker processes: the same outputs, without a second or two for each of them."""
    from dpframe.draw import pool as workers
    from dpframe.draw.in_process import InProcessWorkers

    class InThisProcess(InProcessWorkers):
        def start(self, number: int) -> None:
            """No process is needed."""

    patch.setattr(workers, "Workers", InThisProcess)
