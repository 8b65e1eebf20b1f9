"""What the audit asked for, as far as a reader of verdicts must know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpframe.record.model import Record


class Settings(NamedTuple):
    """Choices of the [audit] table."""

    name: str
    confidence: float
    multiplicity: str

    @property
    def adjusted(self) -> bool:
        """Whether verdicts account for the number of claims tested."""
        return self.multiplicity != "none"


def read_settings(record: Record) -> Settings:
    """Reads the settings from a record."""
    return Settings(record.audit.name, record.audit.confidence, record.audit.multiplicity)
