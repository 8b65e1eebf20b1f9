"""The kinds of figures, and the choice of those that fit a record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dpframe.common.text import did_you_mean
from dpframe.errors import DpframeError
from dpframe.report.figures import comparison, curves, histograms, sweep
from dpframe.report.figures.drawing import NO_PROOF, Picture, counted, settings, shorten
from dpframe.report.figures.points import Published, kept
from dpframe.report.findings import validity
from dpframe.report.number_format import percent
from dpframe.report.terminal.plan import Outlook
from dpframe.results.model import Record


def promise(record: Record) -> str:
    """Say with which confidence the certified bounds of a record hold."""
    if not any(cell.estimate and cell.estimate.certified for cell in record.cells):
        return "Estimates only: nothing here is certified."
    alone = percent(record.audit.confidence)
    return (
        " ".join(validity(record)) or f"Each bound holds only on its own with {alone} confidence."
    )


def repeats(record: Record) -> str:
    """Say how replicates are drawn; empty if there are none."""
    count = 1 + max((cell.repeat for cell in record.cells), default=0)
    return f"Means of {count} repeats; bars from the smallest to the largest." if count > 1 else ""


def no_proof(record: Record) -> str:
    """Say that no violation found proves nothing; empty if there is no such verdict."""
    return NO_PROOF if any(cell.verdict == "consistent" for cell in record.cells) else ""


class FigureKind(NamedTuple):
    """A kind of figure."""

    find: Callable[[Record], Any]  # returns the content, or a text with the reason for none
    draw: Callable[..., None]  # takes the picture and the content
    caption: str  # `audit` is the name of the audit, `found` the content
    sentences: Sequence[Callable[[Record], str]] = (promise, no_proof)


# The first that fits a record is its default.
KINDS = {
    "sweep": FigureKind(
        sweep.find_sweep,
        sweep.draw_sweep,
        "Loss of {audit} against {found.along}; between the swept values, lines and areas only "
        "guide the eye.",
        (promise, repeats, no_proof),
    ),
    "heat-map": FigureKind(
        sweep.find_heat_map,
        sweep.draw_heat_map,
        "Certified ε / claimed ε of {audit}, a cell each; above 1 the claim is refuted.",
    ),
    "trade-off": FigureKind(
        curves.find_curves,
        curves.draw_tradeoff,
        "Trade-off curves of {audit}: false-negative rate against false-positive rate; on the "
        "right, the true-positive rate, where a higher curve means more loss. The mechanism's "
        "curve runs through each certified point or below it, on the right above it.",
    ),
    "profile": FigureKind(
        curves.find_curves,
        curves.draw_profile,
        "Privacy profiles of {audit}: δ against ε. The mechanism's profile is nowhere below the "
        "certified one.",
    ),
    "comparison": FigureKind(
        comparison.find_comparison,
        comparison.draw_comparison,
        "Estimators of {audit} on the same draws. Intervals and point values are not bounds.",
    ),
    "compositions": FigureKind(
        comparison.find_compositions,
        comparison.draw_compositions,
        "Loss of {audit} after several releases, estimated from one: not a bound in either "
        "direction. Claimed and certified values are for one release.",
        (repeats, no_proof),
    ),
    "slack": FigureKind(
        comparison.find_slack,
        comparison.draw_slack,
        "Slack of {audit}, without violated cells: certified ε and the parts of claimed − "
        "certified ε, as shares of the claimed ε. They add up to 1; parts below 0 are drawn left "
        "of 0.",
    ),
    "scores": FigureKind(
        histograms.find_histograms,
        histograms.draw_scores,
        "Scores of {audit} on D and on D′, as counted; beyond the ends of a panel are 0.05 % of "
        "them or fewer.",
        (),
    ),
    "inverse-cdf": FigureKind(
        histograms.find_histograms,
        histograms.draw_inverse_cdf,
        "Inverse distribution functions of the scores of {audit}: a share u of the draws is below "
        "the curve's height. NaN scores come last.",
        (),
    ),
    "wealth": FigureKind(
        comparison.find_wealth,
        comparison.draw_wealth,
        "Growth of the evidence in {audit}: the log wealth of the bets against the claim, over "
        "draws on each dataset. The symbol at the end of a line is its verdict.",
        (no_proof,),
    ),
}


def kinds(record: Record) -> dict[str, str | None]:
    """Return all kinds of figures, each with None if it fits the record, else the reason."""
    found = {name: kind.find(record) for name, kind in KINDS.items()}
    return {name: content if isinstance(content, str) else None for name, content in found.items()}


def draw(
    record: Record,
    kind: str | None = None,
    *,
    where: Mapping[str, object] | None = None,
    panels: Sequence[Sequence[str]] = (),
    beside: Published | None = None,
) -> Picture:
    """Draw one figure of a record, with a `caption`; arguments are as for `dpframe.plot`.

    Raises DpframeError if no such figure can be made.
    """
    record = kept(record, where or {})
    if not record.cells:
        raise DpframeError("this record has no cells, so there is nothing to draw")
    name = _chosen(record, kind)
    if beside is not None and name not in ("sweep", "compositions"):
        raise DpframeError(
            f"other numbers can be drawn in the kinds sweep and compositions, not in {name}"
        )
    if panels and name != "sweep":
        raise DpframeError(f"panels can be combined in the kind sweep, not in {name}")
    more: dict[str, Any] = {"together": panels} if panels else {}
    more |= {"beside": beside} if beside is not None else {}
    one = KINDS[name]
    found = one.find(record)
    with settings():
        picture = Picture(record.cells)
        one.draw(picture, found, **more)
        failed = sum(cell.status == "failed" for cell in record.cells)
        picture.finish(
            one.caption.format(audit=shorten(record.audit.name, 60), found=found),
            *picture.remarks,
            *(say(record) for say in one.sentences if say is not no_proof),
            *counted(failed, "cell", "failed and is not shown", "failed and are not shown"),
            *counted(len(record.skipped), "combination", "was skipped", "were skipped"),
            no_proof(record) if no_proof in one.sentences else "",
        )
    return picture


def _chosen(record: Record, kind: str | None) -> str:
    """Return the kind to draw, or raise DpframeError with the reasons against it."""
    reasons = kinds(record)
    unfit = [f"   {name}: {reason}" for name, reason in reasons.items() if reason is not None]
    fit = [name for name, reason in reasons.items() if reason is None]
    fitting = f"kinds that fit it: {', '.join(fit) or 'none'}"
    name = kind or next(iter(fit), None)
    if name is None:
        raise DpframeError("\n".join(["no kind of figure fits this record:", *unfit]))
    if name not in KINDS:
        head = [f"unknown kind of figure {name!r}{did_you_mean(KINDS, name)}", fitting]
        raise DpframeError("\n".join([*head, *(["these do not fit:"] if unfit else []), *unfit]))
    if (reason := reasons[name]) is not None:
        raise DpframeError(f"{name} does not fit this record: {reason}\n{fitting}")
    return name


def draw_power(plan: Outlook) -> Picture:
    """Draw power against trials from a plan; raise DpframeError if the plan has no curve."""
    with settings():
        comparison.draw_power(picture := Picture(), plan)
    return picture


def score_kinds(found: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the kinds of figures of scores, each with None if it fits them, else the reason."""
    wealth = comparison.find_step_wealth(found)
    return {"roc": None, "wealth": wealth if isinstance(wealth, str) else None}


def draw_scores(found: Mapping[str, Any], kind: str | None = None) -> Picture:
    """Draw a figure of the answer of `dpframe.score` or `dpframe.score_one_run`.

    Raises DpframeError if it is something else, or the kind does not fit it.
    """
    try:
        reasons = score_kinds(found)
        if kind not in (None, *reasons):
            fit = " or ".join(name for name, reason in reasons.items() if reason is None)
            raise DpframeError(f"scores made elsewhere are drawn as {fit}, not as {kind}")
        draw = comparison.draw_step_wealth if kind == "wealth" else curves.draw_scores
        with settings():
            draw(picture := Picture(), found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DpframeError(f"not a complete output of dpframe score: {error!r}") from None
    return picture
