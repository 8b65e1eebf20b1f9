"""What is asked about scores made elsewhere, of two sides or of one run; heads of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpframe.commands.provenance import versions
from dpframe.errors import DpframeError
from dpframe.record.claim import curve_points
from dpframe.record.model.record import SCHEMA
from dpframe.record.plain import plain

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.commands.candidates import Candidate


def check_confidence(confidence: float) -> None:
    """Raises DpframeError unless the level is one."""
    if not 0 < confidence < 1:
        raise DpframeError(f"confidence: {confidence} is not between 0 and 1")


def deltas_of(delta: float | Sequence[float] | None, claim: Claim | None) -> list[float]:
    """The δ that are asked for, each once; default: the claim's own, else 0.

    Raises:
        DpframeError: there is none, or one is out of range.
    """
    if delta is None:
        given = [claim.default_delta if claim is not None else 0.0]
    else:
        given = list(delta) if isinstance(delta, Sequence) else [delta]
    for each in given:
        if not 0 <= each < 1:
            raise DpframeError(f"delta: {each} is not in [0, 1)")
    if not given:
        raise DpframeError("delta: names no number")
    return [float(each) for each in dict.fromkeys(given)]


def answer(
    kind: str,
    scores: dict[str, Any],
    audit: dict[str, Any],
    claim: Claim | None,
    delta: float,
    seed: int,
    asked: Sequence[Candidate],
) -> dict[str, Any]:
    """What an answer says beside its rows.

    Args:
        kind: which command answers.
        scores: where they come from, and how many there are.
        audit: δ, confidence, multiplicity.
        claim: what is claimed, if anything.
        delta: at which its ε is named.
        seed: of the answer.
        asked: the estimators.
    """
    return {
        "schema": SCHEMA,
        "kind": kind,
        "scores": scores,
        "audit": audit,
        "claim": None
        if claim is None
        else {
            "kind": claim.kind,
            "epsilon": claim.epsilon_at(delta),
            "delta": delta,
            "parameters": plain(claim.parameters()),
            "tradeoff": curve_points(claim),
        },
        "seed": seed,
        "environment": versions(),
        "plugins": [candidate.plugin() for candidate in asked],
    }
