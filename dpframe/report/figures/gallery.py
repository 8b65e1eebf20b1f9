"""The kinds of figures, and the choice of those that fit a record."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from dpframe.common.text import did_you_mean
from dpframe.errors import DpframeError
from dpframe.report.figures import (
    comparison,
    compositions,
    curves,
    histograms,
    roc,
    sweep,
    wealth,
)
from dpframe.report.figures.drawing import Picture, settings
from dpframe.report.figures.points import Published, kept
from dpframe.report.terminal.plan import Outlook
from dpframe.results.model import Record


class FigureKind(NamedTuple):
    """A kind of figure."""

    find: Callable[[Record], Any]  # returns the content, or a text with the reason for none
    draw: Callable[..., Picture]  # takes the record and the content


# The first that fits a record is its default.
KINDS = {
    "sweep": FigureKind(sweep.find, sweep.draw),
    "heat-map": FigureKind(sweep.find_heat_map, sweep.draw_heat_map),
    "trade-off": FigureKind(curves.find_curves, curves.draw_tradeoff),
    "profile": FigureKind(curves.find_curves, curves.draw_profile),
    "comparison": FigureKind(comparison.find_comparison, comparison.draw_comparison),
    "compositions": FigureKind(compositions.find_compositions, compositions.draw_compositions),
    "threshold-curve": FigureKind(roc.find_threshold_curve, roc.draw_threshold_curve),
    "total-variation": FigureKind(histograms.find_total_variation, histograms.draw_total_variation),
    "convergence": FigureKind(compositions.find_convergence, compositions.draw_convergence),
    "slack": FigureKind(comparison.find_slack, comparison.draw_slack),
    "best-order": FigureKind(comparison.find_best_order, comparison.draw_best_order),
    "scores": FigureKind(histograms.find_histograms, histograms.draw_scores),
    "inverse-cdf": FigureKind(histograms.find_histograms, histograms.draw_inverse_cdf),
    "wealth": FigureKind(wealth.find_wealth, wealth.draw_wealth),
}


def kinds(record: Record) -> dict[str, str | None]:
    """Return all kinds of figures, each with None if it fits the record, else the reason."""
    return _reasons({name: kind.find(record) for name, kind in KINDS.items()})


def _reasons(found: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: one if isinstance(one, str) else None for name, one in found.items()}


def draw(
    record: Record,
    kind: str | None = None,
    *,
    where: Mapping[str, object] | None = None,
    panels: Sequence[Sequence[str]] = (),
    beside: Published | None = None,
) -> Picture:
    """Draw one figure.

    Args:
        record: of a run.
        kind: one of `kinds(record)`; default: the first that fits.
        where: only these cells: `mechanism`, `attack` or `estimator` with a label, or a swept key
            with a value.
        panels: labels of mechanisms that share a panel, for the kind `sweep`; default: a panel for
            each.
        beside: numbers from elsewhere, for the kinds `sweep` and `compositions`.

    Returns:
        A matplotlib Figure, with a `caption`.

    Raises:
        DpframeError: no such figure can be made of this record.
    """
    record = kept(record, where or {})
    if not record.cells:
        raise DpframeError("this record has no cells, so there is nothing to draw")
    found = {name: kind.find(record) for name, kind in KINDS.items()}
    reasons = _reasons(found)
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
    if beside is not None and name not in ("sweep", "compositions"):
        raise DpframeError(
            f"other numbers can be drawn in the kinds sweep and compositions, not in {name}"
        )
    if panels and name != "sweep":
        raise DpframeError(f"panels can be combined in the kind sweep, not in {name}")
    more: dict[str, Any] = {"together": panels} if panels else {}
    more |= {"beside": beside} if beside is not None else {}
    return _finished(partial(KINDS[name].draw, record, found[name], **more))


def draw_power(plan: Outlook) -> Picture:
    """Draw power against trials from a plan; raise DpframeError if the plan has no curve."""
    return _finished(partial(comparison.draw_power, plan))


def draw_scores(found: Mapping[str, Any]) -> Picture:
    """Draw trade-off and ROC from the answer of `dpframe.score` or `dpframe.score_one_run`.

    Raises DpframeError if it is something else.
    """
    try:
        return _finished(partial(roc.draw_roc, found))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DpframeError(f"not a complete output of dpframe score: {error!r}") from None


def _finished(draw: Callable[[], Picture]) -> Picture:
    with settings():
        picture = draw()
        picture.draw_without_rendering()  # this makes the ticks, which need our settings
    return picture
