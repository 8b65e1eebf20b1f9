"""dpframe audits differential privacy empirically.

Everything a plugin author or a notebook needs is importable from here. Names are resolved on
first use, so that `import dpframe` alone costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annotated_types import Ge as Ge
    from annotated_types import Gt as Gt
    from annotated_types import Interval as Interval
    from annotated_types import Le as Le
    from annotated_types import Lt as Lt

    from dpframe.builtin.neighbourhoods.records import records_params as records_params
    from dpframe.builtin.pairs.pairs import Values as Values
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
    from dpframe.common.types import Array as Array
    from dpframe.common.types import Floats as Floats
    from dpframe.common.types import HostArray as HostArray
    from dpframe.common.types import Ints as Ints
    from dpframe.common.types import Key as Key
    from dpframe.common.types import Tree as Tree
    from dpframe.errors import DpframeError as DpframeError
    from dpframe.errors import ParameterError as ParameterError
    from dpframe.interfaces.attack import Answers as Answers
    from dpframe.interfaces.attack import Attack as Attack
    from dpframe.interfaces.attack import Target as Target
    from dpframe.interfaces.estimator import Contrast as Contrast
    from dpframe.interfaces.estimator import Estimate as Estimate
    from dpframe.interfaces.estimator import Estimator as Estimator
    from dpframe.interfaces.estimator import Query as Query
    from dpframe.interfaces.estimator import Settled as Settled
    from dpframe.interfaces.estimator import Share as Share
    from dpframe.interfaces.estimator import UpperOf as UpperOf
    from dpframe.interfaces.estimator import epsilon_of as epsilon_of
    from dpframe.interfaces.estimator import estimate_from_boxes as estimate_from_boxes
    from dpframe.interfaces.executor import Executor as Executor
    from dpframe.interfaces.executor import Task as Task
    from dpframe.interfaces.hookspecs import hookimpl as hookimpl
    from dpframe.interfaces.mechanism import ForeignMechanism as ForeignMechanism
    from dpframe.interfaces.mechanism import HostMechanism as HostMechanism
    from dpframe.interfaces.mechanism import Mechanism as Mechanism
    from dpframe.interfaces.mechanism import host_mechanism as host_mechanism
    from dpframe.interfaces.pair import Earned as Earned
    from dpframe.interfaces.pair import Neighbourhood as Neighbourhood
    from dpframe.interfaces.pair import Padded as Padded
    from dpframe.interfaces.pair import Pair as Pair
    from dpframe.interfaces.pair import as_traced as as_traced
    from dpframe.interfaces.plugin_files import SpecFile as SpecFile
    from dpframe.interfaces.statistic import BinCounts as BinCounts
    from dpframe.interfaces.statistic import DecisionCounts as DecisionCounts
    from dpframe.interfaces.statistic import Statistic as Statistic
    from dpframe.pytest import assert_dp as assert_dp
    from dpframe.pytest import search_violation as search_violation
    from dpframe.report.made import report as report
    from dpframe.results.model import Record as Record
    from dpframe.results.store import load as load
    from dpframe.results.verdict import exit_code as exit_code
    from dpframe.stats.binomial import clopper_pearson_lower as clopper_pearson_lower
    from dpframe.stats.binomial import clopper_pearson_upper as clopper_pearson_upper


__version__ = "0.1.0"


# The names of each module: the imports above are for type checkers alone.
_NAMES = {
    "annotated_types": "Ge Gt Interval Le Lt",
    "dpframe.builtin.neighbourhoods.records": "records_params",
    "dpframe.builtin.pairs.pairs": "Values",
    "dpframe.claims": "AccountedDP ApproxDP Claim GaussianDP LaplaceDP PureDP RenyiDP "
    "SubsampledGaussianDP ZeroConcentratedDP",
    "dpframe.commands.audit": "audit",
    "dpframe.commands.audit_training": "audit_training",
    "dpframe.commands.calibrate": "calibrate",
    "dpframe.commands.compare": "compare",
    "dpframe.commands.plot": "plot",
    "dpframe.commands.score": "score",
    "dpframe.commands.score_one_run": "score_one_run",
    "dpframe.common.types": "Array Floats HostArray Ints Key Tree",
    "dpframe.errors": "DpframeError ParameterError",
    "dpframe.interfaces.attack": "Answers Attack Target",
    "dpframe.interfaces.estimator": "Contrast Estimate Estimator Query Settled Share UpperOf "
    "epsilon_of estimate_from_boxes",
    "dpframe.interfaces.executor": "Executor Task",
    "dpframe.interfaces.hookspecs": "hookimpl",
    "dpframe.interfaces.mechanism": "ForeignMechanism HostMechanism Mechanism host_mechanism",
    "dpframe.interfaces.pair": "Earned Neighbourhood Padded Pair as_traced",
    "dpframe.interfaces.plugin_files": "SpecFile",
    "dpframe.interfaces.statistic": "BinCounts DecisionCounts Statistic",
    "dpframe.pytest": "assert_dp search_violation",
    "dpframe.report": "report",
    "dpframe.results.model": "Record",
    "dpframe.results.store": "load",
    "dpframe.results.verdict": "exit_code",
    "dpframe.stats.binomial": "clopper_pearson_lower clopper_pearson_upper",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

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
