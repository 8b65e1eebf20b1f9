"""One small audit, repeated: draws are made for many repeats at once, all else is the engine's."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.calibration.programs import draw_repeats
from dpframe.calibration.repeat import Repeat
from dpframe.engine.addresses.address import base_keys
from dpframe.engine.addresses.precision import both_as_made, for_jax, precision_of, run_dtype
from dpframe.engine.checks.guard import guarded
from dpframe.engine.planning.lanes import unstacked
from dpframe.engine.programs.draws import Draws, Outputs
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.calibration.repeat import Values
    from dpframe.engine.planning.plan import Pass
    from dpframe.estimator import Query
    from dpframe.spec.audit import Cell, RunSettings
    from dpframe.types import Floats, HostArray


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
