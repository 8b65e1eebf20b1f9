"""A record as CSV: a row a cell, for spreadsheets and data frames.

As RFC 4180 has it, in UTF-8. Numbers are those of the record, not rounded; one that is not finite
is `inf`, `-inf` or `nan`, one that is not there is empty.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from dpframe.common.text import escape
from dpframe.report.group import attack_of
from dpframe.results.model import CellRecord, Record, in_words, strict

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
    "truth_epsilon": "the exact ε at `delta`, in nats, where it is known",
    "delta": "δ at which ε is estimated",
    "epsilon": "point estimate, in nats; no bound",
    "epsilon_lower": "certified lower bound, in nats, at level `confidence`",
    "epsilon_upper": "the most that this attack can show, in nats; limits the attack, never the "
    "mechanism",
    "epsilon_upper_of": "what of the attack that limits",
    "interval_lower": "lower limit that is approximate, Bayesian or assumes more; no bound",
    "interval_upper": "upper limit of the same",
    "confidence": "level of this one bound",
    "certified": "whether the bound is valid at finite samples, under `assumption`",
    "assumption": "what the bound assumes",
    "p_value": "smallest level at which this cell alone rejects its claim",
    "p_adjusted": "the same, adjusted for all tests",
    "trials_d": "draws counted on D",
    "trials_d_prime": "draws counted on D′",
    "draws": "draws counted, on both together",
    "draw_group": "cells with the same one share draws",
    "seconds": "seconds spent on its draws",
    "reason": "why the verdict is what it is, or why the cell failed",
}
"""The columns of every table; after them comes one for each swept key, by its name."""

ESTIMATED = (
    *("delta", "epsilon", "epsilon_lower", "epsilon_upper", "epsilon_upper_of"),
    *("confidence", "certified", "assumption"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def document(record: Record) -> str:
    """Return the table; swept keys come last, a column each."""
    keys = list(dict.fromkeys(key for cell in record.cells for key in cell.swept))
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow([*COLUMNS, *map(_text, keys)])
    for cell in record.cells:
        found = _row(cell)
        swept = [_field(cell.swept.get(key)) for key in keys]
        rows.writerow([_field(found[column]) for column in COLUMNS] + swept)
    return out.getvalue()


def _row(cell: CellRecord) -> Mapping[str, Any]:
    estimate, claim = cell.estimate, cell.claim
    interval = (estimate and estimate.interval) or (None, None)
    row = {
        **{column: getattr(cell, column) for column in COLUMNS if hasattr(cell, column)},
        **{column: getattr(estimate, column, None) for column in ESTIMATED},
        "mechanism": cell.mechanism.label,
        "attack": attack_of(cell),
        "estimator": cell.estimator.label,
        "claim_kind": claim.kind if claim else None,
        "claim_epsilon": claim.epsilon if claim else None,
        "truth_epsilon": cell.truth.epsilon if cell.truth else None,
        "interval_lower": interval[0],
        "interval_upper": interval[1],
        "trials_d": cell.trials[0],
        "trials_d_prime": cell.trials[1],
    }
    for part in ("mechanism", "pair", "attack", "estimator"):
        choice = getattr(cell, part)
        row |= {f"{part}_use": choice.use, f"{part}_params": choice.params}
    return row


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(in_words(value))
    if isinstance(value, dict | list | tuple):
        return _text(json.dumps(strict(value), ensure_ascii=False))
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """Escape text for terminals and spreadsheets.

    Text that begins like a formula gets an apostrophe, by which spreadsheets mark text.
    """
    shown = escape(text, "\n\t\r")
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
