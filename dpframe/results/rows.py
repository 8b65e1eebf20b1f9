"""A record as a table: one row for each cell, with flat columns; and as a CSV file."""

from __future__ import annotations

import csv
import importlib
import io
import json
import re
from typing import TYPE_CHECKING, Any

from dpframe.common.text import escape
from dpframe.errors import OutputError
from dpframe.results.strict_json import in_words, strict

if TYPE_CHECKING:
    from dpframe.results.model import CellRecord, Record


COLUMNS = {
    "id": "stable name of the cell",
    "repeat": "number of the repeat, from 0",
    "seed": "the seed its draws come from",
    "status": "`ok` or `failed`",
    "verdict": "`violated`, `consistent` (no violation found) or `inconclusive`; empty: no verdict",
    "expected": "the verdict that `[[expect]]` names",
    "mechanism": "label of the mechanism",
    "mechanism_use": "its name",
    "mechanism_params": "its parameters, as JSON",
    "pair_use": "name of the pair",
    "pair_params": "its parameters, as JSON",
    "attack": "label of the attack",
    "attack_use": "its name",
    "attack_params": "its parameters, as JSON",
    "estimator": "label of the estimator",
    "estimator_use": "its name",
    "estimator_params": "its parameters, as JSON",
    "claim_kind": "kind of the claim; empty: nothing is claimed",
    "claim_epsilon": "ε of the claim at `delta`, in nats",
    "truth_epsilon": "the exact ε at `delta`, in nats, if it is known",
    "delta": "δ at which ε is estimated",
    "epsilon": "point estimate, in nats; not a bound",
    "epsilon_lower": "certified lower bound, in nats, at level `confidence`",
    "certified_share": "`epsilon_lower` ÷ `claim_epsilon`",
    "epsilon_upper": "the most that this attack can show, in nats; limits the attack, never the "
    "mechanism",
    "epsilon_upper_of": "scope of this limit: events, cuts or thresholds of the attack",
    "interval_lower": "lower limit, approximate, Bayesian or under more assumptions; not a bound",
    "interval_upper": "upper limit of the same",
    "confidence": "level of this one bound",
    "certified": "true if the bound is valid at finite samples, under `assumption`",
    "assumption": "the assumption of the bound",
    "p_value": "smallest level at which this cell alone rejects its claim",
    "p_adjusted": "the same, adjusted for all tests",
    "trials_d": "draws counted on D",
    "trials_d_prime": "draws counted on D′",
    "draws": "draws counted, on both together",
    "draw_group": "cells with the same value share draws",
    "seconds": "seconds spent on its draws",
    "reason": "the reason for the verdict, or for the failure",
}
"""The columns of every table; a column for each swept key follows."""

ESTIMATED = (
    *("delta", "epsilon", "epsilon_lower", "epsilon_upper", "epsilon_upper_of"),
    *("confidence", "certified", "assumption"),
)

NUMBERS = (
    *("claim_epsilon", "truth_epsilon", "delta", "epsilon", "epsilon_lower", "epsilon_upper"),
    *("interval_lower", "interval_upper", "confidence", "p_value", "p_adjusted", "seconds"),
    "certified_share",
)
"""Columns of floats, even if no cell has a value."""


def columns(record: Record) -> list[str]:
    """Return the names of all columns: those of every table, then the swept keys."""
    return list(dict.fromkeys([*COLUMNS, *(key for cell in record.cells for key in cell.swept)]))


def row(cell: CellRecord) -> dict[str, Any]:
    """Return the values of a cell by column; parameters and lists are JSON."""
    estimate, claim = cell.estimate, cell.claim
    interval = (estimate and estimate.interval) or (None, None)
    values = {
        **{column: getattr(cell, column) for column in COLUMNS if hasattr(cell, column)},
        **{column: getattr(estimate, column, None) for column in ESTIMATED},
        "mechanism": cell.mechanism.label,
        "attack": "–" if cell.is_searched and estimate is None else cell.attack.label,
        "estimator": cell.estimator.label,
        "claim_kind": claim.kind if claim else None,
        "claim_epsilon": claim.epsilon if claim else None,
        "certified_share": share(cell),
        "truth_epsilon": cell.truth.epsilon if cell.truth else None,
        "interval_lower": interval[0],
        "interval_upper": interval[1],
        "trials_d": cell.trials[0],
        "trials_d_prime": cell.trials[1],
    }
    for part in ("mechanism", "pair", "attack", "estimator"):
        choice = getattr(cell, part)
        values |= {f"{part}_use": choice.use, f"{part}_params": choice.params}
    values |= cell.swept
    return {
        name: json.dumps(strict(value), ensure_ascii=False)
        if isinstance(value, dict | list | tuple)
        else value
        for name, value in values.items()
    }


def share(cell: CellRecord) -> float | None:
    """Return certified ÷ claimed ε; None without a bound, or if the claim is 0 or infinite."""
    lower = cell.estimate.epsilon_lower if cell.estimate else None
    if lower is None or cell.claim is None or not 0 < cell.claim.epsilon < float("inf"):
        return None
    return lower / cell.claim.epsilon


def frame(record: Record) -> Any:
    """Return the pandas DataFrame of `Record.to_pandas`."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError as error:
        needs = "a data frame needs pandas: pip install 'dpframe[pandas]'"
        raise OutputError(needs) from error
    table = pandas.DataFrame([row(cell) for cell in record.cells], columns=columns(record))
    return table.astype(dict.fromkeys(NUMBERS, float))


# The CSV file is for spreadsheets, by RFC 4180 in UTF-8. Numbers are not rounded. A number that is
# not finite is written as `inf`, `-inf` or `nan`; a missing number is an empty field.

_FORMULA = re.compile(r"[\s\0-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")


def document(record: Record) -> str:
    """Return the table; swept keys come last, a column each."""
    head = columns(record)
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(map(_text, head))
    for cell in record.cells:
        values = row(cell)
        rows.writerow([field(values.get(column)) for column in head])
    return out.getvalue()


def field(value: Any) -> str:
    """Write a value of a record as a field of the table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(in_words(value))
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """Escape text for terminals and spreadsheets.

    Text that begins like a formula, also after blanks or line breaks, gets an apostrophe, by which
    spreadsheets mark text.
    """
    shown = escape(text, "\n\t\r")
    return f"'{shown}" if _FORMULA.match(text) else shown
