"""Promises of attacks."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.types import Array, HostArray, Key, Tree
from dpframe.draw import row_checks, trace
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.mechanism import Mechanism
from dpframe.testing import plugins
from dpframe.testing.mechanisms import CALLS, DTYPE, ROWS, MechanismOnPair
from dpframe.testing.plugins import LeftOut, Trial


class NoisyIndex(Mechanism, name="noisy-index"):
    """An index from 0 to 3, with exponential noise in favour of 0 on D and of 3 on D′."""

    def sample(self, key: Key, data: Array, n: int) -> Array:
        scores = jax.numpy.arange(4) * (2 * data.ravel()[0] - 1)
        return jax.random.categorical(key, 2 * scores, shape=(n, 1))


@dataclasses.dataclass(frozen=True)
class AttackOnPair:
    """An attack with the mechanism and pair that it is tested on."""

    attack: Attack
    sampled: MechanismOnPair

    @property
    def target(self) -> Target:
        """The target that the attack is fitted to."""
        dims = self.sampled.calls[0][0].shape[1:]
        return Target(self.sampled.mechanism, self.sampled.pair, dims)

    def is_possible(self) -> bool:
        """True if the attack suits the target, and learns and scores without error."""
        with contextlib.suppress(Exception):
            return self.attack.unsuited(self.target) is None and bool(self.scores)
        return False

    @functools.cached_property
    def halves(self) -> tuple[tuple[HostArray, HostArray], tuple[HostArray, HostArray]]:
        """Outputs to learn from, and outputs to score, each on D and on D′."""
        half = CALLS // 2
        first, second = (
            tuple(np.concatenate(calls[part]) for calls in self.sampled.calls)
            for part in (slice(half), slice(half, None))
        )
        return (first[0], first[1]), (second[0], second[1])

    def learn(self) -> Tree:
        """Return the state that the attack learns."""
        train = self.halves[0]
        if not self.attack.learns():
            train = (train[0][:0], train[1][:0])
        state = self.attack.fit(jax.random.key(0), self.target, train)
        return trees.map(np.asarray, state)

    @functools.cached_property
    def state(self) -> Tree:
        """The state learned first."""
        return self.learn()

    def score(self, outputs: HostArray) -> HostArray:
        """Score outputs."""
        return np.asarray(_score(trace.unstacked(self.attack, DTYPE), self.state, outputs))

    @functools.cached_property
    def scores(self) -> tuple[HostArray, HostArray]:
        """Scores of the outputs that were not used for learning."""
        zero, one = (self.score(part) for part in self.halves[1])
        return zero, one


@jax.jit
def _score(attack: Any, state: Any, outputs: Any) -> Any:
    return attack.score(state, outputs)


def _suited(subject: AttackOnPair) -> None:
    reason = subject.attack.unsuited(subject.target)
    assert reason is None, f"it is unsuited to this target: {reason}; choose a suitable target"


def _learns_again(subject: AttackOnPair) -> None:
    learned = subject.learn()
    again, before = trees.leaves(learned), trees.leaves(subject.state)
    structures: list[Any] = [trees.structure(tree) for tree in (learned, subject.state)]
    assert structures[0] == structures[1], "fit returns a different structure the second time"
    for x, y in zip(before, again, strict=True):
        assert x.dtype.kind in "biufc", f"fit returns {x.dtype}; it must be a pytree of numbers"
        assert np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"), (
            "fit learns something different from the same draws and key"
        )


def _gives(subject: AttackOnPair) -> None:
    for scores, outputs in zip(subject.scores, subject.halves[1], strict=True):
        trace.check_scores(scores, len(outputs), subject.attack.gives)
        if subject.attack.hands_out and outputs.size == len(outputs):
            numbers = np.asarray(outputs, scores.dtype).ravel()
            assert np.array_equal(scores, numbers, equal_nan=True), (
                "it declares hands_out = True, but the score of a number is different"
            )


def _alone(subject: AttackOnPair) -> None:
    rows = ROWS * 2
    x, y = (part[:rows] for part in subject.halves[1])
    row_checks.check_rows_alone(subject.score, (x, y))


def _compiled(subject: AttackOnPair) -> None:
    outputs = subject.halves[1][1][:ROWS]
    attack: Any = trace.unstacked(subject.attack, DTYPE)
    plain = np.asarray(attack.score(subject.state, jax.numpy.asarray(outputs)))
    different = ~plugins.close(plain, subject.score(outputs))
    assert different.sum() <= 1 + ROWS // 64, f"compiled, {different.sum()} of {ROWS} scores differ"


def _extremes(subject: AttackOnPair) -> None:
    outputs = subject.halves[1][0]
    odd = [0, 1, 2**24] if outputs.dtype.kind in "iu" else [np.nan, np.inf, -np.inf, 0, 3e38]
    if outputs.dtype.kind == "b":
        raise LeftOut("outputs are booleans")
    rows = np.stack([np.full(outputs.shape[1:], value, outputs.dtype) for value in odd])
    assert subject.score(rows).shape == (len(rows),)


def _larger_means_d_prime(subject: AttackOnPair) -> None:
    zero, one = (np.asarray(part, np.float64) for part in subject.scores)
    zero, one = (np.nan_to_num(part, nan=-np.inf, posinf=np.inf) for part in (zero, one))
    higher, lower = int(np.sum(one > zero)), int(np.sum(one < zero))
    z = (lower - higher) / max(1.0, np.sqrt(higher + lower))
    assert log_ndtr(-z) > np.log(plugins.ERROR), (
        f"D′ scores higher than D in {higher} of {higher + lower} pairs of outputs: larger scores "
        "must mean D′"
    )
    if log_ndtr(z) > np.log(plugins.ERROR):
        raise LeftOut("it hardly tells D from D′ on this target, in either direction")


def _suitable(trial: Callable[[AttackOnPair], None]) -> Callable[[AttackOnPair], None]:
    """Leave a trial out for attacks that it does not suit."""

    def tried(subject: AttackOnPair) -> None:
        if subject.attack.gives == "canaries":
            raise LeftOut("it takes the canaries of a run, which only few mechanisms release")
        if type(subject.attack).see is not Attack.see:
            raise LeftOut("it looks at answers of black boxes, but outputs here are arrays")
        if trial is not _suited and subject.attack.unsuited(subject.target) is not None:
            raise LeftOut("it does not suit the target")
        trial(subject)

    return tried


TRIALS: tuple[Trial, ...] = (
    ("suits the target", _suitable(_suited)),
    ("learns the same from the same draws", _suitable(_learns_again)),
    ("returns what it declares, one per output", _suitable(_gives)),
    ("scores every output alone", _suitable(_alone)),
    ("same results compiled and uncompiled", _suitable(_compiled)),
    ("scores NaN, infinities and other extremes", _suitable(_extremes)),
    ("larger scores mean D′", _suitable(_larger_means_d_prime)),
)
