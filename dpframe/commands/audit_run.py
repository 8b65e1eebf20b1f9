"""Judge one training run by its canaries, for plugins that watch trainings."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpframe.claims import Claim
from dpframe.commands.plot import plot, write
from dpframe.commands.score import ScoreRecord
from dpframe.commands.score_one_run import score_one_run
from dpframe.errors import DpframeError
from dpframe.interfaces.estimator import Estimator
from dpframe.results.store import dumps
from dpframe.results.verdict import CONSISTENT, INCONCLUSIVE, NOTHING_TESTED, VIOLATED
from dpframe.stats.gradient_canaries import OUTCOME

RECORD = "record.json"
PICTURE = "picture.svg"
SCORES = "scores.csv"


class Doubt(str):
    """A warning under which the verdict must not be "consistent".

    Either the audit did not see the training, so finding no violation means nothing, or the
    training is not the one of the claim.
    """


class RunAudit(ScoreRecord):
    """The result of an audit: the answer of `dpframe.score_one_run` and a description of the run.

    `print` shows the report, and a notebook also shows the picture. `dpframe show FOLDER`, `dpframe
    report FOLDER` and `dpframe plot FOLDER` read the file that the audit wrote.
    """

    scores: npt.NDArray[np.void]
    """A row for each canary, with the fields `canary` (its index), `record` (the index in the data
    of the record that it is made from, −1 if none), `included` (its coin) and `score`."""

    def __init__(self, answer: ScoreRecord) -> None:
        super().__init__(answer)
        self.scores = np.zeros(0, OUTCOME)

    @property
    def epsilon_lower(self) -> float:
        """The largest certified bound on ε at δ; all bounds hold together at the confidence."""
        return self._largest("epsilon_lower", 0.0)

    @property
    def ceiling(self) -> float:
        """The bound that these canaries would give if every guess were correct."""
        return self._largest("ceiling", math.nan)

    def _largest(self, name: str, default: float) -> float:
        bounds = [row["bounds"][0][name] for row in self["rows"] if row["bounds"]]
        return max((float(bound) for bound in bounds if bound is not None), default=default)

    @property
    def verdict(self) -> str | None:
        """The verdict, "violated", "consistent" or "inconclusive"; None if nothing was claimed."""
        verdicts = {row["verdict"] for row in self["rows"]} - {None}
        return next((v for v in (VIOLATED, CONSISTENT, INCONCLUSIVE) if v in verdicts), None)

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
        (folder / RECORD).write_text(dumps(dict(self)), encoding="utf-8")
        names = self.scores.dtype.names or ()
        lines = [",".join(names), *(",".join(map(str, row)) for row in self.scores.tolist())]
        (folder / SCORES).write_text("\n".join(lines) + "\n", encoding="utf-8")
        try:
            picture = self.picture()
        except DpframeError:  # no matplotlib
            return
        write(picture, folder / PICTURE)

    def __repr__(self) -> str:
        return f"RunAudit(verdict={self.verdict!r}, epsilon_lower={self.epsilon_lower:.3g})"

    def _repr_html_(self) -> str:
        shown = super()._repr_html_()
        try:
            return f"{shown}{self.picture()._repr_svg_()}"
        except DpframeError:  # no matplotlib
            return shown


def audit_run(
    scores: npt.NDArray[Any],
    members: npt.NDArray[Any],
    *,
    claim: Claim | None,
    delta: float,
    confidence: float = 0.95,
    estimators: Sequence[str | Estimator] | None = None,
    parameters: dict[str, Any] | None = None,
    warnings: Sequence[str] = (),
    limits: Sequence[str] = (),
    training: dict[str, Any] | None = None,
    name: str = "one run",
    assume: str | None = None,
    independent: bool = False,
    step_bets: dict[str, Any] | None = None,
) -> RunAudit:
    """Bound the loss of one training run from its canaries, and compare the bound with the claim.

    Args:
        scores: shape [m], larger for members.
        members: the coins, shape [m].
        claim: None for a bound alone.
        delta: of the bound.
        confidence: of the bound and the verdict.
        estimators: from the one-run family; None means one-run, or the estimator that assumes
            what `assume` names.
        parameters: of the estimators.
        warnings: about the training; a `Doubt` makes "consistent" inconclusive.
        limits: sentences on what was not checked or cannot be shown.
        training: a description of the run, for the record.
        name: of the scores.
        assume: see `dpframe.score_one_run`.
        independent: True if the score of each canary depends on no coin but its own.
        step_bets: bets on the stated noise of each step, `StepBets.described()`.
    """
    if assume is None and estimators is None:
        estimators = ("one-run",)
    answer = score_one_run(
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
    answer["scores"]["name"] = name
    remarks = list(warnings)
    if nan := int(answer["scores"]["nan"]):
        remarks.append(
            f"{nan} scores are NaN and count as the smallest: the model may have diverged"
        )
    if answer["independent"] is not None:
        answer["independent"]["supported"] = independent
    if len(np.unique(scores)) == 1:  # NaN counts as one value
        remarks.append(Doubt(NOTHING_TESTED))
    doubts = [one for one in remarks if isinstance(one, Doubt)]
    for row in answer["rows"]:
        if doubts and row["verdict"] == CONSISTENT:
            row |= {"verdict": INCONCLUSIVE, "reason": f"no violation found, but {doubts[0]}"}
    answer |= {
        "warnings": [str(one) for one in remarks],
        "limits": list(limits),
        "step_bets": step_bets,
        "training": training,
    }
    audit = RunAudit(answer)
    audit.scores = np.zeros(len(scores), OUTCOME)
    audit.scores["canary"], audit.scores["record"] = np.arange(len(scores)), -1
    audit.scores["included"], audit.scores["score"] = members, scores
    return audit
