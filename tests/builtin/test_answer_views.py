"""Views of answers find what real libraries give away, and say it in words."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from support.encoded import best_event, encoded, target
from support.tiers import mostly_slow

from dpframe.builtin.answer_views import negated
from dpframe.builtin.answers import VIEWS, OfAnswers
from dpframe.draw.worker.codes import texts_in

RNG = np.random.default_rng(5)


def laplace(scale: float = 1.0) -> float:
    return float(RNG.laplace(0, scale))


def textbook(value: float) -> float:
    """Laplace noise by inversion, as libraries make it, in float64."""
    sign = 1 if RNG.random() < 0.5 else -1
    return value + sign * math.log(1 - RNG.random())


def biased(side: int) -> int:
    """Geometric noise of a sampler that likes multiples of 3 on D′ only."""
    noise = int(RNG.geometric(0.3) - RNG.geometric(0.3))
    while side and noise % 3 and RNG.random() < 0.8:
        noise = int(RNG.geometric(0.3) - RNG.geometric(0.3))
    return noise


def shared(side: int) -> tuple[float, ...]:
    a, b, c = laplace(), laplace(), laplace()
    return (a, b, a if side else c)


def ranking(side: int) -> list[str]:
    """Eight names in the order of noisy counts; on D′ two pairs of them have changed places."""
    counts = np.array([3, 1, 3, 1, 0, 0, 0, 0]) if side else np.array([1, 3, 1, 3, 0, 0, 0, 0])
    order = np.argsort(-(counts + RNG.laplace(0, 0.4, 8)))
    return [f"q{place}" for place in order]


P = [0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4]

SIGNS = np.resize([-1.0, 1.0], 512)

BOXES: list[tuple[str, Any, int, int, str]] = [
    ("kinds", lambda side: math.nan if side else laplace(), 12, 1, "the output is NaN"),
    ("kinds", lambda side: ValueError("row 17") if side else 1.0, 12, 1, "raises ValueError"),
    ("kinds", lambda side: np.zeros((2 + side, 1)), 12, 4, r"shape \(3, 1\)"),
    ("values", lambda side: 0.25 + side, 12, 1, "is 1.25|is 0.25"),
    ("numbers", lambda side: 50 + side + laplace(0.05), 16, 1, ".*50|or more|less than"),
    ("numbers", lambda side: bytes([int(RNG.integers(128)) + 128 * side]), 16, 8, "output 1 is"),
    ("numbers", lambda side: list(RNG.normal(0.25 * side * SIGNS)), 60, 512, "a weighted sum"),
    ("bits", lambda side: textbook(1.0 - side), 1500, 1, r"2\^-"),
    ("bits", lambda side: np.float32(np.float32(RNG.normal()) + np.float32(1 - side)), 3000, 1,
     r"2\^-|bits"),
    ("residues", biased, 3000, 1, "modulo (3|6|9|12|15)"),
    ("equalities", shared, 16, 4, "output 1 equals output 3"),
    ("equalities", lambda side: [*(x := [laplace(), laplace()]), sum(x) if side else laplace()],
     16, 4, "output 3 equals the sum of the other outputs"),
    ("spread", lambda side: list(RNG.normal(0, 0.5 - side / 6, 256)), 16, 256,
     "deviation|norm|absolute|range"),
    ("labels", ranking, 60, 8, "counts and positions of labels|first position of 'q\\d"),
    ("labels", lambda side: RNG.choice(list("abcd"), 32, p=P[side]).tolist(), 30, 32,
     "positions of labels|times '[abcd]' occurs"),
    ("numbers", lambda side: f'{{"sum": {50 + side + laplace(0.05)}}}', 16, 1, "the output is"),
    ("numbers", lambda side: "".join(RNG.choice(["0", "1"], 8)) + str(side), 16, 16, "output 9"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("look", "box", "n", "width", "words"), mostly_slow(BOXES, {*range(len(BOXES))} - {6})
)
def test_it_finds_what_it_looks_at(look: Any, box: Any, n: int, width: int, words: str) -> None:
    found = best_event(OfAnswers(look=look), box, 0.5, n, width)
    assert found.z > 2.5
    assert found.words is not None
    assert re.search(words, found.words), found.words


@pytest.mark.parametrize("look", sorted({*VIEWS} - {"time"}))
def test_it_finds_nothing_where_there_is_nothing(look: Any) -> None:
    found = best_event(
        OfAnswers(look=look), lambda side: (laplace(), int(laplace() * 9)), 0.0, 200, 2
    )
    assert found.z < 5


def test_answers_without_a_text_are_counted() -> None:
    codes, words = [1, 2, 3], {1 << 32: "0.25"}
    exact = VIEWS["values"]
    assert exact.describe(0, 1, codes, words) == "is 0.25 or one of 2 answers that were not stored"
    assert exact.describe(0, 1, [2], words) == "is one answer that was not stored"
    assert VIEWS["kinds"].describe(0, 1, [2], {}) == "returns one kind that was not stored"


def test_a_label_is_told_by_what_it_may_be() -> None:
    """Whole numbers 32 apart are counted together, and so are texts whose markers are."""
    attack = OfAnswers(look="labels")

    def told(given: list[Any], other: list[Any], words: dict[int, str] | None = None) -> str:
        sides = [encoded(part, 4) for part in (given, other)]
        state = attack.fit(None, target(0.5), tuple(map(attack.see, sides)))
        state["column"] = np.int32(5)
        edge = float(np.max(state["scores"]))
        return str(attack.words(state, edge, True, sides[0].words if words is None else words))

    none = [[1, 2]] * 9
    assert told([[5, 1]] * 9, none).startswith("the number of times 5 occurs is")
    three = [[5 + 32 * n, 1] for n in (0, 1, 1, 0, 0, 2)]
    assert "times 5, 37 or 69 occurs" in told(three, none)
    many = [[5 + 32 * n, 1] for n in (0, 0, 0, 1, 1, 2, 2, *range(3, 30))]
    assert "times 5, 37, 69 or one of 27 others occurs" in told(many, none)
    text = next(t for t in map("w{}".format, range(1000)) if _group(t) == 5)
    assert f"times '{text}' occurs" in told([[text, 1]] * 9, none, texts_in([text]))
    assert "occurs" in told([["?", 1]] * 9, none, {})


def _group(text: str) -> int:
    (code,) = texts_in(text)
    return (code >> 32) % 32


def test_time_is_seen() -> None:
    attack = OfAnswers(look="time")
    took = [encoded([1.0] * 12, 1, RNG.exponential(1e-3, 12) + 0.01 * side) for side in (0, 1)]
    state = attack.fit(None, target(0.5), tuple(map(attack.see, took)))
    scores = [attack.score(state, attack.see(part)) for part in took]
    assert scores[1].min() > scores[0].max()
    assert "seconds" in str(attack.words(state, float(scores[1].min()), True, {}))


MIXED: list[Any] = [1.5, -2.0, math.nan, math.inf, [1.0, 2.0, 2.0], "text", None, 7, b"\x05", True,
                    ValueError("no"), [1e300, -1e300, 5e-324, 0.1]]  # fmt: skip


@pytest.mark.parametrize("look", sorted(VIEWS))
def test_answers_are_seen_row_by_row(look: Any) -> None:
    attack = OfAnswers(look=look)
    sides = [encoded([MIXED[i] for i in RNG.integers(len(MIXED), size=40)], 8) for _ in (0, 1)]
    seen = [attack.see(part) for part in sides]
    state: Any = attack.fit(None, target(1.0), (seen[0], seen[1]))  # type: ignore[arg-type]
    alone = [attack.see(sides[1]._replace(rows=row[None]))[0] for row in sides[1].rows]
    np.testing.assert_array_equal(np.stack(alone), seen[1])
    for edge in np.unique(attack.score(state, seen[1])):  # type: ignore[arg-type]
        for above in (True, False):
            attack.words(state, float(edge), above, {})


def test_few_answers_teach_nothing_and_break_nothing() -> None:
    for look in VIEWS:
        attack = OfAnswers(look=look)  # type: ignore[arg-type]
        none = attack.see(encoded([], 2))
        state = attack.fit(None, target(1.0), (none, none))  # type: ignore[arg-type]
        one = attack.see(encoded([(1.0, 2.0)], 2))
        assert np.isfinite(attack.score(state, one)).all()


@pytest.mark.parametrize(
    ("event", "negation"),
    [
        ("is 0.25 or 0.5", "is not 0.25 or 0.5"),
        ("output 1 equals output 4", "output 1 does not equal output 4"),
        ("the output is not a multiple of 2^-52", "the output is a multiple of 2^-52"),
        ("there are 3 different numbers", "there are not 3 different numbers"),
        ("raises KeyError at a.py:3 or returns None",
         "does not raise KeyError at a.py:3 or return None"),
        ("raises KeyError at a.py:3 or the output is NaN",
         "the following is false: raises KeyError at a.py:3 or the output is NaN"),
        ("the output is NaN", "the output is not NaN"),
        ("output 2 is positive and 0 modulo 3 or 1 modulo 3",
         "the following is false: output 2 is positive and 0 modulo 3 or 1 modulo 3"),
    ],
)  # fmt: skip
def test_the_negation_of_an_event_is_plain(event: str, negation: str) -> None:
    assert negated(event) == negation
