"""A look at a few chunks before anything counts: mistakes that would make every count worthless."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.engine.programs import Look

NAN_FOUND = "sample returned NaN; if that is meant, the mechanism says may_be_nan = True"
FROZEN = (
    "sample returned the same outputs under different keys: it must draw its randomness from the "
    "key, since a NumPy draw is made once, when the function is traced"
)
REPEATED = "all outputs of one call are equal, and differ from call to call: draw n of them"

ROWS = 64
"""With fewer rows a fair coin could look like one of these mistakes."""

CHUNKS = 4


def look(see: Callable[[int, int], Look], rows: int, *, nan_fails: bool) -> None:
    """Looks at the first chunk of each dataset, and of D at a few more.

    Args:
        see: what a chunk looks like, given its dataset and number; every leaf [lanes].
        rows: rows per chunk.
        nan_fails: whether NaN is a mistake.

    Raises:
        CellError: there is a NaN, or the outputs are not independent draws. A correct mechanism is
            accused of the latter with probability below 1e-6.
    """
    found = [see(0, chunk) for chunk in range(CHUNKS)]
    if nan_fails and any(np.any(seen.nan) for seen in (found[0], see(1, 0))):
        raise CellError(NAN_FOUND)
    if rows < ROWS:
        return
    first, *others = found
    same = np.all([seen.checksum == first.checksum for seen in others], axis=0)
    if np.any(first.varied & same):
        raise CellError(FROZEN)
    if np.any(~np.any([seen.varied for seen in found], axis=0) & ~same):
        raise CellError(REPEATED)
