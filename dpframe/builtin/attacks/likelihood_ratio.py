"""The best attack there is, for mechanisms that know their density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dpframe import Attack, Mechanism, as_traced

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Key, Target, Tree

LOOKED_AT = 10_000
"""Outputs per dataset that the spread is taken from."""

FINENESS = 1024
"""Steps to a spread: fine enough to lose nothing, and far above the last bits of a float."""


class LikelihoodRatio(Attack, name="likelihood-ratio"):
    """ln of the density on D′ over that on D, of mechanisms that give `log_density`.

    No attack does better at any false-positive rate [Neyman1933], so it is what other
    attacks are measured by. That holds for the mechanism over the real numbers, and if
    `log_density` is the density of what `sample` does. In floating point the last bits of an output
    can tell D from D′ although their densities hardly differ [Mironov2012], and a ratio of
    densities brings them to light. So each coordinate is first rounded to a multiple of a power of
    two, about a thousandth of its spread in the fit stream. Where both densities are 0, or both
    infinite, the score is NaN.
    """

    gives = "score"

    low_bits: bool = False
    """True: outputs are not rounded, and what floating point leaks is seen; nothing is drawn to
    learn from."""

    def unsuited(self, target: Target) -> str | None:
        mechanism = target.mechanism
        if isinstance(mechanism, Mechanism) and mechanism.has_log_density():
            return None
        return f"{mechanism.name} gives no log_density"

    def learns(self) -> bool:
        return not self.low_bits

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        d0, d1 = as_traced(target.pair.d0, target.pair.d1)
        state = {"mechanism": target.mechanism, "d0": d0, "d1": d1}
        return state if self.low_bits else {**state, "step": _steps(train)}

    def score(self, state: Tree, outputs: Array) -> Array:
        exact = _log_ratio(state, outputs)
        if self.low_bits or not jnp.issubdtype(outputs.dtype, jnp.floating):
            return exact
        step = state["step"].astype(outputs.dtype)
        rounded = _log_ratio(state, jnp.where(step > 0, jnp.round(outputs / step) * step, outputs))
        # Rounding may carry an output over the edge of a support; there the exact one decides.
        return jnp.where(jnp.isfinite(exact) & jnp.isfinite(rounded), rounded, exact)


def _log_ratio(state: Tree, outputs: Array) -> Array:
    mechanism: Mechanism = state["mechanism"]
    d0, d1 = (mechanism.log_density(state[data], outputs) for data in ("d0", "d1"))
    return d1 - d0


def _steps(train: tuple[HostArray, HostArray]) -> Floats:
    """Per coordinate the power of two to round to; 0 where outputs do not vary."""
    seen = np.concatenate([np.asarray(outputs[:LOOKED_AT], np.float64) for outputs in train])
    columns = seen.reshape(len(seen), -1).T
    steps = []
    for column in columns:
        finite = column[np.isfinite(column)]
        low, q05, q95, high = np.quantile(finite, [0, 0.05, 0.95, 1]) if len(finite) else [0.0] * 4
        spread = q95 - q05 or high - low
        steps.append(2.0 ** np.floor(np.log2(spread / FINENESS)) if spread > 0 else 0.0)
    return np.reshape(steps, seen.shape[1:])
