"""What one estimator says of the canaries of one run, and what a verdict is made of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.blame import blame
from dpframe.engine.addresses.address import PILOT, Stream, host_generator
from dpframe.errors import CellError, DpframeError
from dpframe.estimator import Estimator, Query
from dpframe.record.answer import checked
from dpframe.record.cell import estimate_record
from dpframe.record.verdict import CONSISTENT, INCONCLUSIVE, Evidence, Judgement

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.commands.candidates import Candidate
    from dpframe.estimator import Estimate
    from dpframe.scores.canaries import Canaries


def takes_canaries(estimator: Estimator) -> bool:
    """Whether an estimator has something to say of the canaries of one run."""
    own = type(estimator).estimate_canaries is not Estimator.estimate_canaries
    statistic = estimator.statistic()
    return own or ("canaries" in statistic.accepts and not statistic.needs_pilot())


def certifies(estimator: Estimator, claim: Claim | None) -> bool:
    """Whether it takes canaries and bounds the loss by them."""
    try:
        return takes_canaries(estimator) and bool(estimator.certifies_against(claim))
    except Exception:  # an author's; its row will say so
        return True


def row_of(
    candidate: Candidate,
    canaries: Canaries,
    deltas: list[float],
    confidence: float,
    claim: Claim | None,
    seed: int,
) -> tuple[dict[str, Any], Evidence | None]:
    """The row of one estimator, and what its verdict will be made of; None if there is none.

    Args:
        candidate: the estimator.
        canaries: of the run.
        deltas: where ε is bounded; the first is that of the estimate.
        confidence: of its bounds.
        claim: what is claimed.
        seed: for estimators that draw random numbers.

    Raises:
        DpframeError: the canaries are such that nothing can be said.
    """
    estimator, started = candidate.estimator, time.perf_counter()
    answers: list[Estimate] = []
    queries = [Query((1, 0), d, confidence, None if k else claim) for k, d in enumerate(deltas)]
    status, reason, certified, most = "ok", None, False, []
    try:
        certified = bool(estimator.certifies_against(claim))
        for query in queries:
            rng = host_generator(Stream(seed, "scores", 0, PILOT))
            answer = estimator.estimate_canaries(canaries.scores, canaries.members, query, rng)
            answers.append(
                checked(answer, certified=certified, tested=certified and query.claim is not None)
            )
        most = _most(estimator, len(canaries.scores), queries) if certified else []
    except CellError as error:
        status, reason = "failed", str(error)
    except DpframeError as error:
        if takes_canaries(estimator):
            raise  # the canaries are at fault
        status, reason = "skipped", str(error)
    except Exception as error:  # a plugin's mistake is a line of the table
        status, reason = "failed", blame(error)
    row: dict[str, Any] = {
        "estimator": candidate.choice(),
        "status": status,
        "reason": reason,
        "estimate": None,
        "bounds": [],
        "p_value": None,
        "p_adjusted": None,
        "verdict": None,
        "seconds": time.perf_counter() - started,
    }
    if status != "ok":
        return row, None
    first = answers[0]
    row["estimate"] = estimate_record(
        first, queries[0], certified, estimator.assumption
    ).model_dump()
    row["bounds"] = [
        {
            "delta": query.delta,
            "epsilon": answer.epsilon,
            "epsilon_lower": answer.epsilon_lower if certified else None,
            "ceiling": most[k].epsilon_lower if most else None,
        }
        for k, (query, answer) in enumerate(zip(queries, answers, strict=True))
    ]
    if not certified or claim is None or first.p_value is None or first.p_resolved is None:
        return row, None
    row["p_value"] = first.p_value
    p_extreme = (most[0].p_value if most else None) or first.p_value
    lower = first.epsilon_lower or 0.0
    contrast = first.contrast or (deltas[0], lower, claim.epsilon_at(deltas[0]))
    return row, Evidence(
        p_value=first.p_value,
        p_resolved=first.p_resolved,
        p_extreme=p_extreme,
        p_extreme_resolved=p_extreme,
        error=1 - confidence,
        delta=deltas[0],
        lower=lower,
        upper=np.inf,
        contrast=(contrast[0], contrast[1], contrast[2]),
        trials=len(canaries.scores),
        level=1 - confidence,
    )


def _most(estimator: Estimator, canaries: int, queries: list[Query]) -> list[Estimate]:
    """What the estimator would say if every guess were right."""
    try:
        layout = estimator.statistic().lay_out((2, canaries))
        counts = estimator.extreme(layout, (1, 0))
        return [estimator.estimate(layout, counts, query) for query in queries]
    except Exception:  # it may not know; then nothing is said of it
        return []


def reason_of(judgement: Judgement, found: Evidence, canaries: int) -> str:
    """Why a verdict is what it is, in terms of canaries."""
    delta, _, claimed = found.contrast
    claimed_at = f"ε = {claimed:.4g} at δ = {delta:.3g}"
    if judgement.verdict == INCONCLUSIVE:
        return (
            f"even if every guess were right, {canaries:,} canaries would not reject {claimed_at}; "
            "more canaries are needed"
        )
    if judgement.verdict == CONSISTENT:
        return (
            f"no violation found; these canaries show a loss of at least {found.lower:.4g} at "
            f"δ = {found.delta:.3g}; others may show more"
        )
    return judgement.reason
