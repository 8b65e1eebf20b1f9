"""Loss against the swept parameter, beside the claim: a panel for each mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.errors import DpframeError
from dpframe.report.figures import drawing as notes
from dpframe.report.figures import points as losses
from dpframe.report.figures.drawing import (
    BESIDE,
    CERTIFIED,
    CLAIMED,
    DOTTED,
    ESTIMATE,
    FAINT,
    INK,
    QUIET,
    TRUTH,
    WIDE,
    Look,
    Scale,
    dress,
    grid,
    legend,
    log_ticks,
    name_axes,
    named,
    ordered,
    scale,
    shorten,
)
from dpframe.report.figures.points import Line, Panel, Plan, planned
from dpframe.report.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpframe.report.figures.drawing import Picture
    from dpframe.report.figures.points import Published
    from dpframe.results.model import Record


MOST_PANELS = 12
VARIANTS = ("-", (0, (4, 1.5)), (0, (1, 1)))


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(cell.estimate for cell in record.cells):
        return "none of its cells has an estimate"
    if not planned(record).panels:
        return "no parameter that is a number is swept"
    return None


def draw(
    record: Record,
    together: Sequence[Sequence[str]] = (),
    beside: Published | None = None,
) -> Picture:
    """Draws it.

    Args:
        record: of a run.
        together: labels of mechanisms that share a panel; default: a panel for each.
        beside: numbers from elsewhere.

    Raises:
        DpframeError: there are such numbers, but none for any cell.
    """
    plan = planned(record, together)
    panels = plan.panels[:MOST_PANELS]
    spots = [spot for panel in panels for line in panel.lines for _, spot in line.marks]
    published = [v for spot in spots if (v := losses.published(spot, beside)) is not None]
    if beside is not None and not published:
        raise DpframeError(f"{beside.name}: none of its rows is about a cell that is drawn")
    scaled = scale(
        [*published, *(value for spot in spots for value in losses.values(spot))],
        [
            value
            for spot in spots
            for value in (losses.claimed(spot), losses.exact(spot))
            if value is not None
        ],
    )
    picture, axes = grid(len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel, plan, scaled)
        found = [
            (x, scaled.place(value))
            for line in panel.lines
            for x, spot in line.marks
            if (value := losses.published(spot, beside)) is not None
        ]
        if found:
            ax.plot([x for x, _ in found], [y for _, y in found], **BESIDE)
    _along(axes, panels, plan)
    name_axes(axes, _name(plan.key), "loss ε")
    handles = _legend(plan, panels)
    if beside is not None:
        handles.append(Line2D([], [], label=f"as {shorten(beside.name, 30)} has it", **BESIDE))
    legend(picture, handles)
    picture.caption = " ".join(_caption(record, plan))
    return picture


def _look(line: Line, plan: Plan) -> Look:
    return ordered(line.place, len(plan.labels)) if plan.ordered else named(line.place)


def _draw(ax: Axes, panel: Panel, plan: Plan, scaled: Scale) -> None:
    ax.set_title(panel.title)
    apart = plan.line_key == "estimator" or len(panel.lines) == 1
    if not apart:
        _band(ax, panel, scaled)
    for name, style in ((CLAIMED, "-"), (TRUTH, DOTTED)):
        _reference(ax, panel, plan, name, style, scaled)
    for line in panel.lines:
        look = _look(line, plan)
        style = VARIANTS[line.variant % 3] if plan.ordered else look.dashes
        measured = [(x, spot.mean("epsilon"), spot) for x, spot in line.marks]
        points = [(x, scaled.place(y), spot) for x, y, spot in measured if y is not None]
        if apart:
            bounds = [(x, b) for x, spot in line.marks if (b := losses.certified(spot)) is not None]
            ax.plot(
                [x for x, _ in bounds],
                scaled.places(y for _, y in bounds),
                color=look.color,
                marker=look.marker,
                ls="-",
                label=None,
                zorder=3,
            )
            style = DOTTED
        ax.plot(
            [x for x, _, _ in points],
            [y for _, y, _ in points],
            color=look.color,
            ls=style,
            lw=0.9,
            zorder=3,
        )
        for x, y, spot in points:
            face = "white" if apart else _face(spot.verdict, look.color)
            ax.plot(
                [x], [y], color=look.color, marker=look.marker, markerfacecolor=face, zorder=3.5
            )
        _spread(ax, line, look, scaled)
    dress(ax, "y", scaled)


def _face(verdict: str | None, color: str) -> str:
    """Full if violated, grey if inconclusive, else empty."""
    return {"violated": color, "inconclusive": FAINT}.get(verdict or "", "white")


def _spread(ax: Axes, line: Line, look: Look, scaled: Scale) -> None:
    """From the least to the largest of the replicates."""
    for x, spot in line.marks:
        values = [scaled.place(value) for value in spot.estimates("epsilon")]
        if len(values) > 1:
            ax.plot([x, x], [min(values), max(values)], color=look.color, lw=0.8, zorder=2.9)


def _band(ax: Axes, panel: Panel, scaled: Scale) -> None:
    """Up to what the line that shows most certifies."""
    best: dict[float, float] = {}
    for line in panel.lines:
        for x, spot in line.marks:
            bound = losses.certified(spot)
            if bound is not None:
                best[x] = max(best.get(x, 0.0), bound)
    if best:
        xs = sorted(best)
        bottom = scaled.limits[0]
        tops = [scaled.place(best[x]) for x in xs]
        ax.fill_between(xs, bottom, tops, color=FAINT, lw=0, alpha=0.55, zorder=1)
        ax.plot(xs, tops, color=QUIET, lw=0.6, zorder=1.1)


def _reference(ax: Axes, panel: Panel, plan: Plan, name: str, style: Any, scaled: Scale) -> None:
    """Draw the claimed or true loss, once for lines that share it."""
    known = [(line, _known(line, name)) for line in panel.lines]
    told = {tuple(found) for _, found in known if found}
    drawn = set()
    for line, found in known:
        claims = [(x, spot.claim) for x, spot in line.marks]
        if not found or (name == TRUTH and found == claims) or tuple(found) in drawn:
            continue
        drawn.add(tuple(found))
        color, width = (INK, 1.6) if name == CLAIMED else (QUIET, 1.2)
        if len(told) > 1:  # each line has its own
            color = _look(line, plan).color
        ys = [scaled.place(value) for _, value in found]
        one = "_" if len(found) == 1 else None  # a line of one point would not be seen
        drawing = Line2D([x for x, _ in found], ys, color=color, lw=width, ls=style, marker=one)
        drawing.set(markersize=9, zorder=2)
        ax.add_line(drawing)


def _known(line: Line, name: str) -> list[tuple[float, float]]:
    """Return the claimed or true losses along a line."""
    pick = losses.claimed if name == CLAIMED else losses.exact
    return [(x, value) for x, spot in line.marks if (value := pick(spot)) is not None]


def _along(axes: Sequence[Axes], panels: Sequence[Panel], plan: Plan) -> None:
    """The horizontal axis, the same in all panels."""
    values = sorted({x for panel in panels for line in panel.lines for x, _ in line.marks})
    log = values[0] > 0 and values[-1] / values[0] >= WIDE
    for ax in axes:
        if log:
            ax.set_xscale("log")
        margin = (values[-1] / values[0]) ** 0.05 if log else 0.05 * (values[-1] - values[0])
        ends = (values[0], values[-1])
        ax.set_xlim(
            ends[0] / margin if log else ends[0] - margin,
            ends[1] * margin if log else ends[1] + margin,
        )
        if len(values) <= 8:
            log_ticks(ax.xaxis, values)


def _name(key: str) -> str:
    if key == "mechanism.epsilon":
        return "claimed ε"
    return {"audit.delta": "δ"}.get(key, (key.partition(".")[2] or key).replace("_", " "))


def _legend(plan: Plan, panels: Sequence[Panel]) -> list[Line2D | Patch]:
    lines = [line for panel in panels for line in panel.lines]
    spots = [spot for line in lines for _, spot in line.marks]
    bounded = {
        line.place for line in lines for _, s in line.marks if losses.certified(s) is not None
    }
    apart = plan.line_key in ("estimator", None)
    handles: list[Line2D | Patch] = []
    for place, label in enumerate(plan.labels if plan.line_key else ()):
        look = ordered(place, len(plan.labels)) if plan.ordered else named(place)
        text = f"{_name(plan.line_key or '')} {label}" if plan.ordered else label
        handles.append(
            Line2D(
                [],
                [],
                color=look.color,
                marker=look.marker,
                markerfacecolor=look.color if apart and place in bounded else "white",
                ls="-" if plan.ordered or apart else look.dashes,
                label=shorten(text, 40),
            )
        )
    if any(losses.claimed(spot) is not None for spot in spots):
        handles.append(Line2D([], [], color=INK, lw=1.6, label=CLAIMED))
    if any(losses.exact(spot) not in (None, losses.claimed(spot)) for spot in spots):
        handles.append(Line2D([], [], color=QUIET, lw=1.2, ls=DOTTED, label=TRUTH))
    if bounded:
        handles.append(
            Line2D([], [], color=QUIET, marker="o", label=f"{CERTIFIED}: at least this")
            if apart
            else Patch(color=FAINT, alpha=0.55, label=f"{CERTIFIED}, by the line that shows most")
        )
    if apart:
        handles.append(_sign("white", ESTIMATE, DOTTED))
    else:
        for verdict in dict.fromkeys(spot.verdict for spot in spots):
            face = _face(verdict, QUIET)
            handles.append(_sign(face, f"estimate; {WORDS.get(verdict, 'failed')}", "none"))
    return handles


def _sign(face: str, label: str, dashes: Any) -> Line2D:
    return Line2D([], [], color=QUIET, marker="o", markerfacecolor=face, ls=dashes, label=label)


def _own_claims(plan: Plan) -> list[str]:
    """Say that claims have the colours of the lines if they differ."""
    for panel in plan.panels[:MOST_PANELS]:
        if len({tuple(found) for line in panel.lines if (found := _known(line, CLAIMED))}) > 1:
            return ["Thick, without signs: what is claimed for the line of the same shade."]
    return []


def _caption(record: Record, plan: Plan) -> list[str]:
    more = len(plan.panels) - MOST_PANELS
    return [
        f"Loss of {shorten(record.audit.name, 60)} against {_name(plan.key)}; between the swept "
        "values lines and areas only guide the eye.",
        notes.promise(record),
        *_own_claims(plan),
        *notes.repeats(record),
        *notes.more(more, "panel"),
        *notes.more(plan.dropped, "line"),
        *notes.left_out(record),
        notes.NO_PROOF,
    ]
