"""Measure the time that auditing adds to 2,000 steps of Opacus on 10,000 records.

    PYTHONPATH=tests python -m torch_support.added_time none|mislabelled|random-gradient

Compare medians of several runs in turns: equal runs differ by up to a tenth. Not a test.
"""

import sys
import time

import torch
from dpframe_torch import Canaries
from opacus import PrivacyEngine
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

RECORDS, CANARIES, STEPS, BATCH = 10_000, 1_000, 2_000, 100


def main(kind: str) -> None:
    """Train, audit if a kind of canaries is given, and print the processor time."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(RECORDS, 784, generator=draws)
    data = TensorDataset(x, torch.randint(0, 10, (RECORDS,), generator=draws))
    started = time.process_time()
    canaries = None if kind == "none" else Canaries(data, CANARIES, kind, seed=1, out=None)
    loader = DataLoader(data if canaries is None else canaries.train_set, batch_size=BATCH)
    model = Sequential(Linear(784, 128), ReLU(), Linear(128, 64), ReLU(), Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    if canaries is not None:
        canaries.watch(model, optimizer)
    left = STEPS
    while left:
        for inputs, labels in loader:
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            left -= 1
            if not left:
                break
    if canaries is not None:
        canaries.audit(model, engine.get_epsilon(1e-5), 1e-5, engine=engine)
    sys.stdout.write(f"{kind}: {time.process_time() - started:.1f} s of processor time\n")


if __name__ == "__main__":
    main(sys.argv[1])
