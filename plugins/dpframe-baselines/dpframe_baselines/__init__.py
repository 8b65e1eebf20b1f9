"""Estimators and testers from the literature, for comparison with dpframe on the same draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Estimator, Mechanism, Pair


@hookimpl
def dpframe_estimators() -> list[type[Estimator]]:
    """Return the estimators: of one event, of all cuts, of divergences, and of canaries."""
    from dpframe_baselines import (
        canaries,
        divergences,
        events,
        one_run,
        one_run_adaptive,
        sequential,
    )

    return [
        events.DPSniper,
        events.StatDP,
        events.Katz,
        events.BCa,
        events.EmpiricalBernstein,
        events.DKW,
        divergences.AUC,
        divergences.AuditoriumHistogram,
        divergences.AuditoriumRenyi,
        divergences.AuditoriumMMD,
        divergences.RenyiDonskerVaradhan,
        sequential.SequentialMMD,
        sequential.SequentialFDP,
        canaries.OneRunFDPGaussian,
        canaries.OneRunXiang,
        one_run.OneRunSteinke,
        one_run.OneRunFDP,
        one_run_adaptive.OneRunAdaptive,
    ]


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism]]:
    """Return ideal scores of canaries, and samplers of noise."""
    from dpframe_baselines import canaries, samplers

    return [canaries.IdealCanaries, samplers.NoiseSampler]


@hookimpl
def dpframe_pairs() -> list[type[Pair]]:
    """Return the pair of a mechanism that draws its canaries itself."""
    from dpframe_baselines import canaries

    return [canaries.OnlyCanaries]
