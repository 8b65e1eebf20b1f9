"""Releases by pure-ldp, multi-freq-ldpy, PyDP and PipelineDP: local reports, and statistics."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dpframe.plugins import Claim, Ge, Gt, Le, Pair, ParameterError, PureDP
from dpframe_libraries.base import PROGRAMS, Categories, OfNumbers, Pure

Oracle = Literal["GRR", "SUE", "OUE", "THE", "SHE", "BLH", "OLH"]
Longitudinal = Literal["L-GRR", "L-SUE", "L-OUE", "L-OSUE", "L-SOUE", "L-BLH", "dBitFlipPM"]
OfAttributes = Literal["SPL-GRR", "SPL-OUE", "SMP-GRR", "SMP-OUE"]


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


class MultiFreqLDPy(Pure, name="multi-freq-ldpy"):
    """The report that a client of multi-freq-ldpy sends for the first record.

    A record is a value from 0 to size - 1, or one such value for each attribute (SPL and SMP). The
    release of THE, BLH and OLH is the set of values that the report supports. Claim: ε for one
    record that is replaced, and of one report only, even if the protocol makes many (L-); with
    `reports`, `permanent` for all of them.
    """

    module: ClassVar = PROGRAMS / "use_multi_freq_ldpy.py"
    part: ClassVar[str] = "client"
    seedable: ClassVar[bool] = True
    protocol: Literal[Oracle, Longitudinal, OfAttributes] = "GRR"
    """The name of the protocol in the library's documentation."""
    size: Annotated[int, Ge(2)] = 4
    """The number of values."""
    permanent: Annotated[float, Gt(0)] = 4.0
    """ε of infinitely many reports (L-, or `reports`), above that of one."""
    reports: Annotated[int, Ge(1)] = 1
    """Number of reports (GRR only): the client makes a response with ε = `permanent`, which is
    memoised, and each report from that response. The L- clients themselves memoise nothing."""
    between: tuple[int, int] | None = None
    """Release only the difference between the report's support for these two values."""

    def check(self) -> None:
        several = self.reports > 1
        if several and (self.protocol != "GRR" or self.between):
            raise ParameterError("reports", "more than one only with GRR, and without `between`")
        if (self.protocol.startswith("L-") or several) and self.permanent <= self.epsilon:
            raise ParameterError("permanent", f"{self.permanent} is not above ε = {self.epsilon}")
        if self.between and not all(0 <= value < self.size for value in self.between):
            raise ParameterError("between", f"values are 0 to {self.size - 1}")
        if self.between and self.protocol[:4] in ("SPL-", "SMP-"):
            raise ParameterError("between", "not for reports about several attributes")

    def claim(self, pair: Pair) -> Claim | None:
        if self.reports == 1:
            return super().claim(pair)
        return self.about(pair, PureDP(self.permanent))


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
