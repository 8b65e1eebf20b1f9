"""Compare draws with laws; each comparison rejects a correct sampler with probability 1e-6."""

import numpy as np
from scipy import special

ERROR = 1e-6
LEAST = 20
"""Draws that a category is expected to have; rarer ones are merged."""


def demand_probabilities(draws, outputs, probabilities):
    """Test draws [n, d] against the probabilities of all outputs [k, d] by chi-square."""
    assert np.isclose(np.sum(probabilities), 1, atol=1e-9)
    place = {tuple(row): k for k, row in enumerate(np.asarray(outputs, np.float64).tolist())}
    rows, counts = np.unique(np.asarray(draws, np.float64), axis=0, return_counts=True)
    seen = np.zeros(len(place))
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        seen[place[tuple(row)]] += count
    expected = np.asarray(probabilities) * len(draws)
    assert not seen[expected < 1e-9].any()
    rare = expected < LEAST
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    demand_small(((seen - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1)


def demand_same(one, other):
    """Compare samples [n, d] and [m, d]: each coordinate by Massart, all together by chi-square.

    For the latter, a frequent value of a coordinate forms its own class. Other values are below the
    median, in the upper tenth, or between.
    """
    limit = sum(np.sqrt(np.log(8 * one.shape[1] / ERROR) / (2 * len(x))) for x in (one, other))
    labels = []
    for x, y in zip(one.T, other.T, strict=True):
        points = np.concatenate([x, y])
        below = [np.searchsorted(np.sort(part), points, "right") / len(part) for part in (x, y)]
        assert np.abs(below[0] - below[1]).max() <= limit
        atoms, counts = np.unique(points, return_counts=True)
        atoms = atoms[counts > len(points) / 200]
        label = np.searchsorted(np.quantile(points, [0.5, 0.9]), points) + len(atoms)
        for k, atom in enumerate(atoms):
            label[points == atom] = k
        labels.append(label)
    _, kind = np.unique(np.stack(labels), axis=1, return_inverse=True)
    table = np.stack([np.bincount(part, minlength=kind.max() + 1) for part in _split(kind, one)])
    common = _expected(table).min(axis=0) >= LEAST
    table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    expected = _expected(table)
    demand_small(((table - expected) ** 2 / expected).sum(), table.shape[1] - 1)


def demand_small(statistic, freedom):
    assert special.chdtrc(max(freedom, 1), statistic) > ERROR / 2, (statistic, freedom)


def _expected(table):
    return np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()


def _split(kind, one):
    kind = kind.ravel()
    return kind[: len(one)], kind[len(one) :]
