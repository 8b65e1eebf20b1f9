"""The dataset as a black box gets it: a copy that it cannot change, or not without being noticed.

A box that adds to its data in place would change them for every later draw.
"""

from __future__ import annotations

import hashlib
import pickle
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpframe.types import HostArray

CHANGED = "sample changed the dataset, which is the input of every later draw: copy it first"


class Handout:
    """Gives one dataset out again and again.

    Args:
        value: the dataset; nobody else may hold it.
    """

    def __init__(self, value: Any) -> None:
        self.seconds = 0.0
        """What the last comparison of the whole dataset took."""
        self._plain = isinstance(value, np.ndarray) and not value.dtype.hasobject
        if self._plain:
            self._dtype, self._shape = value.dtype, value.shape
            self._content = value.tobytes()
            self._before = self._digest()
        else:
            self._content = pickle.dumps(value)
            self._before = pickle.dumps(pickle.loads(self._content))

    def copy(self) -> Any:
        """The dataset: an array over bytes that Python will not change, or a deep copy."""
        if not self._plain:
            return pickle.loads(self._content)
        array: HostArray
        if self._content:
            array = np.frombuffer(self._content, self._dtype).reshape(self._shape)
        else:
            array = np.zeros(self._shape, self._dtype)
            array.flags.writeable = False
        return array

    def changed(self, copy: Any) -> bool:
        """Whether the copy is no longer what it was; of an array, whether the bytes are.

        Arrays share their bytes, so it is enough to ask once for many copies.
        """
        if not self._plain:
            return pickle.dumps(copy) != self._before
        started = monotonic()
        changed = self._digest() != self._before
        self.seconds = monotonic() - started
        return changed

    @property
    def shared(self) -> bool:
        """Whether one question about a copy answers for all copies before it."""
        return self._plain

    def _digest(self) -> bytes:
        return hashlib.blake2b(self._content, digest_size=16).digest()
