"""What the engine hands over for each cell."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.record.looks import FIRST_LOOK, Looks

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.estimator import Estimate, Query
    from dpframe.pair import Pair
    from dpframe.spec.audit import Cell


class Witness(NamedTuple):
    """The event that earned most in a search, and what was drawn of it."""

    event: str
    """In words."""
    more_likely: str
    """Under which dataset: "D" or "D′"."""
    hits: tuple[int, int]
    """Draws with the event, on D and on D′."""
    trials: tuple[int, int]
    """Draws of the pair that the hits are of."""
    pairs: int
    """Pairs that were looked at."""
    pair_trials: int
    """Draws of each dataset of this pair."""


class Excess(NamedTuple):
    """A pair on which a query without noise changes more than the noise is made for."""

    kind: str
    """"change", "not a number", "shape" or "raises"."""
    pair: Pair
    words: str
    change: float | None = None
    sensitivity: float | None = None
    factor: float | None = None
    """Change over sensitivity; None where the change has no size."""


class Exactly(NamedTuple):
    """What a query without noise came to on all pairs."""

    norm: float
    pairs: int
    """Pairs that could be compared."""
    exceeding: int
    """Of these, how many exceed the sensitivity."""
    worst: tuple[Excess, ...]
    """The worst of each kind."""
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CellResult:
    """What became of a cell."""

    cell: Cell
    reason: str | None = None
    """Why it failed; None if it did not."""
    counts: Any = None
    """JSON lists, first axis the dataset."""
    trials: tuple[int, int] = (0, 0)
    statistic: dict[str, Any] = dataclasses.field(default_factory=dict)
    estimate: Estimate | None = None
    certified: bool = False
    query: Query | None = None
    truth: Claim | None = None
    """The exact curve of the mechanism for this pair, where it is known."""
    exact_shares: list[list[float]] | None = None
    """Probability of each bin on D and on D′, where it is known."""
    extreme: Estimate | None = None
    """The estimate from the most extreme counts possible; None where there is no verdict."""
    draws: int = 0
    """Releases counted, on both datasets together."""
    draw_group: str | None = None
    data: str | None = None
    """Digest of D and D′."""
    seconds: float = 0.0
    """Its share of the time that the draws and counts of its pass took."""
    estimate_seconds: float = 0.0
    """What the estimator took."""
    notes: tuple[str, ...] = ()
    looks: Looks = FIRST_LOOK
    witness: Witness | None = None
    """Of a search."""
    exact: Exactly | None = None
    """Of a mechanism that gives its query."""
