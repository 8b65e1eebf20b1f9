"""Which look at its draws a cell's question is, and at which level it is asked."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.addresses.address import digest, evidence_of
from dpframe.engine.checks.guard import guarded
from dpframe.engine.planning.fingerprint import question
from dpframe.errors import CellError
from dpframe.estimator import Query
from dpframe.mechanism import HostMechanism
from dpframe.record.looks import FIRST_LOOK, Looks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.counts.ledger import Ledger
    from dpframe.engine.passes.watch import Watch
    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.spec.audit import Cell
    from dpframe.types import Tree

FLOAT32_RESOLUTION = 1e-6
"""Events rarer than this measure float32 samplers, whose tails end and have gaps."""


def share_of_error(cell: Cell, plan: Plan) -> float:
    """With which probability one cell's bound may err, so that all bounds of the audit hold."""
    divide = max(1, plan.certifying_cells) if plan.audit.multiplicity != "none" else 1
    return (1 - cell.confidence) / divide


def resolution_of(cell: Cell, plan: Plan) -> float:
    """Probabilities below this measure the sampler; 0 where it has the precision of float64."""
    exact = plan.audit.run.precision == "float64" or isinstance(cell.mechanism.value, HostMechanism)
    return 0.0 if exact else FLOAT32_RESOLUTION


def query_of(
    cell: Cell, plan: Plan, trials: tuple[int, int] = (0, 0), looks: Looks = FIRST_LOOK
) -> Query:
    """What is asked of a cell's estimator."""
    return Query(
        trials=trials,
        delta=cell.delta,
        confidence=1 - share_of_error(cell, plan) / looks.price,
        claim=cell.claim,
        resolution=resolution_of(cell, plan),
    )


class Inquiry:
    """What a run asks of the draws of a pass.

    Args:
        the_pass: whose draws.
        plan: which cells the error is shared with.
        ledger: the looks at them.
    """

    def __init__(self, the_pass: Pass, plan: Plan, ledger: Ledger) -> None:
        self.the_pass, self.plan, self.ledger = the_pass, plan, ledger

    def look(self, cell: Cell, trials: tuple[int, int], counts: Any) -> Looks:
        """The look at all of the draws at once.

        Args:
            cell: who asks.
            trials: counted on each dataset.
            counts: JSON values.

        Raises:
            CellError: the claim cannot be asked.
        """
        asked = self._question(cell, trials, counts)
        return self.ledger.look(self._evidence(cell), asked, trials, known_as=self.the_pass.stream)

    def before(self, cell: Cell, rounds: Sequence[Tree]) -> tuple[Query, Looks]:
        """What is asked of an anytime cell before anything is drawn, and at which look.

        More draws are no other question: bets may go on. But what was drawn without a seed cannot
        be drawn again, and whoever draws other outputs after a verdict was shown has a second try.
        So there the question goes on only where all that was shown is still there to go on from.

        Args:
            cell: who asks.
            rounds: counts of the rounds that are stored.
        """
        try:
            asked = self._question(cell, (0, 0), None)
        except CellError:  # told when it is estimated
            return query_of(cell, self.plan), FIRST_LOOK
        forms = [asked] if _seeded(cell) else [*_forms(asked, rounds)][::-1]
        known_as = self.the_pass.stream
        looks = self.ledger.found(self._evidence(cell), forms, known_as=known_as)
        return query_of(cell, self.plan, looks=looks), looks

    def shown(self, cell: Cell, watch: Watch, rounds: Sequence[Tree]) -> Looks:
        """The look at an anytime cell, once something is shown of it.

        Args:
            cell: who asks.
            watch: with the look that it was fed at.
            rounds: counts of all rounds that it was shown.

        Raises:
            CellError: the claim cannot be asked.
        """
        asked = self._question(cell, (0, 0), None)
        if not _seeded(cell):
            *_, asked = _forms(asked, rounds)
        trials = watch.player.trials
        return self.ledger.look(
            self._evidence(cell),
            asked,
            (trials, trials),
            known_as=self.the_pass.stream,
            number=watch.looks.number,
        )

    def _question(self, cell: Cell, trials: tuple[int, int], counts: Any) -> str:
        error, run = share_of_error(cell, self.plan), self.plan.audit.run
        asked: str = guarded("claim", lambda: question(cell, run, error, trials, counts))
        return asked

    def _evidence(self, cell: Cell) -> Stream:
        run, data = self.plan.audit.run, self.the_pass.data
        return evidence_of(cell, data=data, precision=run.precision)


def _seeded(cell: Cell) -> bool:
    return bool(getattr(cell.mechanism.value, "seedable", True))


def _forms(asked: str, rounds: Iterable[Tree]) -> Iterable[str]:
    """The question after each round, where it is about draws that cannot be made again."""
    listed = ([np.asarray(leaf).tolist() for leaf in jax.tree.leaves(counts)] for counts in rounds)
    found = itertools.accumulate(listed, lambda so_far, new: digest([so_far, new]), initial=asked)
    return itertools.islice(found, 1, None)
