"""Verdicts: which claims are violated once the number of claims tested is paid for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.stats.holm import bonferroni, holm

if TYPE_CHECKING:
    from collections.abc import Sequence


VIOLATED, CONSISTENT, INCONCLUSIVE = "violated", "consistent", "inconclusive"
VERDICTS = (VIOLATED, CONSISTENT, INCONCLUSIVE)


class Evidence(NamedTuple):
    """What one cell brings to the verdict."""

    p_value: float
    p_resolved: float
    """The p-value once every error rate is raised by what the sampler resolves."""
    p_extreme: float
    """The p-value of the most extreme counts possible."""
    p_extreme_resolved: float
    """`p_resolved` of the most extreme counts possible."""
    error: float
    """Family-wise error, 1 − confidence."""
    delta: float
    """The δ of the estimate."""
    lower: float
    """Certified bound on ε at that δ."""
    upper: float
    """The most that the attack can show there."""
    contrast: tuple[float, float, float]
    """(δ, bound, claimed ε) where the claim is clearest."""
    trials: int
    price: int = 1
    """Factor by which an earlier look at the same draws divides the error of this one."""
    level: float = 0.0
    """Error of the bound alone; 0 if it is not known."""


class Judgement(NamedTuple):
    """A verdict with its reason."""

    verdict: str
    p_adjusted: float
    reason: str


def judge(cells: Sequence[Evidence], m: int, multiplicity: str) -> list[Judgement]:
    """Judges all cells of an audit together.

    Args:
        cells: those with a claim and a certifying estimator that could be run.
        m: number of such cells planned, failed ones included.
        multiplicity: "holm", "bonferroni" or "none".
    """
    adjusted = _adjust([cell.p_value * cell.price for cell in cells], m, multiplicity)
    resolved = _adjust([cell.p_resolved * cell.price for cell in cells], m, multiplicity)

    def factor(error: float) -> int:
        """What the p-value of the most extreme counts would be multiplied by, at this error."""
        left = m - sum(p <= error for p in resolved)
        return {"holm": max(1, left), "bonferroni": m, "none": 1}[multiplicity]

    factors = {error: factor(error) for error in {cell.error for cell in cells}}
    return [
        _judge(cell, p, p_resolved, factors[cell.error])
        for cell, p, p_resolved in zip(cells, adjusted, resolved, strict=True)
    ]


def _adjust(p_values: list[float], m: int, multiplicity: str) -> list[float]:
    paid = [min(p, 1.0) for p in p_values]
    if multiplicity == "none":
        return paid
    adjust = {"holm": holm, "bonferroni": bonferroni}[multiplicity]
    return [float(p) for p in adjust(paid, m)]


def _judge(cell: Evidence, adjusted: float, resolved: float, factor: int) -> Judgement:
    if resolved <= cell.error:
        return Judgement(VIOLATED, adjusted, _violated(cell))
    if adjusted <= cell.error:
        return Judgement(
            INCONCLUSIVE,
            adjusted,
            _TOO_RARE,
        )
    if cell.p_extreme_resolved * cell.price * factor > cell.error:
        enough = cell.p_extreme * cell.price * factor <= cell.error
        delta, _, claimed = cell.contrast
        return Judgement(
            INCONCLUSIVE,
            adjusted,
            f"even the most extreme counts possible in {cell.trials:,} trials would not reject "
            f"ε = {claimed:.4g} at δ = {delta:.3g}; "
            + (_TOO_RARE if enough else "more trials are needed"),
        )
    return Judgement(CONSISTENT, adjusted, f"no violation found; {_shown(cell)}")


_TOO_RARE = (
    "the deciding event is rarer than float32 sampling resolves: "
    'repeat with [run] precision = "float64"'
)


def _violated(cell: Evidence) -> str:
    delta, lower, claimed = cell.contrast
    if lower > claimed:
        return f"loss certified above {lower:.4g} at δ = {delta:.3g}, claimed {claimed:.4g}"
    if cell.p_value <= cell.level:
        return (
            "certified error rates lie below the claimed curve as a whole, although at no single δ "
            f"that was looked at; nearest at δ = {delta:.3g}: certified {lower:.4g}, claimed "
            f"{claimed:.4g}"
        )
    return (
        f"the claim ε = {claimed:.4g} at δ = {delta:.3g} is rejected by the step-down test; the "
        f"bound that holds together with all others, {lower:.4g}, is not above it"
    )


def _shown(cell: Evidence) -> str:
    upper = f"at most {cell.upper:.4g}" if math.isfinite(cell.upper) else "without an upper limit"
    return (
        f"this attack shows a loss of at least {cell.lower:.4g} and {upper} at "
        f"δ = {cell.delta:.3g}; another attack may show more"
    )


MET, UNMET, NOT_RUN = 0, 1, 3


def exit_code(record: dict[str, Any]) -> int:
    """Exit code of a run.

    Returns:
        3 if a cell could not be run; else 1 if a cell misses its expected verdict, or is violated
        without being expected to; else 0.
    """
    cells = record["cells"]
    if any(cell["status"] == "failed" for cell in cells):
        return NOT_RUN
    return UNMET if any(surprising(cell) for cell in cells) else MET


def surprising(cell: dict[str, Any]) -> bool:
    """Whether a cell's verdict is not what the spec expects of it."""
    if cell["expected"] is not None:
        return bool(cell["verdict"] != cell["expected"])
    return bool(cell["verdict"] == VIOLATED)
