"""Rewriting functions of a few lines, written as packages write them, right and wrong.

A function is made for a claimed ε; those with noise in an embedding claim ε·d.
"""

import functools

import numpy as np
from dpframe_text.vocabulary import Vocabulary

WORDS = Vocabulary.toy(40)
TEXTS = [" ".join(WORDS.words[at : at + 4]) for at in (0, 5, 30)]
STOP = frozenset(WORDS.words[:3])


def nearest(point):
    return WORDS.words[int(np.argmin(np.linalg.norm(WORDS.vectors - point, axis=1)))]


def spherical(rng, epsilon):
    """Draw noise with a density proportional to e^(−ε‖z‖)."""
    size = WORDS.vectors.shape[1]
    direction = rng.normal(size=size)
    return direction / np.linalg.norm(direction) * rng.gamma(size, 1 / epsilon)


def any_word(rng):
    return WORDS.words[rng.integers(len(WORDS))]


def kept_or_drawn(rng, epsilon, word):
    """Return a word or any other: k-ary randomised response."""
    keep = np.exp(epsilon) / (np.exp(epsilon) + len(WORDS) - 1)
    if word in WORDS and rng.random() < keep:
        return word
    others = [other for other in WORDS.words if other != word]
    return others[rng.integers(len(others))]


@functools.cache
def shares(epsilon, word):
    """Return the distribution of the exponential mechanism with score −d."""
    weights = np.exp(-epsilon / 2 * np.linalg.norm(WORDS.vectors - WORDS.vector(word), axis=1))
    return np.cumsum(weights / weights.sum())


def drawn(rng, epsilon, word):
    """Draw a word by the exponential mechanism, which claims ε·d."""
    if word not in WORDS:
        return any_word(rng)
    at = int(np.searchsorted(shares(epsilon, word), rng.random()))
    return WORDS.words[min(at, len(WORDS) - 1)]


def each(rewrite_word):
    """Return a factory of functions that rewrite word by word."""

    def made(epsilon):
        def rewrite(rng, text):
            return " ".join(rewrite_word(rng, epsilon, word) for word in text.split())

        return rewrite

    return made


def noisy(noise, unknown=lambda rng, word: any_word(rng)):
    """Return the rewriting of a word by the one nearest to its vector plus noise."""

    def rewrite_word(rng, epsilon, word):
        if word not in WORDS:
            return unknown(rng, word)
        return nearest(WORDS.vector(word) + noise(rng, epsilon))

    return rewrite_word


# Right ones.


def refuse(rng, word):
    raise KeyError(word)


def bag(epsilon):
    """Return four words, each kept or drawn from one of the text with ε/4; claims ε for a text."""

    def rewrite(rng, text):
        words = [*text.split(), "", "", "", ""][:4]
        return [kept_or_drawn(rng, epsilon / 4, word) for word in words]

    return rewrite


def nothing_of_it(epsilon):
    def rewrite(rng, text):
        return " ".join(any_word(rng) for _ in range(5))

    return rewrite


def as_list(epsilon):
    def rewrite(rng, words):
        for at, word in enumerate(words):  # in place
            words[at] = kept_or_drawn(rng, epsilon, word)
        return words

    return rewrite


def lower_case(rng, epsilon, word):
    return kept_or_drawn(rng, epsilon, word.lower())


def by_laplace_sum(rng, epsilon):
    """Draw Laplace noise for the l1 distance, which is at most √d times the Euclidean one."""
    size = WORDS.vectors.shape[1]
    return rng.laplace(scale=np.sqrt(size) / epsilon, size=size)


def gumbel(rng, epsilon, word):
    """Return the largest of the scores −ε·d/2 plus Gumbel noise."""
    if word not in WORDS:
        return any_word(rng)
    scores = -epsilon / 2 * np.linalg.norm(WORDS.vectors - WORDS.vector(word), axis=1)
    return WORDS.words[int(np.argmax(scores + rng.gumbel(size=len(WORDS))))]


PLAIN = {"vocabulary": WORDS.words}
METRIC = {"embedding": WORDS, "metric": "euclidean"}
WHOLE = {"vocabulary": WORDS.words, "unit": "text"}

RIGHT = {
    "randomised response": (each(kept_or_drawn), 1.0, PLAIN),
    "randomised response at a large ε": (each(kept_or_drawn), 8.0, PLAIN),
    "in lower case": (each(lower_case), 2.0, PLAIN),
    "lists in place": (as_list, 1.0, PLAIN),
    "spherical noise": (each(noisy(spherical)), 0.8, METRIC),
    "spherical noise that refuses unknown words": (each(noisy(spherical, refuse)), 1.0, METRIC),
    "Laplace noise for l1": (each(noisy(by_laplace_sum)), 1.0, METRIC),
    "the exponential mechanism": (each(drawn), 1.0, METRIC),
    "Gumbel noise": (each(gumbel), 0.5, METRIC),
    "four words": (bag, 2.0, WHOLE),
    "nothing of the text": (nothing_of_it, 0.1, WHOLE),
}
"""A factory, the claimed ε, and the other arguments of an audit."""


# Wrong ones.


def passes(rng, epsilon, word):
    return kept_or_drawn(rng, epsilon, word) if word in WORDS else word


def passes_capitals(rng, epsilon, word):
    made = kept_or_drawn(rng, epsilon, word.lower())
    return made.capitalize() if word[:1].isupper() else made


def keeps_stop_words(rng, epsilon, word):
    return word if word in STOP else kept_or_drawn(rng, epsilon, word)


def twice(rng, epsilon, word):
    """Draw by the exponential mechanism without its factor 1/2."""
    return drawn(rng, 2 * epsilon, word)


def gaussian(rng, epsilon):
    return rng.normal(scale=1 / epsilon, size=WORDS.vectors.shape[1])


def cubic(rng, epsilon):
    return rng.laplace(scale=1 / epsilon, size=WORDS.vectors.shape[1])


def inverse(rng, epsilon):
    return spherical(rng, 1 / epsilon)


def among_nearest(rng, epsilon, word):
    """Draw one of the four nearest words, as packages do to save time."""
    if word not in WORDS:
        return any_word(rng)
    near = (word, *WORDS.nearest(word, 3))
    weights = np.exp(-epsilon / 2 * np.array([WORDS.distance(word, one) for one in near]))
    return near[int(rng.choice(4, p=weights / weights.sum()))]


def never_itself(rng, epsilon, word):
    made = word
    while made == word:
        made = kept_or_drawn(rng, epsilon, word)
    return made


def keeps_length(epsilon):
    """Rewrite a text with ε in all, but return as many words as it has."""

    def rewrite(rng, text):
        words = text.split()
        return [kept_or_drawn(rng, epsilon / max(1, len(words)), word) for word in words]

    return rewrite


def one_seed(epsilon):
    def rewrite(text):
        rng = np.random.default_rng(7)
        return " ".join(kept_or_drawn(rng, epsilon, word) for word in text.split())

    return rewrite


def remembers(epsilon):
    """Give equal words of a text the same answer."""

    def rewrite(rng, text):
        known = {word: kept_or_drawn(rng, epsilon, word) for word in dict.fromkeys(text.split())}
        return " ".join(known[word] for word in text.split())

    return rewrite


def per_word(epsilon):
    """Spend ε on each of four words, and claim ε for the text."""

    def rewrite(rng, text):
        words = [*text.split(), "", "", "", ""][:4]
        return [kept_or_drawn(rng, epsilon, word) for word in words]

    return rewrite


WRONG = {
    "passes unknown words": (each(passes), 8.0, PLAIN),
    "keeps capitals": (each(passes_capitals), 4.0, PLAIN),
    "keeps stop words": (each(keeps_stop_words), 5.0, PLAIN),
    "without 1/2": (each(twice), 0.5, METRIC),
    "Gaussian noise": (each(noisy(gaussian)), 1.0, METRIC),
    "Laplace noise by coordinate": (each(noisy(cubic)), 1.0, METRIC),
    "noise of scale ε": (each(noisy(inverse)), 0.3, METRIC),
    "only the nearest words": (each(among_nearest), 1.0, METRIC),
    "never the word itself": (each(never_itself), 1.0, PLAIN),
    "as many words as the text": (keeps_length, 3.0, WHOLE),
    "one seed": (one_seed, 3.0, PLAIN),
    "equal words alike": (remembers, 1.0, PLAIN),
    "ε for each word": (per_word, 1.0, WHOLE),
}
