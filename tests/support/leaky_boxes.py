"""Small boxes that give away what real libraries gave away, and right ones beside them.

Each mimics one public report in a few lines, without the library. Data are lists of numbers; pairs
come from `Edits`, which knows nothing of any of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe import HostMechanism, Neighbourhood, PureDP, Values
from dpframe.commands.audit import load, make_plan
from dpframe.draw.in_process import InProcessWorkers
from dpframe.engine import run as engine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe import Claim, Earned, Pair
    from dpframe.results.model import CellRecord

BASE = (0.0, 0.25, 0.5, 1.0)


class Edits(Neighbourhood, name="edits"):
    """One record of four replaced by what breaks programs."""

    adjacency = "replace one record"

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        if history:
            return ()
        odd = (0.5, 1.0, math.nan, math.inf, 1e30, -1.0, 7.0, 100.0)
        return [Values(d0=BASE, d1=(new, *BASE[1:])) for new in odd]


def boxed(answer: Callable[[np.random.Generator, Any], Any], epsilon: float) -> Any:
    """A box that answers one release at a time, from a function of (rng, data)."""

    class Leaky(HostMechanism, name="leaky"):
        """A box."""

        def claim(self, pair: Pair) -> Claim:
            return PureDP(epsilon)

        def release(self, rng: np.random.Generator, data: Any) -> Any:
            return answer(rng, np.asarray(data, float))

    return Leaky


def searched(
    answer: Callable[[np.random.Generator, Any], Any],
    epsilon: float = 1.0,
    trials: int = 4_000,
    seed: int = 0,
    box: Any = None,
    ledger: Any = None,
    store: Any = None,
    edits: type[Neighbourhood] = Edits,
    **more: Any,
) -> CellRecord:
    """Search a box, with no attack and no event named; all in this process."""
    spec = {
        "schema": 1,
        "audit": {"name": "leaky", "trials": trials, "confidence": 0.999, "seed": seed},
        "search": {"use": "edits"},
        "mechanism": [{"use": "leaky"}],
        "run": {"stop": "decided"},
        **more,
    }
    loaded = load(spec, plugins=[edits, box or boxed(answer, epsilon)])
    (result,) = engine.run(
        make_plan(loaded), source=InProcessWorkers(), threads=1, ledger=ledger, store=store
    )
    return result


def clipped_mean(rng: np.random.Generator, data: Any) -> float:
    """Right, for a loss of 1."""
    return float(np.clip(np.nan_to_num(data), 0, 1).mean() + rng.laplace(0, 1 / len(data)))


def nan_goes_through(rng: np.random.Generator, data: Any) -> float:
    return float(np.clip(data, 0, 1).mean() + rng.laplace(0, 1 / len(data)))


def raises_for_huge(rng: np.random.Generator, data: Any) -> float:
    if np.nanmax(np.abs(data)) > 1e20:
        raise ValueError(f"{np.nanmax(data)} is outside the range")
    return clipped_mean(rng, data)


def classes_of_data(rng: np.random.Generator, data: Any) -> Any:
    return np.zeros(len(np.unique(np.nan_to_num(data, posinf=9))))


def bound_used_twice(rng: np.random.Generator, data: Any) -> float:
    x = np.clip(np.nan_to_num(data), 0, 100)
    return float(rng.laplace(0, 100.0) / (1 + np.square(x).sum()))


def last_bit_is_bare(rng: np.random.Generator, data: Any) -> bytes:
    return bytes([int(rng.integers(128)) + 128 * bool(data[0] > 0.75)])


def one_noise_for_missing_keys(rng: np.random.Generator, data: Any) -> dict[str, float]:
    a, b, c = rng.laplace(size=3)
    return {"a": float(a), "b": float(b), "c": float(c if 0.0 in data else b)}


def truth_kept_too_often(rng: np.random.Generator, data: Any) -> list[int]:
    bits = [int(data[0] > 0.75), int(data[0] <= 0.75)]
    return [int(rng.random() < (0.85 if bit else 0.3)) for bit in bits]


def computed_excess(rng: np.random.Generator, data: Any) -> float:
    return float(np.clip(np.nan_to_num(data), 0, 1).sum() + rng.laplace(0, 0.02))


def seed_is_fixed(rng: np.random.Generator, data: Any) -> float:
    return float(np.nan_to_num(data, posinf=0).sum() + np.random.default_rng(0).laplace(0, 99))


def not_clipped(rng: np.random.Generator, data: Any) -> float:
    return float(np.nan_to_num(data, posinf=0).mean() + rng.laplace(0, 1 / len(data)))


def scale_from_data(rng: np.random.Generator, data: Any) -> Any:
    return rng.normal(0, 10 / np.isfinite(data).sum(), 256)


def likes_threes(rng: np.random.Generator, data: Any) -> int:
    """Two geometric noises, of which multiples of 3 are kept more often than they should."""
    while True:
        noise = int(rng.geometric(0.28) - rng.geometric(0.28))
        if noise % 3 == 0 or rng.random() < 0.8:
            return noise + int(data[0] > 0.75)


def textbook_floats(rng: np.random.Generator, data: Any) -> float:
    """The last bits of these tell what they were added to."""
    value = float(np.clip(np.nan_to_num(data[0]), 0, 1))
    return float(value + (1 if rng.random() < 0.5 else -1) * math.log(1 - rng.random()))


def randomized_response(rng: np.random.Generator, data: Any) -> bool:
    """Right, for a loss of ln 3."""
    return bool(rng.random() < (0.75 if data[0] > 0.75 else 0.25))


def whole_count(rng: np.random.Generator, data: Any) -> int:
    """Right, for a loss of 1: geometric noise on a count."""
    share = 1 - math.exp(-1)
    return int((data > 0.6).sum() + rng.geometric(share) - rng.geometric(share))
