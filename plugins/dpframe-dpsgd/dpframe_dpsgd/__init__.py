"""Audits of private training: DP-SGD as a mechanism, canaries as pairs and attacks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Attack, Estimator, Mechanism, Pair
    from dpframe_dpsgd.canaries import Canaries as Canaries, CanaryError as CanaryError
    from dpframe_dpsgd.records import Records as Records
    from dpframe_dpsgd.training import Training as Training

__all__ = ["Canaries", "CanaryError", "Records", "Training"]

_HOME = {
    "Canaries": "dpframe_dpsgd.canaries",
    "CanaryError": "dpframe_dpsgd.canaries",
    "Records": "dpframe_dpsgd.records",
    "Training": "dpframe_dpsgd.training",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dpframe_dpsgd' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism]]:
    """Return the trainers."""
    from dpframe_dpsgd.dense import DPSGD
    from dpframe_dpsgd.fedavg import DPFedAvg, MistakenFedAvg
    from dpframe_dpsgd.federated import FederatedCanaries
    from dpframe_dpsgd.mistaken import MistakenDPSGD
    from dpframe_dpsgd.one_run import OneRunDPSGD

    return [DPSGD, MistakenDPSGD, OneRunDPSGD, FederatedCanaries, DPFedAvg, MistakenFedAvg]


@hookimpl
def dpframe_attacks() -> list[type[Attack]]:
    """Return the attacks on trained models and on the steps of training."""
    from dpframe_dpsgd.attacks.black_box import CanaryLoss, CanaryLossRatio
    from dpframe_dpsgd.attacks.steps import CanarySearch, CanarySteps

    return [CanaryLoss, CanaryLossRatio, CanarySearch, CanarySteps]


@hookimpl
def dpframe_pairs() -> list[type[Pair]]:
    """Return the training sets with and without a canary."""
    from dpframe_dpsgd.canary_pairs import FederatedClients, ManyCanaries, NoData
    from dpframe_dpsgd.pairs import Canary
    from dpframe_dpsgd.searched import SearchedCanary

    return [Canary, FederatedClients, ManyCanaries, NoData, SearchedCanary]


@hookimpl
def dpframe_estimators() -> list[type[Estimator]]:
    """Return the estimators for scores that look normal."""
    from dpframe_dpsgd.normal_fit import NormalFit

    return [NormalFit]
