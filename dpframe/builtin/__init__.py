"""What dpframe brings along, offered through the hooks that third parties use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe import hookimpl
from dpframe.builtin.attacks.answers import OfAnswers
from dpframe.builtin.attacks.canaries import Canaries
from dpframe.builtin.attacks.categories import Categories
from dpframe.builtin.attacks.histogram_ratio import HistogramRatio
from dpframe.builtin.attacks.identity import Identity
from dpframe.builtin.attacks.learned import Learned
from dpframe.builtin.attacks.likelihood_ratio import LikelihoodRatio
from dpframe.builtin.attacks.logistic import Logistic
from dpframe.builtin.attacks.majority_vote import MajorityVote
from dpframe.builtin.attacks.projection import Projection
from dpframe.builtin.attacks.threshold import Threshold
from dpframe.builtin.estimators.betting.betting import Betting
from dpframe.builtin.estimators.histogram.gdp_fit import GDPFit
from dpframe.builtin.estimators.histogram.histogram import Histogram
from dpframe.builtin.estimators.histogram.histogram_split import HistogramSplit
from dpframe.builtin.estimators.histogram.pld_composition import PLDComposition
from dpframe.builtin.estimators.histogram.tv_parameter import TVParameter
from dpframe.builtin.estimators.one_run.one_run import OneRun
from dpframe.builtin.estimators.one_run.one_run_fdp import OneRunFDP
from dpframe.builtin.estimators.one_run.one_shot import OneShot
from dpframe.builtin.estimators.order_statistics.order_statistics import OrderStatistics
from dpframe.builtin.estimators.precision import Precision
from dpframe.builtin.estimators.threshold.credible import Credible
from dpframe.builtin.estimators.threshold.gdp import GDP
from dpframe.builtin.estimators.threshold.threshold import ThresholdLoss
from dpframe.builtin.mechanisms.adept import Adept
from dpframe.builtin.mechanisms.copy_input import CopyInput
from dpframe.builtin.mechanisms.dptext import DPText
from dpframe.builtin.mechanisms.gaussian import Gaussian
from dpframe.builtin.mechanisms.geometric import Geometric
from dpframe.builtin.mechanisms.laplace import Laplace
from dpframe.builtin.mechanisms.laplace_half_scale import LaplaceHalfScale
from dpframe.builtin.mechanisms.laplace_halved import LaplaceHalved
from dpframe.builtin.mechanisms.laplace_numpy import LaplaceNumpy
from dpframe.builtin.mechanisms.laplace_shifted import LaplaceShifted
from dpframe.builtin.mechanisms.program import Program
from dpframe.builtin.mechanisms.random_output import RandomOutput
from dpframe.builtin.mechanisms.randomized_response import RandomizedResponse
from dpframe.builtin.mechanisms.subsampled_gaussian import SubsampledGaussian
from dpframe.builtin.neighbourhoods.climb import Climb
from dpframe.builtin.neighbourhoods.grid import Grid
from dpframe.builtin.neighbourhoods.patterns import Patterns
from dpframe.builtin.neighbourhoods.random import Random
from dpframe.builtin.neighbourhoods.records import RecordEdits
from dpframe.builtin.pairs.records import Records
from dpframe.builtin.pairs.values import Values
from dpframe.builtin.pairs.zeros_ones import ZerosOnes

if TYPE_CHECKING:
    from dpframe import Attack, Estimator, HostMechanism, Mechanism, Neighbourhood, Pair


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
