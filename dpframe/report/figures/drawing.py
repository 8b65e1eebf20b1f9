"""Style, panels, legend, caption and file of a figure."""

import colorsys
import contextlib
import functools
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from dpframe.results.model import CellRecord

T = TypeVar("T")

COLUMN, PAGE = 3.4, 7.0  # widths of one column and of two, in inches
ROW = 0.17  # height of a row of text, in inches
LETTER, HANDLE, LEGEND_ROW = 0.052, 0.5, 0.15  # sizes of a legend, in inches
LABEL = 44  # letters of a title or label, at most

INK, QUIET, FAINT = "#000000", "#6b6b6b", "#bdbdbd"
BLUE, ORANGE = "#0072B2", "#D55E00"
DOTTED: Any = (0, (1, 1.2))
HOLLOW: dict[str, Any] = {"markerfacecolor": "white"}


class Sign:
    """Something with one look in all figures: its name in legends, and settings of matplotlib."""

    def __init__(self, label: str, **look: Any) -> None:
        """Take the settings; an area has a `facecolor`."""
        self.label, self.look = label, look


_POINT: dict[str, Any] = {"color": INK, "marker": "o", "ls": "none"}
_DOT: Any = _POINT | {"markersize": 1.9, "markeredgewidth": 0.5}
_BAR: Any = _POINT | {"marker": "_", "markersize": 10, "markeredgewidth": 1.6}

CLAIMED = Sign("claimed", color=INK, lw=1.6, ls="-")
TRUTH = Sign("exact (truth)", color=QUIET, lw=1.4, ls=DOTTED)
CLAIMED_ONCE = Sign("claimed, of one release", **_BAR)
CERTIFIED_ONCE = Sign("certified, of one release", **_POINT | {"marker": "^", "markersize": 5})
AT_LEAST = Sign("certified: at least this", **_POINT)
LARGEST_BOUND = Sign("largest certified bound", facecolor=FAINT, alpha=0.55, lw=0)
LIMIT = Sign("the most that this attack can show", color=BLUE, lw=0.8, marker="|", markersize=5)
ESTIMATE = Sign("estimate, no bound", **_POINT, **HOLLOW)
INTERVAL = Sign("interval, no bound", color=ORANGE, lw=1.0, marker="|", markersize=5)
COUNTED = Sign("these scores, no bound", color=QUIET, lw=0.7)
ON_D = Sign("D", color=BLUE, lw=1.0)
ON_D1 = Sign("D′", color=ORANGE, lw=1.0, ls=(0, (3, 1)))
EXACT_ON_D, EXACT_ON_D1 = Sign("exactly, on D", **_DOT), Sign("exactly, on D′", **_DOT | HOLLOW)
NAN = Sign("NaN", facecolor="none", edgecolor=FAINT, hatch="////")
THRESHOLD = Sign("threshold that was used", color=INK, lw=0.9, ls=(0, (5, 1.5)))
PLANNED = Sign("planned trials", color=QUIET, lw=0.8, ls=DOTTED)
REFUTED = Sign("where the claim is refuted", color=INK, lw=0.9, ls=DOTTED)

# Published values.
BESIDE: Any = {"color": INK, "marker": "+", "markersize": 5.5, "ls": "none", "zorder": 4}
# Parts of a claimed ε: colours as on the page of a report, hatches for print in grey.
PARTS = {
    "certified": ("#4477aa", ""),
    "pair": ("#66ccee", "..."),
    "attack": ("#228833", "////"),
    "sampling": ("#ccbb44", ""),
    "confidence": ("#ee6677", "\\\\\\\\"),
    "cells": ("#aa3377", "xxxx"),
    "looks": ("#bbbbbb", "----"),
    "resolution": ("#000000", ""),
}
# Greys up to the claim, and beyond it reds that are darker, as on the page of a report.
SHADE_COLORS = ("#ffffff", "#e7ebf3", "#adbcd8", "#ff9085", "#9c1c16")
DARK_SHADES = ("#17171b", "#222733", "#34415c", "#94352c", "#ff8f80")

_TICKS = {"labelsize": 7, "major.size": 2.5, "major.width": 0.6}
_TICKS |= {"minor.size": 1.4, "minor.width": 0.4}
# Settings of matplotlib; the rest are its defaults, not those of a user.
RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.labelpad": 2.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.titlesize": 7.5,
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
    **{f"{axis}tick.{key}": value for axis in "xy" for key, value in _TICKS.items()},
}


class LineStyle(NamedTuple):
    """The colour, marker and dashes of a line.

    Figures are printed in grey, so lines differ also in marker and dashes, ordered ones in
    darkness.
    """

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
        return self.sign | HOLLOW

    @property
    def estimate(self) -> dict[str, Any]:
        """The look of an estimate: dotted, with empty markers."""
        return self.hollow | {"ls": DOTTED, "zorder": 3}


# Okabe and Ito's colours without yellow, which is lost on paper, and black, which marks the claim.
_NAMED = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# From cividis, dark to light, not so light that a thin line is lost on paper.
_ORDERED = ("#00224e", "#32406c", "#575d6d", "#7d7c78", "#a49d6f", "#c9b75f")
_DARK_ORDERED = ("#fee838", "#e5cf52", "#c8b866", "#aea371", "#948e77", "#7d7c78")  # light to dark
_DARK = dict(zip(SHADE_COLORS + _ORDERED, DARK_SHADES + _DARK_ORDERED, strict=True))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_DASHES: tuple[Any, ...] = (
    *("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.2, 1.5))),
    *((0, (1, 1)), (0, (8, 2, 1.2, 1.2, 1.2, 2))),
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


@functools.cache
def mark(verdict: str | None) -> Any:
    """Return the marker of a verdict, after the report's symbols; a dot for none."""
    if verdict in (shapes := {"violated": "X", "consistent": "o", None: "."}):
        return shapes[verdict]
    bold = FontProperties(family="DejaVu Sans", weight="bold")
    letter = TextPath((0, 0), "?" if verdict == "inconclusive" else "!", 1, prop=bold)
    box = letter.get_extents()
    middle = [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]
    return Path((letter.vertices - middle) / box.height, letter.codes)


def shorten(text: str, most: int = LABEL) -> str:
    """Shorten a label to `most` characters; the middle is left out."""
    shown = "".join(c if c.isprintable() else "�" for c in text)
    if len(shown) <= most:
        return shown
    tail = (most - 1) // 2
    return f"{shown[: most - 1 - tail]}…{shown[len(shown) - tail :]}"


NO_PROOF = "No violation found does not rule one out: another attack may show more."


def counted(count: int, noun: str, one: str, several: str) -> list[str]:
    """Return a sentence about a number of things; [] if there are none."""
    if count <= 0:
        return []
    return [f"1 {noun} {one}." if count == 1 else f"{count} {noun}s {several}."]


class Picture(Figure):
    """A matplotlib figure with a caption that shows itself in notebooks."""

    caption: str = ""  # what is shown, and what was left out

    def __init__(self, cells: Sequence[CellRecord] = ()) -> None:
        """Make an empty figure of some cells, to be filled with `grid` or `stack`."""
        super().__init__(layout="constrained")
        self.cells = cells
        self.remarks: list[str] = []  # sentences of the caption
        self._handles: dict[Sign | str, Artist] = {}

    def _repr_svg_(self) -> str:
        return inline(self)

    def grid(
        self,
        titles: Sequence[str],
        along: str = "",
        up: str = "",
        *,
        across: int = 3,
        height: float = 1.75,
        shared: bool = True,
        width: float | None = None,
    ) -> list[Axes]:
        """Make a panel for each title, at most `across` in a row.

        `height` is that of a row and `width` that of the figure, in inches. By default a single
        panel is as wide as one column of a page, and several as wide as two. `along` and `up` name
        the axes at the lower and the left edge. If `shared`, all panels have the same axes.
        """
        count = len(titles)
        columns = min(count, across) if count != across + 1 else max(2, (across + 2) // 2)
        rows = math.ceil(count / columns)
        self.set_size_inches(width or (COLUMN if count == 1 else PAGE), rows * height + 0.5)
        axes = self.subplots(rows, columns, sharex=shared, sharey=shared, squeeze=False).ravel()
        for place, ax in enumerate(axes):
            if place >= count:
                ax.set_axis_off()
                continue
            ax.set_title(shorten(titles[place]))
            ax.set_ylabel(up if place % columns == 0 else "")
            if place + columns >= count:
                ax.set_xlabel(along)
                ax.xaxis.set_tick_params(labelbottom=True)
        return list(axes[:count])

    def stack(self, rows: Sequence[Sequence[str]], along: str) -> list[Axes]:
        """Make panels below each other, from the labels of their rows."""
        heights = [len(labels) + 2.4 for labels in rows]
        self.set_size_inches(PAGE, ROW * sum(heights) + 0.3)
        axes = self.subplots(len(rows), 1, squeeze=False, height_ratios=heights).ravel()
        for ax, labels in zip(axes, rows, strict=True):
            ax.set_ylim(len(labels) - 0.4, -0.6)
            ax.set_yticks(range(len(labels)), labels)
            ax.tick_params(axis="y", length=0)
        axes[-1].set_xlabel(along)
        return list(axes)

    def add(self, of: Sign | str, plot: Callable[..., Any], *data: Any, **look: Any) -> None:
        """Draw with `plot`, such as `ax.plot`, and enter what is drawn into the legend, once.

        `of` is a sign, some of whose look can be replaced, or the label of something else.
        """
        own = of.look if isinstance(of, Sign) else {}
        plot(*data, **{"zorder": 2, **own, **look})
        self.name(of, **({} if own else look))

    def name(self, of: Sign | str, **look: Any) -> None:
        """Enter a sign, or the label and look of something else, into the legend, once.

        The panels must have been made: they set the width.
        """
        label, look = (of.label, look or of.look) if isinstance(of, Sign) else (of, look)
        kind = Patch if "facecolor" in look else functools.partial(Line2D, [], [])
        most = int((self.get_figwidth() - HANDLE) / LETTER)  # letters that fit
        self._handles.setdefault(of, kind(label=shorten(label, min(most, 60)), **look))

    def first(self, found: Sequence[T], most: int, noun: str) -> Sequence[T]:
        """Return the first items, and say in the caption how many are left out."""
        self.leave_out(len(found) - most, noun)
        return found[:most]

    def leave_out(self, count: int, noun: str) -> None:
        """Say in the caption how many items are left out."""
        self.remarks += counted(count, f"more {noun}", "is left out", "are left out")

    def finish(self, *sentences: str) -> None:
        """Add the legend below the panels, in as many columns as fit, and the caption."""
        self.caption = " ".join(filter(None, sentences))
        if self._handles:
            # Lines of this figure come before what all figures have.
            names = sorted(self._handles, key=lambda name: isinstance(name, Sign))
            handles: list[Any] = [self._handles[name] for name in names]
            widest = max(len(handle.get_label()) for handle in handles)
            room = self.get_figwidth() / (LETTER * widest + HANDLE)
            columns = min(max(1, int(room)), 5, len(handles))
            rows = math.ceil(len(handles) / columns)
            self.set_figheight(self.get_figheight() + LEGEND_ROW * rows)
            self.legend(handles=handles, loc="outside lower center", ncols=columns)
        self.draw_without_rendering()  # this makes the ticks, which need our settings


@contextlib.contextmanager
def settings(**more: Any) -> Iterator[None]:
    """Replace the user's settings of matplotlib by ours."""
    with mpl.rc_context(), warnings.catch_warnings():
        # Labels are the user's, and a box in place of a missing letter is visible.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(RC | more)
        yield


# No dates, and no names of versions: a record that did not change is drawn in the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def content(picture: Picture, kind: str) -> bytes:
    """Return the figure as a file of a kind: svg, png or pdf."""
    out = io.BytesIO()
    with settings():
        picture.savefig(out, format=kind, metadata=_METADATA[kind])
    drawn = out.getvalue()
    return with_dark_mode(drawn.decode()).encode() if kind == "svg" else drawn


def dark(color: str) -> str:
    """Return what replaces a colour on a dark page: dark for light, in the same hue."""
    if color in _DARK:
        return _DARK[color]
    hue, light, strength = colorsys.rgb_to_hls(
        *(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    )
    if light < 0.6 or strength < 0.25:  # a bright colour stays
        light = 0.93 - 0.84 * light
    levels = colorsys.hls_to_rgb(hue, light, strength)
    return "#" + "".join(f"{round(255 * level):02x}" for level in levels)


_GROUND = re.compile(r'(<path d="[^"]*" style="fill: )#ffffff("/>)')  # of the figure, of a panel
_COLOR = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})")


def with_dark_mode(svg: str) -> str:
    """Let a drawing of matplotlib follow its page: no ground, and other colours on a dark page.

    What knows no media queries, such as a converter for papers, shows the light colours. A drawing
    that contains an image keeps its ground.
    """
    if "<image" in svg:
        return svg
    svg = _GROUND.sub(r"\1none\2", svg)
    rules = [f"svg{{fill:{dark(INK)}}}"]  # of text and of what is filled in black
    for which, color in sorted(set(_COLOR.findall(svg))):
        rules.append(f'[style*="{which}: {color}"]{{{which}:{dark(color)}!important}}')
    style = "<style>@media screen and (prefers-color-scheme:dark){" + "".join(rules) + "}</style>"
    return svg.replace("</defs>", f"{style}</defs>", 1)


_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'"#([^"]*)"|url\(#([^)]*)\)')


def inline(picture: Picture) -> str:
    """Return the figure as an element of a page: no prolog, text as text, no unused ids.

    A style sheet can read its natural width from `--inches`.
    """
    out = io.StringIO()
    with settings(**{"svg.fonttype": "none", "svg.hashsalt": picture.caption}):
        picture.savefig(out, format="svg", metadata=_METADATA["svg"])
    text = out.getvalue()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("<svg ", f'<svg style="--inches: {picture.get_figwidth():g}" ', 1)
    used = {a or b for a, b in _USED.findall(text)}
    return _ID.sub(lambda match: match.group() if match.group(1) in used else "", text)
