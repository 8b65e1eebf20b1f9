"""A figure with its caption, and how it becomes a file: the same bytes for the same record."""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from dpframe.report.figures.style import COLUMN, PAGE, RC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

LETTER, HANDLE, LEGEND_ROW = 0.052, 0.5, 0.15
"""Of a legend: width of a letter, width of what stands before it, height of a row, in inches."""
FORMATS = ("svg", "png", "pdf")

# No dates, and no names of versions: a record that did not change is drawn in the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class Picture(Figure):
    """A matplotlib figure that knows what it shows and shows itself in notebooks."""

    caption: str = ""
    """Sentences for below the figure: what is shown, what was left out."""

    def _repr_svg_(self) -> str:
        return inline(self)


@contextlib.contextmanager
def settings(**more: Any) -> Iterator[None]:
    """Our settings in place of the user's, for as long as something is drawn or written."""
    kept = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
    ours: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if k not in kept}
    with warnings.catch_warnings():
        # What a label says is not ours, and a box in place of a letter is seen.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=mpl.MatplotlibDeprecationWarning)
            context = mpl.rc_context(ours | RC | more)
            context.__enter__()
        try:
            yield
        finally:
            context.__exit__(None, None, None)


def new(width: float, height: float) -> Picture:
    """An empty figure, in inches."""
    return Picture(figsize=(width, height), layout="constrained")


def grid(
    count: int,
    *,
    across: int = 3,
    height: float = 1.75,
    shared: bool = True,
    width: float | None = None,
) -> tuple[Picture, list[Axes]]:
    """An empty figure of panels.

    Args:
        count: of panels.
        across: panels in a row.
        height: of a row, in inches.
        shared: whether all have the same axes.
        width: in inches; default: one column for one panel, else two.
    """
    columns = min(count, across) if count != across + 1 else max(2, (across + 2) // 2)
    rows = math.ceil(count / columns)
    picture = new(width or (COLUMN if count == 1 else PAGE), rows * height + 0.5)
    drawn = picture.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False).ravel()
    for spare in drawn[count:]:
        spare.set_axis_off()
    for place in range(max(0, count - columns), count):
        drawn[place].xaxis.set_tick_params(labelbottom=True)
    return picture, list(drawn[:count])


def legend(picture: Figure, handles: list[Any]) -> None:
    """Says below a figure what its signs mean, in as many columns as there is room for."""
    if not handles:
        return
    widest = max(len(handle.get_label()) for handle in handles)
    room = picture.get_figwidth() / (LETTER * widest + HANDLE)
    columns = min(max(1, int(room)), 5, len(handles))
    rows = math.ceil(len(handles) / columns)
    picture.set_figheight(picture.get_figheight() + LEGEND_ROW * rows)
    picture.legend(handles=handles, loc="outside lower center", ncols=columns)


def name_axes(axes: list[Axes], along: str, up: str) -> None:
    """Names the axes that panels of a grid share, at its lower and its left edge."""
    for ax in axes:
        place = ax.get_subplotspec()
        if place is None or place.is_first_col():
            ax.set_ylabel(up)
        below = (
            place is None or place.rowspan.stop * place.get_gridspec().ncols + place.colspan.start
        )
        if place is None or below >= len(axes):
            ax.set_xlabel(along)


def content(picture: Figure, kind: str) -> bytes:
    """The figure as a file.

    Args:
        picture: what to write.
        kind: svg, png or pdf.
    """
    out = io.BytesIO()
    with settings():
        picture.savefig(out, format=kind, metadata=_METADATA[kind])
    return out.getvalue()


_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'"#([^"]*)"|url\(#([^)]*)\)')


def inline(picture: Figure) -> str:
    """The figure as an element of a page: no prolog, text as text, no id twice in one page."""
    out = io.StringIO()
    with settings(**{"svg.fonttype": "none", "svg.hashsalt": getattr(picture, "caption", "")}):
        picture.savefig(out, format="svg", metadata=_METADATA["svg"])
    text = out.getvalue()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    used = {a or b for a, b in _USED.findall(text)}
    return _ID.sub(lambda match: match.group() if match.group(1) in used else "", text)
