"""One small audit, repeated: many repeats are drawn and counted together, estimated one by one."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.attack import Target
from dpframe.calibration.programs import count_repeats, draw_repeats, score_repeats
from dpframe.engine.address import (
    EVAL,
    FIT,
    LEARNER,
    PILOT,
    SPLIT,
    Stream,
    base_keys,
    host_generator,
)
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import unstacked
from dpframe.engine.precision import dataset, on_device
from dpframe.engine.trace import check_scores
from dpframe.engine.workers import sample
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.attack import Attack
    from dpframe.engine.trace import Shape
    from dpframe.estimator import Estimate, Estimator, Query
    from dpframe.mechanism import HostMechanism, Mechanism
    from dpframe.pair import Pair
    from dpframe.statistic import Statistic
    from dpframe.types import Floats, HostArray, Tree


class Part(NamedTuple):
    """One estimator behind one attack."""

    attack: Attack
    estimator: Estimator
    query: Query
    certifies: bool
    raw: bool
    """Whether it reads raw scores instead of counts."""


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """An audit of one mechanism on one pair, and where its draws come from."""

    mechanism: Mechanism | HostMechanism
    pair: Pair
    parts: tuple[Part, ...]
    seed: int
    group: str
    """Draw group; with the seed and the number of the repeat it makes an address."""
    shape: Shape
    """Of one output."""
    trials: int
    fit: int
    pilot: int
    rows: int
    """Rows per chunk."""
    prng: str
    precision: str


class Outcome(NamedTuple):
    """What one part said, repeat by repeat."""

    points: Floats
    lows: Floats
    """The certified bound; of an estimator that does not certify the lower end of its interval,
    NaN where it has none."""
    reason: str | None = None
    """Why it could not be run, if it could not."""


def rehearse(rehearsal: Rehearsal, first: int, size: int, wanted: int) -> list[Outcome]:
    """Plays a block of repeats; which block a repeat is in changes nothing.

    Args:
        rehearsal: what to play.
        first: number of the first repeat.
        size: repeats drawn at once; the same for all blocks, so that one program serves them.
        wanted: how many of them are estimated.

    Returns:
        One outcome per part.
    """
    with jax.enable_x64(rehearsal.precision == "float64"):
        block = Block(rehearsal, range(first, first + size))
        return [_outcome(block, part, wanted) for part in rehearsal.parts]


def _outcome(block: Block, part: Part, wanted: int) -> Outcome:
    try:
        found = [_values(block.estimate(part, index), part) for index in range(wanted)]
    except CellError as error:
        nothing = np.full(wanted, np.nan)
        return Outcome(nothing, nothing, str(error))
    points, lows = np.array(found, np.float64).T
    return Outcome(points, lows)


def _values(estimate: Estimate, part: Part) -> tuple[float, float]:
    if not part.certifies:
        return estimate.epsilon, estimate.interval[0] if estimate.interval else math.nan
    bound = estimate.epsilon_lower
    if bound is None or not math.isfinite(bound):
        raise CellError(f"estimate gave the bound {bound}; a certifying estimator gives a number")
    return estimate.epsilon, bound


class Block:
    """Some repeats at work; what several parts need is made once.

    Args:
        rehearsal: what to play.
        repeats: their numbers.
    """

    def __init__(self, rehearsal: Rehearsal, repeats: range) -> None:
        self.rehearsal, self.repeats = rehearsal, repeats
        self.dtype = np.dtype(rehearsal.precision)
        self.data = [dataset(rehearsal.pair, index, self.dtype) for index in (0, 1)]
        self._made: dict[Any, Any] = {}

    def estimate(self, part: Part, index: int) -> Estimate:
        """What a part says in one repeat."""
        estimator, query = part.estimator, part.query
        if part.raw:
            own = [values[index] for values in self.raw(part.attack)]
            rng = host_generator(self.stream(SPLIT, self.repeats[index]))
            return _asked(lambda: estimator.estimate_scores((own[0], own[1]), query, rng))
        statistic = estimator.statistic()
        trees = self.layouts(part.attack, statistic), self.counts(part.attack, statistic)
        layout, counts = jax.tree.map(lambda leaf: leaf[index], trees)
        return _asked(lambda: estimator.estimate(layout, counts, query))

    def stream(self, name: str, repeat: int) -> Stream:
        """The address of a stream of one repeat."""
        return Stream(self.rehearsal.seed, self.rehearsal.group, repeat, name)

    def keys(self, name: str) -> Any:
        """Base keys of a stream, one per repeat."""
        streams = [self.stream(name, repeat) for repeat in self.repeats]
        return base_keys(streams, self.rehearsal.prng)

    def outputs(self, name: str, index: int) -> Any:
        """Outputs of a stream on one dataset, shape [repeats, n, *output dims]."""
        return self._once(("outputs", name, index), lambda: self._draw(name, index))

    def state(self, attack: Attack) -> Tree:
        """What an attack learned, every leaf [repeats, …]."""
        return self._once(("state", attack), lambda: self._fit(attack))

    def scores(self, attack: Attack, name: str, index: int) -> Any:
        """Scores of a stream on one dataset, shape [repeats, n]."""

        def make() -> Any:
            leaves, outputs = unstacked(attack, self.dtype), self.outputs(name, index)
            state = self.state(attack)
            scored = guarded("score", lambda: score_repeats(leaves, state, outputs))
            check_scores(scored[0], outputs.shape[1], attack.gives)
            return scored

        return self._once(("scores", attack, name, index), make)

    def raw(self, attack: Attack) -> list[HostArray]:
        """Scores of the eval stream on the host, on D and on D′."""

        def make() -> list[HostArray]:
            return [np.asarray(self.scores(attack, EVAL, index)) for index in (0, 1)]

        return list(self._once(("raw", attack), make))

    def layouts(self, attack: Attack, statistic: Statistic) -> Tree:
        """What the pilots fixed, every leaf [repeats, …]."""

        def make() -> Tree:
            if not statistic.needs_pilot():
                return ()
            pilot = [np.asarray(self.scores(attack, PILOT, index)) for index in (0, 1)]
            pairs = zip(*pilot, strict=True)
            return _stacked(guarded("bind", lambda: [statistic.bind(*pair) for pair in pairs]))

        return self._once(("layouts", attack, statistic), make)

    def counts(self, attack: Attack, statistic: Statistic) -> Tree:
        """Counts of the eval stream, every leaf [repeats, …] in int64."""

        def make() -> Tree:
            layouts = self.layouts(attack, statistic)
            both = [self._count(attack, statistic, layouts, index) for index in (0, 1)]
            return jax.tree.map(np.add, *both)

        return self._once(("counts", attack, statistic), make)

    def _count(self, attack: Attack, statistic: Statistic, layouts: Tree, index: int) -> Tree:
        scores = self.scores(attack, EVAL, index)
        counted = guarded(
            "counting", lambda: count_repeats(layouts, scores, np.int32(index), statistic=statistic)
        )
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), counted)

    def _draw(self, name: str, index: int) -> Any:
        rehearsal, data = self.rehearsal, self.data[index]
        mechanism, rows = rehearsal.mechanism, rehearsal.rows
        count = {FIT: rehearsal.fit, PILOT: rehearsal.pilot, EVAL: rehearsal.trials}[name]
        if isinstance(mechanism, HostMechanism):

            def draw(repeat: int) -> HostArray:
                chunks = range(-(-count // rows))
                address = self.stream(name, repeat)
                made = [sample(mechanism, data, address, c, index, rows) for c in chunks]
                return np.concatenate(made)[:count]

            drawn = guarded("sample", lambda: np.stack([draw(repeat) for repeat in self.repeats]))
            return drawn.astype(on_device(drawn.dtype, self.dtype))
        leaves, keys = unstacked(mechanism, self.dtype), self.keys(name)
        number = np.int32(index)
        return guarded(
            "sample", lambda: draw_repeats(leaves, keys, data, number, rows=rows, count=count)
        )

    def _fit(self, attack: Attack) -> Tree:
        if not attack.has_fit():
            return ()
        rehearsal = self.rehearsal
        target = Target(rehearsal.mechanism, rehearsal.pair, rehearsal.shape.dims)
        keys = self.keys(LEARNER)
        if attack.learns():
            train = zip(*(np.asarray(self.outputs(FIT, index)) for index in (0, 1)), strict=True)
        else:
            seen = on_device(rehearsal.shape.dtype, self.dtype)
            nothing = np.zeros((0, *rehearsal.shape.dims), seen)
            train = zip(*([nothing] * len(self.repeats) for _ in (0, 1)), strict=True)
        return _stacked(
            guarded("fit", lambda: [attack.fit(keys[n], target, t) for n, t in enumerate(train)])
        )

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made the first time; a CellError is kept and raised again."""
        if key not in self._made:
            try:
                self._made[key] = make()
            except CellError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, CellError):
            raise found
        return found


def _asked(call: Callable[[], Estimate]) -> Estimate:
    found: Estimate = guarded("estimate", call)
    return found


def _stacked(trees: list[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)
