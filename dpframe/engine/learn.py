"""What attacks learn and statistics fix before the draws that are counted.

The engine owns this split: learners see the fit stream, pilots the pilot stream, and neither
sees a draw that a bound is computed from. Anytime estimators have no pilot: their statistics see
the first round, on which nothing is bet.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.attack import Target
from dpframe.engine import programs
from dpframe.engine.address import FIT, LEARNER, PILOT, base_key
from dpframe.engine.answers import arrays, learns
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import unstacked
from dpframe.engine.seeing import seen, seen_shape
from dpframe.engine.trace import check_scores, score_dims

if TYPE_CHECKING:
    from dpframe.attack import Attack
    from dpframe.engine.draws import Draws
    from dpframe.types import Tree


def learn(draws: Draws) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
    """Fits the attacks and binds the statistics of a pass.

    Args:
        draws: outputs of the pass; the fit stream and the pilot stream are asked for.

    Returns:
        States and layouts, one tree per scorer, every leaf [lanes, attacks, …].
    """
    the_pass = draws.the_pass
    states: list[list[list[Tree]]] = [[] for _ in the_pass.scorers]
    layouts: list[list[list[Tree]]] = [[] for _ in the_pass.scorers]
    for lane in range(len(the_pass.mechanisms)):  # whose draws are kept while it is its turn
        for place, scorer in enumerate(the_pass.scorers):
            fitted = [_fit(draws, lane, attack) for attack in scorer.attacks]
            states[place].append(fitted)
            layouts[place].append(
                [
                    _bind(draws, lane, attack, state, scorer.statistic)
                    for attack, state in zip(scorer.attacks, fitted, strict=True)
                ]
            )
    return tuple(map(_grid, states)), tuple(map(_grid, layouts))


def _fit(draws: Draws, lane: int, attack: Attack) -> Tree:
    if not attack.has_fit():
        return ()
    the_pass = draws.the_pass
    dims = seen_shape(attack, the_pass.shape, draws.dtype).dims
    target = Target(the_pass.mechanisms[lane], the_pass.pair, dims)
    key = base_key(the_pass.stream.of(LEARNER), draws.prng)
    drawn = draws.outputs(FIT, lane) if learns(attack) else draws.nothing()
    d0, d1 = (seen(attack, part, the_pass.shape, draws.dtype) for part in drawn)
    return arrays("fit", guarded("fit", lambda: attack.fit(key, target, (d0, d1))))


def _bind(draws: Draws, lane: int, attack: Attack, state: Tree, statistic: Any) -> Tree:
    if not statistic.needs_pilot():
        shape = seen_shape(attack, draws.the_pass.shape, draws.dtype)
        dims = score_dims(attack, state, shape, draws.dtype)
        return arrays("lay_out", guarded("lay_out", lambda: statistic.lay_out(dims)))
    leaves = unstacked(attack, draws.dtype)
    scores = []
    anytime = draws.the_pass.anytime
    if anytime and attack.gives == "decision":
        return _bound(statistic, [np.zeros(0, np.bool_)] * 2)  # nothing that draws would tell
    for drawn in draws.first_round(lane) if anytime else draws.outputs(PILOT, lane):
        outputs = seen(attack, drawn, draws.the_pass.shape, draws.dtype)
        scored = guarded("score", partial(programs.score_given, leaves, state, outputs))
        check_scores(scored, len(outputs), attack.gives)
        scores.append(np.asarray(scored))
    return _bound(statistic, scores)


def _bound(statistic: Any, scores: Any) -> Tree:
    return arrays("bind", guarded("bind", lambda: statistic.bind(*scores)))


def _grid(rows: list[list[Tree]]) -> Tree:
    """Stacks trees of [lanes][attacks] into one tree with leaves [lanes, attacks, …]."""
    columns = [jax.tree.map(lambda *leaves: np.stack(leaves), *row) for row in rows]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *columns)
