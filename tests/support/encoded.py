"""Answers of small boxes as attacks see them, and the best event that an attack finds in them."""

from __future__ import annotations

import hashlib
import math
import types
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe import Answers, PureDP
from dpframe.draw.worker.codes import texts_in
from dpframe.draw.worker.encoding import encode
from dpframe.draw.worker.exceptions import encode_raised
from dpframe.interfaces.attack import ABSENT, BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def encoded(given: Sequence[Any], width: int, seconds: Sequence[float] | None = None) -> Answers:
    """Answers; an exception stands for one that was raised."""
    rows = np.full((len(given), BEFORE + width), ABSENT, np.uint64)
    words = {}
    for place, answer in enumerate(given):
        read = encode_raised if isinstance(answer, BaseException) else encode
        kind, value, numbers = read(answer)
        rows[place, 0], rows[place, 1] = _code(kind.encode()), _code(value)
        words[_code(kind.encode())] = kind
        words |= texts_in(answer)
        words[_code(value)] = repr(answer)
        rows[place, BEFORE : BEFORE + len(numbers)] = np.array(numbers, float).view(np.uint64)
    took = np.zeros(len(given)) if seconds is None else np.asarray(seconds, float)
    rows[:, 2] = took.view(np.uint64)
    return Answers(rows, words)


def _code(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class Found(NamedTuple):
    """The event that lies farthest outside a claim."""

    z: float
    """By how many standard errors."""
    words: str | None


def target(epsilon: float) -> Any:
    """The claim alone."""
    mechanism = types.SimpleNamespace(claim=lambda _: PureDP(epsilon))
    return types.SimpleNamespace(mechanism=mechanism, pair=None, dims=())


def best_event(attack: Any, box: Callable[[int], Any], epsilon: float, n: int, width: int) -> Found:
    """Return the accuracy of an attack that learned from n answers on each side, on n others."""
    train = [encoded([box(side) for _ in range(n)], width) for side in (0, 1)]
    fresh = [encoded([box(side) for _ in range(n)], width) for side in (0, 1)]
    state = attack.fit(None, target(epsilon), tuple(map(attack.see, train)))
    scores = [attack.score(state, attack.see(part)) for part in fresh]
    best: Any = (-math.inf, 0.0, True)
    for edge in np.unique(np.concatenate(scores)):
        for above in (True, False):
            share = [(np.sum((s >= edge) == above) + 0.5) / (n + 1) for s in scores]
            for q, p in (share, share[::-1]):
                noise = math.sqrt(math.exp(2 * epsilon) * q * (1 - q) + p * (1 - p))
                best = max(best, ((p - math.exp(epsilon) * q) / noise * n**0.5, edge, above))
    words = {**train[0].words, **train[1].words}
    return Found(best[0], attack.words(state, best[1], best[2], words))
