"""Ask a black box for answers, and lay them out as rows of 64-bit words."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from struct import pack
from time import perf_counter
from typing import Any, NamedTuple

from . import codes
from .codes import UnreadableError
from .encoding import encode, packed
from .exceptions import encode_raised, slip_of, traced
from .libraries import is_masked

BEFORE = 3  # columns before the numbers: kind, value, seconds
_KNOWN = 1 << 12  # codes with words, and simple values that are encoded once only
_LOOKED = 256  # answers in which texts are looked for, so that their markers have words
_NOTICED = 64  # answers of a chunk that get words if they occurred before
_EXACT = (int, bool, str, bytes, type(None))
_IMMUTABLE = (*_EXACT, float, complex)
_NUMBERS = {int, float, bool}


AGAIN = 0.5
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
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)

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
    """The terms of asking for answers."""

    raises: bool = False  # True if an exception, or an unreadable answer, is an answer
    time: bool = False  # True if each answer is timed
    one: bool = False  # True if a mechanism that samples is called for one row at a time
    limit: float | None = None  # seconds of a release
    messages: bool = False  # True if messages of exceptions count
    width: int | None = None  # numbers of a row; None: those of the widest answer


class Chunk(NamedTuple):
    """Outputs of one chunk."""

    content: bytes
    shape: tuple[int, ...]
    dtype: str = "<u8"
    natives: frozenset[tuple[int, ...] | None] | None = None
    """Shapes of answers of any kind, laid out as 64-bit words: see `native_shapes`."""


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Join chunks; rows of answers get the width of the widest."""
    first = chunks[0]
    rows = sum(chunk.shape[0] for chunk in chunks)
    if first.natives is None:
        whole = b"".join(chunk.content for chunk in chunks)
        return Chunk(whole, (rows, *first.shape[1:]), first.dtype)
    widest = max(chunk.shape[1] for chunk in chunks)
    parts = []
    for content, (_, width), _, _ in chunks:
        size, pad = 8 * width, _NO_NUMBER * (widest - width)
        if pad:
            parts += [content[at : at + size] + pad for at in range(0, len(content), size)]
        else:
            parts.append(content)
    natives = frozenset().union(*(chunk.natives or () for chunk in chunks))
    return Chunk(b"".join(parts), (rows, widest), "<u8", natives)


class Overheard:
    """A standard output that keeps the first texts written to it."""

    def __init__(self, out: Any) -> None:
        self.out = out
        self.said: list[str] = []

    def write(self, text: str) -> Any:
        """Write a text, and keep it if it is one of the first."""
        if len(self.said) < 16:
            self.said.append(text)
        return self.out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


class AnswerEncoder:
    """Asks one black box for answers and encodes them; `attributes` are read from objects."""

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = tuple(attributes)
        self.terms = Terms()
        self.words: dict[int, str] = {}  # texts of codes that were not sent to the run yet
        self._told: set[int] = set()
        self._once: set[int] = set()  # codes of values seen once; if seen again they get texts
        self._known: dict[Any, Encoded] = {}
        self._listened = False  # True once the prints of a release were looked at

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
        if not self._listened and n:
            self._listened, release = True, self._listen(release)
        with alarm.watched():
            for _ in range(n):
                started = perf_counter() if time else 0.0
                try:
                    try:
                        alarm.start()
                        answer = release()
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

    def _listen(self, release: Callable[[], Any]) -> Callable[[], Any]:
        """Return a release that notes what its first call prints, if that returns None."""
        calls = [release]

        def once() -> Any:
            if not calls:
                return release()
            calls.clear()
            heard = Overheard(sys.stdout)
            sys.stdout = heard
            try:
                answer = release()
            finally:
                if sys.stdout is heard:
                    sys.stdout = heard.out
            if answer is None and (said := " ".join("".join(heard.said).split())):
                told = f", and printed {codes.in_short(said)},"
                self._say(codes.code_of_print(self.one(None).value), told)
            return answer

        return once

    def held(self, answer: Any) -> Any:
        """Return an answer, encoded if a later release could change it."""
        kind = type(answer)
        if kind in _IMMUTABLE or kind is Encoded:
            return answer
        found = self.encoded(answer)
        self._tell(answer, found.value)
        return found

    def raised(self, error: BaseException) -> Encoded:
        """Encode an exception that is an answer."""
        found = self._encoded(encode_raised(error, messages=self.terms.messages), None)
        if (trace := codes.code_of_trace(found.kind)) not in self._told:
            self._say(trace, traced(error))
            if slip := slip_of(error):
                self._say(codes.code_of_slip(found.kind), slip)
        return found

    def encoded(self, answer: Any) -> Encoded:
        """Encode one answer of any kind."""
        if isinstance(answer, (Exception, SystemExit)):  # an item of a list: some calls failed
            return self.raised(answer)
        try:
            found = encode(answer, self.attributes)
        except UnreadableError as problem:
            if not self.terms.raises:
                raise
            name = codes.name_of(type(answer))[: codes.MOST_TEXT]
            value = b"?" + codes.sized(codes.bytes_of(name))
            only = self._encoded((name + codes.UNREADABLE, value, []), None)
            self._say(codes.code_of_trace(only.kind), f"an answer cannot be read: {problem}")
            return only
        return self._encoded(found, native_shape(answer))

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
        some = list(self.words.items())
        self.words.clear()
        return some

    def one(self, answer: Any) -> Encoded:
        """Encode an answer, simple values once only."""
        if type(answer) is Encoded:
            return answer
        key = (type(answer), answer) if type(answer) in _EXACT else None
        if key is not None and (known := self._known.get(key)) is not None:
            return known
        found = self.encoded(answer)
        if key is not None and len(self._known) < _KNOWN:
            self._known[key] = found
        return found

    def kind(self, text: str) -> int:
        """Return the code of a kind, and note its text."""
        code = codes.code_of_kind(text)
        self._say(code, text)
        return code

    def notice(self, answers: Any, values: list[int]) -> None:
        """Note texts of short values that occurred before."""
        for answer, value in zip(answers[:_NOTICED], values[:_NOTICED]):
            if type(answer) is not Encoded:
                self._tell(answer, value)

    def _encoded(
        self, found: tuple[str, bytes, list[float]], native: tuple[int, ...] | None
    ) -> Encoded:
        kind, value, numbers = found
        return Encoded(self.kind(kind), codes.code(value), numbers, native)

    def _say(self, code: int, text: str) -> None:
        if code not in self._told and len(self._told) < _KNOWN:
            self._told.add(code)
            self.words[code] = text

    def _tell(self, answer: Any, value: int) -> None:
        if value in self._told:
            return
        if value in self._once:
            if (text := codes.in_words(answer)) is not None:
                self._say(value, text)
        elif len(self._once) < _KNOWN:
            self._once.add(value)
            if len(self._once) <= _LOOKED and type(answer) in (list, tuple, dict):
                for code, text in codes.texts_in(answer).items():
                    self._say(code, text)


_NO_NUMBER = pack("<Q", codes.ABSENT)


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
