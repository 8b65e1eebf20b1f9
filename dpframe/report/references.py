"""Theorems and other sources of the numbers of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpframe.record.model import Record


def references(record: Record) -> dict[str, str]:
    """What each estimator rests on, by the name that cells use; without those that name nothing.

    Args:
        record: of a run. Old ones name no sources.
    """
    return {
        plugin.name: plugin.reference
        for plugin in record.plugins
        if plugin.kind == "estimator" and plugin.reference
    }
