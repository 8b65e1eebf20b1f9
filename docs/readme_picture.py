"""Draw the picture of the README: certified ε ÷ claimed ε of every audit of the DPText paper.

    dpframe run specs/dptext.toml
    python docs/readme_picture.py runs/dptext docs/images/dptext.svg

Text stays text and colours follow the reader's light or dark mode, so the file is small.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

from dpframe.results import store
from dpframe.results.model import CellRecord

CELL, GAP, LEFT, TOP, ACROSS = 26, 2, 44, 72, 3
STEPS = (1.0, 2.0, 10.0)  # upper ends of the shades; above the last one is the darkest
NAMES = ("no violation found", "✗ up to 2 ×", "✗ up to 10 ×", "✗ more")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.t { font-weight: 600 } .n { font-size: 11px; fill: #57606a } .m { text-anchor: middle }
.c0 { fill: #d5e3ee } .c1 { fill: #f2b48c } .c2 { fill: #d9703a } .c3 { fill: #9a3412 }
.x { font-size: 11px; text-anchor: middle; fill: #fff } .c1 + .x { fill: #24292f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .n { fill: #9198a1 }
.c0 { fill: #22384b } .c1 { fill: #8a4b25 } .c2 { fill: #c65d21 } .c3 { fill: #ffa657 }
.c1 + .x, .c2 + .x { fill: #fff } .c3 + .x { fill: #24292f }
}
"""


def shade(cell: CellRecord) -> int:
    """Return the index of a cell's shade: 0 if its claim was not refuted."""
    if cell.verdict != "violated":
        return 0
    assert cell.estimate is not None
    assert cell.estimate.epsilon_lower is not None
    assert cell.claim is not None
    ratio = cell.estimate.epsilon_lower / float(cell.claim["epsilon"])
    return min(sum(ratio > step for step in STEPS), len(STEPS)) or 1


def text(x: float, y: float, said: str, kind: str = "") -> str:
    """Return one line of text at a point."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(said)}</text>'


def picture(record: Path) -> str:
    """Return the SVG of a record whose cells sweep ε and the dimension."""
    cells = store.load(record).cells
    panels = list(dict.fromkeys(cell.mechanism.label for cell in cells))
    columns = sorted({cell.swept["mechanism.epsilon"] for cell in cells})
    rows = sorted({cell.swept["pair.dim"] for cell in cells})
    wide, high = LEFT + CELL * len(columns) + 14, CELL * len(rows) + 54
    width, height = wide * ACROSS + 6, TOP + high * -(-len(panels) // ACROSS) + 26
    trials = next(max(cell.trials) for cell in cells if cell.trials)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Six mechanisms audited: certified ε against claimed ε</title>",
        f"<style>{STYLE}</style>",
        text(8, 20, f"{len(cells)} audits, {trials:,} releases on each of D and D′", "t"),
        text(8, 38, "✗ claim refuted; shades: certified ε ÷ claimed ε", "n"),
    ]
    for number, name in enumerate(panels):
        x0, y0 = number % ACROSS * wide + LEFT, number // ACROSS * high + TOP
        drawn.append(text(x0, y0 - 6, name, "t"))
        for row, dim in enumerate(rows):
            y = y0 + row * CELL
            drawn.append(text(x0 - 28, y + 17, f"{dim:g}", "n"))
            for column, epsilon in enumerate(columns):
                (cell,) = (
                    cell
                    for cell in cells
                    if cell.mechanism.label == name
                    and cell.swept == {"mechanism.epsilon": epsilon, "pair.dim": dim}
                )
                x, kind, side = x0 + column * CELL, shade(cell), CELL - GAP
                drawn.append(
                    f'<rect x="{x}" y="{y}" width="{side}" height="{side}" rx="3" class="c{kind}"/>'
                )
                if kind:
                    drawn.append(text(x + side / 2, y + 16, "✗", "x"))
        for column, epsilon in enumerate(columns):
            x = x0 + column * CELL + (CELL - GAP) / 2
            drawn.append(text(x, y0 + len(rows) * CELL + 12, f"{epsilon:g}", "n m"))
        below = y0 + len(rows) * CELL + 28
        drawn.append(text(x0, below, "claimed ε across, dimension down", "n"))
    for number, name in enumerate(NAMES):
        x = 8 + number * 150
        drawn.append(
            f'<rect x="{x}" y="{height - 22}" width="14" height="14" rx="3" class="c{number}"/>'
        )
        drawn.append(text(x + 20, height - 10, name, "n"))
    return "\n".join([*drawn, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(Path(sys.argv[1])), encoding="utf-8")
