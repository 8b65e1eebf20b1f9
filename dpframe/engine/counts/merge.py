"""Adds up the counts of shards, so that a run goes on from there as if it had made them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.addresses.share import window_of
from dpframe.engine.counts.checkpoint import Saved, is_own, read_entries, write_entries
from dpframe.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OTHER = (
    "the shards were counted with other code, other data, or after attacks that learned something "
    "else (a mechanism that takes no seed teaches them something else each time)"
)


class Part(NamedTuple):
    """Counts of some chunks, from one shard."""

    shard: int
    window: range
    saved: Saved


def merge(shards: Mapping[int, Path], of: int, out: Path) -> None:
    """Puts the counts of shards into the checkpoint of a run.

    Args:
        shards: the checkpoint of each, by its number.
        of: how many there are.
        out: the checkpoint to be.

    Raises:
        OutputError: they do not fit together, or nothing can be written there.
    """
    names = {
        file.name
        for folder in shards.values()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.suffix == ".json" and is_own(file)
    }
    for name in sorted(names):
        whole = _merged({number: folder / name for number, folder in shards.items()}, of)
        try:
            write_entries(out / name, whole)
        except OSError as error:
            raise OutputError(f"{out}: cannot write there: {error.strerror}") from error


def _merged(files: Mapping[int, Path], of: int) -> dict[str, Saved]:
    """All counts in files of one name."""
    whole: dict[str, Saved] = {}
    parts: dict[str, list[Part]] = {}
    for number, file in files.items():
        if not file.exists():
            continue
        entries = read_entries(file)
        if entries is None:
            raise OutputError(f"{file}: is damaged; count this shard again")
        for key, saved in entries.items():
            found = window_of(key)
            if found is not None:
                parts.setdefault(found[0], []).append(Part(number, found[1], saved))
            elif key not in whole or sum(whole[key].done) < sum(saved.done):
                whole[key] = saved
    for key, of_key in parts.items():
        whole[key] = _sum(sorted(of_key, key=lambda part: part.window.start), of)
    return whole


def _sum(parts: list[Part], of: int) -> Saved:
    """Counts of all chunks from those of some each.

    Raises:
        OutputError: chunks are missing, or there twice.
    """
    end = 0
    for part in parts:
        if part.saved.done != (part.window.stop, part.window.stop):
            raise OutputError(f"shard {part.shard} is not complete: run it again, it goes on")
        if part.window.start > end:
            raise OutputError(f"chunks {end} to {part.window.start - 1} are in no shard: {OTHER}")
        if part.window.start < end:
            raise OutputError(f"chunks from {part.window.start} on are in two shards")
        end = part.window.stop
    if parts[-1].shard != of:
        raise OutputError(f"chunks from {end} on are in no shard: {OTHER}")
    total: list[Any] = [
        np.sum([np.asarray(leaf, np.int64) for leaf in leaves], axis=0).tolist()
        for leaves in zip(*(part.saved.leaves for part in parts), strict=True)
    ]
    return Saved((end, end), total)
