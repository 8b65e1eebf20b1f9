"""The mechanisms as papers and textbooks print them: one row at a time, in NumPy and float64."""

import itertools

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


def permute_and_flip(rng, q, epsilon):
    for place in rng.permutation(len(q)):
        if rng.uniform() < np.exp(epsilon * (q[place] - max(q)) / 2):
            return [place]
    raise AssertionError("the best is always taken")


def above_threshold(rng, q, threshold_sigma, answer_sigma, threshold):
    noisy = threshold + rng.normal(scale=threshold_sigma)
    out = [-1.0] * len(q)
    for place, answer in enumerate(q):
        above = answer + rng.normal(scale=answer_sigma) >= noisy
        out[place] = float(above)
        if above:
            break
    return out


def staircase(rng, q, epsilon, start):
    gamma, b = 1 / (1 + np.exp(epsilon / 2)), np.exp(-epsilon)
    out = []
    for answer in q:
        step = rng.geometric(1 - b) - 1 + start
        if rng.uniform() < gamma / (gamma + (1 - gamma) * b):
            size = step + gamma * rng.uniform()
        else:
            size = step + gamma + (1 - gamma) * rng.uniform()
        out.append(answer + rng.choice([-1, 1]) * size)
    return out


def stability(rng, counts, epsilon, delta):
    out = []
    for count in counts:
        noisy = count + rng.laplace(scale=1 / epsilon)
        high = delta is None or noisy > 1 + np.log(1 / (2 * delta)) / epsilon
        out.append(noisy if count and high else 0.0)
    return out


def median_move(values, others):
    """Every way of changing so many values to 0 or 1, and then the best that one value can do."""
    best = 0.0
    for places in itertools.combinations(range(len(values)), others):
        for ends in itertools.product([0.0, 1.0], repeat=others):
            changed = np.array(values)
            changed[list(places)] = ends
            for place, end in itertools.product(range(len(values)), [0.0, 1.0]):
                moved = np.array(changed)
                moved[place] = end
                best = max(best, abs(np.median(moved) - np.median(changed)))
    return best


_DISTANCES = {}


def propose_test_release(rng, values, epsilon, delta, beta):
    if (beta, *values) not in _DISTANCES:
        enough = (k for k in range(len(values)) if median_move(values, k) > beta)
        _DISTANCES[beta, *values] = next(enough, len(values))
    noisy = _DISTANCES[beta, *values] + rng.laplace(scale=1 / epsilon)
    if noisy <= np.log(1 / (2 * delta)) / epsilon:
        return [0.0, 0.0]
    return [1.0, np.median(values) + rng.laplace(scale=beta / epsilon)]


def local_sensitivity(rng, values, epsilon):
    ordered = np.sort(values)
    middle = len(values) // 2
    local = max(np.diff(ordered)[middle - 1 : middle + 1])
    return [1.0, np.median(values) + rng.laplace(scale=local / epsilon)]


def responses(rng, bits, epsilon):
    return [bit if rng.uniform() < 1 / (1 + np.exp(-epsilon)) else 1 - bit for bit in bits]


def planar(rng, point, epsilon):
    angle, length = rng.uniform(0, 2 * np.pi), rng.gamma(2) / epsilon
    return [point[0] + length * np.cos(angle), point[1] + length * np.sin(angle)]


def laplace(rng, point, epsilon):
    return [x + rng.laplace(scale=1 / epsilon) for x in point]


def nearest_word(rng, word, epsilon, table, degrees):
    direction = rng.normal(size=table.shape[1])
    noise = direction / np.linalg.norm(direction) * rng.gamma(degrees) / epsilon
    return [np.argmin(np.linalg.norm(table - (table[int(word[0])] + noise), axis=1))]
