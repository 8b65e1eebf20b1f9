"""Answers of a box in another interpreter, laid out as rows; see `foreign`.

Python 3.8 and its standard library are all that it uses.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


MOST_WORDS = 4096
"""Codes that are told in words, short values among them."""

NOTICED = 64
"""Other answers of a task of which it is looked whether they came before."""

AT_ONCE = 64
"""Words in one message."""

LOOKED = 256
"""Answers in which texts are looked for, so that markers of them have words."""

KNOWN = 4096
"""Answers of Python's own types that are encoded once only."""


class Rows:
    """Asks for releases, and encodes what they answer.

    Args:
        parts: the files beside this one, as modules.
        attributes: what is read of objects.
    """

    def __init__(self, parts: Any, attributes: list[str]) -> None:
        self.encoding, self.limit = parts.answer_encoding, parts.limit.Limit
        self.attributes = tuple(attributes)
        self.told: set[int] = set()
        self.words: dict[str, str] = {}
        self.known: dict[Any, Any] = {}
        self.once: set[int] = set()
        """Codes of values that came; those that come again are told in words."""
        self.begin({})

    def begin(self, how: dict[str, Any]) -> None:
        """Forgets the answers to an earlier task.

        Args:
            how: of the new one: `width`, the numbers of a row, or null for as many as the widest
                has; `raises`, whether an exception is an answer; `time`, whether to say what each
                took; `limit`, the seconds that a release may take.
        """
        self.width, self.timed = how.get("width"), bool(how.get("time"))
        self.raises = bool(how.get("raises"))
        self.alarm = self.limit(how.get("limit"))
        self.natives: set[Any] = set()
        """Shapes of answers that are numbers or arrays; None for others."""
        self.found: list[Any] = []
        """Kind, value and numbers of each answer, and its seconds."""
        self.size = 0
        """Bytes, about."""
        self.noticed = 0

    def take(self, release: Callable[[], Any], number: int) -> None:
        """Asks for some releases."""
        with self.alarm.watched():
            self._take(release, number)

    def _take(self, release: Callable[[], Any], number: int) -> None:
        timed, clock, found, alarm = self.timed, time.perf_counter, self.found, self.alarm
        began = took = 0.0
        for _ in range(number):
            if timed:
                began = clock()
            try:
                alarm.start()
                answer = release()
                alarm.stop()
            except (Exception, SystemExit) as error:
                alarm.stop()
                if timed:
                    took = clock() - began
                self.fail(error, 1, took)
                continue
            if timed:
                took = clock() - began
            encoded = self.encoded(answer)
            self.natives.add(_native(answer))
            found.append((encoded, took))
            self.size += 8 * (3 + len(encoded[2]))

    def fail(self, error: BaseException, number: int, took: float = 0.0) -> None:
        """Takes an exception for so many answers, where it may be one."""
        if not self.raises or isinstance(error, MemoryError):
            raise error
        encoded = self.encoding.encode_raised(error)
        self.found += [(encoded, took)] * number
        self.size += number * 8 * (3 + len(encoded[2]))

    def encoded(self, answer: Any) -> Any:
        """Kind, value and numbers of an answer, and it in words if it is short."""
        key = (type(answer), answer) if type(answer) in _EXACT else None
        if key is not None and key in self.known:
            return self.known[key]
        encoded = self.encoding.encode(answer, self.attributes)
        if key is not None and len(self.known) < KNOWN:
            self.known[key] = encoded
            self.say(self.encoding.code(encoded[1]), self.encoding.in_words(answer))
        elif self.noticed < NOTICED:
            self.noticed += 1
            self.notice(self.encoding.code(encoded[1]), answer)
        return encoded

    def notice(self, code: int, answer: Any) -> None:
        """Says what a value is that came before."""
        if code in self.once:
            self.say(code, self.encoding.in_words(answer))
        elif len(self.once) < KNOWN:
            self.once.add(code)
            if len(self.once) <= LOOKED and type(answer) in (list, tuple, dict):
                for own, text in self.encoding.texts_in(answer).items():
                    self.say(own, text)

    def say(self, code: int, text: str | None) -> None:
        """Notes what a code stands for."""
        if text is not None and code not in self.told and len(self.told) < MOST_WORDS:
            self.told.add(code)
            self.words[str(code)] = text

    def given(self) -> tuple[dict[str, Any], bytes]:
        """What is told of the rows, words that were not told before among it, and the rows."""
        widest = max(len(encoded[2]) for encoded, _ in self.found)
        width = widest if self.width is None else self.width
        for kind in dict.fromkeys(encoded[0] for encoded, _ in self.found):
            self.say(self.encoding.code_of_kind(kind), kind)
        rows = [self.encoding.row(*encoded, width, took) for encoded, took in self.found]
        some = dict(list(self.words.items())[:AT_ONCE])
        for code in some:
            del self.words[code]
        told = {"tell": "outputs", "answering": True, "dtype": "<u8", "words": some}
        told.update(shape=[len(rows), 3 + width], natives=list(self.natives))
        self.found, self.natives, self.size = [], set(), 0
        return told, b"".join(rows)


def _native(answer: Any) -> Any:
    """Shape of an answer that is a number or an array of NumPy."""
    if isinstance(answer, (int, float)):
        return ()
    return tuple(answer.shape) if type(answer).__module__ == "numpy" else None


_EXACT = (int, bool, str, bytes, type(None))
