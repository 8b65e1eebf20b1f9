"""What is wrong with a spec although it can be run: expectations that nothing can meet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dpframe.commands.audit import make_plan
from dpframe.engine.boxes.processes import available_cores
from dpframe.engine.planning.memory import Footprint
from dpframe.errors import SpecError
from dpframe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.engine.planning.plan import Plan
    from dpframe.spec.audit import Audit, Cell


def check(loaded: Audit) -> int:
    """Looks for expectations that cannot be met, whatever is drawn.

    Returns:
        About how many bytes of memory a run takes.

    Raises:
        SpecError: there are such expectations; each with the reason, those alike once.
        DpframeError: this machine has not the memory.
    """
    plan = make_plan(loaded)
    found = Counter(_unmeetable(plan))
    if found:
        where = f"{loaded.source.path}: expect: " if loaded.source.path else "expect: "
        counted = [f"{text} ({n} cells)" if n > 1 else text for text, n in found.items()]
        raise SpecError([printable(f"{where}{text}") for text in counted])
    return Footprint(plan, available_cores()).bytes


def _unmeetable(plan: Plan) -> Iterator[str]:
    for skip in plan.skipped:
        if skip.expected is not None:
            name = " · ".join((skip.mechanism, skip.attack, skip.estimator))
            yield f"{name}: expected {skip.expected}, but left out: {skip.reason}"
    for cell, reason in plan.failed:
        if cell.expected is not None:
            yield f"{_name(cell)}: expected {cell.expected}, but cannot be run: {reason}"
    for the_pass in plan.passes:
        for cell, _ in the_pass.cells:
            if cell.expected is not None and (silence := _without_verdict(cell)):
                yield f"{_name(cell)}: expected {cell.expected}, but gets no verdict: {silence}"


def _without_verdict(cell: Cell) -> str | None:
    if cell.claim is None:
        return "nothing is claimed"
    if not cell.estimator.value.certifies_against(cell.claim):
        return f"{cell.estimator.label} certifies nothing here"
    return None


def _name(cell: Cell) -> str:
    return " · ".join((cell.mechanism.label, cell.attack.label, cell.estimator.label))
