"""Attacks on the observed steps of training."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Attack, Claim, Floats, Ge, HostArray, Key, Target, Tree
from dpframe_dpsgd.training import Training
from dpframe_dpsgd.white_box import VIEWS

COLUMN = {name: place for place, name in enumerate(VIEWS)}
LAGS = 16
"""Steps between which residuals are compared."""


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


def likelihood_ratio(seen: Array, rate: Any, noise: Any) -> Array:
    """Return the optimal score for a correct trainer.

    It is the sum over all steps of the log-ratio of qN(s, σ²) + (1 − q)N(0, σ²) to N(0, σ²) at the
    residual. Here s is the distance by which the canary would have moved the sum.

    Args:
        seen: shape [n, steps, views].
        rate: q.
        noise: σ.

    Returns:
        Shape [n].
    """
    residual, shift = seen[..., COLUMN["residual"]], seen[..., COLUMN["shift"]]
    ratio = (2 * shift * residual - shift**2) / (2 * noise**2)
    return jnp.logaddexp(jnp.log1p(-rate), jnp.log(rate) + ratio).sum(1)


def candidates(seen: Array, rate: Any, noise: Any) -> Array:
    """Return every score that an audit may choose from.

    They are the likelihood ratio; each view of each step, and its sum and its maximum over the
    steps; the difference between the residuals of any two steps; and for each lag the mean absolute
    difference between residuals that are this many steps apart. The last is 0 if the noise repeats
    and no canary was sampled.

    Args:
        seen: shape [n, steps, views].
        rate: q.
        noise: σ.

    Returns:
        Shape [n, candidates].
    """
    steps = min(seen.shape[1], LAGS)
    first, second = jnp.triu_indices(steps, 1)
    residual = seen[:, :, COLUMN["residual"]]
    apart = [
        jnp.mean(jnp.abs(residual[:, lag:] - residual[:, :-lag]), axis=1, keepdims=True)
        for lag in range(1, steps)
    ]
    return jnp.concatenate(
        [
            likelihood_ratio(seen, rate, noise)[:, None],
            seen.reshape(len(seen), -1),
            seen.sum(1),
            seen.max(1),
            residual[:, second] - residual[:, first],
            *apart,
        ],
        axis=1,
    )


def strongest(scores0: HostArray, scores1: HostArray, claim: Claim | None) -> tuple[int, float]:
    """Return the column whose error rates lie furthest below the claimed trade-off curve.

    Args:
        scores0: on D, shape [n, candidates].
        scores1: on D′, shape [m, candidates].
        claim: gives the curve; None means the curve of outputs that do not depend on the data.

    Returns:
        The column, and 1.0 if larger values indicate D′, or −1.0 if smaller values do.
    """
    found = [
        (_distance(sign * scores0[:, k], sign * scores1[:, k], claim), -k, sign)
        for k in range(scores0.shape[1])
        for sign in (1.0, -1.0)
    ]
    _, column, sign = max(found)
    return -column, sign


def _distance(scores0: Floats, scores1: Floats, claim: Claim | None) -> float:
    """Return the largest distance below the curve over all thresholds, in standard deviations."""
    if not (np.isfinite(scores0).all() and np.isfinite(scores1).all()):
        return -np.inf
    n, m = len(scores0), len(scores1)
    cuts = np.unique(scores1)
    above = n - np.searchsorted(np.sort(scores0), cuts)
    below = np.searchsorted(np.sort(scores1), cuts)
    # Two hits and two misses are added [Agresti1998], so that few draws prove little.
    fpr, fnr = (above + 2) / (n + 4), (below + 2) / (m + 4)
    curve = (lambda a: 1 - a) if claim is None else claim.tradeoff
    step = np.sqrt(fpr * (1 - fpr) / n)
    slack = curve(np.maximum(fpr - step, 0.0)) - curve(np.minimum(fpr + step, 1.0))
    deviation = np.sqrt(fnr * (1 - fnr) / m + (slack / 2) ** 2)
    return float(np.max((curve(fpr) - fnr) / deviation))
