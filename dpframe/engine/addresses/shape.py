"""What one output of a mechanism looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.answers import BEFORE

if TYPE_CHECKING:
    from collections.abc import Sequence


class Asking(NamedTuple):
    """How a black box is asked that may answer with anything."""

    raises: bool = True
    """Whether an exception is an answer."""
    time: bool = False
    """Whether the time that each answer took is part of it."""
    one: bool = False
    """Whether `sample` is asked for one answer at a time."""
    limit: float | None = None
    """Seconds after which an answer is taken for a TimeoutError."""


class Shape(NamedTuple):
    """What one output of a mechanism looks like."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    asking: Asking | None = None
    """Of answers of any kind, which are then rows of 64-bit words: how they are asked for."""
    native: tuple[int, ...] | None = None
    """Of such answers: the shape of their numbers, where all came in one shape."""

    def __str__(self) -> str:
        if self.asking is not None:
            return f"answers of up to {self.width} numbers"
        return f"{self.dtype} outputs of shape {self.dims}"

    @property
    def width(self) -> int:
        """How many numbers of an answer are laid out."""
        return self.dims[0] - BEFORE


def of_answers(asking: Asking, numbers: int, native: Sequence[int] | None) -> Shape:
    """The shape of answers of any kind.

    Args:
        asking: how they are asked for.
        numbers: in the widest that came; rounded up, so that programs are shared.
        native: the shape of their numbers, where all came in one shape.
    """
    width = 1 << max(0, numbers - 1).bit_length()
    shape = None if native is None else tuple(native)
    return Shape((BEFORE + width,), np.dtype(np.uint64), asking, shape)
