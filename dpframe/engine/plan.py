"""What a run will do: which cells share draws, which cannot run, how many claims are tested."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.engine.chunks import rows_per_chunk
from dpframe.engine.keys import EVAL, Stream, draw_group
from dpframe.engine.lanes import Scorer, structure
from dpframe.engine.shapes import Shape, Tracer
from dpframe.errors import CellError
from dpframe.spec.audit import Skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.mechanism import HostMechanism, Mechanism
    from dpframe.pair import Pair
    from dpframe.spec.audit import Audit, Cell
    from dpframe.statistic import Statistic


class Place(NamedTuple):
    """Where a cell's counts stand in its pass."""

    lane: int
    scorer: int
    attack: int


@dataclasses.dataclass(frozen=True)
class Pass:
    """One set of draws and everything that is counted on it."""

    stream: Stream
    trials: int
    rows: int
    shape: Shape
    pair: Pair
    mechanisms: tuple[Mechanism | HostMechanism, ...]
    """One per lane."""
    scorers: tuple[Scorer, ...]
    cells: tuple[tuple[Cell, Place], ...]

    @property
    def elements(self) -> int:
        """Coordinates of one output."""
        return math.prod(self.shape.dims)

    @property
    def draws(self) -> int:
        """Random coordinates drawn, on both datasets."""
        return 2 * self.trials * max(1, self.elements)

    def alone(self) -> list[Pass]:
        """The pass taken apart, one cell each; addresses of draws, and so counts, stay."""
        return [
            dataclasses.replace(
                self,
                mechanisms=(self.mechanisms[place.lane],),
                scorers=(
                    Scorer(
                        (self.scorers[place.scorer].attacks[place.attack],),
                        self.scorers[place.scorer].statistic,
                    ),
                ),
                cells=((cell, Place(0, 0, 0)),),
            )
            for cell, place in self.cells
        ]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that is decided before the first draw."""

    audit: Audit
    passes: tuple[Pass, ...]
    failed: tuple[tuple[Cell, str], ...]
    """Cells whose mechanism or attack cannot even be traced, with the reason."""
    skipped: tuple[Skip, ...]
    m: int
    """Cells with a claim and a certifying estimator, failed ones included."""
    bounds: int
    """Cells with a certifying estimator, claimed or not: all bounds that must hold together."""
    prng: str
    """Name of the generator."""


def plan(audit: Audit, prng: str) -> Plan:
    """Arranges the cells of an audit into passes over shared draws.

    Args:
        audit: the validated spec.
        prng: name of the generator, as JAX knows it.
    """
    tracer = Tracer(audit.run, prng)
    skipped, failed = list(audit.skipped), []
    together: dict[tuple[Stream, int], list[tuple[Cell, Shape, int, Statistic]]] = {}
    m = bounds = 0
    for cell in audit.cells:
        statistic = cell.estimator.value.statistic()
        try:
            shape = tracer.output_shape(cell)
            kind = "decision" if tracer.decides(cell, shape) else "score"
            problem = None
        except CellError as error:
            kind, problem = None, str(error)
        if kind is not None and kind not in statistic.accepts:
            wanted = " or ".join(sorted(statistic.accepts))
            reason = f"{cell.attack.label} gives a {kind}, {cell.estimator.label} takes a {wanted}"
            skipped.append(_skip(cell, reason))
            continue
        certified = cell.estimator.value.certifies_against(cell.claim)
        bounds += certified
        m += certified and cell.claim is not None
        if problem is not None:
            failed.append((cell, problem))
            continue
        rows = audit.run.chunk or rows_per_chunk(shape.dims)
        group = draw_group(cell, precision=audit.run.precision, prng=prng, rows=rows)
        stream = Stream(cell.seed, group, cell.repeat, EVAL)
        together.setdefault((stream, cell.trials), []).append((cell, shape, rows, statistic))
    passes = tuple(_arrange(stream, trials, rows) for (stream, trials), rows in together.items())
    return Plan(audit, passes, tuple(failed), tuple(skipped), m, bounds, prng)


def _arrange(
    stream: Stream, trials: int, members: Sequence[tuple[Cell, Shape, int, Statistic]]
) -> Pass:
    lanes: dict[Any, int] = {}
    scorers: dict[tuple[Any, Statistic], dict[Any, int]] = {}
    cells = []
    for cell, _, _, statistic in members:
        lane = lanes.setdefault(cell.mechanism.value, len(lanes))
        key = (structure(cell.attack.value), statistic)
        attacks = scorers.setdefault(key, {})
        attack = attacks.setdefault(cell.attack.value, len(attacks))
        cells.append((cell, Place(lane, list(scorers).index(key), attack)))
    first, shape, rows, _ = members[0]
    return Pass(
        stream=stream,
        trials=trials,
        rows=rows,
        shape=shape,
        pair=first.pair.value,
        mechanisms=tuple(lanes),
        scorers=tuple(Scorer(tuple(attacks), stat) for (_, stat), attacks in scorers.items()),
        cells=tuple(cells),
    )


def _skip(cell: Cell, reason: str) -> Skip:
    labels = (cell.mechanism.label, cell.pair.label, cell.attack.label, cell.estimator.label)
    return Skip(*labels, swept=cell.swept, reason=reason)
