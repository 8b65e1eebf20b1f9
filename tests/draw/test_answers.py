"""Batches of answers: the fast ways give what the slow one gives, and exceptions are answers."""

from __future__ import annotations

import math
import re
import signal
from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from dpframe import Answers, host_mechanism
from dpframe.draw.worker import answers as encoders, codes
from dpframe.draw.worker.answers import AnswerEncoder, Limit, Terms, joined, packed
from dpframe.draw.worker.codes import UnreadableError
from dpframe.draw.worker.encoding import encode
from dpframe.draw.worker.mechanism_sampler import ArrayEncoder, _only

NAN, INF = math.nan, math.inf


def encoder(kind=ArrayEncoder, attributes=(), **terms):
    made = kind(attributes)
    made.terms = Terms(**terms)
    return made


def rows_of(chunk):
    return np.frombuffer(chunk.content, chunk.dtype).reshape(chunk.shape)


def asked(made, release, n):
    return Answers(rows_of(made.ask(release, n)), made.words)


def slowly(answers, width):
    rows = []
    for kind, value, numbers in map(encode, answers):
        rows.append(packed(codes.code_of_kind(kind), codes.code(value), numbers, width, 0.0))
    return np.frombuffer(b"".join(rows), "<u8").reshape(len(answers), -1)


def rng():
    return np.random.default_rng(3)


FLOATS = [1.5, -0.0, 0.0, NAN, INF, -INF, 1.5, 5e-324]
BATCHES = {
    "floats": FLOATS,
    "float": [2.0],
    "ints": [1, 2, 10**400, -5, 1],
    "bools": [True, False, True],
    "texts": ["a", "b", "a", ""],
    "mixed": [1, 1.0, True, None, "1", b"1", (1, 2.0), {"a": [1.0, NAN]}],
    "scalars": list(np.array(FLOATS)),
    "float32 scalars": list(np.array(FLOATS, np.float32)),
    "bool scalars": list(np.array([True, False])),
    "integer scalars": list(np.array([1, 2**63 - 1, -5])),
    "arrays": [np.array([x, 1.0, NAN]) for x in FLOATS],
    "wide arrays": [np.full((2, 40), x) for x in FLOATS],
    "empty arrays": [np.zeros((0, 3)), np.zeros((0, 3))],
    "arrays of many shapes": [np.zeros(1), np.zeros(2), np.zeros(2, np.float32)],
    "small integers": [np.array([1, -2], np.int8), np.array([3, 1], np.int8)],
    "arrays without dims": [np.array(1.0), np.array(NAN)],
    "big-endian": [np.array([1.0, 2.0], ">f8"), np.array([NAN, 2.0], ">f8")],
    "long double": [np.array([1.0], np.longdouble)] * 2,
    "large arrays": [np.arange(9000.0), np.arange(9000.0) + 1],
    "objects": [np.array([None, 1.5]), np.array(["a"], object)],
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_laid_out_as_one_answer_at_a_time(name):
    answers = BATCHES[name]
    for width in (None, 1, 4, 64):
        made = encoder(width=width)
        rows = rows_of(made.chunk([made.held(a) for a in answers]))
        assert rows.dtype == np.uint64
        assert (rows == slowly(answers, rows.shape[1] - 3)).all()


@pytest.mark.parametrize("dims", [(), (3,), (2, 40), (0,), (9000,)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "?"])
def test_the_rows_of_an_array_are_answers(dims, dtype):
    block = (rng().normal(size=(5, *dims)) * 10).astype(dtype)
    if block.dtype.kind == "f" and block.size:
        block[1] = NAN
        block.reshape(5, -1)[2, 0] = -INF
    rows = rows_of(encoder(width=8).chunk(block))
    assert (rows == slowly(list(block), 8)).all()


def test_what_a_box_answers_does_not_change_with_its_buffers():
    held = np.zeros(2)
    table = {"x": 0}

    def release(rng, data):
        held[0] += 1
        table["x"] += 1
        return held if data else table

    box = host_mechanism(release=release)()
    for data in (True, False):
        numbers = asked(encoder(), partial(box.release, rng(), data), 3).numbers[:, 0]
        assert (np.diff(numbers) == 1).all()


def test_exceptions_are_answers():
    def release(rng, data):
        raise data(f"no more than {rng.integers(10, 99)}")

    box = host_mechanism(release=release)()
    for kind in (ValueError, KeyError, SystemExit, RecursionError):
        release = partial(box.release, rng(), kind)
        assert len(np.unique(asked(encoder(raises=True), release, 4).rows, axis=0)) == 1
        answers = asked(encoder(raises=True, messages=True, width=2), release, 4)
        assert answers.raised.all()
        assert len(set(answers.kinds.tolist())) == 1
        assert len(set(answers.values.tolist())) > 1
        where = "" if kind is RecursionError else r" at (draw/)?test_answers.py:\d+"
        words = f"raises {kind.__name__}{where}: "
        assert re.match(words, answers.words[int(answers.kinds[0])].replace("tests/", ""))
        assert (answers.numbers[:, 0] >= 10).all()
        assert answers.absent[:, 1].all()
        with pytest.raises(kind):
            encoder().ask(release, 4)
    for kind in (MemoryError, KeyboardInterrupt):
        with pytest.raises(kind):
            encoder(raises=True).ask(partial(box.release, rng(), kind), 4)
    assert not Answers(rows_of(encoder().chunk([1.0, "x"]))).raised.any()


def test_an_exception_that_is_raised_again_has_the_place_of_each_time():
    cached = ValueError("the same object")

    def release(rng, data):
        if rng.random() < 0.5:
            raise cached
        raise cached

    box = host_mechanism(release=release)()
    kinds = asked(encoder(raises=True), partial(box.release, rng(), None), 32).kinds
    assert len(set(kinds.tolist())) == 2
    generator = rng()
    places = [generator.random() < 0.5 for _ in range(32)]
    assert (kinds == kinds[0]).tolist() == [place == places[0] for place in places]


def test_what_cannot_be_read_is_an_answer_of_its_type():
    made = encoder()
    with pytest.raises(UnreadableError, match="has nothing to read"):
        made.held(zip([1]))
    made = encoder(raises=True)
    found = [made.held(answer) for answer in (zip([1]), zip([2]), iter([]), [1])]
    assert [one.kind & 1 for one in found] == [1, 1, 1, 0]
    assert found[0] == found[1] != found[2]
    assert made.words[found[0].kind] == "zip, unreadable"
    told = made.words[codes.code_of_trace(found[0].kind)]
    assert "class zip, which has nothing to read: list what to read in `attributes`" in told


def test_a_sample_is_asked_for_one_at_a_time():
    def sample(rng, data, n):
        if rng.random() < 0.5:
            raise ValueError("unlucky")
        return np.full((n, 2), 7.0)

    box = host_mechanism(sample)()
    answers = asked(encoder(raises=True, time=True), partial(_only, box, rng(), None), 20)
    assert 0 < answers.raised.sum() < 20
    assert (answers.numbers[~answers.raised] == 7.0).all()
    assert (answers.seconds > 0).all()
    two = host_mechanism(lambda rng, data, n: np.zeros(2), name="two")()
    with pytest.raises(UnreadableError, match="one row"):
        encoder(raises=True).ask(partial(_only, two, rng(), None), 1)


def test_words_for_kinds_and_for_values_that_come_again():
    made = encoder()
    made.chunk(["yes", "no", 1.25, 1.5])
    rows = rows_of(made.chunk(["yes", "no", 1.25, 1.75]))
    words = dict(made.take_words())
    assert {words[int(code)] for code in rows[:, 0]} == {"str", "float"}
    assert [words.get(int(code)) for code in rows[:, 1]] == ["'yes'", "'no'", "1.25", None]
    made.chunk(["yes", None])
    assert list(dict(made.take_words()).values()) == ["None"]


def test_texts_in_lists_have_words_from_the_first_time_on():
    made = encoder()
    rows = rows_of(made.chunk([["b", 1.0], {"k": ("user 7",)}]))
    words = {code >> 32: text for code, text in made.take_words()}
    markers = Answers(rows).numbers[:, 0].astype(int).tolist()
    assert [words[marker] for marker in markers] == ["'b'", "'user 7'"]


@pytest.mark.parametrize(
    ("answer", "shape"),
    [
        *((1, ()), (1.5, ()), (True, ()), (np.float32(1), ()), (np.zeros((2, 3)), (2, 3))),
        *((None, None), ("a", None), (1j, None), ([1.0], None), (np.array([1j]), None)),
        *((np.array(["a"]), None), (np.array([1], ">i8"), None), (np.str_("a"), None)),
        *((np.ma.array([1.0]), (1,)), (np.ma.masked, ()), (np.array([None]), None)),
    ],
)
def test_numbers_and_arrays_of_real_numbers_have_a_native_shape(answer, shape):
    for made in (encoder(), encoder(AnswerEncoder)):
        assert encoders.native_shapes([made.held(answer)]) == {shape}
    error = encoder().raised(ValueError("1"))
    assert encoders.native_shapes([error, 1.0]) == {()}


def test_rows_are_the_same_without_numpy():
    for answers in BATCHES.values():
        own, other = encoder(), encoder(AnswerEncoder)
        parts = [[*answers], [1.0, None]]
        found = [
            joined([made.chunk([made.held(one) for one in part]) for part in parts])
            for made in (own, other)
        ]
        assert found[0] == found[1]
        assert own.words.items() >= other.words.items()


def test_attributes_say_what_is_read():
    class Model:
        def __init__(self, noise):
            self.coef, self.noise = np.array([1.0]), noise

    answers = [Model(1.0), Model(2.0)]

    def values(*attributes):
        made = encoder(attributes=attributes)
        rows = rows_of(made.chunk([made.held(a) for a in answers]))
        return len(set(rows[:, 1].tolist()))

    assert values() == 2
    assert values("coef") == 1


def test_a_release_that_takes_too_long_is_an_exception(monkeypatch):
    monkeypatch.setattr("dpframe.draw.worker.answers.ALARM_INTERVAL", 0.01)

    def free(rng, data):
        while rng.random() < 0.5:
            try:
                while True:
                    pass
            except OSError:  # a TimeoutError is one: then it is asked again
                if data == "stubborn":
                    continue
                raise
        return 1.0

    box = host_mechanism(release=free)()
    before = signal.getsignal(signal.SIGALRM)
    for data in ("", "stubborn"):
        release = partial(box.release, rng(), data)
        answers = asked(encoder(raises=True, limit=0.01), release, 8)
        if not data:
            assert 0 < answers.raised.sum() < 8
            assert "raises TimeoutError" in answers.words.values()
    with pytest.raises(TimeoutError):
        encoder(limit=0.01).ask(partial(box.release, rng(), ""), 8)
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@pytest.mark.parametrize("raised", [True, False])
def test_an_alarm_that_rings_after_the_release_is_an_answer(monkeypatch, raised):
    """Also one that rings after the release has raised, and before the alarm is off."""
    rung = []

    class Late(Limit):
        def stop(self):
            if not rung and self._running:
                rung.append(True)
                self._ring()
            super().stop()

    monkeypatch.setattr(encoders, "Limit", Late)

    def release():
        if raised:
            raise ValueError
        return 1.0

    answers = asked(encoder(raises=True, limit=60.0), release, 2)
    assert rung
    assert answers.raised.tolist() == [True, raised]
    assert any("TimeoutError" in text for text in answers.words.values())


def test_parts_are_found_by_keys_positions_and_attributes():
    answer = {"means": [np.array([1.0, 2.0])], "n": 3, 1: "one", "result": Decimal("1.5")}
    paths = ["means.0.-1", "n", "1", "result.real", "n.of", "means.2"]
    found = encoder(only=paths).counted(answer)
    assert found == dict(zip(paths, [2.0, 3, "one", Decimal("1.5")], strict=False))
    assert encoder(only=["n"]).counted(answer) == 3
    assert encoder(only=["x"]).counted(answer) == {}
    assert encoder(only=["count", "--1"]).counted([1, 2]) == {}  # a method is no part
