"""The mechanisms of the literature: promises, exact losses, and draws against naive oracles."""

import itertools
from typing import get_args, get_type_hints

import jax
import numpy as np
import pytest
from dpframe_text import embeddings, generation, noisy_words, replacement
from dpframe_text.choices import WordChoices, largest_loss
from dpframe_text.vocabulary import Vocabulary
from dpframe_text.word_numbers import WordNumbers
from scipy import special, stats

from dpframe.plugins import Values
from dpframe.testing import check_mechanism, check_neighbourhood

MECHANISMS = [
    *(replacement.SanText, replacement.SanTextPlus, replacement.CusText),
    *(replacement.TruncatedExponential, replacement.WordExponential),
    *(noisy_words.Mahalanobis, noisy_words.Vickrey),
    *(generation.DPPrompt, generation.DPMLM, generation.SyntheticTerms),
    *(embeddings.ClippedEmbedding, embeddings.DPBart, embeddings.VonMisesFisher),
]
ERROR = 1e-6
ROWS, ORACLE_ROWS = 60_000, 6_000
TEXTS = (generation.ClippedLogits, generation.SyntheticTerms)
VECTORS = {"clipped-embedding", "dp-bart", "von-mises-fisher"}
TABLE = Vocabulary.toy(60)


def pair(zero, one):
    return Values(d0=np.array(zero, float), d1=np.array(one, float), adjacency="any")


def typical(cls):
    if cls.name in VECTORS:
        return pair([0.5, 2.0, -0.3], [-0.4, 0.1, 0.7])
    return pair([3.0, 7.0], [3.0, 8.0]) if issubclass(cls, TEXTS) else pair([17.0], [47.0])


def mistakes(cls):
    return get_args(get_type_hints(cls)["mistake"])


def variants(classes):
    return [
        pytest.param(cls, mistake, id=f"{cls.name}, {mistake}")
        for cls in classes
        for mistake in mistakes(cls)
    ]


@pytest.mark.parametrize("cls", MECHANISMS, ids=lambda cls: cls.name)
def test_a_mechanism_keeps_its_promises(cls):
    check_mechanism(cls(), typical(cls))


@pytest.mark.parametrize("cls", MECHANISMS, ids=lambda cls: cls.name)
def test_a_mechanism_says_where_it_is_from_and_whether_its_claim_is_true(cls):
    assert "[" in cls.__doc__
    assert "Claim: " in cls.__doc__
    assert "true" in cls.__doc__
    assert "wrong" in cls.__doc__


@pytest.mark.parametrize(
    "neighbourhood",
    [
        WordNumbers(),
        WordNumbers(length=3, change="one-word"),
        WordNumbers(words=30, length=2, shorter=True),
    ],
)
def test_the_neighbourhood_keeps_its_promises(neighbourhood):
    check_neighbourhood(neighbourhood)


LARGEST = [  # the largest loss over the claim; the README has these numbers
    (replacement.SanText, 1.0, [0.613, 1.111, 13.499, 7.496, 0.881]),
    (replacement.SanTextPlus, 1.0, [0.614, np.inf]),
    (replacement.CusText, 1.0, [0.669, 1.331, 7.360, np.inf, np.inf]),
    (replacement.TruncatedExponential, 1.0, [0.571, 1.104, 2.950, np.inf]),
    (replacement.WordExponential, 2.0, [0.629, 1.244, np.inf]),
    (generation.DPPrompt, 2.0, [0.792, 7.777, 1.572, np.inf, np.inf, 1.572, np.inf]),
    (generation.DPMLM, 2.0, [0.745, 6.836, 1.499, np.inf]),
    (generation.SyntheticTerms, 4.0, [0.534, 1.606, np.inf]),
]
LENGTHS = {
    "dp-prompt": {"length": 2, "shorter": True},
    "dp-mlm": {"length": 3},
    "synthetic-terms": {"length": 3, "shorter": True},
}


def pairs_of(cls):
    """Return all pairs of 60 words, or 200 pairs of short texts of 30 words."""
    if cls.name not in LENGTHS:
        return [pair([a], [b]) for a, b in itertools.combinations(range(60), 2)]
    neighbourhood = WordNumbers(words=30, batch=200, **LENGTHS[cls.name])
    return neighbourhood.propose(np.random.default_rng(0), [])


def worst_share(mechanism):
    """Return the largest loss over the claim."""
    pairs = pairs_of(type(mechanism))
    claimed = ((mechanism.claim(one), one) for one in pairs)
    return max(largest_loss(mechanism, one) / claim.epsilon for claim, one in claimed if claim)


@pytest.mark.parametrize(
    ("cls", "epsilon", "shares"), LARGEST, ids=lambda v: getattr(v, "name", "")
)
def test_the_largest_loss_over_the_claim(cls, epsilon, shares):
    found = [worst_share(cls(epsilon=epsilon, mistake=name)) for name in mistakes(cls)]
    assert found == pytest.approx(shares, abs=6e-4)


@pytest.mark.parametrize("epsilon", [0.1, 8.0])
@pytest.mark.parametrize("cls", [cls for cls, *_ in LARGEST], ids=lambda cls: cls.name)
def test_a_true_claim_holds_for_all_pairs(cls, epsilon):
    assert worst_share(cls(epsilon=epsilon)) < 1


def test_the_exact_loss_of_texts_is_that_of_all_outputs():
    mechanism, both = generation.DPPrompt(), pair([3.0, 7.0], [9.0, -1.0])
    zero, one = (mechanism.log_probabilities(data) for data in (both.d0, both.d1))
    joint = [np.add.outer(*logs) for logs in (zero, one)]
    assert largest_loss(mechanism, both) == pytest.approx(np.abs(joint[0] - joint[1]).max())


def test_a_word_has_the_curve_of_its_probabilities():
    mechanism, both = replacement.SanText(), pair([17.0], [47.0])
    assert mechanism.truth(both).epsilon_at(0.0) == pytest.approx(largest_loss(mechanism, both))
    assert generation.DPPrompt().truth(pair([1, 2], [1, 3])) is None


def test_gaussian_noise_loses_exactly_what_it_claims():
    opposite = pair([5.0, 5.0, 5.0], [-5.0, -5.0, -5.0])
    right = embeddings.DPBart(epsilon=2.0, delta=1e-3).resolve(opposite)
    assert right.truth(opposite).epsilon_at(1e-3) == pytest.approx(2.0)
    wrong = embeddings.DPBart(epsilon=8.0, delta=0.1, mistake="classical").resolve(opposite)
    assert wrong.truth(opposite).delta_at(8.0) == pytest.approx(0.230, abs=0.01)


# Draws against naive oracles, which make one output at a time, as the papers describe them.


def softmax(logits):
    return special.softmax(np.asarray(logits, float), axis=-1)


def santext(rng, word, epsilon):
    return [rng.choice(60, p=softmax(-epsilon / 2 * TABLE.distances[int(word[0])]))]


def santext_plus(rng, word, epsilon, p):
    open_word = TABLE.topics[int(word[0])] in ("function", "numbers")
    if open_word and rng.uniform() > p:
        return [word[0]]
    sensitive = [k for k, topic in enumerate(TABLE.topics) if topic not in ("function", "numbers")]
    gaps = TABLE.distances[int(word[0])][sensitive]
    return [rng.choice(sensitive, p=softmax(-epsilon / 2 * gaps))]


def truncated(rng, word, epsilon, reach):
    """Sample the largest noisy score; the distant words together are one candidate."""
    gaps = TABLE.distances[int(word[0])]
    near, distant = np.flatnonzero(gaps <= reach), np.flatnonzero(gaps > reach)
    scores = np.append(-gaps[near], -reach + 2 * np.log(len(distant)) / epsilon)
    best = np.argmax(scores + rng.gumbel(scale=2 / epsilon, size=len(scores)))
    return [near[best] if best < len(near) else rng.choice(distant)]


def terms(rng, text, epsilon, reach):
    words, out = [int(word) for word in text if word >= 0], []
    for _ in text:
        scores = np.maximum(0, 1 - TABLE.distances[rng.choice(words)][:30] / reach)
        out.append(rng.choice(30, p=softmax(epsilon / len(text) / 2 * scores[:30])))
    return out


def paraphrase(rng, text, epsilon):
    logits = generation.language_model(np.asarray(text), 30, np)
    temperature = 2 * 4 * len(text) / epsilon
    return [rng.choice(30, p=softmax(np.clip(row, -2, 2) / temperature)) for row in logits]


def noise(rng, size, epsilon, degrees):
    towards = rng.normal(size=size)
    return towards / np.linalg.norm(towards) * rng.gamma(degrees) / epsilon


def mahalanobis(rng, word, epsilon, degrees, power):
    covariance = np.cov(TABLE.vectors.T)
    values, axes = np.linalg.eigh(covariance * 5 / np.trace(covariance))
    z = axes @ (values**power * (axes.T @ noise(rng, 5, epsilon, degrees)))
    return [np.argmin(np.linalg.norm(TABLE.vectors - TABLE.vectors[int(word[0])] - z, axis=1))]


def vickrey(rng, word, epsilon, itself):
    noisy = TABLE.vectors[int(word[0])] + noise(rng, 5, epsilon, 5)
    gaps = np.linalg.norm(TABLE.vectors - noisy, axis=1)
    if not itself:
        gaps[int(word[0])] = np.inf
    first, second = np.argsort(gaps)[:2]
    return [first if rng.uniform() < gaps[second] / (gaps[first] + gaps[second]) else second]


def embedding(rng, vector, scale, late):
    added = rng.laplace(scale=scale, size=3)
    clipped = np.asarray(vector) + (added if late else 0.0)
    clipped = clipped / max(1.0, np.linalg.norm(clipped))
    return clipped if late else clipped + added


def on_sphere(rng, vector, rate):
    """Sample by rejection from the uniform law on the sphere."""
    x = np.asarray(vector) / np.linalg.norm(vector)
    while True:
        y = rng.normal(size=3)
        y /= np.linalg.norm(y)
        if np.log(rng.uniform()) < rate * (x @ y - 1):
            return y


VECTOR, WORD = [0.5, 2.0, -0.3], [17.0]
CASES = [
    (replacement.SanText(), WORD, santext, (1.0,)),
    (replacement.SanText(mistake="no-half"), WORD, santext, (2.0,)),
    (replacement.SanTextPlus(p=0.3), [31.0], santext_plus, (1.0, 0.3)),
    (replacement.SanTextPlus(), WORD, santext_plus, (1.0, 0.5)),
    (replacement.TruncatedExponential(), WORD, truncated, (1.0, 6.0)),
    (generation.SyntheticTerms(), [4.0, 9.0, -1.0], terms, (4.0, 6.0)),
    (generation.DPPrompt(), [4.0, -1.0], paraphrase, (2.0,)),
    (noisy_words.Mahalanobis(), WORD, mahalanobis, (1.0, 5, 0.5)),
    (noisy_words.Mahalanobis(mistake="no-root"), WORD, mahalanobis, (1.0, 5, 1.0)),
    (noisy_words.Mahalanobis(mistake="exponential-length"), WORD, mahalanobis, (1.0, 1, 0.5)),
    (noisy_words.Vickrey(), WORD, vickrey, (1.0, True)),
    (noisy_words.Vickrey(mistake="never-itself"), WORD, vickrey, (1.0, False)),
    (embeddings.ClippedEmbedding(), VECTOR, embedding, (2 * 3**0.5, False)),
    (embeddings.ClippedEmbedding(mistake="l2-for-l1"), VECTOR, embedding, (2.0, False)),
    (embeddings.ClippedEmbedding(mistake="noise-first"), VECTOR, embedding, (2 * 3**0.5, True)),
    (embeddings.VonMisesFisher(), VECTOR, on_sphere, (1.0,)),
    (
        embeddings.VonMisesFisher(mistake="not-normalised"),
        VECTOR,
        on_sphere,
        (np.linalg.norm(VECTOR),),
    ),
]


@pytest.mark.parametrize(
    ("mechanism", "data", "oracle", "settings"),
    CASES,
    ids=lambda value: f"{value.name}, {value.mistake}" if hasattr(value, "mistake") else "",
)
def test_draws_agree_with_a_naive_oracle(mechanism, data, oracle, settings):
    """Compare each coordinate; all tests together reject a correct sampler with 1e-6."""
    rng = np.random.default_rng(5)
    naive = np.array([oracle(rng, data, *settings) for _ in range(ORACLE_ROWS)], float)
    drawn = sampled(mechanism, data)
    for one, other in zip(drawn.T, naive.T, strict=True):
        if mechanism.name in VECTORS:
            p_value = stats.ks_2samp(one, other).pvalue
        else:
            p_value = chi_square(one, other)
        assert p_value > ERROR / 3 / len(CASES)


def sampled(mechanism, data):
    key = jax.random.key(7)
    draw = jax.jit(lambda d: mechanism.sample(key, d, ROWS))
    return np.asarray(draw(np.asarray(data, np.float32)), np.float64)


def chi_square(one, other):
    table = np.stack([np.bincount(part.astype(int), minlength=61) for part in (one, other)])
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    common = expected.min(axis=0) >= 10
    table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


def test_the_comparison_with_an_oracle_sees_a_mistake():
    rng = np.random.default_rng(5)
    naive = np.array([santext(rng, WORD, 1.0) for _ in range(ORACLE_ROWS)])[:, 0]
    wrong = sampled(replacement.SanText(mistake="no-half"), WORD)[:, 0]
    assert chi_square(wrong, naive) < ERROR


@pytest.mark.parametrize(
    ("cls", "mistake"), variants(cls for cls in MECHANISMS if issubclass(cls, WordChoices))
)
def test_draws_have_the_probabilities_of_the_exact_loss(cls, mistake):
    """Compare each position by chi-square; all variants together reject with 1e-6."""
    mechanism, data = cls(mistake=mistake), np.asarray(typical(cls).d1)
    drawn = sampled(mechanism, data)
    for column, logs in zip(drawn.T, mechanism.log_probabilities(data), strict=True):
        expected = np.exp(logs) * ROWS
        counts = np.bincount(column.astype(int), minlength=len(logs))
        assert not counts[expected == 0].any()
        common = expected >= 10
        seen, due = (np.append(part[common], part[~common].sum()) for part in (counts, expected))
        statistic = ((seen - due)[due > 0] ** 2 / due[due > 0]).sum()
        assert stats.chi2.sf(statistic, max(common.sum(), 1)) > ERROR / 100
