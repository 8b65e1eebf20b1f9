"""Trade-off curves and losses of Gaussian mechanisms."""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Floats
from dpframe.stats.roots import Judged, bisection_each, newton_each

HALVINGS = 100  # most steps of Newton's method and of bisection
ROOT_2 = math.sqrt(2)


def gaussian_tradeoff(fpr: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """Return f(x) = Φ(Φ⁻¹(1 − x) − μ) [Dong2022, equation 6]; x in [0, 1], μ ≥ 0."""
    x, m = _broadcast(fpr, mu)
    # Φ⁻¹(1 − x) as −Φ⁻¹(x), which keeps its digits near 0; no curve is above 1 − x.
    return np.asarray(np.minimum(special.ndtr(-special.ndtri(x) - m), 1 - x))


def gaussian_delta(epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """Return δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) [Balle2018, theorem 8]; ε, μ ≥ 0 broadcast."""
    e, m = _broadcast(epsilon, mu)
    delta = np.zeros(e.shape)
    delta[m > 0] = np.exp(_log_delta(e[m > 0], m[m > 0])[0])
    return delta


def gaussian_epsilon(delta: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """Return the ε ≥ 0 from which on δ(ε) ≤ `delta`; inf if there is none. δ in [0, 1], μ ≥ 0.

    ln δ is concave in ε, because δ(ε) is the tail integral of a log-concave function. So Newton's
    method, started above the root, approaches it without passing it: rounding leaves ε too large.
    """
    d, m = _broadcast(delta, mu)
    epsilon = np.where((d == 0) & (m > 0), np.inf, 0.0)
    at = np.flatnonzero((d > 0) & (d < 1) & (m > 0))
    d, m = d.flat[at], m.flat[at]
    target = np.where(d < 0.5, np.log(d), np.log1p(-np.minimum(1 - d, 0.5)))
    # δ(ε) < Φ(μ/2 − ε/μ), so the ε at which the right-hand side is δ lies above the root.
    guess = m * np.maximum(m / 2 - special.ndtri(d), 0.0)
    for _ in range(HALVINGS):
        log_delta, log_slope = _log_delta(guess, m)
        # For μ near 1e-16 δ underflows, and ε is so close to 0 that the start is accurate.
        log_delta = np.where(log_delta > -np.inf, log_delta, target)
        step = (target - log_delta) / np.exp(log_slope - log_delta)
        nearer = np.clip(guess - step, 0.0, guess)
        settled = guess - nearer <= 1e-15 * guess
        guess = nearer
        if settled.all():
            break
    epsilon.flat[at] = guess
    return epsilon


def gaussian_mu_at(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> Floats:
    """Return the largest μ with δ(ε) ≤ `delta`: that of the analytic Gaussian mechanism.

    A query of ℓ2 sensitivity Δ is (ε, δ)-DP with noise of standard deviation Δ/μ, and with no less
    [Balle2018, theorem 8]. By bisection: δ(ε) increases with μ. 0 at δ = 0, inf at δ = 1.
    """
    e, d = _broadcast(epsilon, delta)
    values = np.where(d < 1, 0.0, np.inf)
    at = np.flatnonzero((d > 0) & (d < 1))
    e, d = e.flat[at], d.flat[at]
    z = special.ndtri(d)
    # Φ(μ/2 − ε/μ) = δ at this μ, and δ(ε) is smaller.
    root = np.hypot(z, np.sqrt(2 * e))
    low = np.where(z < 0, 2 * e / np.maximum(root - z, np.finfo(float).tiny), z + root)
    high = np.maximum(2 * low, 1.0)
    while (under := gaussian_delta(e, high) <= d).any():
        low, high = np.where(under, high, low), np.where(under, 2 * high, high)
    values.flat[at] = bisection_each(
        lambda mu: gaussian_delta(e, mu) > d, low, high, steps=HALVINGS
    )[0]
    return values


def _log_delta(epsilon: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms of δ(ε) and of −δ′(ε) = e^ε Φ(−μ/2 − ε/μ), for μ > 0."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        # e^ε φ(high) = φ(low), so both terms share the factor exp(−low²/2).
        log_slope = -(low * low) / 2 + np.log(special.erfcx(high / ROOT_2) / 2)
        slope = np.exp(log_slope)
        width = special.erfcx(np.maximum(low, 0) / ROOT_2) - special.erfcx(high / ROOT_2)
        tail = -(low * low) / 2 + np.log(width / 2)
        missing = special.ndtr(low) + slope
        body = np.where(
            missing < 0.5, np.log1p(-np.minimum(missing, 0.5)), np.log(special.ndtr(-low) - slope)
        )
    return np.where(low > 0, tail, body), log_slope


def _broadcast(*values: npt.ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values)))


def gaussian_mu(fpr: npt.ArrayLike, fnr: npt.ArrayLike) -> Floats:
    """Return the μ whose curve passes through (FPR, FNR): Φ⁻¹(1 − FPR) − Φ⁻¹(FNR).

    With upper limits of both rates this is equation 2.4 of [Koskela2024]: the point lies below the
    curve of every smaller μ, so a mechanism with these error rates is not μ′-GDP for any μ′ < μ.
    That holds for any mechanism, but only a Gaussian mechanism has the loss ε(δ) of this μ.

    Args:
        fpr: in [0, 1].
        fnr: in [0, 1]; both broadcast.

    Returns:
        Negative above the diagonal FPR + FNR = 1; infinite if one rate is 0 and the other below 1;
        0 at (0, 1) and (1, 0), which every curve passes through.
    """
    x, y = np.broadcast_arrays(np.asarray(fpr, np.float64), np.asarray(fnr, np.float64))
    corner = (np.minimum(x, y) == 0) & (np.maximum(x, y) == 1)
    inner = np.where(corner, 0.5, x), np.where(corner, 0.5, y)
    # Φ⁻¹(1 − x) as −Φ⁻¹(x), which keeps its digits near 0.
    return np.asarray(0.0 - special.ndtri(inner[0]) - special.ndtri(inner[1]), np.float64)


SUBSAMPLED_STEPS = 200


def subsampled_gaussian_tradeoff(fpr: npt.ArrayLike, q: float, sigma: float) -> Floats:
    """Return the hull of both curves of (1 − q) N(0, σ²) + q N(1, σ²) against N(0, σ²).

    With G the curve of N(0, σ²) and N(1, σ²), x* = G(x*) and f_q(x) = q G(x) + (1 − q)(1 − x), it
    is f_q up to x*, f_q⁻¹ from f_q(x*) on, and between them the line of slope −1 that joins the two
    [Dong2022, definition 7 and proposition A.1].

    Args:
        fpr: in [0, 1].
        q: sampling probability in (0, 1].
        sigma: positive.
    """
    x, mu = np.asarray(fpr, np.float64), 1 / sigma
    corner = special.ndtr(-mu / 2)
    other = q * corner + (1 - q) * (1 - corner)
    steep = q * gaussian_tradeoff(x, mu) + (1 - q) * (1 - x)
    curve = np.where(x <= corner, steep, corner + other - x)
    flat = (x >= other) & (x > 0) & (x < 1)
    curve[flat] = special.ndtr(-_mixture_quantile(x[flat], q, mu))
    return np.clip(curve, 0.0, 1 - x)


def _mixture_quantile(probability: Floats, q: float, mu: float) -> Floats:
    """Solve q Φ(w − μ) + (1 − q) Φ(w) = probability, in (0, 1), for w."""
    # Each is solved in its own tail, where it keeps its digits.
    side = np.where(probability > 0.5, -1.0, 1.0)
    wanted = np.where(side > 0, probability, 1 - probability)
    z = side * special.ndtri(wanted)

    def judge(w: Floats) -> Judged:
        value = q * special.ndtr(side * (w - mu)) + (1 - q) * special.ndtr(side * w)
        # Newton's method for the logarithm; it may leave the bracket, because the logarithm of a
        # mixture is neither convex nor concave.
        with np.errstate(divide="ignore", invalid="ignore"):
            density = q * _density(w - mu) + (1 - q) * _density(w)
            newton = w - side * np.log(value / wanted) * value / density
        return Judged(side * (value - wanted) > 0, value == wanted, newton)

    return newton_each(judge, z + mu, z, z + mu, tolerance=1e-15, least=1.0, steps=SUBSAMPLED_STEPS)


def _density(w: Floats) -> Floats:
    return np.asarray(np.exp(-(w * w) / 2) / np.sqrt(2 * np.pi))
