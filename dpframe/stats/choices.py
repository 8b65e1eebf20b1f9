"""Losses of stated distributions, and a test that outputs were drawn from them.

An output has places, whose outcomes are chosen independently. A distribution is an array of
log-probabilities for each place, over the same outcomes on both datasets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BINS = 16  # of equal probability, about, into which outcomes of a place are sorted
SIMULATIONS = 4999  # of the test's statistics, so that p-values are multiples of 1/5000
PLACES = 4  # neighbouring places of which the independence is tested, at most
MOST_LINKED = 200  # draws whose places are tested for independence
LARGEST = 700.0  # e^700 is finite in float64
GRID = 1 << 17  # cells of the grid of losses on which places are composed


def largest_loss(first: Sequence[Floats], second: Sequence[Floats]) -> float:
    """Return the smallest ε of which two distributions satisfy ε-DP.

    The largest ratio of a product is the product of the largest ratios of its places, which one
    output takes on. An outcome that is impossible under both does not count.

    Args:
        first: log-probabilities under D, an array [outcomes] for each place.
        second: those under D′.
    """
    ratios = [losses(a, b) for a, b in zip(first, second, strict=True)]
    return max(sum(float(x.max()) for x in ratios), sum(float(-x.min()) for x in ratios))


def delta_at(
    first: Sequence[Floats], second: Sequence[Floats], epsilons: Floats
) -> tuple[Floats, Floats]:
    """Return the smallest δ for which (ε, δ)-DP holds, as bounds from below and above.

    Of one place it is the sum of [P − e^ε Q]₊ in the worse direction, and both bounds are equal.
    For several places the losses are rounded, down and up, to multiples of a step, and their
    distributions are convolved [KoskelaJH2020, section 5].

    Args:
        first: log-probabilities under D, an array [outcomes] for each place.
        second: those under D′.
        epsilons: shape [k].

    Returns:
        Two arrays, shape [k].
    """
    below, above = np.zeros(len(epsilons)), np.zeros(len(epsilons))
    for one, other in ((first, second), (second, first)):
        places = [(np.exp(p), losses(p, q)) for p, q in zip(one, other, strict=True)]
        if len(places) == 1:
            low = high = _hockey_stick(*places[0], epsilons)
        else:
            low, high = (_composed(places, epsilons, rounded) for rounded in (np.floor, np.ceil))
        below, above = np.maximum(below, low), np.maximum(above, high)
    return below, above


def losses(p: Floats, q: Floats) -> Floats:
    """Return ln(P/Q) of each outcome from log-probabilities; 0 if both are impossible."""
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isneginf(p) & np.isneginf(q), 0.0, p - q)
    return np.asarray(ratios, np.float64)


def _hockey_stick(masses: Floats, ratios: Floats, epsilons: Floats) -> Floats:
    """Sum masses [1 − e^(ε − loss)]₊."""
    order = np.argsort(-ratios)
    masses, ratios = masses[order], ratios[order]
    number = np.searchsorted(-ratios, -epsilons)  # of losses above each ε
    whole = np.append(0.0, np.cumsum(masses))[number]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = np.append(0.0, np.cumsum(masses * np.exp(-np.maximum(ratios, -LARGEST))))[number]
        lost = np.where(scaled > 0, np.exp(epsilons + np.log(scaled)), 0.0)
    delta: Floats = np.clip(whole - lost, 0.0, 1.0)
    return delta


def _composed(places: list[tuple[Floats, Floats]], epsilons: Floats, rounded: np.ufunc) -> Floats:
    """Return δ(ε) of a product whose losses are rounded on a grid before they are added."""
    finite = [ratios[np.isfinite(ratios) & (masses > 0)] for masses, ratios in places]
    lows = [float(x.min(initial=0.0)) for x in finite]
    width = sum(float(x.max(initial=0.0)) - low for x, low in zip(finite, lows, strict=True))
    step = max(width, 1e-9) / (GRID - 2 * len(places))
    product, certain, start = np.ones(1), 1.0, 0.0
    for (masses, ratios), low in zip(places, lows, strict=True):
        used = np.isfinite(ratios) & (masses > 0)
        certain *= 1 - float(masses[np.isposinf(ratios)].sum())
        at = rounded((ratios[used] - low) / step).astype(np.int64)
        product = _convolved(product, np.bincount(at, masses[used]).astype(np.float64))
        start += low
    # Rounding of the transform is far below the masses that matter.
    sums = start + step * np.arange(len(product), dtype=np.float64)
    return np.clip(_hockey_stick(product, sums, epsilons) + (1 - certain), 0.0, 1.0)


def _convolved(one: Floats, other: Floats) -> Floats:
    size = len(one) + len(other) - 1
    length = 1 << (size - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(one, length) * np.fft.rfft(other, length), length)
    return np.asarray(np.maximum(product[:size], 0.0), np.float64)


def agreement(draws: Ints, stated: Sequence[Floats], rng: np.random.Generator) -> float:
    """Test that outputs were drawn from a stated distribution, and return a p-value.

    Outcomes of a place are sorted into bins by their stated probability. One statistic adds the
    squared deviations of counts from their expectation over the expectation, and is compared
    with simulated counts. Another adds the squared correlations of bins in neighbouring places,
    and is compared with permutations of each place. Both p-values are exact at any number of
    draws, as those of Monte Carlo tests are; the smaller one counts twice [Dwass1957].

    Args:
        draws: outcomes, shape [draws, places]; a negative one is not stated.
        stated: log-probabilities, an array [outcomes] for each place.
        rng: for the simulation.
    """
    if (draws < 0).any():
        return 0.0
    n = len(draws)
    found, simulated = 0.0, np.zeros(SIMULATIONS)
    binned = np.zeros(draws.shape)
    for place, logs in enumerate(stated):
        masses = np.exp(logs)
        if (masses[draws[:, place]] == 0).any():
            return 0.0
        order = np.argsort(-masses, kind="stable")
        before = np.cumsum(masses[order]) - masses[order]
        _, sorted_bins = np.unique(np.floor(before * BINS), return_inverse=True)
        bins = np.empty(len(masses), np.int64)
        bins[order] = sorted_bins
        chances = np.bincount(bins, masses)
        chances = chances / chances.sum()
        binned[:, place] = bins[draws[:, place]]
        possible = chances > 0
        expected = n * chances[possible]
        counts = np.bincount(bins[draws[:, place]], minlength=len(chances))[possible]
        others = rng.multinomial(n, chances[possible], SIMULATIONS)
        found += float(((counts - expected) ** 2 / expected).sum())
        simulated += ((others - expected) ** 2 / expected).sum(axis=1)
    p_value = _rank(found, simulated)
    if draws.shape[1] == 1:
        return p_value
    varied = binned[:, binned.std(axis=0) > 0][:, : PLACES + 1]
    if varied.shape[1] < 2:
        return p_value
    varied = varied[:MOST_LINKED]
    places = (varied - varied.mean(axis=0)) / np.maximum(varied.std(axis=0), 1e-9)
    shuffled = np.array([_linked(rng.permuted(places, axis=0)) for _ in range(SIMULATIONS)])
    return min(1.0, 2 * min(p_value, _rank(_linked(places), shuffled)))


def _linked(places: Floats) -> float:
    """Return the sum of the squared correlations of neighbouring places."""
    return float((np.mean(places[:, 1:] * places[:, :-1], axis=0) ** 2).sum())


def _rank(found: float, simulated: Floats) -> float:
    """Return the p-value of a Monte Carlo test; rounding does not make ties smaller."""
    least = found * (1 - 1e-9) - 1e-12
    return (1 + int((simulated >= least).sum())) / (1 + len(simulated))


def unnormalised(logs: Floats) -> float | None:
    """Return the sum of probabilities if it is not 1, up to the rounding of float32."""
    if np.isnan(logs).any() or not logs.size:
        return math.nan
    with np.errstate(over="ignore"):
        total = float(np.exp(np.minimum(logs, 700)).sum())
    return None if abs(total - 1) <= 1e-3 else total
