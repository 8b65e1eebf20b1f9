"""Privacy claims: each is a trade-off curve and gives ε(δ) and δ(ε)."""

from dpframe.claims.accounted import AccountedDP, RenyiDP, ZeroConcentratedDP
from dpframe.claims.claim import (
    ApproxDP,
    Claim,
    GaussianDP,
    LaplaceDP,
    PureDP,
    SubsampledGaussianDP,
)
from dpframe.claims.metric import MetricDP

__all__ = [
    "AccountedDP",
    "ApproxDP",
    "Claim",
    "GaussianDP",
    "LaplaceDP",
    "MetricDP",
    "PureDP",
    "RenyiDP",
    "SubsampledGaussianDP",
    "ZeroConcentratedDP",
]
