"""Certificates of scores that were made elsewhere: the answers of `dpframe score`."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dpframe.plugins import NOTHING_TESTED, DpframeError, Guessed

ONE_RUN = "one-run"  # the theorem about guesses in one run
TWO_SIDES = (
    "clopper-pearson",
    "unconditional",
    "joint",
    "total-variation",
)  # about (k, n, k′, n′, …)


def canonical(value: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def record_of_scores(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer about scores in the form of a record, with the fields of a certificate.

    For canaries of one run it has bounds at the first δ, and verdicts. For scores on two datasets
    it has only bounds, as each holds by itself at the confidence, so together they decide nothing
    about a claim.

    Raises:
        DpframeError: it is incomplete, or a verdict does not follow from counts.
    """
    try:
        return _record(answer)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise DpframeError(f"not a complete answer about scores: {error!r}") from None


def _record(answer: Mapping[str, Any]) -> dict[str, Any]:
    rows, one_run = answer["rows"], answer["kind"] == "score-one-run"
    doubts = (*answer.get("warnings", ()), NOTHING_TESTED)
    for row in rows:
        if row.get("verdict") and doubts and row["reason"].endswith(doubts):
            raise DpframeError(
                f"the verdict does not follow from counts, so it has no certificate: "
                f"{row['reason']}"
            )
    claim, whole = answer["claim"] if one_run else None, answer["audit"]["confidence"]
    certified = [row for row in rows if row["estimate"] and row["estimate"]["certified"]]
    levels = {1 - row["estimate"]["confidence"] for row in certified}
    digest = hashlib.sha256(canonical(answer).encode()).hexdigest()
    cells = [*_cells(answer, certified, claim)]
    verdicts = Counter(cell["verdict"] for cell in cells)
    return {
        **answer,
        "digest": f"sha256:{digest}",
        "spec": {},
        "summary": {
            "m": round((1 - whole) / min(levels)) if claim and levels else 0,
            "failed": sum(row["status"] == "failed" for row in rows),
            **{name: verdicts[name] for name in ("violated", "consistent", "inconclusive")},
        },
        "cells": cells,
    }


def _cells(
    answer: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], claim: Mapping[str, Any] | None
) -> Iterable[dict[str, Any]]:
    """Yield the cell of each estimator."""
    labels = Counter[str]()
    for row in rows:
        label, evidence = row["estimator"]["label"], row["estimate"]["evidence"]
        trials, basis, extreme = _trials(answer, evidence), None, None
        if evidence and evidence["theorem"] == ONE_RUN:  # every guess could be right
            extreme = {**evidence, "terms": [_all_right(*term) for term in evidence["terms"]]}
        if claim:
            basis = {
                **{"confidence": answer["audit"]["confidence"], "look": 1, "resolution": 0.0},
                **{"p_resolved": row["p_value"], "extreme": extreme},
            }
        yield {
            **{"id": label, "repeat": labels[label], "seed": answer["seed"]},
            **{"estimator": row["estimator"], "claim": claim, "basis": basis},
            **{"estimate": {**row["estimate"], "evidence": evidence if trials else None}},
            **{"trials": trials or [0, 0], "p_value": row["p_value"]},
            "verdict": row["verdict"] if claim else None,
        }
        labels[label] += 1


def _all_right(m: int, r: int, _: int, *rest: Any) -> list[Any]:
    """Return the term if every guess were right."""
    return [m, r, sum(Guessed(m, r, 0, *rest).cuts), *rest]


def _trials(answer: Mapping[str, Any], evidence: Mapping[str, Any] | None) -> tuple[int, ...]:
    """Return the numbers of scores that an estimator counted; one run of canaries counts as one.

    Empty if it counted some events on a part of the scores, which the checker does not know.
    """
    if answer["kind"] == "score-one-run":
        return 0, 1
    if not evidence or evidence["theorem"] not in TWO_SIDES:
        return 0, 0
    sizes = {(min(n, m), max(n, m)) for _, n, _, m, *_ in evidence["terms"]}
    return sizes.pop() if len(sizes) == 1 else ()
