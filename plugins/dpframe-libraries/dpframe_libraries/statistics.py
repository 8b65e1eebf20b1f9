"""Releases by pure-ldp, PyDP and PipelineDP: local reports, and statistics."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dpframe.plugins import Ge, Le
from dpframe_libraries.base import PROGRAMS, Categories, OfNumbers, Pure


class PureLDP(Pure, name="pure-ldp"):
    """The message that a client of pure-ldp sends for the first record.

    Claim: ε for one record that is replaced.
    """

    module: ClassVar = PROGRAMS / "use_pure_ldp.py"
    part: ClassVar[str] = "client"
    client: Literal["UEClient", "DEClient", "HEClient", "LHClient"] = "UEClient"
    """Unary, direct or histogram encoding, or local hashing."""
    optimal: bool = False
    """The optimised form of unary encoding or of local hashing."""
    categories: Categories = ("a", "b")
    """The possible categories."""


class PyDP(OfNumbers, name="pydp"):
    """An algorithm of `pydp.algorithms.laplacian` on one column.

    Claim: ε for one record that is added or removed.
    """

    module: ClassVar = PROGRAMS / "use_pydp.py"
    part: ClassVar[str] = "algorithm"
    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"
    algorithm: Literal[
        "BoundedSum",
        "BoundedMean",
        "BoundedVariance",
        "BoundedStandardDeviation",
        "Count",
        "Max",
        "Min",
        "Median",
        "Percentile",
    ]
    """The class of the algorithm."""
    quant: Annotated[float, Ge(0), Le(1)] = 0.5
    """The quantile, as for `Percentile`."""


class PipelineDP(OfNumbers, name="pipeline-dp"):
    """A metric of PipelineDP by group, with all groups fixed in advance.

    A record is a group and a number; each record is a separate user. Claim: ε for one record that
    is added or removed, and δ = 10⁻¹².
    """

    module: ClassVar = PROGRAMS / "use_pipeline_dp.py"
    part: ClassVar[str] = "metric"
    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"
    metric: Literal["COUNT", "SUM", "MEAN", "VARIANCE", "PRIVACY_ID_COUNT"] = "COUNT"
    """The statistic released for each group."""
    categories: Categories = ("a", "b", "c")
    """The groups."""
