"""Learn the shapes of outputs and scores, and arrange cells that share their draws."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.checks import guarded
from dpframe.errors import CellError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.sampling.address import (
    Shape,
    key_of,
    on_device,
    precision_of,
    run_dtype,
    shape_of_dataset,
)
from dpframe.sampling.compile_cache import remembered
from dpframe.workers.trial_call import ROWS, asking_of, first_call, seen_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.common.types import Array, Tree
    from dpframe.interfaces.attack import Attack
    from dpframe.interfaces.mechanism import Mechanism
    from dpframe.interfaces.plugin import Plugin
    from dpframe.interfaces.statistic import Statistic
    from dpframe.spec.audit import Cell, RunSettings
    from dpframe.workers.scheduling import Source


# What a pass may draw beside what it counts, and in which precision it is scored.


ENOUGH = 100_000
"""Draws per dataset to learn or to choose from, where they cost nothing."""

FEW = 1_000
"""For a black box at least so many, unless it is counted on fewer."""


def learning_draws(asked: int | None, mechanism: Mechanism | HostMechanism, trials: int) -> int:
    """Draws per dataset of a fit or pilot stream.

    The releases of a black box are dear: a tenth of those that are counted, and never more than
    those.

    Args:
        asked: what the spec says, if it says anything.
        mechanism: what is drawn from.
        trials: draws per dataset that are counted.
    """
    if asked is not None:
        return asked
    if not isinstance(mechanism, HostMechanism):
        return ENOUGH
    return min(trials, max(FEW, trials // 10), ENOUGH)


def resolved(run: RunSettings, mechanism: Mechanism | HostMechanism, trials: int) -> RunSettings:
    """The settings of one pass, with nothing left open.

    Black boxes are scored in float64 whatever the precision of simulations: what they return is
    exact, and scoring costs nothing beside making it.
    """
    fit, pilot = (learning_draws(asked, mechanism, trials) for asked in (run.fit, run.pilot))
    found = run._replace(fit=fit, pilot=pilot)
    exact = isinstance(mechanism, HostMechanism)
    return found._replace(precision="float64") if exact else found


# Cells that share their draws, arranged so that one program serves them all.
#
# Mechanisms that differ in traced floats only become *lanes*: their leaves are stacked, and one
# program runs over them with one shared key. Attacks are arranged in the same way, per statistic,
# as
# *scorers*.


LANES = 8
"""Lanes are padded to this, or to the next power of two above it.

One program then serves one value of ε or eight, so that a cell's counts cannot depend on how many
other values the spec has, not even through the rounding of a differently fused program.
"""


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Attacks of one structure whose scores go into one statistic."""

    attacks: tuple[Attack, ...]
    statistic: Statistic


def stack(plugins: Sequence[Plugin], dtype: np.dtype[Any]) -> Any:
    """One plugin whose leaves hold the values of all, shape [plugins].

    Every leaf becomes an array of the run's dtype, since a Python float, an int and a float32
    would be three different traces.
    """
    return jax.tree.map(lambda *values: np.asarray(values, dtype), plugins[0], *plugins[1:])


def unstacked(plugin: Plugin, dtype: np.dtype[Any]) -> Any:
    """One plugin with leaves of the run's dtype."""
    return jax.tree.map(lambda value: np.asarray(value, dtype), plugin)


def pad(tree: Tree, lanes: int) -> Tree:
    """Repeats the last entry of every leaf's first axis until it has padded length."""
    padded = max(LANES, 1 << (lanes - 1).bit_length())
    return jax.tree.map(
        lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], padded - lanes, axis=0)]), tree
    )


def each_lane(
    function: Callable[..., Any], lanes: Array | int, results: Tree, *stacked: Tree
) -> Tree:
    """Updates the results of the first `lanes` lanes, in a loop, inside a traced program.

    A loop rather than `vmap`: what does not depend on the lane, such as the noise, is then moved
    out of the loop and made once, where a vectorised program would make it again for each lane.

    Args:
        function: called with one lane's result and one lane's part of every stacked tree; gives
            the new result.
        lanes: how many; may be traced.
        results: every leaf [padded lanes, …].
        stacked: the same.
    """

    def step(lane: Array, results: Tree) -> Tree:
        def take(leaf: Array) -> Any:
            return jax.lax.dynamic_index_in_dim(leaf, lane, keepdims=False)

        new = function(*jax.tree.map(take, (results, *stacked)))
        return jax.tree.map(
            lambda leaf, value: jax.lax.dynamic_update_index_in_dim(leaf, value, lane, 0),
            results,
            new,
        )

    return jax.lax.fori_loop(0, lanes, step, results)


def structure(plugin: Plugin) -> Any:
    """What two plugins must share to be stacked: class, static fields, and which leaves exist."""
    return jax.tree.structure(plugin)


# What a mechanism's outputs and an attack's scores look like, found without counting anything.


UNFINISHED = "did not come back when it was tried for another cell"


class Tracer:
    """Finds shapes by tracing, once per structure, without drawing anything that counts.

    Args:
        run: the settings of the audit.
        prng: name of the generator.
        source: where outputs of black boxes come from; these have to be called to be known.
    """

    def __init__(self, run: RunSettings, prng: str, source: Source) -> None:
        self.run, self.prng, self.source = run, prng, source
        self.shapes: dict[Any, Shape | CellError] = {}
        self.scored: dict[Any, CellError | None] = {}

    def output_shape(self, cell: Cell) -> Shape:
        """Shape of one output; raises CellError where the mechanism cannot be run at all."""
        mechanism = cell.mechanism
        ways = asking_of(cell) if isinstance(mechanism.value, HostMechanism) else None
        key = (structure(mechanism.value), mechanism.distribution, cell.pair.value, ways)
        shape: Shape = _remember(self.shapes, key, "sample", lambda: self._output_shape(cell))
        return shape

    def check_attack(self, cell: Cell, shape: Shape) -> None:
        """Raises CellError where an attack without a state cannot score such outputs.

        One that has a `fit` cannot be traced before it has learned; it is checked then.
        """
        if not cell.attack.value.has_fit():
            run = resolved(self.run, cell.mechanism.value, cell.trials)
            key = (structure(cell.attack.value), shape, run.precision)
            with precision_of(run):
                _remember(self.scored, key, "score", lambda: self._check_attack(cell, shape, run))

    def _output_shape(self, cell: Cell) -> Shape:
        mechanism = cell.mechanism.value
        if isinstance(mechanism, HostMechanism):
            return first_call(mechanism, cell, self.run, self.source)
        dtype = run_dtype(self.run)
        leaves = unstacked(mechanism, dtype)
        words = np.zeros(2, np.uint32)  # of no key in particular
        data = guarded("the pair", lambda: shape_of_dataset(cell.pair.value, dtype))

        def find() -> Shape:
            sample = partial(_outputs, leaves, prng=self.prng)
            return _shape_of(guarded("sample", lambda: jax.eval_shape(sample, words, data)))

        return remembered(_outputs, (leaves, words, data), {"prng": self.prng}, find)

    def _check_attack(self, cell: Cell, shape: Shape, run: RunSettings) -> None:
        attack, rows, dtype = cell.attack.value, ROWS, run_dtype(run)
        shape = seen_shape(attack, shape, dtype)
        seen = on_device(shape.dtype, dtype)
        outputs = guarded(
            "an attack cannot read these outputs: JAX",
            lambda: jax.eval_shape(lambda: jnp.zeros((rows, *shape.dims), seen)),
        )
        leaves = unstacked(attack, dtype)
        scores = guarded("score", lambda: jax.eval_shape(leaves.score, (), outputs))
        check_scores(scores, rows, attack.gives)


def declared_rows(mechanism: Mechanism | HostMechanism) -> int | None:
    """Rows per chunk that a mechanism asks for; raises CellError where that is no number."""
    rows = guarded("rows", lambda: mechanism.rows)
    if rows is None:
        return None
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise CellError(f"rows is {rows!r}; a mechanism gives releases per chunk, at least 1")
    return rows


def _outputs(mechanism: Any, words: Any, data: Any, *, prng: str) -> Any:
    return mechanism.sample(key_of(words, prng), data, ROWS)


def _shape_of(outputs: Any) -> Shape:
    if not hasattr(outputs, "shape"):
        raise CellError(f"sample returned {type(outputs).__name__}, not an array")
    check_outputs(outputs, ROWS)
    return Shape(tuple(outputs.shape[1:]), np.dtype(outputs.dtype))


def check_outputs(outputs: Any, rows: int) -> None:
    """Raises CellError unless there is one output per row asked for."""
    shape = tuple(getattr(outputs, "shape", ()))
    if shape[:1] != (rows,):
        raise CellError(f"sample(…, n={rows}) gave shape {shape}; the first axis must be n")


def check_scores(scores: Any, rows: int, gives: str) -> None:
    """Raises CellError unless scores are what their attack declares, one per output.

    Args:
        scores: what an attack returned; may be traced.
        rows: number of outputs.
        gives: "decision" (booleans), "score" (floats) or "canaries" (floats, [rows, 2, m]).
    """
    shape = tuple(getattr(scores, "shape", ()))
    if gives == "canaries":
        if shape[:2] != (rows, 2) or len(shape) != 3 or not shape[2]:
            raise CellError(
                f"score returned shape {shape} for {rows} outputs; for canaries it must be "
                f"({rows}, 2, m), scores and memberships"
            )
        if not jnp.issubdtype(scores.dtype, jnp.floating):
            raise CellError(f"score returned {scores.dtype}; canaries are floats")
        return
    if shape != (rows,):
        raise CellError(f"score returned shape {shape} for {rows} outputs; it must be ({rows},)")
    kind = "decision" if scores.dtype == np.bool_ else "score"
    if kind == "score" and not jnp.issubdtype(scores.dtype, jnp.floating):
        raise CellError(f"score returned {scores.dtype}; booleans are decisions, floats scores")
    if kind != gives:
        raise CellError(
            f"score returned a {kind} ({scores.dtype}), but the attack says gives = {gives!r}"
        )


def score_dims(attack: Attack, state: Tree, shape: Shape, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Shape of what an attack makes of one output: () of decisions and scores.

    Args:
        attack: with what it learned.
        state: that.
        shape: of what it sees of one output.
        dtype: of the run.
    """
    if attack.gives != "canaries":
        return ()
    leaves = unstacked(attack, dtype)
    seen = on_device(shape.dtype, dtype)
    outputs = jax.eval_shape(lambda: jnp.zeros((ROWS, *shape.dims), seen))
    scores = guarded("score", lambda: jax.eval_shape(leaves.score, state, outputs))
    check_scores(scores, ROWS, attack.gives)
    return tuple(scores.shape[1:])


def _remember(known: dict[Any, Any], key: Any, what: str, find: Callable[[], Any]) -> Any:
    if key not in known:
        known[key] = CellError(
            f"{what} {UNFINISHED}"
        )  # until it is: whoever is at it may be given up
        try:
            known[key] = find()
        except CellError as error:
            known[key] = error
    if isinstance(known[key], CellError):
        raise known[key]
    return known[key]
