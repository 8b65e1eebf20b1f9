"""A real record with everything in it that a record can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.small_audits import PLUGINS, ROWS, document

from dpframe import Estimate, Estimator
from dpframe.commands.audit import load, make_plan, make_record
from dpframe.engine.run import run

if TYPE_CHECKING:
    from dpframe.results.model import Record


class Broken(Estimator, name="broken"):
    """Fails every cell."""

    certifies = True
    assumption = "nothing"

    def statistic(self) -> Any:
        return PLUGINS[-1]().statistic()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        raise RuntimeError("no")


@pytest.fixture(scope="session")
def recorded() -> Record:
    """Violated and consistent claims, no claim, no bound, a curve, a failure, what was skipped."""
    spec = document(
        audit={"trials": 40 * ROWS, "delta": 1e-5},
        mechanism=[
            {"use": "flip", "params": {"epsilon": 1.0}},
            {"use": "gaussian", "params": {"sigma": 2.0}},
        ],
        attack=[{"use": "above"}, {"use": "identity"}],
        estimator=[{"use": "precision"}, {"use": "totals"}, {"use": "broken"}],
        expect=[{"where": {"mechanism": "flip"}, "verdict": "violated"}],
    )
    plan = make_plan(load(spec, plugins=[*PLUGINS, Broken]))
    return make_record(plan, run(plan), 0.5)
