"""What dpframe brings along, offered through the hooks that third parties use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe import hookimpl
from dpframe.builtin.attacks.answers import OfAnswers
from dpframe.builtin.attacks.fixed import (
    Canaries,
    Identity,
    LikelihoodRatio,
    MajorityVote,
    Projection,
    Threshold,
)
from dpframe.builtin.attacks.learned import Categories, HistogramRatio, Learned, Logistic
from dpframe.builtin.estimators.betting import Betting
from dpframe.builtin.estimators.histogram import Histogram, HistogramSplit
from dpframe.builtin.estimators.histogram_fits import GDPFit, PLDComposition, TVParameter
from dpframe.builtin.estimators.one_run import OneRun, OneRunFDP
from dpframe.builtin.estimators.one_shot import OneShot
from dpframe.builtin.estimators.order_statistics import OrderStatistics, Precision
from dpframe.builtin.estimators.threshold import GDP, Credible, ThresholdLoss
from dpframe.builtin.mechanisms.discrete import (
    CopyInput,
    Geometric,
    RandomizedResponse,
    RandomOutput,
)
from dpframe.builtin.mechanisms.gaussian import Gaussian, SubsampledGaussian
from dpframe.builtin.mechanisms.laplace import (
    Adept,
    DPText,
    Laplace,
    LaplaceHalfScale,
    LaplaceHalved,
    LaplaceNumpy,
    LaplaceShifted,
)
from dpframe.builtin.mechanisms.program import Program
from dpframe.builtin.neighbourhoods.records import RecordEdits
from dpframe.builtin.neighbourhoods.vectors import Climb, Grid, Patterns, Random
from dpframe.builtin.pairs.pairs import Records, Values, ZerosOnes

if TYPE_CHECKING:
    from dpframe import Attack, Estimator, Executor, HostMechanism, Mechanism, Neighbourhood, Pair


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism | HostMechanism]]:
    """Textbook mechanisms, those of the DPText paper, its baselines, and planted bugs."""
    return [
        Gaussian,
        SubsampledGaussian,
        RandomizedResponse,
        Geometric,
        Laplace,
        LaplaceShifted,
        LaplaceNumpy,
        Adept,
        DPText,
        LaplaceHalved,
        LaplaceHalfScale,
        CopyInput,
        RandomOutput,
        Program,
    ]


@hookimpl
def dpframe_attacks() -> list[type[Attack]]:
    """Attacks."""
    return [
        Identity,
        Projection,
        Threshold,
        LikelihoodRatio,
        HistogramRatio,
        Logistic,
        Learned,
        Categories,
        OfAnswers,
        MajorityVote,
        Canaries,
    ]


@hookimpl
def dpframe_estimators() -> list[type[Estimator]]:
    """Estimators."""
    return [
        OrderStatistics,
        Betting,
        ThresholdLoss,
        GDP,
        Credible,
        Histogram,
        HistogramSplit,
        TVParameter,
        PLDComposition,
        GDPFit,
        Precision,
        OneRun,
        OneRunFDP,
        OneShot,
    ]


@hookimpl
def dpframe_pairs() -> list[type[Pair]]:
    """Neighbouring datasets."""
    return [ZerosOnes, Values, Records]


@hookimpl
def dpframe_neighbourhoods() -> list[type[Neighbourhood]]:
    """Proposers of pairs."""
    return [Patterns, Grid, Random, Climb, RecordEdits]


@hookimpl
def dpframe_executors() -> list[type[Executor]]:
    """Other machines. Called for `--cluster` only, because the imports are heavy."""
    from dpframe.cluster.executor import DaskExecutor

    return [DaskExecutor]
