"""One training step by Opacus or jax-privacy."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dpframe.plugins import ApproxDP, Claim, GaussianDP, Ge, Gt, Le, Lt, Pair
from dpframe_libraries.base import PROGRAMS, Bounds, Released


class Training(Released):
    """A training step for which a library clips gradients and adds noise."""

    relation: ClassVar[Literal["replace", "add-remove"]] = "add-remove"
    bounds: Bounds = ((-1.0, 1.0),)
    """[low, high] of each column; the table is cleaned before the library sees it."""
    noise_multiplier: Annotated[float, Gt(0)] = 1.0
    """Standard deviation of the noise ÷ the bound on the gradients' norms."""
    digits: Annotated[int, Ge(0), Le(15)] | None = None
    """Number of decimal digits released; default: all bits."""


class Opacus(Training):
    """A step of Opacus; the claim is the ε that an accountant of Opacus states for one step."""

    module: ClassVar = PROGRAMS / "use_opacus.py"
    epsilon: Annotated[float, Gt(0)]
    """The accountant's result; `accounted` in the program computes it."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5
    """The δ at which it is computed."""
    accountant: Literal["rdp", "gdp"] = "rdp"
    """The source of the claim."""
    sample_rate: Annotated[float, Gt(0), Le(1)] = 1.0
    """Probability with which a record takes part in the step."""

    def claim(self, pair: Pair) -> Claim | None:
        return self.about(pair, ApproxDP(self.epsilon, self.delta))


class OpacusStep(Opacus, name="opacus-step"):
    """`DPOptimizer.step` with the records as gradients, each clipped to norm 1.

    Claim: (ε, δ) of Opacus' accountant for one record that is added or removed.
    """

    part: ClassVar[str] = "step"


class OpacusEngine(Opacus, name="opacus-engine"):
    """`PrivacyEngine.make_private`, and one step with all records on a one-hidden-layer network.

    The last column is the target. Claim: (ε, δ) of Opacus' accountant for one record that is added
    or removed. Released: the change of all parameters.
    """

    part: ClassVar[str] = "engine"


class JaxPrivacy(Training, name="jax-privacy-gradient"):
    """`clipped_grad` of a linear model and `gaussian_privatizer`; the last column is the target.

    Claim: 1/noise_multiplier-Gaussian DP for one record that is added or removed.
    """

    module: ClassVar = PROGRAMS / "use_jax_privacy.py"
    part: ClassVar[str] = "gradient"

    def claim(self, pair: Pair) -> Claim | None:
        return self.about(pair, GaussianDP(1 / self.noise_multiplier))
