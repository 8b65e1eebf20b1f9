"""A small synthesizer like MST draws rows from noisy marginals; right, or with a mistake."""

from __future__ import annotations

import numpy as np

RHO = 0.1
"""The claim in zCDP, which (1, 0.01)-DP follows from: μ = √(2ρ) = 0.447."""
SIZES = (2, 3, 3)
MARGINALS = ((0,), (1,), (2,), (0, 1), (0, 2))
D0 = [[0, 1, 2], [1, 0, 1], [1, 2, 0], [0, 1, 1]] * 5
D1 = [*D0, [1, 2, 2]]
MISTAKES = {"free": 3, "halved": 5 / 4}
"""Number of marginals that the noise is scaled for, in place of all five."""


def measure(rng, counts, scale):
    return counts + rng.normal(scale=scale, size=len(counts))


def synthesizer(mistake=""):
    scale = np.sqrt(MISTAKES.get(mistake, len(MARGINALS)) / (2 * RHO))

    def fit(rng, rows):
        data, noisy = np.array(rows), {}
        for columns in MARGINALS:
            sizes = [SIZES[column] for column in columns]
            cells = np.ravel_multi_index([data[:, column] for column in columns], sizes)
            noisy[columns] = measure(rng, np.bincount(cells, minlength=np.prod(sizes)), scale)
        size = max(0, round(float(sum(noisy[0,]))))
        joint = np.maximum(noisy[0, 1], 0) + 1e-9
        pairs = rng.choice(len(joint), size=size, p=joint / joint.sum())
        last = np.maximum(noisy[0, 2].reshape(2, 3), 0) + 1e-9
        return [
            [int(a), int(b), int(rng.choice(3, p=last[a] / last[a].sum()))]
            for a, b in zip(*np.unravel_index(pairs, SIZES[:2]), strict=True)
        ]

    return fit
