"""The published tables beside the specs."""

import csv
from pathlib import Path

SPECS = Path(__file__).parents[1] / "specs"


def published(name: str) -> list[dict[str, float]]:
    """Return the rows of a table, numbers by column."""
    lines = (SPECS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [{column: float(value) for column, value in row.items()} for row in rows]
