"""What the audit asked for, as far as a reader of verdicts must know it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Settings(NamedTuple):
    """Choices of the [audit] table."""

    name: str
    confidence: float
    multiplicity: str

    @property
    def adjusted(self) -> bool:
        """Whether verdicts account for the number of claims tested."""
        return self.multiplicity != "none"


def read_settings(record: dict[str, Any]) -> Settings:
    """Reads the settings from a record; what it does not say gets the spec's defaults."""
    audit = record.get("audit") or {}
    return Settings(
        name=str(audit.get("name", "audit")),
        confidence=float(audit.get("confidence", 0.95)),
        multiplicity=str(audit.get("multiplicity", "holm")),
    )
