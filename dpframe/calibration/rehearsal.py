"""One small audit, repeated many times on a known truth."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.checks import guarded
from dpframe.engine.ledger import share_of_error
from dpframe.engine.plan import arrange
from dpframe.engine.rounds import no_counts
from dpframe.engine.trace import resolved, stack, unstacked
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimator, Query
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.sampling import programs
from dpframe.sampling.address import (
    EVAL,
    SPLIT,
    base_keys,
    both_as_made,
    chunk_key,
    draw_group,
    for_jax,
    host_generator,
    precision_of,
    run_dtype,
)
from dpframe.sampling.compile_cache import compiled
from dpframe.sampling.draws import Draws, Outputs, learn
from dpframe.sampling.programs import sampled
from dpframe.spec.audit import Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.claims import Claim
    from dpframe.common.types import Array, Floats, HostArray, Key, Tree
    from dpframe.engine.plan import Pass, Plan
    from dpframe.interfaces.estimator import Estimate
    from dpframe.interfaces.mechanism import Mechanism
    from dpframe.spec.audit import Cell, RunSettings


# One repeat of a small audit: what was learned and counted, and what every part says.


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


# Draws of many repeats of one small audit at once.
#
# A repeat draws what `dpframe run` would draw for it: the address is the same, and so are chunks.


CACHED = 1 << 16
"""Output coordinates made at a time: small arrays stay in the cache of a core."""


@compiled(static=("rows", "count"))
def draw_repeats(
    mechanism: Mechanism, bases: Key, data: Array, dataset: Array, *, rows: int, count: int
) -> Array:
    """Outputs of many repeats, shape [repeats, count, *output dims].

    Args:
        mechanism: one lane.
        bases: key of the stream of each repeat, shape [repeats].
        data: the dataset.
        dataset: its index.
        rows: rows per chunk; a tail chunk is drawn whole and cut.
        count: outputs of a repeat.
    """
    chunks = -(-count // rows)

    def repeat(base: Key) -> Array:
        def chunk(index: Array) -> Array:
            return sampled(mechanism, chunk_key(base, index, dataset), data, rows)

        made = jax.lax.map(chunk, jnp.arange(chunks, dtype=jnp.int32))
        kept: Array = made.reshape(chunks * rows, *made.shape[2:])[:count]
        return kept

    outputs: Array = jax.lax.map(repeat, bases, batch_size=max(1, CACHED // (chunks * rows)))
    return outputs


# One small audit, repeated: draws are made for many repeats at once, all else is the engine's.


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
        self.data = both_as_made(rehearsal.the_pass.pair)
        self._made: dict[tuple[str, int], HostArray | CellError] = {}

    def values(self, number: int) -> list[Values]:
        """What every part says in one of the repeats."""
        parts, the_pass = self.rehearsal.parts, self.rehearsal.the_pass
        try:
            return Repeat(_Slice(self, number, the_pass)).values(parts)
        except CellError:
            pass  # as the engine does: again cell by cell, so that only those to blame are lost
        found: list[Values] = []
        for cell, _ in the_pass.cells:
            own = [part for part in parts if part.cell.id == cell.id]
            try:
                found += Repeat(_Slice(self, number, the_pass.only([cell]))).values(own)
            except CellError as error:
                found += [error for _ in own]
        return found

    def outputs(self, stream: str, index: int) -> HostArray:
        """Outputs of a stream on one dataset, shape [repeats, n, *output dims]."""
        if (stream, index) not in self._made:
            try:
                self._made[stream, index] = self._draw(stream, index)
            except CellError as error:  # once, not for every repeat again
                self._made[stream, index] = error
        found = self._made[stream, index]
        if isinstance(found, CellError):
            raise found
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
            for_jax(self.data, dtype)[index],
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
        super().__init__(repeated, block.rehearsal.run, block.rehearsal.prng, block.data)

    by_chunks = False
    """All repeats are drawn at once."""

    def both(self, stream: str, lane: int) -> Outputs:
        d0, d1 = (self.block.outputs(stream, index)[self.number] for index in (0, 1))
        return d0, d1

    def drawn(self, stream: str, index: int) -> HostArray:
        """Outputs drawn by the engine, one chunk after the other."""
        wanted = self.wanted[stream]
        chunks = range(-(-wanted // self.the_pass.rows))
        return self.of_chunks(stream, 0, [(index, chunks)])[0][:wanted]


# From the plan of an audit to rehearsals: which cells can be held against a known truth.


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
