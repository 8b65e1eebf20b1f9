"""Example mechanisms of DP-Auditorium at ε = 1, six sparse vectors and two means, with their laws.

They are as in python/dp_auditorium of github.com/google/differential-privacy, commit b5b0286e.
Sparse vectors have the queries and the threshold of its tests, ½ and the last two of the records
(0, 1) and (0, 1, 0), and stop after one answer above. Means are those of (0) and (0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from bench import CONFIDENCE, measured, methods
from bench_mechanisms import Case, laplace_below, of_laws

from dpframe.plugins import Floats, PureDP

EPSILON = 1.0
QUERIES = ((1.0, 1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
THRESHOLD = 0.5
NUMBERS = np.concatenate([[-np.inf], np.arange(-8.0, 9.0), [np.inf]])  # cells of noisy answers
RECORDS = ((1, 0.0), (2, 1.0))  # number and sum
MEANS = np.union1d(0.25 + 0.25 * np.sinh(np.linspace(-16, 16, 1201)), [0.0, 0.5])  # edges of cells
PANEL, REACH, RATIO = 0.5, 30.0, 1.3
METHODS = (
    *("betting", "histogram-split"),
    *("auditorium-histogram", "auditorium-mmd", "auditorium-renyi"),
)
AUDITS, DOUBLINGS = 5, 10


class Technique(NamedTuple):
    """A sparse vector, by the scales of its noise × ε."""

    threshold: float
    answer: float
    numeric: bool = False  # True if it releases the noisy answer above the threshold


class Kind(NamedTuple):
    """A mean with noise of scale 1/(n ε), or 2/(n ε) if the n there has noise of scale 2/ε."""

    noisy_scale: bool = False


TECHNIQUES = {
    "SVT1": Technique(2, 4),
    "SVT2": Technique(2, 4),
    "SVT3": Technique(2, 2, numeric=True),
    "SVT4": Technique(4, 4 / 3),
    "SVT5": Technique(2, 0),
    "SVT6": Technique(2, 2),
}
KINDS = {
    "non_private_mean_v1": Kind(),
    "non_private_mean_v2": Kind(noisy_scale=True),
}


def nodes(edges: Floats) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on panels with these edges."""
    at, weight = np.polynomial.legendre.leggauss(8)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    return (middle + half * at).ravel(), (half * weight).ravel()


def density(z: Floats) -> Floats:
    """Return the density of Laplace noise of scale 1."""
    return np.asarray(np.exp(-np.abs(z)) / 2)


def in_cells(below: Floats, total: float) -> Floats:
    """Return the probabilities of cells from those below their edges."""
    return np.diff(below, prepend=0.0, append=total)


def sparse_vector_law(technique: Technique, answers: tuple[float, ...]) -> Floats:
    """Return the probabilities of each first answer above, with cells of its number, and of none.

    They are integrals over the noise of the threshold. Kinks are multiples of ½.
    """
    scale = technique.threshold / EPSILON
    noise, weights = nodes(np.arange(-REACH * scale, REACH * scale + PANEL / 2, PANEL))
    path, parts = weights * density(noise / scale) / scale, []
    for answer in answers:
        below = answer_below(technique, THRESHOLD + noise - answer)
        above = [1 - below]
        if technique.numeric:
            reached = np.maximum(NUMBERS[:, None], THRESHOLD + noise) - answer
            above = list(np.diff(answer_below(technique, reached), axis=0))
        parts += [path @ part for part in above]
        path = path * below
    return np.array([*parts, path.sum()])


def answer_below(technique: Technique, x: Floats) -> Floats:
    """Return the distribution function of the noise of an answer."""
    scale = technique.answer / EPSILON
    return laplace_below(x, scale) if scale else np.where(x > 0, 1.0, 0.0)


def mean_law(kind: Kind, records: int, total: float) -> Floats:
    """Return the probabilities of the cells of MEANS, of exactly 0, and of exactly ½.

    With a noisy count, u = n ε/2 is its expectation plus Z, and noise of scale 1 is divided by u.
    A scale below 1e-12 becomes 1e-12, so hardly any noise is left if u is negative.
    """
    mean = total / records
    if not kind.noisy_scale:
        law = in_cells(laplace_below((MEANS - mean) * records * EPSILON, 1.0), 1.0)
        return np.append(law, [0.0, 0.0])
    expected = records * EPSILON / 2
    panels = 1e-9 * RATIO ** np.arange(math.ceil(math.log(2e9 * REACH, RATIO)))
    u, weights = nodes(np.union1d(np.append(0.0, panels), expected))
    weights = weights * density(u - expected)
    law = in_cells(laplace_below((MEANS[:, None] - mean) * u, 1.0) @ weights, weights.sum())
    atoms = np.zeros(2)
    atoms[int(mean != 0)] = float(laplace_below(np.array(-expected), 1.0))
    return np.append(law, atoms)


def cases() -> Iterator[Case]:
    """Yield the mechanisms, each with the claim ε = 1."""
    for name, technique in TECHNIQUES.items():
        zero, one = (sparse_vector_law(technique, answers) for answers in QUERIES)
        yield of_laws(name, PureDP(EPSILON), zero, one)
    for name, kind in KINDS.items():
        zero, one = (mean_law(kind, *records) for records in RECORDS)
        yield of_laws(name, PureDP(EPSILON), zero, one)


def rows(stated: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a table: stated and exact loss, optimum, draws until methods refute."""
    yield ("mechanism", "stated", "loss", "optimum", *METHODS)
    known = methods(())
    for case in cases():
        optimum = "" if case.right else f"{case.optimum(CONFIDENCE):.0f}"
        found = [measured(case, known[method], AUDITS, DOUBLINGS) for method in METHODS]
        shown = [f"{row['alarms']} alarms" if case.right else row["draws"] or "–" for row in found]
        yield (case.name, stated.get(case.name, "1"), f"{case.truth:.3g}", optimum, *shown)
