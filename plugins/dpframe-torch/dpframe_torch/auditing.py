"""The claim about a training run, and the audit of its scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy.typing as npt

from dpframe import RunAudit, audit_run
from dpframe.plugins import ApproxDP
from dpframe_torch import accounting
from dpframe_torch.records import CanaryError, Doubt

ENDLESS = "the claim is ε = ∞, which nothing can refute, so there is only a bound"


Audit = RunAudit


def guesses_of(score: Any) -> dict[str, Any]:
    """Return parameters of one-run for a score, fixed before any coin is seen.

    Likelihood ratios of gradients identify members and non-members equally well, so only "both" is
    tried for them.
    """
    return {"side": "both"} if score == "gradient" else {}


def check_claim(engine: Any, epsilon: Any, delta: Any) -> None:
    """Raise CanaryError unless these can be a claim."""
    if epsilon is not None and not (isinstance(epsilon, Real) and float(epsilon) >= 0):
        raise CanaryError(f"epsilon: {epsilon!r} is not a number of at least 0")
    if not (isinstance(delta, Real) and 0 <= float(delta) < 1):
        raise CanaryError(f"delta: {delta!r} is not a number from 0 to below 1")
    if engine is not None and not hasattr(engine, "accountant"):
        raise CanaryError(
            f"engine: {type(engine).__name__} has no accountant; pass Opacus's PrivacyEngine"
        )


def history_of(engine: Any) -> list[tuple[float, float, int]]:
    """Return noise multiplier, sampling rate and number of the steps that Opacus has counted."""
    return list(getattr(getattr(engine, "accountant", None), "history", None) or ())


def claim_of(engine: Any, epsilon: float | None, delta: float) -> tuple[Any, list[str]]:
    """Return the claim about a training run, and warnings about inconsistencies.

    With Opacus's engine, the claim is the whole trade-off curve of the Poisson-sampled Gaussian
    steps that its accountant has counted. Refuting it takes fewer canaries than refuting ε at one
    δ. If the user states a smaller ε than these steps give, the claim is that ε.

    Args:
        engine: Opacus's PrivacyEngine, or None.
        epsilon: the value that the user states; None for no claim.
        delta: of the claim.

    Raises:
        CanaryError: ε or δ is not a number of its range, or the engine has no accountant.
    """
    check_claim(engine, epsilon, delta)
    history = history_of(engine)
    stated = None if epsilon is None or math.isinf(epsilon) else ApproxDP(float(epsilon), delta)
    if not history:
        return stated, [ENDLESS] if epsilon is not None and stated is None else []
    if any(noise <= 0 for noise, _, _ in history):
        if stated is None:
            return None, [ENDLESS]
        return stated, [
            Doubt(
                f"epsilon = {epsilon:.4g} is claimed, but the accountant counted steps without "
                "noise, which give ε = ∞"
            )
        ]
    loss = accounting.Loss(accounting.counted(history), delta)
    more = None if epsilon is None else loss.exceeds(float(epsilon))
    if more is not None:
        return stated, [
            Doubt(
                f"epsilon = {epsilon:.4g} is claimed, but the steps that the accountant counted "
                f"give {more:.4g} at δ = {f'{delta:g}'.replace('e-0', 'e-')}"
            )
        ]
    if loss.is_too_large:
        return stated, [
            f"the steps that the accountant counted give an ε of about {loss.rough:.2g} at δ = "
            f"{delta:g}, too large to state as a claim or to refute, so there is only a bound"
        ]
    return loss.claim(), []


def judged(
    *,
    scores: npt.NDArray[Any],
    members: npt.NDArray[Any],
    epsilon: float | None,
    engine: Any,
    delta: float,
    confidence: float,
    estimators: Sequence[Any] | None = None,
    parameters: dict[str, Any] | None = None,
    warnings: Sequence[str],
    described: dict[str, Any],
    limits: Sequence[str] = (),
    assume: str | None = None,
    independent: bool = False,
    step_bets: dict[str, Any] | None = None,
) -> Audit:
    """Bound the privacy loss from scores and coins, and compare the bound with the claim.

    Args:
        scores: shape [m].
        members: the coins, shape [m].
        epsilon: of the claim; None or inf for no claim.
        engine: Opacus's PrivacyEngine, whose accountant defines the claim unless it gives a larger
            ε; or None.
        delta: of the claim.
        confidence: of the bound and the verdict.
        estimators: from dpframe's one-run family; None means one-run, or the estimator that
            assumes what `assume` names.
        parameters: of the estimators.
        warnings: inconsistencies found so far.
        described: the description of the run, for the record.
        limits: sentences on what was not checked or cannot be shown.
        assume: see `dpframe.score_one_run`.
        independent: True if the score of each canary depends on no coin but its own.
        step_bets: bets on the stated noise of each step; see `dpframe.stats.step_bets`.
    """
    claim, more = claim_of(engine, epsilon, delta)
    return audit_run(
        scores,
        members,
        claim=claim,
        delta=delta,
        confidence=confidence,
        estimators=estimators,
        parameters=parameters,
        warnings=[*warnings, *more],
        limits=limits,
        training=described,
        name=f"run {described['run']}, {described['kind']}, {described['score']}",
        assume=assume,
        independent=independent,
        step_bets=step_bets,
    )
