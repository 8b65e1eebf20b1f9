"""Releases of black boxes: as many as were planned, and all of them counted."""

from __future__ import annotations

from typing import Any

import pytest
from support.black_boxes import BOXES, record, spec
from support.small_audits import PLUGINS, load

from dpframe.commands.audit import make_plan
from dpframe.draw.in_process import InProcessWorkers
from dpframe.engine.resources import planned_calls


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"estimator": [{"use": "order-statistics"}], "attack": [{"use": "identity"}]},
        {"sweep": {"mechanism.epsilon": [0.5, 1.0]}},
    ],
)
def test_as_many_releases_as_planned(tables: dict[str, Any]) -> None:
    document = spec({"use": "box"}, trials=100)
    document |= {"run": {"chunk": 16}, **tables}
    loaded, here = load(document, [*PLUGINS, *BOXES]), InProcessWorkers()
    plan = make_plan(loaded, source=here)
    planned = here.calls + sum(planned_calls(p, loaded.run) for p in plan.passes)
    assert record(document, InProcessWorkers())["summary"]["calls"] == planned
