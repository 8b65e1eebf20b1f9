"""The kinds of figures, and which of them fit a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
from dpframe.report.figures.drawing import settings
from dpframe.report.figures.points import kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpframe.report.figures.drawing import Picture
    from dpframe.report.figures.points import Published
    from dpframe.results.model import Record


class Kind(NamedTuple):
    """One kind of figure."""

    meaning: str
    """The contents of the figure."""
    unfit: Callable[[Record], str | None]
    """Why a record cannot be drawn so; None if it can."""
    draw: Callable[[Record], Picture]


KINDS = {
    "sweep": Kind("loss against the swept parameter, beside the claim", sweep.unfit, sweep.draw),
    "heat-map": Kind("certified ε / claimed ε, a cell each", heat_map.unfit, heat_map.draw),
    "trade-off": Kind(
        "false negatives against false positives", curves.unfit_curves, curves.draw_tradeoff
    ),
    "profile": Kind("δ against ε", curves.unfit_curves, curves.draw_profile),
    "comparison": Kind(
        "estimators beside each other", comparison.unfit_comparison, comparison.draw_comparison
    ),
    "compositions": Kind(
        "loss against the number of releases",
        compositions.unfit_compositions,
        compositions.draw_compositions,
    ),
    "threshold-curve": Kind(
        "μ against the threshold",
        roc.unfit_threshold_curve,
        roc.draw_threshold_curve,
    ),
    "total-variation": Kind(
        "distance of histograms against their bins",
        histograms.unfit_total_variation,
        histograms.draw_total_variation,
    ),
    "convergence": Kind(
        "error of a distance against the draws",
        compositions.unfit_convergence,
        compositions.draw_convergence,
    ),
    "best-order": Kind(
        "how well each divergence determines σ",
        comparison.unfit_best_order,
        comparison.draw_best_order,
    ),
    "scores": Kind(
        "histograms of the scores on D and on D′", histograms.unfit_scores, histograms.draw_scores
    ),
    "inverse-cdf": Kind(
        "what a uniform variable becomes, on D and on D′",
        histograms.unfit_inverse_cdf,
        histograms.draw_inverse_cdf,
    ),
    "wealth": Kind(
        "evidence against the claim, as draws are added",
        compositions.unfit_wealth,
        compositions.draw_wealth,
    ),
}
"""The first that fits a record is its default."""


def reasons(record: Record) -> dict[str, str | None]:
    """For each kind, None if it fits the record, else why not."""
    return {name: kind.unfit(record) for name, kind in KINDS.items()}


def drawn(
    record: Record,
    name: str | None,
    *,
    where: Mapping[str, object],
    panels: Sequence[Sequence[str]],
    beside: Published | None = None,
) -> Picture:
    """Draws one kind.

    Args:
        record: of a run.
        name: of the kind; None for the first that fits.
        where: only these cells.
        panels: mechanisms that share a panel.
        beside: numbers from elsewhere.

    Raises:
        DpframeError: there is no such kind, or it does not fit.
    """
    record = kept(record, where)
    if not record.cells:
        raise DpframeError("this record has no cells, so there is nothing to draw")
    found = reasons(record)
    name = name or next((kind for kind, reason in found.items() if reason is None), None)
    if name not in KINDS:
        raise DpframeError(_none(found) if name is None else _unknown(name, found))
    if (reason := found[name]) is not None:
        raise DpframeError(f"{name} does not fit this record: {reason}\n{_fitting(found)}")
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
        picture.draw_without_rendering()  # ticks come into being here, in our settings
    return picture


def drawn_scores(found: Mapping[str, Any]) -> Picture:
    """Draws scores made elsewhere.

    Args:
        found: what a command says of them.

    Raises:
        DpframeError: it is something else.
    """
    with settings():
        try:
            picture = roc.draw_roc(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DpframeError(f"not what dpframe score writes, or not all: {error!r}") from None
        picture.draw_without_rendering()
    return picture


def _fitting(found: Mapping[str, str | None]) -> str:
    fit = [name for name, reason in found.items() if reason is None]
    return f"kinds that fit it: {', '.join(fit) or 'none'}"


def _unknown(name: str, found: Mapping[str, str | None]) -> str:
    others = [f"   {kind}: {reason}" for kind, reason in found.items() if reason is not None]
    head = [f"unknown kind of figure {name!r}{did_you_mean(KINDS, name)}", _fitting(found)]
    return "\n".join([*head, *(["these do not fit:"] if others else []), *others])


def _none(found: Mapping[str, str | None]) -> str:
    lines = [f"   {kind}: {reason}" for kind, reason in found.items()]
    return "\n".join(["no kind of figure fits this record:", *lines])
