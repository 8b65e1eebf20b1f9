"""Bounds from networks that memorise mislabelled canaries, beside those of jax-privacy.

    cd plugins/dpframe-torch
    PYTHONPATH=tests python -m torch_support.memorised [--epochs 10 25 60] [--seeds 3]

A perceptron without privacy is trained on noisy digits. 3,000 of its 6,000 records have a wrong
label, and a coin decides for each of them whether it is in the data. The score is the logarithm of
the odds of the wrong label against the right one. Smaller numbers of canaries are the first ones of
the same network. Both bounds hold however scores depend on each other, at δ = 1e-5 and 95 %; that
of jax-privacy is the larger one of its strategies.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits

import dpframe

RECORDS, CANARIES, WIDTH, BATCH = 6_000, 3_000, 512, 128
NUMBERS = (100, 300, 1_000, 3_000)
DELTA = 1e-5


def scored(seed: int, epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """Train a network; return scores and memberships of the canaries, shape [CANARIES]."""
    rng, order = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    digits, labels = load_digits(return_X_y=True)
    drawn = rng.integers(0, len(digits), RECORDS)
    inputs = digits[drawn] / 16 + 0.15 * rng.normal(size=(RECORDS, 64))
    right = labels[drawn[:CANARIES]]
    wrong = (right + rng.integers(1, 10, CANARIES)) % 10
    members = rng.random(CANARIES) < 0.5
    targets = torch.tensor(np.concatenate([wrong, labels[drawn[CANARIES:]]]))
    data = torch.tensor(inputs, dtype=torch.float32)
    kept = torch.tensor(np.r_[np.flatnonzero(members), CANARIES:RECORDS])
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, 10),
    )
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(epochs):
        for batch in kept[torch.randperm(len(kept), generator=order)].split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(data[batch]), targets[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        logits = network(data[:CANARIES]).numpy()
    each = np.arange(CANARIES)
    return logits[each, wrong] - logits[each, right], members


def bounds(scores: np.ndarray, members: np.ndarray) -> tuple[float, float]:
    """Return the bounds of dpframe and of jax-privacy."""
    from jax_privacy import auditing

    answer = dpframe.score_one_run(scores, members, delta=DELTA, lower_is_member=False)
    auditor = auditing.CanaryScoreAuditor(scores[members], scores[~members])
    strategies = (auditing.Bonferroni(), auditing.Split())
    theirs = [auditor.epsilon_one_run(0.05, DELTA, threshold_strategy=each) for each in strategies]
    return answer["rows"][0]["bounds"][0]["epsilon_lower"], max(map(float, theirs))


def main() -> None:
    """Print a line for each network and number of canaries, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 25, 60])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for epochs in asked.epochs:
        rows = []
        for seed in range(asked.seeds):
            scores, members = scored(seed, epochs)
            rows.append([bounds(scores[:m], members[:m]) for m in NUMBERS])
        for k, m in enumerate(NUMBERS):
            ours, theirs = np.mean(rows, axis=0)[k]
            each = ", ".join(f"{row[k][0]:.2f}/{row[k][1]:.2f}" for row in rows)
            sys.stdout.write(f"{epochs} epochs, m = {m:,}: {ours:.2f}, {theirs:.2f} ({each})\n")


if __name__ == "__main__":
    main()
