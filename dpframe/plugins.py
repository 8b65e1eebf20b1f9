"""Everything that authors of plugins import: base classes, hooks, claims and array types.

A plugin imports its names from here and formulas from `dpframe.stats`. Names are resolved on first
use, so a plugin does not wait for parts that it does not use.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annotated_types import Ge as Ge
    from annotated_types import Gt as Gt
    from annotated_types import Interval as Interval
    from annotated_types import Le as Le
    from annotated_types import Lt as Lt

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
    from dpframe.interfaces.estimator import Evidence as Evidence
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
    from dpframe.interfaces.registry import find_plugin as find_plugin
    from dpframe.interfaces.statistic import BinCounts as BinCounts
    from dpframe.interfaces.statistic import DecisionCounts as DecisionCounts
    from dpframe.interfaces.statistic import Statistic as Statistic
    from dpframe.results.model import Record as Record
    from dpframe.stats.binomial import clopper_pearson_lower as clopper_pearson_lower
    from dpframe.stats.binomial import clopper_pearson_upper as clopper_pearson_upper


# The names of each module: the imports above are for type checkers alone.
_NAMES = {
    "annotated_types": "Ge Gt Interval Le Lt",
    "dpframe.builtin.pairs.pairs": "Values",
    "dpframe.claims": "AccountedDP ApproxDP Claim GaussianDP LaplaceDP PureDP "
    "RenyiDP SubsampledGaussianDP ZeroConcentratedDP",
    "dpframe.common.types": "Array Floats HostArray Ints Key Tree",
    "dpframe.errors": "DpframeError ParameterError",
    "dpframe.interfaces.attack": "Answers Attack Target",
    "dpframe.interfaces.estimator": "Contrast Estimate Estimator Evidence Query Settled Share "
    "UpperOf epsilon_of estimate_from_boxes",
    "dpframe.interfaces.executor": "Executor Task",
    "dpframe.interfaces.hookspecs": "hookimpl",
    "dpframe.interfaces.mechanism": "ForeignMechanism HostMechanism Mechanism host_mechanism",
    "dpframe.interfaces.pair": "Earned Neighbourhood Padded Pair as_traced",
    "dpframe.interfaces.plugin_files": "SpecFile",
    "dpframe.interfaces.registry": "find_plugin",
    "dpframe.interfaces.statistic": "BinCounts DecisionCounts Statistic",
    "dpframe.results.model": "Record",
    "dpframe.stats.binomial": "clopper_pearson_lower clopper_pearson_upper",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker that cannot read this list would export nothing
    __all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dpframe.plugins' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # the next access does not come through here
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
