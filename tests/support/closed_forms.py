"""Exact numbers, written with SciPy alone: what pages and specs say is compared with them.

Nothing here is dpframe's own, and where dpframe has a formula this integrates or enumerates.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from scipy import optimize, special, stats

PHI = stats.norm.cdf
QUANTILE = stats.norm.ppf


# --------------------------------------------------------------------------------------------------
# Gaussians, on a Poisson sample or not


def gaussian_total_variation(sigma: float, q: float = 1.0) -> float:
    """TV = q (2 Φ(1/(2σ)) − 1) of N(0, σ²) and (1 − q) N(0, σ²) + q N(1, σ²) (equation 5.1)."""
    return float(q * special.erf(1 / (math.sqrt(8) * sigma)))


def most_sensitive_order(sigma: float) -> float:
    """α* = e^{1/(2σ²)}, where the divergence of order α changes most with σ (Figure 7)."""
    return math.exp(1 / (2 * sigma**2))


def normal_density(x: np.ndarray, mean: float, sigma: float) -> np.ndarray:
    return np.exp(-(((x - mean) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))


@functools.cache
def legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [−1, 1]."""
    return np.polynomial.legendre.leggauss(nodes)


def integral(function, a: float, b: float, panels: int = 40) -> float:
    """By Gauss and Legendre, 20 nodes in each panel."""
    nodes, weights = legendre(20)
    edges = np.linspace(a, b, panels + 1)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    return float((function(x) * weights * half).sum())


def mixture_delta(epsilon: float, q: float, sigma: float, *, reverse: bool = False) -> float:
    """∫ [p − e^ε q]₊ for P = (1 − q) N(0, σ²) + q N(1, σ²) and Q = N(0, σ²), or exchanged.

    By quadrature from where the densities cross to where nothing is left.
    """
    growth = math.exp(epsilon)
    ratio = math.exp(-epsilon) if reverse else growth
    if ratio <= 1 - q:  # the ratio of densities is above 1 − q everywhere
        return 0.0 if reverse else 1 - growth
    t = 0.5 + sigma**2 * math.log((ratio - (1 - q)) / q)

    def excess(x: np.ndarray) -> np.ndarray:
        base, moved = normal_density(x, 0.0, sigma), normal_density(x, 1.0, sigma)
        mixed = (1 - q) * base + q * moved
        first, second = (base, mixed) if reverse else (mixed, base)
        return np.maximum(first - growth * second, 0.0)

    if reverse:
        return integral(excess, min(t, -10 * sigma) - 10 * sigma, t)
    return integral(excess, t, max(t, 1 + 10 * sigma) + 10 * sigma)


@functools.cache
def mixture_epsilon(delta: float, q: float, sigma: float) -> float:
    """ε(δ) of both directions; that with the mixture first is the larger one for ε ≥ 0."""
    return float(
        optimize.brentq(
            lambda e: math.log(max(mixture_delta(e, q, sigma), 1e-300) / delta), 0, 60, xtol=1e-9
        )
    )


def mixture_tv(q: float, sigma: float) -> float:
    return q * (2 * PHI(1 / (2 * sigma)) - 1)


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(PHI(mu / 2 - epsilon / mu) - np.exp(epsilon) * PHI(-mu / 2 - epsilon / mu))


def gaussian_epsilon(delta: float, mu: float) -> float:
    return float(optimize.brentq(lambda e: gaussian_delta(e, mu) - delta, 0, 200, xtol=1e-10))


def matching_mu(epsilon: float, delta: float) -> float:
    return float(
        optimize.brentq(lambda m: gaussian_delta(epsilon, m) - delta, 1e-3, 30, xtol=1e-10)
    )


def threshold_rates(z: float, q: float, sigma: float) -> tuple[float, float]:
    """(FPR, FNR) of {x > z}."""
    return float(PHI(-z / sigma)), float(q * PHI((z - 1) / sigma) + (1 - q) * PHI(z / sigma))


def threshold_mu(fpr: float, fnr: float) -> float:
    return float(-QUANTILE(fpr) - QUANTILE(fnr))


def mixture_curve(x: float, q: float, sigma: float) -> float:
    """The trade-off curve of both directions: sup of its tangent lines, over a fine grid."""
    t = np.linspace(0.5 - 8 * sigma, 0.5 + 8 * sigma, 400_001)
    growth = 1 - q + q * np.exp((2 * t - 1) / (2 * sigma**2))
    here, there = q * PHI((1 - t) / sigma) + (1 - q) * PHI(-t / sigma), PHI(-t / sigma)
    up = growth >= 1
    # The worse direction, the mixture first, at ε ≥ 0.
    growth, delta = growth[up], (here - growth * there)[up]
    lines = np.maximum(1 - delta - growth * x, (1 - delta - x) / growth)
    return float(max(lines.max(), 1 - mixture_tv(q, sigma) - x, 0.0))


def laplace_curve(x: float, mu: float) -> float:
    """inf over t of the FNR of {score > t} with FPR x: F(F⁻¹(1 − x) − μ) for unit Laplace noise."""
    return float(stats.laplace.cdf(stats.laplace.ppf(1 - x) - mu))


def binned_tv(edges: np.ndarray, q: float, sigma: float) -> float:
    """Total variation of the two distributions after binning; the outer bins are open."""
    inner = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    base = np.diff(PHI(inner / sigma))
    moved = np.diff(PHI((inner - 1) / sigma))
    return float(q * np.abs(moved - base).sum() / 2)


@functools.cache
def composed_epsilon(releases: int, delta: float, q: float, sigma: float) -> float:
    """ε(δ) after so many releases: the distribution of the loss, convolved by FFT on a grid.

    Both directions. Each small piece of the loss is put on its two neighbours on the grid so that
    its mean is kept; the error left is of second order in the step.
    """
    found = []
    for reverse in (False, True):
        step, size = 5e-4, 2**17
        x = np.linspace(-9 * sigma, 1 + 9 * sigma, 400_001)
        middle = (x[1:] + x[:-1]) / 2
        mass0 = np.diff(PHI(x / sigma))
        mass1 = q * np.diff(PHI((x - 1) / sigma)) + (1 - q) * mass0
        loss = np.log1p(q * np.expm1((2 * middle - 1) / (2 * sigma**2)))
        mass = mass0 if reverse else mass1
        loss = -loss if reverse else loss
        place = loss / step
        low = np.floor(place)
        share = place - low
        grid = np.zeros(size)
        index = low.astype(np.int64) % size
        np.add.at(grid, index, mass * (1 - share))
        np.add.at(grid, (index + 1) % size, mass * share)
        total = np.fft.irfft(np.fft.rfft(grid) ** releases, size)
        losses = np.fft.fftfreq(size, 1 / size) * step
        order = np.argsort(losses)
        losses, total = losses[order], np.maximum(total[order], 0)

        def excess(epsilon: float, losses=losses, total=total) -> float:
            above = losses > epsilon
            return float((total[above] * -np.expm1(epsilon - losses[above])).sum()) - delta

        found.append(float(optimize.brentq(excess, 0, 50, xtol=1e-7)) if excess(0) > 0 else 0.0)
    return max(found)


# --------------------------------------------------------------------------------------------------
# Limits of error rates, and what they give


def clopper_pearson(k: int, n: int, error: float) -> tuple[float, float]:
    """Lower and upper limit, each at the error."""
    low = stats.beta.ppf(error, k, n - k + 1) if k else 0.0
    high = stats.beta.ppf(1 - error, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


def jeffreys(k: int, n: int, error: float) -> tuple[float, float]:
    low = stats.beta.ppf(error, k + 0.5, n - k + 0.5) if k else 0.0
    high = stats.beta.ppf(1 - error, k + 0.5, n - k + 0.5) if k < n else 1.0
    return float(low), float(high)


def loss(fpr: float, fnr: float, delta: float) -> float:
    """max{0, ln((1 − δ − FNR)/FPR), ln((1 − δ − FPR)/FNR)}."""
    found = [0.0]
    for rate, other in ((fpr, fnr), (fnr, fpr)):
        above = 1 - delta - other
        if above > rate:
            found.append(math.log(above / rate) if rate > 0 else math.inf)
    return max(found)


def region_mass(fp: int, fn: int, n: int, epsilon: float, delta: float) -> float:
    """Posterior mass of the (ε, δ)-region under Jeffreys' prior, by quadrature over FPR."""
    x_law, y_law = (fp + 0.5, n - fp + 0.5), (fn + 0.5, n - fn + 0.5)
    growth = math.exp(epsilon)

    def curve(x: np.ndarray) -> np.ndarray:
        return np.clip(np.maximum(1 - delta - growth * x, (1 - delta - x) / growth), 0, 1)

    # Nine standard deviations to each side; the law is cut there, and at the kinks of the curve.
    mean, spread = fp + 0.5, math.sqrt((fp + 0.5) * (n - fp + 0.5) / (n + 1))
    low, high = max(0.0, mean - 9 * spread) / (n + 1), min(n + 1.0, mean + 9 * spread) / (n + 1)
    corner = (1 - delta) / (1 + growth)
    cuts = sorted({low, high, *(c for c in (corner, 1 - corner) if low < c < high)})
    nodes, weights = legendre(100)
    mass = 0.0
    for a, b in itertools.pairwise(cuts):
        x = (a + b) / 2 + (b - a) / 2 * nodes
        log_density = special.xlogy(x_law[0] - 1, x) + special.xlog1py(x_law[1] - 1, -x)
        density = np.exp(log_density - special.betaln(*x_law))
        inside = special.betainc(*y_law, 1 - curve(1 - x)) - special.betainc(*y_law, curve(x))
        mass += (b - a) / 2 * float((weights * density * inside).sum())
    return mass


def credible_epsilon(fp: int, fn: int, n: int, delta: float, level: float) -> float:
    return float(
        optimize.brentq(lambda e: region_mass(fp, fn, n, e, delta) - level, 0, 30, xtol=1e-9)
    )


def binomial_window(n: int, p: float) -> np.ndarray:
    """Counts that matter: all but 1e-12 of them."""
    low, high = stats.binom.ppf([5e-13, 1 - 5e-13], n, p)
    return np.arange(int(low), int(high) + 1)


def jeffreys_miss_rate(p: float, n: int, delta: float, error: float) -> float:
    """Return how often the Jeffreys lower end is above the truth if FPR = FNR = p, by
    enumeration."""
    truth = loss(p, p, delta)
    counts = binomial_window(n, p)
    limit = np.array([jeffreys(int(k), n, error / 2)[1] for k in counts])
    weight = stats.binom.pmf(counts, n, p)
    above = np.array([[loss(x, y, delta) > truth for y in limit] for x in limit])
    return float(weight @ above @ weight)


def credible_miss_rate(p: float, n: int, error: float) -> float:
    """The same of the one-sided credible limit at δ = 0, on randomised response with flip rate p.

    The limit is above the truth where the region of the true ε has a mass below the error. That
    mass rises with either count, so the boundary is found for each of one of them.
    """
    epsilon = math.log((1 - p) / p)
    counts = binomial_window(n, p)
    found, first = 0.0, int(counts[-1])
    for fp in counts:
        while first >= counts[0] and region_mass(int(fp), first, n, epsilon, 0.0) >= error:
            first -= 1
        found += stats.binom.pmf(fp, n, p) * stats.binom.cdf(first, n, p)
    return float(found)


# --------------------------------------------------------------------------------------------------
# The one-sided radius of a histogram


def sharp(n: float, k: int, error: float) -> float:
    return math.sqrt(k / n) / 2 + math.sqrt(math.log(1 / error) / (2 * n))


# --------------------------------------------------------------------------------------------------
# The majority vote


def vote_loss(zero: float, one: float, dim: int) -> float:
    """The loss of the vote where a coordinate rounds to 1 with these rates on D and on D′."""
    logs = [
        [stats.binom.logsf(dim // 2, dim, rate), stats.binom.logcdf(dim // 2, dim, rate)]
        for rate in (zero, one)
    ]
    return max(abs(logs[0][side] - logs[1][side]) for side in (0, 1))


def laplace_rates(scale: float) -> tuple[float, float]:
    """Pr[a coordinate rounds to 1] on D = 0 and D′ = 1, for Laplace noise of a scale."""
    return float(stats.laplace.sf(0.5, scale=scale)), float(stats.laplace.sf(-0.5, scale=scale))


def logit(p: float) -> float:
    return float(special.logit(p))
