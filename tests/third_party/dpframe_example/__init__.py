"""A third party's mechanism, attack, estimator and executor, from dpframe's public names."""

import math
from concurrent.futures import Future
from typing import Annotated

import cloudpickle
import jax

from dpframe.plugins import (
    ApproxDP,
    Attack,
    DecisionCounts,
    Estimate,
    Estimator,
    Executor,
    Ge,
    Gt,
    Lt,
    Mechanism,
    PureDP,
    hookimpl,
)


class UniformNoise(Mechanism, name="uniform-noise"):
    """x + Uni(−w, w): (0, δ)-DP with δ = distance/2w, and never ε-DP for any finite ε."""

    width: Annotated[float, Gt(0)] = 10.0
    """Half the width w of the noise."""
    epsilon: Annotated[float, Gt(0)] | None = None
    """Claims ε-DP, wrongly, if given."""

    def claim(self, pair):
        if self.epsilon is not None:
            return PureDP(self.epsilon)
        return ApproxDP(epsilon=0.0, delta=min(0.999, pair.distance(math.inf) / (2 * self.width)))

    def sample(self, key, data, n):
        shape = (n, *data.shape)
        return data + jax.random.uniform(key, shape, minval=-self.width, maxval=self.width)


class OneCoordinate(Attack):
    """The base of attacks on one coordinate; it has no name, so it is no plugin."""

    gives = "decision"

    threshold: float = 0.5
    """Decide D′ above it."""

    def above(self, outputs, place):
        return outputs.reshape(len(outputs), -1)[:, place] > self.threshold


class FirstCoordinate(OneCoordinate, name="first-coordinate"):
    """Decides by the first coordinate."""

    def score(self, state, outputs):
        return self.above(outputs, 0)


class LastCoordinate(OneCoordinate, name="last-coordinate"):
    """Decides by the last coordinate."""

    threshold: float = 0.25

    def score(self, state, outputs):
        return self.above(outputs, -1)


class Advantage(Estimator, name="advantage"):
    """The advantage TPR − FPR as an ε at δ = 0: an estimate without a bound."""

    certifies = False
    assumption = "none; not a bound"
    floor: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Advantages below it count as none."""

    def statistic(self):
        return DecisionCounts()

    def estimate(self, layout, counts, query):
        rates = counts[:, 1] / counts.sum(axis=1)
        advantage = max(0.0, float(abs(rates[1] - rates[0])))
        advantage = advantage if advantage >= self.floor else 0.0
        epsilon = math.log((1 + advantage) / (1 - advantage)) if advantage < 1 else math.inf
        return Estimate(epsilon=epsilon, notes=(f"advantage {advantage:.3g}",))


@hookimpl
def dpframe_mechanisms():
    return [UniformNoise]


@hookimpl
def dpframe_attacks():
    return [FirstCoordinate, LastCoordinate]


@hookimpl
def dpframe_estimators():
    return [Advantage]


class Tiny:
    """A report of one line for each cell."""

    suffixes = (".tiny",)

    def document(self, record):
        return "".join(f"{cell.id} {cell.verdict}\n" for cell in record.cells)


@hookimpl
def dpframe_reports():
    return [Tiny()]


class Inline(Executor):
    """Does a task as soon as it is submitted, pickled and loaded again as if it had travelled."""

    schemes = ("inline",)
    capacity = 2

    def submit(self, task):
        future = Future()
        try:
            future.set_result(cloudpickle.loads(cloudpickle.dumps(task))())
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self):
        pass


@hookimpl
def dpframe_executors():
    return [Inline]
