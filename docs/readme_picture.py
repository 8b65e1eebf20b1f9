"""Draw the map of a sweep as a small SVG, for the README.

    dpframe run specs/dptext.toml
    python docs/readme_picture.py runs/dptext docs/images/dptext.svg

It is the map of every report, with the same shades; text stays text, and the colours follow the
reader's light or dark mode.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

from dpframe.report import html
from dpframe.report.group import Map, groups, maps
from dpframe.report.number_format import quantity
from dpframe.report.verdict_text import SYMBOL
from dpframe.results import store

CELL, GAP, LEFT, TOP, ACROSS = 26, 1, 50, 40, 3
KEY = 30  # height of a row of the legend
SHADES = Path(html.__file__).parent / "templates" / "shades.css"
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.t { font-weight: 600 } .n { font-size: 11px; fill: #57606a } .m { text-anchor: middle }
.violated-1 + .m, .violated-2 + .m { fill: var(--on-violated) }
.violated-3 + .m { fill: var(--on-gravest) } rect + .m { fill: var(--on-consistent) }
.consistent-0 { fill: none } .e { text-anchor: end }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .n { fill: #9198a1 } }
"""


def text(x: float, y: float, content: str, kind: str) -> str:
    """Return one line of text at a point."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(content)}</text>'


def square(x: float, y: float, shade: str, sign: str) -> str:
    """Return a cell with its sign."""
    side = CELL - GAP
    drawn = f'<rect x="{x:g}" y="{y:g}" width="{side}" height="{side}" class="{shade}"/>'
    return drawn + text(x + side / 2, y + 17, sign, "m")


def panel(one: Map, x0: float, y0: float) -> list[str]:
    """Draw one map with its title and the values of both keys."""
    drawn = [text(x0, y0 - 22, one.title, "t")]
    drawn.append(text(x0 - 6, y0 - 6, f"{one.down} \\ {one.across}", "n e"))
    for column, head in enumerate(one.heads):
        drawn.append(text(x0 + column * CELL + (CELL - GAP) / 2, y0 - 6, head, "n m"))
    for row, (label, spots) in enumerate(one.rows):
        drawn.append(text(x0 - 6, y0 + row * CELL + 17, label, "n e"))
        for column, spot in enumerate(spots):
            if spot is not None:
                shade = html.shade_class(spot.verdict, spot.share)
                place = (x0 + column * CELL, y0 + row * CELL)
                drawn.append(square(*place, shade, SYMBOL[spot.verdict]))
    return drawn


def picture(record: Path) -> str:
    """Return the SVG of a record with a sweep over two keys."""
    cells = store.load(record).cells
    drawn = list(maps(groups(cells)))
    wide = LEFT + CELL * max(len(one.heads) for one in drawn) + 6
    high = CELL * max(len(one.rows) for one in drawn) + 50
    places = [(spot.verdict, spot.share) for one in drawn for spot in one.spots]
    used = {html.shade_class(*place) for place in places}
    legend = [row for row in html.LEGEND if row[0] in used]
    bottom = TOP + high * -(-len(drawn) // ACROSS)
    width, height = wide * ACROSS, bottom + KEY * -(-len(legend) // 2) + 6
    trials = quantity(max(max(cell.trials) for cell in cells))
    shades = "".join(f".{name} {{ fill: var(--{name}) }} " for name, *_ in html.LEGEND[:5])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Certified ÷ claimed ε of each mechanism</title>",
        f"<style>{SHADES.read_text(encoding='utf-8')}{shades}{STYLE}</style>",
        text(
            8,
            18,
            f"{len(cells)} audits, {trials} draws on each dataset: certified ÷ claimed ε",
            "t",
        ),
    ]
    for number, one in enumerate(drawn):
        parts += panel(one, number % ACROSS * wide + LEFT, number // ACROSS * high + TOP + 30)
    for number, (shade, sign, _, meaning) in enumerate(legend):
        x, y = 8 + number % 2 * width / 2, bottom + KEY * (number // 2)
        parts += [square(x, y, shade, sign), text(x + 34, y + 17, meaning, "n")]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(Path(sys.argv[1])), encoding="utf-8")
