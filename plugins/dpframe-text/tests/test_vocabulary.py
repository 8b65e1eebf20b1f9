"""Vocabularies find words, and the small one has neighbours on the same topic."""

import numpy as np
import pytest
from dpframe_text.vocabulary import Vocabulary


def test_the_nearest_words_are_mostly_on_one_topic():
    toy = Vocabulary.toy()
    assert (len(toy), toy.vectors.shape) == (300, (300, 5))
    assert "fever" in toy
    assert "Fever" not in toy
    topics = dict(zip(toy.words, toy.topics, strict=True))
    same = [topics[toy.nearest(word)[0]] == topics[word] for word in toy.words]
    assert np.mean(same) > 0.9
    assert np.min(toy.distances + np.diag(np.full(300, 9.0))) > 0.4


def test_a_smaller_vocabulary_begins_with_a_word_of_each_topic():
    assert Vocabulary.toy(60).words == Vocabulary.toy().words[:60]
    assert len(set(Vocabulary.toy(30).topics)) == 30
    with pytest.raises(ValueError, match="from 1 to 300, not 301"):
        Vocabulary.toy(301)


def test_a_vocabulary_of_a_dict():
    own = Vocabulary.of({"a": [0, 0], "b": [3, 4], "c": [0, 1]})
    assert own.distance("a", "b") == own.distances[0, 1] == 5
    assert own.nearest("a", 2) == ("c", "b")
    assert own.farthest("c") == "b"
    assert own.index("b") == 1
    with pytest.raises(KeyError):
        own.index("d")


@pytest.mark.parametrize(
    ("words", "vectors", "reason"),
    [
        (("a", "a"), np.zeros((2, 1)), "repeated"),
        (("a", "b"), np.zeros((3, 1)), r"shape \[2, d\], not \[3, 1\]"),
        (("a", "b"), np.array([[0.0], [np.nan]]), "not finite"),
    ],
)
def test_a_vocabulary_refuses_what_has_no_distances(words, vectors, reason):
    with pytest.raises(ValueError, match=reason):
        Vocabulary(words, vectors)
