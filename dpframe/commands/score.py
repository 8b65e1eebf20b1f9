"""Estimate losses from scores that were made elsewhere: the body of `dpframe score`."""

import io
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from dpframe.claims import Claim
from dpframe.commands.audit import load_plugins, plugin_record, versions
from dpframe.common.text import error_message, escape
from dpframe.common.types import HostArray
from dpframe.draw.streams import PILOT, Stream, host_generator
from dpframe.errors import CellError, DpframeError, PluginError
from dpframe.interfaces import registry
from dpframe.interfaces.estimator import Estimate, Estimator, Query
from dpframe.interfaces.plugin import Plugin, names_in_specs, problems_of
from dpframe.interfaces.registry import Entry, Registry
from dpframe.interfaces.statistic import PILOT_MOST, PILOT_SHARE
from dpframe.report.scores import headline, parts
from dpframe.results.build import curve_points, estimate_record
from dpframe.results.estimate_checks import checked
from dpframe.results.model import SCHEMA
from dpframe.results.strict_json import plain
from dpframe.scores.sides import (
    ScoreDirection,
    nan_warnings,
    oriented,
    read_sides,
    repeat_warnings,
    roc,
    without_nan,
)


class ScoreRecord(dict[str, Any]):
    """The answer about scores made elsewhere, as a dictionary with the keys of `--json`."""

    def __repr__(self) -> str:
        return escape(f"<scores made elsewhere: {'; '.join(headline(self))}>")

    def __str__(self) -> str:
        """Return what `dpframe score` prints."""
        from rich.console import Console

        from dpframe.report.terminal.text import show_parts

        out = io.StringIO()
        show_parts(Console(file=out, width=100), parts(self))
        return out.getvalue().rstrip()

    def _repr_html_(self) -> str:
        from dpframe.report.html import scores_fragment

        return scores_fragment(self)


class Candidate(NamedTuple):
    """An estimator and its entry in the registry."""

    entry: Entry
    estimator: Estimator


def candidates(
    installed: Registry, named: Sequence[str | Estimator] | None, parameters: dict[str, Any]
) -> tuple[list[Candidate], list[dict[str, str]]]:
    """Make the estimators to run; also return those that cannot be made, with the reasons.

    `named` are names or estimators; None selects every installed estimator that needs no
    parameters. Each estimator given by name gets those `parameters` that it has. Raises PluginError
    if a name is unknown, or a parameter is refused or belongs to none of the estimators.
    """
    if isinstance(named, str):
        named = [named]
    chosen: list[Any] = list(installed.of_kind("estimator")) if named is None else list(named)
    usable: list[Candidate] = []
    skipped: list[dict[str, str]] = []
    used: set[str] = set()
    for one in chosen:
        if isinstance(one, Estimator):
            entry = registry.Entry("estimator", one.name, registry.LOCAL, registry.LOCAL, type(one))
            usable.append(Candidate(entry, one))
            continue
        entry = installed.find("estimator", one) if isinstance(one, str) else one
        names = set(names_in_specs(entry.cls).values())
        own = {name: value for name, value in parameters.items() if name in names}
        used |= own.keys()
        try:
            usable.append(Candidate(entry, entry.cls.from_params(own)))
        except ValueError as error:
            if named is not None or own:
                raise PluginError(f"estimator {entry.name!r}: {_explained(error)}") from error
            skipped.append({"estimator": entry.name, "reason": _explained(error)})
    if unknown := sorted(parameters.keys() - used):
        raise PluginError(f"none of these estimators has a parameter {unknown[0]!r}")
    return usable, skipped


def _explained(error: ValueError) -> str:
    """Return why parameters are refused."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"parameter {'.'.join(map(str, place))!r}: {message}"
        for place, _, message in problems_of(error)
    )


def check_confidence(confidence: float) -> None:
    """Raise DpframeError unless the confidence is in (0, 1)."""
    if not 0 < confidence < 1:
        raise DpframeError(f"confidence: {confidence} is not between 0 and 1")


def deltas_of(delta: float | Sequence[float] | None, claim: Claim | None) -> list[float]:
    """Return the requested values of δ without repeats; raise DpframeError if one is not valid."""
    if delta is None:
        given = [claim.default_delta if claim is not None else 0.0]
    else:
        given = list(delta) if isinstance(delta, Sequence) else [delta]
    for each in given:
        if not 0 <= each < 1:
            raise DpframeError(f"delta: {each} is not in [0, 1)")
    if not given:
        raise DpframeError("delta: give at least one number")
    return [float(each) for each in dict.fromkeys(given)]


def answer(
    kind: str,
    scores: dict[str, Any],
    audit: dict[str, Any],
    claim: Claim | None,
    delta: float,
    seed: int,
    estimators: Sequence[Candidate],
) -> dict[str, Any]:
    """Return the fields of an answer other than its rows; `delta` is that of the claim's ε."""
    claimed = claim and {
        "kind": claim.kind,
        "epsilon": claim.epsilon_at(delta),
        "delta": delta,
        "parameters": plain(claim.parameters()),
        "tradeoff": curve_points(claim),
    }
    entries = [candidate.entry for candidate in estimators]
    return {
        "schema": SCHEMA,
        "kind": kind,
        "scores": scores,
        "audit": audit,
        "claim": claimed,
        "seed": seed,
        "environment": versions(),
        "plugins": [
            plugin_record(e.name, e.distribution, e.version, e.cls).model_dump() for e in entries
        ],
    }


def score(
    scores_in: Any,
    scores_out: Any = None,
    *,
    column: str | None = None,
    member: str | None = None,
    members: Any = None,
    delta: float | None = None,
    confidence: float = 0.95,
    claim: Claim | None = None,
    estimators: Sequence[str | Estimator] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    plugins: Iterable[type[Plugin]] = (),
    lower_is_member: bool | None = None,
    every: bool = False,
) -> ScoreRecord:
    """Estimate the loss that scores show, with several estimators on the same scores.

    Every bound holds alone at the confidence; nothing is adjusted for their number.

    Args:
        scores_in: scores of an attack with the record in the data (D′): an array of shape [n] of
            floats, integers or booleans (decisions), or the path of a file with them.
        scores_out: scores without the record (D); the lengths may differ. None if `scores_in` has
            all scores: the path of a file with a column of memberships, or with `members`.
        column: title of the column of scores, or its position from 1.
        member: title or position of the column of memberships: 1 (or true) with the record, 0
            without.
        members: a membership for each score, in the same order: an array, or the path of a file.
        delta: δ at which ε is estimated; default: the claim's own, else 0.
        confidence: level of each bound.
        claim: what is claimed, for p-values.
        estimators: their names, or estimators; default: every installed one that certifies a
            bound, or all if none does.
        parameters: values by name, for each estimator given by name that has such a parameter.
        seed: decides which scores are set aside for a pilot.
        plugins: plugin classes in addition to the installed plugins.
        lower_is_member: False if larger scores indicate D′, True if lower scores do. Default: True
            for a column named `loss`; else False, which is tested on a twentieth of the scores that
            no bound uses. With True these scores are not used either.
        every: also ask the installed estimators that certify no bound.

    Returns:
        The content of `dpframe score --json`: inputs, a row for each estimator, and the skipped
        estimators. A notebook shows the headline and a table.

    Raises:
        ScoresError: the scores cannot be read, or are not scores.
        PluginError: there is no such estimator or parameter.
        DpframeError: δ or the confidence is out of range, both sides are the same scores, or no
            estimator in `estimators` takes such scores.
    """
    check_confidence(confidence)
    check_claim(claim)
    (at,) = deltas_of(delta, claim)
    inside, outside, columns = read_sides(scores_in, scores_out, column, member, members)
    stated = ScoreDirection(lower_is_member, inside.is_loss and outside.is_loss)
    whole = tuple(oriented(side.values, lower=stated.lower) for side in (outside, inside))
    aside = [
        stated.set_aside(len(values), host_generator(Stream(seed, "direction", side, PILOT)))
        for side, values in enumerate(whole)
    ]
    scores = (whole[0][~aside[0]], whole[1][~aside[1]])
    query = Query((len(scores[0]), len(scores[1])), at, confidence, claim)
    chosen, skipped = candidates(load_plugins(plugins), estimators, dict(parameters or {}))
    later: list[Candidate] = []
    if estimators is None and not every:
        later = [one for one in chosen if not certifies(one.estimator, claim)]
    rows: list[dict[str, Any]] = []

    def ask_all(those: Iterable[Candidate]) -> None:
        for one in those:
            row = _row(one, scores, query, seed)
            if row["status"] == "skipped":
                skipped.append({"estimator": one.entry.name, "reason": row["reason"]})
            else:
                rows.append(row)

    ask_all(one for one in chosen if one not in later)
    if not rows:
        ask_all(later)
    else:
        skipped += [{"estimator": one.entry.name, "reason": CERTIFIES_NOTHING} for one in later]
        chosen = [one for one in chosen if one not in later]
    if estimators is not None:
        check_asked(rows, skipped, "decisions" if whole[0].dtype == np.bool_ else "scores")
    direction = stated.direction(*(v[a] for v, a in zip(whole, aside, strict=True)))
    one_way = any(one.estimator.params().get("direction") == "up" for one in chosen)
    if direction["reversed"] and not one_way:  # then the bounds are for both directions
        direction["drawn_reversed"] = True
        whole = tuple(oriented(values, lower=True) for values in whole)
    described = {
        "in": inside.described(),
        "out": outside.described(),
        "columns": columns.described(len(inside.values), len(outside.values)),
        "direction": direction,
        "roc": roc(*whole),
    }
    audit = {"delta": at, "confidence": confidence, "multiplicity": "none"}
    refuted, untested = None if claim is None else _refuted(rows, confidence), None
    repeats = repeat_warnings(outside.values, inside.values)
    warnings = [*columns.warnings, *repeats, *nan_warnings(outside.values, inside.values)]
    if refuted is not None:
        certifying = [one for one in chosen if one not in later]
        doubt = columns.doubt or "".join(repeats)
        untested = doubt or _untested(certifying, scores, query, seed, refuted=refuted)
        refuted = None if untested else refuted
    return ScoreRecord(
        {
            **answer("score", described, audit, claim, at, seed, chosen),
            "warnings": warnings,
            "refuted": refuted,
            "untested": untested,
            "rows": rows,
            "skipped": skipped,
        }
    )


def check_claim(claim: Any) -> None:
    """Raise DpframeError if a claim is given as a number or a text."""
    if claim is not None and not isinstance(claim, Claim):
        raise DpframeError(
            f"claim: {claim!r} is not a claim; pass one, such as dpframe.PureDP(1.0)"
        )


ESTIMATOR_FOR = {"scores": "order-statistics", "decisions": "precision", "canaries": "one-run"}
"""An estimator for each kind of scores."""


def check_asked(rows: Sequence[Any], skipped: Sequence[dict[str, str]], kind: str) -> None:
    """Raise DpframeError if no estimator that a user named takes such scores."""
    if not rows and skipped:
        why = "; ".join(f"estimator {skip['estimator']!r}: {skip['reason']}" for skip in skipped)
        raise DpframeError(f"{why}. These are {kind}: use {ESTIMATOR_FOR[kind]!r}, for example")


def _untested(
    certifying: Sequence[Candidate],
    scores: tuple[HostArray, HostArray],
    query: Query,
    seed: int,
    *,
    refuted: bool,
) -> str | None:
    """Return the reason why scores like these decide nothing about the claim, or None."""
    whole = np.concatenate(scores)
    if refuted:
        if whole.dtype == np.bool_ or not np.isnan(whole).any():
            return None
        filled = without_nan(scores, host_generator(Stream(seed, "nan", 0, PILOT)))
        rows = [_row(one, (filled[0], filled[1]), query, seed) for one in certifying]
        if _refuted(rows, query.confidence):
            return None
        return (
            "it is refuted only by scores that are NaN, which may be missing. If they are results, "
            "write a number for them, such as -inf"
        )
    if len(np.unique(whole)) == 1:
        return "all scores are equal, so nothing was tested"
    apart = (np.zeros_like(scores[0]), np.ones_like(scores[1]))
    rows = [_row(one, apart, query, seed) for one in certifying]
    if _refuted(rows, query.confidence):
        return None
    return (
        f"even if every score stated the sides apart, {len(scores[1]):,} and {len(scores[0]):,} "
        "scores would not refute it; more scores are needed"
    )


CERTIFIES_NOTHING = "certifies no bound; run it with --all"


def certifies(estimator: Estimator, claim: Claim | None) -> bool:
    """True if the estimator certifies a bound."""
    try:
        return bool(estimator.certifies_against(claim))
    except Exception:  # in a plugin; its row reports it
        return True


def _refuted(rows: list[dict[str, Any]], confidence: float) -> bool | None:
    """True if all rows together refute the claim; None if no row tested it.

    P-values are corrected for the number of rows (Bonferroni). Failed rows count too, because it is
    not known beforehand which estimators fail.
    """
    tested = [row["p_value"] for row in rows if row["p_value"] is not None]
    failed = sum(row["status"] == "failed" for row in rows)
    if not tested:
        return None
    return bool(min(tested) * (len(tested) + failed) <= 1 - confidence)


class EstimatorResults(NamedTuple):
    """The estimates of one estimator, or the error in their place."""

    estimates: list[Estimate]  # one for each query; empty after an error
    certified: bool
    error: Exception | None
    seconds: float

    @property
    def is_skipped(self) -> bool:
        """True if the estimator refused the scores."""
        return isinstance(self.error, DpframeError) and not isinstance(self.error, CellError)

    def head(self, candidate: Candidate) -> dict[str, Any]:
        """Return the first fields of a row."""
        name, error = candidate.entry.name, self.error
        status = "ok" if error is None else "skipped" if self.is_skipped else "failed"
        reason = str(error) if isinstance(error, DpframeError) else error and error_message(error)
        choice = {"use": name, "label": name, "params": candidate.estimator.params()}
        return {"estimator": choice, "status": status, "reason": reason}


def ask(
    estimator: Estimator,
    queries: Sequence[Query],
    stream: Stream,
    answer: Callable[[Query, np.random.Generator], Any],
) -> EstimatorResults:
    """Ask one estimator; every query gets the same generator, so the order does not matter."""
    started = time.perf_counter()
    estimates: list[Estimate] = []
    certified, error = False, None
    try:
        certified = bool(estimator.certifies_against(queries[0].claim))
        for query in queries:
            estimate = answer(query, host_generator(stream))
            tested = certified and query.claim is not None
            estimates.append(checked(estimate, certified=certified, tested=tested))
    except Exception as raised:  # a plugin's mistake becomes a row of the table
        estimates, error = [], raised
    return EstimatorResults(estimates, certified, error, time.perf_counter() - started)


def _row(
    candidate: Candidate, scores: tuple[HostArray, HostArray], query: Query, seed: int
) -> dict[str, Any]:
    estimator = candidate.estimator
    stream = Stream(seed, "score", 0, PILOT)
    answers = ask(
        estimator, [query], stream, lambda q, rng: estimator.estimate_scores(scores, q, rng)
    )
    record = p_value = None
    for estimate in answers.estimates:
        notes = _set_aside(estimator)
        stored = estimate_record(estimate, query, answers.certified, estimator.assumption, notes)
        record, p_value = stored.model_dump(), estimate.p_value if answers.certified else None
    row = {**answers.head(candidate), "estimate": record, "p_value": p_value}
    return {**row, "seconds": answers.seconds}


def _set_aside(estimator: Estimator) -> tuple[str, ...]:
    """Return a note if some scores are not counted because they choose bins or thresholds."""
    splits = type(estimator).estimate_scores is Estimator.estimate_scores
    if not (splits and estimator.statistic().needs_pilot()):
        return ()
    return (
        f"a random {100 * PILOT_SHARE:.0f} % of each side, at most {PILOT_MOST:,}, chose "
        "thresholds or bins; the rest were counted",
    )
