"""Figures of a record, for papers, pages and notebooks, from the record alone.

They need matplotlib, which comes with the extra `plot`. It is imported when something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpframe.report.figures.drawing import Picture
    from dpframe.report.figures.points import Published
    from dpframe.results.model import Record


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
        DpframeError: matplotlib is not there, or no such figure can be made of this record.
    """
    need_matplotlib()
    from dpframe.report.figures.registry import drawn

    return drawn(record, kind, where=where or {}, panels=panels, beside=beside)


def draw_scores(found: Mapping[str, Any]) -> Picture:
    """Draw trade-off and ROC from the answer of `dpframe.score` or `dpframe.score_one_run`.

    Args:
        found: the answer, or the same read from JSON.

    Raises:
        DpframeError: matplotlib is not there, or it is something else.
    """
    need_matplotlib()
    from dpframe.report.figures.registry import drawn_scores

    return drawn_scores(found)


def svg(
    record: Record, kind: str | None = None, *, where: Mapping[str, object] | None = None
) -> str:
    """Draw one figure as an `<svg>` element for a page; its letters are text.

    Args:
        record: of a run.
        kind: as for `draw`.
        where: as for `draw`.

    Raises:
        DpframeError: as for `draw`.
    """
    picture = draw(record, kind, where=where)
    from dpframe.report.figures.drawing import inline

    return inline(picture)


def kinds(record: Record) -> dict[str, str | None]:
    """Return all kinds of figures, each with None if it fits the record, else the reason.

    Raises:
        DpframeError: matplotlib is not there.
    """
    need_matplotlib()
    from dpframe.report.figures.registry import reasons

    return reasons(record)


def need_matplotlib() -> None:
    """Raise DpframeError if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise DpframeError(
            f"figures need matplotlib ({error}); it comes with: pip install 'dpframe[plot]'"
        ) from None
