"""What a mechanism claims: each claim is a trade-off curve and gives ε(δ) and δ(ε)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpframe.claims.accounted import AccountedDP as AccountedDP
    from dpframe.claims.approx import ApproxDP as ApproxDP
    from dpframe.claims.approx import PureDP as PureDP
    from dpframe.claims.claim import Claim as Claim
    from dpframe.claims.gaussian import GaussianDP as GaussianDP
    from dpframe.claims.laplace import LaplaceDP as LaplaceDP
    from dpframe.claims.renyi import RenyiDP as RenyiDP
    from dpframe.claims.renyi import ZeroConcentratedDP as ZeroConcentratedDP
    from dpframe.claims.subsampled import SubsampledGaussianDP as SubsampledGaussianDP

_HOME = {
    "AccountedDP": "accounted",
    "ApproxDP": "approx",
    "Claim": "claim",
    "GaussianDP": "gaussian",
    "LaplaceDP": "laplace",
    "PureDP": "approx",
    "RenyiDP": "renyi",
    "SubsampledGaussianDP": "subsampled",
    "ZeroConcentratedDP": "renyi",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dpframe.claims' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dpframe.claims.{_HOME[name]}"), name)
