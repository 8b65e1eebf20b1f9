"""Neighbouring texts: what the claim says, each kind early, and the attack on their answers."""

import numpy as np
import pytest
from dpframe_text.programs.answer_features import FIRST, PLACES, SIZES, code, features
from dpframe_text.text_arguments import space_of
from dpframe_text.text_attack import NO_TEXT, TextFeatures
from dpframe_text.text_pairs import EMPTY, RELATIONS, TextPair
from dpframe_text.text_search import Texts
from dpframe_text.vocabulary import Vocabulary

import dpframe
from dpframe.plugins import HostMechanism, Target
from dpframe.testing import check_attack, check_neighbourhood

WORDS = Vocabulary.toy(40)
TEXTS = ["the pill one", "fever market song"]


def space(unit="word", adjacency="replace", metric=None, beyond=True, vocabulary=WORDS.words):
    more = {"unit": unit, "adjacency": adjacency, "beyond": beyond}
    return space_of(TEXTS, vocabulary, metric, WORDS, **more)


def removed(longer, shorter):
    return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))


@pytest.mark.parametrize(("unit", "adjacency"), RELATIONS)
@pytest.mark.parametrize("beyond", [True, False])
def test_pairs_are_neighbours_of_the_claim(unit, adjacency, beyond):
    texts = space(unit, adjacency, beyond=beyond)
    rng = np.random.default_rng(0)
    pairs = texts.planned()
    chance = [texts.pair(texts.by_chance(rng)) for _ in range(50)]
    near = [texts.pair(texts.near(pair, rng)) for pair in pairs[:50]]
    for pair in filter(None, [*pairs, *chance, *near]):
        one, other = pair.texts
        assert one != other
        assert beyond or not texts.is_beyond(one, other)
        differ = sum(old != new for old, new in zip(one, other, strict=False))
        replaced = len(one) == len(other) and differ == 1
        resized = removed(one, other) or removed(other, one)
        if unit == "word":
            assert {"replace": replaced, "add-remove": resized, "either": replaced or resized}[
                adjacency
            ], pair
    if beyond:
        assert any(texts.is_beyond(*pair.texts) for pair in pairs)
    assert len({frozenset(pair.texts) for pair in pairs}) == len(pairs) > 60


@pytest.mark.parametrize("unit", ["word", "text"])
def test_every_kind_comes_early(unit):
    kinds = space(unit).all_kinds()
    early = {kind for pair in space(unit).planned()[:100] for kind in pair.kinds}
    assert set(kinds) == early
    assert {"an unknown word", "a look-alike of a word", "a number", "a stop word"} <= early
    assert (EMPTY in early) == (unit == "text")
    first = {kind for pair in space(unit).planned()[:20] for kind in pair.kinds}
    assert {"an unknown word", "a rare word", "a punctuation mark", "the nearest words"} <= first


@pytest.mark.parametrize("unit", ["word", "text"])
@pytest.mark.parametrize(
    "metric", ["euclidean", lambda one, other: float(abs(len(one) - len(other)) + (one != other))]
)
def test_the_claim_grows_with_the_distance(unit, metric):
    pairs = space(unit, metric=metric).planned()
    distances = [pair.apart for pair in pairs]
    assert distances == sorted(distances)
    for pair in pairs:
        one, other = pair.texts
        changed = [both for both in zip(one, other, strict=False) if both[0] != both[1]]
        if metric == "euclidean":
            assert len(one) == len(other)
            assert pair.apart == pytest.approx(sum(WORDS.distance(*both) for both in changed))
        elif unit == "word":
            assert pair.apart == metric(*changed[0])
        else:
            assert pair.apart == metric(" ".join(one), " ".join(other))


def test_the_nearest_words_of_a_large_vocabulary_are_found():
    words = Vocabulary.toy(300)
    texts = space_of(
        TEXTS, words, "euclidean", None, unit="word", adjacency="replace", beyond=False
    )
    np.fill_diagonal(gaps := words.distances.copy(), np.inf)
    assert texts.planned()[0].apart == pytest.approx(gaps.min())


@pytest.mark.parametrize("unit", ["word", "text"])
def test_the_neighbourhood_keeps_its_promises(unit, tmp_path):
    own = Texts(texts=tuple(TEXTS), vocabulary=tuple(WORDS.words), unit=unit, batch=20)
    check_neighbourhood(own)
    one = own.propose(np.random.default_rng(0), [])[0]
    assert TextPair.from_params(one.params()) == one


def test_files_beside_a_spec_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = [" ".join(map(repr, vector)) for vector in WORDS.vectors.tolist()]
    lines = [f"{word} {own}" for word, own in zip(WORDS.words, numbers, strict=True)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    params = {"file": "texts.txt", "vectors": "vectors.txt", "metric": "euclidean"}
    own = Texts.from_params(params)
    pairs = own.propose(np.random.default_rng(0), [])
    assert [pair.apart for pair in pairs] == sorted(pair.apart for pair in pairs)
    assert own.params()["vectors"] == "vectors.txt"
    (tmp_path / "vectors.txt").write_text("the 1.0 x\n")
    with pytest.raises(ValueError, match=r"vectors\.txt:1: not a word and numbers"):
        Texts.from_params(params)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"texts": ["the zebra"], "vocabulary": ["the"]},
        {"texts": ["the"]},
        {"texts": ["the cat"], "metric": "euclidean"},
        {"texts": ["the cat"], "unit": "text", "change": "either"},
    ],
)
def test_a_mistake_in_a_spec_is_named(params):
    with pytest.raises(ValueError, match=r"texts|vocabulary|metric|adjacency"):
        Texts.from_params(params)


# The attack.


class Plain(HostMechanism, name="plain"):
    """A mechanism whose answers are features of texts."""

    gives_text_features = True
    vocabulary = tuple(WORDS.words)
    vectors = WORDS

    def claim(self, pair):
        return dpframe.PureDP(0.5)

    def release(self, rng, data):
        return features(data, 4)


PAIR = TextPair(before="the pill", after="the market")


def learned(look, d0, d1):
    attack = TextFeatures(look=look)
    train = tuple(np.array([features(text, 4) for text in side]) for side in (d0, d1))
    state = attack.fit(None, Target(Plain(), PAIR, train[0].shape[1:]), train)
    return attack, state, train


SEEN = {
    "word": (["the pill"] * 40, ["the market"] * 40, "word 2 of the answer is 'market'"),
    "contains": (
        ["one the", "the one"] * 20,
        ["one", "one one"] * 20,
        "the answer does not contain ",
    ),
    "size": (["pill the"] * 40, ["pill the one"] * 40, "the number of "),
    "whole": (["the pill"] * 40, ["the market"] * 40, "the answer is 'the market'"),
    "together": (["the pill"] * 40, ["one market"] * 40, "the log-odds of D′ by all words"),
    "distance": (["the pill"] * 40, ["the market"] * 40, "word 2 of the answer, d(·, D) − d(·, D"),
}


@pytest.mark.parametrize("look", SEEN)
def test_the_attack_tells_answers_apart_and_names_the_event(look):
    attack, state, (x, y) = learned(look, *SEEN[look][:2])
    scores = [np.asarray(attack.score(state, part)) for part in (x, y)]
    assert scores[0].max() < scores[1].min()
    assert attack.words(state, float(scores[1].min()), True, {}).startswith(SEEN[look][2])
    assert attack.words(state, float(scores[1].min()), False, {})


@pytest.mark.parametrize("look", SEEN)
def test_answers_that_never_differ_are_no_problem(look):
    for texts in (["the"] * 8, [""] * 8, ["the"]):
        attack, state, (x, _) = learned(look, texts, texts)
        scores = np.asarray(attack.score(state, x))
        assert np.isfinite(scores).all()
        assert len(set(scores)) == 1
        missing = np.full_like(x, NO_TEXT)  # exceptions
        assert np.isfinite(attack.score(state, missing)).all()


@pytest.mark.parametrize("look", SEEN)
def test_the_attack_keeps_its_promises(look):
    check_attack(TextFeatures(look=look), mechanism=Plain(), pair=PAIR)


def test_features_tell_texts_apart_and_fill_the_places():
    one = features("a b a", 4)
    assert one[: len(SIZES)] == [3.0, 5.0, 2.0]
    assert one[FIRST:] == [code("a"), code("b"), code("a"), 0.0]
    assert features("a  b a", 4)[: FIRST + 1] != one[: FIRST + 1]
    assert features(["a", "b", "a"], 4)[FIRST:] == one[FIRST:]
    assert len(features("a " * 100)) == FIRST + PLACES
    assert features(None, 2)[0] == 1.0
    assert 1 <= code("\ud800") < 2**32
