"""DP-SGD with Opacus on scikit-learn's digits, and an audit of the run: the lines marked `audit`.

python opacus_digits.py [--epochs 20] [--canaries 500] [--kind random-gradient]
"""

import argparse

import torch
from dpframe_torch import Canaries  # audit
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--canaries", type=int, default=500)
parser.add_argument("--kind", default="random-gradient")
parser.add_argument("--out", default="runs/digits")
options = parser.parse_args()

images, digits = load_digits(return_X_y=True)
train_set = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits))
canaries = Canaries(train_set, options.canaries, options.kind, out=options.out)  # audit
loader = DataLoader(canaries.train_set, batch_size=64)
model = Sequential(Linear(64, 100), ReLU(), Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
engine = PrivacyEngine(accountant="rdp")
model, optimizer, loader = engine.make_private_with_epsilon(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    target_epsilon=8.0,
    target_delta=1e-5,
    epochs=options.epochs,
    max_grad_norm=1.0,
)
canaries.watch(model, optimizer)  # audit
for _ in range(options.epochs):
    for inputs, labels in loader:
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()
print(f"Opacus: ε = {engine.get_epsilon(1e-5):.2f} at δ = 1e-5")
print(canaries.audit(model, engine.get_epsilon(1e-5), 1e-5, engine=engine))  # audit
