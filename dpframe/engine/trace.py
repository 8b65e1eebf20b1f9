"""What a mechanism's outputs and an attack's scores look like, found without counting anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.address import PROBE, Stream, base_key, host_generator
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import structure, unstacked
from dpframe.engine.precision import dataset, on_device, run_dtype, shape_of_dataset
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.mechanism import Mechanism
    from dpframe.spec.audit import Cell, RunSettings


class Shape(NamedTuple):
    """What one output of a mechanism looks like."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]


class Tracer:
    """Finds shapes by tracing, once per structure, without drawing anything that counts."""

    def __init__(self, run: RunSettings, prng: str) -> None:
        self.dtype = run_dtype(run)
        self.prng = prng
        self.shapes: dict[Any, Shape | CellError] = {}
        self.scored: dict[Any, CellError | None] = {}

    def output_shape(self, cell: Cell) -> Shape:
        """Shape of one output; raises CellError where the mechanism cannot be run at all."""
        key = (structure(cell.mechanism.value), cell.mechanism.distribution, cell.pair.value)
        shape: Shape = _remember(self.shapes, key, lambda: self._output_shape(cell))
        return shape

    def check_attack(self, cell: Cell, shape: Shape) -> None:
        """Raises CellError where an attack without a state cannot score such outputs.

        One that has a `fit` cannot be traced before it has learned; it is checked then.
        """
        if not cell.attack.value.has_fit():
            key = (structure(cell.attack.value), shape)
            _remember(self.scored, key, lambda: self._check_attack(cell, shape))

    def _output_shape(self, cell: Cell) -> Shape:
        mechanism = cell.mechanism.value
        rows = 2
        if isinstance(mechanism, HostMechanism):
            rng = host_generator(Stream(cell.seed, "shape", 0, PROBE))
            data = guarded("the pair", lambda: dataset(cell.pair.value, 0, self.dtype))
            output: Any = guarded("sample", lambda: np.asarray(mechanism.sample(rng, data, rows)))
        else:
            leaves = unstacked(mechanism, self.dtype)
            key = base_key(Stream(0, "shape", 0, PROBE), self.prng)
            data = guarded("the pair", lambda: shape_of_dataset(cell.pair.value, self.dtype))
            output = guarded(
                "sample", lambda: jax.eval_shape(lambda k, d: leaves.sample(k, d, rows), key, data)
            )
            if not hasattr(output, "shape"):
                raise CellError(f"sample returned {type(output).__name__}, not an array")
        check_outputs(output, rows)
        return Shape(tuple(output.shape[1:]), np.dtype(output.dtype))

    def _check_attack(self, cell: Cell, shape: Shape) -> None:
        attack, rows = cell.attack.value, 2
        seen = on_device(shape.dtype, self.dtype)
        outputs = guarded(
            "an attack cannot read these outputs: JAX",
            lambda: jax.eval_shape(lambda: jnp.zeros((rows, *shape.dims), seen)),
        )
        leaves = unstacked(attack, self.dtype)
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
        gives: "decision" (booleans) or "score" (floats).
    """
    shape = tuple(getattr(scores, "shape", ()))
    if shape != (rows,):
        raise CellError(f"score returned shape {shape} for {rows} outputs; it must be ({rows},)")
    kind = "decision" if scores.dtype == np.bool_ else "score"
    if kind == "score" and not jnp.issubdtype(scores.dtype, jnp.floating):
        raise CellError(f"score returned {scores.dtype}; booleans are decisions, floats scores")
    if kind != gives:
        raise CellError(
            f"score returned a {kind} ({scores.dtype}), but the attack says gives = {gives!r}"
        )


def _remember(known: dict[Any, Any], key: Any, find: Callable[[], Any]) -> Any:
    if key not in known:
        try:
            known[key] = find()
        except CellError as error:
            known[key] = error
    if isinstance(known[key], CellError):
        raise known[key]
    return known[key]
