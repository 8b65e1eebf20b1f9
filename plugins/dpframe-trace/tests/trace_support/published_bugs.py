"""Thirteen bugs of the kinds in [Cebere2026], rewritten from descriptions, each beside a control.

No code of a library was copied. Each function takes a generator and data, or a table. The bug and
its control claim the same ε, on the same pair of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

Release = Callable[..., Any]


class Bug(NamedTuple):
    """A bug, a control, and neighbours on which the bug shows."""

    kind: str
    """The finding of a trace; "" if it finds nothing."""
    wrong: Release
    right: Release
    d0: Any
    d1: Any
    epsilon: float
    delta: float = 0.0


# 1. Clipping lets NaN through.


def _mean(rng: Any, clipped: Any) -> float:
    return float(clipped.sum() + rng.laplace(scale=1.0)) / 4


def mean_of_nan(rng: Any, values: Any) -> float:
    return _mean(rng, np.clip(values, 0, 1))


def mean_without_nan(rng: Any, values: Any) -> float:
    return _mean(rng, np.clip(np.nan_to_num(values), 0, 1))


# 2. A classifier takes its classes from the data.


def _centres(rng: Any, table: Any, classes: Any) -> dict[int, float]:
    centres = {}
    for label in classes:
        values = np.clip(table[table[:, 1] == label, 0], 0, 1)
        count = max(len(values) + rng.laplace(scale=4.0), 1.0)
        centres[int(label)] = float(values.sum() + rng.laplace(scale=4.0)) / count
    return centres


def classes_from_labels(rng: Any, table: Any) -> Any:
    return _centres(rng, table, np.unique(table[:, 1]))


def given_classes(rng: Any, table: Any) -> Any:
    return _centres(rng, table, (0, 1, 2))


# 3. The range of a product is used for a square, which is smallest at 0.


def _moments(rng: Any, values: Any, width: float) -> Any:
    values = np.clip(values, -1, 2)
    return np.array([(values**2).sum(), 0.0]) + rng.laplace(scale=width, size=2)


def square_as_product(rng: Any, values: Any) -> Any:
    return _moments(rng, values, 2.0**2 - 1.0**2)


def square_from_zero(rng: Any, values: Any) -> Any:
    return _moments(rng, values, 2.0**2)


# 4. The domain of a marginal is read off the records.


def _marginal(rng: Any, values: Any, domain: Any) -> Any:
    counts = np.array([(values == category).sum() for category in domain])
    return counts + rng.normal(scale=10.0, size=len(domain))


def domain_from_records(rng: Any, values: Any) -> Any:
    return _marginal(rng, values, sorted(set(values.tolist())))


def given_domain(rng: Any, values: Any) -> Any:
    return _marginal(rng, values, range(4))


# 5. A covariance sums columns that were not clipped.


def covariance_of_raw(rng: Any, table: Any) -> float:
    np.clip(table, 0, 1)
    return float((table[:, 0] * table[:, 1]).sum() + rng.laplace(scale=1.0))


def covariance_of_clipped(rng: Any, table: Any) -> float:
    table = np.clip(table, 0, 1)
    return float((table[:, 0] * table[:, 1]).sum() + rng.laplace(scale=1.0))


# 6. A selection uses half of the sensitivity of its scores.


def _selected(rng: Any, values: Any, sensitivity: float) -> int:
    scores = np.array([(values < 0.5).sum(), (values >= 0.5).sum()], float)
    weights = np.exp(scores / (2 * sensitivity))
    return int(rng.choice(2, p=weights / weights.sum()))


def selection_with_half(rng: Any, values: Any) -> int:
    return _selected(rng, values, 0.5)


def selection_with_all(rng: Any, values: Any) -> int:
    return _selected(rng, values, 1.0)


# 7. An odometer composes with a wrong formula; it draws no noise.


def _spent(number: int, epsilon: float, log_term: float) -> float:
    return math.sqrt(2 * number * log_term) * epsilon + number * epsilon * math.expm1(epsilon)


def odometer_without_delta(values: Any) -> float:
    return _spent(10, 0.1, 1.0)


def odometer_with_delta(values: Any) -> float:
    return _spent(10, 0.1, math.log(1e5))


# 8. Private training divides by the size of the data.


def _trained(table: Any, number: float) -> Any:
    weight = torch.zeros(1, requires_grad=True)
    for _ in range(2):
        weight.grad = None
        torch.nn.functional.mse_loss(weight * table, table, reduction="sum").backward()
        with torch.no_grad():
            noisy = weight.grad.clamp(-9, 9) + torch.normal(0.0, 45.0, (1,))
            weight -= 0.1 * noisy / number
    return weight


def gradient_by_size(table: Any) -> Any:
    return _trained(table, len(table))


def gradient_by_expected_size(table: Any) -> Any:
    return _trained(table, 3)


# 9. A formula for the scale is 0 for a model with as many parents as columns.


def _network(rng: Any, values: Any, columns: int, parents: int) -> Any:
    counts = np.array([(values < 0.5).sum(), (values >= 0.5).sum()], float)
    counts += rng.laplace(scale=2.0 * (columns - parents), size=2)
    counts = np.maximum(counts, 0.0) + 1e-9
    return counts / counts.sum()


def scale_of_zero(rng: Any, values: Any) -> Any:
    return _network(rng, values, 2, 2)


def scale_above_zero(rng: Any, values: Any) -> Any:
    return _network(rng, values, 2, 1)


# 10. Two queries get the whole budget each.


def budget_twice(rng: Any, values: Any) -> Any:
    values = np.clip(values, 0, 1)
    low = float(values.sum() + rng.laplace(scale=1.0))
    high = float((1 - values).sum() + rng.laplace(scale=1.0))
    return low, high


def budget_shared(rng: Any, values: Any) -> Any:
    values = np.clip(values, 0, 1)
    low = float(values.sum() + rng.laplace(scale=2.0))
    high = float((1 - values).sum() + rng.laplace(scale=2.0))
    return low, high


# 11. A loop counts a private quantity.


def _rounds(rng: Any, values: Any, number: int) -> list[float]:
    total = np.clip(values, 0, 1).sum()
    return [float(total + rng.laplace(scale=9.0)) for _ in range(number)]


def rounds_from_data(rng: Any, values: Any) -> Any:
    return _rounds(rng, values, len(values) // 2)


def given_rounds(rng: Any, values: Any) -> Any:
    return _rounds(rng, values, 2)


# 12. The edges of a histogram are the extremes of the data.


def _binned(rng: Any, values: Any, span: Any) -> Any:
    counts = np.histogram(values, bins=4, range=span)[0]
    return counts + rng.laplace(scale=2.0, size=4)


def edges_from_data(rng: Any, values: Any) -> Any:
    return _binned(rng, values, (values.min(), values.max()))


def given_edges(rng: Any, values: Any) -> Any:
    return _binned(rng, np.clip(values, 0, 1), (0, 1))


# 13. The sensitivity is computed from the data.


def range_of_data(rng: Any, values: Any) -> float:
    return float(values.sum() + rng.laplace(scale=values.max() - values.min()))


def given_range(rng: Any, values: Any) -> float:
    return float(np.clip(values, 0, 1).sum() + rng.laplace(scale=1.0))


VALUES = np.array([0.1, 0.4, 0.9, 0.6])
OTHER = np.array([1.0, 0.4, 0.9, 0.6])
LABELS = np.array([[0.2, 0.0], [0.9, 1.0], [0.4, 1.0]])
RELABELLED = np.array([[0.2, 0.0], [0.9, 1.0], [0.4, 2.0]])
BUGS = [
    Bug("not-a-number", mean_of_nan, mean_without_nan, VALUES, VALUES * [np.nan, 1, 1, 1], 1.0),
    Bug("path", classes_from_labels, given_classes, LABELS, RELABELLED, 1.0),
    Bug("budget", square_as_product, square_from_zero, VALUES * 0, np.array([2.0, 0, 0, 0]), 1.0),
    Bug("path", domain_from_records, given_domain, np.arange(3), np.arange(2), 1.0, 1e-5),
    Bug("budget", covariance_of_raw, covariance_of_clipped, LABELS, LABELS * 9, 1.0),
    Bug("budget", selection_with_half, selection_with_all, VALUES, OTHER, 1.0),
    Bug("", odometer_without_delta, odometer_with_delta, VALUES, OTHER, 1.0),
    Bug(
        *("output", gradient_by_size, gradient_by_expected_size),
        *(torch.ones(3), torch.ones(2), 5.0, 1e-5),
    ),
    Bug("output", scale_of_zero, scale_above_zero, VALUES, OTHER, 1.0),
    Bug("budget", budget_twice, budget_shared, VALUES, OTHER, 1.0),
    Bug("path", rounds_from_data, given_rounds, VALUES, VALUES[:3], 1.0),
    Bug("budget", edges_from_data, given_edges, VALUES, OTHER * [30, 1, 1, 1], 1.0),
    Bug("scale", range_of_data, given_range, VALUES, OTHER, 1.0),
]
"""In the order of this module."""
