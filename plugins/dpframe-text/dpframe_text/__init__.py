"""Text mechanisms for dpframe: rewriting functions, and the mechanisms of the literature."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Attack, HostMechanism, Mechanism, Neighbourhood, Pair
    from dpframe_text.audit import audit_text as audit_text

_HOME = {"audit_text": "audit"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism | HostMechanism]]:
    """Return rewriting programs, and text mechanisms from the literature."""
    from dpframe_text import embeddings, generation, noisy_words, replacement
    from dpframe_text.systems import ADePTSystem, DPTextSystem
    from dpframe_text.text_search import Rewriter

    return [
        Rewriter,
        DPTextSystem,
        ADePTSystem,
        replacement.SanText,
        replacement.SanTextPlus,
        replacement.CusText,
        replacement.TruncatedExponential,
        replacement.WordExponential,
        noisy_words.Mahalanobis,
        noisy_words.Vickrey,
        generation.DPPrompt,
        generation.DPMLM,
        generation.SyntheticTerms,
        embeddings.ClippedEmbedding,
        embeddings.DPBart,
        embeddings.VonMisesFisher,
    ]


@hookimpl
def dpframe_attacks() -> list[type[Attack]]:
    """Return the attacks on rewritten texts: as texts, and as token numbers."""
    from dpframe_text.systems import TokenOdds
    from dpframe_text.text_attack import TextFeatures

    return [TextFeatures, TokenOdds]


@hookimpl
def dpframe_pairs() -> list[type[Pair]]:
    """Return the pairs of two texts, and of two sentences as token numbers."""
    from dpframe_text.sentences import Sentences
    from dpframe_text.text_pairs import TextPair

    return [TextPair, Sentences]


@hookimpl
def dpframe_neighbourhoods() -> list[type[Neighbourhood]]:
    """Return the neighbourhoods of texts, of sentences, and of texts as numbers of words."""
    from dpframe_text.sentences import SentencePairs
    from dpframe_text.text_search import Texts
    from dpframe_text.word_numbers import WordNumbers

    return [Texts, SentencePairs, WordNumbers]
