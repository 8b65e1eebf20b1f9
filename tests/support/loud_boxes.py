"""Eight functions with a loud leak each, by records outside the schema or by the shape of answers.

With `flawed` they have a quieter mistake behind it: half of the noise, no clipping, or half of the
sensitivity. Without, they satisfy a claim of 1 for all other answers. Data are lists of (age, sex).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe import HostMechanism, PureDP

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = [[31.0, "m"], [47.0, "f"], [12.0, "m"], [80.0, "f"], [66.0, "m"], [25.0, "f"]]
SCHEMA = [{"name": "age", "low": 0, "high": 100}, {"name": "sex", "categories": ["m", "f"]}]


def ages(data: Any) -> Any:
    return np.array([math.nan if age is None else age for age, _ in data], float)


def checked(data: Any) -> Any:
    x = ages(data)
    if np.isnan(x).any():
        raise ValueError("NaN")
    if np.isinf(x).any():
        raise TypeError("infinite")
    return x


def noisy(rng: Any, x: float, scale: float) -> float:
    return float(x + rng.laplace(0, scale))


def nan_out_half_noise(rng: Any, data: Any, flawed: bool) -> Any:
    return noisy(rng, np.clip(ages(data), 0, 100).sum(), 50.0 if flawed else 100.0)


def nan_out_not_clipped(rng: Any, data: Any, flawed: bool) -> Any:
    x = ages(data)
    x = np.where(np.isinf(x), math.nan, x if flawed else np.clip(x, 0, 100))
    return noisy(rng, x.sum(), 100.0)


def raises_half_noise(rng: Any, data: Any, flawed: bool) -> Any:
    return noisy(rng, np.clip(checked(data), 0, 100).sum(), 50.0 if flawed else 100.0)


def raises_not_clipped(rng: Any, data: Any, flawed: bool) -> Any:
    x = checked(data)
    return noisy(rng, (x if flawed else np.clip(x, 0, 100)).mean(), 100.0 / len(x))


def unknown_raises_half_sensitivity(rng: Any, data: Any, flawed: bool) -> Any:
    counts = np.zeros(2)
    for _, sex in data:
        counts[{"m": 0, "f": 1}[sex]] += 1
    return [noisy(rng, count, 1.0 if flawed else 2.0) for count in counts]


def shape_by_class_half_sensitivity(rng: Any, data: Any, flawed: bool) -> Any:
    kinds = sorted({sex for _, sex in data}, key=repr)
    counts = [sum(sex == one for _, sex in data) for one in kinds]
    return np.array(counts) + rng.laplace(0, 1.0 if flawed else 2.0, len(kinds))


def nan_at_times_half_noise(rng: Any, data: Any, flawed: bool) -> Any:
    x = ages(data)
    if rng.random() < 0.02 + 0.3 * np.isnan(x).any():
        return math.nan
    return noisy(rng, np.clip(np.nan_to_num(x), 0, 100).sum(), 50.0 if flawed else 100.0)


def text_out_half_noise(rng: Any, data: Any, flawed: bool) -> Any:
    if not all(data_sex in ("m", "f") for _, data_sex in data):
        return "unknown"
    x = np.clip(np.nan_to_num(ages(data)), 0, 100)
    return noisy(rng, x.sum(), 50.0 if flawed else 100.0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        nan_out_half_noise,
        nan_out_not_clipped,
        raises_half_noise,
        raises_not_clipped,
        unknown_raises_half_sensitivity,
        shape_by_class_half_sensitivity,
        nan_at_times_half_noise,
        text_out_half_noise,
    )
}


class Library(HostMechanism, name="library"):
    """One of the functions."""

    function: str
    flawed: bool = False

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> Any:
        return FUNCTIONS[self.function](rng, data, self.flawed)
