"""Metric differential privacy: the allowed loss grows with the distance of two inputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from dpframe.claims.claim import PureDP, check_parameter

ROUNDING = 1e-6  # relative difference of two distances that may be rounding


def _norm(order: float) -> Callable[[Any, Any], float]:
    def distance(x: Any, y: Any) -> float:
        import numpy as np

        one, other = (np.asarray(part, np.float64) for part in (x, y))
        if one.shape != other.shape:
            raise ValueError(f"no distance between shapes {one.shape} and {other.shape}")
        return float(np.linalg.norm((one - other).ravel(), order))

    return distance


def _hamming(x: Any, y: Any) -> float:
    if len(x) != len(y):
        raise ValueError(f"no Hamming distance between lengths {len(x)} and {len(y)}")
    return float(sum(one != other for one, other in zip(x, y, strict=True)))


METRICS: dict[str, Callable[[Any, Any], float]] = {
    "l1": _norm(1),
    "euclidean": _norm(2),
    "linf": _norm(math.inf),
    "hamming": _hamming,
}
"""Metrics by name: of vectors of equal shape, and the number of places at which lists differ."""


@dataclasses.dataclass(frozen=True)
class MetricDP(PureDP):
    """ε·d(x, x′)-DP for two inputs at distance d(x, x′) [Chatzikokolakis2013, definition 1].

    `between` computes and checks the distance. A number is taken as it is.

    Raises:
        ValueError: ε or the distance is negative or not finite.
    """

    unit_epsilon: float
    """ε for inputs at distance 1."""
    distance: float
    """d(x, x′)."""
    metric: str = ""
    """The name of the metric, for the record."""
    epsilon: float = dataclasses.field(init=False)
    """ε of this pair: `unit_epsilon` times `distance`."""
    kind: ClassVar[str] = "metric-dp"

    def __post_init__(self) -> None:
        check_parameter("unit_epsilon", self.unit_epsilon)
        check_parameter("distance", self.distance)
        object.__setattr__(self, "epsilon", self.unit_epsilon * self.distance)
        super().__post_init__()

    def parameters(self) -> dict[str, Any]:
        names = ("unit_epsilon", "distance", "metric")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def between(
        cls,
        unit_epsilon: float,
        x: Any,
        y: Any,
        metric: str | Callable[[Any, Any], float] = "euclidean",
        through: Iterable[Any] = (),
    ) -> MetricDP:
        """Return the claim for two inputs, and check that their distance is one.

        It must be finite, not negative, symmetric, and 0 from an input to itself. The way through
        a third input must not be shorter, which finds a squared distance in place of a Euclidean
        one. The third inputs are those of `through`; arrays of floats and numbers are also
        tested with their mean.

        Args:
            unit_epsilon: ε for inputs at distance 1.
            x: an input that the metric accepts.
            y: the other input.
            metric: "l1", "euclidean", "linf", "hamming", or a function of two inputs.
            through: further inputs.

        Raises:
            ValueError: there is no such metric, or the function is not one.
        """
        named = metric if isinstance(metric, str) else getattr(metric, "__name__", "the distance")
        if isinstance(metric, str):
            if metric not in METRICS:
                raise ValueError(f"metric: {metric!r} is not one of {', '.join(METRICS)}")
            measure = METRICS[metric]
        else:
            measure = metric

        def distance(one: Any, other: Any, of: str) -> float:
            value = float(measure(one, other))
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{named} is not a metric: d({of}) = {value:g}")
            return value

        direct = distance(x, y, "x, y")
        for one, of in ((x, "x, x"), (y, "y, y")):
            if (own := distance(one, one, of)) > ROUNDING * (1 + direct):
                raise ValueError(f"{named} is not a metric: d({of}) = {own:g}, not 0")
        back = distance(y, x, "y, x")
        if abs(back - direct) > ROUNDING * direct:
            raise ValueError(f"{named} is not a metric: d(x, y) = {direct:g}, d(y, x) = {back:g}")
        means = [] if isinstance(metric, str) else _means(x, y)
        for third in (*means, *through):
            around = distance(x, third, "x, z") + distance(third, y, "z, y")
            if around < direct * (1 - ROUNDING):
                raise ValueError(
                    f"{named} is not a metric: d(x, y) = {direct:g}, but by way of a third input "
                    f"{around:g}; is it the square of a distance? Give MetricDP(epsilon, d) to "
                    "claim it all the same"
                )
        return cls(unit_epsilon, direct, named)


def _means(x: Any, y: Any) -> list[Any]:
    """Return the mean of two floats or float arrays of one shape; nothing for other inputs."""
    import numpy as np

    both = [np.asarray(one) for one in (x, y) if isinstance(one, float) or hasattr(one, "dtype")]
    if len(both) < 2 or {one.dtype.kind for one in both} != {"f"} or both[0].shape != both[1].shape:
        return []
    mean = (both[0] + both[1]) / 2
    return [mean if mean.ndim else float(mean)]
