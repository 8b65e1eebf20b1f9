"""Exact probabilities of the events in the logs of DP-Sniper and of StatDP.

Laws are those of dpframe-textbook. Left out are RAPPOR, whose hashes differ here, and sparse
vectors that release numbers.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import numpy as np
from bench_mechanisms import cells, laplace_below
from scipy import integrate

from dpframe.plugins import Floats, find_plugin

FINE, MOST = 1 / 200, 40.0  # cells of continuous outputs and their reach, in scales of the noise
SCALES = {
    **{"laplace": 10.0, "noisy-histogram-1": 10.0, "noisy-histogram-2": 0.1, "prefix-sum": 10.0},
    **{"laplace-parallel": 200.0, "report-noisy-max-3": 20.0, "report-noisy-max-4": 20.0},
}
COPIES = 20  # of the answer in laplace-parallel
FOR_STATDP = {"sparse-vector-5": {"epsilon": 0.05}}
STRICT = "sparse-vector-4"  # without noise, an answer at the threshold is not above it
THRESHOLD = 1.0
COUNTED = re.compile("sparse-vector-[12456]")


def mechanism(name: str, **params: Any) -> Any:
    """Return a mechanism of dpframe-textbook by its name in the tables."""
    if name == "truncated-geometric-natural":
        return find_plugin("mechanism", "truncated-geometric")(logarithm="natural")
    return find_plugin("mechanism", name)(**params)


def below(name: str, answers: Floats, x: Floats) -> Floats:
    """Return the distribution function of the largest answer with the noise of a mechanism."""
    gaps, scale = np.asarray(x)[..., None] - answers, SCALES[name]
    if name == "report-noisy-max-4":
        return np.asarray(np.prod(-np.expm1(-np.maximum(gaps, 0) / scale), axis=-1))
    return np.asarray(np.prod(laplace_below(gaps, scale), axis=-1))


def law(name: str, answers: Floats) -> Floats | None:
    """Return the probabilities of the outputs, or of fine cells of them; None if left out."""
    if name in ("laplace-parallel", "prefix-sum"):
        return None
    if name in SCALES:
        seen = (
            answers[:1] if name.startswith("noisy-histogram") else answers
        )  # the one that differs
        scale = SCALES[name]
        return cells(lambda x: below(name, seen, x), scale * FINE, scale * MOST)
    if name in ("report-noisy-max-1", "report-noisy-max-2"):
        return np.array(mechanism(name).truth(SimpleNamespace(d0=answers, d1=answers)).on_zero)
    if name == "truncated-geometric-natural":
        return np.asarray(mechanism(name).probabilities(float(answers[0])))
    return (
        np.asarray(mechanism(name).probabilities(answers)[1]) if COUNTED.fullmatch(name) else None
    )


def largest_share(zero: Floats, one: Floats, share: float) -> float:
    """Return the largest probability on `zero` of a test with this probability on `one`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(one > 0, zero / one, np.inf))
    power, level = (np.append(0.0, np.cumsum(part[order])) for part in (zero, one))
    return float(np.interp(share, level, power))


def share(row: dict[str, str], answers: Floats) -> float | None:
    """Return the probability of the event of StatDP on a dataset; None if left out."""
    name, feature, value = row["mechanism"], row["feature"], float(row["event"].split()[-1])
    if name == "prefix-sum":
        return sum_below(value - answers.sum(), SCALES[name], len(answers))
    if name in SCALES:
        copies = COPIES if name == "laplace-parallel" else 1
        seen = answers[:1] if feature == "number 0" and name.startswith("noisy") else answers
        return float(below(name, np.tile(seen, copies), np.array(value)))
    if COUNTED.fullmatch(name):
        outputs, chances = mechanism(name, **FOR_STATDP.get(name, {})).probabilities(answers)
        shown = [[int(one) for one in output if one >= 0] for output in outputs]
        expected = without_noise(name, np.array([float(x) for x in row["d0"].split()]))
        seen = [
            sum(a != b for a, b in zip_longest(output, expected))
            if feature == "hamming"
            else output.count(0)
            for output in shown
        ]
        return float(chances[np.array(seen) == value].sum())
    own = law(name, answers)
    return None if own is None else float(own[int(value)])


def without_noise(name: str, answers: Floats) -> list[int]:
    """Return the output of a sparse vector without noise."""
    above = (answers > THRESHOLD if name == STRICT else answers >= THRESHOLD).astype(int).tolist()
    stops = name in ("sparse-vector-1", "sparse-vector-2", "sparse-vector-4")
    return above[: above.index(1) + 1] if stops and 1 in above else above


def sum_below(x: float, scale: float, count: int) -> float:
    """Return the distribution function of a sum of Laplace noise, from its characteristic one."""

    def part(t: float) -> float:
        return np.sinc(t * x / scale / np.pi) * x / scale / (1 + t * t) ** count

    return 0.5 + integrate.quad(part, 0, 20, limit=200)[0] / np.pi
