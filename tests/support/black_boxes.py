"""Black boxes that a worker process can import."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe import HostMechanism, PureDP
from dpframe.engine import workers
from dpframe.engine.workers import Pool

if TYPE_CHECKING:
    import pytest


class Box(HostMechanism, name="box"):
    """Uniform noise around the data, in plain Python."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return data + self.epsilon * (rng.random((n, *data.shape)) - 0.5)


class Dies(HostMechanism, name="dies"):
    """Ends its process as soon as it is asked for more than a look."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        if n > 2:
            os._exit(9)
        return rng.random((n, *data.shape))


class OneLaneDies(HostMechanism, name="one-lane-dies"):
    """Ends its process for one value of its parameter."""

    epsilon: float = 1.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        if n > 2 and self.epsilon == 2.0:
            os._exit(9)
        return rng.random((n, *data.shape))


class Slow(HostMechanism, name="slow"):
    """Throws most of its draws away."""

    work: int = 20_000

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        for _ in range(n):
            rng.random(self.work)
        return rng.random((n, *data.shape))


BOXES: list[Any] = [Box, Dies, OneLaneDies, Slow]


def sample_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Starts no worker processes: the same outputs, without a second or two for each of them."""
    patch.setattr(Pool, "_pickled", lambda self: None)


def sample_in_one_worker(patch: pytest.MonkeyPatch) -> None:
    """Starts one worker process, where their number does not matter."""
    patch.setattr(workers, "available_cores", lambda: 1)
