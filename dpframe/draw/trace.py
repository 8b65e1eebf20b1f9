"""Learn the shapes of outputs and scores, stack mechanisms and attacks, show them outputs."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import is_floating, jax, jnp
from dpframe.common.text import shown
from dpframe.common.types import Array, HostArray, Tree
from dpframe.draw import requests, threefry, trial_call
from dpframe.draw.streams import Shape, as_scored, on_device, precision_of, shape_of_dataset
from dpframe.errors import CellError
from dpframe.interfaces.attack import ABSENT, BEFORE, Answers, Attack
from dpframe.interfaces.mechanism import HostMechanism, Mechanism
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.spec.audit import Cell, RunSettings

MOST_CHEAP_DRAWS = 100_000  # draws per dataset of a fit or pilot stream if they are cheap
LEAST_COSTLY_DRAWS = 1_000  # the least of these draws for a black box, unless fewer are counted


def resolved(run: RunSettings, mechanism: Mechanism | HostMechanism, trials: int) -> RunSettings:
    """Return the settings of one pass, with sizes of the fit and pilot streams.

    Releases of a black box are costly, so these streams have a tenth of the trials, and never more
    than the trials. Its outputs are exact and cheap to score, so they are always scored in float64.
    """
    exact = isinstance(mechanism, HostMechanism)
    usual = (
        min(trials, max(LEAST_COSTLY_DRAWS, trials // 10), MOST_CHEAP_DRAWS)
        if exact
        else MOST_CHEAP_DRAWS
    )
    return run._replace(
        fit=usual if run.fit is None else run.fit,
        pilot=usual if run.pilot is None else run.pilot,
        precision="float64" if exact else run.precision,
    )


# Mechanisms that differ only in traced floats are the variants of a parameter batch: their leaves
# are stacked, and one program runs over them with one key. Attacks are stacked in the same way,
# per statistic.


SMALLEST_BATCH = 8
"""Variants are padded to this, or to the next power of two above it.

One program then serves one value of ε or eight, so that a cell's counts cannot depend on how many
other values the spec has, not even through the rounding of a differently fused program.
"""


def stack(plugins: Sequence[Plugin], dtype: np.dtype[Any]) -> Any:
    """Return one plugin whose leaves hold the values of all, shape [plugins].

    Leaves become arrays of the run's dtype, because a Python float, an int and a float32 would be
    three different traces.
    """
    return trees.map(lambda *values: np.asarray(values, dtype), plugins[0], *plugins[1:])


def unstacked(plugin: Plugin, dtype: np.dtype[Any]) -> Any:
    """Return a plugin with leaves of the run's dtype."""
    return trees.map(lambda value: np.asarray(value, dtype), plugin)


def pad(tree: Tree, variants: int) -> Tree:
    """Repeat the last entry of every leaf's first axis up to the padded length."""
    padded = max(SMALLEST_BATCH, 1 << (variants - 1).bit_length())
    return trees.map(
        lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], padded - variants, axis=0)]), tree
    )


def each_variant(
    function: Callable[..., Any], variants: Array | int, results: Tree, *stacked: Tree
) -> Tree:
    """Update the results of the first `variants` variants in a loop, inside a traced program.

    XLA computes values that do not depend on the variant, such as the noise, once before the loop.
    Under `vmap` it would compute them for each variant. `function` maps a variant's result and its
    part of every stacked tree to the new result; every leaf is [padded variants, …], and `variants`
    may be traced.
    """

    def step(variant: Array, results: Tree) -> Tree:
        def take(leaf: Array) -> Any:
            return jax.lax.dynamic_index_in_dim(leaf, variant, keepdims=False)

        new = function(*trees.map(take, (results, *stacked)))
        return trees.map(
            lambda leaf, value: jax.lax.dynamic_update_index_in_dim(leaf, value, variant, 0),
            results,
            new,
        )

    return jax.lax.fori_loop(0, variants, step, results)


ROWS = 2  # outputs of a traced call, enough to distinguish their axis from the others

UNFINISHED = "did not return when it was tried for another cell"


class Tracer:
    """Finds shapes of outputs and scores, once per structure, without a counted draw.

    Black boxes are called by the source; other mechanisms are traced.
    """

    def __init__(self, run: RunSettings, prng: str, source: requests.WorkerSource) -> None:
        self.run, self.prng, self.source = run, prng, source
        self.shapes: dict[Any, Shape | CellError] = {}
        self.scored: dict[Any, CellError | None] = {}

    def output_shape(self, cell: Cell) -> Shape:
        """Return the shape of one output; raise CellError if the mechanism cannot be run."""
        mechanism = cell.mechanism
        ways = trial_call.asking_of(cell) if isinstance(mechanism.value, HostMechanism) else None
        key = (trees.structure(mechanism.value), mechanism.distribution, cell.pair.value, ways)
        shape: Shape = _remember(self.shapes, key, "sample", lambda: self._output_shape(cell))
        return shape

    def check_attack(self, cell: Cell, shape: Shape) -> None:
        """Raise CellError if an attack without a state cannot score such outputs.

        An attack with a `fit` is checked after it has learned.
        """
        if not cell.attack.value.has_fit():
            run = resolved(self.run, cell.mechanism.value, cell.trials)
            key = (trees.structure(cell.attack.value), shape, run.precision)
            on_host = isinstance(cell.mechanism.value, HostMechanism)
            with precision_of(run, on_host=on_host):
                _remember(self.scored, key, "score", lambda: self._check_attack(cell, shape, run))

    def _output_shape(self, cell: Cell) -> Shape:
        mechanism = cell.mechanism.value
        if isinstance(mechanism, HostMechanism):
            return trial_call.first_call(mechanism, cell, self.run, self.source)
        dtype = np.dtype(self.run.precision)
        leaves = unstacked(mechanism, dtype)
        words = np.zeros(2, np.uint32)  # of any key
        data = call_plugin("the pair", shape_of_dataset, cell.pair.value, dtype)

        def sample(words: Any, data: Any) -> Any:
            return leaves.sample(threefry.key_of(words, self.prng), data, ROWS)

        outputs = call_plugin("sample", jax.eval_shape, sample, words, data)
        if not hasattr(outputs, "shape"):
            raise CellError(f"sample returned {type(outputs).__name__}, not an array")
        check_outputs(outputs, ROWS)
        return Shape(tuple(outputs.shape[1:]), np.dtype(outputs.dtype))

    def _check_attack(self, cell: Cell, shape: Shape, run: RunSettings) -> None:
        attack, dtype = cell.attack.value, np.dtype(run.precision)
        shape = seen_shape(attack, shape, dtype)
        seen, leaves = on_device(shape.dtype, dtype), unstacked(attack, dtype)
        dims = (ROWS, *shape.dims)
        if attack.portable and isinstance(cell.mechanism.value, HostMechanism):
            scores = call_plugin("score", leaves.score, (), np.zeros(dims, seen))
            check_scores(np.asarray(scores), ROWS, attack.gives)
            return

        with precision_of(run):  # of a black box, if nothing has imported JAX before
            outputs = call_plugin(
                "an attack cannot read these outputs: JAX",
                lambda: jax.eval_shape(lambda: jnp.zeros(dims, seen)),
            )
            scores = call_plugin(
                "score", jax.eval_shape, lambda own, rows: own.score((), rows), leaves, outputs
            )
        check_scores(scores, ROWS, attack.gives)


def declared_rows(mechanism: Mechanism | HostMechanism) -> int | None:
    """Return the rows per chunk that a mechanism asks for; CellError if it is not a number."""
    rows = call_plugin("rows", getattr, mechanism, "rows")
    if rows is None:
        return None
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise CellError(
            f"rows is {rows!r}; it must be the number of releases in a chunk, at least 1"
        )
    return rows


def check_outputs(outputs: Any, rows: int) -> None:
    """Raise CellError unless there is one output per row."""
    shape = tuple(getattr(outputs, "shape", ()))
    if shape[:1] != (rows,):
        raise CellError(f"sample(…, n={rows}) gave shape {shape}; the first axis must be n")


def check_scores(scores: Any, rows: int, gives: str) -> None:
    """Raise CellError unless scores are what their attack declares, one per output.

    Args:
        scores: scores of an attack; may be traced.
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
        if not is_floating(scores.dtype):
            raise CellError(f"score returned {scores.dtype}; scores of canaries must be floats")
        return
    if shape != (rows,):
        raise CellError(f"score returned shape {shape} for {rows} outputs; it must be ({rows},)")
    kind = "decision" if scores.dtype == np.bool_ else "score"
    if kind == "score" and not is_floating(scores.dtype):
        raise CellError(f"score returned {scores.dtype}; decisions must be booleans, scores floats")
    if kind != gives:
        raise CellError(
            f"score returned a {kind} ({scores.dtype}), but the attack declares gives = {gives!r}"
        )


def score_dims(attack: Attack, state: Tree, shape: Shape, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the shape of an attack's score of one output: () except for canaries.

    `shape` is that of one output as the attack sees it.
    """
    if attack.gives != "canaries":
        return ()
    leaves, dims = unstacked(attack, dtype), (ROWS, *shape.dims)
    outputs = np.zeros(dims, on_device(shape.dtype, dtype))
    score = leaves.score if attack.portable else partial(jax.eval_shape, leaves.score)
    scores: Any = call_plugin("score", score, state, outputs)
    check_scores(scores, ROWS, attack.gives)
    return tuple(scores.shape[1:])


def _remember(remembered: dict[Any, Any], key: Any, what: str, find: Callable[[], Any]) -> Any:
    if key not in remembered:
        # A placeholder: this thread may be abandoned before it has found the value.
        remembered[key] = CellError(f"{what} {UNFINISHED}")
        try:
            remembered[key] = find()
        except CellError as error:
            remembered[key] = error
    if isinstance(remembered[key], CellError):
        raise remembered[key]
    return remembered[key]


# Attacks see arrays of numbers unchanged, and answers of any kind through `Attack.see`.


COMPANY = (
    "see gave answers different features when other answers were next to them: it must look at "
    "every answer independently"
)


def seen(attack: Attack, outputs: HostArray, shape: Shape, run: np.dtype[Any]) -> HostArray:
    """Return outputs as an attack sees them, shape [n, …], in the dtype of the run.

    `outputs` have shape [n, *dims] in the dtype in which they are scored, or are rows of answers.

    Raises:
        CellError: `see` did not return one row of numbers for each answer.
    """
    if shape.asking is None:
        return outputs
    answers = Answers(outputs)
    if type(attack).see is Attack.see:
        numbers = answers.numbers
        if shape.native is not None and math.prod(shape.native) <= shape.width:
            # In their original shape, because the attack asks for nothing else.
            numbers = numbers[:, : math.prod(shape.native)].reshape(len(numbers), *shape.native)
        return as_scored(numbers, run)
    view = call_plugin("see", lambda: np.asarray(attack.see(answers)))
    if view.ndim < 1 or len(view) != len(outputs) or view.dtype.kind not in "biuf":
        raise CellError(
            f"see returned {shown(view)} for {len(outputs)} answers; it must return an array of "
            "numbers with one row per answer"
        )
    return as_scored(view, run)


def seen_shape(attack: Attack, shape: Shape, run: np.dtype[Any]) -> Shape:
    """Return the shape of one output as an attack sees it."""
    if shape.asking is None:
        return shape
    blank = np.full((2, *shape.dims), ABSENT, np.uint64)
    blank[:, :BEFORE] = 0
    view = seen(attack, blank, shape, run)
    return Shape(view.shape[1:], view.dtype)


def check_seen_alone(attack: Attack, outputs: HostArray, shape: Shape, run: np.dtype[Any]) -> None:
    """Show answers in another order and number; raise CellError if one depends on others."""
    if shape.asking is None or type(attack).see is Attack.see or len(outputs) < 2:
        return
    order = np.random.default_rng(len(outputs)).permutation(len(outputs))[: -(-len(outputs) // 2)]
    whole, part = (seen(attack, rows, shape, run) for rows in (outputs, outputs[order]))
    if whole[order].shape != part.shape or whole[order].tobytes() != part.tobytes():
        raise CellError(COMPANY)
