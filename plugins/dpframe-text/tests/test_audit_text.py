"""Audits of rewriting functions: wrong ones are found, right ones are not accused."""

import importlib
import re
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import text_support
from dpframe_text import audit_text
from text_support import adapters
from text_support.adapters import RIGHT, TEXTS, WORDS, WRONG

import dpframe
from dpframe import DpframeError, UndecidedError

for module in (text_support, adapters):  # workers cannot import them
    cloudpickle.register_pickle_by_value(module)

FAST = {
    *("noise of scale ε", "as many words as the text", "equal words alike", "one seed"),
    *("the exponential mechanism", "lists in place", "nothing of the text"),
}
NEVER = 1 - 1e-6  # confidence at which a right function is accused once in a million audits


def each(table):
    marks = {True: (), False: pytest.mark.slow}
    return [pytest.param(name, marks=marks[name in FAST], id=name) for name in table]


def cell_of(table, name, **more):
    make, epsilon, arguments = table[name]
    texts = [text.split() for text in TEXTS] if make is adapters.as_list else TEXTS
    record = audit_text(make(epsilon), texts, epsilon=epsilon, **arguments, **more)
    return record.cells[0]


@pytest.mark.parametrize("name", each(WRONG))
def test_a_wrong_function_is_found(name):
    cell = cell_of(WRONG, name, trials=4_000 if name in FAST else 200_000)
    assert cell.verdict == "violated"
    assert cell.search.event


@pytest.mark.parametrize("name", each(RIGHT))
def test_a_right_function_is_never_accused(name):
    large = name == "randomised response at a large ε"
    trials = 1_200 if name in FAST else 150_000 if large else 20_000
    cell = cell_of(RIGHT, name, trials=trials, confidence=NEVER, seed=1)
    assert cell.verdict == "consistent"


def test_the_witness_names_the_unknown_word_and_how_to_leave_it_out():
    cell = cell_of({"passes": (adapters.each(adapters.passes), 1.0, {})}, "passes", trials=2_000)
    assert cell.verdict == "violated"
    assert cell.pair.params["description"].startswith("an unknown word; ")
    assert "'zyx'" in cell.search.event
    (need,) = cell.pair.needs
    assert need.without == {"beyond": False}
    assert "one word" in cell.search.neighbourhood.params["adjacency"]
    assert cell.search.neighbourhood.params["words"] == len({*" ".join(TEXTS).split()})


def test_inside_the_vocabulary_passing_unknown_words_is_no_violation():
    one = {"passes": (adapters.each(adapters.passes), 1.0, adapters.PLAIN)}
    cell = cell_of(one, "passes", trials=1_500, beyond=False, confidence=NEVER)
    assert cell.verdict == "consistent"
    assert not cell.pair.needs
    assert "an unknown word" in cell.search.coverage.untried


def test_texts_that_the_function_refuses_are_left_out_and_named():
    def rewrite(rng, text):
        return " ".join(
            adapters.kept_or_drawn(rng, 1.0, word) if word in WORDS else adapters.refuse(rng, word)
            for word in text.split()
        )

    more = {"vocabulary": WORDS.words, "trials": 1_500, "confidence": NEVER}
    cell = audit_text(rewrite, TEXTS, epsilon=1.0, **more).cells[0]
    assert cell.verdict == "consistent"
    assert not cell.search.coverage.raised
    assert "an unknown word" in cell.search.neighbourhood.params["refused"]
    assert "an unknown word" in cell.search.coverage.untried


def test_words_that_the_function_splits_are_left_out():
    def rewrite(rng, text):
        tokens = re.findall(r"\w+|[^\w\s]", text)
        return [adapters.kept_or_drawn(rng, 1.0, token) for token in tokens]

    more = {"vocabulary": WORDS.words, "trials": 1_500, "confidence": NEVER}
    cell = audit_text(rewrite, TEXTS, epsilon=1.0, **more).cells[0]
    assert cell.verdict == "consistent"
    refused = cell.search.neighbourhood.params["refused"]
    assert {"a punctuation mark", "a special token"} <= {*refused}
    assert "an unknown word" not in refused


def test_a_claim_that_counting_cannot_decide_is_undecided():
    with pytest.raises(UndecidedError, match="ε = 8") as found:
        cell_of(RIGHT, "randomised response at a large ε", trials=500)
    assert found.value.record.cells[0].verdict == "inconclusive"


SPECS = Path(__file__).parents[1] / "specs"


@pytest.mark.parametrize("draws", [1_500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_spec_finds_the_program_that_passes_unknown_words(draws):
    record = dpframe.audit(
        SPECS / "search-rewriters.toml",
        plugins=[SPECS / "rewriters.py"],
        overrides=[f"audit.trials={draws}", "audit.confidence=0.999999"],
    )
    assert [cell.verdict for cell in record.cells] == ["consistent", "violated"]


# Honest mistakes: each is named, or judged as it was meant.


def drawn(rng, text):
    return adapters.each(adapters.kept_or_drawn)(1.0)(rng, text)


def none(text):
    drawn(None, "")


def fails(text):
    return {"the": 1}[text]


def needs_more(text, epsilon, words):
    return text


SLIPS = {
    "no return": (none, {}, "returned None .* forgot `return`"),
    "always raises": (fails, {}, r"raised .* KeyError: .* at test_audit_text\.py:\d+"),
    "a number": (len, {}, r"rewrite returned \d+.* return a text"),
    "more arguments": (needs_more, {}, "takes text, epsilon, words; .*functools.partial"),
    "swapped": (lambda text, rng: text, {}, "swap them"),
    "no function": ("the cat", {}, "is not a function"),
    "no texts": (drawn, {"texts": []}, "texts: give at least one"),
    "one text": (drawn, {"texts": "the cat"}, "texts: should be a list"),
    "empty texts": (drawn, {"texts": ["", " "]}, "all of them are empty"),
    "mixed texts": (drawn, {"texts": ["the", ["the"]]}, "some are strings"),
    "other words": (drawn, {"texts": ["the zebra"]}, "texts: 'zebra' is not in the vocabulary; "),
    "other case": (drawn, {"texts": ["The cat"], "vocabulary": ["the", "cat"]}, "in lower case"),
    "two words": (drawn, {"vocabulary": [*WORDS.words, "new york"]}, "'new york' is not one word"),
    "no embedding": (drawn, {"metric": "euclidean"}, "needs an embedding"),
    "no metric": (drawn, {"metric": "cosine"}, "metric: 'cosine' is not"),
    "add and measure": (
        drawn,
        {"metric": "euclidean", "embedding": WORDS, "adjacency": "add-remove"},
        'needs adjacency="replace"',
    ),
    "add whole texts": (
        drawn,
        {"unit": "text", "adjacency": "add-remove"},
        "no relation|not a rel",
    ),
    "negative": (drawn, {"metric": lambda x, y: -1.0}, r"metric: <lambda>\('.*\) is -1"),
    "not 0": (drawn, {"metric": lambda x, y: 1.0}, "is 1, not 0"),
    "not symmetric": (drawn, {"metric": lambda x, y: float(x > y)}, "and .* back"),
    "raises": (drawn, {"metric": lambda x, y: {}[x]}, "raised KeyError"),
    "ε": (drawn, {"epsilon": -1.0}, "epsilon: -1.0 is not"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_named(slip):
    rewrite, more, message = SLIPS[slip]
    arguments = {"texts": TEXTS, "vocabulary": WORDS.words, "epsilon": 1.0, "trials": 500, **more}
    with pytest.raises(DpframeError, match=message):
        audit_text(rewrite, **arguments)


@pytest.mark.parametrize(("largest", "verdict"), [(100.0, "consistent"), (400.0, "violated")])
def test_a_large_claim_is_decided_by_stated_choices(largest, verdict):
    words = ["ant", "bee", "cat"]

    def choices(text):
        logits = [np.where(np.array(words) == word, largest, 0.0) / 2 for word in text.split()]
        return [dict(zip(words, x - np.logaddexp.reduce(x), strict=True)) for x in logits]

    def rewrite(rng, text):
        return " ".join(rng.choice(list(p), p=np.exp(list(p.values()))) for p in choices(text))

    record = audit_text(rewrite, ["ant bee cat"], epsilon=100.0, choices=choices, trials=200)
    (cell,) = record.cells
    assert cell.stated.verdict == verdict
    assert cell.stated.loss == pytest.approx(largest / 2)


def test_a_squared_distance_is_named():
    def squared(one, other):
        return WORDS.distance(one, other) ** 2

    with pytest.warns(UserWarning, match="by way of .* the square of one"):
        audit_text(drawn, TEXTS, vocabulary=WORDS, metric=squared, epsilon=1.0, trials=400)


def test_words_with_one_vector_must_be_indistinguishable():
    vectors = {"a": [0.0], "b": [0.0], "c": [30.0], "d": [31.0]}
    arguments = {"embedding": vectors, "metric": "euclidean", "epsilon": 1.0, "trials": 1_500}
    cell = audit_text(lambda text: text, ["a c", "b d"], **arguments).cells[0]
    assert cell.verdict == "violated"
    assert cell.claim.epsilon == cell.pair.params["apart"] <= 1.0
    assert "texts at a claim ε·d above 16" in cell.search.coverage.untried


def test_equal_answers_decide_nothing():
    with pytest.raises(UndecidedError, match="no verdict: "):
        audit_text(lambda text: "the", TEXTS, epsilon=1.0, trials=500)


@pytest.mark.parametrize("rewrite", [lambda text: text, lambda text: text.split()])
def test_a_function_that_returns_its_input_violates_any_claim(rewrite):
    cell = audit_text(rewrite, TEXTS, epsilon=2.0, trials=2_000).cells[0]
    assert cell.verdict == "violated"


def test_an_exception_on_a_word_of_the_vocabulary_is_an_answer():
    def rewrite(rng, text):
        if WORDS.words[20] in text.split():
            raise RuntimeError("no")
        return drawn(rng, text)

    cell = audit_text(rewrite, TEXTS, vocabulary=WORDS.words, epsilon=1.0, trials=2_000).cells[0]
    assert cell.verdict == "violated"
    assert "raises RuntimeError" in cell.search.event
    assert not cell.pair.needs


def test_a_function_may_have_the_name_of_a_built_in_mechanism():
    def laplace(text):
        return text

    cell = audit_text(laplace, TEXTS, epsilon=1.0, trials=1_500).cells[0]
    assert (cell.verdict, cell.mechanism.label) == ("violated", "laplace")


def test_the_package_offers_the_function_alone():
    package = importlib.import_module("dpframe_text")
    assert package.audit_text is sys.modules["dpframe_text.audit"].audit_text
    with pytest.raises(AttributeError):
        package.audit_texts  # noqa: B018
