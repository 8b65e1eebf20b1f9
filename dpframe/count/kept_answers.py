"""Rounds of answers of a black box, and the choices of a search, kept until its record is written.

A search that is interrupted repeats its steps with them.
"""

import base64
import json
import math
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import files
from dpframe.common.types import HostArray
from dpframe.count.checkpoint import Saved, Store
from dpframe.draw.requests import BlackBoxPayload, RaisedError, WorkerSource
from dpframe.draw.sampler import BlackBoxSampler, ChunkSizes, PairIndependence, padded
from dpframe.draw.scheduling import Clock
from dpframe.draw.streams import Asking, Shape, Stream, digest, of_answers
from dpframe.interfaces.attack import BEFORE
from dpframe.interfaces.mechanism import HostMechanism

# An interrupted search repeats its steps. A black box with a seed could draw the same answers
# again, at their cost; a black box without one would give other answers, and the earlier bets would
# be lost. So the answers of a round are stored before they are bet on, and read when the search
# continues. The files are removed when the record is written.

SUFFIX = ".answers"

FILE_BYTES = 1 << 26  # bytes of answers that one search keeps on disk; later ones are drawn again

SCHEMA = 1

MOST_ROUND_BYTES = 1 << 28  # of the answers of a round, as they are read; more are drawn again
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class KeptRound(NamedTuple):
    """Answers of consecutive chunks of a pair, with the worker's information about them."""

    sides: tuple[HostArray, HostArray]  # on D and on D′, as rows of 64-bit words
    natives: set[tuple[int, ...] | None]  # shapes of the numbers in all answers so far
    one: bool  # True if each call returned one answer
    words: dict[int, str]  # texts of the codes in the answers
    durations: tuple[Sequence[float], ...] = ((), ())
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

    def save(self, first: int, stop: int, answers: KeptRound, words: Mapping[int, str]) -> None:
        """Keep the answers of some chunks, if there is room; `words` has the texts of all codes."""
        if self._file is None or self._room[0] <= 0:
            return
        codes = {code for side in answers.sides for code in np.unique(side[:, :2]).tolist()}
        own_words = {code: text for code, text in words.items() if code in codes}
        line = _line(first, stop, answers._replace(words=own_words))
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
            content, _, written = line.rpartition("\t")
            if written != f"{digest(content, 16)}\n":
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

    def of(self, stream: Stream, black_box: Any) -> AnswerFile:
        """Return the file of one pair; `black_box` identifies the black box and its settings."""
        if self._directory is None:
            return AnswerFile()
        name = f"{stream.group}-{digest([SCHEMA, list(stream), black_box])}{SUFFIX}"
        return AnswerFile(self._directory / name, self._room)


def _line(first: int, stop: int, answers: KeptRound) -> str:
    x, y = answers.sides
    words = np.concatenate([x, y]).astype("<u8").tobytes()
    content = {
        "schema": SCHEMA,
        "chunks": [first, stop],
        "rows": [len(x), len(y)],
        "natives": [shape if shape is None else list(shape) for shape in answers.natives],
        "one": answers.one,
        "words": answers.words,
        "durations": answers.durations,
        "answers": base64.b64encode(zlib.compress(words, 1)).decode(),
    }
    text = json.dumps(content, separators=(",", ":"))
    return f"{text}\t{digest(text, 16)}\n"


def _parsed(line: str, rows: int) -> KeptRound:
    """Read a line; raises an error if it cannot be a round of this many answers."""
    fields: dict[str, Any] = json.loads(line.rpartition("\t")[0])
    data = base64.b64decode(fields["answers"], validate=True)
    inflating = zlib.decompressobj()
    raw = np.frombuffer(inflating.decompress(data, MOST_ROUND_BYTES), "<u8")
    both = raw.astype(np.uint64).reshape(2 * rows, -1)
    natives = {shape if shape is None else tuple(shape) for shape in fields["natives"]}
    words = {int(code): text for code, text in fields["words"].items()}
    durations = tuple(fields.get("durations", ((), ())))
    sizes = [size for shape in natives if shape is not None for size in shape]
    possible = (
        inflating.eof
        and fields["rows"] == [rows, rows]
        and both.shape[1] >= BEFORE
        and type(fields["one"]) is bool
        and all(type(size) is int and size >= 0 for size in sizes)
        and all(0 <= code < 1 << 64 and type(text) is str for code, text in words.items())
        and len(durations) == 2
        and all(
            type(seconds) is float and 0 <= seconds < math.inf
            for of_dataset in durations
            for seconds in of_dataset
        )
    )
    if not possible:
        raise ValueError("no round of answers")
    return KeptRound((both[:rows], both[rows:]), natives, fields["one"], words, durations)


class AnswerRounds:
    """The rounds of one pair of a search: answers on D and on D′, of any kind.

    `rows` is the size of every chunk, if the spec or the black box sets it. The clock has the time
    that the search has used, and runs while it draws; `kept` has answers of an earlier try.
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
        self.stream, self.clock, self.kept = stream, clock, kept or AnswerFile()
        self.sizes, self._asking = ChunkSizes(rows), asking
        self._independence = PairIndependence(self.sizes, asking.limit is None, mechanism)
        self.sampler = BlackBoxSampler(
            BlackBoxPayload((mechanism,), data),
            0,
            stream,
            asking,
            self.sizes,
            source,
            self._independence,
            clock,
        )
        self._width = 0  # numbers of the widest answer so far, rounded up to a power of two

    @property
    def shape(self) -> Shape:
        """Shape of the answers so far."""
        natives = self.sampler.natives
        native = next(iter(natives)) if len(natives) == 1 else None
        return of_answers(self._asking, self._width, native)

    @property
    def durations(self) -> tuple[list[float], list[float]]:
        """Seconds per answer on D and on D′, each averaged over a few answers."""
        return self.sampler.durations

    def begin(self, stop: int) -> tuple[HostArray, HostArray]:
        """Draw the first chunks; if `sample` or `releases` raises, draw single answers."""
        kept = self.kept.load(0, stop, self.sizes.draws(0, stop))
        if kept is not None:
            self._ask(one=kept.one)
        try:
            return self.draw(0, stop)
        except RaisedError:
            # A black box of single releases raises here only if a program makes several at a time.
            if self._asking.one or not self._asking.raises:
                raise
            self._ask(one=True)
            return self.draw(0, stop)

    def draw(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Return the answers of some chunks on D and on D′, as rows of 64-bit words.

        Raises:
            DeadlinePassed: the search is out of time; no answer of the round counts.
            SampleError: the black box failed to answer.
            WorthlessError: the answers cannot be independent.
        """
        kept = self.kept.load(first, stop, self.sizes.draws(first, stop))
        if kept is not None and kept.one == self._asking.one:
            return self._take_kept(kept, first, stop)
        before = [len(seconds) for seconds in self.durations]
        with self.clock.paused():
            sides = self.sampler.draw_at_once([(d, range(first, stop)) for d in (0, 1)])
        self._widen(sides)
        both = self.fitted(sides[0]), self.fitted(sides[1])
        durations = tuple(
            seconds[had:] for seconds, had in zip(self.durations, before, strict=True)
        )
        kept = KeptRound(both, self.sampler.natives, self._asking.one, {}, durations)
        self.kept.save(first, stop, kept, self.sampler.source.words)
        return both

    def fitted(self, rows: HostArray) -> HostArray:
        """Return rows as wide as the widest answer so far."""
        columns = BEFORE + self._width
        return padded(rows, columns)[:, :columns]

    def check_addresses(self) -> None:
        """Compare chunks at equal and different addresses; see `independence.check_addresses`."""
        with self.clock.paused():
            self.sampler.check_addresses(columns=2)

    def conclude(self) -> None:
        """Check the answers once more; raises WorthlessError."""
        self._independence.conclude()

    def _ask(self, *, one: bool) -> None:
        self.sampler.form = self._asking = self._asking._replace(one=one)

    def _take_kept(self, kept: KeptRound, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Treat answers of an earlier try as if they had just been drawn."""
        self.sampler.natives |= kept.natives
        self.sampler.source.words.update(kept.words)
        for dataset, rows in enumerate(kept.sides):
            at = 0
            for span in self.sizes.spans(range(first, stop)):
                number = self.sizes.draws(span.start, span.stop)
                self.sampler.see(dataset, span.start, rows[at : at + number], counted=True)
                at += number
        for seconds, durations in zip(self.durations, kept.durations, strict=True):
            seconds.extend(durations)
        self._widen(kept.sides)
        return self.fitted(kept.sides[0]), self.fitted(kept.sides[1])

    def _widen(self, sides: Iterable[HostArray]) -> None:
        # As in `of_answers`, there is a column, perhaps of missing numbers, for attacks to see.
        numbers = max(1, *(rows.shape[1] - BEFORE for rows in sides))
        if numbers > self._width:
            self._width = 1 << (numbers - 1).bit_length()
        self.sizes.widest = self.sizes.widest or 8 * (BEFORE + self._width)


# Attacks take time to learn from even a few answers, and a fast black box gives thousands of
# answers in that time. On a pair that shows nothing in its first answers, nothing would be bet. So
# it is not drawn in small rounds. It gets a look instead: all answers that the black box gives in a
# moment, to learn from.
#
# The speed of a black box depends on the machine. There are only a few sizes of looks, so one seed
# gives the same draws on all machines where the black box is clearly fast, or clearly slow. The
# median time of the answers of all pairs decides, by the workers' clocks, because other work on the
# machine delays fewer than half of the answers.

MOMENT = 0.0625  # seconds of the black box's work for a look, on both datasets together, at most
LOOKS = 1 << 11, 1 << 9, 1 << 7
"""Answers of each dataset in a look: the most that fit in a moment. After more, attacks that are
slow to learn would be used."""
SLOWER = 10  # factor by which a look may take longer for a single pair: its data may be larger


def fitting_look(own: Sequence[Sequence[float]], all_pairs: Sequence[Sequence[float]]) -> int:
    """Return the answers of each dataset in a look that a black box gives in a moment; 0 if none.

    Both arguments are seconds per answer: `own` of the pair to look at, on D and on D′; `all_pairs`
    of every pair and dataset.
    """
    all_seconds = [seconds for durations in all_pairs for seconds in durations]
    for answers in LOOKS if all_seconds else ():
        limit = MOMENT / (2 * answers)
        if statistics.median_low(all_seconds) <= limit and all(
            durations and min(durations) <= SLOWER * limit for durations in own
        ):
            return answers
    return 0


LEAST_SHARE = 0.1  # share of its seconds that a search gets even after many interruptions
NOTE_SECONDS = 0.5  # seconds between two notes of the time used


class KeptChoices:
    """Choices of a search that depend on time: sizes of looks, number of pairs, seconds used.

    They are kept beside its counts. An interrupted search repeats them with kept answers, at no
    cost to its time budget, and so bets on the same rounds.

    `question` names the search among those of a stream; `limit` is its time budget in seconds, None
    for none.
    """

    def __init__(
        self, store: Store, stream: Stream, question: str, clock: Clock, limit: float | None
    ) -> None:
        self._store, self._stream, self._question = store, stream, question
        self._clock, self._limit = clock, limit
        self.last_look = 0
        """Answers per dataset of a pair after the last look; 0 if the black box is too slow."""
        self._sizes: list[int] = []
        self._taken = 0
        self._most_begun: int | None = None  # pairs begun until half of the time was spent
        self._until, self._seconds = 0, 0.0  # draws of the interrupted search, and its seconds
        usual = (0, *(1 << power for power in range(LOOKS[0].bit_length())))
        match self._load("looks"):  # a file may hold anything
            case Saved(leaves=sizes) if all(type(one) is int and one in usual for one in sizes):
                self._sizes = list(sizes)
        match None if limit is None else self._load("spent"):
            case Saved(done=(until, _), leaves=[float(seconds)]) if 0 <= seconds < math.inf:
                self._until, self._seconds = until, seconds

    def look(self, fitting: int, most_answers: int) -> int:
        """Return the answers per dataset for a look at a pair, at most `most_answers`."""
        if self._taken == len(self._sizes):
            fits = min(most_answers, fitting)
            # Powers of two: a program compiled for one size serves all pairs.
            self._sizes.append(1 << (fits.bit_length() - 1) if fits else 0)
            self._save("looks", len(self._sizes), [*self._sizes])
        self.last_look = self._sizes[self._taken]
        self._taken += 1
        return self.last_look

    def are_enough(self, begun: int) -> bool:
        """True if no more pairs are begun, because half of the time is spent."""
        if self._limit is None:
            return False
        if self._most_begun is None:
            left = self._clock.left()
            if (kept := self._load("begun")) is not None:
                self._most_begun = kept.done[0]
            elif left is not None and left < self._limit / 2:
                self._save("begun", begun, [begun])
                self._most_begun = begun
        return self._most_begun is not None and begun >= self._most_begun

    def note_time(self, drawn: int) -> None:
        """Note the time used until now, with the number of draws of each dataset."""
        if self._limit is None:
            return
        if drawn < self._until:
            self._clock.set(0.0)
            return
        if self._until:
            self._until = 0
            self._clock.set(min(self._seconds, (1 - LEAST_SHARE) * self._limit))
            return
        used = self._clock.used()
        if used >= self._seconds + NOTE_SECONDS:
            self._seconds = used
            self._save("spent", drawn, [round(used, 3)])

    def forget_time(self) -> None:
        """End the search; if it is repeated, it gets its full time budget again."""
        self._store.forget(self._stream, f"spent-{self._question}")

    def _load(self, what: str) -> Saved | None:
        return self._store.load(self._stream, f"{what}-{self._question}")

    def _save(self, what: str, number: int, leaves: list[Any]) -> None:
        self._store.save(self._stream, f"{what}-{self._question}", Saved((number, number), leaves))
