"""What is exactly known of counts before anything is drawn: how likely each bin is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.guard import guarded
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism, Mechanism

if TYPE_CHECKING:
    from dpframe.spec.audit import Cell
    from dpframe.types import Floats

NONE = (Mechanism.cdf, HostMechanism.cdf)
"""Of mechanisms that give none."""
MOST = 256
"""Bins; of more a record would grow by more than a figure can show."""
SLACK = 1e-9
"""By which rounding may take a probability below another."""


def exact_shares(cell: Cell, counts: Any, edges: Any) -> list[list[float]] | None:
    """Probability of each bin of `BinCounts` on D and on D′; None where it is not known.

    It is no finding and judges nothing: figures draw it beside what was counted.

    Args:
        cell: what was counted.
        counts: of each bin, the first of NaN, shape [2][k + 2].
        edges: of the bins, as the statistic describes them, shape [k].

    Raises:
        CellError: `cdf` raised something, or gave no distribution function.
    """
    mechanism, pair = cell.mechanism.value, cell.pair.value
    if not cell.attack.value.hands_out or type(mechanism).cdf in NONE:
        return None
    if (
        not isinstance(edges, list)
        or len(edges) + 2 > MOST
        or np.shape(counts) != (2, len(edges) + 2)
    ):
        return None
    places = np.array([float(edge) for edge in edges], np.float32)
    if np.isnan(places).any():
        return None
    # A score at an edge is above it, so what counts is the probability below.
    below = np.nextafter(places, -np.inf, dtype=np.float32)
    x = np.append(np.maximum.accumulate(below.astype(float)), np.inf)
    found = []
    for data in (pair.d0, pair.d1):

        def given(data: Any = data) -> Any:
            return mechanism.cdf(data, x.copy())

        if (values := guarded("cdf", given)) is None:
            return None
        cumulated = np.concatenate([[0.0], _checked(values, len(x))])
        found.append([1 - float(cumulated[-1]), *np.diff(cumulated).tolist()])
    return found


def _checked(given: Any, length: int) -> Floats:
    """Raises CellError unless it is a distribution function at ascending places."""
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (length,):
        raise CellError(f"cdf gave shape {values.shape} for {length} numbers")
    steps = np.diff(np.concatenate([[0.0], values, [1.0]]))
    if not (steps >= -SLACK).all():
        raise CellError("cdf gave no distribution function: it must rise from 0 to at most 1")
    return np.maximum.accumulate(np.clip(values, 0, 1))
