"""What is exactly known of counts before anything is drawn: how likely each bin is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.checks.guard import guarded
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism, Mechanism

if TYPE_CHECKING:
    from dpframe.spec.audit import Cell
    from dpframe.types import Floats, HostArray

NONE = (Mechanism.cdf, HostMechanism.cdf)
"""Of mechanisms that give none."""
MOST = 256
"""Bins; of more a record would grow by more than a figure can show."""
SLACK = 1e-9
"""By which rounding may take a probability below another."""


def exact_shares(cell: Cell, counts: Any, statistic: dict[str, Any]) -> list[list[float]] | None:
    """Probability of each bin of the counts on D and on D′; None where it is not known.

    It is no finding and judges nothing: figures draw it beside what was counted.

    Args:
        cell: what was counted.
        counts: of each bin, the first of NaN, shape [2][k + 2]; or of scores that did not reach a
            threshold, NaN among them, and that did, shape [2][2].
        statistic: what describes it; `edges` of the bins, shape [k], or `threshold`.

    Raises:
        CellError: `cdf` raised something, or gave no distribution function.
    """
    mechanism, pair = cell.mechanism.value, cell.pair.value
    if not cell.attack.value.hands_out or type(mechanism).cdf in NONE:
        return None
    places = _places(counts, statistic)
    if places is None or np.isnan(places).any():
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
        nan, bins = 1 - float(cumulated[-1]), np.diff(cumulated).tolist()
        found.append([nan, *bins] if "edges" in statistic else [nan + bins[0], bins[1]])
    return found


def _places(counts: Any, statistic: dict[str, Any]) -> HostArray | None:
    """Where a bin ends and the next begins, shape [k]."""
    edges, threshold = statistic.get("edges"), statistic.get("threshold")
    if isinstance(edges, list) and len(edges) + 2 <= MOST:
        known = np.shape(counts) == (2, len(edges) + 2)
        return np.array([float(edge) for edge in edges], np.float32) if known else None
    if edges is None and isinstance(threshold, int | float):
        return np.array([threshold], np.float32) if np.shape(counts) == (2, 2) else None
    return None


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
