"""Estimators and testers from the literature, for comparison with dpframe on the same draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Estimator


@hookimpl
def dpframe_estimators() -> list[type[Estimator]]:
    """Return the estimators: of one event, of all cuts, and of divergences."""
    from dpframe_baselines import divergences, events

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
    ]
