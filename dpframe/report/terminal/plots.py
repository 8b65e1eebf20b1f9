"""Plots in characters: trade-off curves, empirical against claimed ε, growth of evidence."""

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report import evidence as growth, words
from dpframe.report.group import Group, Spot, group_name, telling
from dpframe.report.terminal.elements import GAP, STYLE, Ink, beside, padded
from dpframe.report.words import SYMBOL, brief
from dpframe.results.model import CellRecord, Record
from dpframe.stats.tradeoff import tradeoff_hull

Point = tuple[float, float]
Place = Callable[[float], float]
Sign = tuple[str, str]  # a character and its style
Cells = list[list[Sign]]  # rows from the top

MOST = 4  # plots of a kind in a report
HEIGHT = 14
GROWTH_HEIGHT = 12
WIDEST = 78
NARROWEST = 50  # least columns of each of two panels beside each other
DECADES = (2, 12)  # least and most decades of a logarithmic axis

BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a braille character: rows from the top, left and right."""
LEVELS = "'-."  # without braille: the upper, middle and lower third of a character


# One plot: a curve as a fine line, points as signs, two axes.


class Axis(NamedTuple):
    """The horizontal axis."""

    place: Callable[[float], float]  # maps a value to its place, from 0 to 1
    value: Callable[[float], float]  # the inverse of `place`
    ticks: Sequence[tuple[float, str]]
    name: str = "FPR"
    tick: bool = True  # true if ticks are marked; their texts are shown anyway


def linear_axis() -> Axis:
    """Return an axis from 0 to 1."""
    return Axis(lambda x: x, lambda share: share, [(k / 5, f"{k / 5:g}") for k in range(6)])


def log_axis(decades: int) -> Axis:
    """Return an axis of rates from 10^-decades to 1."""
    step = -(-decades // 6)
    ticks = [(10.0**-k, words.setting(10.0**-k)) for k in range(0, decades + 1, step)]
    return Axis(*_log_places(10.0**-decades, 1.0), ticks)


def _log_places(low: float, high: float) -> tuple[Place, Place]:
    """Return place and value on a logarithmic axis."""
    span = math.log10(high / low)
    return (
        lambda x: math.log10(max(x / low, 1e-300)) / span,
        lambda share: float(low * (high / low) ** share),
    )


def decades(rates: Sequence[float]) -> int:
    """Return the decades of a logarithmic axis that shows all rates but 0."""
    least = min((rate for rate in rates if rate > 0), default=1.0)
    return min(max(math.ceil(-math.log10(least)), DECADES[0]), DECADES[1])


class Upright(NamedTuple):
    """The vertical axis."""

    name: str
    place: Callable[[float], float]  # maps a value to its place, from 0 below to 1 above
    texts: dict[float, str]  # numbers, by their places
    guessing: Callable[[float], float]
    """The dotted line; for trade-off curves the rates of guessing without the output."""

    @property
    def margin(self) -> int:
        """Columns of the numbers."""
        return max(map(len, (*self.texts.values(), self.name)))


FALSE_NEGATIVES = Upright("FNR", lambda y: y, {1: "1", 0.5: "0.5", 0: "0"}, lambda x: 1 - x)


def true_positives(decades: int) -> Upright:
    """Return an axis from 10^-decades to 1."""
    middle = {0.5: words.setting(10 ** (-decades / 2))} if decades % 2 == 0 else {}
    texts = {1: "1", **middle, 0: words.setting(10**-decades)}
    return Upright("TPR", log_axis(decades).place, texts, lambda x: x)


def draw(
    curve: Callable[[float], float] | None,
    points: Iterable[tuple[float, float, Sign]],
    axis: Axis,
    size: tuple[int, int],
    ink: Ink,
    upright: Upright = FALSE_NEGATIVES,
) -> list[Text]:
    """Draw a curve and points, each with its sign.

    Values of the curve beyond the vertical axis and points beyond the horizontal axis are left out.
    `size` is the number of columns and rows, axes included.
    """
    width, height = size[0] - upright.margin - 2, size[1] - 2
    cells: Cells = [[(" ", "")] * width for _ in range(height)]
    dot = "·" if not ink.ascii_only else ":" if curve else "."
    for column in range(width):
        guess = upright.guessing(axis.value((column + 0.5) / width))
        cells[_row(upright.place(guess), height)][column] = (dot, "dim")
    if curve is not None:
        place = upright.place
        _line(cells, lambda x: place(curve(x)), axis, fine=not ink.ascii_only)
    for x, y, sign in points:
        if 0 <= (share := axis.place(x)) <= 1:
            row = _row(upright.place(y), height)
            cells[row][min(int(share * width), width - 1)] = sign
    return _framed(cells, axis, ink, upright)


def _row(y: float, rows: int) -> int:
    return min(max(int((1 - y) * rows), 0), rows - 1)


def _line(cells: Cells, curve: Callable[[float], float], axis: Axis, *, fine: bool) -> None:
    """Draw the curve without gaps, in dots of braille or signs at three heights."""
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
    """Return the rows that one step of a line covers, without the last row of the step before."""
    if last is None or last == row:
        return range(row, row + 1)
    return range(last + 1, row + 1) if row > last else range(row, last)


def _framed(cells: Cells, axis: Axis, ink: Ink, vertical: Upright) -> list[Text]:
    upright, corner, floor, tick = "|+-+" if ink.ascii_only else "│└─┴"
    width, margin = len(cells[0]), vertical.margin
    numbers = {1: vertical.name}
    numbers |= {_row(place, len(cells)): text for place, text in vertical.texts.items()}
    lines = []
    for row, characters in enumerate(cells):
        left = (f"{numbers.get(row, ''):>{margin}} {upright}", "dim")
        lines.append(Text.assemble(left, *characters, no_wrap=True))
    ruler, labels = [floor] * width, [" "] * width
    for value, text in axis.ticks:
        column = min(int(axis.place(value) * width), width - 1)
        ruler[column] = tick if axis.tick else floor
        start = min(max(column - len(text) // 2, 0), width - len(text))
        if not "".join(labels[max(start - 1, 0) : start + len(text) + 1]).strip():
            labels[start : start + len(text)] = text
    for name, drawn in (("", corner + "".join(ruler)), (axis.name, " " + "".join(labels))):
        lines.append(Text(f"{name:>{margin}} {drawn}", "dim", no_wrap=True))
    return lines


# A claimed trade-off curve, and what was certified along it.


ENDS = ((0.0, 1.0), (1.0, 0.0))  # rates of an attack that never guesses D′, or always
NORMAL = NormalDist()
NEAREST = 1e-15  # rates differ from 0 and 1 by at least this


class Curve(NamedTuple):
    """A claimed curve through recorded points (FPR, FNR), by ascending FPR."""

    points: tuple[Point, ...]

    def at(self, fpr: float) -> float:
        """Return the FNR at a false-positive rate.

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
        # Beyond the last inner point its distance in quantiles is kept, up to the end point.
        x, y = (x1, y1) if x0 <= 0 or y0 >= 1 else (x0, y0)
        distance = -_quantile(x) - _quantile(y)
        return min(max(NORMAL.cdf(-_quantile(fpr) - distance), y1), y0)


class Plotted(NamedTuple):
    """The claimed curve of a cell, and the certified points."""

    cell: CellRecord
    claimed: Curve
    certified: tuple[Point, ...]  # the lower convex hull of all points (FPR, FNR)

    @property
    def gap(self) -> float:
        """Distance of the deepest point below the claimed curve, in quantiles of the FNR."""
        return max(_quantile(self.claimed.at(fpr)) - _quantile(fnr) for fpr, fnr in self.certified)


def evidence(cell: CellRecord) -> Plotted | None:
    """Return the curve of a cell; None without a claimed curve or without certified points."""
    estimate, claim = cell.estimate, cell.claim
    if estimate is None or claim is None or not estimate.certified:
        return None
    claimed = _finite(claim.tradeoff or [])
    certified = useful(estimate.tradeoff)
    if len(claimed) < 2 or not certified:
        return None
    return Plotted(cell, Curve(tuple(sorted(claimed))), tuple(certified))


def corners(listed: Sequence[Sequence[float]]) -> list[Point]:
    """Return the lower convex hull of points better than guessing, by ascending FPR, or []."""
    points = [point for point in _finite(listed) if sum(point) < 1]
    return tradeoff_hull(points) if points else []


def useful(listed: Sequence[Sequence[float]]) -> list[Point]:
    """Return the corners of the hull without the ends of guessing."""
    return [point for point in corners(listed) if point not in ENDS]


def _finite(listed: Sequence[Sequence[float]]) -> list[Point]:
    return [(x, y) for x, y in listed if math.isfinite(x + y)]


def _quantile(probability: float) -> float:
    return NORMAL.inv_cdf(min(max(probability, NEAREST), 1 - NEAREST))


def plots(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Plot cells whose claim is a curve, at most `MOST` with the deepest certified points."""
    shown: list[tuple[Plotted, str]] = []
    for group in found:
        for spot in group.spots:
            curves = [curve for cell in spot.cells if (curve := evidence(cell)) is not None]
            if curves:
                best = max(curves, key=lambda curve: curve.gap)
                shown.append((best, group.name_of(spot, best.cell)))
    if not shown:
        return
    which = ""
    if len(shown) > MOST:
        which = f": {MOST} of {len(shown)} cells, those with the most evidence"
        order = sorted(range(len(shown)), key=lambda i: -shown[i][0].gap)
        shown = [shown[i] for i in sorted(order[:MOST])]
    signs = " ".join(dict.fromkeys(SYMBOL[best.cell.verdict] for best, _ in shown))
    yield ink.text("")
    yield ink.text("Along the claimed curve", "bold").append(ink.plain(which), "not bold")
    yield ink.text(
        f"{signs} certified: the mechanism's curve runs below or through here. Line: the "
        "claim; below it the loss is larger. Dotted: guessing.",
        "dim",
    )
    for best, name in shown:
        yield ink.text("")
        title = _title(best.cell, name, ink)
        if (claim := best.cell.claim) is not None:
            values = ", ".join(f"{key} {words.setting(v)}" for key, v in claim.parameters.items())
            parameters = f": {values}" if values else ""
            title.append(ink.plain(f"\n  claim {claim.kind}{parameters}"), "dim")
        yield title
        yield from _panels(best, ink, width)


def _title(cell: CellRecord, name: str, ink: Ink) -> Text:
    text = Text(overflow="fold").append(ink.plain(f"{SYMBOL[cell.verdict]} "), STYLE[cell.verdict])
    return text.append(ink.plain(name), "bold")


def _panels(best: Plotted, ink: Ink, width: int) -> Iterator[Text]:
    verdict = best.cell.verdict
    # The axis begins where curve and points have reached 0.99.
    axes = [log_axis(decades([x for x, y in (*best.claimed.points, *best.certified) if y < 0.99]))]
    if width >= 2 * NARROWEST + GAP:
        axes.append(linear_axis())
    size = (min(WIDEST, (width - GAP * (len(axes) - 1)) // len(axes)), HEIGHT)
    sign = (ink.plain(SYMBOL[verdict]), STYLE[verdict])
    points = [(x, y, sign) for x, y in best.certified]
    yield from beside([draw(best.claimed.at, points, axis, size, ink) for axis in axes], size[0])


# Empirical against claimed ε: a small plot for each mechanism with several claims.


LEAST_CLAIMS = 3  # different claims that make a curve
AGAINST_HEIGHT = 8
SIZES = (24, 40)  # narrowest and widest plot, its axis included
MARGIN = 6
BELOW = 1e-2  # estimates below this share of the smallest claim are drawn at the bottom
ORDER = (None, "consistent", "inconclusive", "violated")
"""The order in which verdicts are drawn, so that violations are on top."""


def against(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draw groups with enough claims, as many beside each other as fit into `width`."""
    shown = [(group, spots) for group in found if (spots := _plotted(group))]
    if not shown or width < SIZES[0]:
        return
    naming = telling(found)
    titles = [ink.plain(group_name(group, naming)) for group, _ in shown]
    least = min(max(SIZES[0], *map(cell_len, titles)), width)
    count = min((width + GAP) // (least + GAP), len(shown))
    size = min((width + GAP) // count - GAP, max(SIZES[1], least))
    verdicts = {spot.verdict for _, spots in shown for spot in spots}
    signs = " ".join(SYMBOL[verdict] for verdict in SYMBOL if verdict in verdicts)
    yield Text()
    yield ink.text("Empirical ε, up, against claimed ε", "bold")
    yield from ink.folded(
        f"{signs} a cell, by its verdict. Dotted: the claim; above it the loss is larger. Both "
        "axes are logarithmic.",
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
        yield from beside([[Text()] * (tallest - len(plot)) + plot for plot in band], size)


def _plotted(group: Group) -> list[Spot]:
    """Return the cells with an estimate and a claim above 0, if there are enough claims."""
    spots = [spot for spot in group.spots if spot.found and 0 < (spot.claim or 0) < math.inf]
    spots = [spot for spot in spots if not math.isnan(spot.mean("epsilon") or 0.0)]
    return spots if len({spot.claim for spot in spots}) >= LEAST_CLAIMS else []


def _drawn(spots: list[Spot], ink: Ink, size: int) -> list[Text]:
    claims = [spot.claim or 1.0 for spot in spots]
    values = [spot.mean("epsilon") or 0.0 for spot in spots]
    least = BELOW * min(claims)
    known = [value for value in values if least <= value < math.inf]
    left, right = min(claims), max(claims)
    bottom, top = min([*claims, *known]), max([*claims, *known])
    # Values beyond the axis have a row of their own: ∞ on top, tiny values at the bottom.
    above, below = int(math.inf in values), int(min(values) < least)
    rows = AGAINST_HEIGHT - above - below
    place, _ = _log_places(bottom, top)

    def height(row: int) -> float:
        return 1 - (row + 0.5) / AGAINST_HEIGHT

    def up(value: float) -> float:
        if value < least or value == math.inf:
            return height(0 if value > least else AGAINST_HEIGHT - 1)
        return height(above + rows - 1 - min(int(max(place(value), 0.0) * rows), rows - 1))

    numbers = {above: brief(top, 2), above + rows - 1: brief(bottom, 2)}
    numbers |= ({0: "∞"} if above else {}) | ({AGAINST_HEIGHT - 1: "less"} if below else {})
    texts = {height(n): padded(ink.plain(t), MARGIN, right=True) for n, t in numbers.items()}
    signs = {verdict: (ink.plain(SYMBOL[verdict]), STYLE[verdict]) for verdict in ORDER}
    points = [
        (claim, value, sign)
        for verdict, sign in signs.items()
        for spot, claim, value in zip(spots, claims, values, strict=True)
        if spot.verdict == verdict
    ]
    ends = [(left, brief(left, 2)), (right, brief(right, 2))]
    axis = Axis(*_log_places(left, right), ends, name="", tick=False)
    upright = Upright("", up, texts, lambda claim: claim)
    return draw(None, points, axis, (size, AGAINST_HEIGHT + 2), ink, upright)


# Growth of the evidence against a claim: ln of the wealth over draws on a logarithmic axis.


def growths(found: list[Group], record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Plot the wealth of at most `MOST` cells, those that differ most."""
    every = growth.growths(found, record)
    if not every:
        return
    lines = growth.distinct(every, MOST)
    which = ""
    if len(every) > len(lines):
        which = f": {len(lines)} of {len(every)} cells, those that differ most"
    levels = growth.levels(line.first for line in lines)
    yield ink.text("")
    yield ink.text("Growth of the evidence", "bold").append(ink.plain(which), "not bold")
    yield ink.text(
        "ln W, the log wealth of the bets against the claim, over n draws per dataset. "
        f"Dotted: {levels}, where the claim is refuted at the cell's share "
        "of the error.",
        "dim",
    )
    paired = width >= 2 * NARROWEST + GAP
    size = (min(WIDEST, (width - GAP) // 2 if paired else width), GROWTH_HEIGHT)
    panels = [_panel(line, ink, size) for line in lines]
    across = 2 if paired and len(panels) > 1 else 1
    for at in range(0, len(panels), across):
        yield ink.text("")
        yield from beside(panels[at : at + across], size[0])


def _panel(line: growth.WealthCurve, ink: Ink, size: tuple[int, int]) -> list[Text]:
    cell, _, points, level = line.first
    title = _title(cell, growth.named(line, [one.name for one in line.cells]), ink)
    title.no_wrap = True
    if title.cell_len > size[0]:
        dots = ink.plain("…")
        title.truncate(size[0] - len(dots), overflow="crop")
        title.append(dots)
    title.truncate(size[0], pad=True)
    axis, upright = _draws(points[0][0], points[-1][0]), _wealth(points, level)
    logs = [math.log(n) for n, _ in points]

    def wealth(n: float) -> float:
        return growth.height_at(points, logs, math.log(n))

    return [title, *draw(wealth, (), axis, size, ink, upright)]


def _draws(first: float, last: float) -> Axis:
    """Return a logarithmic axis from the draws of the first round to those of the last."""
    last = max(last, first * 1.01)
    ends = math.log10(first), math.log10(last)
    ticks = [10.0**k for k in range(math.ceil(ends[0]), math.floor(ends[1]) + 1)]
    ticks = ticks if len(ticks) > 1 else [first, last]
    return Axis(*_log_places(first, last), [(n, words.quantity(int(n))) for n in ticks], "n")


def _wealth(points: Sequence[Point], level: float) -> Upright:
    heights = [y for _, y in points]
    low, high = min(0.0, *heights), max(level * 1.1, *heights)
    texts = {1: f"{high:.3g}", 0.5: f"{(low + high) / 2:.3g}", 0: f"{low:.3g}"}
    return Upright("ln W", lambda y: (y - low) / (high - low), texts, lambda _: level)
