"""OpenDP's measurements and chains of them, from version 0.4 on if the version has them."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from dpframe.plugins import Claim, Ge, Gt, Le, Lt, Pair, PureDP, ZeroConcentratedDP
from dpframe_libraries.base import PROGRAMS, Bounds, Categories, OfNumbers, Pure, Released

MODULE = PROGRAMS / "use_opendp.py"


class Laplace(Pure, name="opendp-laplace"):
    """`make_laplace` on the sum of a clipped column; before 0.6 `make_base_laplace`.

    Claim: ε = (high − low)/scale for one record that is replaced, as `map` states.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "laplace"
    bounds: Bounds = ((0.0, 1.0),)
    """[low, high] of the column."""
    whole: bool = False
    """True if the sum and the noise are integers."""


class Gaussian(Released, name="opendp-gaussian"):
    """`make_gaussian` on the sum of a clipped column.

    Claim: ρ = ((high − low)/scale)²/2 for one record that is replaced, as `map` states.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "gaussian"
    rho: Annotated[float, Gt(0)] = 0.5
    """The claimed loss."""
    bounds: Bounds = ((0.0, 1.0),)
    """[low, high] of the column."""
    whole: bool = False
    """True if the sum and the noise are integers."""

    def claim(self, pair: Pair) -> Claim | None:
        return self.about(pair, ZeroConcentratedDP(self.rho))


class ResponseBool(Released, name="opendp-randomized-response-bool"):
    """`make_randomized_response_bool` on the first record: is it the second category?

    Claim: ε = ln(p/(1 − p)) for one record that is replaced.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "bit"
    probability: Annotated[float, Gt(0.5), Lt(1)] = 0.75
    """Probability of a true answer."""
    categories: Categories = ("no", "yes")
    """The two categories."""

    def claim(self, pair: Pair) -> Claim | None:
        return self.about(pair, PureDP(math.log(self.probability / (1 - self.probability))))


class Response(Released, name="opendp-randomized-response"):
    """`make_randomized_response` on the first record.

    Claim: ε = ln(p (k − 1)/(1 − p)) with k categories, for one record that is replaced.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "category"
    probability: Annotated[float, Gt(0), Lt(1)] = 0.75
    """Probability of a true answer."""
    categories: Categories = ("a", "b", "c")
    """The possible categories."""

    def claim(self, pair: Pair) -> Claim | None:
        odds = self.probability * (len(self.categories) - 1) / (1 - self.probability)
        return self.about(pair, PureDP(math.log(odds)))


class ResponseBits(Released, name="opendp-randomized-response-bitvec"):
    """`make_randomized_response_bitvec` on the first record's category, as a vector with one bit.

    Claim: ε = 2 ln((2 − f)/f) for one record that is replaced, as `map` states.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "bits"
    flip: Annotated[float, Gt(0), Le(1)] = 0.5
    """f of RAPPOR."""
    categories: Categories = ("a", "b", "c", "d", "e", "f", "g", "h")
    """The possible categories, one bit for each."""

    def claim(self, pair: Pair) -> Claim | None:
        return self.about(pair, PureDP(2 * math.log((2 - self.flip) / self.flip)))


class Statistic(OfNumbers, name="opendp-statistic"):
    """A sum, mean, variance or sum of squared deviations of known size, with `make_laplace`.

    The library cleans and clamps the data itself. Claim: ε for one record that is replaced; the
    scale is the value of the transformation's map ÷ ε.
    """

    module: ClassVar = PROGRAMS / "use_opendp_statistic.py"
    part: ClassVar[str] = "statistic"
    statistic: Literal["sum", "mean", "variance", "sum_of_squared_deviations"]
    """The transformation."""
    size: Annotated[int, Ge(1)] = 1
    """Number of records; needed to check the sensitivity without noise."""


class Quantile(OfNumbers, name="opendp-quantile"):
    """`make_private_quantile` among eleven candidates between the bounds.

    Claim: ε for one record that is replaced.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "quantile"
    quant: Annotated[float, Ge(0), Le(1)] = 0.5
    """The quantile."""


class NoisyMax(Pure, name="opendp-noisy-max"):
    """`make_noisy_max` on the counts of categories.

    Claim: ε for one record that is replaced, which moves every count by at most one.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "noisy-max"
    categories: Categories = ("a", "b", "c")
    """The possible categories."""


class GroupBy(Pure, name="opendp-group-by"):
    """The sum of a column by group, with all groups fixed in advance; through Polars.

    A record is a group and a number. Claim: ε for one record that is added or removed.
    """

    module: ClassVar = MODULE
    part: ClassVar[str] = "group-by"
    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"
    bounds: Bounds = ((0.0, 1.0),)
    """[low, high] of the numbers."""
    categories: Categories = ("a", "b", "c")
    """The groups."""
    most: Annotated[int, Ge(1)] = 100
    """The largest possible size of a group."""
