"""Whether two runs of a cell differ by more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpframe.record.model import CellRecord
    from dpframe.report.diff.match import Match

    Floats = npt.NDArray[np.float64]

LEVEL = 0.01
"""How likely it is at most that any cell is said to differ although none does."""

_AT_MOST_ONE = {"DecisionCounts", "BinCounts", "PilotBins", "PilotGrid", "ThresholdCounts"}
"""Statistics to each of whose counts a draw adds one or nothing."""


def comparable(match: Match) -> bool:
    """Whether both runs counted the same events, so that their counts can be compared."""
    old, new = match
    return (
        old.statistic == new.statistic
        and old.statistic.get("name") in _AT_MOST_ONE
        and (counts := _counts(old)) is not None
        and (others := _counts(new)) is not None
        and counts.shape == others.shape
    )


def differ(match: Match, tests: int) -> bool:
    """Whether the probability of some event is another one in the new run, beyond chance.

    Each count is binomial. Of two with the same probability, one confidence interval
    [Clopper1934] lies beside the other with probability at most four times the error of an
    interval's side: one of four limits must have failed. That is paid for by the number of
    events, of datasets and of cells; the runs may share draws.

    Args:
        match: comparable runs of a cell.
        tests: number of cells that are compared.
    """
    old, new = _counts(match.old), _counts(match.new)
    if old is None or new is None or (old / _trials(match.old) == new / _trials(match.new)).all():
        return False
    error = LEVEL / (4 * old.size * tests)
    low, high = _limits(old, match.old, error)
    other_low, other_high = _limits(new, match.new, error)
    return bool(((low > other_high) | (other_low > high)).any())


def apart(match: Match) -> bool:
    """Whether what the attack shows lies beside what it showed: no value is within both limits.

    For runs that counted different events. Limits of chosen thresholds are none of the attack.
    """
    limits = []
    for cell in match:
        estimate = cell.estimate
        if estimate is None or estimate.epsilon_upper_of not in ("every event", "every cut"):
            return False
        if estimate.epsilon_lower is None or estimate.epsilon_upper is None:
            return False
        limits.append((estimate.epsilon_lower, estimate.epsilon_upper, estimate.delta))
    (low, high, delta), (other_low, other_high, other_delta) = limits
    return delta == other_delta and (low > other_high or other_low > high)


def _counts(cell: CellRecord) -> Floats | None:
    """Counts, shape [2, k], if that is what they are."""
    try:
        counts = np.asarray(cell.counts, np.float64)
    except (TypeError, ValueError):
        return None
    if counts.ndim < 2 or len(counts) != 2 or not all(cell.trials):
        return None
    counts = counts.reshape(2, -1)
    if counts.shape[1] == 2 and (counts.sum(axis=1, keepdims=True) == _trials(cell)).all():
        counts = counts[:, :1]  # the other decision is the rest, and no event of its own
    whole = (counts == np.floor(counts)) & (counts >= 0) & (counts <= _trials(cell))
    return counts if whole.all() else None


def _trials(cell: CellRecord) -> Floats:
    return np.asarray(cell.trials, np.float64)[:, None]


def _limits(counts: Floats, cell: CellRecord, error: float) -> tuple[Floats, Floats]:
    trials = np.broadcast_to(_trials(cell), counts.shape)
    return (
        clopper_pearson_lower(counts, trials, error),
        clopper_pearson_upper(counts, trials, error),
    )
