"""The kinds of figures, and which of them fit a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dpframe.common.text import did_you_mean
from dpframe.errors import DpframeError
from dpframe.report.figures import (
    comparison,
    compositions,
    curves,
    heat_map,
    histograms,
    roc,
    sweep,
)
from dpframe.report.figures.drawing import Picture, settings
from dpframe.report.figures.points import Published, kept
from dpframe.results.model import Record


class Kind(NamedTuple):
    """A kind of figure."""

    unfit: Callable[[Record], str | None]  # returns why a record does not fit; None if it does
    draw: Callable[[Record], Picture]


# The first that fits a record is its default.
KINDS = {
    "sweep": Kind(sweep.unfit, sweep.draw),
    "heat-map": Kind(heat_map.unfit, heat_map.draw),
    "trade-off": Kind(curves.unfit_curves, curves.draw_tradeoff),
    "profile": Kind(curves.unfit_curves, curves.draw_profile),
    "comparison": Kind(comparison.unfit_comparison, comparison.draw_comparison),
    "compositions": Kind(compositions.unfit_compositions, compositions.draw_compositions),
    "threshold-curve": Kind(roc.unfit_threshold_curve, roc.draw_threshold_curve),
    "total-variation": Kind(histograms.unfit_total_variation, histograms.draw_total_variation),
    "convergence": Kind(compositions.unfit_convergence, compositions.draw_convergence),
    "best-order": Kind(comparison.unfit_best_order, comparison.draw_best_order),
    "scores": Kind(histograms.unfit_histograms, histograms.draw_scores),
    "inverse-cdf": Kind(histograms.unfit_histograms, histograms.draw_inverse_cdf),
    "wealth": Kind(compositions.unfit_wealth, compositions.draw_wealth),
}


def reasons(record: Record) -> dict[str, str | None]:
    """Return for each kind None if it fits the record, else why not."""
    return {name: kind.unfit(record) for name, kind in KINDS.items()}


def drawn(
    record: Record,
    name: str | None,
    *,
    where: Mapping[str, object],
    panels: Sequence[Sequence[str]],
    beside: Published | None = None,
) -> Picture:
    """Draw one kind of figure, as `dpframe.report.figures.draw` describes."""
    record = kept(record, where)
    if not record.cells:
        raise DpframeError("this record has no cells, so there is nothing to draw")
    found = reasons(record)
    name = name or next((kind for kind, reason in found.items() if reason is None), None)
    unfit = [f"   {kind}: {reason}" for kind, reason in found.items() if reason is not None]
    fit = [kind for kind, reason in found.items() if reason is None]
    fitting = f"kinds that fit it: {', '.join(fit) or 'none'}"
    if name is None:
        raise DpframeError("\n".join(["no kind of figure fits this record:", *unfit]))
    if name not in KINDS:
        head = [f"unknown kind of figure {name!r}{did_you_mean(KINDS, name)}", fitting]
        raise DpframeError("\n".join([*head, *(["these do not fit:"] if unfit else []), *unfit]))
    if (reason := found[name]) is not None:
        raise DpframeError(f"{name} does not fit this record: {reason}\n{fitting}")
    if beside is not None and name not in ("sweep", "compositions"):
        raise DpframeError(
            f"other numbers can be drawn in the kinds sweep and compositions, not in {name}"
        )
    if panels and name != "sweep":
        raise DpframeError(f"panels can be put together in the kind sweep, not in {name}")
    with settings():
        if name == "sweep":
            picture = sweep.draw(record, panels, beside)
        elif name == "compositions":
            picture = compositions.draw_compositions(record, beside)
        else:
            picture = KINDS[name].draw(record)
        picture.draw_without_rendering()  # this makes the ticks, which need our settings
    return picture


def drawn_scores(found: Mapping[str, Any]) -> Picture:
    """Draw the answer of `dpframe score`; raise DpframeError if it is something else."""
    with settings():
        try:
            picture = roc.draw_roc(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DpframeError(f"not what dpframe score writes, or not all: {error!r}") from None
        picture.draw_without_rendering()
    return picture
