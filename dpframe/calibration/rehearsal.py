"""One small audit, repeated: draws are made for many repeats at once, all else is the engine's."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.calibration.programs import draw_repeats
from dpframe.engine import programs
from dpframe.engine.address import EVAL, SPLIT, base_keys, host_generator
from dpframe.engine.draws import Draws
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import stack, unstacked
from dpframe.engine.learn import learn
from dpframe.engine.precision import dataset, precision_of, run_dtype
from dpframe.engine.tally import no_counts
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.plan import Pass
    from dpframe.estimator import Estimate, Query
    from dpframe.spec.audit import Cell, RunSettings
    from dpframe.types import Floats, HostArray, Tree


class Part(NamedTuple):
    """One estimator behind one attack."""

    cell: Cell
    query: Query
    certifies: bool
    raw: bool
    """Whether it reads raw scores instead of counts."""


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """An audit of one mechanism on one pair, and what is estimated from it."""

    the_pass: Pass
    """Of one lane; its repeat is replaced."""
    run: RunSettings
    prng: str
    parts: tuple[Part, ...]
    """In the order of the pass; one that reads raw scores beside the one that reads counts."""


class Outcome(NamedTuple):
    """What one part said, repeat by repeat."""

    points: Floats
    lows: Floats
    """The certified bound; of an estimator that does not certify the lower end of its interval,
    NaN where it has none."""
    reason: str | None = None
    """Why it could not be run, if it could not."""


def rehearse(rehearsal: Rehearsal, first: int, size: int, wanted: int) -> list[Outcome]:
    """Plays a block of repeats; which block a repeat is in changes nothing.

    Args:
        rehearsal: what to play.
        first: number of the first repeat.
        size: repeats drawn at once; the same for all blocks, so that one program serves them.
        wanted: how many of them are estimated.

    Returns:
        One outcome per part. What one cell fails by costs the others nothing.
    """
    with precision_of(rehearsal.run):
        block = Block(rehearsal, range(first, first + size))
        said = [block.values(number) for number in range(wanted)]
        return [_outcome([each[part] for each in said]) for part in range(len(rehearsal.parts))]


Values = tuple[float, float] | CellError
"""Point value and bound of one part in one repeat, or why there are none."""


def _outcome(said: list[Values]) -> Outcome:
    found = [values for values in said if not isinstance(values, CellError)]
    failed = next((values for values in said if isinstance(values, CellError)), None)
    if failed is not None:
        nothing = np.full(len(said), np.nan)
        return Outcome(nothing, nothing, str(failed))
    points, lows = np.array(found, np.float64).T
    return Outcome(points, lows)


class Block:
    """Some repeats at work.

    Args:
        rehearsal: what to play.
        repeats: their numbers.
    """

    def __init__(self, rehearsal: Rehearsal, repeats: range) -> None:
        self.rehearsal, self.repeats = rehearsal, repeats
        self._made: dict[tuple[str, int], HostArray] = {}

    def values(self, number: int) -> list[Values]:
        """What every part says in one of the repeats."""
        parts, the_pass = self.rehearsal.parts, self.rehearsal.the_pass
        cells = [cell for cell, _ in the_pass.cells]
        try:
            return self._values(number, the_pass, parts)
        except CellError as error:
            if len(cells) == 1:
                return [error for _ in parts]
        # As the engine does: cell by cell, so that only those to blame are lost.
        return [
            values
            for cell in cells
            for own in [tuple(part for part in parts if part.cell.id == cell.id)]
            for values in self._one(number, the_pass.only([cell]), own)
        ]

    def outputs(self, stream: str, index: int) -> HostArray:
        """Outputs of a stream on one dataset, shape [repeats, n, *output dims]."""
        if (stream, index) not in self._made:
            self._made[stream, index] = self._draw(stream, index)
        return self._made[stream, index]

    def _one(self, number: int, the_pass: Pass, parts: tuple[Part, ...]) -> list[Values]:
        try:
            return self._values(number, the_pass, parts)
        except CellError as error:
            return [error for _ in parts]

    def _values(self, number: int, the_pass: Pass, parts: tuple[Part, ...]) -> list[Values]:
        played = Repeat(self, number, the_pass)
        found: list[Values] = []
        for part in parts:
            try:
                found.append(_said(played.estimate(part), part))
            except CellError as error:
                found.append(error)
        return found

    def _draw(self, stream: str, index: int) -> HostArray:
        own = [_Slice(self, number, self.rehearsal.the_pass) for number in range(len(self.repeats))]
        mechanism = self.rehearsal.the_pass.mechanisms[0]
        if isinstance(mechanism, HostMechanism):
            return np.stack([draws.drawn(stream, index) for draws in own])
        dtype, prng = run_dtype(self.rehearsal.run), self.rehearsal.prng
        call = partial(
            draw_repeats,
            unstacked(mechanism, dtype),
            base_keys([draws.the_pass.stream.of(stream) for draws in own], prng),
            dataset(self.rehearsal.the_pass.pair, index, dtype),
            np.int32(index),
            rows=self.rehearsal.the_pass.rows,
            count=own[0].wanted[stream],
        )
        return np.asarray(guarded("sample", call))


class _Slice(Draws):
    """The draws of one repeat, out of those of its block."""

    def __init__(self, block: Block, number: int, the_pass: Pass) -> None:
        self.block, self.number = block, number
        stream = the_pass.stream._replace(repeat=block.repeats[number])
        repeated = dataclasses.replace(the_pass, stream=stream)
        super().__init__(repeated, block.rehearsal.run, block.rehearsal.prng)

    def draw(self, stream: str, lane: int, index: int) -> HostArray:
        found: HostArray = self.block.outputs(stream, index)[self.number]
        return found

    def drawn(self, stream: str, index: int) -> HostArray:
        """Outputs drawn by the engine, one chunk after the other."""
        return super().draw(stream, 0, index)


class Repeat:
    """One repeat: what was learned, counted and is estimated."""

    def __init__(self, block: Block, number: int, the_pass: Pass) -> None:
        self.draws = _Slice(block, number, the_pass)
        self.the_pass = the_pass
        self.states, self.layouts = learn(self.draws)
        self.counts = self._count()
        self.places = {cell.id: place for cell, place in the_pass.cells}

    def estimate(self, part: Part) -> Estimate:
        """What a part says."""
        estimator, query = part.cell.estimator.value, part.query
        if part.raw:
            scores = self._scores(part)
            rng = host_generator(self.draws.the_pass.stream.of(SPLIT))
            return _guarded(lambda: estimator.estimate_scores(scores, query, rng))
        layout, counts = self._own(part, self.layouts), self._own(part, self.counts)
        return _guarded(lambda: estimator.estimate(layout, counts, query))

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
        def own(tree: Any) -> Any:
            return jax.tree.map(lambda leaf: leaf[0], tree)

        scorers = self.the_pass.scorers
        attacks = tuple(stack(scorer.attacks, self.draws.dtype) for scorer in scorers)
        scoring = programs.Scoring(attacks, own(self.states), own(self.layouts))
        counts = own(no_counts(self.the_pass, self.layouts))
        for index, outputs in enumerate(self.draws.outputs(EVAL, 0)):
            call = partial(
                programs.count_given,
                counts,
                scoring,
                outputs,
                np.int32(index),
                np.int32(len(outputs)),
                statistics=tuple(scorer.statistic for scorer in scorers),
            )
            counts = guarded("counting", call)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.int64)[None], tuple(counts))


def _said(estimate: Estimate, part: Part) -> tuple[float, float]:
    if not part.certifies:
        return estimate.epsilon, estimate.interval[0] if estimate.interval else math.nan
    bound = estimate.epsilon_lower
    if bound is None or not math.isfinite(bound):
        raise CellError(f"estimate gave the bound {bound}; a certifying estimator gives a number")
    return estimate.epsilon, bound


def _guarded(call: Any) -> Estimate:
    found: Estimate = guarded("estimate", call)
    return found
