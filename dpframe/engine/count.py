"""Counts one shard of a plan, and judges nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dpframe.engine.boxes.workers import Workers
from dpframe.engine.counts.checkpoint import Store
from dpframe.engine.counts.ledger import Ledger
from dpframe.engine.run import Runner, quiet, threads_here
from dpframe.record.result import CellResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.engine.addresses.share import Shard
    from dpframe.engine.boxes.lending import Source
    from dpframe.engine.passes.work import Work
    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.engine.run import Progress


def count(
    plan: Plan,
    shard: Shard,
    store: Store,
    progress: Progress = quiet,
    source: Source | None = None,
) -> dict[str, str]:
    """Counts a shard; however it ends, what was counted is in the store.

    Nobody is shown anything of the draws, so that this is no look at them.

    Args:
        plan: of the whole run.
        shard: which part of it.
        store: counts to go on from, and where to keep new ones.
        progress: called from this thread as the work goes on.
        source: where outputs of black boxes come from; default: worker processes that end with it.

    Returns:
        Why cells could not be counted, by id.
    """
    with contextlib.ExitStack() as stack:
        source = source or stack.enter_context(Workers(interpreters=plan.audit.interpreters))
        counter = _Counter(plan, progress, store, threads_here(), Ledger(), source)
        counter.shard = shard
        waiting: Sequence[Pass] = owned(plan, shard)
        while waiting:
            waiting = counter.run(waiting)
        counter.search([cell for n, cell in enumerate(plan.searches) if shard.owns(n)])
    return {
        cell: result.reason for cell, result in counter.results.items() if result.reason is not None
    }


def owned(plan: Plan, shard: Shard) -> list[Pass]:
    """The passes of which a shard has a part."""
    bets = [the_pass for the_pass in plan.passes if the_pass.anytime]
    whole = [the_pass for n, the_pass in enumerate(bets) if shard.owns(n)]
    divided = [the_pass for the_pass in plan.passes if not the_pass.anytime]
    return whole + [one for one in divided if shard.chunks(one.trials, one.rows)]


class _Counter(Runner):
    shard: Shard

    def _work(self, the_pass: Pass) -> Work:
        work = super()._work(the_pass)
        if not the_pass.anytime:
            work.window = self.shard.chunks(the_pass.trials, the_pass.rows)
        return work

    def _estimate(self, work: Work) -> None:
        for cell, _ in work.the_pass.cells:
            self.results[cell.id] = CellResult(cell=cell)
