"""Bound the loss by the canaries of one run: the body of `dpframe score --one-run`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import chdtr, chdtrc

from dpframe.builtin.one_run_independent import INDEPENDENT, OneRunIndependent, gaussian_bound
from dpframe.claims import Claim
from dpframe.commands import score as scoring
from dpframe.commands.audit import load_plugins
from dpframe.commands.score import Candidate, ScoreRecord
from dpframe.common.types import HostArray
from dpframe.draw.streams import PILOT, Stream, host_generator
from dpframe.errors import DpframeError
from dpframe.interfaces import registry
from dpframe.interfaces.estimator import Estimate, Estimator, Query
from dpframe.interfaces.plugin import Plugin
from dpframe.results.build import basis_of, estimate_record
from dpframe.results.estimate_checks import checked
from dpframe.results.model import CellRecord
from dpframe.results.verdict import (
    CONSISTENT,
    INCONCLUSIVE,
    NOTHING_TESTED,
    VIOLATED,
    at_delta,
    judged,
    rounded_down,
)
from dpframe.scores import columns
from dpframe.scores.sides import (
    ScoreDirection,
    nan_warnings,
    oriented,
    repeat_warnings,
    roc,
    without_nan,
)
from dpframe.stats.gaussian import gaussian_epsilon

IMPOSSIBLE = 1e-6  # probability of refusing fair coins
OWN = ("dpframe", registry.LOCAL)  # whose estimators are asked by default


def takes_canaries(estimator: Estimator) -> bool:
    """True if the estimator applies to the canaries of one run."""
    own = type(estimator).estimate_canaries is not Estimator.estimate_canaries
    statistic = estimator.statistic()
    return own or ("canaries" in statistic.accepts and not statistic.needs_pilot())


def _row(
    candidate: Candidate,
    canaries: columns.CanaryScores,
    queries: list[Query],
    seed: int,
    confidence: float,
) -> tuple[dict[str, Any], CellRecord | None]:
    """Return the row of one estimator, and the cell to judge; None if it gets no verdict.

    There is a query for each δ; the first one has the claim, and gives the estimate. `confidence`
    is that of all verdicts together. Raises DpframeError if the estimator takes canaries but
    refuses these.
    """
    estimator = candidate.estimator
    runs, m = np.atleast_2d(canaries.scores).shape
    stream = Stream(seed, "scores", 0, PILOT)
    found = scoring.ask(
        estimator, queries, stream, lambda q, rng: estimator.estimate_canaries(*canaries, q, rng)
    )
    if found.is_skipped and found.error is not None and takes_canaries(estimator):
        raise found.error  # the canaries are at fault
    row: dict[str, Any] = {
        **found.head(candidate),
        "estimate": None,
        "bounds": [],
        "p_value": None,
        "p_adjusted": None,
        "verdict": None,
        "seconds": found.seconds,
    }
    if found.error is not None:
        return row, None
    certified, first = found.certified, found.estimates[0]
    most = _most(estimator, m, runs, queries) if certified else []
    estimate = estimate_record(first, queries[0], certified, estimator.assumption)
    row["estimate"] = estimate.model_dump()
    row["bounds"] = [
        {
            "delta": query.delta,
            "epsilon": answer.epsilon,
            "epsilon_lower": answer.epsilon_lower if certified else None,
            "ceiling": most[k].epsilon_lower if most else None,
        }
        for k, (query, answer) in enumerate(zip(queries, found.estimates, strict=True))
    ]
    p_extreme = (most[0].p_value if most else None) or first.p_value
    extreme = first._replace(p_value=p_extreme, p_resolved=p_extreme)
    basis = basis_of(first, extreme, queries[0], confidence) if certified else None
    if basis is None:
        return row, None
    row["p_value"] = first.p_value
    # A cell with only the fields that a verdict needs.
    return row, CellRecord.model_construct(
        trials=[runs * m, runs * m],
        estimate=estimate,
        p_value=first.p_value,
        basis=basis,
        statistic={},
        counts=None,
    )


def _most(estimator: Estimator, canaries: int, runs: int, queries: list[Query]) -> list[Estimate]:
    """Return the estimates if every guess were right."""
    try:
        layout = estimator.statistic().lay_out((2, canaries))
        counts = estimator.extreme(layout, (runs, 0))
        return [
            checked(
                estimator.estimate(layout, counts, query._replace(trials=(runs, 0))),
                certified=True,
                tested=query.claim is not None,
            )
            for query in queries
        ]
    except Exception:  # an estimator without extreme counts has no ceiling
        return []


def _reason(cell: CellRecord, canaries: int) -> str | None:
    """Return the reason of a verdict, in terms of canaries."""
    assert cell.basis is not None
    assert cell.estimate is not None
    contrast = cell.basis.contrast
    claimed_at = f"ε = {contrast.claimed:.4g} {at_delta(contrast.delta)}"
    if cell.verdict == INCONCLUSIVE:
        return (
            f"even if every guess were right, {canaries:,} canaries would not reject {claimed_at}; "
            "more canaries are needed"
        )
    if cell.verdict == CONSISTENT:
        return (
            "no violation found; these canaries show a loss of at least "
            f"{rounded_down(cell.estimate.epsilon_lower or 0.0)} "
            f"{at_delta(cell.estimate.delta)}; others may show more"
        )
    return cell.reason


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
    lower_is_member: bool | None = None,
    every: bool = False,
    assume: str | None = None,
) -> ScoreRecord:
    """Bound the loss by the canaries of one run or more, each included by a fair coin.

    All bounds and verdicts hold together at the confidence: certifying estimators share the error,
    and bounds at several values of δ need no further correction. The bounds are about the whole
    algorithm that was run, if each canary was included with probability ½, independently of all
    others. Memberships that fair coins produce with probability below 1e-6 are refused.

    Args:
        scores: scores of m canaries, shape [m], or of independent runs, [runs, m]; or the path of a
            file with scores and memberships.
        members: memberships of the same shape, booleans or 0 and 1, or the path of a file with
            them; None if the file of the scores has both.
        column: title of the column of scores, or its position from 1.
        member: title or position of the column of memberships.
        delta: δ at which ε is bounded, one or several; default: the claim's own, else 0.
        confidence: of all bounds and verdicts together.
        claim: what is claimed for the presence of one record, for p-values and verdicts.
        estimators: their names, or estimators; default: `one-run` and those of `plugins`, so that
            no installed plugin takes a share of the error.
        parameters: values by name, for each estimator given by name that has such a parameter.
        seed: for estimators that draw random numbers, and for the choice of scores set aside.
        plugins: plugin classes in addition to the installed plugins.
        lower_is_member: as for `dpframe.score`; scores in the wrong direction show no loss.
        every: also ask estimators that certify no bound.
        assume: "independent" for bounds and verdicts under the assumption that canaries are drawn
            alike, and that the score of each depends on no coin but its own. Without it the bounds
            hold however scores depend on each other, and the field `independent` has what else
            the assumption would show of a Gaussian mechanism, at a confidence of its own.

    Returns:
        The content of `dpframe score --one-run FILE --json`.

    Raises:
        ScoresError: scores or memberships are missing or cannot be read.
        PluginError: there is no such estimator or parameter.
        DpframeError: the canaries were not included by fair coins; δ or the confidence is out of
            range.
    """
    scoring.check_confidence(confidence)
    scoring.check_claim(claim)
    deltas = scoring.deltas_of(delta, claim)
    name, read = columns.read_with_members(scores, members, column, member, "canaries")
    stated = ScoreDirection(lower_is_member, read.is_loss)
    given = columns.as_canaries(read.values, read.members, name)
    whole = given._replace(scores=oriented(given.scores, lower=stated.lower))
    _check_runs(whole.members)
    runs, m = np.atleast_2d(whole.scores).shape
    aside = stated.set_aside(m, host_generator(Stream(seed, "direction", 0, PILOT)))
    canaries = columns.CanaryScores(whole.scores[..., ~aside], whole.members[..., ~aside])
    asked, skipped = scoring.candidates(load_plugins(plugins), estimators, dict(parameters or {}))
    asked = _suitable(asked, estimators is None, every, assume)
    certify = [
        one
        for one in asked
        if takes_canaries(one.estimator) and scoring.certifies(one.estimator, claim)
    ]
    if estimators is None and not every:
        asked = certify or asked
    level = 1 - (1 - confidence) / max(1, len(certify))

    def judge(these: columns.CanaryScores) -> list[dict[str, Any]]:
        rows, tested = [], []
        for one in asked:
            own = level if one in certify else confidence
            queries = [Query((runs, 0), d, own, None if k else claim) for k, d in enumerate(deltas)]
            row, found = _row(one, these, queries, seed, confidence)
            rows.append(row)
            if found is not None:
                tested.append((row, found))
        cells = judged([cell for _, cell in tested], max(1, len(certify)), "holm")
        for (row, _), cell in zip(tested, cells, strict=True):
            reason, verdict = _reason(cell, these.scores.size), cell.verdict
            if verdict == CONSISTENT and len(np.unique(these.scores)) == 1:  # NaN is one value
                reason, verdict = f"no violation found, but {NOTHING_TESTED}", INCONCLUSIVE
            row.update(verdict=verdict, p_adjusted=cell.p_adjusted, reason=reason)
        return rows

    rows = judge(canaries)
    sides = [whole.scores[~whole.members], whole.scores[whole.members]]
    repeats = repeat_warnings(*sides)
    warnings = [*read.columns.warnings, *repeats, *nan_warnings(*sides)]
    if doubt := read.columns.doubt or "".join(repeats):
        _doubt(rows, doubt)
    if np.isnan(canaries.scores).any() and any(row.get("verdict") == VIOLATED for row in rows):
        filled = without_nan((canaries.scores,), host_generator(Stream(seed, "nan", 0, PILOT)))[0]
        again = judge(columns.CanaryScores(filled, canaries.members))
        pairs = zip(rows, again, strict=True)
        _doubt([row for row, other in pairs if other["verdict"] != VIOLATED], warnings[-1])
    skipped += [
        {"estimator": one.entry.name, "reason": row["reason"]}
        for one, row in zip(asked, rows, strict=True)
        if row["status"] == "skipped"
    ]
    rows = [row for row in rows if row["status"] != "skipped"]
    if estimators is not None:
        scoring.check_asked(rows, skipped, "canaries")
    verdicts = {row["verdict"] for row in rows}
    members_in = int(whole.members.sum())
    described = {
        "name": name,
        "runs": runs,
        "canaries": m,
        "members": members_in,
        "columns": read.columns.described(members_in, whole.members.size - members_in),
        "nan": int(np.isnan(whole.scores).sum()),
        "type": str(whole.scores.dtype),
        "direction": stated.direction(
            whole.scores[aside & ~whole.members], whole.scores[aside & whole.members]
        ),
        "roc": roc(*sides),
    }
    audit = {"delta": deltas, "confidence": confidence, "multiplicity": "holm", "assume": assume}
    return ScoreRecord(
        {
            **scoring.answer("score-one-run", described, audit, claim, deltas[0], seed, asked),
            "warnings": warnings,
            # None if no estimator could decide.
            "refuted": VIOLATED in verdicts if {VIOLATED, CONSISTENT} & verdicts else None,
            "untested": _untested(rows) if claim is not None else None,
            "independent": None
            if doubt or np.isnan(canaries.scores).any()  # NaN may show who is in, or may be missing
            else _independent(canaries, deltas, 1 - confidence, claim),
            "rows": rows,
            "skipped": skipped if estimators is not None else [],
        }
    )


def _suitable(
    asked: list[Candidate], by_default: bool, every: bool, assume: str | None
) -> list[Candidate]:
    """Leave out estimators that take no canaries, or need an assumption that was not made.

    By default also leave out those of installed plugins, unless `every` one is asked.
    """
    if assume not in (None, INDEPENDENT):
        raise DpframeError(f"assume: {assume!r} is not {INDEPENDENT!r}")
    if by_default:
        taken = [one for one in asked if takes_canaries(one.estimator)]
        own = [one for one in taken if every or one.entry.distribution in OWN]
        return [one for one in own if one.estimator.assumes == (assume or "")]
    if assume is not None and not any(one.estimator.assumes == assume for one in asked):
        raise DpframeError(f"assume: none of the named estimators assumes {assume!r}")
    return asked


def _independent(
    canaries: columns.CanaryScores, deltas: Sequence[float], error: float, claim: Claim | None
) -> dict[str, Any]:
    """Return what the scores show of a Gaussian mechanism if they are independent.

    Its error is its own, so no number here is a part of the bounds of the rows.
    """
    found = gaussian_bound(*canaries, error, claim)
    refuted = None if found.p_value is None else found.p_value <= error
    return {
        "assumption": OneRunIndependent.assumption,
        "confidence": 1 - error,
        "mu_lower": found.mu_lower,
        "epsilon": [
            {"delta": delta, "epsilon": float(gaussian_epsilon(delta, found.mu_lower))}
            for delta in deltas
        ],
        "p_value": found.p_value,
        "refuted": refuted,
        "supported": None,
    }


def _doubt(rows: Iterable[dict[str, Any]], doubt: str) -> None:
    """Make verdicts inconclusive, because of a doubt about the scores that is also a warning."""
    for row in rows:
        if row["verdict"] in (VIOLATED, CONSISTENT):
            row.update(verdict=INCONCLUSIVE, reason=f"not decided: {doubt}")


def _untested(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the reason why no estimator decided about the claim; None if there is none."""
    reasons = [row["reason"] for row in rows if row["verdict"] is not None]
    decided = any(row["verdict"] in (VIOLATED, CONSISTENT) for row in rows)
    return None if decided or not reasons else str(reasons[0])


def _check_runs(members: HostArray) -> None:
    """Refuse memberships of several runs that separate fair coins would not make.

    Estimators test those within runs. Under fair coins the spread of the counts of each record has
    less variance than a chi-squared variable, so both tails are conservative.
    """
    if members.ndim == 1:
        return
    runs, canaries = members.shape
    spread = float(((2 * members.sum(axis=0) - runs) ** 2).sum()) / runs
    rule = "each record must be in with probability ½ in each run, independently of other runs"
    if chdtrc(canaries, spread) < IMPOSSIBLE:
        raise DpframeError(f"the same records are included in many of the {runs:,} runs: {rule}")
    if chdtr(canaries, spread) < IMPOSSIBLE:
        raise DpframeError(f"each record is in about half of the {runs:,} runs, too evenly: {rule}")
