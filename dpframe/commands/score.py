"""Scores that were made elsewhere: the body of `dpframe score`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from dpframe.commands.audit import load_plugins, plugin_record, versions
from dpframe.common.text import error_message
from dpframe.errors import CellError, DpframeError, PluginError, ScoresError
from dpframe.interfaces import registry
from dpframe.interfaces.estimator import Estimator, Query
from dpframe.interfaces.plugin import names_in_specs, problems_of
from dpframe.results.answer import checked
from dpframe.results.build import curve_points, estimate_record
from dpframe.results.model import SCHEMA
from dpframe.results.plain import plain
from dpframe.sampling.address import PILOT, Stream, host_generator
from dpframe.scores.count import PILOT_MOST, PILOT_SHARE, roc
from dpframe.scores.tables import as_scores, read_members, read_scores

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpframe.claims import Claim
    from dpframe.common.types import HostArray
    from dpframe.interfaces.estimator import Estimate
    from dpframe.interfaces.plugin import Plugin
    from dpframe.interfaces.registry import Entry, Registry


# Which estimators are asked about scores that were made elsewhere, and with which parameters.


class Candidate(NamedTuple):
    """An estimator to be asked."""

    entry: Entry
    estimator: Estimator

    @property
    def label(self) -> str:
        """Its name in the table."""
        return self.entry.name

    def plugin(self) -> dict[str, Any]:
        """Its entry in the record."""
        entry = self.entry
        return plugin_record(entry.name, entry.distribution, entry.version, entry.cls).model_dump()

    def choice(self) -> dict[str, Any]:
        """The entry of the estimator in a row."""
        name = self.entry.name
        return {"use": name, "label": name, "params": self.estimator.params()}


def candidates(
    found: Registry,
    wanted: Sequence[str | Estimator] | None,
    parameters: dict[str, Any],
) -> tuple[list[Candidate], list[dict[str, str]]]:
    """Makes the estimators to ask.

    Args:
        found: where names are looked up.
        wanted: names or estimators; None means every one that can do without parameters.
        parameters: given to each named one that has a parameter of the name.

    Returns:
        The estimators, and those that cannot be asked, each with the reason.

    Raises:
        PluginError: a name is unknown, or a parameter is refused or belongs to none of them.
    """
    chosen: list[Any] = list(found.of_kind("estimator")) if wanted is None else list(wanted)
    made: list[Candidate] = []
    skipped: list[dict[str, str]] = []
    taken: set[str] = set()
    for one in chosen:
        if isinstance(one, Estimator):
            made.append(_local(one))
            continue
        entry = found.find("estimator", one) if isinstance(one, str) else one
        names = set(names_in_specs(entry.cls).values())
        own = {name: value for name, value in parameters.items() if name in names}
        taken |= own.keys()
        try:
            made.append(Candidate(entry, entry.cls.from_params(own)))
        except ValueError as error:
            if wanted is not None or own:
                raise PluginError(f"estimator {entry.name!r}: {_explained(error)}") from error
            skipped.append({"estimator": entry.name, "reason": _explained(error)})
    if unknown := sorted(parameters.keys() - taken):
        raise PluginError(f"none of these estimators has a parameter {unknown[0]!r}")
    return made, skipped


def _local(estimator: Estimator) -> Candidate:
    local = registry.LOCAL
    return Candidate(
        registry.Entry("estimator", estimator.name, local, local, type(estimator)), estimator
    )


def _explained(error: ValueError) -> str:
    """Why parameters are refused."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"parameter {'.'.join(map(str, place))!r}: {message}"
        for place, _, message in problems_of(error)
    )


# What is asked about scores made elsewhere, of two sides or of one run; heads of answers.


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
    """Return the fields of an answer other than its rows.

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


# Scores that were made elsewhere, given to every estimator: the input of `dpframe score`.


def score(
    scores_in: Any,
    scores_out: Any = None,
    *,
    column: str | None = None,
    member: str | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    claim: Claim | None = None,
    estimators: Sequence[str | Estimator] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    plugins: Iterable[type[Plugin]] = (),
) -> dict[str, Any]:
    """Estimates the loss that scores show, with several estimators on the same scores.

    Every bound holds alone at the confidence; nothing is adjusted for their number.

    Args:
        scores_in: scores of an attack where the record is in the data (D′): an array of shape [n]
            of floats, integers or booleans (decisions), or the path of a file with them. Larger
            means more like D′.
        scores_out: the same without the record (D); the lengths may differ. None if `scores_in` is
            the path of a file that has both, and says in a column of memberships which is which.
        column: title of the scores in files that have several columns, or their place from 1.
        member: the same of the memberships: 1 (or true) with the record, 0 without.
        delta: δ at which ε is estimated; default: the claim's own, else 0.
        confidence: level of each bound.
        claim: what is claimed, for p-values.
        estimators: their names, or estimators; default: every one that is installed.
        parameters: given to each estimator of these that has a parameter of the name; one that is
            handed over as an estimator keeps its own.
        seed: decides which scores are set aside for a pilot.
        plugins: classes to make available beside the installed ones.

    Returns:
        What `dpframe score --json` prints: inputs, a row per estimator, and which were left out.

    Raises:
        ScoresError: the scores cannot be read, or are no scores.
        PluginError: there is no such estimator or parameter.
        DpframeError: δ or the confidence is out of range.
    """
    check_confidence(confidence)
    (at,) = deltas_of(delta, claim)
    inside, outside = _both(scores_in, scores_out, column, member)
    if (inside.values.dtype == np.bool_) != (outside.values.dtype == np.bool_):
        raise DpframeError(
            f"{inside.name} and {outside.name}: decisions on one side and scores on the other"
        )
    scores = (outside.values, inside.values)
    trials = (len(scores[0]), len(scores[1]))
    query = Query(trials, at, confidence, claim)
    asked, skipped = candidates(load_plugins(plugins), estimators, dict(parameters or {}))
    rows = []
    for candidate in asked:
        row = _row(candidate, scores, query, seed)
        if row["status"] == "skipped":
            skipped.append({"estimator": candidate.label, "reason": row["reason"]})
        else:
            rows.append(row)
    described = {
        "in": inside.described(),
        "out": outside.described(),
        "roc": roc(outside.values, inside.values),
    }
    audit = {"delta": at, "confidence": confidence, "multiplicity": "none"}
    return {
        **answer("score", described, audit, claim, at, seed, asked),
        "refuted": None if claim is None else _refuted(rows, confidence),
        "rows": rows,
        "skipped": skipped,
    }


def _refuted(rows: list[dict[str, Any]], confidence: float) -> bool | None:
    """True if all rows together refute the claim; None if no row tested it.

    A line refutes at its own level. Together they pay for their number (Bonferroni), failed ones
    too, because which of them fail is not known beforehand.
    """
    tested = [row["p_value"] for row in rows if row["p_value"] is not None]
    failed = sum(row["status"] == "failed" for row in rows)
    if not tested:
        return None
    return bool(min(tested) * (len(tested) + failed) <= 1 - confidence)


class _Scores(NamedTuple):
    """One side's scores and where they come from."""

    name: str
    values: HostArray

    def described(self) -> dict[str, Any]:
        """Their entries in the record."""
        values = self.values
        lacking = 0 if values.dtype == np.bool_ else int(np.count_nonzero(np.isnan(values)))
        return {"name": self.name, "scores": len(values), "nan": lacking, "type": str(values.dtype)}


def _both(
    scores_in: Any, scores_out: Any, column: str | None, member: str | None
) -> tuple[_Scores, _Scores]:
    """The scores on D′ and on D."""
    if scores_out is not None:
        if member is not None:
            raise DpframeError("member: two files need no memberships")
        inside, outside = (
            _taken(scores_in, "scores in", column),
            _taken(scores_out, "scores out", column),
        )
        return inside, outside
    if not isinstance(scores_in, str | os.PathLike):
        raise DpframeError("scores_out: only one file can hold both, with memberships")
    values, members = read_members(Path(scores_in), column, member)
    sides = [values[of] for of in (members, ~members)]
    for scores, word in zip(sides, ("in", "out"), strict=True):
        if not len(scores):
            raise ScoresError(f"{scores_in}: nothing is {word}: every membership is the same")
    name = os.fspath(scores_in)
    return _Scores(f"{name}, in", sides[0]), _Scores(f"{name}, out", sides[1])


def _taken(scores: Any, name: str, column: str | None) -> _Scores:
    if isinstance(scores, str | os.PathLike):
        return _Scores(os.fspath(scores), read_scores(Path(scores), column))
    return _Scores(name, as_scores(scores, name))


def _row(
    candidate: Candidate, scores: tuple[HostArray, HostArray], query: Query, seed: int
) -> dict[str, Any]:
    """Ask one estimator; each gets the same generator, so the order does not matter."""
    estimator = candidate.estimator
    rng = host_generator(Stream(seed, "score", 0, PILOT))
    certified = False
    estimate: Estimate | None = None
    status, reason = "ok", None
    started = time.perf_counter()
    try:
        certified = bool(estimator.certifies_against(query.claim))
        answer = estimator.estimate_scores(scores, query, rng)
        tested = certified and query.claim is not None
        estimate = checked(answer, certified=certified, tested=tested)
    except CellError as error:
        status, reason = "failed", str(error)
    except DpframeError as error:
        status, reason = "skipped", str(error)
    except Exception as error:  # a plugin's mistake is a line of the table
        estimate = None
        status, reason = "failed", error_message(error)
    seconds = time.perf_counter() - started
    return {
        "estimator": candidate.choice(),
        "status": status,
        "reason": reason,
        "estimate": None
        if estimate is None
        else estimate_record(
            estimate, query, certified, estimator.assumption, _set_aside(estimator)
        ).model_dump(),
        "p_value": estimate.p_value if estimate and certified else None,
        "seconds": seconds,
    }


def _set_aside(estimator: Estimator) -> tuple[str, ...]:
    """A remark where some scores are not counted, because they only choose bins or thresholds."""
    splits = type(estimator).estimate_scores is Estimator.estimate_scores
    if not (splits and estimator.statistic().needs_pilot()):
        return ()
    return (
        f"a random {PILOT_SHARE:.0%} of each side, at most {PILOT_MOST:,}, chose thresholds or "
        "bins; the rest was counted",
    )
