"""All that decides what a mechanism that JAX traces gives: a value that any process can draw from.

What attacks learn from travels as it is. What a pilot sees is scored where it is drawn, and only
the scores travel: a model has thousands of numbers, and a pilot looks at one of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import numpy as np

from dpframe.engine.addresses.address import chunk_keys
from dpframe.engine.checks.guard import guarded
from dpframe.engine.programs import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.addresses.chunks import Segment
    from dpframe.engine.boxes.handing_out import Pool
    from dpframe.engine.programs.parcel import Parcel
    from dpframe.types import HostArray, Tree


class Recipe(NamedTuple):
    """A mechanism of every lane of a pass, and where its outputs come from."""

    mechanisms: tuple[Any, ...]
    """One per lane, leaves in the dtype of the run."""
    data: tuple[Tree, Tree]
    """D and D′, in the precision of the run."""
    stream: Stream
    """Of the pass: what is drawn says which of its streams."""
    prng: str
    precision: str
    rows: int
    """Of a chunk."""
    scoring: tuple[tuple[tuple[Any, Tree], ...], ...] = ()
    """For every lane attacks, with what they learned, whose scores are wanted in place of outputs;
    empty where outputs are."""


class Place(NamedTuple):
    """Which chunks of which draws."""

    stream: str
    lane: int
    dataset: int
    first: int
    stop: int


class Away(Protocol):
    """Other processes that count and draw what this one would."""

    @property
    def tasks(self) -> int:
        """How many of them are best under way at once."""

    @property
    def pool(self) -> Pool:
        """Threads that wait for them."""

    def count(
        self, parcel: Parcel, lanes: Sequence[int], index: int, segment: Segment
    ) -> tuple[Tree, ...]:
        """What `count_segment` gives."""

    def draw(self, recipe: Recipe, place: Place, until: float | None) -> list[HostArray]:
        """What `drawn` gives; raises Overdue when it is too late, on the monotonic clock."""


def drawn(recipe: Recipe, place: Place) -> list[HostArray]:
    """Outputs of some chunks, or their scores.

    A chunk is drawn, and scored, by one call of a program for chunks: so it is the same to the bit
    whoever asks for it, and beside whatever else.

    Args:
        recipe: what is drawn.
        place: which of it.

    Returns:
        One array, the outputs; or the scores under each attack. Shape [n, …].

    Raises:
        CellError: the author's mistake.
    """
    with jax.enable_x64(recipe.precision == "float64"):
        stream = recipe.stream.of(place.stream)
        keys = chunk_keys(stream, recipe.prng, place.dataset, place.first, place.stop)
        chunks = [_of_key(recipe, place, key) for key in keys]
        return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]


def _of_key(recipe: Recipe, place: Place, key: HostArray) -> list[HostArray]:
    origin = programs.Origin(key, recipe.data[place.dataset], np.int32(place.dataset))
    mechanism = recipe.mechanisms[place.lane]
    how: Any = {"rows": recipe.rows, "prng": recipe.prng}
    outputs = guarded("sample", lambda: programs.draw_chunk(mechanism, origin, **how))
    if not recipe.scoring:
        return [np.asarray(outputs)]
    calls: list[Callable[[], Any]] = [
        partial(programs.score_given, *one, outputs) for one in recipe.scoring[place.lane]
    ]
    return [np.asarray(guarded("score", call)) for call in calls]
