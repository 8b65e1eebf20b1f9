"""Draw, keep and check the answers of a black box."""

from __future__ import annotations

import base64
import json
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.independence import NOT_SEEDABLE, Independence
from dpframe.errors import SampleError
from dpframe.interfaces.attack import ABSENT, BEFORE, SECONDS
from dpframe.results import store as folder
from dpframe.sampling.address import EVAL, digest, of_answers
from dpframe.workers.scheduling import BUNDLE, Load, Overdue, RaisedError, Request, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from dpframe.common.types import HostArray
    from dpframe.interfaces.mechanism import HostMechanism
    from dpframe.sampling.address import Asking, Shape, Stream
    from dpframe.workers.scheduling import Clock, Lent, Source


# Chunks of a black box's answers, and who draws which of them.


class Part(NamedTuple):
    """Consecutive chunks of one size, of one dataset."""

    dataset: int
    first: int
    stop: int
    rows: int

    @property
    def draws(self) -> int:
        """Answers in all of them."""
        return (self.stop - self.first) * self.rows


class Todo:
    """Parts, handed out in tasks to whoever is free."""

    def __init__(self, parts: Sequence[Part], at_once: Callable[[Part], int]) -> None:
        self._parts, self._at_once = list(parts), at_once
        self._lock = threading.Lock()

    def take(self) -> Part | None:
        """The next task, or None when there is nothing left."""
        with self._lock:
            if not self._parts:
                return None
            part = self._parts.pop(0)
            stop = min(part.stop, part.first + self._at_once(part))
            if stop < part.stop:
                self._parts.insert(0, part._replace(first=stop))
            return part._replace(stop=stop)

    def stop(self) -> None:
        """Nothing is left."""
        with self._lock:
            self._parts.clear()


# How the answers of a black box on one pair are cut into chunks, and these into rounds.
#
# A slow box should show in a few calls what it shows at once, and a fast one should not be asked
# for
# eight answers at a time. So chunks grow with their number: which chunk an answer belongs to, and
# so
# its address, does not depend on how fast the machine is.


FIRST = 8
"""Rows of the first chunks."""

LEVEL = 32
"""Chunks of one size."""

STEP = 4
"""How much larger those after them are."""

LARGEST = 1 << 12
"""Rows of a chunk, at most."""

LEVELS = 6

NBYTES = 1 << 23
"""Bytes of the rows of a chunk, at most, once it is known how wide they are."""


class Sizes:
    """Of the chunks of one pair.

    Args:
        rows: of every chunk, where the spec or the box says so; else they grow.
    """

    def __init__(self, rows: int | None) -> None:
        self._rows = rows
        self.widest: int | None = None
        """Bytes of a row, once the first chunks are there."""

    def rows_of(self, chunk: int) -> int:
        """Answers of a chunk of each dataset."""
        if self._rows is not None:
            return self._rows
        rows: int = FIRST * STEP ** min(chunk // LEVEL, LEVELS)
        fits = LARGEST if self.widest is None else max(FIRST, NBYTES // self.widest)
        return min(rows, LARGEST, 1 << (fits.bit_length() - 1))

    def until(self, first: int, draws: int, most: int) -> int:
        """Where a round ends that begins at a chunk.

        Args:
            first: number of its first chunk.
            draws: how many answers are wanted, about.
            most: how many there may be.

        Returns:
            Number of the chunk after its last one; `first` itself if none fits.
        """
        stop, got = first, 0
        while got < draws and got + self.rows_of(stop) <= most:
            got += self.rows_of(stop)
            stop += 1
        return stop

    def draws(self, first: int, stop: int) -> int:
        """Answers of some chunks of each dataset."""
        return sum(part.draws for part in self.parts(0, first, stop))

    def parts(self, dataset: int, first: int, stop: int) -> list[Part]:
        """Chunks, those of one size together."""
        parts: list[Part] = []
        for chunk in range(first, stop):
            rows = self.rows_of(chunk)
            if parts and parts[-1].rows == rows:
                parts[-1] = parts[-1]._replace(stop=chunk + 1)
            else:
                parts.append(Part(dataset, chunk, chunk + 1, rows))
        return parts


# Whether answers of one pair depend on each other, whatever the size of their chunks.


MOST_PAIRS = 256
"""Pairs of one search: each is learned about and kept."""

COMPARED = 8
"""Numbers of an answer by which it is told whether answers depend on each other."""


class BoxIndependence:
    """Looks at all answers of a pair."""

    def __init__(self) -> None:
        self._known: dict[int, Independence] = {}
        """By the rows of a chunk."""
        self._lock = threading.Lock()

    def see(self, part: Part, rows: HostArray, *, counted: bool) -> None:
        """Takes in answers; raises WorthlessError.

        Args:
            part: which chunks they are.
            rows: answers, as rows of 64-bit words.
            counted: whether anything is counted of them.
        """
        with self._lock:
            if part.rows not in self._known:
                lanes = (LEVELS + 1) * MOST_PAIRS  # which share the probability of a mistake
                self._known[part.rows] = Independence(part.rows, lanes, answers=True)
            known = self._known[part.rows]
        some = np.full((len(rows), BEFORE + COMPARED), ABSENT, np.uint64)
        width = min(rows.shape[1], some.shape[1])
        some[:, :width] = rows[:, :width]
        some[:, SECONDS] = 0  # how long an answer took is no part of what must not come twice
        known.see(0, part.dataset, part.first, some, counted=counted)

    def conclude(self) -> None:
        """A last look at them; raises WorthlessError."""
        for one in self._known.values():
            one.conclude()


# Answers of black boxes on disk while a search is under way: what was drawn is not drawn again.
#
# A search that is interrupted goes through the same steps again. Of a box that takes a seed it
# could
# draw the same answers again, for what they cost; of one that does not it could only draw others,
# and what had been bet on them would be lost. So the answers of every round are written down
# before
# anything is bet on them, and taken from there when the search goes on. They go when the record
# is
# there.


SUFFIX = ".answers"

MOST = 1 << 26
"""Bytes of answers that one search keeps on disk; what comes after that is drawn again."""

SCHEMA = 1


class Round(NamedTuple):
    """Answers of consecutive chunks of a pair, and what a worker told beside them."""

    sides: tuple[HostArray, HostArray]
    """On D and on D′, as rows of 64-bit words."""
    natives: set[tuple[int, ...] | None]
    """Shapes in which numbers had come until then."""
    one: bool
    """Whether the box was asked for one answer at a time."""
    words: dict[int, str]
    """What codes in them stand for."""
    paces: tuple[Sequence[float], ...] = ((), ())
    """Seconds per answer on D and on D′, each of a few of them."""


class Shelf:
    """Answers of one pair.

    Args:
        file: where they are; None keeps none.
        room: what is left for all pairs of the search.
    """

    def __init__(self, file: Path | None = None, room: list[int] | None = None) -> None:
        self._file, self._room = file, [0] if room is None else room
        self._lines: dict[tuple[int, int], str] = {}
        if file is not None:
            self._read(file)

    def load(self, first: int, stop: int) -> Round | None:
        """The answers of some chunks, if they are there as one round."""
        line = self._lines.get((first, stop))
        return None if line is None else _round(json.loads(line.rpartition("\t")[0]))

    def save(self, first: int, stop: int, found: Round, words: Mapping[int, str]) -> None:
        """Keeps the answers of some chunks; where that cannot be, they are not kept.

        Args:
            first: number of the first chunk.
            stop: that of the chunk after the last.
            found: the answers; its words are looked up.
            words: what codes of the run stand for.
        """
        if self._file is None or self._room[0] <= 0:
            return
        codes = {code for side in found.sides for code in np.unique(side[:, :2]).tolist()}
        known = {code: text for code, text in words.items() if code in codes}
        line = _line(first, stop, found._replace(words=known))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            folder.append(self._file, line, durable=False)
        except OSError:  # a full disk: nothing is lost but what is not drawn yet
            self._room[0] = 0
            return
        self._room[0] -= len(line)

    def _read(self, file: Path) -> None:
        """Takes in what is whole; what a run has written when it was killed may not be."""
        try:
            text = folder.read_folder(file).decode()
        except (OSError, ValueError):
            return
        whole = 0
        for line in text.splitlines(keepends=True):
            key = _key(line)
            if key is None:
                break
            self._lines[key] = line
            whole += len(line)
        self._room[0] -= whole
        if whole < len(text):
            try:
                folder.replace(file, text[:whole])
            except OSError:
                self._file = None


class Shelves:
    """Where one search keeps its answers.

    Args:
        directory: of the checkpoint; None keeps none.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory, self._room = directory, [MOST]

    def of(self, stream: Stream, box: Any) -> Shelf:
        """The shelf of one pair.

        Args:
            stream: address of its draws.
            box: all that makes other answers of the same draws, as JSON content.
        """
        if self._directory is None:
            return Shelf()
        name = f"{stream.group}-{digest([SCHEMA, list(stream), box])}{SUFFIX}"
        return Shelf(self._directory / name, self._room)


def _line(first: int, stop: int, found: Round) -> str:
    x, y = found.sides
    content = {
        "schema": SCHEMA,
        "chunks": [first, stop],
        "rows": [len(x), len(y)],
        "natives": [shape if shape is None else list(shape) for shape in found.natives],
        "one": found.one,
        "words": found.words,
        "paces": found.paces,
        "answers": base64.b64encode(
            zlib.compress(np.concatenate([x, y]).astype("<u8").tobytes(), 1)
        ).decode(),
    }
    text = json.dumps(content, separators=(",", ":"))
    return f"{text}\t{digest(text, 16)}\n"


def _key(line: str) -> tuple[int, int] | None:
    """Which chunks a line holds; None if it is not whole."""
    text, _, told = line.rpartition("\t")
    if told != f"{digest(text, 16)}\n":
        return None
    first, stop = json.loads(text)["chunks"]
    return first, stop


def _round(found: dict[str, Any]) -> Round:
    raw = np.frombuffer(zlib.decompress(base64.b64decode(found["answers"])), "<u8")
    n, m = found["rows"]
    both = raw.astype(np.uint64).reshape(n + m, -1)
    natives = {shape if shape is None else tuple(shape) for shape in found["natives"]}
    words = {int(code): text for code, text in found["words"].items()}
    paces = tuple(found.get("paces", ((), ())))
    return Round((both[:n], both[n:]), natives, found["one"], words, paces)


# Answers of a black box on one pair, by as many workers as there are tasks for.


SHORT = 0.1
"""Seconds that it may take to hand a box over to a worker that is free; longer is waiting."""


class BoxDraws:
    """Draws of one pair.

    Args:
        mechanism: the box.
        data: D and D′, as a box gets them.
        stream: address of the draws.
        asking: how answers are asked for.
        source: who asks.
        rows: of every chunk, where the spec or the box says so; else they grow.
        clock: the time that the box has had in the search.
    """

    shelf = Shelf()
    """Answers that an earlier try has left."""

    def __init__(
        self,
        mechanism: HostMechanism,
        data: tuple[Any, Any],
        stream: Stream,
        asking: Asking,
        source: Source,
        rows: int | None,
        clock: Clock,
    ) -> None:
        self.mechanism, self.stream, self.asking, self.source = mechanism, stream, asking, source
        self.load = Load((mechanism,), data)
        self.natives: set[tuple[int, ...] | None] = set()
        """Shapes in which numbers came; None for what is no array of numbers."""
        self.width = 0
        """Numbers of the widest answer until now, rounded up to a power of two."""
        self.sizes, self.clock = Sizes(rows), clock
        self._independence = BoxIndependence()
        self.paces: tuple[list[float], list[float]] = [], []
        """Seconds per answer on D and on D′, each of a few of them, by the clocks of workers."""
        self._cost: float | None = None
        """Seconds that an answer cost last, with all that it takes to get it here."""
        self._at_work, self._since = 0, 0.0
        self._lock = threading.Lock()

    @property
    def shape(self) -> Shape:
        """Of the answers until now."""
        native = next(iter(self.natives)) if len(self.natives) == 1 else None
        return of_answers(self.asking, self.width, native)

    def begin(self, stop: int) -> tuple[HostArray, HostArray]:
        """The first chunks; a `sample` that raises is asked for one answer at a time from now on.

        Args:
            stop: number of the chunk after the last one.
        """
        kept = self.shelf.load(0, stop)
        if kept is not None:
            self.asking = self.asking._replace(one=kept.one)
        try:
            return self.draw(0, stop)
        except RaisedError:
            if self.asking.one or not self.asking.raises or self.mechanism.gives_releases():
                raise
            self.asking = self.asking._replace(one=True)
            return self.draw(0, stop)

    def draw(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Answers of some chunks on D and on D′, as rows of 64-bit words.

        Raises:
            Overdue: the time of the search was over first; none of them count.
            SampleError: the box did something else than answer.
            WorthlessError: the answers cannot be independent.
        """
        kept = self.shelf.load(first, stop)
        if kept is not None and kept.one == self.asking.one:
            return self._taken(kept, first, stop)
        before = [len(told) for told in self.paces]
        sides = self._drawn(first, stop)
        new = tuple(told[had:] for told, had in zip(self.paces, before, strict=True))
        kept = Round(sides, self.natives, self.asking.one, {}, new)
        self.shelf.save(first, stop, kept, self.source.words)
        return sides

    def _taken(self, kept: Round, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Answers of an earlier try, as if they had just been drawn."""
        self.natives |= kept.natives
        self.source.words.update(kept.words)
        for dataset, rows in enumerate(kept.sides):
            at = 0
            for part in self.sizes.parts(dataset, first, stop):
                self._independence.see(part, rows[at : at + part.draws], counted=True)
                at += part.draws
        for told, paces in zip(self.paces, kept.paces, strict=True):
            told.extend(paces)
        self._widen(kept.sides)
        self.sizes.widest = self.sizes.widest or 8 * (BEFORE + self.width)
        return self.fitted(kept.sides[0]), self.fitted(kept.sides[1])

    def _drawn(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        parts = [part for dataset in (0, 1) for part in self.sizes.parts(dataset, first, stop)]
        todo = Todo(parts, self._at_once)
        found: dict[tuple[int, int], HostArray] = {}

        def work() -> None:
            while (part := todo.take()) is not None:
                try:
                    found[part.dataset, part.first] = self._part(part)
                except BaseException:  # what is asked for after the first would be for nothing
                    todo.stop()
                    raise

        tasks = sum(-(-(part.stop - part.first) // self._at_once(part)) for part in parts)
        workers = max(1, min(self.source.most, tasks))
        with ThreadPoolExecutor(workers) as threads:
            for worker in [threads.submit(work) for _ in range(workers)]:
                try:
                    worker.result()
                except BaseException:
                    todo.stop()
                    raise
        self._widen(found.values())
        sides = [
            np.concatenate([self.fitted(found[key]) for key in sorted(found) if key[0] == dataset])
            for dataset in (0, 1)
        ]
        if self.sizes.widest is None:
            self.sizes.widest = 8 * (BEFORE + self.width)
        return sides[0], sides[1]

    def fitted(self, rows: HostArray) -> HostArray:
        """Rows as wide as the widest until now."""
        more = BEFORE + self.width - rows.shape[1]
        if more <= 0:
            return rows[:, : BEFORE + self.width]
        filled: HostArray = np.pad(rows, ((0, 0), (0, more)), constant_values=np.uint64(ABSENT))
        return filled

    def check_addresses(self) -> None:
        """Draws a chunk at its address and at another one, in two processes that are in step.

        Raises:
            SampleError: the same address gave other answers.
            WorthlessError: other addresses gave the same.
        """
        asked = time.monotonic()
        with self.source.lend(self.load, 2) as workers:
            self.clock.give_back(time.monotonic() - asked)
            pair = workers[0], workers[-1]
            here, there = self._two(pair, (0, 1))
            for rows in (here, there):
                self._independence.see(Part(0, 0, 1, len(rows)), rows, counted=False)
            if self.mechanism.seedable:
                for again in self._two(pair, (0, 0)):
                    if again[:, :2].tobytes() != here[:, :2].tobytes():
                        raise SampleError(NOT_SEEDABLE)

    def conclude(self) -> None:
        """A last look at the answers; raises WorthlessError."""
        self._independence.conclude()

    def _two(self, workers: tuple[Lent, Lent], datasets: tuple[int, int]) -> list[HostArray]:
        def call(worker: Lent, dataset: int) -> HostArray:
            where = (self.stream.of("addresses"), dataset, 0, 1, self.sizes.rows_of(0))
            return self._asked(worker, Request(0, 0, *where, self.asking))

        calls = [lambda w=w, d=d: call(w, d) for w, d in zip(workers, datasets, strict=True)]
        return at_once(calls, self.source.most)

    def _at_once(self, part: Part) -> int:
        """How many chunks of a part make a task."""
        if self._cost is None:
            return max(1, part.stop - part.first)
        return max(1, int(BUNDLE / max(self._cost * part.rows, 1e-9)))

    def _part(self, part: Part) -> HostArray:
        where = (self.stream.of(EVAL), part.dataset, part.first, part.stop, part.rows)
        asked = time.monotonic()
        with self.source.lend(self.load) as (worker, *_):
            started = self._begun(asked)
            try:
                rows = self._asked(worker, Request(0, part.dataset, *where, self.asking))
            finally:
                with self._lock:
                    self._at_work, self._since = self._at_work - 1, time.monotonic()
            with self._lock:
                self._cost = (time.monotonic() - started) / part.draws
        self._independence.see(part, rows, counted=True)
        return rows

    def _begun(self, asked: float) -> float:
        """A worker is there; what was waited for it while none was is not the box's time."""
        now = time.monotonic()
        with self._lock:
            if self._at_work == 0:
                self.clock.give_back(max(0.0, now - max(asked, self._since) - SHORT))
            self._at_work += 1
            return now

    def _asked(self, worker: Lent, request: Request) -> HostArray:
        deadline = self.clock.deadline()
        if deadline is not None and time.monotonic() >= deadline:
            raise Overdue
        parts = []
        for part in worker.draw(request, None, deadline):
            self.natives |= worker.told.natives
            with self._lock:
                self.paces[request.data].extend(worker.told.paces)
            parts.append(part)
        width = max(part.shape[1] for part in parts)
        if len(parts) == 1:
            return parts[0]
        filled = [
            np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=np.uint64(ABSENT))
            for p in parts
        ]
        return np.concatenate(filled)

    def _widen(self, found: Any) -> None:
        numbers = max(rows.shape[1] for rows in found) - BEFORE
        if numbers > self.width:
            self.width = 1 << (numbers - 1).bit_length()
