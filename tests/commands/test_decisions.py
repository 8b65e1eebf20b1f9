"""The expected number of trials of bets agrees with the truth, if that is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr

import dpframe
from dpframe.commands.audit import load
from dpframe.commands.plan import outlook
from dpframe.stats.betting import growth_rate


def spec(*mechanisms: str, **run: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "audit": {"name": "t", "trials": 100_000},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": name, "params": {"epsilon": 1.0}} for name in mechanisms],
        "attack": [{"use": "identity"}],
        "estimator": [{"use": "betting"}],
        "run": run,
    }


def test_the_rate_is_the_distance_to_the_claim() -> None:
    q, p = np.array([0.1, 0.4]), np.array([0.5, 0.5])
    slope, delta = np.array([2.0]), np.array([0.0])
    grid = np.linspace(1e-4, 0.4999, 200_000)
    least = min(
        rel_entr(0.5, 2 * grid)
        + rel_entr(0.5, 1 - 2 * grid)
        + rel_entr(0.1, grid)
        + rel_entr(0.9, 1 - grid)
    )
    assert growth_rate(q, p, slope, delta) == pytest.approx(least, rel=1e-6)
    assert growth_rate(q[1:], p[1:], slope, delta) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_bounds")
def test_a_plan_says_when_a_wrong_claim_is_refuted() -> None:
    found = outlook(load(spec("laplace", "laplace-half-scale")), rehearse=False)["decisions"]
    (decision,) = found
    assert decision["claim"] == "laplace-half-scale · betting: ε = 1"
    record = dpframe.audit(spec("laplace-half-scale", stop="decided", chunk=1024))
    (cell,) = record.cells
    assert cell.verdict == "violated"
    # The best event is not known to the run, and it asks only now and then.
    assert 0.3 * decision["trials"] < cell.trials[0] < 8 * decision["trials"]
    assert math.isfinite(decision["trials"])
