"""The results for scores made elsewhere: in sentences, and as CSV."""

import csv
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpframe.report import number_format
from dpframe.report.number_format import brief, duration, percent, plural, point, quantity, setting
from dpframe.report.tables import Assumptions, Line, Part, ReportTable, Row
from dpframe.report.verdict_text import SYMBOL, WORDS
from dpframe.results.rows import field

Found = Mapping[str, Any]
ResultRow = dict[str, Any]

ONE_RUN = "score-one-run"  # the kind of answer about canaries, whose bounds hold together
DEFAULT = "order-statistics"  # the estimator of the headline, fixed before any scores are seen
ASSUMED = {
    "independent": "that canaries are drawn alike, and that the score of each depends on no coin "
    "but its own"
}
"""The assumptions of `--assume`, in words."""
HIDING = 0.1  # part of other records, in units of σ, from which bets on steps can miss faults
LOW_RATES = (0.01, 0.001)  # false-positive rates at which the headline names the true-positive rate


def parts(
    found: Found, *, remarks: bool = False, estimates: bool = False, every: bool = False
) -> Iterator[Part]:
    """Describe the answer of `dpframe.score` or `score_one_run`, with a row for each bound.

    `remarks` includes the notes of estimators instead of their number. `estimates` adds estimators
    that certify nothing, which are also shown if no estimator certifies. `every` adds these and the
    skipped estimators.
    """
    assumptions, one_run = Assumptions(), found["kind"] == ONE_RUN
    rows, certified = answered(found), certified_rows(found)
    shown = rows if estimates or every or not certified else certified
    styles = {conclusion(found): "violated" if found["refuted"] else None, best(found): "bold"}
    styles |= {step_bets(found): "violated"} if refuted_noise(found) else {}
    yield from (Line(text, styles.get(text)) for text in headline(found) or ["No bound"])
    yield from (Line(text, "failed") for text in warnings(found))
    yield from map(Line, sources(found))
    yield Line(terms(found), "dim")
    if shown:
        yield table(found, shown, assumptions)
    yield from assumptions.lines()
    for row in shown if one_run else ():
        if row["reason"]:
            yield Line(f"{row['estimator']['label']}: {row['reason']}", row["verdict"])
    yield from _notes(shown, remarks)
    if warning := unadjusted(found):
        yield Line(warning, "failed")
    alone = (number_format.number(row["p_value"]) for row in certified)
    level = 1 - found["audit"]["confidence"]
    if not one_run and any(p_value is not None and p_value <= level for p_value in alone):
        yield Line(f"{SYMBOL['violated']} a line that refutes the claim, taken alone", "violated")
    if certified:
        yield Line(meaning(found))
    for row in found["rows"]:
        if row["status"] == "failed":
            text = f"{SYMBOL['failed']} {row['estimator']['label']} failed: {row['reason']}"
            yield Line(text, "failed")
    skipped = found["skipped"]
    if every or estimates:
        for skip in skipped:
            yield Line(f"– {skip['estimator']}: left out: {skip['reason']}", "note")
    hidden = [f"{plural(len(rows) - len(shown), 'estimate')} without a bound"] * (rows != shown)
    if skipped and not estimates:
        hidden.append(f"{plural(len(skipped), 'estimator')} left out")
    if hidden and not every:
        yield Line(f"Shown with --all: {', '.join(hidden)}", "dim")


def _notes(rows: list[ResultRow], every: bool) -> Iterator[Line]:
    """Write the notes of estimators, or their number."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row["estimate"]["notes"]:
            notes.setdefault(note, []).append(row["estimator"]["label"])
    if notes and not every:
        many = "1 note of an estimator" if len(notes) == 1 else f"{len(notes)} notes of estimators"
        yield Line(f"{many}, shown with --notes", "dim")
        return
    yield from (Line(f"{', '.join(labels)}: {note}", "note") for note, labels in notes.items())


def answered(found: Found) -> list[ResultRow]:
    """Return the rows of estimators that answered."""
    return [row for row in found["rows"] if row["status"] == "ok"]


def certified_rows(found: Found) -> list[ResultRow]:
    """Return the rows of estimators that certify a bound."""
    return [row for row in answered(found) if row["estimate"]["certified"]]


def headline(found: Found) -> list[str]:
    """Return the answer: assumption, result for the claim, one bound, and what stands beside it."""
    assume = found["audit"].get("assume")
    assumed = f"This result assumes {ASSUMED[assume]}." if assume else ""
    bounds = conclusion(found), best(found), larger(found), independent(found)
    beside = step_bets(found), rates(found), *found.get("beside", ())
    return [line for line in (assumed, *bounds, *beside) if line]


def conclusion(found: Found) -> str:
    """Say if the claim is refuted; empty if nothing tested one."""
    one_run, refuted = found["kind"] == ONE_RUN, found["refuted"]
    if refuted is None or (one_run and not refuted):  # then each line has a verdict of its own
        return ""
    tests = sum(row["p_value"] is not None or row["status"] == "failed" for row in found["rows"])
    paid = f", corrected for {tests} estimators (Bonferroni)" if tests > 1 and not one_run else ""
    sign, word = (SYMBOL["violated"], "") if refuted else (SYMBOL["consistent"], "not ")
    sure = percent(found["audit"]["confidence"])
    return f"{sign} The claim is {word}refuted at {sure} confidence{paid}."


def best(found: Found) -> str:
    """State one bound with its confidence; empty if there is none.

    For canaries this is the largest bound, because their bounds hold together. For other scores it
    is the default estimator's bound, or else the largest, with a confidence lowered for the choice.
    """
    rows, confidence = certified_rows(found), found["audit"]["confidence"]
    if not rows:
        return ""
    if found["kind"] == ONE_RUN:
        top = max(rows, key=lambda row: _number(row["bounds"][0]["epsilon_lower"]))
        bound, delta = (top["bounds"][0][key] for key in ("epsilon_lower", "delta"))
    else:
        rows = [row for row in rows if row["estimator"]["use"] == DEFAULT] or rows
        top = max(rows, key=bound_of)
        bound, delta = top["estimate"]["epsilon_lower"], found["audit"]["delta"]
        confidence = 1 - len(rows) * (1 - confidence)
    if confidence <= 0:
        return (
            "There is no headline bound: with so many estimators, none would hold if picked "
            "after looking."
        )
    at = f"at δ = {setting(delta)}, {percent(confidence)} ({top['estimator']['label']})"
    return f"ε ≥ {_lower(bound)} {at}"


def larger(found: Found) -> str:
    """Name the largest bound if the headline shows a different one, else return ""."""
    rows = certified_rows(found)
    named = [bound_of(row) for row in rows if row["estimator"]["use"] == DEFAULT]
    if found["kind"] == ONE_RUN or not named:
        return ""
    top = max(rows, key=bound_of)
    if bound_of(top) <= max(named):
        return ""
    return (
        f"{top['estimator']['label']} alone certifies more, ε ≥ {_lower(bound_of(top))}; that "
        "holds only if you chose this estimator before you saw the scores."
    )


def independent(found: Found) -> str:
    """State what canaries show of a Gaussian mechanism if scores are independent; "" if nothing."""
    own = found.get("independent")
    if not own or not own["mu_lower"]:
        return ""
    bounds = "".join(
        f"ε ≥ {_lower(one['epsilon'])} at δ = {setting(one['delta'])}, "
        for one in own["epsilon"]
        if one["delta"] > 0  # at δ = 0 a Gaussian mechanism has no ε
    )
    refuted = ", which refutes the claim" if own["refuted"] else ""
    supported = {
        None: "One run cannot test whether scores are independent.",
        True: "These scores are made in a way that supports it.",
        False: "These scores are made in a way that does not support it.",
    }
    so_far = "" if found["audit"]["assume"] else f"{ASSUMED['independent']}, and "
    return (
        f"Assuming {so_far}that the mechanism is Gaussian: μ ≥ {_lower(own['mu_lower'])}, "
        f"{bounds}{percent(own['confidence'])} by itself{refuted}. {supported[own['supported']]}"
    )


def refuted_noise(found: Found) -> bool:
    """True if bets on the steps of a training refute their stated noise."""
    own = found.get("step_bets")
    return own is not None and own["refuted_at"] is not None


def step_bets(found: Found) -> str:
    """State what bets on the steps of a training show of the stated noise; "" without bets."""
    if not (own := found.get("step_bets")):
        return ""
    low, high = map(brief, own["sigma"])
    stated = f"σ = {low if low == high else f'{low} to {high}'}, in units of the clipping norm"
    sure, wealth = percent(own["confidence"]), _lower(math.exp(min(own["largest"], 700)))
    if refuted_noise(found):
        line = (
            f"{SYMBOL['violated']} Bets refute the stated noise ({stated}) after "
            f"{quantity(own['refuted_at'])} of {quantity(own['steps'])} steps, at {sure} by itself "
            "and however canaries depend on each other: the noise is smaller, or gradients are "
            f"longer. Largest wealth: {wealth}."
        )
    else:
        needed = quantity(round(1 / (1 - own["confidence"])))
        line = (
            f"Bets on {plural(own['steps'], 'step')} do not refute the stated noise ({stated}): "
            f"largest wealth {wealth}; {needed} would refute it at {sure}."
        )
    if own["others"] is None:
        return line
    hidden = ", which can hide faults of the noise" if own["others"] > HIDING else ""
    return f"{line} Other records add {own['others']:.2g} σ in the directions of canaries{hidden}."


def bound_of(row: ResultRow) -> float:
    """Return the certified bound of an estimator."""
    return _number(row["estimate"]["epsilon_lower"])


def _number(value: Any) -> float:
    return number_format.number(value) or 0.0


def _lower(value: Any) -> str:
    return number_format.lower(number_format.number(value))


def _point(value: Any) -> str:
    return point(number_format.number(value))


def rates(found: Found) -> str:
    """Write the area under the ROC and the true-positive rates at low false-positive rates."""
    roc = found["scores"]["roc"]
    if not roc:
        return ""
    area = sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(roc))
    reached = [max(y for x, y in roc if x <= low) for low in LOW_RATES]
    shares = (
        f"{100 * y:.3g} % at FPR {setting(100 * low)} %"
        for y, low in zip(reached, LOW_RATES, strict=True)
    )
    of = " (of the reversed scores)" if found["scores"]["direction"]["drawn_reversed"] else ""
    return f"AUC {area:.3f} · TPR {', '.join(shares)}{of}"


def reversal(found: Found) -> str:
    """Warn about scores that are lower with the record; empty if none were noticed."""
    direction = found["scores"]["direction"]
    if not direction["reversed"]:
        return ""
    return (
        "! The scores are lower with the record than without: a test of "
        f"{quantity(sum(direction['set_aside']))} scores that no bound uses shows it (it "
        f"errs with probability below {100 * direction['level']:g} %). If lower means the record, "
        "as with losses, add --lower-is-member."
    )


def untested(found: Found) -> str:
    """Warn that no estimator tested the claim, so that it is not taken as confirmed."""
    if found["claim"] is None or found["refuted"] is not None:
        return ""
    reason = found["untested"] or "no selected estimator can test it on these scores"
    return f"! The claim was not tested: {str(reason).removesuffix('.')}."


def warnings(found: Found) -> list[str]:
    """Return all warnings; those of the tool that made the scores come last."""
    own = [f"! {text}" for text in found["warnings"]]
    return [line for line in (reversal(found), untested(found), *own) if line]


def unadjusted(found: Found) -> str:
    """Warn that each of several bounds holds alone."""
    confidence, count = found["audit"]["confidence"], len(certified_rows(found))
    if count < 2 or found["kind"] == ONE_RUN:
        return ""
    together = 1 - count * (1 - confidence)
    sure = f"with {percent(together)} confidence" if together > 0 else "with no confidence"
    return (
        f"! Not adjusted for {count} bounds: each holds alone at {percent(confidence)}. If "
        f"you pick the best of them now, it holds {sure}. Choose one estimator beforehand instead "
        "(--estimator)."
    )


def sources(found: Found) -> Iterator[str]:
    """Name the scores, the columns that hold them, and their direction."""
    scores, direction = found["scores"], found["scores"]["direction"]
    if columns := scores["columns"]:
        sides = f"{quantity(columns['in'])} in, {quantity(columns['out'])} out"
        yield (
            f"score = column {columns['score']}, membership = column {columns['membership']} "
            f"({sides})"
        )
    if found["kind"] == ONE_RUN:
        members = f"{quantity(scores['members'])} of them members"
        missing = f", {quantity(scores['nan'])} scores NaN" if scores["nan"] else ""
        yield f"{scores['name']}: {canaries(scores)}, {members}{missing}"
    else:
        for key, name in (("in", "D′, with the record"), ("out", "D, without the record")):
            side = scores[key]
            kind = "decision" if side["type"] == "bool" else "score"
            kind += "s" * (side["scores"] != 1)
            column = f", column {side['column']}" if "column" in side else ""
            missing = f", {quantity(side['nan'])} of them NaN" if side["nan"] else ""
            yield f"{side['name']}{column}: {quantity(side['scores'])} {kind}{missing} ({name})"
    yield from _stated(direction)
    if aside := sum(direction["set_aside"]):
        were = "scores were" if aside > 1 else "score was"
        yield f"{quantity(aside)} {were} held out to check the direction."


def canaries(scores: Found) -> str:
    """Write the number of canaries and of runs."""
    runs = scores["runs"]
    of = "of one run" if runs == 1 else f"in each of {quantity(runs)} runs"
    return f"{quantity(scores['canaries'])} canaries {of}"


def _stated(direction: Found) -> Iterator[str]:
    """Say if larger or lower scores indicate the record, and who said so."""
    by_option = direction["stated_by"] == "option"
    if direction["lower_is_member"]:
        why = "--lower-is-member" if by_option else "the column is called a loss"
        other = "" if by_option else " If larger is member, add --higher-is-member."
        yield (
            f"Direction: lower is member ({why}). The scores are negated, because lower scores "
            f"indicate the record.{other}"
        )
    elif by_option:
        although = ", although the column is called a loss" if direction["called_loss"] else ""
        yield f"Direction: larger is member (--higher-is-member{although})."
    else:
        yield "Direction: larger is member (the default)."


def terms(found: Found) -> str:
    """Name the claim, the δ and the confidence."""
    audit, claim, one_run = found["audit"], found["claim"], found["kind"] == ONE_RUN
    claimed, sure = "", percent(audit["confidence"])
    if claim is not None:
        at = setting(claim["delta"])
        claimed = f" · claimed ε {brief(number_format.number(claim['epsilon']) or 0.0)} at δ = {at}"
    elif not one_run:
        claimed = f" at δ = {setting(audit['delta'])}"
    how = f"each bound alone at {sure} (multiplicity none)"
    return f"ε in nats{claimed} · {f'all bounds together at {sure}' if one_run else how}"


def meaning(found: Found) -> str:
    """Return the limits of the numbers."""
    if found["kind"] == ONE_RUN:
        general = (
            "A bound limits the loss of the whole run from below, if a separate fair coin "
            "decided whether each canary was included. The number of canaries limits what they "
            "can show, however large the loss is. No number here says that a mechanism is "
            "private."
        )
        return " ".join([general, *map(str, found.get("limits", ()))])
    return (
        "A bound limits the loss from below: these scores show at least this much. No number here "
        "says that a mechanism is private; other scores may show more."
    )


def table(found: Found, rows: Sequence[ResultRow], assumptions: Assumptions) -> ReportTable:
    """Return a table of estimators: bounds first, the largest on top.

    For canaries there is a line for each δ, beside the largest possible bound of these canaries.
    """
    judged, one_run = found["claim"] is not None, found["kind"] == ONE_RUN
    columns = {
        **{"estimator": True, "δ": one_run, "bound": True, "can show": one_run, "estimate": True},
        **{"p-value": judged, "verdict": judged and one_run, "time": True, "assumes": True},
    }
    heads = [title for title, is_shown in columns.items() if is_shown]
    lines = []
    for row in sorted(
        rows, key=lambda r: (not r["estimate"]["certified"], 0.0 if one_run else -bound_of(r))
    ):
        estimate, p_value = row["estimate"], number_format.number(row["p_value"])
        certified, verdict = estimate["certified"], row.get("verdict")
        if not one_run and p_value is not None and p_value <= 1 - found["audit"]["confidence"]:
            verdict = "violated"
        sign = f"{SYMBOL['violated']} " * (verdict == "violated" and not one_run)
        word = f"{SYMBOL[verdict]} {WORDS[verdict]}" if verdict else "none"
        for place, each in enumerate(row.get("bounds") or [estimate]):
            first = place == 0  # p-value and verdict are those of the first δ
            most = number_format.number(each.get("ceiling")) if certified else None
            point_value = number_format.number(each["epsilon"])
            texts = {
                "estimator": row["estimator"]["label"],
                "δ": setting(each.get("delta")),
                "bound": f"≥ {_lower(each['epsilon_lower'])}" if certified else "no bound",
                "can show": "–" if most is None else f"≤ {point(most)}",
                "estimate": estimate_text(point_value, each.get("interval")),
                "p-value": f"{sign}{point(p_value)}" if first else "–",
                "verdict": word if first else "",
                "time": duration(row["seconds"]) if first else "",
                "assumes": assumptions.mark(estimate["assumption"]) if first else "",
            }
            style = verdict or (None if certified else "dim")
            lines.append(Row([texts[title] for title in heads], style))
    return ReportTable(heads, lines, right=("time",))


def estimate_text(value: float | None, interval: Any) -> str:
    """Write a point value, with limits that promise nothing."""
    if not interval or interval[0] is None:
        return point(value)
    low, high = map(_point, interval)
    return f"{point(value)} ({low} to {high})"


# CSV.


COLUMNS = (
    *("estimator", "status", "delta", "epsilon_lower", "epsilon", "interval_lower"),
    *("interval_upper", "confidence", "certified", "p_value", "verdict", "assumption", "reason"),
)
"""The columns of the .csv report."""


def _rows(found: Found) -> Iterator[ResultRow]:
    """Yield a line for each estimator and δ, best bounds first."""
    best = certified_rows(found)
    if found["kind"] != ONE_RUN:
        best.sort(key=bound_of, reverse=True)
    rest = [row for row in found["rows"] if row not in best]
    for row in [*best, *rest, *found["skipped"]]:
        estimate = row.get("estimate") or {}
        line = dict.fromkeys(COLUMNS) | {key: row[key] for key in COLUMNS if key in row}
        line |= {key: estimate[key] for key in COLUMNS if key in estimate}
        line |= dict(zip(COLUMNS[5:7], estimate.get("interval") or (None, None), strict=True))
        label = row["estimator"] if isinstance(row["estimator"], str) else row["estimator"]["label"]
        line |= {"estimator": label, "status": row.get("status", "skipped")}
        for bound in row.get("bounds") or [{}]:
            yield line | {key: bound[key] for key in COLUMNS if key in bound}


def as_csv(found: Found) -> str:
    """Return the answer about scores, or its JSON, as CSV with the columns `COLUMNS`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows([field(line[column]) for column in COLUMNS] for line in _rows(found))
    return out.getvalue()
