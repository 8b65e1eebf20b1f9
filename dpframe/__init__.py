"""dpframe audits differential privacy empirically.

What a user calls is importable from here, what authors of plugins need from `dpframe.plugins`.
Names are resolved on first use, so that `import dpframe` alone costs nothing.
"""

import importlib
from typing import TYPE_CHECKING

from dpframe.common import lazy

if TYPE_CHECKING:
    from dpframe import plugins as plugins
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
    from dpframe.commands.audit import audit as audit
    from dpframe.commands.audit_run import (
        Doubt as Doubt,
        RunAudit as RunAudit,
        audit_run as audit_run,
    )
    from dpframe.commands.audit_training import audit_training as audit_training
    from dpframe.commands.calibrate import calibrate as calibrate
    from dpframe.commands.compare import compare as compare
    from dpframe.commands.plot import plot as plot
    from dpframe.commands.score import score as score
    from dpframe.commands.score_one_run import score_one_run as score_one_run
    from dpframe.errors import (
        DpframeError as DpframeError,
        UndecidedError as UndecidedError,
        ViolationError as ViolationError,
    )
    from dpframe.interfaces.python_tables import records_params as records_params
    from dpframe.plugins import *  # noqa: F403  # older code imports these from here
    from dpframe.pytest import assert_dp as assert_dp, search_violation as search_violation
    from dpframe.report.delivery import load as load, report as report
    from dpframe.results.model import Record as Record
    from dpframe.results.store import exit_code as exit_code


__version__ = "0.1.0"

_HOME = {name: module for name, module in lazy.exports(__name__).items() if name != "*"}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604  # the keys are strings


def __getattr__(name: str) -> object:
    plugins = importlib.import_module("dpframe.plugins")
    if name == "plugins":
        return plugins
    if name == "report":  # a package that can be called
        return importlib.import_module("dpframe.report")
    if name not in _HOME and name in plugins.__all__:
        return getattr(plugins, name)
    return lazy.load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted(__all__)
