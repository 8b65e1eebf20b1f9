"""Draw whole streams, and let attacks and statistics learn from them.

The engine separates the streams: attacks learn from the fit stream, statistics from the pilot
stream, and neither sees a draw that a bound is computed from. Anytime estimators have no pilot:
their statistics see the first round, on which nothing is bet.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.types import HostArray, Tree
from dpframe.count import rounds
from dpframe.count.plan import Pass
from dpframe.count.scoring import fitted, learned_on_host, scores_of
from dpframe.draw import programs, streams, threefry
from dpframe.draw.local_executor import LOCAL_EXECUTOR
from dpframe.draw.programs import DrawChunks, DrawTask
from dpframe.draw.sampler import Sampler, TracedSampler
from dpframe.draw.scheduling import Which
from dpframe.draw.streams import EVAL, FIT, LEARNER, PILOT
from dpframe.draw.trace import resolved, score_dims, seen, seen_shape, unstacked
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.plugin_calls import arrays, call_plugin, learns
from dpframe.interfaces.statistic import Statistic
from dpframe.spec.audit import RunSettings

Outputs = tuple[Any, Any]


def first_end(the_pass: Pass) -> int:
    """Return the number of draws of the first round on each dataset."""
    return rounds.ends(the_pass.trials, the_pass.rows, whole=the_pass.costly)[0]


class Draws:
    """Outputs of the streams of a pass, drawn on demand and kept for one variant.

    `made` has the two datasets as the pair made them. The executor makes draws that take long.
    """

    def __init__(
        self,
        the_pass: Pass,
        run: RunSettings,
        prng: str,
        made: tuple[Any, Any],
        executor: Executor = LOCAL_EXECUTOR,
    ) -> None:
        run = resolved(run, the_pass.mechanisms[0], the_pass.trials)
        self.the_pass, self.prng, self.made, self.executor = the_pass, prng, made, executor
        self.until: float | None = None  # end of the time for drawing, on the monotonic clock
        self.cancelled = threading.Event()
        """Set when the run ends early: slow draws stop."""
        self.dtype = np.dtype(run.precision)
        self.wanted = {FIT: run.fit or 0, PILOT: run.pilot or 0, EVAL: the_pass.trials}
        self._kept: dict[str, tuple[int, Outputs]] = {}
        self._first: tuple[int, Outputs] | None = None

    @cached_property
    def data(self) -> tuple[Tree, Tree]:
        """D and D′ as a traced mechanism gets them."""
        return streams.for_jax(self.made, self.dtype)

    def outputs(self, stream: str, variant: int) -> Outputs:
        """Return outputs on D and on D′, each [n, *output dims]."""
        if stream not in self._kept or self._kept[stream][0] != variant:
            wanted = self.wanted[stream]
            chunks = range(-(-wanted // self.the_pass.rows))
            d0, d1 = self.of_chunks(stream, variant, [(0, chunks), (1, chunks)])
            self._kept[stream] = (variant, (d0[:wanted], d1[:wanted]))
        return self._kept[stream][1]

    def first_round(self, variant: int) -> Outputs:
        """Return the first round of the counted stream, each [n, *output dims]."""
        if self._first is None or self._first[0] != variant:
            wanted = first_end(self.the_pass)
            d0, d1 = self.first_chunks(variant, range(-(-wanted // self.the_pass.rows)))
            self._first = (variant, (d0[:wanted], d1[:wanted]))
        return self._first[1]

    def first_chunks(self, variant: int, chunks: range) -> list[HostArray]:
        """Draw the first chunks of the counted stream on D and on D′."""
        return self.of_chunks(EVAL, variant, [(0, chunks), (1, chunks)])

    def nothing(self) -> Outputs:
        """Return no outputs at all, for an attack that does not learn."""
        shape = self.the_pass.shape
        empty = np.zeros((0, *shape.dims), streams.on_device(shape.dtype, self.dtype))
        return empty, empty

    def scores(self, scoring: Sequence[Sequence[tuple[Attack, Tree]]]) -> Iterator[list[Outputs]]:
        """Yield, by variant, the scores that choose layouts: of the pilot, or the first round.

        `scoring` has the attacks and states of each variant. Each yields its scores on D and on
        D′, shape [n, …].
        """
        own = [[(unstacked(attack, self.dtype), state) for attack, state in s] for s in scoring]
        if self.the_pass.by_chunks:
            yield from self._scores_by_chunks(own)
            return
        for variant, pairs in enumerate(own):
            score_pairs: list[Outputs] = []
            for (attack, _), (leaves, state) in zip(scoring[variant], pairs, strict=True):
                anytime = self.the_pass.anytime
                outputs = self.first_round(variant) if anytime else self.outputs(PILOT, variant)
                both = [seen(attack, part, self.the_pass.shape, self.dtype) for part in outputs]
                if self.the_pass.on_host:
                    d0, d1 = (scores_of(attack, state, part) for part in both)
                else:
                    calls = [partial(programs.score_given, leaves, state, part) for part in both]
                    d0, d1 = (np.asarray(call_plugin("score", call)) for call in calls)
                score_pairs.append((d0, d1))
            yield score_pairs

    def of_chunks(self, stream: str, variant: int, which: Sequence[Which]) -> list[HostArray]:
        """Draw chunks of a stream; return an array [n, *output dims] for each part of `which`."""
        return self.sampler(stream, variant).draw_at_once(which)

    def sampler(self, stream: str, variant: int = 0) -> Sampler:
        """Return the sampler of a stream and a variant."""
        return self._traced(self._draw_task, stream, variant)

    def _traced(self, task: DrawTask, stream: str, variant: int) -> TracedSampler:
        limits = self.the_pass.slow, self._nbytes, lambda: self.seconds
        address = task, stream, variant, self.executor
        return TracedSampler(*address, *limits, self.until, self.cancelled)

    @cached_property
    def _draw_task(self) -> DrawTask:
        the_pass = self.the_pass
        mechanisms = tuple(unstacked(one, self.dtype) for one in the_pass.mechanisms)
        settings = self.data, the_pass.stream, self.prng, self.dtype.name, the_pass.rows
        return DrawTask(mechanisms, *settings)

    def _scores_by_chunks(self, own: Any) -> Iterator[list[Outputs]]:
        the_pass = self.the_pass
        task = self._draw_task._replace(scoring=tuple(tuple(pairs) for pairs in own))
        stream, wanted = PILOT, self.wanted[PILOT]
        if the_pass.anytime:
            stream, wanted = EVAL, first_end(the_pass)
        chunks = range(-(-wanted // the_pass.rows))
        for variant, pairs in enumerate(own):
            sampler = self._traced(task, stream, variant)
            both = sampler.columns_at_once([(0, chunks), (1, chunks)]) if pairs else ([], [])
            yield [(d0[:wanted], d1[:wanted]) for d0, d1 in zip(*both, strict=True)]

    @cached_property
    def seconds(self) -> float:
        """Seconds that a chunk takes here, once the program is compiled."""
        draw = DrawChunks(self._draw_task, FIT, 0, 0, 0, 1)
        draw()
        started = time.monotonic()
        draw()
        return time.monotonic() - started

    @property
    def _nbytes(self) -> int:
        """Size of the outputs of a chunk in bytes."""
        row = max(1, self.the_pass.elements) * self.the_pass.shape.dtype.itemsize
        return self.the_pass.rows * row


def learn(draws: Draws) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
    """Fit the attacks and bind the statistics of a pass; return states and layouts.

    There is one tree per scorer, every leaf [variants, attacks, …].
    """
    the_pass = draws.the_pass
    pairs = [(scorer, attack) for scorer in the_pass.scorers for attack in scorer.attacks]
    attacks = list(dict.fromkeys(attack for _, attack in pairs))
    fitted = [  # variant by variant, because the draws of one variant are kept
        {attack: _fit(draws, variant, attack) for attack in attacks}
        for variant in range(len(the_pass.mechanisms))
    ]
    # Decisions that are fed round by round need no scores for their layout.
    wanted = dict.fromkeys(
        attack
        for scorer, attack in pairs
        if scorer.statistic.needs_pilot() and not (the_pass.anytime and attack.gives == "decision")
    )
    scores = draws.scores([[(one, states_of[one]) for one in wanted] for states_of in fitted])
    states: list[list[list[Tree]]] = [[] for _ in the_pass.scorers]
    layouts: list[list[list[Tree]]] = [[] for _ in the_pass.scorers]
    for states_of, pilots in zip(fitted, scores, strict=True):
        scored = dict(zip(wanted, pilots, strict=True))
        for place, scorer in enumerate(the_pass.scorers):
            states[place].append([states_of[attack] for attack in scorer.attacks])
            layouts[place].append(
                [
                    _bind(draws, attack, states_of[attack], scorer.statistic, scored.get(attack))
                    for attack in scorer.attacks
                ]
            )
    return tuple(map(_grid, states)), tuple(map(_grid, layouts))


def _fit(draws: Draws, variant: int, attack: Attack) -> Tree:
    if not attack.has_fit():
        return ()
    the_pass = draws.the_pass
    dims = seen_shape(attack, the_pass.shape, draws.dtype).dims
    target = Target(the_pass.mechanisms[variant], the_pass.pair, dims)
    drawn = draws.outputs(FIT, variant) if learns(attack) else draws.nothing()
    d0, d1 = (seen(attack, part, the_pass.shape, draws.dtype) for part in drawn)
    if the_pass.on_host:
        return learned_on_host(attack, the_pass.stream, draws.prng, target, (d0, d1))
    key = threefry.base_key(the_pass.stream.of(LEARNER), draws.prng)
    return fitted(attack, key, target, (d0, d1))


def _bind(
    draws: Draws, attack: Attack, state: Tree, statistic: Statistic, scores: Outputs | None
) -> Tree:
    if not statistic.needs_pilot():
        shape = seen_shape(attack, draws.the_pass.shape, draws.dtype)
        dims = score_dims(attack, state, shape, draws.dtype)
        return arrays("lay_out", call_plugin("lay_out", lambda: statistic.lay_out(dims)))
    both = [np.zeros(0, np.bool_)] * 2 if scores is None else scores
    return arrays("bind", call_plugin("bind", lambda: statistic.bind(*both)))


def _grid(rows: list[list[Tree]]) -> Tree:
    """Stack trees of [variants][attacks] into one tree with leaves [variants, attacks, …]."""
    columns = [trees.map(lambda *leaves: np.stack(leaves), *row) for row in rows]
    return trees.map(lambda *leaves: np.stack(leaves), *columns)
