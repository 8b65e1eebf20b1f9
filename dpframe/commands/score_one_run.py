"""The canaries of one run that was made elsewhere: the input of `dpframe score --one-run`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.commands.audit import load_plugins
from dpframe.commands.canary_row import certifies, reason_of, row_of, takes_canaries
from dpframe.commands.candidates import candidates
from dpframe.commands.scored import answer, check_confidence, deltas_of
from dpframe.errors import DpframeError
from dpframe.record.verdict import VIOLATED, judge
from dpframe.scores.canaries import Canaries, as_canaries, read_canaries
from dpframe.scores.roc import roc

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.estimator import Estimator
    from dpframe.plugin import Plugin


def score_one_run(
    scores: Any,
    members: Any = None,
    *,
    column: str | None = None,
    member: str | None = None,
    delta: float | Sequence[float] | None = None,
    confidence: float = 0.95,
    claim: Claim | None = None,
    estimators: Sequence[str | Estimator] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    plugins: Iterable[type[Plugin]] = (),
) -> dict[str, Any]:
    """Bounds the loss by the canaries of one run, each of them in by a fair coin.

    All bounds and verdicts hold together at the confidence: estimators that certify share the
    error, and bounds at several δ cost nothing more. They are about the whole algorithm that was
    run, on condition that each canary was in with probability ½, independently of all others;
    memberships that such coins make with probability below 1e-6 are refused.

    Args:
        scores: of m canaries, larger if more like a member, shape [m]; or the path of a file with
            scores and memberships.
        members: which canaries were in, shape [m], booleans or 0 and 1; nothing beside a path.
        column: title of the scores in a file, or their place from 1.
        member: the same of the memberships.
        delta: δ at which ε is bounded, one or several; default: the claim's own, else 0.
        confidence: of all bounds and verdicts together.
        claim: what is claimed for the presence of one record, for p-values and verdicts.
        estimators: their names, or estimators; default: every one that takes canaries.
        parameters: given to each estimator of these that has a parameter of the name.
        seed: for estimators that draw random numbers.
        plugins: classes to make available beside the installed ones.

    Returns:
        What `dpframe score --one-run FILE --json` prints.

    Raises:
        ScoresError: there are no scores and memberships to be had.
        PluginError: there is no such estimator or parameter.
        DpframeError: the canaries were not included by fair coins; δ or the confidence is out of
            range.
    """
    check_confidence(confidence)
    deltas = deltas_of(delta, claim)
    name, canaries = _taken(scores, members, column, member)
    asked, skipped = candidates(load_plugins(plugins), estimators, dict(parameters or {}))
    asked = [one for one in asked if estimators is not None or takes_canaries(one.estimator)]
    certify = [one for one in asked if certifies(one.estimator, claim)]
    level = 1 - (1 - confidence) / max(1, len(certify))
    rows, evidence = [], []
    for one in asked:
        own = level if one in certify else confidence
        row, found = row_of(one, canaries, deltas, own, claim, seed)
        if row["status"] == "skipped":
            skipped.append({"estimator": one.label, "reason": row["reason"]})
            continue
        rows.append(row)
        if found is not None:
            evidence.append((row, found._replace(error=1 - confidence)))
    judgements = judge([found for _, found in evidence], max(1, len(certify)), "holm")
    for (row, found), judgement in zip(evidence, judgements, strict=True):
        reason = reason_of(judgement, found, len(canaries.scores))
        row.update(judgement._asdict(), reason=reason)
    values, members = canaries
    described = {
        "name": name,
        "canaries": len(values),
        "members": int(members.sum()),
        "nan": int(np.isnan(values).sum()),
        "type": str(values.dtype),
        "roc": roc(values[~members], values[members]),
    }
    audit = {"delta": deltas, "confidence": confidence, "multiplicity": "holm"}
    return {
        **answer("score-one-run", described, audit, claim, deltas[0], seed, asked),
        "refuted": None if claim is None else _refuted(rows),
        "rows": rows,
        "skipped": skipped if estimators is not None else [],
    }


def _refuted(rows: list[dict[str, Any]]) -> bool | None:
    """Whether a verdict is violated; None if there is no verdict."""
    verdicts = [row["verdict"] for row in rows if row["verdict"] is not None]
    return VIOLATED in verdicts if verdicts else None


def _taken(
    scores: Any, members: Any, column: str | None, member: str | None
) -> tuple[str, Canaries]:
    if isinstance(scores, str | os.PathLike):
        if members is not None:
            raise DpframeError("members: a file of canaries has them in it")
        return os.fspath(scores), read_canaries(Path(scores), column, member)
    if members is None:
        raise DpframeError("members: say which of the canaries were in")
    return "canaries", as_canaries(scores, members, "canaries")
