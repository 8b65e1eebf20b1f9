"""Runs an author's code: whatever it raises fails a cell, and never the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable


def guarded(what: str, call: Callable[[], Any]) -> Any:
    """What a call gives.

    Args:
        what: the method that is called, for the message.
        call: an author's code.

    Raises:
        CellError: it raised something; a CellError passes as it is.
    """
    try:
        return call()
    except CellError:
        raise
    except (Exception, SystemExit) as error:  # exit() would end the run
        raise CellError(
            f"{what} raised {type(error).__name__}: {first_line(error)}{_hint(error)}"
        ) from error


def first_line(error: BaseException) -> str:
    """The part of an exception's message that fits into a table."""
    return (str(error).strip().splitlines() or ["no message"])[0]


def _hint(error: BaseException) -> str:
    if not isinstance(
        error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
    ):
        return ""
    return " (parameters and arrays are traced: jax.numpy.where instead of if, jax.numpy for numpy)"
