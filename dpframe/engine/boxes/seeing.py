"""What attacks see of outputs: of answers of any kind, what each of them asks to see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.answers import ABSENT, BEFORE, Answers
from dpframe.attack import Attack
from dpframe.engine.addresses.precision import as_scored
from dpframe.engine.addresses.shape import Shape
from dpframe.engine.checks.guard import guarded
from dpframe.errors import CellError
from dpframe.printable import shown

if TYPE_CHECKING:
    from dpframe.types import HostArray

COMPANY = (
    "see gave answers otherwise when other answers stood beside them: it must look at every answer "
    "alone"
)


def seen(attack: Attack, outputs: HostArray, shape: Shape, run: np.dtype[Any]) -> HostArray:
    """What an attack sees of outputs.

    Args:
        attack: of a fixed structure.
        outputs: shape [n, *dims], in the dtype in which they are scored; of answers of any kind
            their rows.
        shape: of one output.
        run: the dtype of the run.

    Returns:
        Shape [n, *dims of what is seen].

    Raises:
        CellError: the attack sees something that cannot be scored.
    """
    if shape.asking is None:
        return outputs
    answers = Answers(outputs)
    if type(attack).see is Attack.see:
        return as_scored(_plainly(answers, shape), run)
    found = guarded("see", lambda: np.asarray(attack.see(answers)))
    if found.ndim < 1 or len(found) != len(outputs) or found.dtype.kind not in "biuf":
        raise CellError(
            f"see returned {shown(found)} for {len(outputs)} answers; numbers are wanted, an array "
            "with one row per answer"
        )
    return as_scored(found, run)


def seen_shape(attack: Attack, shape: Shape, run: np.dtype[Any]) -> Shape:
    """The shape of what an attack sees of one output."""
    if shape.asking is None:
        return shape
    found = seen(attack, _blank(shape, 2), shape, run)
    return Shape(found.shape[1:], found.dtype)


def check_seen_alone(attack: Attack, outputs: HostArray, shape: Shape, run: np.dtype[Any]) -> None:
    """Looks at answers again in another order and in another number.

    Raises:
        CellError: what is seen of one depends on others.
    """
    if shape.asking is None or type(attack).see is Attack.see or len(outputs) < 2:
        return
    order = np.random.default_rng(len(outputs)).permutation(len(outputs))[: -(-len(outputs) // 2)]
    whole, part = (seen(attack, rows, shape, run) for rows in (outputs, outputs[order]))
    if whole[order].shape != part.shape or whole[order].tobytes() != part.tobytes():
        raise CellError(COMPANY)


def _plainly(answers: Answers, shape: Shape) -> HostArray:
    """Numbers in the shape in which they came, for attacks that ask for nothing else."""
    if shape.native is None or math.prod(shape.native) > shape.width:
        return answers.numbers
    numbers = answers.numbers[:, : math.prod(shape.native)]
    return numbers.reshape(len(numbers), *shape.native)


def _blank(shape: Shape, n: int) -> HostArray:
    """Answers of no kind."""
    rows = np.full((n, *shape.dims), ABSENT, np.uint64)
    rows[:, :BEFORE] = 0
    return rows
