"""Numbers that describe an answer of a rewriting function: its size, its words, and the whole.

Plain Python from 3.8 on, without dpframe and without NumPy, so that it runs beside any library.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

SIZES = ("words", "characters", "different words")
"""Names of the first numbers."""

WHOLE = len(SIZES)
"""Place of the code of the whole answer."""

FIRST = WHOLE + 1
"""Place of the code of the first word."""

PLACES = 32
"""Codes of at most this many words follow; further words are part of the whole alone."""

NO_WORD = 0.0
"""Stands in the places after the last word."""


@lru_cache(maxsize=1 << 16)
def code(word: str) -> float:
    """Return a number from 1 to 2³² − 1 that stands for a text, the same in every process."""
    content = word.encode("utf-8", "surrogatepass")
    return float(int.from_bytes(blake2b(content, digest_size=4).digest(), "little") or 1)


def words_of(answer: Any) -> list[str] | None:
    """Return the words of an answer: a text, or words in a list, a tuple or an array.

    None for any other answer.
    """
    if isinstance(answer, str):
        return answer.split()
    if hasattr(answer, "tolist"):  # an array
        answer = answer.tolist()
    if isinstance(answer, (list, tuple)) and all(isinstance(word, str) for word in answer):
        return list(answer)
    return None


def features(answer: Any, places: int = PLACES) -> list[float]:
    """Return the numbers of `SIZES`, and the codes of the whole and of each word.

    An answer that has no words counts as one word, which is its `repr`.
    """
    words = words_of(answer)
    if words is None:
        words = [repr(answer)]
    whole = answer if isinstance(answer, str) else "\x00".join(words)
    codes = [code(word) for word in words[:places]]
    padding = [NO_WORD] * (places - len(codes))
    return [
        float(len(words)),
        float(len(whole)),
        float(len(set(words))),
        code(whole),
        *codes,
        *padding,
    ]
