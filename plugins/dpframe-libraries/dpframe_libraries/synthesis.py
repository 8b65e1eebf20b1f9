"""DataSynthesizer and SmartNoise: components of synthesizers, and bounds of columns."""

from __future__ import annotations

from typing import ClassVar, Literal

from dpframe_libraries.base import PROGRAMS, Bounds, Categories, Pure


class Counts(Pure, name="datasynthesizer-counts"):
    """Noisy counts of two attributes for PrivBayes: `get_noisy_distribution_of_attributes`.

    Claim: ε for one record that is added or removed. Each release has a new seed.
    """

    module: ClassVar = PROGRAMS / "use_datasynthesizer.py"
    part: ClassVar[str] = "counts"
    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"
    categories: Categories = ("a", "b")
    """The possible values of both attributes."""


class Describe(Pure, name="datasynthesizer-describe"):
    """The noisy distribution of one attribute: `describe_dataset_in_independent_attribute_mode`.

    Claim: ε for one record that is replaced.
    """

    module: ClassVar = PROGRAMS / "use_datasynthesizer.py"
    part: ClassVar[str] = "describe"
    categories: Categories = ("a", "b")
    """The possible values of the attribute."""
    seed: Literal["default", "fresh"] = "default"
    """The library's own seed, or a new one for each release."""


class ApproxBounds(Pure, name="smartnoise-approx-bounds"):
    """`snsql`'s `approx_bounds`: the powers of two between which a column lies.

    Claim: ε for one record that is added or removed.
    """

    module: ClassVar = PROGRAMS / "use_smartnoise.py"
    part: ClassVar[str] = "bounds"
    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"


class Covariance(Pure, name="smartnoise-covariance"):
    """`snsynth`'s `DPcovariance.release`.

    Claim: ε for one record that is replaced; the number of records is public.
    """

    module: ClassVar = PROGRAMS / "use_smartnoise.py"
    part: ClassVar[str] = "covariance"
    bounds: Bounds = ((0.0, 1.0), (0.0, 1.0))
    """[low, high] of each column, as passed to the library."""
    clean: bool = False
    """True if missing values become the lower bound and the rest is clipped before the library sees
    it."""
