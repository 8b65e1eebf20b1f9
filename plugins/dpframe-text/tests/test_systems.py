"""DPText and ADePT, from sentence to sentence."""

from pathlib import Path

import numpy as np
import pytest
from dpframe_text import systems
from dpframe_text.sentences import (
    LENGTH,
    TEMPLATES,
    SentencePairs,
    Sentences,
    all_sentences,
    text,
    tokens,
    vocabulary,
)
from dpframe_text.systems import ADePTSystem, DPTextSystem, TokenOdds

import dpframe
from dpframe.testing import check_attack, check_mechanism, check_neighbourhood, check_pair

RIGHT = [DPTextSystem(), ADePTSystem()]
WRONG = [
    DPTextSystem(mistake="nan-zero"),
    DPTextSystem(mistake="nan-redrawn"),
    ADePTSystem(mistake="one-dimension"),
    ADePTSystem(mistake="one-dimension", clip="coordinates"),
]
ENOUGH = {"DPText": 5.0, "norm": 1.1, "coordinates": 4.0}  # certified by few draws


def audited(mechanism, seed=0, trials=60_000):
    spec = {
        "schema": 1,
        "audit": {"name": "systems", "seed": seed, "trials": trials, "confidence": 0.999999},
        "pair": {"use": "sentences"},
        "mechanism": [{"use": mechanism.name, "params": params(mechanism)}],
        "attack": [{"use": "token-odds"}],
        "estimator": [{"use": "order-statistics"}],
    }
    (cell,) = dpframe.audit(spec).cells
    return cell


def params(mechanism):
    names = ("mistake", "clip") if isinstance(mechanism, ADePTSystem) else ("mistake",)
    return {name: getattr(mechanism, name) for name in names}


@pytest.mark.parametrize("mechanism", [*RIGHT, *WRONG], ids=repr)
def test_a_system_keeps_its_promises(mechanism):
    check_mechanism(mechanism, Sentences())


def test_the_other_plugins_keep_their_promises():
    check_attack(TokenOdds(), DPTextSystem(), Sentences())
    check_pair(Sentences())
    check_neighbourhood(SentencePairs())


@pytest.mark.parametrize("mechanism", WRONG, ids=repr)
def test_a_violation_shows_in_rewritten_sentences(mechanism):
    cell = audited(mechanism)
    kind = "DPText" if isinstance(mechanism, DPTextSystem) else mechanism.clip
    assert cell.verdict == "violated"
    assert cell.estimate.epsilon_lower > ENOUGH[kind]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mechanism", RIGHT, ids=repr)
def test_correct_noise_is_not_accused(mechanism, seed):
    # At confidence 1 − 1e-6 a false alarm has probability 1e-6.
    cell = audited(mechanism, seed)
    assert (cell.status, cell.verdict) == ("ok", "consistent")


@pytest.mark.parametrize("bounding", ["coordinates", "norm"])
def test_the_autoencoder_returns_sentences_and_bounds_codes(bounding):
    weights = systems.autoencoder(16, bounding)
    rows = np.array([tokens(sentence) for sentence in all_sentences()])
    codes = np.asarray(systems.encode(weights, rows, bounding))
    again = np.asarray(systems.decode(weights, codes))
    assert (again == rows).all(axis=1).mean() > 0.95
    order = np.inf if bounding == "coordinates" else 2
    assert np.linalg.norm(codes, order, axis=1).max() <= 1 + 1e-6


def test_training_is_reproducible():
    first = systems.autoencoder(16, "norm")
    systems._autoencoder.cache_clear()
    for one, other in zip(first, systems.autoencoder(16, "norm"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_noise_has_the_scale_that_each_claim_would_need():
    shape, key = (20_000, 4), systems.jax.random.key(0)

    def scale(mechanism):
        return float(np.abs(mechanism.noise(key, shape, np.float32)).mean())

    # Means of 80,000 exponential variables; 2.5 % is seven standard deviations.
    sizes = {
        DPTextSystem(dimensions=4, epsilon=0.5): 16,
        DPTextSystem(dimensions=4, epsilon=0.5, mistake="nan-zero"): 8,
        DPTextSystem(dimensions=4, epsilon=0.5, mistake="nan-redrawn"): 16,
        ADePTSystem(dimensions=4, epsilon=0.5): 8,
        ADePTSystem(dimensions=4, epsilon=0.5, mistake="one-dimension"): 4,
        ADePTSystem(dimensions=4, epsilon=0.5, clip="coordinates"): 16,
    }
    for mechanism, size in sizes.items():
        assert scale(mechanism) == pytest.approx(size, rel=0.025), mechanism


def test_much_epsilon_returns_the_sentence():
    (same,) = set(DPTextSystem(epsilon=1e4).rewrite(Sentences().first, 5))
    assert same == Sentences().first


def test_sentences_survive_their_numbers():
    sentences = all_sentences()
    assert len(TEMPLATES) >= 30
    assert len(sentences) == len(set(sentences)) > 3000
    assert all(text(tokens(sentence)) == sentence for sentence in sentences[::50])
    assert max(map(len, map(str.split, sentences))) == LENGTH
    assert vocabulary()[0] == ""


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"first": "carol eats"}, "unknown words: eats"),
        ({"first": "the " * 8}, "has 8 words; the limit is 7"),
        ({"first": "play jazz", "second": "play jazz"}, "the same sentence"),
    ],
)
def test_a_pair_of_no_use_is_refused(params, words):
    with pytest.raises(ValueError, match=words):
        Sentences(**params).check()


def test_a_search_proposes_new_pairs_and_changes_the_best():
    rng = np.random.default_rng(0)
    proposer = SentencePairs(batch=8)
    first = proposer.propose(rng, [])
    history = [dpframe.Earned(pair, 100, growth) for growth, pair in enumerate(first)]
    second = proposer.propose(rng, history)
    best = {first[-1].first, first[-1].second}
    assert any(best & {pair.first, pair.second} for pair in second)
    both = [frozenset({pair.first, pair.second}) for pair in [*first, *second]]
    assert len(set(both)) == len(both)


SPEC = Path(__file__).parents[1] / "specs" / "systems.toml"


def test_the_spec_runs_small():
    """No violation is reported for a true claim."""
    draws = [f"{key}=20000" for key in ("audit.trials", "run.fit", "run.pilot")]
    record = dpframe.audit(SPEC, overrides=[*draws, "audit.confidence=0.999999"])
    assert len(record.cells) == 6
    for cell in record.cells:
        assert cell.status == "ok", cell.reason
        assert cell.expected == "violated" or cell.verdict == "consistent", cell.mechanism
