"""Runs of the density-estimation specs, and what to look up in them."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

import dpframe
from support import ROOT
from support.record_checks import check_every_cell_ran, check_nothing_is_a_false_alarm

if TYPE_CHECKING:
    from collections.abc import Iterable

SPECS = ROOT / "specs" / "density-estimation"


@functools.cache
def cells(name: str, *overrides: str) -> list[dict[str, Any]]:
    record = dpframe.audit(SPECS / f"{name}.toml", overrides=overrides)
    check_every_cell_ran(record)
    check_nothing_is_a_false_alarm(record)
    found: list[dict[str, Any]] = record["cells"]
    return found


def said(cell: dict[str, Any], pattern: str) -> list[float]:
    """Numbers in a note."""
    match = re.search(
        pattern.replace("#", r"([-+\d.e]+|inf)"), "\n".join(cell["estimate"]["notes"])
    )
    assert match, cell["estimate"]["notes"]
    return [float(group) for group in match.groups()]


def frequencies(cell: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Yield the counts of the bins, on D′ and on D."""
    counts = np.array(cell["counts"], np.float64)
    q, p = counts / counts.sum(axis=1, keepdims=True)
    return p, q


def of(found: Iterable[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """Cells by labels and by the last part of swept keys."""
    matching = []
    for cell in found:
        has = {key.rpartition(".")[2]: value for key, value in cell["swept"].items()}
        has |= {kind: cell[kind]["label"] for kind in ("mechanism", "attack", "estimator")}
        if all(has[key] == value for key, value in wanted.items()):
            matching.append(cell)
    assert matching, wanted
    return matching


def one(found: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (cell,) = of(found, **wanted)
    return cell
