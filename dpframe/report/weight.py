"""What was certified of a cell, next to what is claimed: which cell is the worst."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dpframe.report import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.record.model import CellRecord


class Weight(NamedTuple):
    """A certified bound beside a claim, both in nats."""

    lower: float
    claimed: float
    delta: float | None
    """At which δ, if not at the one that the cell is about."""

    @property
    def ratio(self) -> float:
        """Certified divided by claimed: 0 where nothing is certified, or claimed is ∞."""
        if self.lower <= 0:
            return 0.0
        return self.lower / self.claimed if self.claimed > 0 else math.inf


def weight(cell: CellRecord) -> Weight | None:
    """Bound and claim of a cell; None where one of them is missing.

    A claim that is a curve may be refuted at another δ than the one asked for. Then bound and
    claim are those of the δ that says most.
    """
    estimate, claim = cell.estimate, cell.claim
    if estimate is None or claim is None or estimate.epsilon_lower is None:
        return None
    found = Weight(estimate.epsilon_lower, claim.epsilon, None)
    if cell.basis is not None and found.lower <= found.claimed:
        contrast = cell.basis.contrast
        elsewhere = Weight(contrast.lower, contrast.claimed, contrast.delta)
        if math.isfinite(elsewhere.lower) and elsewhere.lower > elsewhere.claimed:
            return elsewhere
    return found


def worst(cells: Iterable[CellRecord]) -> CellRecord | None:
    """The cell that speaks most against its mechanism.

    Violated cells go before others. Among them, and among the others, the largest certified bound
    divided by the claim; where no cell has both, the largest bound; where none has a bound, the
    largest estimate. Of equals the first.
    """
    ran = [cell for cell in cells if cell.estimate is not None]
    return max(ran, key=_gravity, default=None)


def _gravity(cell: CellRecord) -> tuple[float, ...]:
    found, estimate = weight(cell), cell.estimate
    lower = epsilon = -1.0
    if estimate is not None:
        lower = -1.0 if estimate.epsilon_lower is None else estimate.epsilon_lower
        epsilon = -1.0 if math.isnan(estimate.epsilon) else estimate.epsilon
    ratio = -1.0 if found is None else found.ratio
    return cell.verdict == "violated", ratio, lower, epsilon


MOST_DIGITS = 8


def measure(cell: CellRecord) -> str:
    """What was certified of a cell and what is claimed, bounds rounded down."""
    estimate, found = cell.estimate, weight(cell)
    if estimate is None:
        return "could not be run"
    if found is None and estimate.epsilon_lower is None:
        return f"nothing certified; estimated {words.point(estimate.epsilon)}"
    if found is None:
        return f"certified {words.lower(estimate.epsilon_lower)}, nothing claimed"
    lower, claimed = told_apart(found.lower, found.claimed)
    if found.lower <= 0:  # "certified 0" could be taken for a loss of 0
        return f"nothing certified, claimed {claimed}"
    at = "" if found.delta is None else f" at δ = {words.setting(found.delta)}"
    return f"certified {lower} of claimed {claimed}{at}"


def told_apart(lower: float, claimed: float) -> tuple[str, str]:
    """A bound and a claim, in as many digits as it takes to see which of them is larger."""
    for digits in range(3, MOST_DIGITS):
        shown = words.lower(lower, digits), words.brief(claimed, digits)
        if (lower > claimed) == (_float(shown[0]) > _float(shown[1])):
            break
    return shown


def _float(text: str) -> float:
    return float(text.replace("∞", "inf").replace("–", "nan"))
