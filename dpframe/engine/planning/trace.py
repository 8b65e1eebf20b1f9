"""What a mechanism's outputs and an attack's scores look like, found without counting anything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.addresses.address import key_of
from dpframe.engine.addresses.precision import (
    on_device,
    precision_of,
    run_dtype,
    shape_of_dataset,
)
from dpframe.engine.addresses.shape import Shape
from dpframe.engine.boxes.first_call import ROWS, asking_of, first_call
from dpframe.engine.boxes.seeing import seen_shape
from dpframe.engine.checks.guard import guarded
from dpframe.engine.compiling.executables import remembered
from dpframe.engine.planning.budgets import resolved
from dpframe.engine.planning.lanes import structure, unstacked
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.attack import Attack
    from dpframe.engine.boxes.lending import Source
    from dpframe.mechanism import Mechanism
    from dpframe.spec.audit import Cell, RunSettings
    from dpframe.types import Tree


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
