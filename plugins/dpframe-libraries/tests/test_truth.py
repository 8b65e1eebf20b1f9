"""The interval of the true ε, against closed forms and against convolutions without FFT."""

import itertools
import math

import numpy as np
import pytest
from dpframe_libraries.accountants import pairs, truth
from dpframe_libraries.accountants.pairs import Step
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

DELTAS = (1e-3, 1e-6, 1e-9)


def solved(profile, delta, largest=700.0):
    """ε at δ for a decreasing profile, infinite if it is above the largest finite one."""
    if profile(0.0) <= delta:
        return 0.0
    if profile(largest) >= delta:
        return math.inf
    high = next(2.0**i for i in range(20) if profile(2.0**i) < delta)
    return brentq(lambda e: profile(e) / delta - 1, 0.0, high, xtol=1e-12)


def gaussian(mu):
    return lambda e: ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(-mu / 2 - e / mu)


def sampled(profile, q):
    """One Poisson sample: the dataset with the record comes first, or last."""

    def found(e):
        first = q * profile(math.log1p(math.expm1(e) / q))
        keep = -math.expm1(-e)  # 1 − e^{−ε}
        # H_α(Q ‖ (1−q)Q + qP) = (1 − α(1−q)) H_β(Q ‖ P), with β = αq ÷ (1 − α(1−q))
        rest = keep - (1 - q) if keep > 1 - q else None
        alpha = math.exp(e)
        last = 1 - alpha * (1 - q)
        if rest is None and last > 0:
            return max(first, last * profile(math.log(alpha * q / last)))
        return first

    return found


def profile(losses, masses):
    return lambda e: (masses * np.maximum(0.0, -np.expm1(np.minimum(e - losses, 0.0)))).sum()


def response(epsilon, k):
    """k answers of randomized response: Kairouz, Oh and Viswanath (2015)."""

    i = np.arange(k + 1)
    return profile((2 * i - k) * epsilon, binom.pmf(i, k, 1 / (1 + math.exp(-epsilon))))


def shifted(sigma):
    """Discrete Gaussian noise on two neighbouring integers."""
    y = np.arange(-400, 402)
    weights = np.exp(-(y**2) / (2 * sigma**2))
    return profile((2 * y - 1) / (2 * sigma**2), np.roll(weights / weights.sum(), 1))


def truncated(sigma, bound, count=1):
    """Sums of truncated integers on two neighbours: all outcomes of `count` releases."""
    weights = np.exp(-(np.arange(-bound, bound + 1) ** 2) / (2 * sigma**2))
    q = np.append(weights / weights.sum(), 0.0)
    p = np.roll(q, 1)
    with np.errstate(divide="ignore"):
        loss = np.log(p) - np.log(q)
    losses, masses = loss[p > 0], p[p > 0]
    for _ in range(count - 1):
        losses = np.add.outer(losses, loss[p > 0]).ravel()
        masses = np.multiply.outer(masses, p[p > 0]).ravel()
    return profile(losses, masses)


def laplace(a):
    return lambda e: max(0.0, -math.expm1((e - a) / 2))


KNOWN = [
    *((Step("gaussian", s, 1, "poisson", q), sampled(gaussian(1 / s), q))
      for s, q in itertools.product((0.4, 0.9, 3.0, 12.0), (1e-4, 0.02, 0.6, 0.97))),
    *((Step("laplace", b), laplace(1 / b)) for b in (0.1, 0.7, 3.0, 40.0)),
    *((Step("laplace", b, 1, "poisson", q), sampled(laplace(1 / b), q))
      for b, q in itertools.product((0.3, 2.0), (0.01, 0.4))),
    *((Step("discrete-laplace", b, k), response(1 / b, k))
      for b, k in itertools.product((0.5, 3.0, 20.0), (1, 7, 200))),
    *((Step("discrete-laplace", b, 1, "poisson", q), sampled(response(1 / b, 1), q))
      for b, q in itertools.product((0.5, 3.0), (0.01, 0.4))),
    *((Step("discrete-gaussian", s), shifted(s)) for s in (0.4, 1.0, 5.0)),
    (Step("discrete-gaussian", 1.5, 1, "poisson", 0.2), sampled(shifted(1.5), 0.2)),
    *((Step("truncated-discrete-gaussian", s, k, bound=b), truncated(s, b, k))
      for s, b, k in ((3.0, 2, 1), (1.0, 5, 1), (0.7, 5, 3), (0.6, 4, 1), (2.0, 12, 2))),
    (Step("truncated-discrete-gaussian", 0.8, 1, "poisson", 0.3, 5),
     sampled(truncated(0.8, 5), 0.3)),
]  # fmt: skip


def test_an_output_that_only_one_dataset_can_have_is_an_infinite_loss():
    """Noise is at its bound with a probability; smaller δ have no finite ε."""
    for sigma, bound in ((3.0, 1), (0.4, 2)):
        step = (Step("truncated-discrete-gaussian", sigma, bound=bound),)
        lost = truncated(sigma, bound)(700.0)
        for times, finite in ((0.99, False), (1.01, True)):
            (one,) = truth.intervals(step, "add-remove", (lost * times,))
            assert math.isfinite(one.lower) == math.isfinite(one.upper) == finite
            assert finite or one.width == 0
    for q, ends in ((0.3, (0.3, 0.299)), (1.0, (1.0, 0.999))):
        sampling = "none" if q == 1 else "poisson"
        step = (Step("truncated-discrete-gaussian", 1.0, 1, sampling, q, 3),)
        above, below = (truth.intervals(step, "add-remove", (truncated(1.0, 3)(700.0) * e,))[0]
                        for e in ends)  # fmt: skip
        assert below.lower == math.inf > above.lower


def holds(interval, exact):
    return interval.lower <= exact * (1 + 1e-9) and exact <= interval.upper * (1 + 1e-9)


@pytest.mark.parametrize(("step", "profile"), KNOWN[1::3], ids=str)
def test_closed_forms_lie_in_narrow_intervals(step, profile):
    for delta, one in zip(DELTAS, truth.intervals((step,), "add-remove", DELTAS), strict=True):
        exact = solved(profile, delta)
        assert holds(one, exact), (delta, one, exact)
        assert one.width <= truth.TIGHT * max(one.upper, 0.01)


@pytest.mark.slow  # a minute
def test_ten_thousand_exact_values_raise_no_alarm():
    rng = np.random.default_rng(24)
    settings = 0
    deltas = tuple(np.geomspace(1e-2, 1e-10, 9))
    while settings < 10_000:
        scale, q = float(np.exp(rng.uniform(-1, 3))), float(np.exp(rng.uniform(-7, -0.01)))
        k = int(np.exp(rng.uniform(0, 7)))
        cases = [
            (Step("gaussian", scale, 1, "poisson", q), sampled(gaussian(1 / scale), q)),
            (Step("laplace", scale, 1, "poisson", q), sampled(laplace(1 / scale), q)),
            (Step("discrete-laplace", scale, k), response(1 / scale, k)),
        ]
        for step, profile in cases:
            found = truth.intervals((step,), "add-remove", deltas)
            for delta, one in zip(deltas, found, strict=True):
                exact = solved(profile, delta, max(700.0, 2 * step.count / step.scale))
                assert holds(one, exact), (step, delta, one, exact)
                settings += 1
        mu = math.sqrt(k) / scale
        if mu < 20:  # Gaussian releases on the grid, in spite of their closed form
            step = (Step("gaussian", scale, k),)
            ends = truth._bounds(step, "add-remove", ("unsampled",), ("unsampled",), 0.01, deltas)
            for delta, low, high in zip(deltas, *ends, strict=True):
                exact = solved(gaussian(mu), delta)
                assert holds(truth.Interval(low, high), exact), (step, delta, low, high, exact)
                settings += 1


@pytest.mark.parametrize("h", [0.037, 0.2])
@pytest.mark.parametrize(
    ("step", "kind", "exact", "low"),
    [
        (Step("gaussian", 0.8, 1, "poisson", 0.3), "remove",
         lambda e: 0.3 * gaussian(1.25)(math.log1p(math.expm1(e) / 0.3)), math.log(0.7)),
        (Step("laplace", 1.3), "unsampled", laplace(1 / 1.3), -1 / 1.3),
        (Step("randomized-response", 0.7), "unsampled", response(0.7, 1), -0.7),
    ],
    ids=["gaussian", "laplace", "response"],
)  # fmt: skip
def test_one_step_has_a_curve_above_and_a_curve_below(step, kind, exact, low, h):
    found = pairs.grid(
        step, "replace" if "response" in step.noise else "add-remove", kind, h, 1e-13
    )
    losses = found.first + h * np.arange(len(found.upper))
    above, below = profile(losses, found.upper), profile(losses, found.lower)
    for e in np.linspace(low - 3 * h, 3.0, 400):
        true = exact(e) if e > low else -math.expm1(e)
        assert below(e) <= true + 1e-11
        assert true <= above(e) + found.infinite + 1e-11
        assert above(e) - below(e) < (h * h if step.noise == "gaussian" else h)
    assert above(losses[5]) == pytest.approx(exact(losses[5]), rel=1e-9)  # it interpolates


@pytest.mark.parametrize(("scale", "count"), [(0.6, 1), (2.0, 30), (9.0, 1000)])
def test_composed_gaussians_on_the_grid_have_their_closed_form(scale, count):
    steps = (Step("gaussian", scale, count),)
    kind = ("unsampled",)
    below, above = truth._bounds(steps, "add-remove", kind, kind, 0.3 / scale / 20, DELTAS)
    exact = truth.intervals(steps, "add-remove", DELTAS)
    for low, high, one in zip(below, above, exact, strict=True):
        assert low <= one.upper
        assert one.lower <= high
        assert high - low < 0.05 * high


def rounded(step, relation, kind, h, up):
    """Masses of losses rounded up or down: no interpolation, no curve."""
    pair = pairs._pair(step, relation, kind, 1e-13)
    u = np.linspace(*pair.ends, 200_001)
    mass = pair.mass(u[:-1], u[1:])
    loss = pair.loss(u[1:] if up else u[:-1])
    index = (np.ceil if up else np.floor)(loss / h).astype(int)
    out = np.bincount(index - index.min(), mass)
    if up:
        out[0] += 1 - out.sum()  # the tail has mass 1e-13
    return index.min(), out


@pytest.mark.parametrize(
    ("step", "relation", "kind"),
    [
        (Step("gaussian", 0.8, 3, "poisson", 0.3), "add-remove", "remove"),
        (Step("gaussian", 0.8, 3, "poisson", 0.3), "add-remove", "add"),
        (Step("gaussian", 1.6, 3, "poisson", 0.2), "replace", "mixtures"),
    ],
)
def test_naive_convolutions_overlap(step, relation, kind):
    h, delta = 2e-3, 1e-4
    ends = []
    for up in (False, True):
        first, one = rounded(step, relation, kind, h, up)
        total = one
        for _ in range(step.count - 1):
            total = np.convolve(total, one)
        ends.append(solved(profile(h * (first * step.count + np.arange(len(total))), total), delta))
    (low,), (high,) = truth._bounds((step,), relation, (kind,), (kind,), 0.002, (delta,))
    assert ends[0] <= high
    assert low <= ends[1]
    assert ends[0] - 1e-9 <= low <= high <= ends[1] + 1e-9  # and it is the narrower one


def test_the_order_of_directions_and_the_relations_matter():
    step = (Step("gaussian", 1.0, 10, "poisson", 0.1),)
    each = {name: truth.intervals(step, name, (1e-5,))[0] for name in ("add-remove", "zero-out")}
    assert each["add-remove"] == each["zero-out"]
    assert truth.intervals(step, "replace", (1e-5,))[0].lower > 1.1 * each["add-remove"].upper
    plain = (Step("gaussian", 2.0),)
    twice = truth.intervals((Step("gaussian", 1.0),), "add-remove", (1e-5,))
    assert truth.intervals(plain, "replace", (1e-5,)) == twice


@pytest.mark.parametrize(("noise", "power"), [("discrete-laplace", 1), ("discrete-gaussian", 2)])
def test_integers_that_differ_by_two_under_replace(noise, power):
    y, scale = np.arange(-60, 63), 1.7
    weights = np.exp(-(np.abs(y) ** power) / (power * scale**power))
    other = np.roll(weights, 2)
    exact = solved(profile(np.log(other / weights)[2:], other[2:] / weights.sum()), 1e-4)
    (one,) = truth.intervals((Step(noise, scale),), "replace", (1e-4,))
    assert holds(one, exact)
    assert one.width < 1e-3 * exact


def test_samples_of_a_fixed_size_have_an_attained_and_a_proved_end():
    step = Step("gaussian", 4.0, 9, "fixed", 0.1)
    (one,) = truth.intervals((step,), "replace", (1e-5,))
    poisson = (Step("gaussian", 2.0, 9, "poisson", 0.1),)
    (doubled,) = truth.intervals(poisson, "add-remove", (1e-5,))
    assert one.lower == pytest.approx(doubled.lower, rel=2e-3)  # the others cancel the record
    assert one.lower < one.upper < 1.5 * one.lower


def test_different_steps_on_one_grid():
    steps = (Step("laplace", 3.0, 5), Step("gaussian", 4.0, 20, "poisson", 0.2))
    (one,) = truth.intervals(steps, "add-remove", (1e-5,))
    assert one.width < 2e-3 * one.upper
    (part,) = truth.intervals(steps[:1], "add-remove", (1e-5,))
    assert part.upper < one.lower < 5 / 3 + 2


def test_unknown_truths_are_refused():
    for step, relation in (
        (Step("laplace", 1.0, 1, "poisson", 0.1), "replace"),
        (Step("gaussian", 1.0, 1, "fixed", 0.1), "add-remove"),
        (Step("randomized-response", 1.0), "add-remove"),
    ):
        with pytest.raises(ValueError, match="known"):
            truth.intervals((step,), relation, (1e-5,))
    with pytest.raises(ValueError, match="bound"):
        Step("discrete-gaussian", 1.0, bound=3)
    with pytest.raises(ValueError, match="rate"):
        Step("gaussian", 1.0, 1, "none", 0.5)
