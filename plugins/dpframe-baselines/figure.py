"""Draw the bounds of dpframe and of the literature against trials, and the draws to a verdict.

    python plugins/dpframe-baselines/figure.py       writes docs/images/against-the-field.svg

It takes five minutes of processor time; --points 3 --repeats 2 --to FILE draws a coarse one. Every
estimator of specs/against-the-field.toml reads the same scores, of Laplace and of Gaussian noise
that lose more than they claim. Trials are all draws on a dataset; a tenth of them are the pilot of
the estimators that need one. Bounds are medians over repeats. The draws to the verdict are the
smallest number at which half of the repeats refute the claim at 5 %. `betting` stops when it does;
the others must fix the number in advance. The tables are printed in Markdown.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import (
    ApproxDP,
    Claim,
    Estimator,
    Floats,
    GaussianDP,
    PureDP,
    Query,
    find_plugin,
)

HERE = Path(__file__).resolve().parent
SPEC = HERE / "specs" / "against-the-field.toml"
TO = HERE.parents[1] / "docs" / "images" / "against-the-field.svg"
FEWEST = 100  # trials of the first point; each next one has twice as many
OURS = {
    "order-statistics": "#332288",
    "betting": "#117733",
    "threshold": "#44aa99",
    "histogram-split": "#88ccee",
    "histogram": "#999933",
}
PEERS = ("#cc6677", "#882255", "#aa4499", "#ddcc77", "#661100", "#6699cc", "#888888", "#000000")
PEERS += ("#e69f00", "#009e73", "#d55e00")


CONFIDENCE = 0.95


class Case(NamedTuple):
    """Noise around 0 on D and around 1 on D′, and a claim that it breaks."""

    title: str
    noise: Callable[[np.random.Generator, int], Floats]
    claim: Claim
    delta: float
    truth: float


CASES = (
    Case(
        "Laplace noise, true ε = 1, claimed ε = .8",
        lambda rng, n: rng.laplace(size=n),
        PureDP(0.8),
        0.0,
        1.0,
    ),
    Case(
        "Gaussian noise, true ε = 4.38, claimed ε = 2, δ = 1e-5",
        lambda rng, n: rng.normal(size=n),
        ApproxDP(2.0, 1e-5),
        1e-5,
        GaussianDP(1.0).epsilon_at(1e-5),
    ),
)


def estimators() -> dict[str, Estimator]:
    """Return the estimators of the spec that certify, by name."""
    entries = tomllib.loads(SPEC.read_text(encoding="utf-8"))["estimator"]
    classes = {one["use"]: find_plugin("estimator", one["use"]) for one in entries}
    made = {one["use"]: classes[one["use"]](**one.get("params", {})) for one in entries}
    return {name: one for name, one in made.items() if one.certifies}


def measured(case: Case, points: int, repeats: int) -> dict[str, Any]:
    """Return the median bound by trials, and the draws to the verdict; None if more are needed."""
    known = estimators()
    bounds: dict[str, dict[int, float]] = {name: {} for name in known}
    draws: dict[str, int | None] = dict.fromkeys(known)
    for trials in (FEWEST << point for point in range(points)):
        query = Query((trials, trials), case.delta, CONFIDENCE, case.claim)
        found: dict[str, list[Any]] = {name: [] for name in known}
        for repeat in range(repeats):
            rng = np.random.default_rng([trials, repeat])
            scores = tuple((case.noise(rng, trials) + side).astype(np.float32) for side in (0, 1))
            for name, estimator in known.items():
                own = np.random.default_rng(repeat)
                found[name].append(estimator.estimate_scores(scores, query, own))
        for name, own in found.items():
            bounds[name][trials] = statistics.median(one.epsilon_lower for one in own)
            refuted = sum(one.p_value <= 1 - CONFIDENCE for one in own)
            if draws[name] is None and 2 * refuted >= repeats:
                draws[name] = trials
    ends = sorted(_stopped(one.wealth) for one in found["betting"])
    middle = ends[len(ends) // 2]
    draws["betting"] = int(middle) if math.isfinite(middle) else None
    return {"bounds": bounds, "draws": draws, "truth": case.truth}


def _stopped(wealth: tuple[tuple[int, float], ...]) -> float:
    """Return the draws at which the wealth first refutes the claim, inf if it never does."""
    enough = math.log(1 / (1 - CONFIDENCE))
    return next((draws for draws, log in wealth if log >= enough), math.inf)


def table(found: dict[str, Any]) -> str:
    """Return a table in Markdown: the bound at up to four numbers of trials, and the draws."""
    trials = list(next(iter(found["bounds"].values())))
    shown = trials[::-1][:: max(1, len(trials) // 4)][3::-1]
    lines = [["estimator", *(f"n = {n:,}" for n in shown), "draws to the verdict"]]
    lines.append(["---"] * len(lines[0]))
    for name in sorted(found["bounds"], key=lambda name: -found["bounds"][name][trials[-1]]):
        own, draws = found["bounds"][name], found["draws"][name]
        bounds = [f"{own[n]:.3f}" for n in shown]
        label = f"**{name}**" if name in OURS else name
        lines.append([label, *bounds, f"{draws:,}" if draws else "–"])
    return "\n".join(f"| {' | '.join(line)} |".replace(",", " ") for line in lines)


def draw(found: dict[str, dict[str, Any]], to: Path) -> None:
    """Write the figure: a row for each mechanism, bounds on the left and draws on the right."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dpframe", "font.size": 8}
    mpl.rcParams["font.sans-serif"] = ["DejaVu Sans"]
    figure = Figure(figsize=(8.2, 3.6 * len(found)), layout="constrained")
    names = list(next(iter(found.values()))["bounds"])
    peers = dict(zip([name for name in names if name not in OURS], PEERS, strict=False))
    for row, (title, own) in zip(figure.subplots(len(found), 2), found.items(), strict=True):
        for name in names:
            points = own["bounds"][name]
            style = {"color": OURS[name], "lw": 1.8} if name in OURS else {"color": peers[name]}
            dashes = "-" if name in OURS else "--"
            row[0].plot(list(points), list(points.values()), dashes, label=name, **style)
        row[0].axhline(own["truth"], color="black", lw=0.8, ls=":")
        row[0].set(xscale="log", ylim=(0, None), title=title)
        row[0].set(xlabel="trials on each dataset", ylabel="median bound on ε, one-sided, 95 %")
        most = 1.1 * max(next(iter(own["bounds"].values())))
        order = sorted(names, key=lambda name: -(own["draws"][name] or 2 * most))
        for place, name in enumerate(order):
            draws, colour = own["draws"][name], OURS.get(name, peers.get(name))
            marker = ">" if draws is None else "o" if name in OURS else "x"
            row[1].plot(draws or 2 * most, place, marker, color=colour)
        row[1].axvline(1.4 * most, color="black", lw=0.8, ls=":")
        row[1].set(xscale="log", xlabel="draws on each dataset to the verdict")
        row[1].set_title("● dpframe   × literature   ▶ more draws")
        row[1].set_yticks(range(len(order)), order)
        row[1].grid(axis="y", lw=0.3)
        for axes in row:
            axes.minorticks_off()
    handles = row[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(to, metadata={"Date": None, "Creator": None})
    text = to.read_text(encoding="utf-8")  # hundredths of a point are enough
    to.write_text(re.sub(r"\d+\.\d{3,}", _shorter, text), encoding="utf-8")


def _shorter(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=11, help="numbers of trials, from 100 on")
    parser.add_argument("--repeats", type=int, default=15, help="audits at each")
    parser.add_argument("--to", type=Path, default=TO, help="SVG file of the figure")
    asked = parser.parse_args()
    found = {}
    for case in CASES:
        found[case.title] = measured(case, asked.points, asked.repeats)
        print(f"\n{case.title}\n\n{table(found[case.title])}", flush=True)
    draw(found, asked.to)


if __name__ == "__main__":
    main()
