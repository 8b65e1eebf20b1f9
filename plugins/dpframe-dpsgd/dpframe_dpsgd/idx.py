"""Read files in the IDX format, in which MNIST is published."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Element types by the third byte of the file."""


def read_idx(file: Path) -> npt.NDArray[Any]:
    """Return the array in an IDX file, gzipped or not.

    The file begins with two zero bytes, the type of the elements, the number of dimensions, and a
    big-endian 32-bit length for each dimension. The elements follow, with the last index varying
    fastest.

    Raises:
        ValueError: it is not such a file, or its length differs from the one that its header
            states.
        OSError: it cannot be read.
    """
    content = file.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES:
        raise ValueError(f"{file}: not an IDX file")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise ValueError(f"{file}: ends within its header")
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], ">u4"))
    dtype = np.dtype(TYPES[content[2]])
    if len(content) - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{file}: has {len(content) - start} bytes for an array of shape {shape}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)
