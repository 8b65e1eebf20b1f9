"""A command of a third party: count the verdicts of a record."""

import json
from collections import Counter
from pathlib import Path

import typer

app = typer.Typer()


@app.command()
def verdicts(record: Path):
    """Count the verdicts of a record."""
    found = Counter(cell["verdict"] for cell in json.loads(record.read_text())["cells"])
    typer.echo(", ".join(f"{verdict}: {number}" for verdict, number in sorted(found.items())))
