"""The block cipher under the keys of draws, for NumPy's arrays and for JAX's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

THREEFRY: Final = "threefry2x32-13"
"""The generator that is used unless a spec names another; see `dpframe.sampling.threefry`."""

GENERATORS: Final = {THREEFRY: 13, "threefry2x32": 20}
"""Rounds of the generators that a spec may name; "threefry2x32" is JAX's own."""

_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY: Final = np.uint32(0x1BD11BDA)


def blocks(key: Any, counter: Any, rounds: int = GENERATORS[THREEFRY]) -> Any:
    """Encrypt counters under a key; in NumPy's arrays or in JAX's.

    Args:
        key: two uint32 arrays.
        counter: two uint32 arrays; broadcast against the key.
        rounds: number of rounds.

    Returns:
        Two uint32 arrays: words 0 and 1 of every block.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0 = counter[0] + schedule[0]
    x1 = counter[1] + schedule[1]
    for number in range(rounds):
        turn = _ROTATIONS[number % 8]
        x0 = x0 + x1
        x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
        if number % 4 == 3:
            step = number // 4 + 1
            x0 = x0 + schedule[step % 3]
            x1 = x1 + (schedule[(step + 1) % 3] + np.uint32(step))
    return x0, x1
