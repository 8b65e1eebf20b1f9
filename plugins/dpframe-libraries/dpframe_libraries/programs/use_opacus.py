"""Releases by Opacus: one step of training.

A record is a gradient, or the features of an example with its target; Opacus clips, adds noise and
divides.
"""

from __future__ import annotations

import os
import sys
import warnings

import torch

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from library_tables import matrix, rounded
from opacus import PrivacyEngine, accountants
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
HIDDEN = 256


def prepare(params, data):
    """Return a function that makes one release of `params["release"]`."""
    table = torch.tensor(matrix({**params, "clean": True}, data), dtype=torch.float32)
    table = table.reshape(-1, len(params["bounds"]))
    release = {"step": _step, "engine": _engine}[params["release"]](params, table)
    digits = params.get("digits")
    return release if digits is None else lambda: rounded(release(), digits)


def accounted(params):
    """Return the ε of one step at `delta`, by Opacus's own accountant."""
    kind = {"gdp": accountants.GaussianAccountant, "rdp": accountants.RDPAccountant}
    accountant = kind[params["accountant"]]()
    rate, noise = params["sample_rate"], params["noise_multiplier"]
    accountant.step(noise_multiplier=noise, sample_rate=rate)
    return max(0.0, float(accountant.get_epsilon(delta=params["delta"])))


def _step(params, gradients):
    """Return the parameters after one step from zero, on a Poisson sample of the records."""
    weights = torch.nn.Parameter(torch.zeros(gradients.shape[1]))
    optimizer = DPOptimizer(
        torch.optim.SGD([weights], lr=1.0),
        noise_multiplier=params["noise_multiplier"],
        max_grad_norm=1.0,
        expected_batch_size=1,
    )
    rate = params["sample_rate"]

    def release():
        weights.data.zero_()
        drawn = gradients[torch.rand(len(gradients)) < rate] if rate < 1 else gradients
        weights.grad_sample = -drawn.clone()
        optimizer.step()
        optimizer.zero_grad()
        return weights.detach().numpy().copy()

    return release


def _engine(params, table):
    """Return the change of a network's parameters in one step, with the table as one batch."""
    dataset = TensorDataset(table[:, :-1], table[:, -1:])
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(table.shape[1] - 1, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1)
    )
    first = [p.detach().clone() for p in model.parameters()]
    torch.seed()
    model, optimizer, loader = PrivacyEngine(accountant=params["accountant"]).make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(dataset, batch_size=len(dataset)),
        noise_multiplier=params["noise_multiplier"],
        max_grad_norm=1.0,
        poisson_sampling=False,
    )

    def release():
        with torch.no_grad():
            for parameter, start in zip(model.parameters(), first):
                parameter.copy_(start)
        for x, y in loader:
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
        moved = [(p.detach() - start).ravel() for p, start in zip(model.parameters(), first)]
        return torch.cat(moved).numpy()

    return release


# The first step sets variables of the process, after which a box would be restarted.
_step({"noise_multiplier": 1.0, "sample_rate": 1.0}, torch.zeros(1, 1))()
