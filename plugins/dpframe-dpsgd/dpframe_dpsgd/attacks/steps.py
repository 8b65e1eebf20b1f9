"""Attacks on the observed steps of training."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Attack, Ge, HostArray, Key, Target, Tree
from dpframe_dpsgd.attacks.evidence import strongest
from dpframe_dpsgd.attacks.scores import COLUMN, candidates, likelihood_ratio
from dpframe_dpsgd.training import Training


class OfSteps(Attack):
    """Base class of attacks on the observations of every step."""

    gives: ClassVar[Literal["decision", "score"]] = "score"

    def unsuited(self, target: Target) -> str | None:
        if not isinstance(target.mechanism, Training) or len(target.dims) != 2:
            return 'takes views of the training steps: output = "steps"'
        return None

    def parameters_of(self, target: Target) -> dict[str, Any]:
        """Return the parameters that the optimal score needs."""
        mechanism: Any = target.mechanism
        return {"rate": np.float64(mechanism.rate), "noise": np.float64(mechanism.noise_multiplier)}


class CanarySteps(OfSteps, name="canary-steps"):
    """Score the white-box observations of the steps of training [Koskela2024, Algorithm 4].

    `view` selects the observation of each step, and `combine` turns the steps into one score.
    "single" uses `step` alone, and "sum" adds the steps up. "likelihood-ratio" is the optimal score
    for a correct trainer: the sum of the log-ratios of qN(s, σ²) + (1 − q)N(0, σ²) to N(0, σ²) at
    the residuals.
    """

    view: Literal["residual", "score", "difference", "norm", "moved", "distance"] = "residual"
    """residual: the released sum minus the known gradients, in the direction of the canary. score:
    the released sum itself in that direction. difference: the residual minus that of the previous
    step. norm: the norm of the residual. moved, distance: the model's movement beyond the known
    step, in the direction of the canary or in any direction."""
    combine: Literal["single", "sum", "likelihood-ratio"] = "single"
    """The rule that combines the steps into a score."""
    step: Annotated[int, Ge(0)] = 0
    """The step, counted from 0."""

    def unsuited(self, target: Target) -> str | None:
        reason = super().unsuited(target)
        if reason is None and self.combine == "single" and self.step >= target.dims[0]:
            return f"there is no step {self.step}: there are {target.dims[0]}, counted from 0"
        return reason

    def learns(self) -> bool:
        return False

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        return self.parameters_of(target)

    def score(self, state: Tree, outputs: Array) -> Array:
        values = outputs[..., COLUMN[self.view]]
        if self.combine == "single":
            return values[:, self.step]
        if self.combine == "sum":
            return values.sum(1)
        rate, noise = (state[name].astype(values.dtype) for name in ("rate", "noise"))
        return likelihood_ratio(outputs, rate, noise)


class CanarySearch(OfSteps, name="canary-search"):
    """Use the white-box observation that refutes the claim most clearly on the fit stream.

    The candidates are the likelihood ratio, every view of every step, the sum and maximum of each
    view, the difference between any two residuals, and the mean absolute difference of residuals at
    each lag, each in both directions. The attack takes the one whose error rates lie furthest below
    the claimed trade-off curve, in standard deviations. The bound uses other draws. This attack is
    meant for mistakes that no specific attack covers.
    """

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        state = self.parameters_of(target)
        both = [np.asarray(candidates(jnp.asarray(seen), **state)) for seen in train]
        claim = target.mechanism.claim(target.pair)
        place, sign = strongest(both[0], both[1], claim)
        return {**state, "place": np.int32(place), "sign": np.float64(sign)}

    def score(self, state: Tree, outputs: Array) -> Array:
        rate, noise, sign = (state[k].astype(outputs.dtype) for k in ("rate", "noise", "sign"))
        scores: Array = sign * jnp.take(candidates(outputs, rate, noise), state["place"], axis=1)
        return scores
