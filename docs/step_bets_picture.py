"""Draw docs/images/step-wealth.svg: wealth of bets on every step of simulated trainings.

    python docs/step_bets_picture.py
    python docs/step_bets_picture.py table    # how often and how early noise is refuted instead

A step releases 1 in the direction of a canary that is in its batch, else 0, plus noise. The stated
noise is σ = 1. The noise has a share of this, or is right, or is right and the same for all
canaries of a step.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpframe.stats.step_bets import ERROR, StepBets

TO = Path(__file__).parent / "images" / "step-wealth.svg"
CANARIES, RATE, STEPS, FEWER = 1_000, 0.05, 1_000, 300


class Noise(NamedTuple):
    """Noise of simulated trainings, and the look of their lines."""

    name: str
    share: float  # of the stated σ
    shared: bool  # one draw for all canaries of a step
    trainings: int  # in the table
    colour: str
    dashes: str


NOISES = (
    Noise("0.9 σ", 0.9, False, 20, "#882255", "-"),
    Noise("0.95 σ", 0.95, False, 20, "#cc6677", "--"),
    Noise("as stated", 1.0, False, 40, "#117733", "-"),
    Noise("as stated, the same for all canaries", 1.0, True, 40, "#44aa99", "--"),
)


def train(noise: Noise, seed: int, steps: int = STEPS) -> StepBets:
    """Return the bets on the steps of a simulated training."""
    rng, bets = np.random.default_rng([seed, round(100 * noise.share), noise.shared]), StepBets()
    for _ in range(steps):
        included = rng.random(CANARIES) < RATE
        drawn = rng.normal(size=1 if noise.shared else CANARIES)
        bets.update(included + noise.share * drawn, included, 1.0, RATE)
    return bets


def row(noise: Noise, trainings: int, steps: int = STEPS) -> str:
    """Return a line of the table: trainings refuted within 300 steps and within all, median step.

    Args:
        noise: of the trainings.
        trainings: how many, with seeds from 0.
        steps: of each.
    """
    after = [train(noise, seed, steps).refuted_after(ERROR) for seed in range(trainings)]
    refuted = sorted(step for step in after if step is not None)
    few = sum(step <= FEWER for step in refuted)
    middle = f"{np.median(refuted):g}" if len(refuted) > trainings / 2 else "–"
    return f"| {noise.name} | {few} of {trainings} | {len(refuted)} of {trainings} | {middle} |"


def main() -> None:
    """Draw the picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dpframe.report.figures.drawing import with_dark_mode

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dpframe", "font.size": 9}
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for noise in NOISES:
        look = {"color": noise.colour, "ls": noise.dashes, "lw": 1.1}
        for seed in range(3):
            wealth = train(noise, seed).wealth
            steps = np.arange(1, STEPS + 1)
            axes.plot(steps[9::20], wealth[9::20], label=noise.name if seed == 0 else None, **look)
    axes.axhline(-np.log(ERROR), color="black", lw=0.9, ls=":", label="refuted at 95 %")
    axes.set(xlabel="steps", ylabel="ln wealth", xlim=(0, STEPS), ylim=(-12, 25))
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(TO, metadata={"Date": None, "Creator": None})
    TO.write_text(with_dark_mode(TO.read_text(encoding="utf-8")), encoding="utf-8")


def table() -> None:
    """Print how many simulated trainings are refuted, and after how many steps."""
    for noise in NOISES:
        sys.stdout.write(f"{row(noise, noise.trainings)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    table() if sys.argv[1:] == ["table"] else main()
