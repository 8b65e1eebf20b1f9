"""A shard of a run: which part of the draws of each pass is counted here."""

from __future__ import annotations

import re
from typing import NamedTuple


class Shard(NamedTuple):
    """One of several equal parts of a run, from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def chunks(self, trials: int, rows: int) -> range:
        """Whole chunks of each dataset that are counted in it; together the shards have all.

        The trials after the last whole chunk are left to whoever adds the shards up.

        Args:
            trials: of each dataset, in the whole run.
            rows: of a chunk.
        """
        whole = trials // rows
        return range(whole * (self.number - 1) // self.of, whole * self.number // self.of)

    def owns(self, place: int) -> bool:
        """Whether what cannot be divided is done in it.

        What is bet on in a round depends on all rounds before, so cells that bet, and searches, go
        to one shard whole.

        Args:
            place: among all that cannot be divided, from 0.
        """
        return place % self.of == self.number - 1


def windowed(key: str, window: range) -> str:
    """Under which a store keeps the counts of some chunks only.

    Args:
        key: of the counts of all.
        window: the chunks.
    """
    return f"{key}@{window.start}-{window.stop}"


def window_of(key: str) -> tuple[str, range] | None:
    """The key of the counts of all chunks, and which chunks these are; None if they are all."""
    found = re.fullmatch(r"(.*)@(\d+)-(\d+)", key)
    return found and (found[1], range(int(found[2]), int(found[3])))
