"""What one output of a mechanism looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Shape(NamedTuple):
    """What one output of a mechanism looks like."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.dtype} outputs of shape {self.dims}"
