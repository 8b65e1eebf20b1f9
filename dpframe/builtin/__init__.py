"""The built-in plugins, offered through the hooks that third parties use.

Classes are given as "module:Class" by name, so that an audit imports only those it uses.
"""

from dpframe.plugins import Executor, hookimpl

_MODULES = {
    "mechanisms": {
        "gaussian": "gaussian:Gaussian",
        "subsampled-gaussian": "gaussian:SubsampledGaussian",
        "randomized-response": "pure_mechanisms:RandomizedResponse",
        "geometric": "pure_mechanisms:Geometric",
        "laplace": "pure_mechanisms:Laplace",
        "laplace-shifted": "pure_mechanisms:LaplaceShifted",
        "laplace-numpy": "pure_mechanisms:LaplaceNumpy",
        "adept": "pure_mechanisms:Adept",
        "dptext": "pure_mechanisms:DPText",
        "laplace-halved": "pure_mechanisms:LaplaceHalved",
        "laplace-half-scale": "pure_mechanisms:LaplaceHalfScale",
        "copy-input": "pure_mechanisms:CopyInput",
        "random-output": "pure_mechanisms:RandomOutput",
        "program": "program:Program",
    },
    "attacks": {
        "identity": "fixed_attacks:Identity",
        "projection": "fixed_attacks:Projection",
        "threshold": "fixed_attacks:Threshold",
        "likelihood-ratio": "fixed_attacks:LikelihoodRatio",
        "histogram-ratio": "learned_attacks:HistogramRatio",
        "logistic": "learned_attacks:Logistic",
        "learned": "learned_attacks:Learned",
        "categories": "learned_attacks:Categories",
        "answers": "answers:OfAnswers",
        "majority-vote": "fixed_attacks:MajorityVote",
        "canaries": "fixed_attacks:Canaries",
    },
    "estimators": {
        "order-statistics": "order_statistics:OrderStatistics",
        "betting": "betting:Betting",
        "threshold": "threshold:ThresholdLoss",
        "gdp": "threshold:GDP",
        "credible": "threshold:Credible",
        "histogram": "histogram:Histogram",
        "histogram-split": "histogram:HistogramSplit",
        "tv-parameter": "histogram_fits:TVParameter",
        "pld-composition": "histogram_fits:PLDComposition",
        "gdp-fit": "histogram_fits:GDPFit",
        "precision": "order_statistics:Precision",
        "one-run": "one_run:OneRun",
        "one-run-independent": "one_run_independent:OneRunIndependent",
        "one-shot": "histogram_fits:OneShot",
    },
    "pairs": {
        "zeros-ones": "pairs:ZerosOnes",
        "values": "dpframe.plugins:Values",
        "records": "pairs:Records",
    },
    "neighbourhoods": {
        "patterns": "vectors:Patterns",
        "grid": "vectors:Grid",
        "random": "vectors:Random",
        "climb": "vectors:Climb",
        "records": "record_edits:RecordEdits",
    },
}
"""The module and class of each plugin, by kind and name; a module with a dot is a whole name."""


@hookimpl
def dpframe_mechanisms() -> dict[str, str]:
    """Textbook mechanisms, those of the DPText paper, its baselines, and planted bugs."""
    return _classes("mechanisms")


@hookimpl
def dpframe_attacks() -> dict[str, str]:
    """Attacks."""
    return _classes("attacks")


@hookimpl
def dpframe_estimators() -> dict[str, str]:
    """Estimators."""
    return _classes("estimators")


@hookimpl
def dpframe_pairs() -> dict[str, str]:
    """Neighbouring datasets."""
    return _classes("pairs")


@hookimpl
def dpframe_neighbourhoods() -> dict[str, str]:
    """Proposers of pairs."""
    return _classes("neighbourhoods")


@hookimpl
def dpframe_reports() -> dict[str, str]:
    """The modules of report formats, by suffix."""
    return {
        ".html": "dpframe.report.html",
        ".csv": "dpframe.results.rows",
        ".md": "dpframe.report.markdown",
        ".xml": "dpframe.report.junit",
        ".json": "dpframe.results.store",
    }


@hookimpl
def dpframe_executors() -> list[type[Executor]]:
    """Other machines. Called for `--cluster` only, because the imports are heavy."""
    from dpframe.draw.dask_executor import DaskExecutor

    return [DaskExecutor]


def _classes(kind: str) -> dict[str, str]:
    return {
        name: place if "." in place else f"dpframe.builtin.{place}"
        for name, place in _MODULES[kind].items()
    }
