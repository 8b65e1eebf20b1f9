"""Limits of both error rates of some ways of deciding, which share an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper
from dpframe.stats.jeffreys import jeffreys_lower, jeffreys_upper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Floats, Ints
    from dpframe.builtin.estimators.threshold._deciding import Decisions

Limits = Literal["clopper-pearson", "jeffreys"]


def upper_rates(ways: Sequence[Decisions], error: float, limits: Limits) -> Floats:
    """Upper limits (FPR, FNR) of each of k ways, shape [k, 2]; each has 1/2k of the error."""
    limit = {"clopper-pearson": clopper_pearson_upper, "jeffreys": jeffreys_upper}[limits]
    return limit(*_counted(ways), error / (2 * len(ways)))


def lower_rates(ways: Sequence[Decisions], error: float, limits: Limits) -> Floats:
    """Lower limits (FPR, FNR) of each of k ways, shape [k, 2]; each has 1/2k of the error."""
    limit = {"clopper-pearson": clopper_pearson_lower, "jeffreys": jeffreys_lower}[limits]
    return limit(*_counted(ways), error / (2 * len(ways)))


def _counted(ways: Sequence[Decisions]) -> tuple[Ints, Ints]:
    return np.stack([way.wrong for way in ways]), np.stack([way.trials for way in ways])
