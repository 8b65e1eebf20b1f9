"""Bets on the steps of a network whose noise is a share of what it states.

`python -m torch_support.steps --seeds 20 --shares 0.9 --steps 300`, in the folder of the tests,
prints in how many trainings of n the stated noise was refuted at 95 %, after how many steps in the
median, and how much other records add in the directions of canaries, in units of σ.
"""

import argparse
import itertools
import statistics
import warnings
from types import SimpleNamespace

import torch
from dpframe_torch import Canaries
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_support.mistakes import say, with_noise

SIDE, CLASSES = 12, 10
RATE = 0.05  # of a record to be in a batch
ERROR = 0.05


def digits(records, seed=0):
    """Draw blurred strokes, one shape for each of ten classes, with noise; shape [n, 1, 12, 12]."""
    draws = torch.Generator().manual_seed(seed)
    shapes = nn.functional.interpolate(
        torch.randn(CLASSES, 1, 4, 4, generator=torch.Generator().manual_seed(0)),
        size=(SIDE, SIDE),
        mode="bilinear",
    )
    labels = torch.randint(CLASSES, (records,), generator=draws)
    noise = torch.randn(records, 1, SIDE, SIDE, generator=draws)
    return TensorDataset(shapes[labels] + 0.7 * noise, labels)


def network(width=128):
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 5 * 5, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def trained(seed, share, steps, number=2_000, records=2_000, width=128, noise=1.0):
    """Train with a share of the stated noise until it is refuted, and return the bets.

    Args:
        seed: of data, coins and noise.
        share: of the noise multiplier that is added.
        steps: of the training, at most.
        number: of canaries; about half of them are in.
        records: of the training set besides canaries, at least `number`.
        width: of the hidden layer.
        noise: the stated noise multiplier.
    """
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    canaries = Canaries(digits(records, seed), number, "random-gradient", seed=seed, out=None)
    plain = network(width)
    batch = round(RATE * len(canaries.train_set))
    one = SimpleNamespace()
    one.model, one.optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
        module=plain,
        optimizer=torch.optim.SGD(plain.parameters(), lr=0.2),
        data_loader=DataLoader(canaries.train_set, batch_size=batch),
        noise_multiplier=noise,
        max_grad_norm=1.0,
    )
    with_noise(one, share)
    canaries.watch(one.model, one.optimizer)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for x, y in itertools.islice(batches, steps):
        one.optimizer.zero_grad()
        nn.functional.cross_entropy(one.model(x), y).backward()
        one.optimizer.step()
        if canaries.watched.gradients.bets.p_value <= ERROR:
            break
    return canaries.watched.gradients.step_bets()


def line(share, steps, bets):
    """Summarise trainings at a share of the stated noise."""
    after = sorted(one["refuted_at"] for one in bets if one["refuted_at"] is not None)
    median = f", median step {statistics.median(after):g}" if after else ""
    others = [one["others"] for one in bets]
    return (
        f"{share:g} σ, {steps:,} steps: refuted {len(after)} of {len(bets)}{median}; others "
        f"{min(others):.3f} to {max(others):.3f} σ"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--shares", type=float, nargs="*", default=[0.9, 0.95, 1.0])
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for share in options.shares:
        bets = []
        for seed in range(options.first, options.first + options.seeds):
            bets.append(trained(seed, share, options.steps))
            say(f"  {seed}: {bets[-1]['refuted_at']} {bets[-1]['others']:.3f}")
        say(line(share, options.steps, bets))


if __name__ == "__main__":
    main()
