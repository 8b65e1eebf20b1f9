"""Protocols of local differential privacy: one report, many, many attributes, shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Mechanism


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism]]:
    """Return protocols with one report per user, many reports, or many attributes."""
    from dpframe_local import longitudinal, multidimensional, protocols, shuffled

    return [
        protocols.GRR,
        protocols.SUE,
        protocols.OUE,
        protocols.THE,
        protocols.SHE,
        protocols.SubsetSelection,
        protocols.BLH,
        protocols.OLH,
        protocols.HadamardResponse,
        longitudinal.LongitudinalGRR,
        longitudinal.LongitudinalUnary,
        multidimensional.Split,
        multidimensional.Sampled,
        multidimensional.SampledWithFakes,
        shuffled.ShuffledGRR,
    ]
