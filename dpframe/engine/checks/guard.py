"""Runs an author's code: whatever it raises fails a cell, and never the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from dpframe.blame import blame
from dpframe.errors import CellError
from dpframe.patience import at_work

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
        with at_work(what):
            return call()
    except CellError:
        raise
    except (Exception, SystemExit) as error:  # exit() would end the run
        raise CellError(f"{what} raised {blame(error)}{_hint(error)}") from error


def _hint(error: BaseException) -> str:
    if not isinstance(
        error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
    ):
        return ""
    return " (parameters and arrays are traced: jax.numpy.where instead of if, jax.numpy for numpy)"
