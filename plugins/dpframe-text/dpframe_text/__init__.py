"""Text mechanisms for dpframe: rewriting functions, and the mechanisms of the literature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Mechanism


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism]]:
    """Return text mechanisms from the literature, most of them also in an incorrect version."""
    return []
