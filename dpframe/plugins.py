"""Everything that authors of plugins import: base classes, hooks, claims and array types.

A plugin imports its names from here and formulas from `dpframe.stats`. Names are resolved on first
use, so a plugin does not wait for parts that it does not use.
"""

from typing import TYPE_CHECKING

from dpframe.common import lazy

if TYPE_CHECKING:
    from annotated_types import Ge as Ge, Gt as Gt, Interval as Interval, Le as Le, Lt as Lt

    from dpframe.builtin.one_run import Guessed as Guessed, Guesses as Guesses
    from dpframe.claims import (
        AccountedDP as AccountedDP,
        ApproxDP as ApproxDP,
        Claim as Claim,
        GaussianDP as GaussianDP,
        LaplaceDP as LaplaceDP,
        MetricDP as MetricDP,
        PureDP as PureDP,
        RenyiDP as RenyiDP,
        SubsampledGaussianDP as SubsampledGaussianDP,
        ZeroConcentratedDP as ZeroConcentratedDP,
    )
    from dpframe.common.machine import bound_to_parent as bound_to_parent
    from dpframe.common.notifier import notified as notified
    from dpframe.common.types import (
        Array as Array,
        Floats as Floats,
        HostArray as HostArray,
        Ints as Ints,
        Key as Key,
        Tree as Tree,
    )
    from dpframe.errors import DpframeError as DpframeError, ParameterError as ParameterError
    from dpframe.interfaces import plain as plain
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
    from dpframe.interfaces.plain import Values as Values
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


_HOME = lazy.exports(__name__)

if not TYPE_CHECKING:  # a type checker that cannot read this list would export nothing
    __all__ = list(_HOME)


def __getattr__(name: str) -> object:
    return lazy.load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted(_HOME)
