"""Style, axes, keys, captions and files of figures."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import re
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

from dpframe.report import words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from dpframe.report.figures.curves import Floats
    from dpframe.results.model import Record


# How figures look: for print in one or two columns, in grey, and for every eye.
#
# Nothing is told by colour alone: lines differ in marker and dashes too, ordered ones also in how
# dark they are.


COLUMN, PAGE = 3.4, 7.0
"""Widths of one column and of two, in inches."""

INK, QUIET, FAINT, WASH = "#000000", "#6b6b6b", "#bdbdbd", "#e4e4e4"
DOTTED: Any = (0, (1, 1.2))
CLAIMED, TRUTH = "claimed", "exact (truth)"
ESTIMATE, CERTIFIED = "estimate, no bound", "certified"

BESIDE: Any = {"color": INK, "marker": "+", "markersize": 5.5, "ls": "none", "zorder": 4}
"""Values found elsewhere."""

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
    "xtick.labelsize": 7,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.4,
    "xtick.minor.width": 0.4,
    "ytick.labelsize": 7,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.4,
    "ytick.minor.width": 0.4,
}
"""Our settings of matplotlib; the rest are its defaults, not those of a user."""


class Look(NamedTuple):
    """The colour, marker and dashes of a line."""

    color: str
    marker: str
    dashes: Any


# Okabe and Ito's colours without yellow, which paper swallows, and black, which is the claim's.
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


def named(index: int) -> Look:
    """A look for one of several things without an order."""
    return Look(
        _NAMED[index % len(_NAMED)], _MARKERS[index % len(_MARKERS)], _DASHES[index % len(_DASHES)]
    )


def ordered(index: int, count: int) -> Look:
    """A look for one of `count` things in their order: the later, the lighter."""
    place = index * (len(_ORDERED) - 1) // max(count - 1, 1)
    return Look(
        _ORDERED[min(place, len(_ORDERED) - 1)],
        _MARKERS[index % len(_MARKERS)],
        _DASHES[index % len(_DASHES)],
    )


def mark(verdict: str | None) -> Any:
    """Marker of a verdict, after the report's symbols. None is a tick: nothing is proven."""
    shapes = {"violated": "X", "consistent": "o", None: "."}
    return shapes.get(verdict) or _letter({"inconclusive": "?"}.get(verdict or "", "!"))


@functools.cache
def _letter(letter: str) -> Any:
    """A letter as the shape of a marker, in the middle of its place."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    drawn = TextPath((0, 0), letter, 1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = drawn.get_extents()
    middle = [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]
    return Path((drawn.vertices - middle) / box.height, drawn.codes)


def shorten(text: str, most: int) -> str:
    """A label in at most so many characters; what is left out is left out of its middle."""
    shown = "".join(c if c.isprintable() else "�" for c in text)
    if len(shown) <= most:
        return shown
    tail = (most - 1) // 2
    return f"{shown[: most - 1 - tail]}…{shown[len(shown) - tail :]}"


# Sentences below figures: what a bound promises, what was left out, what is not said.


NO_PROOF = "Where no violation was found none is excluded: another attack may show more."


def promise(record: Record) -> str:
    """With which confidence the certified bounds of a record hold."""
    if not any(cell.estimate and cell.estimate.certified for cell in record.cells):
        return "Estimates only: nothing here is certified."
    confidence = record.audit.confidence
    if record.audit.multiplicity == "none":
        return f"Each certified bound holds alone with {words.percent(confidence)} confidence."
    error = (1 - confidence) * (1.5 if record.audit.looks > 1 else 1)
    return f"All certified bounds hold together with {words.percent(1 - error)} confidence."


def left_out(record: Record) -> list[str]:
    """Say which cells of a record no figure shows."""
    failed = sum(cell.status == "failed" for cell in record.cells)
    skipped = len(record.skipped)
    return [
        *([f"{_cells(failed)} failed and {_are(failed)} not shown."] if failed else []),
        *([f"{_combinations(skipped)} skipped."] if skipped else []),
    ]


def repeats(record: Record) -> list[str]:
    """Say how replicates are drawn."""
    count = 1 + max((cell.repeat for cell in record.cells), default=0)
    return [f"Means of {count} repeats; bars from the least to the largest."] if count > 1 else []


def more(count: int, what: str) -> list[str]:
    """Say what was left out for lack of room."""
    if count <= 0:
        return []
    return [f"1 more {what} is left out." if count == 1 else f"{count} more {what}s are left out."]


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _combinations(count: int) -> str:
    return "1 combination was" if count == 1 else f"{count} combinations were"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


# The signs of a figure of curves: how each is drawn, and what it means.


REFERENCES: dict[str, dict[str, Any]] = {
    CLAIMED: {"color": INK, "lw": 1.6, "ls": "-"},
    TRUTH: {"color": QUIET, "lw": 1.4, "ls": DOTTED},
}


def draw_references(ax: Axes, x: Floats, claimed: Floats | None, exact: Floats | None) -> set[str]:
    """Draws what is claimed and what is true, where it is known; returns which of them are."""
    known = {CLAIMED: claimed, TRUTH: exact}
    for name, style in REFERENCES.items():
        if (y := known[name]) is not None:
            ax.plot(x, y, **style, zorder=2)
    return {name for name, y in known.items() if y is not None}


def draw_estimate(ax: Axes, x: Floats, y: Floats, place: int, every: tuple[int, int]) -> None:
    """Draws the estimate of the estimator with so many before it: dotted, its signs empty."""
    look = named(place)
    style: Any = {"color": look.color, "marker": look.marker, "markevery": every}
    ax.plot(x, y, lw=0.9, ls=DOTTED, markerfacecolor="white", zorder=3, **style)


def draw_bound(ax: Axes, x: Floats, y: Floats, place: int, **marks: Any) -> None:
    """Draws what an estimator certifies: a line, and full signs where `marks` say so."""
    ax.plot(x, y, color=named(place).color, **{"lw": 1.0, "zorder": 3.1, **marks})


def curve_key(labels: Sequence[str], drawn: Collection[object]) -> list[Line2D]:
    """A handle for each estimator and for each way of drawing that there is.

    Args:
        labels: of estimators, by their looks.
        drawn: `CLAIMED`, `TRUTH`, `CERTIFIED` and `ESTIMATE`, and `(label,)` of each estimator.
    """
    handles = []
    for index, label in enumerate(labels):
        look, shown = named(index), shorten(label, 40)
        if (label,) in drawn:
            handles.append(Line2D([], [], color=look.color, marker=look.marker, label=shown))
    ways = {
        **{name: Line2D([], [], **style) for name, style in REFERENCES.items()},
        CERTIFIED: Line2D([], [], color=QUIET, marker="o"),
        ESTIMATE: Line2D([], [], color=QUIET, marker="o", markerfacecolor="white", ls=DOTTED),
    }
    for way, handle in ways.items():
        if way in drawn:
            handle.set_label(f"{way}: at least this" if way == CERTIFIED else way)
            handles.append(handle)
    return handles


# Axes for losses: broken above for ∞, and below, if logarithmic, for next to nothing.


DECADES = 3.0
"""Decades that a logarithmic axis reaches below the smallest claim, at most."""
WIDE = 20.0
"""Values whose largest is so many times the smallest are drawn on a logarithmic axis."""


class Scale(NamedTuple):
    """The positions of losses on an axis."""

    log: bool
    low: float
    high: float
    infinite: bool
    """True if there is a band for ∞."""
    tiny: bool
    """True if there is a band for values below `low`, 0 included."""

    @property
    def band(self) -> float:
        """Width of a band: decades, or a share of the axis."""
        return 0.13 * self._length

    @property
    def _length(self) -> float:
        return math.log10(self.high / self.low) if self.log else self.high - self.low

    def _shifted(self, value: float, by: float) -> float:
        return value * 10**by if self.log else value + by

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis, bands included."""
        edge = 0.04 * self._length
        below = self.band if self.tiny else edge if self.log else edge / 2
        above = self.band if self.infinite else edge
        return self._shifted(self.low, -below), self._shifted(self.high, above)

    def place(self, value: float) -> float:
        """Return the position of a value; NaN if it has none."""
        if value == math.inf:
            return self._shifted(self.high, self.band * 0.55)
        if value < self.low and self.tiny:
            return self._shifted(self.low, -self.band * 0.55)
        return min(max(value, self.low), self.high)

    def places(self, values: Iterable[float]) -> list[float]:
        """The same for several."""
        return [self.place(value) for value in values]


def scale(
    values: Iterable[float], anchors: Iterable[float] = (), *, log: bool | None = None
) -> Scale:
    """A scale on which losses can be told apart.

    Args:
        values: losses, 0 and ∞ among them.
        anchors: claimed and exact losses: a logarithmic axis goes `DECADES` below the smallest.
        log: whether it is logarithmic; default: if the values are far apart.
    """
    known = [value for value in values if not math.isnan(value)]
    fixed = [a for a in anchors if math.isfinite(a) and a > 0]
    positive = [v for v in (*known, *fixed) if math.isfinite(v) and v > 0]
    infinite = math.inf in known
    if not positive:
        return Scale(False, 0.0, 1.0, infinite, False)
    high = max(positive)
    floor = min(fixed, default=high) / 10**DECADES if fixed else 0.0
    seen = [v for v in positive if v >= floor]
    if log is None:
        log = high / min(fixed or seen) > WIDE
    if not log:
        return Scale(False, 0.0, high * 1.02, infinite, False)
    low = min([v for v in seen if v >= min(fixed or seen) / 10] or seen)
    tiny = any(v < low for v in known)
    return Scale(True, low, max(high, low * 10) * 1.05, infinite, tiny)


def dress(ax: Axes, which: str, scaled: Scale) -> None:
    """Gives an axis its limits, ticks, and where it is broken, the marks of that.

    Args:
        ax: the panel.
        which: x or y.
        scaled: where its values stand.
    """
    getattr(ax, f"set_{which}scale")("log" if scaled.log else "linear")
    getattr(ax, f"set_{which}lim")(*scaled.limits)
    axis: Axis = getattr(ax, f"{which}axis")
    ticks = decades(scaled.low, scaled.high) if scaled.log else _even(scaled.low, scaled.high)
    texts = [words.setting(tick) for tick in ticks]
    span = ax.axhspan if which == "y" else ax.axvspan
    begin, end = scaled.limits
    if scaled.infinite:
        span(scaled._shifted(scaled.high, scaled.band * 0.12), end, color=WASH, lw=0, zorder=0)
        ticks, texts = [*ticks, scaled.place(math.inf)], [*texts, "∞"]
        _cut(ax, which, scaled._shifted(scaled.high, scaled.band * 0.12))
    if scaled.tiny:
        edge = scaled._shifted(scaled.low, -scaled.band * 0.12)
        span(begin, edge, color=WASH, lw=0, zorder=0)
        lowest = scaled._shifted(scaled.low, -scaled.band * 0.55)
        ticks, texts = [*ticks, lowest], [*texts, f"<{words.setting(_floor(scaled.low))}"]
        _cut(ax, which, edge)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter(texts))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def log_ticks(axis: Axis, values: Sequence[float], texts: Sequence[str] | None = None) -> None:
    """Ticks at these values and nowhere else."""
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_major_formatter(FixedFormatter(list(texts or map(words.setting, values))))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _floor(low: float) -> float:
    return float(f"{low:.1g}")


def _cut(ax: Axes, which: str, at: float) -> None:
    """Two short strokes across the axis where it is broken."""
    across = ax.get_yaxis_transform() if which == "y" else ax.get_xaxis_transform()
    place = ([0.0], [at]) if which == "y" else ([at], [0.0])
    strokes = [(-1.0, -0.9), (1.0, 0.1), (1.0, 0.9), (-1.0, -0.1), (-1.0, -0.9)]
    marker: Any = [(x, y) if which == "y" else (y, x) for x, y in strokes]
    ax.plot(
        *place,
        marker=marker,
        transform=across,
        clip_on=False,
        markersize=5,
        color="white",
        markeredgecolor=INK,
        markeredgewidth=0.5,
        zorder=5,
    )
    line = ax.axhline if which == "y" else ax.axvline
    line(at, color=FAINT, lw=0.5, ls=(0, (1, 1)), zorder=0.5)


def decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, or finer where there are too few of them."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, round((end - begin) / 6))
    ticks = [10.0**p for p in range(begin, end + 1, every) if low <= 10.0**p <= high]
    if len(ticks) >= 2:
        return ticks
    fine = [m * 10.0**p for p in range(begin, end + 1) for m in (1, 2, 5)]
    return [tick for tick in fine if low <= tick <= high] or [low, high]


def _even(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-12)))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 6)
    first = math.ceil(low / step)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


# A figure with its caption, and how it becomes a file: the same bytes for the same record.


LETTER, HANDLE, LEGEND_ROW = 0.052, 0.5, 0.15
"""Sizes of a legend in inches: a letter, the sign before it, the height of a row."""
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
