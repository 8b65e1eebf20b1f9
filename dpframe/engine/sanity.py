"""A look at a few chunks before anything counts: mistakes that would make every count worthless."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from dpframe.engine import programs
from dpframe.engine.lanes import pad
from dpframe.engine.trace import guarded
from dpframe.errors import CellError

if TYPE_CHECKING:
    from dpframe.engine.work import TracedWork

NAN_FOUND = "sample returned NaN; if that is meant, the mechanism says may_be_nan = True"
FROZEN = (
    "sample returned the same outputs under different keys: it must draw its randomness from the "
    "key, since a NumPy draw is made once, when the function is traced"
)
REPEATED = "all outputs of one call are equal, and differ from call to call: draw n of them"

ROWS = 64
"""With fewer rows a fair coin could look like one of these mistakes."""

CHUNKS = 4


def look(work: TracedWork) -> None:
    """Looks at the first chunk of each dataset, and of D at a few more.

    Raises:
        CellError: there is a NaN, or the outputs are not independent draws. A correct mechanism is
            accused of the latter with probability below 1e-6.
    """
    found = [_see(work, 0, chunk) for chunk in range(CHUNKS)]
    if work.nan_matters and any(np.any(seen.nan) for seen in (found[0], _see(work, 1, 0))):
        raise CellError(NAN_FOUND)
    if work.the_pass.rows < ROWS:
        return
    first, *others = found
    same = np.all([seen.checksum == first.checksum for seen in others], axis=0)
    if np.any(first.varied & same):
        raise CellError(FROZEN)
    if np.any(~np.any([seen.varied for seen in found], axis=0) & ~same):
        raise CellError(REPEATED)


def _see(work: TracedWork, dataset: int, chunk: int) -> programs.Look:
    lanes = work.lanes
    nothing = programs.Look(
        np.zeros(lanes, bool), np.zeros(lanes, bool), np.zeros(lanes, np.uint32)
    )
    call = partial(
        programs.look_at_chunk,
        pad(nothing, lanes),
        work.mechanisms,
        np.int32(lanes),
        work.origin(dataset),
        np.int32(chunk),
        rows=work.the_pass.rows,
    )
    seen: programs.Look = jax.tree.map(
        lambda leaf: np.asarray(leaf)[:lanes], guarded("sample", call)
    )
    return seen
