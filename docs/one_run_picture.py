"""Draw docs/images/one-run-canaries.svg: the bound of one run against the number of canaries.

    python docs/one_run_picture.py
    python docs/one_run_picture.py means    # means of `one-run` over 100 simulated runs instead

For the picture nothing is sampled. A Gaussian mechanism with ε at δ = 1e-5 is attacked by the
likelihood ratio; of the r canaries with the clearest scores, the expected number is guessed
rightly, rounded down. The number r is the best in a grid, and is taken as fixed beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy import optimize, special

from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.guesses import guess_epsilon, guess_p_value

TO = Path(__file__).parent / "images" / "one-run-canaries.svg"
DELTA, ERROR = 1e-5, 0.05
CLAIMS = {1.0: "#88ccee", 2.0: "#44aa99", 4.0: "#117733", 8.0: "#332288"}
NUMBERS = np.unique(np.round(np.geomspace(10, 10_000, 31)).astype(int))
SHARES = np.geomspace(1e-3, 1, 25)


def right_guesses(mu: float, shares: np.ndarray) -> np.ndarray:
    """Return the probability that a guess is right, for the clearest shares of canaries.

    In units of the noise a canary's score is x with N(0, 1) if it is out and N(μ, 1) if it is in;
    it is clear if |x − μ/2| exceeds a threshold.
    """

    def clear(t: float) -> tuple[float, float]:
        right, wrong = special.ndtr(mu / 2 - t), special.ndtr(-mu / 2 - t)
        return right, wrong

    found = []
    for share in shares:
        t = 0.0
        if share < 1:
            t = optimize.brentq(lambda t, share=share: sum(clear(t)) - share, 0.0, mu / 2 + 40)
        right, wrong = clear(t)
        found.append(right / (right + wrong))
    return np.array(found)


def bound(canaries: int, rights: np.ndarray) -> float:
    """Return the largest bound over the numbers of guesses."""
    numbers = np.maximum(1, np.round(SHARES * canaries)).astype(int)
    largest = 0.0
    for guesses, right in dict(zip(numbers.tolist(), rights.tolist(), strict=True)).items():
        counts = canaries, guesses, int(guesses * right)
        if guess_p_value(*counts, largest, DELTA) <= ERROR:
            largest = guess_epsilon(*counts, DELTA, ERROR)
    return largest


def means(runs: int = 100, canaries: int = 1_000) -> None:
    """Print ε, a side, and the mean and quantiles of the bound of `one-run` at δ."""
    from dpframe import score_one_run

    for epsilon in (4.38, 8.0, 10.0):
        mu = optimize.brentq(lambda mu, e=epsilon: gaussian_epsilon(DELTA, mu) - e, 1e-3, 20.0)
        for side in ("any", "both"):
            rng, bounds = np.random.default_rng(0), []
            for _ in range(runs):
                members = rng.random(canaries) < 0.5
                answer = score_one_run(
                    mu * members + rng.normal(size=canaries),
                    members,
                    delta=DELTA,
                    parameters={"side": side},
                    lower_is_member=False,
                )
                bounds.append(answer["rows"][0]["bounds"][0]["epsilon_lower"])
            low, high = np.quantile(bounds, [0.05, 0.95])
            over = np.mean(np.array(bounds) > epsilon)
            sys.stdout.write(
                f"| {epsilon:g} | {side} | {np.mean(bounds):.2f} | {low:.2f} to {high:.2f} | "
                f"{over:.0%} above |\n"
            )


def main() -> None:
    """Draw the picture."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dpframe.report.figures.drawing import with_dark_mode

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dpframe", "font.size": 9}
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    ceiling = [bound(m, np.ones(len(SHARES))) for m in NUMBERS]
    axes.plot(NUMBERS, ceiling, color="black", ls="--", label="every guess right")
    for epsilon, colour in reversed(CLAIMS.items()):
        mu = optimize.brentq(lambda mu, e=epsilon: gaussian_epsilon(DELTA, mu) - e, 1e-3, 20.0)
        rights = right_guesses(mu, SHARES)
        axes.plot(
            NUMBERS, [bound(m, rights) for m in NUMBERS], color=colour, label=f"ε = {epsilon:g}"
        )
        axes.axhline(epsilon, color=colour, lw=0.8, ls=":")
    axes.set(xscale="log", xlabel="canaries", ylabel="bound on ε at δ = 1e-5, 95 %", ylim=(0, 8.4))
    axes.set_xlim(10, 10_000)
    axes.legend(title="true loss (dotted)", loc="upper left", frameon=False)
    figure.savefig(TO, metadata={"Date": None, "Creator": None})
    TO.write_text(with_dark_mode(TO.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    {("means",): means}.get(tuple(sys.argv[1:]), main)()
