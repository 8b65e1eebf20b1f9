"""An audit of exact cells whose counts are told instead of drawn; the rest is the engine's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe import registry
from dpframe.calibration.exact import PLUGINS
from dpframe.engine.addresses.address import generator_name
from dpframe.engine.counts.ledger import Ledger
from dpframe.engine.counts.tally import Tally
from dpframe.engine.passes.estimate import estimate_cell
from dpframe.engine.planning.plan import plan
from dpframe.record.cell import cell_record
from dpframe.record.verdict import judged
from dpframe.spec import audit_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dpframe.engine.passes.estimate import Extremes
    from dpframe.engine.planning.plan import Pass, Place
    from dpframe.record.model import CellRecord
    from dpframe.spec.audit import Cell


class Numbers(NamedTuple):
    """How many bounds of each kind an audit has; they come in this order."""

    false: int = 0
    """Claims that any counts refute."""
    true: int = 0
    unclaimed: int = 0


class Whole:
    """One audit, to be repeated with other counts.

    Args:
        rate: FPR and FNR of every cell.
        trials: per dataset.
        confidence: of the audit.
        numbers: of cells.
        precision: of the sampler that did not draw.
        folder: where the looks of earlier audits at the same draws are written down.
    """

    def __init__(
        self,
        rate: float,
        trials: int,
        confidence: float,
        numbers: Numbers,
        precision: str = "float64",
        folder: Path | None = None,
    ) -> None:
        self.trials, self.truth = trials, math.log((1 - rate) / rate)
        document = {
            "schema": 1,
            "audit": {"name": "together", "trials": trials, "confidence": confidence},
            "pair": {"use": "zeros-ones"},
            "mechanism": _mechanisms(self.truth, numbers),
            "attack": [{"use": "side"}],
            "estimator": [{"use": "one-limit", "params": {"rate": rate}}],
            "run": {"precision": precision},
        }
        loaded = audit_from_dict(
            document, overrides=(), trials=None, seed=None, registry=registry.load(PLUGINS)
        )
        self.plan = plan(loaded, generator_name(loaded.run.prng))
        self.ledger = Ledger([folder] if folder else [])
        places = {
            cell.id: (cell, place, the_pass)
            for the_pass in self.plan.passes
            for cell, place in the_pass.cells
        }
        self.places = [places[cell.id] for cell in loaded.cells]
        self._made: dict[tuple[str, int], CellRecord] = {}
        self._extremes: Extremes = {}

    def judged(self, counts: Iterable[int]) -> list[CellRecord]:
        """The cells of the record, in order.

        Args:
            counts: false positives, one number per cell.
        """
        cells = [self._cell(*of, int(k)) for of, k in zip(self.places, counts, strict=True)]
        return judged(cells, self.plan.m, self.plan.audit.multiplicity)

    def exceeds(self, cell: CellRecord) -> bool:
        """Whether a bound lies above the truth."""
        return cell.estimate is None or (cell.estimate.epsilon_lower or 0.0) > self.truth

    def _cell(self, cell: Cell, place: Place, the_pass: Pass, false: int) -> CellRecord:
        """The record of a cell; of two that claim the same and count the same it is the same."""
        key = (repr(cell.claim), false)
        if key not in self._made:
            told: Any = _Told(the_pass, self.trials, place, false)
            self._made[key] = cell_record(
                estimate_cell(cell, place, told, self.plan, self.ledger, 0.0, self._extremes)
            )
        return self._made[key]


class _Told:
    """What is asked of a pass at work, for counts that nobody counted."""

    notes = ()
    layouts = ((),)

    def __init__(self, the_pass: Pass, trials: int, place: Place, false: int) -> None:
        self.the_pass = the_pass
        counts = np.zeros((place.lane + 1, 1, 2, 2), np.int64)
        counts[place.lane, 0] = [[trials - false, false], [0, trials]]
        self.tally = Tally((counts,), (1, 1), trials)


def _mechanisms(truth: float, numbers: Numbers) -> list[dict[str, Any]]:
    claims = [truth / 10] * numbers.false + [truth] * numbers.true
    params: list[dict[str, float]] = [{"epsilon": truth, "claimed": claim} for claim in claims]
    params += [{"epsilon": truth}] * numbers.unclaimed
    return [
        {"use": "coin", "label": f"coin {number}", "params": own}
        for number, own in enumerate(params, start=1)
    ]
