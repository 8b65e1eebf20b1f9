"""Counts on disk: what is counted once is never counted again, and never counted twice.

Counts are stored under what determines them: the address of the draws in the file's name, and in
it an entry per mechanism parameters, attack and statistic. A new title, confidence or expectation
finds them again; a changed parameter does not.
"""

from __future__ import annotations

import json
import re
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.engine.addresses.address import Stream, digest
from dpframe.record import folder
from dpframe.statistic import BinCounts, DecisionCounts

if TYPE_CHECKING:
    from pathlib import Path

    from dpframe.engine.counts.tally import Tally
    from dpframe.engine.planning.plan import Pass, Place
    from dpframe.spec.audit import Cell
    from dpframe.types import Tree


SCHEMA = 1

INTERVAL = 2.0
"""Seconds between two writes."""


class Saved(NamedTuple):
    """Counts of the chunks 0 … done[d] − 1 of each dataset d; of a shard, from its first one on."""

    done: tuple[int, int]
    leaves: list[Any]
    """The leaves of the counts, as nested lists."""


class Store:
    """The checkpoint of a run.

    Args:
        directory: where it lives; None keeps everything in memory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self.problem: str | None = None
        """Why the last write failed, if it did; the run goes on without it."""
        self._entries: dict[Stream, dict[str, Saved]] = {}
        self._changed: set[Stream] = set()
        self._written = time.monotonic()
        self._lock = threading.Lock()

    def load(self, stream: Stream, key: str) -> Saved | None:
        """What is stored for an entry."""
        with self._lock:
            return self._of(stream).get(key)

    def save(self, stream: Stream, key: str, saved: Saved) -> None:
        """Takes progress in; an entry that has come further already is kept."""
        with self._lock:
            known = self._of(stream).get(key)
            if known is None or sum(known.done) < sum(saved.done):
                self._changed.add(stream)  # first: a signal may raise anywhere
                self._entries[stream][key] = saved

    def forget(self, stream: Stream, key: str) -> None:
        """Takes an entry back."""
        with self._lock:
            if key in self._of(stream):
                self._changed.add(stream)
                del self._entries[stream][key]

    @property
    def due(self) -> bool:
        """Whether the last write is long enough ago."""
        return time.monotonic() - self._written > INTERVAL

    def flush(self) -> None:
        """Writes what has changed; a failure is remembered in `problem` and loses nothing."""
        self._written = time.monotonic()
        if self.directory is None:
            return
        with self._lock:
            changed = sorted(self._changed)
        for stream in changed:
            with self._lock:  # searches go on saving in threads of their own
                entries = dict(self._entries[stream])
            try:
                self._write(stream, entries)
            except OSError as error:
                self.problem = f"{self.directory}: cannot write the checkpoint: {error.strerror}"
                return
            with self._lock:
                if self._entries[stream] == entries:  # else there is more to write already
                    self._changed.discard(stream)
        self.problem = None

    def clear(self) -> None:
        """Forgets everything, on disk too."""
        self._entries.clear()
        self._changed.clear()
        if self.directory is not None and self.directory.is_dir():
            for file in self.directory.iterdir():
                if is_own(file):
                    file.unlink(missing_ok=True)

    def drop_answers(self) -> None:
        """Forgets answers that an interrupted search would have gone on with."""
        if self.directory is not None and self.directory.is_dir():
            for file in self.directory.glob("*.answers"):
                if is_own(file):
                    file.unlink(missing_ok=True)

    def _of(self, stream: Stream) -> dict[str, Saved]:
        if stream not in self._entries:
            self._entries[stream] = self._read(stream)
        return self._entries[stream]

    def _file(self, stream: Stream) -> Path | None:
        name = f"{stream.group}-{digest(list(stream))}.json"
        return None if self.directory is None else self.directory / name

    def _read(self, stream: Stream) -> dict[str, Saved]:
        """The entries on disk; a file that is not whole counts as absent."""
        file = self._file(stream)
        return {} if file is None else read_entries(file) or {}

    def _write(self, stream: Stream, entries: dict[str, Saved]) -> None:
        file = self._file(stream)
        if file is not None:
            write_entries(file, entries)


def read_entries(file: Path) -> dict[str, Saved] | None:
    """The entries in one file of a store; None if it is not there, or not whole."""
    try:
        found = json.loads(folder.read(file))
        if found["schema"] != SCHEMA or found["digest"] != digest(found["entries"], 16):
            return None
        return {
            key: Saved((int(done[0]), int(done[1])), leaves)
            for key, (done, leaves) in found["entries"].items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def write_entries(file: Path, saved: dict[str, Saved]) -> None:
    """Writes one file of a store.

    Raises:
        OSError: it cannot be written.
    """
    # In one order, whichever thread came first: equal counts are equal files.
    entries = {key: [list(one.done), one.leaves] for key, one in sorted(saved.items())}
    content = {"schema": SCHEMA, "digest": digest(entries, 16), "entries": entries}
    file.parent.mkdir(parents=True, exist_ok=True)
    folder.replace(file, json.dumps(content, separators=(",", ":")))


_NAME = re.compile(r"\.?[0-9a-f]+-[0-9a-f]{16}\.(json|answers)(\.part)?")
_BEGINNING = b'{"schema":'


def is_own(file: Path) -> bool:
    """Whether a store has written a file, judging by its name and by how it begins."""
    if not _NAME.fullmatch(file.name) or file.is_symlink():
        return False
    try:
        start = folder.read(file)[: len(_BEGINNING)]
    except OSError:
        return False
    return start == _BEGINNING or (file.suffix == ".part" and _BEGINNING.startswith(start))


Done = tuple[int, int]


class Uneven(Exception):  # noqa: N818  # not an error: the pass is only to be divided
    """Cells of one pass have come to different points; each group goes on as a pass of its own."""

    def __init__(self, groups: list[list[Cell]]) -> None:
        super().__init__("cells have come to different points")
        self.groups = groups


def resume(
    the_pass: Pass,
    zeros: tuple[Tree, ...],
    keys: dict[str, str],
    store: Store,
    window: range | None = None,
) -> tuple[tuple[Tree, ...], Done]:
    """Finds the counts to go on from.

    Args:
        the_pass: the pass.
        zeros: per scorer counts of nothing; every leaf [lanes, attacks, …].
        keys: what each cell's counts are stored under.
        store: where they may be.
        window: whole chunks that are wanted; default: all.

    Returns:
        Per scorer the counts so far, int64, and before which whole chunk of each dataset they end.

    Raises:
        Uneven: the cells have not all come equally far.
    """
    window = range(the_pass.trials // the_pass.rows) if window is None else window
    nothing = (window.start, window.start)
    found: dict[Done, list[tuple[Cell, Place, Saved | None]]] = {}
    for cell, place in the_pass.cells:
        stored = store.load(the_pass.stream, keys[cell.id])
        saved = _usable(stored, the_pass, place, zeros[place.scorer], window)
        found.setdefault(saved.done if saved else nothing, []).append((cell, place, saved))
    if len(found) > 1:
        raise Uneven([[cell for cell, _, _ in group] for group in found.values()])
    ((done, cells),) = found.items()
    prefix = jax.tree.map(lambda leaf: leaf.astype(np.int64), zeros)
    for _, place, saved in cells:
        if saved is not None:
            leaves = jax.tree.leaves(prefix[place.scorer])
            for leaf, stored in zip(leaves, saved.leaves, strict=True):
                leaf[place.lane, place.attack] = stored
    return prefix, done


def saved(tally: Tally, place: Place) -> Saved:
    """What a store keeps of one cell."""
    leaves = jax.tree.leaves(tally.prefix[place.scorer])
    own: list[Any] = [leaf[place.lane, place.attack].tolist() for leaf in leaves]
    return Saved(tally.done, own)


def _usable(
    saved: Saved | None, the_pass: Pass, place: Place, zero: Tree, window: range
) -> Saved | None:
    """What is stored, unless it is impossible, or of more trials than wanted.

    Counts cannot be taken back.
    """
    within = saved and window.start <= min(saved.done) <= max(saved.done) <= window.stop
    if saved is None or not within:
        return None
    shapes = [leaf.shape[2:] for leaf in jax.tree.leaves(zero)]
    try:
        leaves = [np.asarray(leaf) for leaf in saved.leaves]
    except ValueError:  # not even rectangular
        return None
    if [leaf.shape for leaf in leaves] != shapes:
        return None
    if any(leaf.dtype.kind != "i" or np.any(leaf < 0) for leaf in leaves):
        return None
    if isinstance(the_pass.scorers[place.scorer].statistic, DecisionCounts | BinCounts):
        counted = np.sum(leaves[0], axis=1, dtype=object)  # every row of a chunk is counted once
        if list(counted) != [(done - window.start) * the_pass.rows for done in saved.done]:
            return None
    return saved
