"""From the plan of an audit to rehearsals: which cells can be held against a known truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dpframe.calibration.rehearsal import Part, Rehearsal
from dpframe.engine.addresses.address import draw_group
from dpframe.engine.checks.guard import guarded
from dpframe.engine.passes.inquiry import share_of_error
from dpframe.engine.planning.budgets import resolved
from dpframe.engine.planning.plan import arrange
from dpframe.errors import CellError
from dpframe.estimator import Estimator, Query
from dpframe.spec.audit import Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.claims import Claim
    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.spec.audit import Cell, RunSettings


class Line(NamedTuple):
    """What one part of a rehearsal stands for."""

    cell: Cell
    raw: bool
    truth: Claim
    epsilon: float
    """The true ε at the cell's δ."""


class Rehearsals(NamedTuple):
    """All there is to repeat."""

    rehearsals: list[Rehearsal]
    lines: list[list[Line]]
    """Per rehearsal one line per part."""
    skipped: list[Skip]
    failed: list[tuple[Cell, str]]

    def certifying(self) -> Iterator[tuple[Part, RunSettings]]:
        """Every estimator that certifies from counts, once per kind of scores that it reads."""
        seen = set()
        for rehearsal in self.rehearsals:
            for part in rehearsal.parts:
                cell, precision = part.cell, rehearsal.run.precision
                key = (cell.estimator.value, cell.attack.value.gives, cell.confidence, precision)
                if part.certifies and not part.raw and key not in seen:
                    seen.add(key)
                    yield part, rehearsal.run


def rehearsals_of(plans: Sequence[Plan]) -> Rehearsals:
    """Arranges the cells of plans; those that share draws become one rehearsal.

    Pilots and learners get as many draws as the spec says, but no more than the audit itself.
    A chunk is as small as the number of trials allows, unless the spec says how large it is.
    """
    found = Rehearsals([], [], [], [])
    for plan in plans:
        found.skipped.extend(plan.skipped)
        found.failed.extend(plan.failed)
        for the_pass in plan.passes:
            for cells in _lanes(the_pass):
                _add(found, the_pass, cells, plan)
    return found


def _lanes(the_pass: Pass) -> Iterator[list[Cell]]:
    lanes: dict[int, list[Cell]] = {}
    for cell, place in the_pass.cells:
        lanes.setdefault(place.lane, []).append(cell)
    yield from lanes.values()


def _add(found: Rehearsals, the_pass: Pass, cells: list[Cell], plan: Plan) -> None:
    run, mechanism = plan.audit.run, cells[0].mechanism.value
    try:
        truth = guarded("truth", lambda: mechanism.truth(the_pass.pair))
    except CellError as error:
        found.failed.extend((cell, str(error)) for cell in cells)
        return
    lines: list[Line] = []
    for cell in cells:
        epsilon = None if truth is None else truth.epsilon_at(cell.delta)
        reason = _unusable(cell, epsilon)
        if truth is None or epsilon is None or reason is not None:
            found.skipped.append(_skip(cell, reason or ""))
            continue
        lines.append(Line(cell, False, truth, epsilon))
        own = type(cell.estimator.value).estimate_scores is not Estimator.estimate_scores
        if own and cell.attack.value.gives == "score":
            lines.append(Line(cell, True, truth, epsilon))
    if not lines:
        return
    found.lines.append(lines)
    found.rehearsals.append(
        Rehearsal(
            the_pass=_small(the_pass, [line.cell for line in lines if not line.raw], plan),
            run=_settings(run, the_pass),
            prng=plan.prng,
            parts=tuple(_part(line, plan) for line in lines),
        )
    )


def _settings(run: RunSettings, the_pass: Pass) -> RunSettings:
    """Those of the pass, with no more draws to learn from than are counted."""
    run = resolved(run, the_pass.mechanisms[0], the_pass.trials)
    fit, pilot = (min(asked or 0, the_pass.trials) for asked in (run.fit, run.pilot))
    return run._replace(fit=fit, pilot=pilot)


def _small(the_pass: Pass, cells: list[Cell], plan: Plan) -> Pass:
    """The pass with chunks as small as the number of trials allows."""
    run, rows = plan.audit.run, the_pass.rows
    if run.chunk is None and not the_pass.slow:
        rows = min(rows, 1 << (the_pass.trials - 1).bit_length())
    group = draw_group(
        cells[0], data=the_pass.data, precision=run.precision, prng=plan.prng, rows=rows
    )
    stream = the_pass.stream._replace(group=group)
    return arrange(stream, the_pass.trials, rows, the_pass.shape, the_pass.data, cells)


def _unusable(cell: Cell, epsilon: float | None) -> str | None:
    if epsilon is None:
        return f"the true ε of {cell.mechanism.label} is not known for this pair"
    if epsilon == float("inf"):
        return (
            f"the true ε of {cell.mechanism.label} at δ = {cell.delta:g} is infinite, and no bound "
            "can be above it"
        )
    return None


def _part(line: Line, plan: Plan) -> Part:
    cell, estimator = line.cell, line.cell.estimator.value
    certifies = estimator.certifies_against(cell.claim)
    # p-values cost more than all the rest, so the claim is kept back unless certifying needs it.
    needed = certifies and not estimator.certifies_against(None)
    trials = (cell.trials, cell.trials)
    return Part(
        cell=cell,
        query=Query(
            trials, cell.delta, 1 - share_of_error(cell, plan), cell.claim if needed else None
        ),
        certifies=certifies,
        raw=line.raw,
    )


def _skip(cell: Cell, reason: str) -> Skip:
    labels = (cell.mechanism.label, cell.pair.label, cell.attack.label, cell.estimator.label)
    return Skip(*labels, swept=cell.swept, reason=reason)
