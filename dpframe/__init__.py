"""dpframe audits differential privacy empirically.

What a user calls is importable from here, what authors of plugins need from `dpframe.plugins`.
Names are resolved on first use, so that `import dpframe` alone costs nothing.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpframe import plugins as plugins
    from dpframe.builtin.neighbourhoods.records import records_params as records_params
    from dpframe.commands.audit import audit as audit
    from dpframe.commands.audit_training import audit_training as audit_training
    from dpframe.commands.calibrate import calibrate as calibrate
    from dpframe.commands.compare import compare as compare
    from dpframe.commands.plot import plot as plot
    from dpframe.commands.score import score as score
    from dpframe.commands.score_one_run import score_one_run as score_one_run
    from dpframe.errors import UndecidedError as UndecidedError, ViolationError as ViolationError
    from dpframe.plugins import *  # noqa: F403  # claims, and names that were here before
    from dpframe.pytest import assert_dp as assert_dp, search_violation as search_violation
    from dpframe.report.delivery import report as report
    from dpframe.results.store import load as load
    from dpframe.results.verdict import exit_code as exit_code


__version__ = "0.1.0"


# The names of each module: the imports above are for type checkers alone.
_NAMES = {
    "dpframe.builtin.neighbourhoods.records": "records_params",
    "dpframe.claims": "AccountedDP ApproxDP Claim GaussianDP LaplaceDP PureDP "
    "RenyiDP SubsampledGaussianDP ZeroConcentratedDP",
    "dpframe.commands.audit": "audit",
    "dpframe.commands.audit_training": "audit_training",
    "dpframe.commands.calibrate": "calibrate",
    "dpframe.commands.compare": "compare",
    "dpframe.commands.plot": "plot",
    "dpframe.commands.score": "score",
    "dpframe.commands.score_one_run": "score_one_run",
    "dpframe.errors": "DpframeError UndecidedError ViolationError",
    "dpframe.pytest": "assert_dp search_violation",
    "dpframe.report": "report",
    "dpframe.report.delivery": "load",
    "dpframe.results.model": "Record",
    "dpframe.results.verdict": "exit_code",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", "plugins", *_HOME]  # noqa: PLE0604  # the keys are strings


def __getattr__(name: str) -> object:
    plugins = importlib.import_module("dpframe.plugins")
    if name == "plugins":
        return plugins
    if name in _HOME:
        home = importlib.import_module(_HOME[name])
        value = home if home.__name__ == f"dpframe.{name}" else getattr(home, name)
    elif name in plugins.__all__:  # older code imports them from here
        value = getattr(plugins, name)
    else:
        raise AttributeError(f"module 'dpframe' has no attribute {name!r}")
    globals()[name] = value  # the next access does not come through here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
