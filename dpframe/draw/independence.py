"""Reject outputs that are not independent draws, because bounds assume independence.

The tests are exact for any distribution (`stats.independence`): a mechanism that answers 0 with
probability .9999, or always, is rejected no more often than one with continuous outputs. All tests
of one pass together reject a correct mechanism with a probability below `ERROR`.
"""

import hashlib
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from dpframe.common.types import Floats, HostArray, Ints
from dpframe.draw import requests, scheduling
from dpframe.draw.worker.generators import advice
from dpframe.errors import SampleError, WorthlessError
from dpframe.interfaces.attack import Answers
from dpframe.stats import independence as chances

ERROR = 1e-6  # probability that a correct mechanism fails
ROWS = 1024  # rows of each dataset and variant that are compared one by one
CHUNK_ROWS = 128  # rows compared from one chunk, at most
MOST_DIGESTS = 1 << 18  # chunks whose digests are kept, per variant and dataset

NOT_SEEDABLE = (
    "sample gave different outputs when called again with the same seed: it keeps state between "
    "calls, or draws from elsewhere than rng, numpy.random, random, torch and the generators of "
    "its own file. Make its state anew in each call. For other randomness, a mechanism sets "
    "seedable = False, and a function of a test takes no generator: release(data)"
)
AGAIN = (
    "sample gave identical outputs for draws that must be independent: it seeds a generator with a "
    "constant, or every process starts with the same generator"
)
WITHIN = (
    "sample repeats rows within a call, more often than rows repeat between calls: each of the n "
    "rows must be a separate run"
)
BETWEEN = (
    "outputs for D recur among those for D′ more often than their own frequencies allow: "
    "the two must be independent draws"
)

NEIGHBOURS = (
    "rows of one call depend on each other: neighbours are similar, or dissimilar, more "
    "often than independent draws would be; each of the n rows must be a separate run"
)
IN_STEP = (
    "outputs for D and for D′ are high and low at the same positions more often than "
    "independent draws would be: the two share their noise"
)
DRIFTS = (
    "the frequencies of outputs drift more than those of independent draws: the black box keeps "
    "state between runs, or something that it depends on changes; start each run from the same "
    "state"
)

ROW_LAGS = (1, 2)
MOST_TESTS = 16  # of rows, in one look at one variant


def check_addresses(
    workers: Sequence[requests.WorkerLease],
    draw: Callable[[requests.WorkerLease, int], HostArray],
    see: Callable[[HostArray], None],
    most: int,
    *,
    seedable: bool,
    columns: int | None = None,
) -> None:
    """Draw chunks at equal and at different addresses, in two processes with equal histories.

    `draw` draws a chunk of D at the address of D (0) or of D′ (1), and `see` tests it. Only the
    first `columns` of a chunk must be the same again; None for all. `most` workers draw at once.
    Raises SampleError if an address gives different outputs, or two addresses give the same.
    """

    def both(*addresses: int) -> list[HostArray]:
        two = zip((workers[0], workers[-1]), addresses, strict=True)
        return scheduling.at_once([partial(draw, *one) for one in two], most)

    here, there = both(0, 1)
    for outputs in (here, there):
        see(outputs)
    for again in both(0, 0) if seedable else ():
        if again[..., :columns].tobytes() != here[..., :columns].tobytes():
            raise SampleError(NOT_SEEDABLE)


class Independence:
    """Tests all outputs of a pass; several threads may pass them in.

    With `answers`, outputs are answers of any kind, as rows of 64-bit words. With `drift`, counted
    outputs and the counts of `attacks` attacks are tested for drift; then every counted output must
    be passed in. The message about equal draws names generators that the code of `black_boxes`
    keeps.
    """

    def __init__(
        self,
        rows: int,
        variants: int,
        *,
        answers: bool = False,
        drift: bool = False,
        attacks: int = 0,
        black_boxes: Sequence[Any] = (),
    ) -> None:
        self.rows, self.variants, self.answers = rows, variants, answers
        self._black_boxes = black_boxes
        self._drift, self._attacks = drift, attacks if drift else 0
        self._blocks: defaultdict[tuple[int, ...], _Blocks] = defaultdict(_Blocks)
        """By variant, dataset and number of the attack; -1 for the outputs themselves."""
        self._tests = 2 * variants * (1 + attacks)
        self._drawn, self._drawn_before, self._looks = 0, ROWS, 0
        self._lock = threading.Lock()
        self._chunks_seen = Counter[tuple[int, int]]()  # of chunks, by variant and dataset
        self._copies: defaultdict[tuple[int, int], Counter[bytes]] = defaultdict(Counter)
        self._kept: defaultdict[tuple[int, int], dict[int, HostArray]] = defaultdict(dict)
        """By variant and dataset, then by chunk."""
        self._compared, self._row_looks = 0, 0
        self._problem: WorthlessError | None = None

    def see(
        self, variant: int, index: int, first: int, outputs: HostArray, *, counted: bool
    ) -> None:
        """Take in some chunks from `first` on, shape [chunks × rows, *output dims].

        Raises WorthlessError if they cannot be independent draws.
        """
        with self._lock:
            self._raise()
            for number in range(len(outputs) // self.rows):
                chunk = outputs[number * self.rows : (number + 1) * self.rows]
                self._compare_whole(variant, index, chunk)
                kept = self._kept[variant, index]
                if counted and len(kept) * min(self.rows, CHUNK_ROWS) < ROWS:
                    kept[first + number] = chunk[:CHUNK_ROWS].copy()
            if counted and self._drift and (signals := _signals(outputs, self.answers, kinds=True)):
                self._drawn += len(outputs)
                self._blocks[variant, index, -1].see_outputs(first * self.rows, signals, self.rows)
            self._raise()

    def see_counts(self, variant: int, index: int, attack: int, first: int, bins: Ints) -> None:
        """Take in the counts of consecutive draws in an attack's bins, shape [bins]."""
        if attack < self._attacks:
            with self._lock:
                self._blocks[variant, index, attack].see_bins(first, bins)

    def passes(self) -> bool:
        """True if the outputs so far may be kept."""
        with self._lock:
            if sum(map(len, self._kept.values())) >= 2 * self._compared:
                self._compare_rows()
            if self._drawn >= 2 * self._drawn_before:
                self._compare_blocks()
            return self._problem is None

    def conclude(self) -> None:
        """Test once more at the end; raise WorthlessError if draws depend on each other."""
        with self._lock:
            self._compare_rows()
            self._compare_blocks()
            self._raise()

    def _raise(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _worthless(self, reason: str) -> WorthlessError:
        """Return the error; equal draws may come from a generator that the black box keeps."""
        likely_cause = advice(self._black_boxes) if reason in (AGAIN, BETWEEN, IN_STEP) else ""
        return WorthlessError(reason + likely_cause)

    def _compare_whole(self, variant: int, index: int, chunk: HostArray) -> None:
        """Note a problem if too many chunks are equal.

        Each group of m equal chunks whose last is chunk number G has its own share of the error.
        Over all m, G and groups the shares sum to less than 1.
        """
        self._chunks_seen[variant, index] += 1
        number, digests = self._chunks_seen[variant, index], self._copies[variant, index]
        digest = hashlib.blake2b(chunk.tobytes(), digest_size=16).digest()
        if digest in digests or len(digests) < MOST_DIGESTS:
            digests[digest] += 1
        if (copies := digests[digest]) < 2:
            return
        groups = gammaln(number) - gammaln(copies) - gammaln(number - copies + 1)
        share = -(copies * math.log(2) + math.log(number * (number + 1)) + groups)
        chance = chances.log_chance_of_copies(_numbered(chunk, self.answers), copies)
        if chance < math.log(ERROR / 3 / (2 * self.variants)) + share:
            self._problem = self._worthless(AGAIN)

    def _compare_rows(self) -> None:
        """Test the kept rows, if there are any; look k has 1 / (k(k + 1)) of the error."""
        self._compared = sum(map(len, self._kept.values()))
        if not self._compared:
            return
        self._row_looks += 1
        looks = self._row_looks * (self._row_looks + 1)
        critical = math.log(ERROR / 3 / (self.variants * MOST_TESTS * looks))
        for variant in sorted({variant for (variant, _), kept in self._kept.items() if kept}):
            x, y = (dict(sorted(self._kept[variant, index].items())) for index in (0, 1))
            tests = _tests_of_rows(x, y, self.answers)
            if reason := next((reason for reason, chance in tests if chance < critical), None):
                self._problem = self._worthless(reason)

    def _compare_blocks(self) -> None:
        """Test the counts of blocks; look k has 1 / (k(k + 1)) of the error."""
        self._looks, self._drawn_before = self._looks + 1, self._drawn
        critical = math.log(ERROR / 3 / (self._tests * self._looks * (self._looks + 1)))
        if any(blocks.log_chance() < critical for blocks in self._blocks.values()):
            self._problem = self._worthless(DRIFTS)


FIRST_ROWS = 256  # rows that choose the events of a dataset; they are not counted
FIRST_BLOCK_ROWS = 64  # rows of a block at first
MOST_BLOCKS = 512  # blocks are joined two by two once there are more


class _Blocks:
    """Counts of some events, in blocks of consecutive draws of one dataset."""

    def __init__(self) -> None:
        self._first: list[list[Floats]] = []
        self._cuts: list[Floats] = []
        self._base, self._width = 0, FIRST_BLOCK_ROWS
        self._sizes = np.zeros(MOST_BLOCKS, np.int64)
        self._hits: Ints | None = None  # shape [blocks, events], known once the first come in

    def see_outputs(self, start: int, signals: list[Floats], rows: int) -> None:
        """Count the events of consecutive outputs, given their signals, shape [n] each."""
        if not self._cuts:
            lacking = FIRST_ROWS - sum(len(signals_before[0]) for signals_before in self._first)
            self._first.append([signal[:lacking] for signal in signals])
            if len(signals[0]) < lacking:
                return
            self._cuts = [_cuts(np.concatenate(part)) for part in zip(*self._first, strict=True)]
            self._first, self._base = [], start
            start, signals = start + lacking, [signal[lacking:] for signal in signals]
        if not len(signals[0]):
            return
        size = min(rows, FIRST_BLOCK_ROWS)
        number = -(-len(signals[0]) // size)
        place = np.arange(len(signals[0])) // size
        hits = []
        for signal, cuts in zip(signals, self._cuts, strict=True):
            above = np.searchsorted(cuts, np.where(np.isnan(signal), -np.inf, signal), "right")
            shape = number, len(cuts) + 1
            bins = np.bincount(place * shape[1] + above, minlength=number * shape[1])
            hits.append(_at_least(bins.reshape(shape)))
        self._add(start + size * np.arange(number), np.bincount(place), np.hstack(hits))

    def see_bins(self, start: int, bins: Ints) -> None:
        """Count events of consecutive draws by the bins of their scores."""
        if not self._cuts:
            above = _at_least(bins[None])[0]
            wanted = (1 - np.array(chances.SHARES)) * bins.sum()
            self._cuts = [np.unique([np.abs(above - each).argmin() for each in wanted])]
            self._base = start
        elif bins.any():
            above = _at_least(bins[None])[:, self._cuts[0]]
            self._add(np.array([start]), np.array([bins.sum()]), above)

    def log_chance(self) -> float:
        """Bound the log chance that independent draws vary as much between blocks."""
        if self._hits is None:
            return chances.CERTAIN
        used = self._sizes > 0
        return chances.log_chance_of_drift(self._sizes[used], self._hits[used])

    def _add(self, starts: Ints, sizes: Ints, hits: Ints) -> None:
        if self._hits is None:
            self._hits = np.zeros((MOST_BLOCKS, hits.shape[1]), np.int64)
        while int(starts[-1]) - self._base >= self._width * MOST_BLOCKS:
            self._width *= 2
            for blocks in (self._sizes, self._hits):
                blocks[: MOST_BLOCKS // 2] = blocks[::2] + blocks[1::2]
                blocks[MOST_BLOCKS // 2 :] = 0
        # Threads may hand over later chunks first.
        place = np.maximum(0, starts - self._base) // self._width
        np.add.at(self._sizes, place, sizes)
        np.add.at(self._hits, place, hits)


def _cuts(signal: Floats) -> Floats:
    """Return thresholds of events: some quantiles, and values beyond both ends."""
    values = np.where(np.isnan(signal), -np.inf, signal)
    ends = (values.min(), True), (values.max(), False)
    return np.unique(
        [at if own else np.nextafter(at, np.inf) for at, own in (*chances.events_of(values), *ends)]
    )


def _at_least(bins: Ints) -> Ints:
    """Count draws at or above each bin but the first; shape [n, bins] becomes [n, bins − 1]."""
    totals: Ints = np.cumsum(bins[:, ::-1], axis=1)[:, -2::-1]
    return totals


def _tests_of_rows(
    x: dict[int, HostArray], y: dict[int, HostArray], answers: bool
) -> Iterator[tuple[str, float]]:
    """Yield the tests of a variant: the reason to reject, and the log chance of independent draws.

    `x` and `y` have rows of D and of D′ by chunk, in order. There are at most `MOST_TESTS`: 2 of
    repeated rows on each dataset, 2 between the datasets, and for each of two signals the lags on
    each dataset and the step between them.
    """
    ids = _numbered(np.concatenate([*x.values(), *y.values()]), answers)
    sides = np.split(ids.reshape(len(x) + len(y), -1), [len(x)])
    for rows in sides:
        if len(rows):
            yield WITHIN, chances.log_chance_of_company(rows)
            if (rows == rows[:, :1]).all():
                yield WITHIN, chances.log_chance_of_constants(rows)
    same = [np.isin([*one], [*other]) for one, other in ((x, y), (y, x))]  # chunks of both
    if x and y:
        yield BETWEEN, chances.log_chance_of_sharing(*(rows.reshape(-1) for rows in sides))
        aligned = [rows[both].reshape(-1) for rows, both in zip(sides, same, strict=True)]
        yield BETWEEN, chances.log_chance_of_matches(*aligned)
    signals = [_signals(np.concatenate([*of.values()]), answers) if of else [] for of in (x, y)]
    high = [
        [chances.halves(one).reshape(len(rows), -1) for one in signal]
        for rows, signal in zip(sides, signals, strict=True)
    ]
    for marks in (*high[0], *high[1]):
        yield from ((NEIGHBOURS, chances.log_chance_of_neighbours(marks, lag)) for lag in ROW_LAGS)
    for one, other in zip(*high, strict=False):
        step = one[same[0]].reshape(-1), other[same[1]].reshape(-1)
        yield IN_STEP, chances.log_chance_of_step(*step)


def _signals(outputs: HostArray, answers: bool, *, kinds: bool = False) -> list[Floats]:
    """Return signals of rows, each of shape [n]: the first coordinate, and the sum of all.

    Absent numbers of an answer are 0. With `kinds`, kinds of answers are a signal too.
    """
    signals: list[Floats] = []
    if answers:
        parsed = Answers(outputs)
        signals += [parsed.kinds.astype(np.float64)] if kinds else []
        outputs = np.where(parsed.absent, 0.0, parsed.numbers)
    rows = np.ascontiguousarray(outputs).reshape(len(outputs), -1)
    numbers = (rows.real if rows.dtype.kind == "c" else rows).astype(np.float64)
    if numbers.shape[1]:
        signals.append(numbers[:, 0])
    if numbers.shape[1] > 1:
        with np.errstate(invalid="ignore", over="ignore"):
            signals.append(numbers.sum(axis=1))
    return signals


def _numbered(outputs: HostArray, answers: bool) -> Ints:
    """Return a number per row, equal if the rows are equal bit for bit."""
    values = Answers(outputs).values if answers else outputs
    rows = np.ascontiguousarray(values).reshape(len(values), -1)
    if not rows.shape[1]:
        return np.zeros(len(rows), np.int64)
    width = rows.shape[1] * rows.dtype.itemsize
    whole = rows.view(np.dtype((np.void, width))).reshape(-1)
    numbers: Ints = np.unique(whole, return_inverse=True)[1]
    return numbers
