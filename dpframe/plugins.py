"""Everything that authors of plugins import: base classes, hooks, claims and array types.

A plugin imports its names from here and formulas from `dpframe.stats`. Names are resolved on first
use, so a plugin does not wait for parts that it does not use.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annotated_types import Ge as Ge, Gt as Gt, Interval as Interval, Le as Le, Lt as Lt

    from dpframe.builtin.pairs.pairs import Values as Values
    from dpframe.claims import (
        AccountedDP as AccountedDP,
        ApproxDP as ApproxDP,
        Claim as Claim,
        GaussianDP as GaussianDP,
        LaplaceDP as LaplaceDP,
        PureDP as PureDP,
        RenyiDP as RenyiDP,
        SubsampledGaussianDP as SubsampledGaussianDP,
        ZeroConcentratedDP as ZeroConcentratedDP,
    )
    from dpframe.common.machine import bound_to_parent as bound_to_parent
    from dpframe.common.types import (
        Array as Array,
        Floats as Floats,
        HostArray as HostArray,
        Ints as Ints,
        Key as Key,
        Tree as Tree,
    )
    from dpframe.errors import DpframeError as DpframeError, ParameterError as ParameterError
    from dpframe.interfaces.attack import Answers as Answers, Attack as Attack, Target as Target
    from dpframe.interfaces.estimator import (
        Contrast as Contrast,
        Estimate as Estimate,
        Estimator as Estimator,
        Evidence as Evidence,
        Query as Query,
        Settled as Settled,
        Share as Share,
        UpperOf as UpperOf,
        epsilon_of as epsilon_of,
        estimate_from_boxes as estimate_from_boxes,
    )
    from dpframe.interfaces.executor import Executor as Executor, Task as Task
    from dpframe.interfaces.hookspecs import hookimpl as hookimpl
    from dpframe.interfaces.mechanism import (
        ForeignMechanism as ForeignMechanism,
        HostMechanism as HostMechanism,
        Mechanism as Mechanism,
        host_mechanism as host_mechanism,
    )
    from dpframe.interfaces.pair import (
        Earned as Earned,
        Neighbourhood as Neighbourhood,
        Padded as Padded,
        Pair as Pair,
        as_traced as as_traced,
    )
    from dpframe.interfaces.plugin_files import SpecFile as SpecFile
    from dpframe.interfaces.registry import find_plugin as find_plugin
    from dpframe.interfaces.statistic import (
        BinCounts as BinCounts,
        DecisionCounts as DecisionCounts,
        Statistic as Statistic,
    )
    from dpframe.results.model import Record as Record
    from dpframe.results.store import answer_at as answer_at
    from dpframe.results.verdict import NOTHING_TESTED as NOTHING_TESTED
    from dpframe.stats.binomial import (
        clopper_pearson_lower as clopper_pearson_lower,
        clopper_pearson_upper as clopper_pearson_upper,
    )


# The names of each module: the imports above are for type checkers alone.
_NAMES = {
    "annotated_types": "Ge Gt Interval Le Lt",
    "dpframe.builtin.pairs.pairs": "Values",
    "dpframe.claims": "AccountedDP ApproxDP Claim GaussianDP LaplaceDP PureDP "
    "RenyiDP SubsampledGaussianDP ZeroConcentratedDP",
    "dpframe.common.machine": "bound_to_parent",
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
    "dpframe.results.store": "answer_at",
    "dpframe.results.verdict": "NOTHING_TESTED",
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
