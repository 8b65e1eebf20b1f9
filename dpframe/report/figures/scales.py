"""Axes for losses: broken above for ∞ and, if logarithmic, below for values near 0."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

from dpframe.report.figures.drawing import FAINT, INK
from dpframe.report.number_format import setting

DECADES = 3.0  # decades that a logarithmic axis reaches below the smallest claim, at most
MOST_TICKS = 8  # swept values that each have a tick
WIDE = 20.0  # ratio of the largest value to the smallest from which an axis is logarithmic


Mark = tuple[float, float | None]  # a place on the other axis, and a loss if it is known


class Scale(NamedTuple):
    """The positions of losses on an axis."""

    log: bool
    low: float
    high: float
    infinite: bool  # true if there is a band for ∞
    tiny: bool  # true if there is a band for values below `low`, 0 included

    @property
    def band(self) -> float:
        """Width of a band: decades, or a share of the axis."""
        return 0.13 * self._length

    @property
    def _length(self) -> float:
        return math.log10(self.high / self.low) if self.log else self.high - self.low

    def height(self, value: float) -> float:
        """Return the position of a value as a share of the axis."""
        low, high = self.limits
        at = self.place(value)
        if self.log:
            return math.log(at / low) / math.log(high / low)
        return (at - low) / (high - low)

    def shifted(self, value: float, by: float) -> float:
        """Return the position `by` decades, or units of a linear axis, beyond a value."""
        return value * 10**by if self.log else value + by

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis, bands included."""
        edge = 0.04 * self._length
        below = self.band if self.tiny else edge if self.log else edge / 2
        above = self.band if self.infinite else edge
        return self.shifted(self.low, -below), self.shifted(self.high, above)

    def place(self, value: float) -> float:
        """Return the position of a value; NaN if it has none."""
        if value == math.inf:
            return self.shifted(self.high, self.band * 0.55)
        if value < self.low and self.tiny:
            return self.shifted(self.low, -self.band * 0.55)
        return min(max(value, self.low), self.high)

    def places(self, values: Iterable[float]) -> list[float]:
        """Return the positions of several values."""
        return [self.place(value) for value in values]

    def columns(self, marks: Iterable[Mark]) -> tuple[list[float], list[float]]:
        """Return x and the positions of the values that are known."""
        known = [(x, self.place(value)) for x, value in marks if value is not None]
        return [x for x, _ in known], [y for _, y in known]


def scale(
    values: Iterable[float | None],
    anchors: Iterable[float | None] = (),
    *,
    log: bool | None = None,
) -> Scale:
    """Return a scale for losses, which may be 0 or ∞; None is skipped.

    A logarithmic axis reaches `DECADES` below the smallest of the anchors, which are claimed and
    exact losses. By default the axis is logarithmic if the values are far apart.
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    fixed = [a for a in anchors if a is not None and math.isfinite(a) and a > 0]
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
    """Set the limits and ticks of an axis, "x" or "y", and mark its breaks."""
    getattr(ax, f"set_{which}scale")("log" if scaled.log else "linear")
    getattr(ax, f"set_{which}lim")(*scaled.limits)
    axis: Axis = getattr(ax, f"{which}axis")
    ticks = decades(scaled.low, scaled.high) if scaled.log else _even(scaled.low, scaled.high)
    texts = [setting(tick) for tick in ticks]
    if scaled.infinite:
        ticks, texts = [*ticks, scaled.place(math.inf)], [*texts, "∞"]
        _cut(ax, which, scaled.shifted(scaled.high, scaled.band * 0.12))
    if scaled.tiny:
        rounded = float(f"{scaled.low:.1g}")
        ticks = [*ticks, scaled.place(-math.inf)]
        texts = [*texts, f"<{setting(rounded)}"]
        _cut(ax, which, scaled.shifted(scaled.low, -scaled.band * 0.12))
    fix_ticks(axis, ticks, texts)


def fix_ticks(axis: Axis, values: Sequence[float], texts: Sequence[str] | None = None) -> None:
    """Set ticks at these values and nowhere else."""
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_major_formatter(FixedFormatter(list(texts or map(setting, values))))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _cut(ax: Axes, which: str, at: float) -> None:
    """Draw two short strokes across the axis where it is broken."""
    upright = which == "y"
    strokes = [(-1.0, -0.9), (1.0, 0.1), (1.0, 0.9), (-1.0, -0.1), (-1.0, -0.9)]
    marker: Any = [(x, y) if upright else (y, x) for x, y in strokes]
    look: Any = {"color": "white", "markeredgecolor": INK, "markeredgewidth": 0.5, "zorder": 5}
    transform = ax.get_yaxis_transform() if upright else ax.get_xaxis_transform()
    look |= {"marker": marker, "markersize": 5, "transform": transform, "clip_on": False}
    ax.plot(*((0.0, at) if upright else (at, 0.0)), **look)
    line = ax.axhline if upright else ax.axvline
    line(at, color=FAINT, lw=0.5, ls=(0, (1, 1)), zorder=0.5)


def dress_swept(ax: Axes, values: Sequence[float]) -> None:
    """Set the horizontal axis to ascending swept values: logarithmic if they are far apart."""
    first, last = values[0], values[-1]
    if first > 0 and last / first >= WIDE:
        ax.set_xscale("log")
        margin = (last / first) ** 0.05
        ax.set_xlim(first / margin, last * margin)
    else:
        margin = 0.05 * (last - first) or 0.5
        ax.set_xlim(first - margin, last + margin)
    if len(values) <= MOST_TICKS:
        fix_ticks(ax.xaxis, values)


def decades(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis: powers of ten, or finer ticks if fewer than two fit."""
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
