"""Audit right mechanisms with `assert_dp`, and count those that it accuses.

Each claim is exact: a smaller ε would be refuted. Run `python tests/benchmarks/right_mechanisms.py
--seeds 89` for 1,780 audits; an audit of a true claim fails with a probability of at most .001.
"""

import argparse
import math
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from dpframe import ApproxDP, GaussianDP, PureDP, assert_dp
from dpframe.errors import UndecidedError, ViolationError

Rng = np.random.Generator
MODULE_GENERATOR = np.random.default_rng()
LOW, HIGH = [0.2, 0.0], [0.2, 1.0]


def laplace(rng: Rng, values: Any) -> float:
    return float(np.sum(values) + rng.laplace())


def laplace_without_a_seed(values: Any) -> float:
    return float(np.sum(values) + MODULE_GENERATOR.laplace())


def gaussian(rng: Rng, values: Any) -> float:
    return float(np.sum(values) + rng.normal())


def geometric(rng: Rng, values: Any) -> int:
    draws = rng.geometric(1 - math.exp(-1.0), 2)
    return int(np.count_nonzero(values) + draws[0] - draws[1])


def randomised_response(rng: Rng, values: Any) -> bool:
    return bool(values[1]) ^ bool(rng.random() < 1 / (1 + math.e))


def word(rng: Rng, values: Any) -> str:
    words = ("yes", "no", "perhaps")
    honest = rng.random() < math.e / (math.e + 2)
    return (
        words[int(values[1])]
        if honest
        else str(rng.choice(words[: int(values[1])] + words[int(values[1]) + 1 :]))
    )


def exponential_mechanism(rng: Rng, values: Any) -> int:
    weights = np.exp(np.array([0.0, values[1], 1 - values[1]]) / 2)
    return int(rng.choice(3, p=weights / weights.sum()))


def noisy_max(rng: Rng, values: Any) -> int:
    return int(np.argmax(np.array([0.5, values[1], 0.3]) + rng.laplace(scale=1.0, size=3)))


def histogram(rng: Rng, values: Any) -> list[float]:
    return [float(np.sum(np.equal(values, edge)) + rng.laplace(scale=2.0)) for edge in (0.0, 1.0)]


def row_of_a_table(rng: Rng, values: Any) -> dict[str, float]:
    return {"sum": laplace(rng, values) * 1.0, "label": 1.0}


def none_with_delta(rng: Rng, values: Any) -> float | None:
    return None if values[1] and rng.random() < 0.05 else laplace(rng, values)


def refusal(rng: Rng, values: Any) -> str:
    if randomised_response(rng, values):
        raise ValueError("budget exhausted")
    return "ok"


def list_of_random_length(rng: Rng, values: Any) -> list[int]:
    return [0] * max(0, geometric(rng, values))


def rounded(rng: Rng, values: Any) -> float:
    return round(laplace(rng, values) * 4) / 4


def clipped(rng: Rng, values: Any) -> float:
    return float(np.clip(laplace(rng, values), 0, 1))


def array(rng: Rng, values: Any) -> Any:
    return np.sum(values) + rng.laplace(scale=3.0, size=3)


def sparse_vector(rng: Rng, values: Any) -> list[bool]:
    threshold, answers = 0.5 + rng.laplace(scale=2.0), []
    for answer in (values[1], 0.0, values[1]):
        answers.append(bool(answer + rng.laplace(scale=4.0) >= threshold))
        if answers[-1]:
            break
    return answers


def text(rng: Rng, values: Any) -> str:
    return f"{laplace(rng, values):.2f} people"


def unary_encoding(rng: Rng, values: Any) -> bytes:
    bits = np.arange(2) == int(values[1])
    flips = rng.random(2) < 1 / (1 + math.exp(0.5))
    return (bits ^ flips).astype(np.uint8).tobytes()


def average_of_noise(rng: Rng, values: Any) -> float:
    return float(np.mean(values) + rng.laplace(scale=0.5))


CLAIMS: dict[Callable[..., Any], Any] = {
    **dict.fromkeys(
        (
            laplace, laplace_without_a_seed, geometric, randomised_response, word,
            exponential_mechanism, noisy_max, histogram, row_of_a_table, refusal,
            list_of_random_length, rounded, clipped, array, sparse_vector, text, unary_encoding,
            average_of_noise,
        ),
        PureDP(1.0),
    ),
    gaussian: GaussianDP(1.0),
    none_with_delta: ApproxDP(1.0, 0.05),
}  # fmt: skip


def outcome(release: Callable[..., Any], claim: Any, seed: int, trials: int, out: str) -> str:
    """Return "violated", "consistent" or "undecided"."""
    try:
        assert_dp(release, d0=LOW, d1=HIGH, claim=claim, seed=seed, trials=trials, out=out)
    except ViolationError as error:
        print(f"seed {seed}: {error}")
        return "violated"
    except UndecidedError as error:
        print(f"seed {seed}: {error}")
        return "undecided"
    return "consistent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=2000)
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as out:
        for release, claim in CLAIMS.items():
            counts = Counter(
                outcome(release, claim, seed, options.trials, out) for seed in range(options.seeds)
            )
            print(f"{release.__name__:24} {dict(counts)}", flush=True)
            total += counts
    print(f"{total.total():,} audits: {dict(total)}")


if __name__ == "__main__":
    main()
