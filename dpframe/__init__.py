"""dpframe audits differential privacy empirically.

Everything a plugin author or a notebook needs is importable from here. Names are resolved on
first use, so that `import dpframe` alone costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from annotated_types import Ge as Ge
    from annotated_types import Gt as Gt
    from annotated_types import Interval as Interval
    from annotated_types import Le as Le
    from annotated_types import Lt as Lt

    from dpframe.answers import Answers as Answers
    from dpframe.attack import Attack as Attack
    from dpframe.attack import Target as Target
    from dpframe.boxes import epsilon_of as epsilon_of
    from dpframe.boxes import estimate_from_boxes as estimate_from_boxes
    from dpframe.builtin.neighbourhoods._params import records_params as records_params
    from dpframe.builtin.pairs.values import Values as Values
    from dpframe.claims import AccountedDP as AccountedDP
    from dpframe.claims import ApproxDP as ApproxDP
    from dpframe.claims import Claim as Claim
    from dpframe.claims import GaussianDP as GaussianDP
    from dpframe.claims import LaplaceDP as LaplaceDP
    from dpframe.claims import PureDP as PureDP
    from dpframe.claims import RenyiDP as RenyiDP
    from dpframe.claims import SubsampledGaussianDP as SubsampledGaussianDP
    from dpframe.claims import ZeroConcentratedDP as ZeroConcentratedDP
    from dpframe.commands.audit import audit as audit
    from dpframe.commands.audit_training import audit_training as audit_training
    from dpframe.commands.calibrate import calibrate as calibrate
    from dpframe.commands.compare import compare as compare
    from dpframe.commands.plot import plot as plot
    from dpframe.commands.score import score as score
    from dpframe.commands.score_one_run import score_one_run as score_one_run
    from dpframe.errors import DpframeError as DpframeError
    from dpframe.errors import ParameterError as ParameterError
    from dpframe.estimator import Contrast as Contrast
    from dpframe.estimator import Estimate as Estimate
    from dpframe.estimator import Estimator as Estimator
    from dpframe.estimator import Query as Query
    from dpframe.estimator import Settled as Settled
    from dpframe.estimator import Share as Share
    from dpframe.estimator import UpperOf as UpperOf
    from dpframe.foreign import ForeignMechanism as ForeignMechanism
    from dpframe.hookspecs import hookimpl as hookimpl
    from dpframe.mechanism import HostMechanism as HostMechanism
    from dpframe.mechanism import Mechanism as Mechanism
    from dpframe.mechanism import host_mechanism as host_mechanism
    from dpframe.neighbourhood import Earned as Earned
    from dpframe.neighbourhood import Neighbourhood as Neighbourhood
    from dpframe.pair import Padded as Padded
    from dpframe.pair import Pair as Pair
    from dpframe.pair import as_traced as as_traced
    from dpframe.record.verdict import exit_code as exit_code
    from dpframe.report.made import report as report
    from dpframe.spec_file import SpecFile as SpecFile
    from dpframe.statistic import BinCounts as BinCounts
    from dpframe.statistic import DecisionCounts as DecisionCounts
    from dpframe.statistic import Statistic as Statistic
    from dpframe.stats.binomial import clopper_pearson_lower as clopper_pearson_lower
    from dpframe.stats.binomial import clopper_pearson_upper as clopper_pearson_upper
    from dpframe.types import Array as Array
    from dpframe.types import Floats as Floats
    from dpframe.types import HostArray as HostArray
    from dpframe.types import Ints as Ints
    from dpframe.types import Key as Key
    from dpframe.types import Tree as Tree

_HOME = {
    "AccountedDP": "dpframe.claims",
    "Answers": "dpframe.answers",
    "ApproxDP": "dpframe.claims",
    "Array": "dpframe.types",
    "Attack": "dpframe.attack",
    "BinCounts": "dpframe.statistic",
    "Claim": "dpframe.claims",
    "Contrast": "dpframe.estimator",
    "DecisionCounts": "dpframe.statistic",
    "DpframeError": "dpframe.errors",
    "Earned": "dpframe.neighbourhood",
    "Estimate": "dpframe.estimator",
    "Estimator": "dpframe.estimator",
    "Floats": "dpframe.types",
    "ForeignMechanism": "dpframe.foreign",
    "GaussianDP": "dpframe.claims",
    "Ge": "annotated_types",
    "Gt": "annotated_types",
    "HostArray": "dpframe.types",
    "HostMechanism": "dpframe.mechanism",
    "Interval": "annotated_types",
    "Ints": "dpframe.types",
    "Key": "dpframe.types",
    "LaplaceDP": "dpframe.claims",
    "Le": "annotated_types",
    "Lt": "annotated_types",
    "Mechanism": "dpframe.mechanism",
    "Neighbourhood": "dpframe.neighbourhood",
    "Padded": "dpframe.pair",
    "Pair": "dpframe.pair",
    "ParameterError": "dpframe.errors",
    "PureDP": "dpframe.claims",
    "Query": "dpframe.estimator",
    "RenyiDP": "dpframe.claims",
    "Settled": "dpframe.estimator",
    "Share": "dpframe.estimator",
    "SpecFile": "dpframe.spec_file",
    "Statistic": "dpframe.statistic",
    "SubsampledGaussianDP": "dpframe.claims",
    "Target": "dpframe.attack",
    "Tree": "dpframe.types",
    "UpperOf": "dpframe.estimator",
    "ZeroConcentratedDP": "dpframe.claims",
    "Values": "dpframe.builtin.pairs.values",
    "as_traced": "dpframe.pair",
    "audit": "dpframe.commands.audit",
    "audit_training": "dpframe.commands.audit_training",
    "calibrate": "dpframe.commands.calibrate",
    "clopper_pearson_lower": "dpframe.stats.binomial",
    "clopper_pearson_upper": "dpframe.stats.binomial",
    "compare": "dpframe.commands.compare",
    "epsilon_of": "dpframe.boxes",
    "estimate_from_boxes": "dpframe.boxes",
    "exit_code": "dpframe.record.verdict",
    "hookimpl": "dpframe.hookspecs",
    "host_mechanism": "dpframe.mechanism",
    "plot": "dpframe.commands.plot",
    "records_params": "dpframe.builtin.neighbourhoods._params",
    "report": "dpframe.report",
    "score": "dpframe.commands.score",
    "score_one_run": "dpframe.commands.score_one_run",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  # the keys are strings


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dpframe' has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    value = home if home.__name__ == f"dpframe.{name}" else getattr(home, name)
    globals()[name] = value  # the next access does not come through here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
