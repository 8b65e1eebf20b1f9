"""What the audit asked for, read back from the spec that the record carries."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, NamedTuple

import tomli


class Settings(NamedTuple):
    """The choices of the [audit] table that a reader of verdicts must know."""

    name: str
    confidence: float
    multiplicity: str

    @property
    def adjusted(self) -> bool:
        """Whether verdicts account for the number of claims tested."""
        return self.multiplicity != "none"


def read_settings(record: dict[str, Any]) -> Settings:
    """Reads the settings; a record without a readable spec gets the defaults of the format."""
    spec = record.get("spec") or {}
    audit = dict(_table(_parse(str(spec.get("text") or ""))).get("audit") or {})
    sweep = _table(_parse(str(spec.get("text") or ""))).get("sweep") or {}
    for override in spec.get("overrides") or ():
        key, _, value = str(override).partition("=")
        table, _, name = key.strip().replace('"', "").partition(".")
        if table == "audit":
            audit[name] = _parse(f"value = {value}").get("value", value.strip())
            sweep = {k: v for k, v in sweep.items() if k != f"audit.{name}"}
    stem = PurePath(str(spec.get("path") or "audit")).stem
    confidences = sweep.get("audit.confidence") or [audit.get("confidence", 0.95)]
    numbers = [c for c in confidences if isinstance(c, int | float)]
    return Settings(
        name=str(audit.get("name") or stem),
        # Of several confidences the lowest is the one that holds for all cells.
        confidence=float(min(numbers, default=0.95)),
        multiplicity=str(audit.get("multiplicity") or "holm"),
    )


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError:
        return {}


def _table(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {key: value for key, value in document.items() if isinstance(value, dict)}
