"""Mechanisms whose true ε is known, and estimators that keep or break their promise.

Of a module of its own, so that worker processes can import it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from dpframe import (
    Attack,
    BinCounts,
    Claim,
    Estimate,
    Estimator,
    GaussianDP,
    HostMechanism,
    Mechanism,
    PureDP,
    Statistic,
    clopper_pearson_upper,
    estimate_from_boxes,
)


class Bit(Mechanism, name="bit"):
    """Randomised response about one bit: attains its ε exactly."""

    epsilon: float = 1.0
    claimed: bool = True

    def claim(self, pair: Any) -> Claim | None:
        return PureDP(self.epsilon) if self.claimed else None

    def truth(self, pair: Any) -> Claim:
        return PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        honest = jax.random.uniform(key, (n, *data.shape)) < jax.nn.sigmoid(self.epsilon)
        return jnp.where(honest, data, 1 - data)


class Shifted(Mechanism, name="shifted"):
    """Standard normal noise around the data times μ."""

    mu: float = 1.0
    claimed: bool = True

    def claim(self, pair: Any) -> Claim | None:
        return GaussianDP(self.mu) if self.claimed else None

    def truth(self, pair: Any) -> Claim:
        return GaussianDP(self.mu)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data * self.mu + jax.random.normal(key, (n, *data.shape), data.dtype)


class Silent(Mechanism, name="silent"):
    """Noise and nothing else."""

    def claim(self, pair: Any) -> Claim:
        return PureDP(1.0)

    def truth(self, pair: Any) -> Claim:
        return PureDP(0.0)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return jax.random.normal(key, (n, *data.shape), data.dtype)


class Boxed(HostMechanism, name="boxed"):
    """Standard normal noise around the data, in plain Python."""

    def truth(self, pair: Any) -> Claim:
        return GaussianDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return data + rng.standard_normal((n, *data.shape))


class Unknown(Mechanism, name="unknown"):
    """Does not know its true ε."""

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return jax.random.normal(key, (n, *data.shape), data.dtype)


class First(Attack, name="first"):
    """The first coordinate."""

    gives = "score"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0]


class Beyond(Attack, name="beyond"):
    """Decides beyond half."""

    gives = "decision"

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0] > 0.5


class Centred(Attack, name="centred"):
    """Learns where the middle is."""

    gives = "score"

    def fit(self, key: Any, target: Any, train: Any) -> Any:
        return {"middle": np.float32(np.mean([outputs.mean() for outputs in train]))}

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs[:, 0] - state["middle"]


@dataclasses.dataclass(frozen=True)
class Cuts(BinCounts):
    """Bins at quantiles of the pilot."""

    def bind(self, pilot0: Any, pilot1: Any) -> Any:
        both = np.concatenate([pilot0, pilot1])
        return np.quantile(both, np.linspace(0.02, 0.98, 25)).astype(np.float32)


class Greedy(Estimator, name="greedy"):
    """The best of 25 thresholds; unsound, unless it pays for them and for the second rate."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "that nobody looks"
    pays: bool = False

    def statistic(self) -> Statistic:
        return Cuts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        above = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 2:]
        n0, n1 = counts.sum(axis=1)

        def boxes(error: float) -> Any:
            share = error / (2 * len(layout)) if self.pays else error
            fpr = clopper_pearson_upper(above[0], n0, share)
            paid = clopper_pearson_upper(n1 - above[1], n1, share)
            return np.stack([fpr, paid if self.pays else (n1 - above[1]) / n1], axis=1)

        return estimate_from_boxes(boxes, query, epsilon=1.0)

    def extreme(self, layout: Any, trials: Any) -> Any:
        counts = np.zeros((2, len(layout) + 2), np.int64)
        counts[0, 1], counts[1, -1] = trials
        return counts


class Guess(Estimator, name="guess"):
    """Certifies nothing, and says so: an interval around 1."""

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "that ε is about 1"

    def statistic(self) -> Statistic:
        return Cuts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return Estimate(epsilon=1.0, interval=(0.5, 2.0))


class Breaks(Estimator, name="breaks"):
    """Raises."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "nothing"

    def statistic(self) -> Statistic:
        return Cuts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        raise RuntimeError("broken inside")


class Infinite(Estimator, name="infinite"):
    """Certifies what no data can."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "nothing"

    def statistic(self) -> Statistic:
        return Cuts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return Estimate(epsilon=1.0, epsilon_lower=float("inf"))


class Needy(Estimator, name="needy"):
    """Cannot do without a parameter."""

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "nothing"
    level: float

    def statistic(self) -> Statistic:
        return Cuts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return Estimate(epsilon=self.level)


KNOWN: list[Any] = [
    *(Bit, Shifted, Silent, Boxed, Unknown),
    *(First, Beyond, Centred),
    *(Greedy, Guess, Breaks, Infinite, Needy),
]
"""Every plugin of this module."""


def spec(**tables: Any) -> dict[str, Any]:
    """A small audit of a mechanism that attains its ε; tables replace its own."""
    changed = tables.pop("audit", {})
    return {
        "schema": 1,
        "audit": {"name": "known", "trials": 200, "seed": 5, **changed},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "bit"}],
        "attack": [{"use": "beyond"}],
        "estimator": [{"use": "precision"}],
        **tables,
    }
