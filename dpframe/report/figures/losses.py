"""The numbers of some cells that are drawn as one point: claimed, exact, estimated, certified."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpframe.report.figures.published import Published
    from dpframe.report.group import Spot


def values(spot: Spot) -> list[float]:
    """What is estimated and what is certified."""
    found = [spot.mean("epsilon"), certified(spot)]
    return [value for value in found if value is not None]


def published(spot: Spot, beside: Published | None) -> float | None:
    """What was found elsewhere."""
    return None if beside is None else beside.of(spot.cells[0])


def certified(spot: Spot) -> float | None:
    """The bound; of replicates the least."""
    bounds = spot.estimates("epsilon_lower")
    return min(bounds) if bounds else None


def claimed(spot: Spot) -> float | None:
    """What is claimed of what was estimated."""
    return spot.claim if _single(spot) else None


def _single(spot: Spot) -> bool:
    """Whether one release is looked at: claim and truth in a record are those of one."""
    return all(cell.estimator.params.get("compositions", 1) == 1 for cell in spot.cells)


def exact(spot: Spot) -> float | None:
    """What is true of what was estimated, where it is known."""
    truths = [cell.truth.epsilon for cell in spot.cells if cell.truth is not None]
    return truths[0] if truths and _single(spot) else None
