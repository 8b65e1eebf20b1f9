"""Call a black box, and lay out its answers as rows of 64-bit words."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import pack
from time import perf_counter
from typing import Any, NamedTuple

from . import codes
from .codes import UnreadableError
from .encoding import encode
from .exceptions import encode_raised, slip_of, traced
from .libraries import is_masked

BEFORE = 3  # columns before the numbers: kind, value, seconds
_MOST_CODES = 1 << 12  # codes with words, and simple values that are encoded once only
_MOST_SEARCHED = 256  # answers in which texts are looked for, so that their markers have words
_MOST_NOTICED = 64  # answers of a chunk that get words if they occurred before
_MOST_PRINTED = 16  # texts of a release's output that are kept
_EXACT = (int, bool, str, bytes, type(None))
_IMMUTABLE = (*_EXACT, float, complex)
_NUMBERS = {int, float, bool}

ALARM_INTERVAL = 0.5
"""Seconds between two alarms of a release, which may catch the exception of the first."""


class Limit:
    """A limit on the seconds of one release, or none; it interrupts Python code only."""

    def __init__(self, seconds: float | None) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.seconds = seconds if main and hasattr(signal, "setitimer") else None
        self._running = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Use the alarm of this process inside the block."""
        if self.seconds is None:
            yield
            return
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def start(self) -> None:
        """Begin a release."""
        if self.seconds is not None:
            self._running = True
            signal.setitimer(signal.ITIMER_REAL, self.seconds, ALARM_INTERVAL)

    def stop(self) -> None:
        """End the release."""
        self._running = False

    def _ring(self, *_: Any) -> None:
        if self._running:
            raise TimeoutError(f"no answer within {self.seconds:g} s")


class Encoded(NamedTuple):
    """One answer in codes."""

    kind: int
    value: int
    numbers: list[float]
    native: tuple[int, ...] | None = None  # see `native_shape`


class Terms(NamedTuple):
    """The settings under which answers are drawn."""

    raises: bool = False  # True if an exception, or an unreadable answer, is an answer
    time: bool = False  # True if each answer is timed
    one: bool = False  # True if a mechanism that samples is called for one row at a time
    limit: float | None = None  # seconds of a release
    messages: bool = False  # True if messages of exceptions count
    only: Sequence[str] = ()  # paths of the parts that count; all of an answer if empty
    width: int | None = None  # numbers of a row; None: those of the widest answer


class Chunk(NamedTuple):
    """Outputs of one chunk."""

    content: bytes
    shape: tuple[int, ...]
    dtype: str = "<u8"
    natives: frozenset[tuple[int, ...] | None] | None = None
    """Shapes of answers of any kind, laid out as 64-bit words: see `native_shapes`."""


def packed(kind: int, value: int, numbers: Sequence[float], width: int, seconds: float) -> bytes:
    """Return one row of answers: the codes of kind and value, `width` numbers, and a time.

    It has 8 × (3 + width) bytes, of 64-bit words with the least significant byte first.
    """
    padded = [*numbers[:width], *[codes.ABSENT_NUMBER] * (width - len(numbers))]
    return pack(f"<QQd{width}d", kind, value, seconds, *padded)


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Join chunks; rows of answers get the width of the widest."""
    first, rows = chunks[0], sum(chunk.shape[0] for chunk in chunks)
    contents = [chunk.content for chunk in chunks]
    if first.natives is None:
        return Chunk(b"".join(contents), (rows, *first.shape[1:]), first.dtype)
    widest = max(chunk.shape[1] for chunk in chunks)
    for place, (content, (_, width), *_) in enumerate(chunks):
        if width < widest:
            size, pad = 8 * width, pack("<Q", codes.ABSENT) * (widest - width)
            each = [content[at : at + size] + pad for at in range(0, len(content), size)]
            contents[place] = b"".join(each)
    natives = frozenset().union(*(chunk.natives or () for chunk in chunks))
    return Chunk(b"".join(contents), (rows, widest), "<u8", natives)


class PrintedText:
    """A standard output that keeps the first texts written to it."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self.texts: list[str] = []

    def write(self, text: str) -> Any:
        """Write a text, and keep it if it is one of the first."""
        self.texts += [text] * (len(self.texts) < _MOST_PRINTED)
        return self.out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


class AnswerEncoder:
    """Calls one black box and encodes its answers; `attributes` are read from objects."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = tuple(attributes)
        self.terms = Terms()
        self.words: dict[int, str] = {}  # texts of codes that were not sent to the run yet
        self._noted: set[int] = set()  # codes with a text
        self._once: set[int] = set()  # codes of values seen once; if seen again they get texts
        self._kept = lru_cache(_MOST_CODES, typed=True)(self.encoded)
        self._called = False  # True once a release was called, see `_first`

    def ask(self, release: Callable[[], Any], n: int, failed: BaseException | None = None) -> Chunk:
        """Make `n` releases one after the other, by the terms of this encoder.

        An exception for lack of memory is never an answer. A release that takes too long raises a
        TimeoutError. If building the state that all releases share has `failed`, every answer is
        that exception.

        Raises:
            UnreadableError: an answer cannot be encoded.
        """
        if failed is not None:
            if not self.terms.raises:
                raise failed
            return self.chunk([self.raised(failed)] * n)
        answers: list[Any] = []
        seconds: list[float] = []
        alarm, held, time = Limit(self.terms.limit), self.held, self.terms.time
        with alarm.watched():
            for _ in range(n):
                started = perf_counter() if time else 0.0
                try:
                    try:
                        alarm.start()
                        answer = release() if self._called else self._first(release)
                    finally:  # inside: an alarm before the stop is an answer too
                        alarm.stop()
                except (Exception, SystemExit) as error:
                    alarm.stop()  # the alarm may have interrupted the first stop
                    if not self.terms.raises or isinstance(error, (MemoryError, UnreadableError)):
                        raise
                    answer = self.raised(error)
                    error.__traceback__ = None  # else it grows, if the same object is raised again
                if time:
                    seconds.append(perf_counter() - started)
                answers.append(held(answer))
        return self.chunk(answers, seconds)

    def _first(self, release: Callable[[], Any]) -> Any:
        """Make the first release; if it prints and returns None, note what it prints."""
        self._called = True
        sys.stdout = printed = PrintedText(sys.stdout)
        try:
            answer = release()
        finally:
            if sys.stdout is printed:
                sys.stdout = printed.out
        if answer is None and (text := " ".join("".join(printed.texts).split())):
            words = f", and printed {codes.in_short(text)},"
            self._note(codes.code_of_print(self.one(None).value), words)
        return answer

    def held(self, answer: Any) -> Any:
        """Return what counts of an answer, encoded if a later release could change it."""
        return self.fixed(self.counted(answer))

    def fixed(self, answer: Any) -> Any:
        """Return an answer, encoded if a later release could change it."""
        if type(answer) in _IMMUTABLE or type(answer) is Encoded:
            return answer
        encoded = self.encoded(answer)
        self._notice(answer, encoded.value)
        return encoded

    def counted(self, answer: Any) -> Any:
        """Return the parts of an answer that count: the only one itself, several or none in a dict.

        An answer may lack some. Exceptions are left as they are.
        """
        paths = self.terms.only
        if not paths or type(answer) is Encoded or isinstance(answer, (Exception, SystemExit)):
            return answer
        found = {}
        for path in paths:
            with contextlib.suppress(LookupError):
                found[path] = part(answer, path)
                self._note(codes.code_of_part(path), path)
        return found[paths[0]] if len(paths) == len(found) == 1 else found

    def raised(self, error: BaseException) -> Encoded:
        """Encode an exception that is an answer."""
        encoded = self._in_codes(encode_raised(error, messages=self.terms.messages))
        if (trace := codes.code_of_trace(encoded.kind)) not in self._noted:
            self._note(trace, traced(error))
            if slip := slip_of(error):
                self._note(codes.code_of_slip(encoded.kind), slip)
        return encoded

    def encoded(self, answer: Any) -> Encoded:
        """Encode one answer of any kind."""
        if isinstance(answer, (Exception, SystemExit)):  # an item of a list: some calls failed
            return self.raised(answer)
        try:
            return self._in_codes(encode(answer, self.attributes), native_shape(answer))
        except UnreadableError as problem:
            if not self.terms.raises:
                raise
            name = codes.name_of(type(answer))[: codes.MOST_TEXT]
            value = b"?" + codes.sized(codes.bytes_of(name))
            encoded = self._in_codes((name + codes.UNREADABLE, value, []))
            words = f"an answer cannot be read: {problem}"
            self._note(codes.code_of_trace(encoded.kind), words)
            return encoded

    def chunk(self, answers: Any, seconds: Sequence[float] = ()) -> Chunk:
        """Lay answers out as rows of 3 + width words; `seconds` is empty if nothing was timed.

        `answers` are immutable values, or an array of numbers with a row for each answer.
        """
        each = [self.one(answer) for answer in answers]
        self.notice(answers, [one.value for one in each])
        width = self.terms.width
        if width is None:
            width = max((len(one.numbers) for one in each), default=0)
        rows = [
            packed(one.kind, one.value, one.numbers, width, took)
            for one, took in zip(each, seconds or [0.0] * len(each))
        ]
        natives = frozenset(native_shapes(answers))
        return Chunk(b"".join(rows), (len(rows), BEFORE + width), "<u8", natives)

    def take_words(self) -> list[tuple[int, str]]:
        """Return the codes with texts that were not returned yet."""
        fresh = list(self.words.items())
        self.words.clear()
        return fresh

    def one(self, answer: Any) -> Encoded:
        """Encode an answer, simple values once only."""
        if type(answer) is Encoded:
            return answer
        return self._kept(answer) if type(answer) in _EXACT else self.encoded(answer)

    def kind(self, text: str) -> int:
        """Return the code of a kind, and note its text."""
        code = codes.code_of_kind(text)
        self._note(code, text)
        return code

    def notice(self, answers: Any, values: list[int]) -> None:
        """Note texts of short values that occurred before."""
        for answer, value in zip(answers[:_MOST_NOTICED], values[:_MOST_NOTICED]):
            if type(answer) is not Encoded:
                self._notice(answer, value)

    def _in_codes(
        self, parts: tuple[str, bytes, list[float]], native: tuple[int, ...] | None = None
    ) -> Encoded:
        kind, value, numbers = parts
        return Encoded(self.kind(kind), codes.code(value), numbers, native)

    def _note(self, code: int, text: str) -> None:
        if code not in self._noted and len(self._noted) < _MOST_CODES:
            self._noted.add(code)
            self.words[code] = text

    def _notice(self, answer: Any, value: int) -> None:
        if value in self._noted:
            return
        if value in self._once:
            if (text := codes.in_words(answer)) is not None:
                self._note(value, text)
        elif len(self._once) < _MOST_CODES:
            self._once.add(value)
            if len(self._once) <= _MOST_SEARCHED and type(answer) in (list, tuple, dict):
                for code, text in codes.texts_in(answer).items():
                    self._note(code, text)


def part(answer: Any, path: str) -> Any:
    """Return a part of an answer: keys, positions and attributes, joined by dots.

    Raises:
        LookupError: the answer has no such part.
    """
    for step in path.split("."):
        for key in (step, int(step)) if step[step.startswith("-") :].isdecimal() else (step,):
            try:
                answer = answer[key]
                break
            except (LookupError, TypeError, ValueError):
                continue
        else:
            answer = getattr(answer, step, callable)
            if callable(answer):  # a method, such as the `count` of a list, is no part
                raise LookupError(step)
    return answer


def native_shape(answer: Any) -> tuple[int, ...] | None:
    """Return the shape of a number or an array of real numbers; None for any other answer."""
    kind = type(answer)
    if kind in _NUMBERS:
        return ()
    package = kind.__module__.partition(".")[0]
    if package != "numpy" or not is_real(getattr(answer, "dtype", None)):
        return None
    is_array = kind.__name__ == "ndarray" or not hasattr(answer, "__setitem__")
    return tuple(answer.shape) if is_array or is_masked(answer) else None


def is_real(dtype: Any) -> bool:
    """True if values of a dtype are numbers of at most 64 bits in this machine's byte order."""
    return getattr(dtype, "kind", "-") in "biuf" and dtype.itemsize <= 8 and dtype.isnative


def native_shapes(answers: Any) -> set[tuple[int, ...] | None]:
    """Return the native shapes of answers, exceptions left out."""
    if hasattr(answers, "dtype"):
        return {tuple(answers.shape[1:])}
    if set(map(type, answers)) <= _NUMBERS:
        return {()}
    return {
        one.native if type(one) is Encoded else native_shape(one)
        for one in answers
        if not (type(one) is Encoded and one.kind & 1)
    }
