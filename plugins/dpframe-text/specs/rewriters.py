"""Rewriting programs: each word is kept or drawn from eight words, with a claim of ε."""

import math
import random

WORDS = ["the", "cat", "dog", "sat", "ran", "mat", "bird", "tree"]


def prepare(params, text):
    """Return a function that rewrites the text once."""
    keep = math.exp(params["epsilon"])
    keep /= keep + len(WORDS) - 1

    def rewrite_word(word):
        if word not in WORDS:  # by mistake, unknown words are released
            return word if params["variant"] == "passes" else random.choice(WORDS)
        if random.random() < keep:
            return word
        return random.choice([other for other in WORDS if other != word])

    return lambda: " ".join(map(rewrite_word, text.split()))
