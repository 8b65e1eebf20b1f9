"""Releases by the tools, models and mechanisms of diffprivlib."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dpframe.plugins import ApproxDP, Claim, Ge, Gt, Le, Lt, Pair
from dpframe_libraries.base import PROGRAMS, Categories, OfNumbers, Pure


class Diffprivlib(OfNumbers):
    """A release by diffprivlib of columns of numbers."""

    module: ClassVar = PROGRAMS / "use_diffprivlib.py"
    digits: Annotated[int, Ge(0), Le(15)] | None = None
    """Number of decimal digits released; default: all bits."""


class Tool(Diffprivlib, name="diffprivlib-tool"):
    """A statistic of one column: `diffprivlib.tools`.

    Claim: ε for one record that is replaced; the number of records is public.
    """

    part: ClassVar[str] = "tool"
    tool: Literal["mean", "sum", "var", "std", "median", "quantile", "nanmean", "nansum"]
    """The function."""
    quant: Annotated[float, Ge(0), Le(1)] = 0.5
    """The quantile, as for `quantile`."""


class Histogram(Diffprivlib, name="diffprivlib-histogram"):
    """Counts of bins of equal width: `diffprivlib.tools.histogram`.

    Claim: ε for one record that is added or removed.
    """

    part: ClassVar[str] = "histogram"
    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"
    bins: Annotated[int, Ge(1)] = 4
    """Number of bins between the bounds."""


class CountNonzero(Diffprivlib, name="diffprivlib-count-nonzero"):
    """The number of records that reach a threshold: `diffprivlib.tools.count_nonzero`.

    Claim: ε for one record that is replaced.
    """

    part: ClassVar[str] = "count_nonzero"
    threshold: float = 0.5
    """Records of at least this value are counted."""


class LinearRegression(Diffprivlib, name="diffprivlib-linear-regression"):
    """`diffprivlib.models.LinearRegression`; the last column is predicted from the others.

    Claim: ε for one record that is replaced. Released: `coef_` and `intercept_`.
    """

    part: ClassVar[str] = "LinearRegression"
    fit_intercept: bool = True
    """As in the library; without it, nothing is clipped."""


class OfClasses(Diffprivlib):
    """Columns of numbers, and a last column with the class."""

    categories: Categories = ("a", "b")
    """The possible classes."""


class GaussianNB(OfClasses, name="diffprivlib-gaussian-nb"):
    """`diffprivlib.models.GaussianNB`; the last column is the class.

    Claim: ε for one record that is replaced. Released: means, variances, priors.
    """

    part: ClassVar[str] = "GaussianNB"


class LogisticRegression(OfClasses, name="diffprivlib-logistic-regression"):
    """`diffprivlib.models.LogisticRegression`; the last column is the class.

    Claim: ε for one record that is replaced. Released: `coef_` and `intercept_`.
    """

    part: ClassVar[str] = "LogisticRegression"


class RandomForest(OfClasses, name="diffprivlib-random-forest"):
    """`diffprivlib.models.RandomForestClassifier`, one tree; the last column is the class.

    Claim: ε for one record that is replaced. Released: the values of the tree's nodes.
    """

    part: ClassVar[str] = "RandomForestClassifier"


class KMeans(Diffprivlib, name="diffprivlib-k-means"):
    """`diffprivlib.models.KMeans` with two clusters.

    Claim: ε for one record that is replaced. Released: the centres.
    """

    part: ClassVar[str] = "KMeans"


class PCA(Diffprivlib, name="diffprivlib-pca"):
    """`diffprivlib.models.PCA`, one component.

    Claim: ε for one record that is replaced. Released: component, mean, variance.
    """

    part: ClassVar[str] = "PCA"


class StandardScaler(Diffprivlib, name="diffprivlib-standard-scaler"):
    """`diffprivlib.models.StandardScaler`.

    Claim: ε for one record that is replaced. Released: means and variances.
    """

    part: ClassVar[str] = "StandardScaler"


class Bingham(Diffprivlib, name="diffprivlib-bingham"):
    """`diffprivlib.mechanisms.Bingham`: a direction in which records of norm 1 spread.

    Claim: ε for one record that is replaced.
    """

    part: ClassVar[str] = "Bingham"


class Noise(Diffprivlib, name="diffprivlib-noise"):
    """A mechanism of `diffprivlib.mechanisms` that adds noise, on the sum of a clipped column.

    Claim: ε, with δ if the mechanism has one, for one record that is replaced.
    """

    part: ClassVar[str] = "mechanism"
    mechanism: Literal[
        "Laplace",
        "LaplaceTruncated",
        "LaplaceFolded",
        "LaplaceBoundedDomain",
        "LaplaceBoundedNoise",
        "Staircase",
        "Snapping",
        "Gaussian",
        "GaussianAnalytic",
        "GaussianDiscrete",
        "Geometric",
        "GeometricTruncated",
        "GeometricFolded",
        "Uniform",
    ]
    """The class of the mechanism. If it takes bounds, they are the bounds of the sum."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-3
    """δ, for mechanisms that have one."""

    def claim(self, pair: Pair) -> Claim | None:
        if self.mechanism == "Uniform":
            return self.about(pair, ApproxDP(0.0, self.delta))
        if self.mechanism in ("LaplaceBoundedNoise", *GAUSSIAN):
            return self.about(pair, ApproxDP(self.epsilon, self.delta))
        return super().claim(pair)


GAUSSIAN = ("Gaussian", "GaussianAnalytic", "GaussianDiscrete")


class Choice(Pure, name="diffprivlib-choice"):
    """A mechanism of `diffprivlib.mechanisms` that returns a category.

    Binary and ExponentialCategorical use the first record; the others select the most frequent
    category. Claim: ε for one record that is replaced.
    """

    module: ClassVar = PROGRAMS / "use_diffprivlib.py"
    part: ClassVar[str] = "choice"
    mechanism: Literal["Binary", "Exponential", "PermuteAndFlip", "ExponentialCategorical"]
    """The class of the mechanism."""
    categories: Categories = ("a", "b")
    """The possible categories."""
