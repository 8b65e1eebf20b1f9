"""What attacks learn and statistics fix before the draws that are counted.

The engine owns this split: learners see the fit stream, pilots the pilot stream, and neither
sees a draw that a bound is computed from. Anytime estimators have no pilot: their statistics see
the first round, on which nothing is bet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from dpframe.attack import Target
from dpframe.engine.addresses.address import FIT, LEARNER, base_key
from dpframe.engine.boxes.seeing import seen, seen_shape
from dpframe.engine.checks.answers import arrays, learns
from dpframe.engine.checks.guard import guarded
from dpframe.engine.planning.trace import score_dims

if TYPE_CHECKING:
    from dpframe.attack import Attack
    from dpframe.engine.planning.plan import Pass
    from dpframe.engine.programs.draws import Draws, Outputs
    from dpframe.statistic import Statistic
    from dpframe.types import Tree


def learn(draws: Draws) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
    """Fits the attacks and binds the statistics of a pass.

    Args:
        draws: outputs of the pass; the fit stream and the pilot stream are asked for.

    Returns:
        States and layouts, one tree per scorer, every leaf [lanes, attacks, …].
    """
    the_pass = draws.the_pass
    fitted = [_fitted(draws, lane) for lane in range(len(the_pass.mechanisms))]
    wanted = _to_score(the_pass)
    scores = draws.scores([[(one, states[one]) for one in wanted] for states in fitted])
    states: list[list[list[Tree]]] = [[] for _ in the_pass.scorers]
    layouts: list[list[list[Tree]]] = [[] for _ in the_pass.scorers]
    for known, pilots in zip(fitted, scores, strict=True):
        scored = dict(zip(wanted, pilots, strict=True))
        for place, scorer in enumerate(the_pass.scorers):
            states[place].append([known[attack] for attack in scorer.attacks])
            layouts[place].append(
                [
                    _bind(draws, attack, known[attack], scorer.statistic, scored.get(attack))
                    for attack in scorer.attacks
                ]
            )
    return tuple(map(_grid, states)), tuple(map(_grid, layouts))


def _fitted(draws: Draws, lane: int) -> dict[Attack, Tree]:
    """What every attack learns of a lane, whose draws are kept while it is its turn."""
    attacks = [attack for scorer in draws.the_pass.scorers for attack in scorer.attacks]
    return {attack: _fit(draws, lane, attack) for attack in dict.fromkeys(attacks)}


def _to_score(the_pass: Pass) -> list[Attack]:
    """Attacks whose scores say where the layout of a statistic stands."""
    found = [
        attack
        for scorer in the_pass.scorers
        for attack in scorer.attacks
        if scorer.statistic.needs_pilot() and not (the_pass.anytime and attack.gives == "decision")
    ]
    return list(dict.fromkeys(found))


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


def _bind(
    draws: Draws, attack: Attack, state: Tree, statistic: Statistic, scores: Outputs | None
) -> Tree:
    if not statistic.needs_pilot():
        shape = seen_shape(attack, draws.the_pass.shape, draws.dtype)
        dims = score_dims(attack, state, shape, draws.dtype)
        return arrays("lay_out", guarded("lay_out", lambda: statistic.lay_out(dims)))
    # Of decisions that are fed round by round there is nothing that draws would tell.
    both = [np.zeros(0, np.bool_)] * 2 if scores is None else scores
    return arrays("bind", guarded("bind", lambda: statistic.bind(*both)))


def _grid(rows: list[list[Tree]]) -> Tree:
    """Stacks trees of [lanes][attacks] into one tree with leaves [lanes, attacks, …]."""
    columns = [jax.tree.map(lambda *leaves: np.stack(leaves), *row) for row in rows]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *columns)
