"""Privacy claims: each is a trade-off curve and gives ε(δ) and δ(ε)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpframe.claims.accounted import AccountedDP as AccountedDP
    from dpframe.claims.claim import ApproxDP as ApproxDP
    from dpframe.claims.claim import Claim as Claim
    from dpframe.claims.claim import GaussianDP as GaussianDP
    from dpframe.claims.claim import LaplaceDP as LaplaceDP
    from dpframe.claims.claim import PureDP as PureDP
    from dpframe.claims.claim import SubsampledGaussianDP as SubsampledGaussianDP
    from dpframe.claims.renyi import RenyiDP as RenyiDP
    from dpframe.claims.renyi import ZeroConcentratedDP as ZeroConcentratedDP


_HOME = {
    "AccountedDP": "accounted",
    "ApproxDP": "claim",
    "Claim": "claim",
    "GaussianDP": "claim",
    "LaplaceDP": "claim",
    "PureDP": "claim",
    "RenyiDP": "renyi",
    "SubsampledGaussianDP": "claim",
    "ZeroConcentratedDP": "renyi",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dpframe.claims' has no attribute {name!r}")
    return getattr(importlib.import_module(f"dpframe.claims.{_HOME[name]}"), name)
