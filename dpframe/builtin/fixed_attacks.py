"""Attacks that learn nothing, or one threshold."""

from typing import Any, Literal

import numpy as np

from dpframe.builtin import columns as _columns
from dpframe.plugins import (
    Array,
    Attack,
    Floats,
    HostArray,
    Ints,
    Key,
    Mechanism,
    Target,
    Tree,
    as_traced,
    clopper_pearson_upper,
)


class Canaries(Attack, name="canaries"):
    """The scores and memberships of canaries, as a mechanism with many canaries releases them.

    For mechanisms whose release is a whole run, of shape [2, m]. Larger scores must mean that a
    canary was in.
    """

    gives = "canaries"
    portable = True

    def unsuited(self, target: Target) -> str | None:
        if len(target.dims) == 2 and target.dims[0] == 2 and target.dims[1] > 0:
            return None
        return f"requires scores and memberships, [2, m]; outputs have shape {target.dims}"

    def score(self, state: Tree, outputs: Array) -> Array:
        return _columns.floats(outputs)


class Identity(Attack, name="identity"):
    """The score is the output itself, for mechanisms that release a single number.

    Larger outputs must mean D′. For log-concave noise the likelihood ratio never falls with the
    output, so no attack is better. NaN stays NaN.
    """

    gives = "score"
    portable = True
    hands_out = True

    def unsuited(self, target: Target) -> str | None:
        return _columns.not_one_number(target)

    def score(self, state: Tree, outputs: Array) -> Array:
        return _columns.numbers(outputs)


LOOKED_AT = 10_000  # outputs per dataset from which the spread is estimated

# Rounding steps in a spread: fine enough to lose nothing, far coarser than the last bits of floats.
FINENESS = 1024


class LikelihoodRatio(Attack, name="likelihood-ratio"):
    """ln of the density on D′ over that on D, of mechanisms that give `log_density`.

    No attack is better at any false-positive rate [Neyman1933], so other attacks are compared with
    it. This holds for the mechanism over the real numbers, if `log_density` is the density of
    `sample`. In floating point, the last bits of an output can reveal the dataset although the
    densities hardly differ [Mironov2012], and a ratio of densities shows this. So each coordinate
    is first rounded to a multiple of a power of two, about a thousandth of its spread in the fit
    stream. If both densities are 0, or both infinite, the score is NaN.
    """

    gives = "score"

    low_bits: bool = False
    """True: outputs are not rounded, so the attack sees leaks of floating-point arithmetic; nothing
    is drawn to learn from."""

    def unsuited(self, target: Target) -> str | None:
        mechanism = target.mechanism
        if isinstance(mechanism, Mechanism) and mechanism.has_log_density():
            return None
        return f"{mechanism.name} has no log_density"

    def learns(self) -> bool:
        return not self.low_bits

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        d0, d1 = as_traced(target.pair.d0, target.pair.d1)
        state = {"mechanism": target.mechanism, "d0": d0, "d1": d1}
        return state if self.low_bits else {**state, "step": _steps(train)}

    def score(self, state: Tree, outputs: Array) -> Array:
        exact = _log_ratio(state, outputs)
        if self.low_bits or not _columns.is_floating(outputs.dtype):
            return exact
        xp, step = outputs.__array_namespace__(), state["step"].astype(outputs.dtype)
        rounded = _log_ratio(state, xp.where(step > 0, xp.round(outputs / step) * step, outputs))
        # Rounding may move an output out of the support; then the exact ratio is used.
        scores: Array = xp.where(xp.isfinite(exact) & xp.isfinite(rounded), rounded, exact)
        return scores


def _log_ratio(state: Tree, outputs: Array) -> Array:
    mechanism: Mechanism = state["mechanism"]
    d0, d1 = (mechanism.log_density(state[data], outputs) for data in ("d0", "d1"))
    for logs in (d0, d1):
        if (shape := getattr(logs, "shape", None)) != outputs.shape[:1]:
            given = type(logs).__name__ if shape is None else f"shape {shape}"
            raise ValueError(f"log_density returned {given} for {len(outputs)} outputs")
    return d1 - d0


def _steps(train: tuple[HostArray, HostArray]) -> Floats:
    """Return the power of two to round each coordinate to; 0 if it does not vary."""
    seen = np.concatenate([np.asarray(outputs[:LOOKED_AT], np.float64) for outputs in train])
    columns = seen.reshape(len(seen), -1).T
    steps = []
    for column in columns:
        finite = column[np.isfinite(column)]
        low, q05, q95, high = np.quantile(finite, [0, 0.05, 0.95, 1]) if len(finite) else [0.0] * 4
        spread = q95 - q05 or high - low
        steps.append(2.0 ** np.floor(np.log2(spread / FINENESS)) if spread > 0 else 0.0)
    return np.reshape(steps, seen.shape[1:])


class MajorityVote(Attack, name="majority-vote"):
    """Rounds each coordinate to 0 or 1 and lets the majority decide [Habernal2022, section 4].

    A coordinate counts as 1 unless it is at most 0.5, so NaN counts as 1. A tie decides for D:
    at dim 2 the vote is an AND. For a mechanism that sets each coordinate to 1 with probability
    p, independently, Pr[decide D′] = Pr[Bin(dim, p) > dim/2].
    """

    gives = "decision"
    portable = True

    def score(self, state: Tree, outputs: Array) -> Array:
        ones = ~(outputs <= 0.5)
        coordinates = ones.reshape(len(ones), -1)
        votes: Array = 2 * _row_sums(coordinates) > coordinates.shape[1]
        return votes


def _row_sums(mask: Any) -> Any:
    """Count the True entries of each row of a boolean array [n, dim], as int32.

    XLA writes an int32 for every entry of a long row and adds those up. Adding four bytes as one
    word, or rows folded in bytes to 16 columns, is faster at the lengths below.
    """
    n, dim = mask.shape
    if dim in (16, 32) and not isinstance(mask, np.ndarray):
        four_each = mask.astype(np.uint8).reshape(n, dim // 4, 4)
        four = _columns.bits_of(four_each, np.uint32).sum(axis=1, dtype=np.uint32)
        return ((four * np.uint32(0x01010101)) >> np.uint32(24)).astype(np.int32)
    if 32 < dim <= 512:
        whole = dim - dim % 16
        folded = mask[:, :whole].reshape(n, whole // 16, 16).sum(axis=1, dtype=np.uint8)
        rest = mask[:, whole:].sum(axis=1, dtype=np.int32)
        return folded.sum(axis=1, dtype=np.int32) + rest
    return mask.sum(axis=1, dtype=np.int32)


class Projection(Attack, name="projection"):
    """Distance of the output from the midpoint of D and D′, along the line from D to D′.

    With v = D′ − D the score is ⟨v, output − (D + D′)/2⟩/‖v‖: 0 half-way, ±‖v‖/2 at the datasets.
    Outputs must have the shape of the data. If independent noise of one distribution is added to
    all coordinates, no linear score moves by more standard deviations; if the noise is Gaussian, no
    attack is better [Neyman1933]. Coordinates in which D and D′ agree are ignored; a NaN in any
    other coordinate makes the score NaN.
    """

    gives = "score"
    portable = True

    def unsuited(self, target: Target) -> str | None:
        shapes = [getattr(data, "shape", None) for data in (target.pair.d0, target.pair.d1)]
        shape = shapes[0]
        if shape is None or shapes[1] != shape:
            return "projects on the line from D to D′, which requires two arrays of the same shape"
        if target.dims != shape:
            return f"takes outputs with the shape of the data, {shape}; these have {target.dims}"
        return None if target.pair.distance(2) > 0 else "D and D′ are equal"

    def learns(self) -> bool:
        return False

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        d0, d1 = (np.asarray(data, np.float64) for data in (target.pair.d0, target.pair.d1))
        line = (d1 - d0).ravel()
        return {"direction": line / np.linalg.norm(line), "midpoint": (d0 + d1).ravel() / 2}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = _columns.vectors(outputs)
        direction = state["direction"].astype(x.dtype)
        parts = (x - state["midpoint"].astype(x.dtype)) * direction
        xp = x.__array_namespace__()
        scores: Array = xp.sum(xp.where(direction == 0, 0, parts), axis=1)
        return scores


CANDIDATES = 512
CHOICE_ERROR = 0.05
"""Error at which the fit stream would certify the bound by which a threshold is chosen."""


class Threshold(Attack, name="threshold"):
    """Decides for D′ if a single number reaches a threshold, from below or from above.

    Missing parameters are chosen on the fit stream, from 512 cuts that are dense in the tails and
    from both directions: those whose Clopper-Pearson limits there certify the largest ε, at the
    claim's own δ (0 without a claim). NaN decides for D.
    """

    gives = "decision"
    portable = True

    value: float | None = None
    """The threshold; default: chosen on the fit stream."""
    direction: Literal["up", "down", "either"] = "either"
    """Numbers at or above the threshold mean D′ ("up"), or those at or below it ("down"); "either":
    the direction is also chosen."""

    def unsuited(self, target: Target) -> str | None:
        return _columns.not_one_number(target)

    def learns(self) -> bool:
        return self.value is None or self.direction == "either"

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        if not self.learns():
            return {"value": self.value, "up": self.direction == "up"}
        sides = [np.sort(_columns.host_numbers(outputs)) for outputs in train]
        seen = [x[: np.searchsorted(x, np.nan)] for x in sides]  # NaN comes last
        values = np.array([0.0 if self.value is None else self.value])
        if self.value is None and len(pooled := np.sort(np.concatenate(seen))):
            values = _columns.cuts(pooled, CANDIDATES)
        claim = target.mechanism.claim(target.pair)
        delta = 0.0 if claim is None else claim.default_delta
        n0, n1 = (len(x) for x in sides)
        best = (-np.inf, values[0], True)
        for up in {"up": (True,), "down": (False,), "either": (True, False)}[self.direction]:
            false, true = (_decided(x, values, up) for x in seen)
            worth = _certified(false, n1 - true, n0, n1, delta)
            at = int(np.argmax(worth))
            best = max(best, (float(worth[at]), values[at], up), key=lambda choice: choice[0])
        return {"value": best[1], "up": best[2]}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = _columns.numbers(outputs)
        value = state["value"].astype(x.dtype)
        decisions: Array = x.__array_namespace__().where(state["up"], x >= value, x <= value)
        return decisions


def _decided(sorted_numbers: Floats, values: Floats, up: bool) -> Ints:
    """Count the numbers for which each threshold decides D′."""
    if up:
        return len(sorted_numbers) - np.searchsorted(sorted_numbers, values, side="left")
    return np.searchsorted(sorted_numbers, values, side="right")


def _certified(false: Ints, missed: Ints, n0: int, n1: int, delta: float) -> Floats:
    """Return the ε that the limits of both error rates certify; negative if they certify none."""
    fpr = clopper_pearson_upper(false, n0, CHOICE_ERROR / 2)
    fnr = clopper_pearson_upper(missed, n1, CHOICE_ERROR / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        either = np.maximum((1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr)
        # Without a certified ε, a smaller sum of the error rates is better.
        return np.where(either > 1, np.log(either), 1 - fpr - fnr - 2)
