"""One small audit, repeated on draws of its own: what its estimators say each time."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from dpframe.engine.block import Block
from dpframe.errors import CellError

if TYPE_CHECKING:
    from dpframe.attack import Attack
    from dpframe.engine.shapes import Shape
    from dpframe.estimator import Estimate, Estimator, Query
    from dpframe.mechanism import HostMechanism, Mechanism
    from dpframe.pair import Pair
    from dpframe.types import Floats


class Part(NamedTuple):
    """One estimator behind one attack."""

    attack: Attack
    estimator: Estimator
    query: Query
    certifies: bool
    raw: bool
    """Whether it reads raw scores instead of counts."""


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """An audit of one mechanism on one pair, and where its draws come from."""

    mechanism: Mechanism | HostMechanism
    pair: Pair
    parts: tuple[Part, ...]
    seed: int
    group: str
    """Draw group; with the seed and the number of the repeat it makes an address."""
    shape: Shape
    """Of one output."""
    trials: int
    fit: int
    pilot: int
    rows: int
    """Rows per chunk."""
    prng: str
    precision: str


class Outcome(NamedTuple):
    """What one part said, repeat by repeat."""

    points: Floats
    lows: Floats
    """The certified bound; of an estimator that does not certify the lower end of its interval,
    NaN where it has none."""
    reason: str | None = None
    """Why it could not be run, if it could not."""


def rehearse(rehearsal: Rehearsal, first: int, size: int, wanted: int) -> list[Outcome]:
    """Plays a block of repeats; which block a repeat is in changes nothing.

    Args:
        rehearsal: what to play.
        first: number of the first repeat.
        size: repeats drawn at once; the same for all blocks, so that one program serves them.
        wanted: how many of them are estimated.

    Returns:
        One outcome per part.
    """
    with jax.enable_x64(rehearsal.precision == "float64"):
        block = Block(rehearsal, range(first, first + size))
        return [_outcome(block, part, wanted) for part in rehearsal.parts]


def _outcome(block: Block, part: Part, wanted: int) -> Outcome:
    try:
        found = [_values(block.estimate(part, index), part) for index in range(wanted)]
    except CellError as error:
        nothing = np.full(wanted, np.nan)
        return Outcome(nothing, nothing, str(error))
    points, lows = np.array(found, np.float64).T
    return Outcome(points, lows)


def _values(estimate: Estimate, part: Part) -> tuple[float, float]:
    if not part.certifies:
        return estimate.epsilon, estimate.interval[0] if estimate.interval else math.nan
    bound = estimate.epsilon_lower
    if bound is None or not math.isfinite(bound):
        raise CellError(f"estimate gave the bound {bound}; a certifying estimator gives a number")
    return estimate.epsilon, bound
