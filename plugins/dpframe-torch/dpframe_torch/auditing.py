"""The result of an audit of one run, with its picture and its files."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpframe import plot, score_one_run
from dpframe.plugins import NOTHING_TESTED, ApproxDP, DpframeError
from dpframe_torch import accounting
from dpframe_torch.records import CanaryError, Doubt

RECORD = "record.json"
PICTURE = "picture.svg"
SCORES = "scores.csv"
OUTCOME = np.dtype(
    [("canary", np.int64), ("record", np.int64), ("included", np.bool_), ("score", np.float64)]
)
ENDLESS = "the claim is ε = ∞, which nothing can refute, so there is only a bound"


class Audit(dict[str, Any]):
    """The result of an audit: the answer of `dpframe.score_one_run` and a description of the run.

    `print` shows the report, and a notebook also shows the picture. `dpframe show FOLDER`, `dpframe
    report FOLDER` and `dpframe plot FOLDER` read the file that the audit wrote.
    """

    outcomes: npt.NDArray[np.void]
    """A row for each canary, with the fields `canary` (its index in `canaries.records`), `record`
    (the index in the data of the record that it is made from, −1 for your own), `included` (its
    coin) and `score`."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self._answer = answer
        self.outcomes = np.zeros(0, OUTCOME)

    @property
    def epsilon_lower(self) -> float:
        """The largest certified bound on ε at δ; all bounds hold together at the confidence."""
        bounds = [row["bounds"][0]["epsilon_lower"] for row in self["rows"] if row["bounds"]]
        return max((float(bound) for bound in bounds if bound is not None), default=0.0)

    @property
    def ceiling(self) -> float:
        """The bound that these canaries would give if every guess were correct."""
        bounds = [row["bounds"][0]["ceiling"] for row in self["rows"] if row["bounds"]]
        return max((float(bound) for bound in bounds if bound is not None), default=math.nan)

    @property
    def verdict(self) -> str | None:
        """The verdict, "violated", "consistent" or "inconclusive"; None if nothing was claimed."""
        found = {row["verdict"] for row in self["rows"]} - {None}
        order = ("violated", "consistent", "inconclusive")
        return next((name for name in order if name in found), None)

    @property
    def warnings(self) -> list[str]:
        """Warnings about the training or the scores."""
        return list(self["warnings"])

    def picture(self) -> Any:
        """Return the ROC curve of these scores beside the claim; it needs matplotlib."""
        return plot(dict(self))

    def save(self, folder: Path) -> None:
        """Write the record, and the picture if matplotlib is installed."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_strict(dict(self)), indent=1, ensure_ascii=False, allow_nan=False)
        (folder / RECORD).write_text(text + "\n", encoding="utf-8")
        names = self.outcomes.dtype.names or ()
        lines = [",".join(names), *(",".join(map(str, row)) for row in self.outcomes.tolist())]
        (folder / SCORES).write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            picture = self.picture()
        except DpframeError:  # no matplotlib
            return
        picture.savefig(folder / PICTURE)

    def __str__(self) -> str:
        return str(self._answer)

    def __repr__(self) -> str:
        return f"Audit(verdict={self.verdict!r}, epsilon_lower={self.epsilon_lower:.3g})"

    def _repr_html_(self) -> str:
        shown: str = self._answer._repr_html_()
        try:
            picture, drawn = self.picture(), io.StringIO()
        except DpframeError:  # no matplotlib
            return shown
        picture.savefig(drawn, format="svg")
        return f"{shown}{drawn.getvalue()}"


def guesses_of(score: Any, number: int) -> dict[str, Any]:
    """Return parameters of one-run-fdp for a score, fixed before any coin is seen.

    Likelihood ratios of gradients identify members and non-members equally well, so only "both" is
    tried. For Gaussian and sampled Gaussian steps with ε from 2 to 8, the best number of guesses
    was near 3√m for m from 100 to 3,000. For a run without noise, m guesses give the largest bound.
    The two choices share the error.

    Args:
        score: of the audit.
        number: m.
    """
    if score != "gradient":
        return {}
    clearest = min(number, max(8, round(3 * math.sqrt(number))))
    return {"guesses": tuple(sorted({number, clearest})), "side": "both"}


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
                f"give {more:.4g} at δ = {delta:g}"
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
        estimators: from dpframe's one-run family; None means one-run-fdp, or the estimator that
            assumes what `assume` names.
        parameters: of the estimators.
        warnings: inconsistencies found so far.
        described: the description of the run, for the record.
        limits: sentences on what was not checked or cannot be shown.
        assume: see `dpframe.score_one_run`.
        independent: True if the score of each canary depends on no coin but its own.
    """
    if assume is None and estimators is None:
        estimators = ("one-run-fdp",)
    claim, more = claim_of(engine, epsilon, delta)
    found = score_one_run(
        scores,
        members,
        delta=delta,
        confidence=confidence,
        claim=claim,
        estimators=estimators,
        parameters={} if assume else parameters or {},
        assume=assume,
        lower_is_member=False,  # larger scores mean members, by definition
    )
    found["scores"]["name"] = f"run {described['run']}, {described['kind']}, {described['score']}"
    if nan := int(found["scores"]["nan"]):
        more.append(f"{nan} scores are NaN and count as the smallest: the model may have diverged")
    if found["independent"] is not None:
        found["independent"]["supported"] = independent
    doubts = [one for one in [*warnings, *more] if isinstance(one, Doubt)]
    if len(np.unique(scores)) == 1:  # NaN counts as one value
        doubts.append(Doubt(NOTHING_TESTED))
        more.append(doubts[-1])
    for row in found["rows"]:
        if doubts and row["verdict"] == "consistent":
            row |= {"verdict": "inconclusive", "reason": f"no violation found, but {doubts[0]}"}
    found |= {
        "warnings": [str(one) for one in [*warnings, *more]],
        "limits": list(limits),
        "training": described,
    }
    return Audit(found)


def _strict(value: Any) -> Any:
    """Return JSON values in which non-finite numbers are written as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
