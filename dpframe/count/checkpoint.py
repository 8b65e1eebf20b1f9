"""Store counts on disk, find them again, and merge those of shards.

The key of counts is everything that determines them: the address of the draws names the file, and
the parameters of mechanism, attack and statistic name an entry in it. A run with a new title,
confidence or expectation finds them again; a run with a changed parameter does not.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import files, trees
from dpframe.common.types import Tree
from dpframe.count.plan import Pass, PassPosition
from dpframe.count.rounds import counts_of_leaves, integers
from dpframe.draw.streams import Stream, digest, window_of
from dpframe.errors import OutputError, WrongResultError
from dpframe.interfaces.statistic import Statistic
from dpframe.spec.audit import Cell

SCHEMA = 1
BLOCKS = "blocks"

RAISED = "raised-"
"""Prefix of the keys under which a black box's exceptions are stored, beside the counts: their
numbers on D and on D′, and a list of their kinds."""

WRITE_SECONDS = 2.0  # seconds between two writes


class Saved(NamedTuple):
    """Counts of the chunks 0 … done[d] − 1 of each dataset d; of a shard, from its first one on."""

    done: tuple[int, int]
    leaves: list[Any]  # the leaves of the counts, as nested lists


class Store:
    """The checkpoint of a run; without a directory, counts are kept in memory.

    With `parts`, counts of that many windows of the draws are also stored separately, in the folder
    `BLOCKS` beside it.
    """

    def __init__(self, directory: Path | None = None, parts: int = 0) -> None:
        self.directory, self.parts = directory, parts
        self.blocks = Store(directory.with_name(BLOCKS)) if directory and parts else None
        self.problem: str | None = None
        """Reason why the last write failed, if it did; the run continues."""
        self._entries: dict[Stream, dict[str, Saved]] = {}
        self._changed: set[Stream] = set()
        self._written = time.monotonic()
        self._lock = threading.Lock()

    def load(self, stream: Stream, key: str) -> Saved | None:
        """Return the counts stored under a key."""
        with self._lock:
            return self._of(stream).get(key)

    def save(self, stream: Stream, key: str, saved: Saved) -> None:
        """Store counts, unless as many or more are stored under the key."""
        with self._lock:
            stored = self._of(stream).get(key)
            if stored is None or sum(stored.done) < sum(saved.done):
                self._changed.add(stream)  # first: a signal may raise anywhere
                self._entries[stream][key] = saved

    def forget(self, stream: Stream, key: str) -> None:
        """Remove an entry."""
        with self._lock:
            if key in self._of(stream):
                self._changed.add(stream)
                del self._entries[stream][key]

    @property
    def due(self) -> bool:
        """True if `WRITE_SECONDS` has passed since the last write."""
        return time.monotonic() - self._written > WRITE_SECONDS

    def flush(self) -> None:
        """Write the changes; a failure is noted in `problem`, and the counts stay in memory."""
        self._written = time.monotonic()
        if self.directory is None:
            return
        with self._lock:
            changed = sorted(self._changed)
        for stream in changed:
            with self._lock:  # searches keep saving from their own threads
                entries = dict(self._entries[stream])
            try:
                write_entries(self.directory / file_of(stream), entries)
            except OSError as error:
                self.problem = f"{self.directory}: cannot write the checkpoint: {error.strerror}"
                return
            with self._lock:
                if self._entries[stream] == entries:  # else there is more to write already
                    self._changed.discard(stream)
        self.problem = None
        if self.blocks:
            self.blocks.flush()
            self.problem = self.blocks.problem

    def clear(self) -> None:
        """Remove everything, on disk too."""
        self._entries.clear()
        self._changed.clear()
        if self.blocks:
            self.blocks.clear()
        self._remove_files("*")

    @property
    def calls(self) -> int:
        """Releases that an interrupted run had requested from black boxes."""
        saved = self.load(_CALLS, "calls")
        return 0 if saved is None else saved.done[0]

    def note_calls(self, number: int) -> None:
        """Keep the number of requested releases until the run is complete."""
        if number:
            self.save(_CALLS, "calls", Saved((number, number), []))

    def forget_calls(self) -> None:
        """End the run: the next one starts to count at 0."""
        if self.calls:
            self.forget(_CALLS, "calls")
            self.flush()

    def drop_answers(self) -> None:
        """Remove the answers kept for an interrupted search."""
        self._remove_files("*.answers")

    def _remove_files(self, pattern: str) -> None:
        for file in self.directory.glob(pattern) if self.directory is not None else ():
            if is_own(file):
                file.unlink(missing_ok=True)

    def _of(self, stream: Stream) -> dict[str, Saved]:
        """Return the entries of a stream; a damaged file counts as absent."""
        if stream not in self._entries:
            file = None if self.directory is None else self.directory / file_of(stream)
            self._entries[stream] = (file and read_entries(file)) or {}
        return self._entries[stream]


_CALLS = Stream(0, digest("calls"), 0, "calls")


def file_of(stream: Stream) -> str:
    """Return the name of the file that holds the counts of a stream."""
    return f"{stream.group}-{digest(list(stream))}.json"


def read_entries(file: Path) -> dict[str, Saved] | None:
    """Read one file of a store; None if it is absent or damaged."""
    try:
        content = json.loads(files.read_folder(file))
        if content["schema"] != SCHEMA or content["digest"] != digest(content["entries"], 16):
            return None
        return {key: _parsed(*entry) for key, entry in content["entries"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _parsed(done: Any, leaves: Any) -> Saved:
    first, second = done
    if not (type(first) is type(second) is int and 0 <= min(done) <= max(done) < 1 << 62):
        raise ValueError
    if not isinstance(leaves, list):
        raise TypeError
    return Saved((first, second), leaves)


def write_entries(file: Path, saved: dict[str, Saved]) -> None:
    """Write one file of a store; raise OSError if it cannot be written."""
    # In a fixed order, whichever thread came first: equal counts make equal files.
    entries = {key: [list(one.done), one.leaves] for key, one in sorted(saved.items())}
    content = {"schema": SCHEMA, "digest": digest(entries, 16), "entries": entries}
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, json.dumps(content, separators=(",", ":")))


_NAME = re.compile(r"\.?[0-9a-f]+-[0-9a-f]{16}\.(json|answers)(\.part)?")
_BEGINNING = b'{"schema":'


def is_own(file: Path) -> bool:
    """True if a store has written a file, judging by its name and its beginning."""
    if not _NAME.fullmatch(file.name) or file.is_symlink():
        return False
    try:
        start = files.read_folder(file)[: len(_BEGINNING)]
    except OSError:
        return False
    return start == _BEGINNING or (file.suffix == ".part" and _BEGINNING.startswith(start))


Done = tuple[int, int]


class MixedProgress(Exception):  # noqa: N818  # not an error: the pass is only to be divided
    """Cells of one pass have different stored counts; each group becomes a pass of its own."""

    def __init__(self, groups: list[list[Cell]]) -> None:
        super().__init__("cells have reached different points")
        self.groups = groups


def resume(
    the_pass: Pass,
    zeros: tuple[Tree, ...],
    keys: dict[str, str],
    store: Store,
    window: range | None = None,
) -> tuple[tuple[Tree, ...], Done]:
    """Find the stored counts of a pass in a window of whole chunks; default: all chunks.

    `zeros` has empty counts per scorer, leaves [variants, attacks, …]; `keys` has the key of each
    cell by its id.

    Returns:
        Per scorer the stored counts, int64, and for each dataset the chunk where they end.

    Raises:
        MixedProgress: the cells have different stored counts.
    """
    window = range(the_pass.trials // the_pass.rows) if window is None else window
    nothing = (window.start, window.start)
    by_progress: dict[Done, list[tuple[Cell, PassPosition, Saved | None]]] = {}
    for cell, place in the_pass.cells:
        stored = store.load(the_pass.stream, keys[cell.id])
        saved = _usable(stored, the_pass, place, zeros[place.scorer], window)
        by_progress.setdefault(saved.done if saved else nothing, []).append((cell, place, saved))
    if len(by_progress) > 1:
        raise MixedProgress([[cell for cell, _, _ in group] for group in by_progress.values()])
    ((done, cells),) = by_progress.items()
    prefix = trees.map(lambda leaf: leaf.astype(np.int64), zeros)
    for _, place, saved in cells:
        if saved is not None:
            leaves = trees.leaves(prefix[place.scorer])
            for leaf, stored in zip(leaves, saved.leaves, strict=True):
                leaf[place.variant, place.attack] = stored
    return prefix, done


def saved(counts: tuple[Tree, ...], done: Done, place: PassPosition) -> Saved:
    """Return the entry of one cell for a store, given the counts of its pass."""
    return Saved(done, [np.asarray(leaf).tolist() for leaf in trees.leaves(place.own(counts))])


def _usable(
    saved: Saved | None, the_pass: Pass, place: PassPosition, zero: Tree, window: range
) -> Saved | None:
    """Return stored counts, unless they are impossible or of too many trials."""
    if saved is None or not window.start <= min(saved.done) <= max(saved.done) <= window.stop:
        return None
    own = trees.map(lambda leaf: leaf[0, 0], zero)
    trials = [(done - window.start) * the_pass.rows for done in saved.done]
    statistic = the_pass.scorers[place.scorer].statistic
    return None if stored_counts(statistic, saved.leaves, own, trials) is None else saved


def stored_counts(
    statistic: Statistic, leaves: Any, zero: Tree, trials: Any, lead: int = 0
) -> Tree | None:
    """Return counts from a file, as `checked_counts` does; None if they are impossible."""
    try:
        return counts_of_leaves(statistic, leaves, zero, trials, lead)
    except WrongResultError:
        return None


OTHER = (
    "the shards were counted with different code or data, or their attacks learned something "
    "different (as they do each time if a mechanism takes no seed)"
)


class StoredCounts(NamedTuple):
    """Counts of some chunks, from one shard."""

    shard: int
    window: range
    saved: Saved


def merge(shards: Mapping[int, Path], of: int, out: Path) -> None:
    """Add up the counts of shards, given by number, in the checkpoint of a run.

    Raises:
        OutputError: they do not fit together, or `out` cannot be written to.
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
    """Merge the files of one name."""
    whole: dict[str, Saved] = {}
    parts: dict[str, list[StoredCounts]] = {}
    for number, file in files.items():
        if not file.exists():
            continue
        entries = read_entries(file)
        if entries is None:
            raise OutputError(f"{file}: is damaged; count this shard again")
        for key, saved in entries.items():
            window = window_of(key)
            if window is not None:
                parts.setdefault(window[0], []).append(StoredCounts(number, window[1], saved))
            elif key not in whole or sum(whole[key].done) < sum(saved.done):
                whole[key] = saved
    for key, of_key in parts.items():
        of_key.sort(key=lambda part: part.window.start)
        whole[key] = _sum(of_key, of, _raised if key.startswith(RAISED) else _added)
    return whole


def _sum(parts: list[StoredCounts], of: int, add: Callable[[Any, Any], list[Any]]) -> Saved:
    """Add up counts of chunks; raise OutputError if chunks are missing or counted twice."""
    end = 0
    for part in parts:
        if part.saved.done != (part.window.stop, part.window.stop):
            raise OutputError(f"shard {part.shard} is not complete: run it again to continue")
        if part.window.start > end:
            raise OutputError(f"chunks {end} to {part.window.start - 1} are in no shard: {OTHER}")
        if part.window.start < end:
            raise OutputError(f"chunks from {part.window.start} on are in two shards")
        end = part.window.stop
    if parts[-1].shard != of:
        raise OutputError(f"chunks from {end} on are in no shard: {OTHER}")
    total: list[Any] = []
    for part in parts:
        try:
            total = add(total, part.saved.leaves)
        except (WrongResultError, TypeError, ValueError):
            raise OutputError(
                f"shard {part.shard} contains impossible counts; count it again"
            ) from None
    return Saved((end, end), total)


def _added(total: list[Any], leaves: list[Any]) -> list[Any]:
    more = [integers(leaf) for leaf in leaves]
    if total and [leaf.shape for leaf in more] != [np.shape(leaf) for leaf in total]:
        raise ValueError  # NumPy would repeat the smaller one
    return [
        (np.asarray(a) + b).tolist() for a, b in zip(total or [0] * len(more), more, strict=True)
    ]


def _raised(total: list[Any], leaves: list[Any]) -> list[Any]:
    """Add the numbers of exceptions, and join the lists of their kinds."""
    numbers, kinds = leaves
    before, kinds_before = total or ([0, 0], [])
    return [*_added([before], [numbers]), sorted({*kinds_before, *kinds})]
