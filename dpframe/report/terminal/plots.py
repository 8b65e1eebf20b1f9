"""Plots in characters."""

from __future__ import annotations

import bisect
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report import evidence as evidence_lines
from dpframe.report import words
from dpframe.report.evidence import distinct, named
from dpframe.report.group import Group, Spot, called, short, telling
from dpframe.report.terminal.ink import GAP, STYLE, SYMBOL, Ink, padded
from dpframe.report.words import brief, setting
from dpframe.stats.tradeoff import tradeoff_hull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpframe.report.evidence import Line
    from dpframe.results.model import CellRecord, ClaimRecord, Record


# One plot in characters: a curve as a fine line, points as signs, two axes.


Point = tuple[float, float]
Cells = list[list[tuple[str, str]]]
"""Characters with their styles, rows from the top."""

BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a braille character: rows from the top, left and right."""
LEVELS = "'-."
"""Without braille: the upper, middle and lower third of a character."""


class Axis(NamedTuple):
    """The horizontal axis."""

    place: Callable[[float], float]
    """Where a value lies, from 0 to 1."""
    value: Callable[[float], float]
    """The inverse of `place`."""
    ticks: Sequence[tuple[float, str]]
    name: str = "FPR"


def linear_axis() -> Axis:
    """From 0 to 1."""
    return Axis(lambda x: x, lambda share: share, [(k / 5, f"{k / 5:g}") for k in range(6)])


def log_axis(decades: int) -> Axis:
    """From 10^-decades to 1."""
    step = -(-decades // 6)
    return Axis(
        lambda x: 1 + math.log10(max(x, 1e-300)) / decades,
        lambda share: 10 ** ((share - 1) * decades),
        [(10.0**-k, setting(10.0**-k)) for k in range(0, decades + 1, step)],
    )


class Upright(NamedTuple):
    """The vertical axis."""

    name: str
    place: Callable[[float], float]
    """Where a value lies, from 0 below to 1 above."""
    texts: tuple[str, str, str]
    """Above, in the middle, below."""
    guessing: Callable[[float], float]
    """Its value at each of the horizontal axis, for a guess without looking at the output."""

    @property
    def margin(self) -> int:
        """Columns for the numbers."""
        return max(map(len, (*self.texts, self.name)))


FALSE_NEGATIVES = Upright("FNR", lambda y: y, ("1", "0.5", "0"), lambda x: 1 - x)


def true_positives(decades: int) -> Upright:
    """From 10^-decades to 1."""
    texts = ("1", setting(10 ** (-decades / 2)) if decades % 2 == 0 else "", setting(10**-decades))
    return Upright("TPR", log_axis(decades).place, texts, lambda x: x)


def draw(
    curve: Callable[[float], float],
    points: Sequence[Point],
    sign: tuple[str, str],
    axis: Axis,
    size: tuple[int, int],
    ink: Ink,
    upright: Upright = FALSE_NEGATIVES,
) -> list[Text]:
    """Draws a curve without gaps, and points.

    Args:
        curve: of the value on the horizontal axis; what leaves the vertical one is not drawn.
        points: those outside of the horizontal axis are left out.
        sign: character and style of a point.
        axis: the horizontal one.
        size: columns and rows, axes included.
        ink: of the console.
        upright: the vertical one.

    Returns:
        One line for each row, all as wide as `size` says.
    """
    width, height = size[0] - upright.margin - 2, size[1] - 2
    cells: Cells = [[(" ", "")] * width for _ in range(height)]
    _guessing(cells, axis, ink, upright)
    _line(cells, lambda x: upright.place(curve(x)), axis, ink)
    for x, y in points:
        if 0 <= (share := axis.place(x)) <= 1:
            place = _row(upright.place(y), height)
            cells[place][min(int(share * width), width - 1)] = sign
    return _framed(cells, axis, ink, upright)


def _row(y: float, rows: int) -> int:
    return min(max(int((1 - y) * rows), 0), rows - 1)


def _guessing(cells: Cells, axis: Axis, ink: Ink, upright: Upright) -> None:
    """Where a guess without looking at the output would be."""
    width, dot = len(cells[0]), "·" if _has_braille(ink) else ":"
    for column in range(width):
        x = axis.value((column + 0.5) / width)
        row = _row(upright.place(upright.guessing(x)), len(cells))
        cells[row][column] = (dot, "dim")


def _line(cells: Cells, curve: Callable[[float], float], axis: Axis, ink: Ink) -> None:
    """The curve, without gaps: dots of braille, or signs at three heights."""
    fine = _has_braille(ink)
    across, down = (2, 4) if fine else (1, 3)
    width, height = len(cells[0]), len(cells)
    dots: dict[tuple[int, int], set[tuple[int, int]]] = {}
    last = None
    for step in range(width * across):
        share = curve(axis.value((step + 0.5) / (width * across)))
        if not 0 <= share <= 1:
            last = None
            continue
        row = _row(share, height * down)
        for at in _between(last, row):
            place = (at // down, step // across)
            dots.setdefault(place, set()).add((at % down, step % across))
        last = row
    for (row, column), found in dots.items():
        if fine:
            character = chr(BRAILLE + sum(DOTS[a][b] for a, b in found))
        else:
            character = "\\" if len(found) > 1 else LEVELS[next(iter(found))[0]]
        cells[row][column] = (character, "")


def _between(last: int | None, row: int) -> range:
    """The rows that one step of a line takes: all from where it was to where it is."""
    if last is None or last == row:
        return range(row, row + 1)
    return range(last + 1, row + 1) if row > last else range(row, last)


def _has_braille(ink: Ink) -> bool:
    return not ink.ascii_only and ink.plain(chr(BRAILLE + 1)) == chr(BRAILLE + 1)


def _framed(cells: Cells, axis: Axis, ink: Ink, vertical: Upright) -> list[Text]:
    upright, corner, floor, tick = "│└─┴" if _has_braille(ink) else "|+-+"
    above, middle, below = vertical.texts
    numbers = {0: above, 1: vertical.name, len(cells) // 2: middle, len(cells) - 1: below}
    lines = []
    for row, characters in enumerate(cells):
        line = Text(no_wrap=True)
        line.append(f"{numbers.get(row, ''):>{vertical.margin}} {upright}", "dim")
        for character, style in characters:
            line.append(character, style)
        lines.append(line)
    width = len(cells[0])
    ruler, labels = [floor] * width, [" "] * width
    for value, text in axis.ticks:
        column = min(int(axis.place(value) * width), width - 1)
        ruler[column] = tick
        start = min(max(column - len(text) // 2, 0), width - len(text))
        if not "".join(labels[max(start - 1, 0) : start + len(text) + 1]).strip():
            labels[start : start + len(text)] = text
    for name, beside in (("", corner + "".join(ruler)), (axis.name, " " + "".join(labels))):
        lines.append(Text(f"{name:>{vertical.margin}} {beside}", "dim", no_wrap=True))
    return lines


# A claimed trade-off curve and what was certified along it, from the record.


ENDS = ((0.0, 1.0), (1.0, 0.0))
"""What an attack reaches without looking: it never guesses D′, or always."""

NORMAL = NormalDist()
NEAREST = 1e-15
"""Rates are told apart from 0 and 1 down to this."""


class Curve(NamedTuple):
    """A claimed curve through recorded points (FPR, FNR), by ascending FPR."""

    points: tuple[Point, ...]

    def at(self, fpr: float) -> float:
        """FNR at a false-positive rate.

        Between recorded points the curve is drawn as that of two normal distributions, which is a
        straight line in the quantiles of both rates: recorded points may lie decades apart.
        """
        places = [x for x, _ in self.points]
        right = min(max(bisect.bisect_left(places, fpr), 1), len(places) - 1)
        (x0, y0), (x1, y1) = self.points[right - 1 : right + 1]
        if not x0 < fpr < x1:
            return y1 if fpr >= x1 else y0
        if x0 > 0 and x1 < 1 and y1 > 0 and y0 < 1:
            share = (_quantile(fpr) - _quantile(x0)) / (_quantile(x1) - _quantile(x0))
            return NORMAL.cdf(_quantile(y0) + share * (_quantile(y1) - _quantile(y0)))
        # At an end the neighbour's distance goes on, and the end itself is a limit.
        x, y = (x1, y1) if x0 <= 0 or y0 >= 1 else (x0, y0)
        distance = -_quantile(x) - _quantile(y)
        return min(max(NORMAL.cdf(-_quantile(fpr) - distance), y1), y0)


class Plotted(NamedTuple):
    """One cell, as a plot shows it."""

    cell: CellRecord
    claimed: Curve
    certified: tuple[Point, ...]
    """Points (FPR, FNR) that say something: the lower convex hull of all."""

    @property
    def gap(self) -> float:
        """How far the deepest point lies below the claimed curve, in quantiles of the FNR."""
        return max(_quantile(self.claimed.at(fpr)) - _quantile(fnr) for fpr, fnr in self.certified)


def evidence(cell: CellRecord) -> Plotted | None:
    """What a cell has to show; None without a claimed curve or without certified points."""
    estimate, claim = cell.estimate, cell.claim
    if estimate is None or claim is None or not estimate.certified:
        return None
    claimed = _points(claim.tradeoff or [])
    certified = useful(estimate.tradeoff)
    if len(claimed) < 2 or not certified:
        return None
    return Plotted(cell, Curve(tuple(sorted(claimed))), tuple(certified))


def useful(listed: Sequence[Sequence[float]]) -> list[Point]:
    """The points that no line between two others, or the ends of guessing, runs below."""
    hull = tradeoff_hull(point for point in _points(listed) if sum(point) < 1)
    return [point for point in hull if point not in ENDS]


def _points(listed: Sequence[Sequence[float]]) -> list[Point]:
    return [(x, y) for x, y in listed if math.isfinite(x + y)]


def _quantile(probability: float) -> float:
    return NORMAL.inv_cdf(min(max(probability, NEAREST), 1 - NEAREST))


# Plots of what was certified along the claimed curve.


MOST = 4
"""Plots in a report."""
HEIGHT = 14
WIDEST = 78
NARROWEST = 50
"""Columns of one panel; a second one is drawn beside it where there is room for both."""
DECADES = (2, 12)
"""Least and most decades of false-positive rates that a panel shows."""


def plots(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draws the cells whose claim is a curve; if there are many, those that reach lowest."""
    shown = [
        (best, _name(group, spot, best))
        for group in found
        for spot in group.spots
        if (best := _furthest(spot)) is not None
    ]
    if not shown:
        return
    which = ""
    if len(shown) > MOST:
        which = f": {MOST} of {len(shown)} cells, those that show most against their claim"
        order = sorted(range(len(shown)), key=lambda i: -shown[i][0].gap)
        shown = [shown[i] for i in sorted(order[:MOST])]
    signs = " ".join(dict.fromkeys(SYMBOL[best.cell.verdict] for best, _ in shown))
    yield ink.text("")
    yield ink.text("Along the claimed curve", "bold").append(ink.plain(which), "not bold")
    yield ink.text(
        f"{signs} certified: the mechanism's curve runs below or through here. Line: as "
        "claimed; below it is more loss. Dotted: guessing.",
        "dim",
    )
    for best, name in shown:
        yield ink.text("")
        yield _title(best, name, ink)
        yield from _panels(best, ink, width)


def _furthest(spot: Spot) -> Plotted | None:
    shown = [found for cell in spot.cells if (found := evidence(cell)) is not None]
    return max(shown, key=lambda found: found.gap, default=None)


def _name(group: Group, spot: Spot, best: Plotted) -> str:
    place = [f"{short(key)} {words.setting(value)}" for key, value in spot.values.items()]
    if len(spot.cells) > 1:
        place.append(f"repeat {best.cell.repeat}")
    return " · ".join((*group.names, *place))


def _title(best: Plotted, name: str, ink: Ink) -> Text:
    verdict = best.cell.verdict
    text = ink.text("")
    text.append(ink.plain(f"{SYMBOL[verdict]} "), STYLE[verdict])
    text.append(ink.plain(name), "bold")
    if (claim := best.cell.claim) is not None:
        text.append(ink.plain(f"\n  claim {claim.kind}{_parameters(claim)}"), "dim")
    return text


def _parameters(claim: ClaimRecord) -> str:
    values = [f"{name} {words.setting(value)}" for name, value in claim.parameters.items()]
    return ": " + ", ".join(values) if values else ""


def _panels(best: Plotted, ink: Ink, width: int) -> Iterator[Text]:
    verdict = best.cell.verdict
    axes = [log_axis(_decades(best))]
    if width >= 2 * NARROWEST + GAP:
        axes.append(linear_axis())
    size = (min(WIDEST, (width - GAP * (len(axes) - 1)) // len(axes)), HEIGHT)
    sign = (ink.plain(SYMBOL[verdict]), STYLE[verdict])
    panels = [draw(best.claimed.at, best.certified, sign, axis, size, ink) for axis in axes]
    for parts in zip(*panels, strict=True):
        yield Text(" " * GAP).join(parts)


def _decades(best: Plotted) -> int:
    """Down to where curve and points have come within a hundredth of 1."""
    telling = [x for x, y in (*best.claimed.points, *best.certified) if x > 0 and y < 0.99]
    least = min(telling, default=1.0)
    return min(max(math.ceil(-math.log10(least)), DECADES[0]), DECADES[1])


# Empirical against claimed ε: a small plot for each mechanism where claims differ.


LEAST_CLAIMS = 3
"""Different claims that make a curve."""
AGAINST_HEIGHT = 8
SIZES = (24, 40)
"""Narrowest and widest plot, its axis included."""
MARGIN = 7
BELOW = 1e-2
"""Estimates below this share of the smallest claim are drawn at the bottom."""
ORDER = ("violated", "inconclusive", "consistent", None)
"""What is drawn over what."""


class Range(NamedTuple):
    """What an axis spans."""

    low: float
    high: float

    def place(self, value: float, size: int) -> int:
        """Where a value lies on a logarithmic axis of this many characters."""
        if value <= self.low:
            return 0
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(int(share * size), size - 1)


def against(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draws the plots, as many beside each other as there is room for.

    Args:
        found: groups; those without enough claims are left out.
        ink: of the console.
        width: columns of the console; nothing is drawn below the narrowest plot.
    """
    shown = [(group, spots) for group in found if (spots := _plotted(group))]
    if not shown or width < SIZES[0]:
        return
    naming = telling(found)
    titles = [ink.plain(called(group, naming)) for group, _ in shown]
    least = min(max(SIZES[0], *map(cell_len, titles)), width)
    count = min((width + GAP) // (least + GAP), len(shown))
    size = min((width + GAP) // count - GAP, max(SIZES[1], least))
    verdicts = {spot.verdict for _, spots in shown for spot in spots}
    signs = " ".join(SYMBOL[verdict] for verdict in SYMBOL if verdict in verdicts)
    yield Text()
    yield ink.text("Empirical ε, up, against claimed ε", "bold")
    yield from ink.folded(
        f"{signs} a cell, by its verdict. Dotted: as claimed; above it is more. Both axes are "
        "logarithmic.",
        "dim",
        width,
    )
    for start in range(0, len(shown), count):
        yield Text()
        band = [
            [*ink.folded(title, "bold", size), *_drawn(spots, ink, min(size, SIZES[1]))]
            for title, (_, spots) in list(zip(titles, shown, strict=True))[start : start + count]
        ]
        tallest = max(map(len, band))
        for line in zip(*([Text()] * (tallest - len(plot)) + plot for plot in band), strict=True):
            joined = Text(no_wrap=True)
            for index, part in enumerate(line):
                joined.append(" " * (index * (size + GAP) - joined.cell_len)).append_text(part)
            yield joined


def _plotted(group: Group) -> list[Spot]:
    """Cells with an estimate and a claim above 0, if there are enough claims."""
    spots = [spot for spot in group.spots if spot.found and 0 < (spot.claim or 0) < math.inf]
    spots = [spot for spot in spots if not math.isnan(spot.mean("epsilon") or 0.0)]
    return spots if len({spot.claim for spot in spots}) >= LEAST_CLAIMS else []


def _drawn(spots: list[Spot], ink: Ink, size: int) -> Iterator[Text]:
    claims = [spot.claim or 1.0 for spot in spots]
    values = [spot.mean("epsilon") or 0.0 for spot in spots]
    least = BELOW * min(claims)
    known = [value for value in values if least <= value < math.inf]
    across = Range(min(claims), max(claims))
    up = Range(min([*claims, *known]), max([*claims, *known]))
    # What has no place on the axis has a row of its own: ∞ on top, next to nothing at the bottom.
    above, below = int(math.inf in values), int(min(values) < least)
    columns, rows = size - MARGIN - 1, AGAINST_HEIGHT - above - below

    def row(value: float) -> int:
        if value < least:
            return AGAINST_HEIGHT - 1
        return 0 if value == math.inf else above + rows - 1 - up.place(value, rows)

    cells = [[(" ", "")] * columns for _ in range(AGAINST_HEIGHT)]
    for column in range(columns):
        claim = across.low * (across.high / across.low) ** ((column + 0.5) / columns)
        cells[row(claim)][column] = ("." if ink.ascii_only else "·", "dim")
    for verdict in reversed(ORDER):
        for spot, claim, value in zip(spots, claims, values, strict=True):
            if spot.verdict == verdict:
                sign = ink.plain(SYMBOL[verdict]), STYLE[verdict]
                cells[row(value)][across.place(claim, columns)] = sign
    numbers = {above: brief(up.high, 2), above + rows - 1: brief(up.low, 2)}
    numbers |= ({0: "∞"} if above else {}) | ({AGAINST_HEIGHT - 1: "less"} if below else {})
    upright, corner, floor = "|+-" if ink.ascii_only else "│└─"
    for index, line in enumerate(cells):
        number = padded(ink.plain(numbers.get(index, "")), MARGIN - 1, right=True)
        text = Text(no_wrap=True).append(f"{number} {upright}", "dim")
        for character, style in line:
            text.append(character, style)
        yield text
    yield Text(" " * MARGIN + corner + floor * columns, "dim", no_wrap=True)
    low, high = brief(across.low, 2), brief(across.high, 2)
    yield Text(" " * (MARGIN + 1) + low + padded(high, columns - len(low), right=True), "dim")


# How the evidence against a claim grew: ln of the wealth over draws on a logarithmic axis.


MOST_GROWTH = 4
"""Plots in a report."""
SIZE = (78, 12)
NARROWEST_GROWTH = 50
"""Columns of one panel; a second one is drawn beside it where there is room for both."""

Points = list[tuple[float, float]]


def growths(found: list[Group], record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Draws how wealth grew; of many cells those in which it differs most."""
    every = evidence_lines.growths(found, record)
    if not every:
        return
    lines = distinct(every, MOST_GROWTH)
    shown, which = [line.first for line in lines], ""
    if len(every) > len(lines):
        which = f": {len(lines)} of {len(every)} cells, those in which it differs most"
    yield ink.text("")
    yield ink.text("Growth of the evidence", "bold").append(ink.plain(which), "not bold")
    yield ink.text(
        "ln W, the logarithm of what bets against the claim have earned, over n draws per dataset. "
        f"Dotted: {evidence_lines.levels(shown)}, where the claim is refuted at the cell's share "
        "of the error.",
        "dim",
    )
    panels = [_panel(line, ink, width) for line in lines]
    across = 2 if width >= 2 * NARROWEST_GROWTH + GAP and len(panels) > 1 else 1
    for at in range(0, len(panels), across):
        yield ink.text("")
        for parts in zip(*panels[at : at + across], strict=True):
            yield Text(" " * GAP).join(parts)


def _panel(line: Line, ink: Ink, width: int) -> list[Text]:
    cell, points, level = line.first.cell, line.first.points, line.first.level
    name = named(line, [growth.name for growth in line.cells])
    columns = width if width < 2 * NARROWEST_GROWTH + GAP else (width - GAP) // 2
    size = (min(SIZE[0], columns), SIZE[1])
    axis = _draws(points[0][0], points[-1][0])
    upright = _upright(points, level)
    verdict = cell.verdict
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(ink.plain(f"{SYMBOL[verdict]} "), STYLE[verdict])
    title.append(ink.plain(name), "bold")
    title.truncate(size[0], overflow="ellipsis", pad=True)
    return [title, *draw(_growth_between(points), (), ("", ""), axis, size, ink, upright)]


def _draws(first: float, last: float) -> Axis:
    """Draws from the first round's to the last, on a logarithmic axis."""
    low, high = math.log10(first), math.log10(max(last, first * 1.01))
    ticks = [10.0**k for k in range(math.ceil(low), math.floor(high) + 1)]
    ticks = ticks if len(ticks) > 1 else [first, last]
    return Axis(
        lambda n: (math.log10(max(n, 1e-300)) - low) / (high - low),
        lambda share: float(10 ** (low + share * (high - low))),
        [(n, words.quantity(int(n))) for n in ticks],
        "n",
    )


def _upright(points: Points, level: float) -> Upright:
    heights = [y for _, y in points]
    low, high = min(0.0, *heights), max(level * 1.1, *heights)
    texts = tuple(f"{y:.3g}" for y in (high, (low + high) / 2, low))
    return Upright(
        "ln W",
        lambda y: (y - low) / (high - low),
        (texts[0], texts[1], texts[2]),
        lambda _: level,
    )


def _growth_between(points: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """A straight line between points, over the logarithm of draws."""
    places = [n for n, _ in points]

    def at(n: float) -> float:
        right = min(max(bisect.bisect_left(places, n), 1), len(places) - 1)
        (n0, y0), (n1, y1) = points[right - 1 : right + 1]
        share = (math.log(n) - math.log(n0)) / (math.log(n1) - math.log(n0))
        return y0 + min(max(share, 0.0), 1.0) * (y1 - y0)

    return at
