"""The one check of counts that come in: from a thread, another machine, or a file.

Counts are integers of the shape of no counts, never negative. Most statistics also tell the number
of scores that they are of, which is known beforehand: every row of a chunk is counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.errors import WrongResultError
from dpframe.interfaces.checks import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.common.types import HostArray, Tree
    from dpframe.interfaces.statistic import Statistic

LARGEST = 1 << 62
"""No count is larger, so totals fit in 64 bits."""


def checked_counts(
    statistic: Statistic, found: Any, zero: Tree, trials: Any, lead: int = 0
) -> Tree:
    """Return counts as int64 if they can be counts of that many scores.

    Args:
        statistic: tells the number of scores in its counts, if it can.
        found: anything, such as the answer of a worker.
        zero: counts of nothing; every leaf [*lead, 2, …].
        trials: scores on each dataset, shape [2], or any that broadcasts to [*lead, 2].
        lead: number of axes before that of the dataset.

    Raises:
        WrongResultError: they cannot.
    """
    zeros: Any
    structure: Any
    zeros, structure = jax.tree.flatten(zero)
    try:
        leaves = structure.flatten_up_to(found)
    except Exception:  # whatever something unknown raises
        raise WrongResultError("counts of another structure") from None
    return counts_of_leaves(statistic, leaves, (zeros, structure), trials, lead)


def counts_of_leaves(
    statistic: Statistic,
    leaves: Any,
    zero: tuple[Sequence[HostArray], Any],
    trials: Any,
    lead: int = 0,
) -> Tree:
    """Return counts from a list of their leaves, which are nested lists in a file.

    Args:
        statistic: as for `checked_counts`.
        leaves: anything, such as what a file holds.
        zero: leaves and structure of counts of nothing.
        trials: as for `checked_counts`.
        lead: as for `checked_counts`.

    Raises:
        WrongResultError: they cannot be counts.
    """
    zeros, structure = zero
    if not isinstance(leaves, list | tuple) or len(leaves) != len(zeros):
        raise WrongResultError("counts of another structure")
    arrays = [integers(leaf, np.shape(own)) for leaf, own in zip(leaves, zeros, strict=True)]
    counts = jax.tree.unflatten(structure, arrays)
    sums = guarded("counted", statistic.counted, counts)
    wanted = np.asarray(trials, np.int64)
    # Any statistic counts less than 2³¹ in one call, which is of one score at least.
    most = wanted if sums is not None else np.where(wanted < LARGEST >> 31, wanted << 31, LARGEST)
    for leaf in arrays:
        limits = np.broadcast_to(most, leaf.shape[: lead + 1])
        if np.any(leaf > limits.reshape(limits.shape + (1,) * (leaf.ndim - lead - 1))):
            raise WrongResultError("more counts than there are scores")
    if sums is not None and guarded("counted", lambda: np.any(sums != wanted)):
        raise WrongResultError("counts that do not add up to the number of scores")
    return counts


def integers(found: Any, shape: tuple[int, ...] | None = None) -> HostArray:
    """Return an array of counts, or a nested list of them, as int64.

    Raises:
        WrongResultError: another shape, another type, or a number that is no count.
    """
    try:
        array = np.asarray(found)
    except Exception:  # not even rectangular, or something unknown
        raise WrongResultError("something that is no array") from None
    if array.dtype.kind not in "iu":
        raise WrongResultError(f"{array.dtype} in place of counts")
    if shape not in (None, array.shape):
        raise WrongResultError(f"counts of shape {array.shape} in place of {shape}")
    if array.size and (array.min() < 0 or array.max() > LARGEST):
        raise WrongResultError("counts below 0, or beyond all that could be counted")
    return array.astype(np.int64)
