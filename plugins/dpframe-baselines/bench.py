"""Audit 44 mechanisms with dpframe's estimators and those of the literature, on the same draws.

    python plugins/dpframe-baselines/bench.py                    resumes, prints and draws
    python plugins/dpframe-baselines/bench.py --method NAME      adds an installed estimator
    python plugins/dpframe-baselines/bench.py --fresh betting    measures a method again
    python plugins/dpframe-baselines/bench.py --fresh            measures everything again

It takes five minutes of processor time. The mechanisms, their claims, exact losses and optima are
in specs/bench-mechanisms.csv, and results in specs/bench-results.csv. The draws to a verdict are
the smallest number at which half of the repeats refute a wrong claim at 5 %. Anytime estimators
stop when they do; the others get 25, 50, 100, … draws. A right claim that is refuted is a false
alarm.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import statistics
import time
import tomllib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_mechanisms import Case, all_cases

from dpframe.plugins import DpframeError, Estimate, Estimator, Floats, Query, find_plugin

HERE = Path(__file__).resolve().parent
FIELD = HERE / "specs" / "against-the-field.toml"
MECHANISMS = HERE / "specs" / "bench-mechanisms.csv"
RESULTS = HERE / "specs" / "bench-results.csv"
FIGURE = HERE.parents[1] / "docs" / "images" / "rivals.svg"
FEWEST, DOUBLINGS, REPEATS, CONFIDENCE = 25, 10, 5, 0.95
FIRST_ROUND, LEAST_ROUND, GROWTH = 8, 4, 8  # draws; a later round is 1/GROWTH of all before it
FOR_BINS = 24  # draws of the first round of the other methods, from which they choose bins
OURS = ("order-statistics", "betting", "threshold", "histogram-split", "histogram")
FIELDS = ("mechanism", "method", "draws", "alarms", "bound", "seconds")
Row = dict[str, str]


def methods(names: Sequence[str]) -> dict[str, Estimator]:
    """Return the certifying estimators of the spec, and others by name."""
    entries = tomllib.loads(FIELD.read_text(encoding="utf-8"))["estimator"]
    entries += [{"use": name} for name in names]
    found = {e["use"]: find_plugin("estimator", e["use"])(**e.get("params", {})) for e in entries}
    return {name: one for name, one in found.items() if one.certifies}


def measured(case: Case, method: Estimator, repeats: int, doublings: int) -> Row:
    """Audit one mechanism by one method."""
    stops, bounds, alarms = [], [], 0
    began = time.process_time()
    for repeat in range(repeats):
        rng = np.random.default_rng([zlib.crc32(case.name.encode()), repeat])
        scores = [case.draw(rng, side, FEWEST << doublings).astype(np.float32) for side in (0, 1)]
        audit = at_any_time if method.anytime else at_sizes
        found, stop = audit(case, method, scores, doublings)
        bounds.append(found.epsilon_lower or 0.0)
        stops.append(stop)
        alarms += case.right and math.isfinite(stop)
    seconds = time.process_time() - began
    draws = statistics.median(stops)
    return {
        "draws": "" if case.right or draws == math.inf else f"{draws:.0f}",
        "alarms": str(alarms) if case.right else "",
        "bound": f"{statistics.median(bounds):.4g}",
        "seconds": f"{seconds:.2g}",
    }


def at_sizes(
    case: Case, method: Estimator, scores: list[Floats], doublings: int
) -> tuple[Estimate, float]:
    """Return the estimate from all draws, and the smallest size that refutes; inf if none does."""
    stop = math.inf
    for size in (FEWEST << k for k in range(doublings if case.right else 0, doublings + 1)):
        if size > stop and size < len(scores[0]):
            continue
        some = (scores[0][:size], scores[1][:size])
        query = Query((size, size), case.delta, CONFIDENCE, case.claim)
        found = method.estimate_scores(some, query, np.random.default_rng(size))
        if found.p_value is not None and found.p_value <= 1 - CONFIDENCE:
            stop = min(stop, size)
    return found, stop


def at_any_time(
    case: Case, method: Estimator, scores: list[Floats], doublings: int
) -> tuple[Estimate, float]:
    """Return the same from rounds of draws; looking after each of them costs nothing."""
    statistic, state, total, stop = method.statistic(), None, 0, math.inf
    first = FIRST_ROUND if method.name == "betting" else FOR_BINS
    layout = statistic.bind(*(side[:first] for side in scores))
    while total < len(scores[0]):
        size = max(LEAST_ROUND, total // GROWTH) if total else first
        size = min(size, len(scores[0]) - total)
        counts = np.asarray(statistic.zero(layout), np.int64)
        for side, own in enumerate(scores):
            new = own[total : total + size]
            counts = statistic.update(layout, counts, side, new, np.ones(size, np.bool_))
        query = Query((size, size), case.delta, CONFIDENCE, case.claim)
        state = method.observe(state, layout, counts, query)
        total += size
        query = query._replace(trials=(total, total))
        if stop == math.inf and method.settled(state, layout, query) == "violated":
            stop = total
    return method.conclude(state, layout, query), stop


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV file; none if there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Row]) -> None:
    """Write rows with the columns of the first."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def frozen(cases: dict[str, Case]) -> list[Row]:
    """Return the table of the mechanisms."""
    return [
        {
            "mechanism": case.name,
            "claim": f"{case.claim.epsilon_at(case.delta):.10g}",
            "delta": f"{case.delta:g}",
            "loss": f"{case.truth:.10g}",
            "right": str(case.right).lower(),
            "optimum": "" if case.right else f"{case.optimum(CONFIDENCE):.2f}",
        }
        for case in cases.values()
    ]


def run(
    to: Path, names: Sequence[str], repeats: int, doublings: int, only: Sequence[str]
) -> list[Row]:
    """Measure what a file of results lacks, and write it after each mechanism."""
    cases, known = all_cases(), methods(names)
    done = {(row["mechanism"], row["method"]): row for row in read(to)}
    for name in only or cases:
        for method, estimator in known.items():
            if (name, method) not in done:
                own = measured(cases[name], estimator, repeats, doublings)
                done[name, method] = {"mechanism": name, "method": method, **own}
        order = [(case, method) for case in cases for method in (*known, *_others(done, known))]
        write(to, [done[key] for key in order if key in done])
    return list(done.values())


def _others(done: dict[tuple[str, str], Row], known: dict[str, Estimator]) -> list[str]:
    return sorted({method for _, method in done} - set(known))


def summary(rows: list[Row], cases: dict[str, Case]) -> list[dict[str, Any]]:
    """Return the figures of each method, the one that refutes most in the fewest draws first.

    Claims for which the best bet of all needs more draws than any method gets have no `excess`.
    """
    lines = []
    optima = {case.name: case.optimum(CONFIDENCE) for case in cases.values() if not case.right}
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        wrong = [row for row in own if not cases[row["mechanism"]].right]
        draws = sorted(float(row["draws"] or "inf") for row in wrong)
        excess = [
            float(row["draws"] or "inf") / optima[row["mechanism"]]
            for row in wrong
            if optima[row["mechanism"]] <= FEWEST << DOUBLINGS
        ]
        truths = [(float(row["bound"]), cases[row["mechanism"]].truth) for row in own]
        ratios = [bound / truth for bound, truth in truths if 0 < truth < math.inf]
        lines.append(
            {
                "method": method,
                "draws": draws,
                "refuted": sum(map(math.isfinite, draws)),
                "median": statistics.median(draws) if draws else math.inf,
                "excess": excess or [math.inf],
                "alarms": sum(int(row["alarms"] or 0) for row in own),
                "right": len(own) - len(wrong),
                "ratios": ratios,
                "seconds": sum(float(row["seconds"]) for row in own),
            }
        )
    return sorted(lines, key=lambda one: (-one["refuted"], one["median"], -sum(one["ratios"])))


def table(lines: list[dict[str, Any]], repeats: int) -> str:
    """Return the figures in Markdown, dpframe's methods in bold."""
    head = ("method", "refuted", "draws", "÷ optimum", "worst", "false alarms", "bound ÷ loss", "s")
    text = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for one in lines:
        name = f"**{one['method']}**" if one["method"] in OURS else one["method"]
        middle = shown(one["median"], ",.0f")
        excess = (shown(pick(one["excess"]), ".1f") for pick in (statistics.median, max))
        share = f"{statistics.median(one['ratios']):.2f}" if one["ratios"] else "–"
        alarms = f"{one['alarms']} of {one['right'] * repeats}"
        refuted = f"{one['refuted']} of {len(one['draws'])}"
        cells = (name, refuted, middle, *excess, alarms, share, f"{one['seconds']:.0f}")
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def shown(value: float, form: str) -> str:
    """Return a number with thousands set apart; a dash for ∞."""
    return f"{value:{form}}" if value < math.inf else "–"


def draw(lines: list[dict[str, Any]], to: Path) -> None:
    """Write the figure: claims refuted by draws on the left, bound ÷ loss on the right."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dpframe.report.figures.drawing import with_dark_mode

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dpframe", "font.size": 8}
    mpl.rcParams["font.sans-serif"] = ["DejaVu Sans"]
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = mpl.colormaps["tab20"].colors
    most = FEWEST << DOUBLINGS
    for place, one in enumerate(lines):
        ours, colour = one["method"] in OURS, colours[place % len(colours)]
        finite = [draws for draws in one["draws"] if draws < math.inf]
        style = {"color": colour, "ls": "-" if ours else "--", "lw": 2.0 if ours else 1.1}
        left.step(
            [FIRST_ROUND, *finite, most],
            [*range(len(finite) + 1), len(finite)],
            where="post",
            **style,
        )
        low, middle, high = np.quantile(one["ratios"], [0.25, 0.5, 0.75])
        right.plot([low, high], [place, place], **style)
        right.plot(middle, place, "o" if ours else "x", color=colour)
    wrong = len(lines[0]["draws"])
    left.set(xscale="log", xlabel="draws on each dataset", ylim=(0, wrong))
    left.set(ylabel=f"wrong claims refuted, of {wrong}")
    right.set(xlabel="bound ÷ loss, median and quartiles", xlim=(0, 1), ylim=(len(lines), -1))
    right.set_yticks(range(len(lines)), [one["method"] for one in lines])
    right.set_title("● dpframe   × literature")
    right.grid(axis="x", lw=0.3)
    figure.savefig(to, metadata={"Date": None, "Creator": None})
    text = to.read_text(encoding="utf-8")  # hundredths of a point are enough
    shorter = re.sub(r"\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), text)
    to.write_text(with_dark_mode(shorter), encoding="utf-8")


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", action="append", default=[], help="another estimator, by name")
    parser.add_argument("--mechanism", action="append", default=[], help="only these mechanisms")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="audits of each mechanism")
    parser.add_argument(
        "--doublings", type=int, default=DOUBLINGS, help=f"of {FEWEST} draws, at most"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="SVG file of the figure")
    fresh = "discard earlier results, of these methods or of all"
    parser.add_argument("--fresh", nargs="*", metavar="METHOD", help=fresh)
    asked = parser.parse_args()
    known = {*all_cases()}
    if unknown := [name for name in asked.mechanism if name not in known]:
        parser.error(f"unknown mechanism {unknown[0]}; specs/bench-mechanisms.csv lists all")
    try:
        own = methods(asked.method)
    except DpframeError as error:
        parser.error(str(error))
    for name in asked.method:
        if name not in own:
            parser.error(f"{name} certifies no bound, so it cannot be compared")
    if asked.fresh is not None:
        rows = read(asked.results) if asked.fresh else []
        kept = [row for row in rows if row["method"] not in asked.fresh]
        write(asked.results, kept)
    rows = run(asked.results, asked.method, asked.repeats, asked.doublings, asked.mechanism)
    lines = summary(rows, all_cases())
    print(table(lines, asked.repeats))
    draw(lines, asked.figure)


if __name__ == "__main__":
    main()
