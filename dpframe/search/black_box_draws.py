"""Draw, keep and check the answers of a black box."""

import base64
import itertools
import json
import math
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import files
from dpframe.common.types import HostArray
from dpframe.engine.independence import Independence, check_addresses
from dpframe.interfaces.attack import ABSENT, BEFORE, SECONDS
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.sampling.address import EVAL, Asking, Shape, Stream, digest, of_answers
from dpframe.workers.requests import Lent, Load, Overdue, RaisedError, Request, WorkerSource
from dpframe.workers.scheduling import BUNDLE, Clock, handed_out

MOST_PAIRS = 256  # pairs of one search, each with answers in memory


# The first chunks are small, so that a slow box shows early leaks early; later chunks are large,
# because small ones would slow down a fast box. Sizes depend on the number of the chunk and not on
# the speed of the machine, so an answer has the same address on every machine.

FIRST_ROWS = 8  # answers of each of the first chunks
LEVEL = 32  # consecutive chunks of one size
STEP = 4  # growth from one size to the next

LEVELS = 6

LARGEST_ROWS = 1 << 12  # answers of a chunk, at most
CHUNK_BYTES = 1 << 23  # bytes of a chunk, at most, once the width of an answer is known


class ChunkSpan(NamedTuple):
    """Consecutive chunks of one size, of one dataset."""

    dataset: int
    first: int
    stop: int
    rows: int

    @property
    def draws(self) -> int:
        """Number of answers in all of them."""
        return (self.stop - self.first) * self.rows


class ChunkSizes:
    """Sizes of the chunks of one pair: `rows` if the spec or the box sets it, else growing."""

    def __init__(self, rows: int | None) -> None:
        self._rows = rows
        self.widest: int | None = None  # bytes of an answer, known once the first chunks are drawn

    def rows_of(self, chunk: int) -> int:
        """Return the number of answers of a chunk, for each dataset."""
        if self._rows is not None:
            return self._rows
        rows: int = FIRST_ROWS * STEP ** min(chunk // LEVEL, LEVELS)
        fits = LARGEST_ROWS if self.widest is None else max(FIRST_ROWS, CHUNK_BYTES // self.widest)
        return min(rows, LARGEST_ROWS, 1 << (fits.bit_length() - 1))

    def until(self, first: int, draws: int, most: int) -> int:
        """Return the end of a round that has at least `draws` answers and begins with `first`.

        The end is the number of the chunk after the last; it is `first` if no chunk fits.
        """
        stop, got = first, 0
        while got < draws and got + self.rows_of(stop) <= most:
            got += self.rows_of(stop)
            stop += 1
        return stop

    def draws(self, first: int, stop: int) -> int:
        """Return the number of answers of some chunks, for each dataset."""
        return sum(span.draws for span in self.spans(0, first, stop))

    def spans(self, dataset: int, first: int, stop: int) -> list[ChunkSpan]:
        """Group some chunks by size."""
        spans = []
        for rows, chunks in itertools.groupby(range(first, stop), self.rows_of):
            begin, *rest = chunks
            spans.append(ChunkSpan(dataset, begin, begin + 1 + len(rest), rows))
        return spans


COMPARED = 8  # numbers of an answer that are tested for dependence


class PairIndependence:
    """Tests all answers of a pair for dependence, in chunks of any size.

    Without `drift`, answers may change over time, because slow ones become timeouts.
    """

    def __init__(self, drift: bool, box: HostMechanism) -> None:
        self._drift, self._boxes = drift, (box,)
        self._by_rows: dict[int, Independence] = {}
        self._lock = threading.Lock()

    def see(self, span: ChunkSpan, rows: HostArray, *, counted: bool) -> None:
        """Take in answers, as rows of 64-bit words; raises WorthlessError."""
        with self._lock:
            if span.rows not in self._by_rows:
                share = (LEVELS + 1) * MOST_PAIRS  # all of these share the error probability
                self._by_rows[span.rows] = Independence(
                    span.rows, share, answers=True, drift=self._drift, boxes=self._boxes
                )
            known = self._by_rows[span.rows]
        some = np.full((len(rows), BEFORE + COMPARED), ABSENT, np.uint64)
        width = min(rows.shape[1], some.shape[1])
        some[:, :width] = rows[:, :width]
        some[:, SECONDS] = 0  # the time of an answer may repeat
        known.see(0, span.dataset, span.first, some, counted=counted)

    def conclude(self) -> None:
        """Check the answers once more; raises WorthlessError."""
        for one in self._by_rows.values():
            one.conclude()


# An interrupted search repeats its steps. A box with a seed could draw the same answers again, at
# their cost; a box without one would give other answers, and the earlier bets would be lost. So
# the answers of a round are stored before they are bet on, and read when the search continues. The
# files are removed when the record is written.

SUFFIX = ".answers"

FILE_BYTES = 1 << 26  # bytes of answers that one search keeps on disk; later ones are drawn again

SCHEMA = 1

MOST_BYTES = 1 << 28  # of the answers of a round, as they are read; more are drawn again
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class KeptRound(NamedTuple):
    """Answers of consecutive chunks of a pair, with the worker's information about them."""

    sides: tuple[HostArray, HostArray]  # on D and on D′, as rows of 64-bit words
    natives: set[tuple[int, ...] | None]  # shapes of the numbers in all answers so far
    one: bool  # True if the box was asked for one answer at a time
    words: dict[int, str]  # texts of the codes in the answers
    paces: tuple[Sequence[float], ...] = ((), ())
    """Seconds per answer on D and on D′, each averaged over a few answers."""


class AnswerFile:
    """Kept answers of one pair, in a file if one is given.

    `room` has the bytes left for all pairs of the search, as a list of one number.
    """

    def __init__(self, file: Path | None = None, room: list[int] | None = None) -> None:
        self._file, self._room = file, [0] if room is None else room
        self._lines: dict[tuple[int, int], str] = {}
        if file is not None:
            self._read(file)

    def load(self, first: int, stop: int, rows: int) -> KeptRound | None:
        """Return the answers of chunks first … stop − 1, if kept as a round of `rows` answers."""
        line = self._lines.get((first, stop))
        # A file may hold anything; an impossible round is drawn again.
        try:
            return None if line is None else _parsed(line, rows)
        except (*UNREADABLE, OverflowError, zlib.error):
            return None

    def save(self, first: int, stop: int, found: KeptRound, words: Mapping[int, str]) -> None:
        """Keep the answers of some chunks, if there is room; `words` has the texts of all codes."""
        if self._file is None or self._room[0] <= 0:
            return
        codes = {code for side in found.sides for code in np.unique(side[:, :2]).tolist()}
        known = {code: text for code, text in words.items() if code in codes}
        line = _line(first, stop, found._replace(words=known))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            files.append(self._file, line, durable=False)
        except OSError:  # a full disk: later answers would be drawn again
            self._room[0] = 0
            return
        self._room[0] -= len(line)

    def _read(self, file: Path) -> None:
        """Read all whole lines, and cut off a line that a killed run left unfinished."""
        try:
            text = files.read_folder(file).decode()
        except (OSError, ValueError):
            return
        whole = 0
        for line in text.splitlines(keepends=True):
            content, _, told = line.rpartition("\t")
            if told != f"{digest(content, 16)}\n":
                break
            try:
                first, stop = json.loads(content)["chunks"]
                self._lines[first, stop] = line
            except UNREADABLE:
                break
            whole += len(line)
        self._room[0] -= whole
        if whole < len(text):
            try:
                files.replace(file, text[:whole])
            except OSError:
                self._file = None


class AnswerFiles:
    """Kept answers of one search, in the directory of the checkpoint; None keeps none."""

    def __init__(self, directory: Path | None) -> None:
        self._directory, self._room = directory, [FILE_BYTES]

    def of(self, stream: Stream, box: Any) -> AnswerFile:
        """Return the file of one pair; `box` identifies the black box and its settings."""
        if self._directory is None:
            return AnswerFile()
        name = f"{stream.group}-{digest([SCHEMA, list(stream), box])}{SUFFIX}"
        return AnswerFile(self._directory / name, self._room)


def _line(first: int, stop: int, found: KeptRound) -> str:
    x, y = found.sides
    words = np.concatenate([x, y]).astype("<u8").tobytes()
    content = {
        "schema": SCHEMA,
        "chunks": [first, stop],
        "rows": [len(x), len(y)],
        "natives": [shape if shape is None else list(shape) for shape in found.natives],
        "one": found.one,
        "words": found.words,
        "paces": found.paces,
        "answers": base64.b64encode(zlib.compress(words, 1)).decode(),
    }
    text = json.dumps(content, separators=(",", ":"))
    return f"{text}\t{digest(text, 16)}\n"


def _parsed(line: str, rows: int) -> KeptRound:
    """Read a line; raises an error if it cannot be a round of this many answers."""
    found: dict[str, Any] = json.loads(line.rpartition("\t")[0])
    data = base64.b64decode(found["answers"], validate=True)
    inflating = zlib.decompressobj()
    raw = np.frombuffer(inflating.decompress(data, MOST_BYTES), "<u8")
    both = raw.astype(np.uint64).reshape(2 * rows, -1)
    natives = {shape if shape is None else tuple(shape) for shape in found["natives"]}
    words = {int(code): text for code, text in found["words"].items()}
    paces = tuple(found.get("paces", ((), ())))
    sizes = [size for shape in natives if shape is not None for size in shape]
    right = (
        inflating.eof
        and found["rows"] == [rows, rows]
        and both.shape[1] >= BEFORE
        and type(found["one"]) is bool
        and all(type(size) is int and size >= 0 for size in sizes)
        and all(0 <= code < 1 << 64 and type(text) is str for code, text in words.items())
        and len(paces) == 2
        and all(type(pace) is float and 0 <= pace < math.inf for told in paces for pace in told)
    )
    if not right:
        raise ValueError("no round of answers")
    return KeptRound((both[:rows], both[rows:]), natives, found["one"], words, paces)


HANDOVER = 0.1  # seconds to send a box to a free worker; longer delays are waiting


class BlackBoxDraws:
    """Draws of one pair from a black box, by as many workers as there are tasks for.

    `rows` is the size of every chunk, if the spec or the box sets it. The clock has the time that
    the box has used in the search; `kept` has answers of an earlier try.
    """

    def __init__(
        self,
        mechanism: HostMechanism,
        data: tuple[Any, Any],
        stream: Stream,
        asking: Asking,
        source: WorkerSource,
        rows: int | None,
        clock: Clock,
        kept: AnswerFile | None = None,
    ) -> None:
        self.mechanism, self.stream, self.asking, self.source = mechanism, stream, asking, source
        self.sizes, self.clock, self.kept = ChunkSizes(rows), clock, kept or AnswerFile()
        self.paces: tuple[list[float], list[float]] = [], []
        """Seconds per answer on D and on D′, each averaged over a few, by the workers' clocks."""
        self._load = Load((mechanism,), data)
        self._natives: set[tuple[int, ...] | None] = set()
        """Shapes of the numbers in all answers; None for an answer that is not an array of
        numbers."""
        self._width = 0  # numbers of the widest answer so far, rounded up to a power of two
        self._independence = PairIndependence(asking.limit is None, mechanism)
        self._cost: float | None = None  # seconds of the last answer, transfer included
        self._at_work, self._since = 0, 0.0
        self._lock = threading.Lock()

    @property
    def shape(self) -> Shape:
        """Shape of the answers so far."""
        native = next(iter(self._natives)) if len(self._natives) == 1 else None
        return of_answers(self.asking, self._width, native)

    def begin(self, stop: int) -> tuple[HostArray, HostArray]:
        """Draw the first chunks; if `sample` or `releases` raises, ask for single answers."""
        kept = self.kept.load(0, stop, self.sizes.draws(0, stop))
        if kept is not None:
            self.asking = self.asking._replace(one=kept.one)
        try:
            return self.draw(0, stop)
        except RaisedError:
            # A box of single releases raises here only if a program makes several at a time.
            if self.asking.one or not self.asking.raises:
                raise
            self.asking = self.asking._replace(one=True)
            return self.draw(0, stop)

    def draw(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Return the answers of some chunks on D and on D′, as rows of 64-bit words.

        Raises:
            Overdue: the search is out of time; no answer of the round counts.
            SampleError: the box failed to answer.
            WorthlessError: the answers cannot be independent.
        """
        kept = self.kept.load(first, stop, self.sizes.draws(first, stop))
        if kept is not None and kept.one == self.asking.one:
            return self._take_kept(kept, first, stop)
        before = [len(told) for told in self.paces]
        sides = self._drawn(first, stop)
        paces = tuple(told[had:] for told, had in zip(self.paces, before, strict=True))
        kept = KeptRound(sides, self._natives, self.asking.one, {}, paces)
        self.kept.save(first, stop, kept, self.source.words)
        return sides

    def fitted(self, rows: HostArray) -> HostArray:
        """Return rows as wide as the widest answer so far."""
        columns = BEFORE + self._width
        return _padded(rows, columns)[:, :columns]

    def check_addresses(self) -> None:
        """Compare chunks at equal and different addresses; see `independence.check_addresses`."""

        def draw(worker: Lent, dataset: int) -> HostArray:
            where = (self.stream.of("addresses"), dataset, 0, 1, self.sizes.rows_of(0))
            return self._asked(worker, Request(0, 0, *where, self.asking))

        def see(rows: HostArray) -> None:
            self._independence.see(ChunkSpan(0, 0, 1, len(rows)), rows, counted=False)

        asked, seedable = time.monotonic(), self.mechanism.seedable
        with self.source.lend(self._load, 2) as workers:
            self.clock.give_back(time.monotonic() - asked)
            check_addresses(workers, draw, see, self.source.most, seedable=seedable, columns=2)

    def conclude(self) -> None:
        """Check the answers once more; raises WorthlessError."""
        self._independence.conclude()

    def _take_kept(self, kept: KeptRound, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Treat answers of an earlier try as if they had just been drawn."""
        self._natives |= kept.natives
        self.source.words.update(kept.words)
        for dataset, rows in enumerate(kept.sides):
            at = 0
            for span in self.sizes.spans(dataset, first, stop):
                self._independence.see(span, rows[at : at + span.draws], counted=True)
                at += span.draws
        for told, paces in zip(self.paces, kept.paces, strict=True):
            told.extend(paces)
        self._widen(kept.sides)
        return self.fitted(kept.sides[0]), self.fitted(kept.sides[1])

    def _drawn(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        spans = [span for dataset in (0, 1) for span in self.sizes.spans(dataset, first, stop)]

        def draw(span: ChunkSpan, chunks: range) -> HostArray:
            return self._answers(span._replace(first=chunks.start, stop=chunks.stop))

        which = [(span, range(span.first, span.stop)) for span in spans]
        with ThreadPoolExecutor(self.source.most) as threads:
            found = handed_out(which, self._chunks_of_task, draw, threads.submit, self.source.most)
        self._widen(rows for parts in found for rows in parts)
        drawn = list(zip(spans, found, strict=True))
        sides = [
            np.concatenate(
                [self.fitted(rows) for span, parts in drawn if span.dataset == d for rows in parts]
            )
            for d in (0, 1)
        ]
        return sides[0], sides[1]

    def _widen(self, found: Iterable[HostArray]) -> None:
        # As in `of_answers`, there is a column, perhaps of missing numbers, for attacks to see.
        numbers = max(1, *(rows.shape[1] - BEFORE for rows in found))
        if numbers > self._width:
            self._width = 1 << (numbers - 1).bit_length()
        self.sizes.widest = self.sizes.widest or 8 * (BEFORE + self._width)

    def _chunks_of_task(self, span: ChunkSpan) -> int:
        if self._cost is None:
            return max(1, span.stop - span.first)
        return max(1, int(BUNDLE / max(self._cost * span.rows, 1e-9)))

    def _answers(self, span: ChunkSpan) -> HostArray:
        """Draw the answers of one task."""
        where = (self.stream.of(EVAL), span.dataset, span.first, span.stop, span.rows)
        asked = time.monotonic()
        with self.source.lend(self._load) as (worker, *_):
            started = time.monotonic()
            with self._lock:
                if self._at_work == 0:  # time spent waiting for the first worker is not the box's
                    self.clock.give_back(max(0.0, started - max(asked, self._since) - HANDOVER))
                self._at_work += 1
            try:
                rows = self._asked(worker, Request(0, span.dataset, *where, self.asking))
            finally:
                with self._lock:
                    self._at_work, self._since = self._at_work - 1, time.monotonic()
            with self._lock:
                self._cost = (time.monotonic() - started) / span.draws
        self._independence.see(span, rows, counted=True)
        return rows

    def _asked(self, worker: Lent, request: Request) -> HostArray:
        deadline = self.clock.deadline()
        if deadline is not None and time.monotonic() >= deadline:
            raise Overdue
        parts = []
        for part, told in worker.draw(request, deadline):
            self._natives |= told.natives
            with self._lock:
                self.paces[request.data].extend(told.paces)
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        width = max(part.shape[1] for part in parts)
        return np.concatenate([_padded(part, width) for part in parts])


def _padded(rows: HostArray, columns: int) -> HostArray:
    """Fill rows up to a number of columns; wider ones stay as they are."""
    if rows.shape[1] >= columns:
        return rows
    more = (0, 0), (0, columns - rows.shape[1])
    filled: HostArray = np.pad(rows, more, constant_values=np.uint64(ABSENT))
    return filled
