"""Small searches that many tests share: their programs are compiled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe import Neighbourhood, Pair
from dpframe.interfaces.plain import Values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Earned


class Three(Neighbourhood, name="three"):
    """A pair in which little differs, one in which all does, and one that is no pair."""

    adjacency = "replace one record"

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        if history:
            return ()
        ones = (1.0, 1.0, 1.0)
        return [Values(d0=ones, d1=other) for other in (ones, (0.0, 1.0, 1.0), (0.0, 0.0, 0.0))]

    def needs(self, pair: Pair) -> dict[str, dict[str, Any]]:
        return {"zeros": {"zeros": False}}


def spec(*mechanisms: Any, trials: int = 12_000, **more: Any) -> dict[str, Any]:
    """An audit that searches the three pairs.

    Args:
        mechanisms: names, or tables.
        trials: draws per dataset.
        more: tables of the spec.
    """
    tables = [
        {"use": m, "params": {"epsilon": 1.0, "sensitivity": 3.0}} if isinstance(m, str) else m
        for m in mechanisms
    ]
    return {
        "schema": 1,
        "audit": {"name": "search", "trials": trials, "confidence": 0.99},
        "search": {"use": "three"},
        "mechanism": tables,
        "attack": [{"use": "logistic"}],
        "run": {"chunk": 256},
        **more,
    }
