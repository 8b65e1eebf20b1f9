"""What a worker of a cluster does: it unpacks a parcel once, and counts or draws parts of it."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.blame import blame
from dpframe.engine.addresses.chunks import pieces
from dpframe.engine.cluster.parts import Missing, Refused, Sent, unpack, versions
from dpframe.engine.compiling.cache import keep_compiled_programs
from dpframe.engine.programs.parcel import count_segment
from dpframe.engine.programs.recipe import drawn
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.engine.addresses.chunks import Segment
    from dpframe.engine.programs.parcel import Parcel
    from dpframe.engine.programs.recipe import Place

KEPT = 8
"""Parcels that a worker keeps unpacked."""

_known: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()

Answer = tuple[str, Any]
"""What became of a task, and the counts or the reason. What fails is an answer: an exception would
be tried again, and its class may not be known where it arrives."""


def keep_apart(addresses: list[str], dask_worker: Any) -> None:
    """Keeps every worker of this machine to its share of the cores; all are told at once.

    Args:
        addresses: of all of them.
        dask_worker: the one that does this.
    """
    keep_to_share(addresses.index(dask_worker.address), len(addresses))


def keep_to_share(place: int, of: int) -> None:
    """Keeps this process to its share of the cores it may use, where the system lets it.

    Args:
        place: which of them it is, from 0.
        of: workers that share the cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[place::of] or [cores[place % len(cores)]])


def same(value: Any) -> Any:
    """The value itself: as a task it is sent to a worker once, and again if that is lost."""
    return value


def versions_there() -> dict[str, str]:
    """What a worker has."""
    return versions()


def answer_counted(*task: Any) -> tuple[Any, ...]:
    """What `count` gives, and which worker says so."""
    return (*count(*task), _me())


def answer_drawn(*task: Any) -> tuple[Any, ...]:
    """What `draw` gives, and which worker says so."""
    return (*draw(*task), _me())


def _me() -> Any:
    from distributed import get_worker

    return get_worker().address


def count(sent: Sent, lanes: tuple[int, ...], index: int, segment: Segment) -> Answer:
    """Counts a segment.

    Args:
        sent: the parcel.
        lanes: which of its lanes.
        index: of the dataset.
        segment: which chunks.
    """

    def counted(parcel: Parcel) -> Any:
        with jax.enable_x64(parcel.precision == "float64"):
            return _in_pieces(parcel, lanes, index, segment)

    return _answered("counted", sent, counted)


def draw(sent: Sent, place: Place) -> Answer:
    """Draws some chunks.

    Args:
        sent: the recipe.
        place: which chunks.
    """
    return _answered("drawn", sent, lambda recipe: drawn(recipe, place))


def _answered(done: str, sent: Sent, do: Callable[[Any], Any]) -> Answer:
    try:
        return done, do(unpacked(sent))
    except Refused as refused:
        return "refused", str(refused)
    except Missing as missing:
        return "missing", str(missing)
    except CellError as error:
        return "failed", str(error)
    except Exception as error:  # of this machine: memory, a disk; another one may do better
        return "broken", blame(error)


def _in_pieces(parcel: Parcel, lanes: tuple[int, ...], index: int, segment: Segment) -> Any:
    """Counts of a segment of any size: a device counts in 32 bits what it draws in one call."""
    step, total = pieces(parcel.rows, parcel.elements), None
    for first in range(segment.first, segment.stop, step):
        piece = segment._replace(first=first, stop=min(first + step, segment.stop))
        counted = count_segment(parcel, lanes, index, piece)
        more = jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), counted)
        total = more if total is None else jax.tree.map(np.add, total, more)
    return total


def unpacked(sent: Sent, made: Callable[[Any], Any] = same) -> Any:
    """What was sent, unpacked and kept.

    Args:
        sent: the value.
        made: what is made of it, once.
    """
    with _lock:
        if sent.digest not in _known:
            keep_compiled_programs(lambda _: None)
            _known[sent.digest] = made(unpack(sent))
            while len(_known) > KEPT:
                _known.popitem(last=False)
        _known.move_to_end(sent.digest)
        return _known[sent.digest]
