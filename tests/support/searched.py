"""Searches of black boxes in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.commands.audit import load, make_plan
from dpframe.draw.in_process import InProcessWorkers
from dpframe.engine import run as engine

if TYPE_CHECKING:
    from dpframe.results.model import CellRecord


def found_by(
    mechanism: Any,
    neighbourhood: Any,
    seed: int = 0,
    trials: int = 8_000,
    given: Any = None,
    **search: Any,
) -> CellRecord:
    """Search a mechanism until it is decided.

    Args:
        mechanism: class of the black box.
        neighbourhood: its class, or the name of a built-in one.
        seed: of the audit.
        trials: draws of each dataset.
        given: parameters of the mechanism.
        search: keys of [search].
    """
    spec = {
        "schema": 1,
        "audit": {"name": "found", "trials": trials, "confidence": 0.999, "seed": seed},
        "search": {"use": getattr(neighbourhood, "name", neighbourhood), **search},
        "mechanism": [{"use": mechanism.name, "params": given or {}}],
        "run": {"stop": "decided"},
    }
    own = [] if isinstance(neighbourhood, str) else [neighbourhood]
    loaded = load(spec, plugins=[mechanism, *own])
    (cell,) = engine.run(make_plan(loaded), source=InProcessWorkers(), threads=1)
    return cell
