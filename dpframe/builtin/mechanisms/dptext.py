"""DPText's reparametrisation trick: the inverse CDF of one uniform fed with another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import jax.numpy as jnp
import numpy as np

from dpframe.builtin.mechanisms._calibrated import Calibrated
from dpframe.builtin.mechanisms._laplace import from_uniform
from dpframe.builtin.mechanisms._logarithm import log

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key


class DPText(Calibrated, name="dptext"):
    """x + noise with v ~ Uni(0, 1) in −(Δ/ε) sgn(v) ln(1 − 2|v|), as DPText samples it.

    The formula needs v ~ Uni(−½, ½) [Habernal2022, equations 8 and 9]. Here the noise is never
    negative, and NaN for v > ½, which `nan` says how to treat. Claim: ε-DP; false. True ε for the
    zeros-ones pair: infinite (Theorem 3.2), since D′ never releases less than 1. A coordinate
    rounds to 1 always on D′; on D with probability ½e^{−ε/2Δ} ("zero"), e^{−ε/2Δ} ("resample"),
    or ½ + ½e^{−ε/2Δ} ("keep", where NaN counts as 1).
    """

    nan: Literal["zero", "resample", "keep"] = "zero"
    """NaN noise becomes 0, is drawn again until it is a number, or stays in the output."""

    @property
    def may_be_nan(self) -> bool:
        return self.nan == "keep"

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        """Half of the formula's v give noise that is exponential, the others NaN."""
        if np.size(data) != 1:
            return None
        noise = x - np.ravel(data)[0]
        below: HostArray = -np.expm1(-np.maximum(noise, 0) / self.scale)
        if self.nan == "resample":
            return below
        return below / 2 + 0.5 * (noise >= 0) if self.nan == "zero" else below / 2

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noise = from_uniform(self._noise, key, data, n)
        return data + self.scale * noise

    def _noise(self, v: Array) -> Array:
        """The noise of scale 1; sgn(v) is 1, up to v = 0, where the noise is 0 either way."""
        if self.nan == "resample":
            return -log(1 - v)  # the law of v given that the noise is a number is that of v/2
        return jnp.where(v > 0.5, 0.0 if self.nan == "zero" else jnp.nan, -log(1 - 2 * v))

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Infinite where noise that was NaN has become 0: an atom, for one dataset only."""
        noise = (outputs - data).reshape(len(outputs), -1)
        logs = -noise / self.scale
        if self.nan == "zero":
            logs = jnp.where(noise == 0, jnp.inf, logs)
        logs = jnp.where(jnp.isnan(noise), 0.0, logs)  # as often on either dataset
        return jnp.where(jnp.any(noise < 0, axis=1), -jnp.inf, jnp.sum(logs, axis=1))
