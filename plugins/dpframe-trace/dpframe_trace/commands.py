"""The command `dpframe trace`."""

from __future__ import annotations

import csv
import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dpframe import DpframeError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_DATA = "D: .csv (numbers, with a header), .npy or .json."
_NEIGHBOUR = "D′, in the same format as D. Default: neighbours derived from D with --adjacency."
_RELATIONS = "replace, add-remove or either"
_ADJACENCY = f"{_RELATIONS}: the neighbouring relation of the claim."


@app.command()
def trace(
    function: Annotated[str, typer.Argument(metavar="PKG.FUNCTION", help="The function to trace.")],
    data: Annotated[Path, typer.Option(metavar="FILE", help=_DATA)],
    neighbour: Annotated[Path | None, typer.Option(metavar="FILE", help=_NEIGHBOUR)] = None,
    adjacency: Annotated[str | None, typer.Option(help=_ADJACENCY)] = None,
    low: Annotated[float | None, typer.Option(help="Lower bound of every column.")] = None,
    high: Annotated[float | None, typer.Option(help="Upper bound of every column.")] = None,
    within: Annotated[bool, typer.Option("--within", help="Keep records in the bounds.")] = False,
    epsilon: Annotated[float | None, typer.Option(help="The claimed ε.")] = None,
    delta: Annotated[float, typer.Option(help="The claimed δ.")] = 0.0,
    pairs: Annotated[int, typer.Option(min=1, max=1000, help="Number of derived pairs.")] = 36,
    runs: Annotated[int, typer.Option(min=1, help="Number of noise seeds for each pair.")] = 3,
) -> None:
    """Run a function on neighbouring data with equal noise, and list its noise by line.

    For each line that draws noise, this prints the scale, the observed sensitivity and the
    resulting ε. The function is imported and run in this process. A trace certifies nothing.

    Exit code: 0 if there are no findings; 1 if there are; 2 if the arguments are wrong; 3 if a
    difference could not be judged.
    """
    from dpframe_trace import report, tracing

    d0 = _read(data)
    called, seeds = _imported(function)
    if neighbour is not None:
        traced = tracing.trace(
            called, d0, _read(neighbour), epsilon=epsilon, delta=delta, runs=runs
        )
    elif adjacency not in ("replace", "add-remove", "either"):
        wrong = "" if adjacency is None else f"--adjacency: {adjacency!r} is unknown; "
        raise DpframeError(f"{wrong}give --neighbour FILE, or --adjacency {_RELATIONS}")
    else:
        bounds = {"low": low, "high": high}
        entry = {name: value for name, value in bounds.items() if value is not None}
        width = np.shape(d0)[1] if np.ndim(d0) == 2 else 1
        traced = tracing.trace_table(
            called,
            d0,
            adjacency=adjacency,
            schema=[entry] * width if entry else (),
            epsilon=epsilon,
            delta=delta,
            pairs=pairs,
            runs=runs,
            **({"beyond": False} if within else {}),
        )
    for file, number, seed in sorted(seeds):
        traced.findings.append(report.seeded(file, number, seed, ""))
    for line in str(traced).split("\n"):
        typer.echo("".join(c if c.isprintable() else " " for c in line))
    if traced.exit_code:
        raise typer.Exit(traced.exit_code)


def _imported(name: str) -> tuple[Any, set[tuple[str, int, str]]]:
    """Import a function, and return it with the seeds that its package fixes."""
    from dpframe_trace import primitives

    module, _, attribute = name.replace(":", ".").rpartition(".")
    if not module:
        raise DpframeError(f"{name}: name the function as pkg.function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        with primitives.replaced(None), primitives.importing() as tape:
            function = getattr(importlib.import_module(module), attribute)
        top = sys.modules[module.partition(".")[0]]
        # A namespace package has several folders and no file, a built-in module has neither.
        homes = getattr(top, "__path__", [getattr(top, "__file__", None)])
        own = [home for home in homes if home is not None]
        within = {s for s in tape.seeds if any(Path(s[0]).is_relative_to(home) for home in own)}
        return function, within
    except (ImportError, AttributeError) as error:
        raise DpframeError(f"{name}: {error}") from None
    finally:
        sys.path.remove(str(Path.cwd()))


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        if path.suffix == ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                _, *rows = [row for row in csv.reader(file) if row] or [[]]
            if not rows:
                raise ValueError("no rows after the header")
            table = np.array([[float(cell or "nan") for cell in row] for row in rows])
            return table[:, 0] if table.shape[1] == 1 else table
    except (OSError, ValueError) as error:
        raise DpframeError(f"{path}: {error}") from None
    raise DpframeError(f"{path}: must be a .csv, .npy or .json file")
