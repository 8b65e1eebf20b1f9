"""What attacks learn and statistics fix before the draws that are counted.

The engine owns this split: learners see the fit stream, pilots the pilot stream, and neither
sees a draw that a bound is computed from.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.attack import Target
from dpframe.engine import programs
from dpframe.engine.address import FIT, LEARNER, PILOT, base_key, host_generator
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import unstacked
from dpframe.engine.precision import dataset, on_device
from dpframe.engine.trace import check_scores
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.attack import Attack
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray, Tree

Outputs = tuple[Any, Any]


def learn(the_pass: Pass, run: RunSettings, prng: str) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
    """Fits the attacks and binds the statistics of a pass.

    Returns:
        States and layouts, one tree per scorer, every leaf [lanes, attacks, …].
    """
    draws = _Draws(the_pass, run, prng)
    states, layouts = [], []
    for scorer in the_pass.scorers:
        scorer_states, scorer_layouts = [], []
        for lane in range(len(the_pass.mechanisms)):
            fitted = [_fit(draws, lane, attack) for attack in scorer.attacks]
            scorer_states.append(fitted)
            scorer_layouts.append(
                [
                    _bind(draws, lane, attack, state, scorer.statistic)
                    for attack, state in zip(scorer.attacks, fitted, strict=True)
                ]
            )
        states.append(_grid(scorer_states))
        layouts.append(_grid(scorer_layouts))
    return tuple(states), tuple(layouts)


class _Draws:
    """Outputs of the fit and pilot streams, drawn when first asked for, kept for one lane."""

    def __init__(self, the_pass: Pass, run: RunSettings, prng: str) -> None:
        self.the_pass, self.prng = the_pass, prng
        self.dtype = np.dtype(run.precision)
        self.wanted = {FIT: run.fit, PILOT: run.pilot}
        self._kept: dict[str, tuple[int, Outputs]] = {}

    def outputs(self, stream: str, lane: int) -> Outputs:
        """Outputs on D and on D′, each [n, *output dims]."""
        if stream not in self._kept or self._kept[stream][0] != lane:
            pair = (self._draw(stream, lane, 0), self._draw(stream, lane, 1))
            self._kept[stream] = (lane, pair)
        return self._kept[stream][1]

    def nothing(self) -> Outputs:
        """No outputs at all, for an attack that does not learn."""
        shape = self.the_pass.shape
        empty = np.zeros((0, *shape.dims), on_device(shape.dtype, self.dtype))
        return empty, empty

    def _draw(self, stream: str, lane: int, index: int) -> HostArray:
        the_pass, wanted = self.the_pass, self.wanted[stream]
        mechanism = the_pass.mechanisms[lane]
        address = the_pass.stream.of(stream)
        data = dataset(the_pass.pair, index, self.dtype)
        chunks = range(-(-wanted // the_pass.rows))

        def draw(chunk: int) -> HostArray:
            if isinstance(mechanism, HostMechanism):
                rng = host_generator(address, chunk, index)
                outputs = np.asarray(mechanism.sample(rng, data, the_pass.rows))
                return outputs.astype(on_device(outputs.dtype, self.dtype))
            return np.asarray(
                programs.draw_chunk(
                    unstacked(mechanism, self.dtype),
                    programs.Origin(base_key(address, self.prng), data, np.int32(index)),
                    np.int32(chunk),
                    rows=the_pass.rows,
                )
            )

        drawn = guarded("sample", lambda: [draw(chunk) for chunk in chunks])
        return np.concatenate(drawn)[:wanted]


def _fit(draws: _Draws, lane: int, attack: Attack) -> Tree:
    if not attack.has_fit():
        return ()
    the_pass = draws.the_pass
    target = Target(the_pass.mechanisms[lane], the_pass.pair, the_pass.shape.dims)
    key = base_key(the_pass.stream.of(LEARNER), draws.prng)
    train = draws.outputs(FIT, lane) if attack.learns() else draws.nothing()
    state = guarded("fit", lambda: attack.fit(key, target, train))
    return jax.tree.map(np.asarray, state)


def _bind(draws: _Draws, lane: int, attack: Attack, state: Tree, statistic: Any) -> Tree:
    if not statistic.needs_pilot():
        return ()
    leaves = unstacked(attack, draws.dtype)
    scores = []
    for outputs in draws.outputs(PILOT, lane):
        scored = guarded("score", partial(programs.score_given, leaves, state, outputs))
        check_scores(scored, len(outputs), attack.gives)
        scores.append(np.asarray(scored))
    layout = guarded("bind", lambda: statistic.bind(*scores))
    return jax.tree.map(np.asarray, layout)


def _grid(rows: list[list[Tree]]) -> Tree:
    """Stacks trees of [lanes][attacks] into one tree with leaves [lanes, attacks, …]."""
    columns = [jax.tree.map(lambda *leaves: np.stack(leaves), *row) for row in rows]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *columns)
