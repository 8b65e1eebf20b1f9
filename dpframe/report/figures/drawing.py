"""Style, axes, keys, captions and files of figures."""

import contextlib
import functools
import io
import math
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpframe.common.types import Floats
from dpframe.report.number_format import percent
from dpframe.results.model import Record

# Figures are printed in grey, so lines differ not only in colour but also in marker and dashes, and
# ordered lines in darkness.

COLUMN, PAGE = 3.4, 7.0  # widths of one column and of two, in inches

INK, QUIET, FAINT = "#000000", "#6b6b6b", "#bdbdbd"
DOTTED: Any = (0, (1, 1.2))
CLAIMED, TRUTH = "claimed", "exact (truth)"
ESTIMATE, CERTIFIED = "estimate, no bound", "certified"
AT_LEAST = f"{CERTIFIED}: at least this"

# The marker of a drawing style in a legend: black without a line, unlike any estimator.
SIGN: Any = {"color": INK, "marker": "o", "ls": "none"}

# Published values.
BESIDE: Any = {"color": INK, "marker": "+", "markersize": 5.5, "ls": "none", "zorder": 4}

_MINOR = {"minor.size": 1.4, "minor.width": 0.4}
_TICKS = {"labelsize": 7, "major.size": 2.5, "major.width": 0.6, **_MINOR}
# Settings of matplotlib; the rest are its defaults, not those of a user.
RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelpad": 2.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.titlesize": 7.5,
    "axes.unicode_minus": True,
    "figure.dpi": 150,
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.1,
    "lines.markeredgewidth": 0.8,
    "lines.markersize": 3.8,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "svg.hashsalt": "dpframe",
    "text.parse_math": False,
    "text.usetex": False,
    **{f"{axis}tick.{key}": value for axis in "xy" for key, value in _TICKS.items()},
}


class LineStyle(NamedTuple):
    """The colour, marker and dashes of a line."""

    color: str
    marker: str
    dashes: Any

    @property
    def sign(self) -> dict[str, Any]:
        """Colour and marker, for matplotlib."""
        return {"color": self.color, "marker": self.marker}

    @property
    def hollow(self) -> dict[str, Any]:
        """The same with an empty marker, as for estimates."""
        return self.sign | {"markerfacecolor": "white"}


# Okabe and Ito's colours without yellow, which is lost on paper, and black, which marks the claim.
_NAMED = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# From cividis, dark to light, not so light that a thin line is lost on paper.
_ORDERED = ("#00224e", "#32406c", "#575d6d", "#7d7c78", "#a49d6f", "#c9b75f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (1, 1)),
    (0, (8, 2, 1.2, 1.2, 1.2, 2)),
)


def named(index: int) -> LineStyle:
    """Return the look of one of several lines without an order."""
    return _look(_NAMED[index % len(_NAMED)], index)


def ordered(index: int, count: int) -> LineStyle:
    """Return the look of one of `count` ordered lines; later ones are lighter."""
    place = index * (len(_ORDERED) - 1) // max(count - 1, 1)
    return _look(_ORDERED[min(place, len(_ORDERED) - 1)], index)


def _look(color: str, index: int) -> LineStyle:
    return LineStyle(color, _MARKERS[index % len(_MARKERS)], _DASHES[index % len(_DASHES)])


def mark(verdict: str | None) -> Any:
    """Return the marker of a verdict, after the report's symbols; a dot for none."""
    shapes = {"violated": "X", "consistent": "o", None: "."}
    return shapes.get(verdict) or _letter({"inconclusive": "?"}.get(verdict or "", "!"))


@functools.cache
def _letter(letter: str) -> Any:
    """Return a letter as the shape of a marker, centred."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    drawn = TextPath((0, 0), letter, 1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = drawn.get_extents()
    middle = [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]
    return Path((drawn.vertices - middle) / box.height, drawn.codes)


def shorten(text: str, most: int) -> str:
    """Shorten a label to `most` characters; the middle is left out."""
    shown = "".join(c if c.isprintable() else "�" for c in text)
    if len(shown) <= most:
        return shown
    tail = (most - 1) // 2
    return f"{shown[: most - 1 - tail]}…{shown[len(shown) - tail :]}"


NO_PROOF = "No violation found does not rule one out: another attack may show more."


def promise(record: Record) -> str:
    """Say with which confidence the certified bounds of a record hold."""
    if not any(cell.estimate and cell.estimate.certified for cell in record.cells):
        return "Estimates only: nothing here is certified."
    confidence = record.audit.confidence
    if record.audit.multiplicity == "none":
        return f"Each certified bound holds only on its own, with {percent(confidence)} confidence."
    error = (1 - confidence) * (1.5 if record.audit.looks > 1 else 1)
    return f"All certified bounds hold together with {percent(1 - error)} confidence."


def left_out(record: Record) -> list[str]:
    """Say which cells of a record no figure shows."""
    failed, skipped = sum(cell.status == "failed" for cell in record.cells), len(record.skipped)
    sentences = []
    if failed:
        sentences.append(f"{_count(failed, 'cell', 'failed and is', 'failed and are')} not shown.")
    if skipped:
        sentences.append(f"{_count(skipped, 'combination', 'was', 'were')} skipped.")
    return sentences


def repeats(record: Record) -> str:
    """Say how replicates are drawn; empty if there are none."""
    count = 1 + max((cell.repeat for cell in record.cells), default=0)
    return f"Means of {count} repeats; bars from the smallest to the largest." if count > 1 else ""


def more(count: int, what: str) -> str:
    """Say how many items were left out for lack of room; empty if the count is not positive."""
    return f"{_count(count, f'more {what}', 'is', 'are')} left out." if count > 0 else ""


def _count(count: int, noun: str, one: str, several: str) -> str:
    return f"1 {noun} {one}" if count == 1 else f"{count} {noun}s {several}"


def audit_name(record: Record) -> str:
    """Return the name of the audit, shortened for a caption."""
    return shorten(record.audit.name, 60)


REFERENCES: dict[str, dict[str, Any]] = {
    CLAIMED: {"color": INK, "lw": 1.6, "ls": "-"},
    TRUTH: {"color": QUIET, "lw": 1.4, "ls": DOTTED},
}


def draw_references(ax: Axes, x: Floats, claimed: Floats | None, exact: Floats | None) -> set[str]:
    """Draw the claimed and the exact curve if they are known; return the names of those drawn."""
    known = {CLAIMED: claimed, TRUTH: exact}
    for name, style in REFERENCES.items():
        if (y := known[name]) is not None:
            ax.plot(x, y, **style, zorder=2)
    return {name for name, y in known.items() if y is not None}


def draw_estimate(ax: Axes, x: Floats, y: Floats, place: int, every: tuple[int, int]) -> None:
    """Draw the estimate of the estimator at a place in the legend: dotted, with empty signs."""
    style: Any = named(place).hollow | {"markevery": every}
    ax.plot(x, y, lw=0.9, ls=DOTTED, zorder=3, **style)


def draw_bound(ax: Axes, x: Floats, y: Floats, place: int, **marks: Any) -> None:
    """Draw a certified curve: a line, and full signs if `marks` say so."""
    ax.plot(x, y, color=named(place).color, **{"lw": 1.0, "zorder": 3.1, **marks})


def entry(label: str, **style: Any) -> Line2D:
    """Return a line of a legend."""
    return Line2D([], [], label=label, **style)


def curve_key(labels: Sequence[str], drawn: Collection[object]) -> list[Line2D]:
    """Return a handle for each estimator and each style in `drawn`.

    `drawn` holds any of `CLAIMED`, `TRUTH`, `CERTIFIED` and `ESTIMATE`, and `(label,)` for each
    estimator.
    """
    looks = {label: named(index) for index, label in enumerate(labels) if (label,) in drawn}
    handles = [entry(shorten(label, 40), **look.sign) for label, look in looks.items()]
    ways = {**REFERENCES, CERTIFIED: SIGN, ESTIMATE: SIGN | {"markerfacecolor": "white"}}
    said = {CERTIFIED: AT_LEAST}
    return handles + [entry(said.get(way, way), **ways[way]) for way in ways if way in drawn]


# Sizes of a legend in inches: a letter, the sign before it, the height of a row.
LETTER, HANDLE, LEGEND_ROW = 0.052, 0.5, 0.15
# No dates, and no names of versions: a record that did not change is drawn in the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class Picture(Figure):
    """A matplotlib figure with a caption that shows itself in notebooks."""

    caption: str = ""  # what is shown, and what was left out

    def _repr_svg_(self) -> str:
        return inline(self)


@contextlib.contextmanager
def settings(**more: Any) -> Iterator[None]:
    """Replace the user's settings of matplotlib by ours."""
    kept = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
    ours: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if k not in kept}
    with warnings.catch_warnings():
        # Labels are the user's, and a box in place of a missing letter is visible.
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
    """Return an empty figure; sizes are in inches."""
    return Picture(figsize=(width, height), layout="constrained")


def grid(
    count: int,
    *,
    across: int = 3,
    height: float = 1.75,
    shared: bool = True,
    width: float | None = None,
) -> tuple[Picture, list[Axes]]:
    """Return an empty figure with `count` panels, at most `across` of them in a row.

    `height` is that of a row and `width` that of the figure, in inches. By default a single panel
    is as wide as one column of a page, and several as wide as two. If `shared`, all panels have the
    same axes.
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
    """Add a legend below a figure, in as many columns as fit."""
    if not handles:
        return
    widest = max(len(handle.get_label()) for handle in handles)
    room = picture.get_figwidth() / (LETTER * widest + HANDLE)
    columns = min(max(1, int(room)), 5, len(handles))
    rows = math.ceil(len(handles) / columns)
    picture.set_figheight(picture.get_figheight() + LEGEND_ROW * rows)
    picture.legend(handles=handles, loc="outside lower center", ncols=columns)


def finish(
    picture: Picture, handles: Sequence[Any], record: Record, *sentences: str, proof: bool = True
) -> Picture:
    """Add the legend and the caption to a figure whose panels are drawn.

    Empty sentences are dropped. `proof` is False if the figure says nothing about violations.
    """
    legend(picture, list(handles))
    proof = proof and any(cell.verdict == "consistent" for cell in record.cells)
    said = [*sentences, *left_out(record), NO_PROOF if proof else ""]
    picture.caption = " ".join(filter(None, said))
    return picture


def name_axes(axes: list[Axes], along: str, up: str) -> None:
    """Name the axes that panels of a grid share, at its lower and its left edge."""
    for ax in axes:
        place = ax.get_subplotspec()
        assert place is not None
        if place.is_first_col():
            ax.set_ylabel(up)
        below = place.rowspan.stop * place.get_gridspec().ncols + place.colspan.start
        if below >= len(axes):
            ax.set_xlabel(along)


def name_rows(ax: Axes, labels: list[str]) -> None:
    """Name the rows of a panel, from the top."""
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)


def content(picture: Figure, kind: str) -> bytes:
    """Return the figure as a file of a kind: svg, png or pdf."""
    out = io.BytesIO()
    with settings():
        picture.savefig(out, format=kind, metadata=_METADATA[kind])
    return out.getvalue()


_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'"#([^"]*)"|url\(#([^)]*)\)')


def inline(picture: Figure) -> str:
    """Return the figure as an element of a page: no prolog, text as text, no unused ids.

    A style sheet can read its natural width from `--inches`.
    """
    out = io.StringIO()
    with settings(**{"svg.fonttype": "none", "svg.hashsalt": getattr(picture, "caption", "")}):
        picture.savefig(out, format="svg", metadata=_METADATA["svg"])
    text = out.getvalue()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("<svg ", f'<svg style="--inches: {picture.get_figwidth():g}" ', 1)
    used = {a or b for a, b in _USED.findall(text)}
    return _ID.sub(lambda match: match.group() if match.group(1) in used else "", text)
