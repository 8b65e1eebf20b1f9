"""The mechanisms as the papers print them: one row at a time, in NumPy and float64."""

import numpy as np


def noisy_histogram(rng, q, scale):
    return [x + rng.laplace(scale=scale) for x in q]


def laplace_parallel(rng, q, epsilon, count):
    return [q[0] + rng.laplace(scale=1 / epsilon) for _ in range(count)]


def prefix_sum(rng, q, epsilon):
    total, out = 0.0, []
    for x in q:
        total += x + rng.laplace(scale=1 / epsilon)
        out.append(total)
    return out


def noisy_max(rng, q, epsilon, noise, tells):
    noisy = [x + getattr(rng, noise)(scale=2 / epsilon) for x in q]
    largest = max(noisy)
    return [largest if tells == "value" else noisy.index(largest)]


def snapping(rng, q, epsilon, bound):
    scale = (1 + bound * 2.0**-20) / epsilon
    grid = 1.0
    while grid < scale:
        grid *= 2
    while grid / 2 >= scale:
        grid /= 2
    noisy = max(-bound, min(bound, q[0])) + scale * rng.choice([-1, 1]) * np.log(rng.uniform())
    return [max(-bound, min(bound, grid * round(noisy / grid)))]


def truncated_geometric(rng, q, k, most):
    """GeoSample: the smallest z whose F(z) is at least an integer drawn uniformly."""
    c, total = int(q[0]), (2 ** (k + 1) + 1) * (2**k + 1) ** (most - 1)
    u = rng.integers(1, total + 1)
    for z in range(most):
        if z < c:
            f = 2 ** (k * (c - z)) * (2**k + 1) ** (most - (c - z))
        else:
            f = total - 2 ** (k * (z - c + 1)) * (2**k + 1) ** (most - 1 - (z - c))
        if f >= u:
            return [z]
    return [most]


def sparse_vector(
    rng, q, threshold_scale, answer_scale, threshold, cutoff, *, renews=False, numeric=False
):
    noise, found, out = rng.laplace(scale=threshold_scale), 0, []
    for x in q:
        if cutoff is not None and found >= cutoff:
            out.append(-1.0)
            continue
        noisy = x + (rng.laplace(scale=answer_scale) if answer_scale else 0.0)
        if noisy >= threshold + noise:
            out.append(noisy if numeric else 1.0)
            found += 1
            if renews:
                noise = rng.laplace(scale=threshold_scale)
        else:
            out.append(0.0)
    return out


def numerical_sparse_vector(rng, q, epsilon, threshold, cutoff):
    noisy_threshold, found, out = threshold + rng.laplace(scale=3 / epsilon), 0, []
    for x in q:
        if found >= cutoff:
            out.append(-1.0)
        elif x + rng.laplace(scale=6 * cutoff / epsilon) >= noisy_threshold:
            out.append(x + rng.laplace(scale=3 * cutoff / epsilon))
            found += 1
        else:
            out.append(0.0)
    return out


def rappor(rng, bits, f, p, q):
    out = []
    for bit in bits:
        u = rng.uniform()
        permanent = 1 if u < f / 2 else 0 if u < f else bit
        out.append(float(rng.uniform() < (q if permanent else p)))
    return out
