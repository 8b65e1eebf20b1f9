"""One repeat of a small audit: what was learned and counted, and what every part says."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.addresses.address import EVAL, SPLIT, host_generator
from dpframe.engine.checks.guard import guarded
from dpframe.engine.counts.tally import no_counts
from dpframe.engine.planning.lanes import stack, unstacked
from dpframe.engine.programs import programs
from dpframe.engine.programs.learn import learn
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.calibration.rehearsal import Part
    from dpframe.engine.programs.draws import Draws
    from dpframe.estimator import Estimate
    from dpframe.types import HostArray, Tree

Values = tuple[float, float] | CellError
"""Point value and bound of one part in one repeat, or why there are none."""


class Repeat:
    """One repeat at work, by the engine's own programs.

    Args:
        draws: of a pass with one lane.

    Raises:
        CellError: a mistake of an attack, a statistic or the mechanism.
    """

    def __init__(self, draws: Draws) -> None:
        self.draws, self.scorers = draws, draws.the_pass.scorers
        self.states, self.layouts = learn(draws)
        self.counts = self._count()
        self.places = {cell.id: place for cell, place in draws.the_pass.cells}

    def values(self, parts: Sequence[Part]) -> list[Values]:
        """What the parts say; an estimator that raises costs the others nothing."""
        found: list[Values] = []
        for part in parts:
            try:
                found.append(_values(self.estimate(part), part))
            except CellError as error:
                found.append(error)
        return found

    def estimate(self, part: Part) -> Estimate:
        """What a part says."""
        estimator, query = part.cell.estimator.value, part.query
        if part.raw:
            scores = self._scores(part)
            rng = host_generator(self.draws.the_pass.stream.of(SPLIT))
            call = partial(estimator.estimate_scores, scores, query, rng)
        else:
            layout, counts = self._own(part, self.layouts), self._own(part, self.counts)
            call = partial(estimator.estimate, layout, counts, query)
        found: Estimate = guarded("estimate", call)
        return found

    def _own(self, part: Part, trees: tuple[Tree, ...]) -> Tree:
        place = self.places[part.cell.id]
        return jax.tree.map(lambda leaf: leaf[0, place.attack], trees[place.scorer])

    def _scores(self, part: Part) -> tuple[HostArray, HostArray]:
        leaves = unstacked(part.cell.attack.value, self.draws.dtype)
        state = self._own(part, self.states)
        outputs = self.draws.outputs(EVAL, 0)
        score = [partial(programs.score_given, leaves, state, each) for each in outputs]
        d0, d1 = (np.asarray(guarded("score", call)) for call in score)
        return d0, d1

    def _count(self) -> tuple[Tree, ...]:
        """Counts of the eval stream, every leaf [1, attacks, …] in int64."""

        def lane(tree: Any) -> Any:
            return jax.tree.map(lambda leaf: leaf[0], tree)

        attacks = tuple(stack(scorer.attacks, self.draws.dtype) for scorer in self.scorers)
        scoring = programs.Scoring(attacks, lane(self.states), lane(self.layouts))
        counts = lane(no_counts(self.draws.the_pass, self.layouts))
        for index, outputs in enumerate(self.draws.outputs(EVAL, 0)):
            call = partial(
                programs.count_given,
                counts,
                scoring,
                outputs,
                np.int32(index),
                np.int32(len(outputs)),
                statistics=tuple(scorer.statistic for scorer in self.scorers),
            )
            counts = guarded("counting", call)
        found: tuple[Tree, ...] = jax.tree.map(
            lambda leaf: np.asarray(leaf, np.int64)[None], tuple(counts)
        )
        return found


def _values(estimate: Estimate, part: Part) -> tuple[float, float]:
    if not part.certifies:
        return estimate.epsilon, estimate.interval[0] if estimate.interval else math.nan
    bound = estimate.epsilon_lower
    if bound is None or not math.isfinite(bound):
        raise CellError(f"estimate gave the bound {bound}; a certifying estimator gives a number")
    return estimate.epsilon, bound
