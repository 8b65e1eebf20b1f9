"""Attacks that learn their score from draws."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import special

from dpframe.builtin import columns as _columns, learners as _learners
from dpframe.plugins import Array, Attack, Floats, Ge, Gt, HostArray, Ints, Key, Le, Target, Tree

# Standard deviations at which outputs are clipped before learning.
FURTHEST = 8.0
LOOKED_AT = 10_000  # outputs per dataset for mean and standard deviation


class Logistic(Attack, name="logistic"):
    """Log-odds of D′ by logistic regression on the coordinates of the output.

    For vectors of any length. Coordinates are standardised; the weights maximise the likelihood of
    the fit stream less ½λ‖w‖² per output, by Newton's method, so the same draws give the same
    weights. Coordinates that are NaN in all draws, such as those after the end of a short list, are
    ignored. Of the others, draws with a NaN are not used for learning, and an output with a NaN
    scores NaN.
    """

    gives = "score"
    portable = True

    ridge: Annotated[float, Gt(0)] = 1e-3
    """λ, which keeps weights finite if the datasets are perfectly separable."""

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        flat = [np.asarray(outputs, np.float64).reshape(len(outputs), -1) for outputs in train]
        used = ~np.all([np.isnan(rows).all(axis=0) for rows in flat], axis=0)
        seen = [_finite_rows(rows if used.all() else rows[:, used]) for rows in flat]
        if not used.any() or not all(map(len, seen)):
            raise ValueError("all outputs to learn from are NaN")
        centre, scale = _typical(np.concatenate([x[:LOOKED_AT] for x in seen]))
        rows = np.clip((np.concatenate(seen) - centre) / scale, -FURTHEST, FURTHEST)
        labels = np.repeat([0.0, 1.0], [len(x) for x in seen])
        intercept, weights = logistic_regression(rows, labels, self.ridge)
        full = np.where(used, 0.0, np.nan), np.zeros(len(used))
        for one, values in zip(full, (centre, weights / scale), strict=True):
            one[used] = values
        return {"centre": full[0], "weights": full[1], "intercept": np.float64(intercept)}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = _columns.vectors(outputs)
        xp = x.__array_namespace__()
        parts = (x - state["centre"].astype(x.dtype)) * state["weights"].astype(x.dtype)
        parts = xp.where(xp.isnan(state["centre"]), 0, parts)
        odds: Array = xp.sum(parts, axis=1) + state["intercept"].astype(x.dtype)
        return odds


NEWTON_STEPS = 100
TOLERANCE = 1e-10  # largest slope at the maximum
BLOCK = 2**14  # outputs whose features are computed or weighted at a time


def logistic_regression(rows: Floats, labels: Floats, ridge: float) -> tuple[float, Floats]:
    """Maximise the mean log-likelihood less ½ ridge ‖w‖², by Newton's method with halved steps.

    Args:
        rows: features, shape [n, k]; best standardised.
        labels: 0 or 1, shape [n].
        ridge: above 0; without it separable data would have no maximum.

    Returns:
        Intercept, which is not penalised, and weights, shape [k].
    """
    k = rows.shape[1]
    penalty = np.append(np.full(k, ridge), 0.0)
    weights = np.zeros(k + 1)

    def loss(w: Floats) -> float:
        margins = (rows @ w[:k] + w[k]) * (1 - 2 * labels)
        return float(np.logaddexp(0, margins).mean() + 0.5 * np.sum(penalty * w * w))

    now = loss(weights)
    for _ in range(NEWTON_STEPS):
        gradient, curvature = _derivatives(rows, labels, weights)
        gradient += penalty * weights
        if np.abs(gradient).max() < TOLERANCE:
            break
        # One class alone has no curvature left at the far end of the intercept.
        curvature[np.diag_indices(k + 1)] += penalty + 1e-12
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (then := loss(weights - length * step)) > now and length > 1e-6:
            length /= 2
        if then >= now:
            break
        weights, now = weights - length * step, then
    return float(weights[k]), weights[:k]


def _derivatives(rows: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return gradient and Hessian of the mean loss, the intercept last."""
    n, k = rows.shape
    gradient, curvature = np.zeros(k + 1), np.zeros((k + 1, k + 1))
    for start in range(0, n, BLOCK):
        part = np.column_stack([rows[start : start + BLOCK], np.ones(min(BLOCK, n - start))])
        odds = special.expit(part @ weights)
        gradient += (odds - labels[start : start + BLOCK]) @ part
        curvature += (part * (odds * (1 - odds))[:, None]).T @ part
    return gradient / n, curvature / n


def _typical(rows: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column, with 1 % clipped at either end."""
    inner = np.clip(rows, *np.quantile(rows, [0.01, 0.99], axis=0))
    scale = inner.std(axis=0)
    scale = np.where(scale > 0, scale, rows.std(axis=0))
    return inner.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _finite_rows(rows: Floats) -> Floats:
    """Return the rows without NaN; infinite entries become the largest finite one."""
    rows = rows[~np.isnan(rows).any(axis=1)]
    most = np.max(np.abs(rows), where=np.isfinite(rows), initial=0.0)
    return np.clip(rows, -most, most)


CHOSEN_BY = 2**12  # outputs per dataset by which ridge and features are chosen
DEEPER = 2**13  # outputs per dataset for training and judging the perceptron

# Approximate size of the feature matrix in the last fit; further outputs are left out.
ENTRIES = 2**20
THIN = 0.1  # from this ridge on the leak is small, and more outputs are used
FEWEST = 16  # outputs per dataset; fewer teach nothing
CLEARLY = 2.0  # standard errors by which the perceptron must do better on outputs that are held out


class Learned(Attack, name="learned"):
    """Log-odds of D′, learned from what the outputs of any mechanism look like.

    The features of a coordinate are flags (for NaN and up to eight frequent values), its value, and
    ramps between quantiles that are dense in the tails. Logistic regression on these features is a
    likelihood ratio of independent coordinates. A quarter of the fit stream chooses its ridge, and
    whether to use ramps. A small multilayer perceptron learns the rest, until it stops improving on
    that quarter, and is kept only if it clearly helps there. NaN, infinities and markers are
    outputs like any others.
    """

    gives = "score"
    portable = True
    slow_to_learn = True

    bits: bool = False
    """True to also look at the bits of floats: sign, exponent, the number of trailing zero bits,
    and the power of two of the last nonzero bit."""
    hidden: Annotated[int, Ge(0), Le(256)] = 32
    """Units in each of the two layers of the perceptron; 0: no perceptron."""

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        sides = [_columns.rows(outputs, self.bits) for outputs in train]
        if min(map(len, sides)) < FEWEST:
            return self.state(_columns.nothing(sides[0].shape[1]))
        state = self._of_many(sides)
        if state is None:
            columns = _columns.looked_at((sides[0], sides[1]))
            features = Features.of(columns, [part[:CHOSEN_BY] for part in sides])
            if not len(features.varied):
                return self.state(columns)
            state = self._of_few(features, sides)
        if self.hidden and sides[0].shape[1] > 1:
            layers = _deepened(key, state, [part[:DEEPER] for part in sides], self.hidden)
            if layers is not None:
                state |= {"deep": np.bool_(True), "perceptron": layers}
        return state

    def _of_few(self, features: Features, sides: list[HostArray]) -> dict[str, Any]:
        """Learn a leak that is visible in few outputs."""
        chosen_by = [features.rows(part[:CHOSEN_BY], features.varied) for part in sides]
        ridge, places, near = _learners.best_ridge(*_parted(chosen_by), features.groups())
        used = features.varied[places]
        if min(map(len, sides)) > CHOSEN_BY // 2:
            most = max(CHOSEN_BY, ENTRIES * (16 if ridge >= THIN else 1) // len(used))
            more = [features.rows(part[:most], used) for part in sides]
            near = _learners.ridge_regression(more, ridge, near)
        return self.state(features.columns, features, used, near)

    def _of_many(self, sides: list[HostArray]) -> dict[str, Any] | None:
        """Learn a leak visible only in many outputs; None if it is larger, or outputs are few."""
        blank = _columns.nothing(c := sides[0].shape[1])
        width = blank.special.size + blank.start.size + 2 * c
        if min(map(len, sides)) < _learners.FROM or width > _learners.WIDEST:
            return None
        columns = _columns.looked_at((sides[0], sides[1]), _learners.FROM // 2)
        alike = _learners.pooled(columns, sides)
        features = Features.of(alike or columns, [part[: _learners.FROM // 4] for part in sides])
        if not len(features.varied):
            return None
        if alike is not None:
            features = features.evened()
        scale = np.zeros(len(features.spread))
        scale[features.varied] = 1 / features.spread[features.varied]
        thin = _learners.thin_weights(
            features.columns, features.centre, scale, sides, alike=alike is not None
        )
        if thin is None:
            return None
        used = features.varied
        return self.state(features.columns, features, used, _learners.Linear(0.0, thin[used]))

    def state(
        self,
        columns: _columns.Columns,
        features: Features | None = None,
        used: Ints | None = None,
        linear: _learners.Linear | None = None,
    ) -> dict[str, Any]:
        """Return the state, always of the same shapes for outputs of one shape."""
        c = len(columns.centre)
        flat, intercept = np.zeros(columns.special.size + columns.start.size + 2 * c), np.float64(0)
        if features is not None and used is not None and linear is not None:
            flat[used] = linear.weights / features.spread[used]
            intercept = np.float64(linear.intercept - flat @ features.centre)
        weights = _columns.weights(columns, flat)
        state: dict[str, Any] = {"columns": columns, "weights": weights, "intercept": intercept}
        if self.hidden:
            state["deep"] = np.bool_(False)
            state["perceptron"] = _learners.zero(2 * c, self.hidden)
        return state

    def score(self, state: Tree, outputs: Array) -> Array:
        numbers = _columns.rows(outputs, self.bits)
        added, value = _columns.add_up(state["columns"], state["weights"], numbers)
        scores: Array = state["intercept"].astype(numbers.dtype) + added.sum(axis=0)
        if not self.hidden:
            return scores

        xp = numbers.__array_namespace__()

        def deep() -> Array:
            layers = _learners.Layers(*(w.astype(numbers.dtype) for w in state["perceptron"]))
            return _learners.added(layers, xp.concatenate([added, value]))

        more: Array = _columns.choose(state["deep"], deep, lambda: xp.zeros_like(scores))
        return scores + more


class Features(NamedTuple):
    """The features of outputs, standardised, as columns of a matrix."""

    columns: _columns.Columns
    centre: Floats  # mean of each feature
    # Standard deviation of each; features with almost none are not used.
    spread: Floats
    ramps_from: int  # number of the first ramp; they come last

    @classmethod
    def of(cls, columns: _columns.Columns, sides: list[HostArray]) -> Features:
        """Return the features of some outputs on D and on D′."""
        both = np.concatenate([_columns.see(columns, part) for part in sides])
        ramps = columns.start.size
        return cls(
            columns,
            both.mean(axis=0, dtype=np.float64),
            both.std(axis=0, dtype=np.float64),
            both.shape[1] - ramps,
        )

    def evened(self) -> Features:
        """Give each feature the mean over all columns, because they look alike."""
        c, ramps = self.columns.start.shape
        flags = self.columns.special.size // c + 1

        def even(each: Floats) -> Floats:
            first, second, third = np.split(each, [c * flags, c * (flags + 1)])
            of = [first.reshape(c, flags), second[:, None], third.reshape(c, ramps)]
            return np.concatenate([np.tile(part.mean(axis=0), c) for part in of])

        return self._replace(centre=even(self.centre), spread=even(self.spread))

    @property
    def varied(self) -> Ints:
        """Return the features that are not constant."""
        return np.flatnonzero(self.spread > 1e-4)

    def groups(self) -> list[Ints]:
        """Return choices of features, as places among the varied: without ramps, and all."""
        plain = np.flatnonzero(self.varied < self.ramps_from)
        return [group for group in (plain, np.arange(len(self.varied))) if len(group)]

    def rows(self, part: HostArray, used: Ints) -> Any:
        """Return some features of outputs, standardised; float32, shape [n, used]."""
        columns = self.columns
        if used[-1] < self.ramps_from:
            columns = columns._replace(start=columns.start[:, :0], slope=columns.slope[:, :0])
        blocks = [
            (_columns.see(columns, part[at : at + BLOCK])[:, used] - self.centre[used])
            / self.spread[used]
            for at in range(0, len(part), BLOCK)
        ]
        return np.concatenate(blocks).astype("float32")


def _parted(sides: list[Any]) -> tuple[list[Any], list[Any]]:
    """Split off three quarters to learn from, and one to judge by."""
    (a, b), (c, d) = (np.split(part, [len(part) - len(part) // 4]) for part in sides)
    return [a, c], [b, d]


def _deepened(
    key: Key, state: dict[str, Any], sides: list[HostArray], hidden: int
) -> _learners.Layers | None:
    """Train a perceptron that adds to a linear score; None unless that clearly helps."""
    c = sides[0].shape[1]
    inputs = []
    for part in sides:
        parts: Any = _columns.add_up(state["columns"], state["weights"], part)  # type: ignore[arg-type]
        inputs.append(np.concatenate(parts).T.astype(np.float64))
    both = np.concatenate(inputs)
    centre, spread = both.mean(axis=0), both.std(axis=0)
    spread = np.where(spread > 1e-6, spread, 1.0)
    data = []
    for rows in _parted(inputs):
        margins = np.concatenate([part[:, :c].sum(axis=1) + state["intercept"] for part in rows])
        signs = np.repeat([-1.0, 1.0], [len(part) for part in rows])
        standard = ((np.concatenate(rows) - centre) / spread).astype(np.float32)
        data.append(
            _learners.Examples(standard, margins.astype(np.float32), signs.astype(np.float32))
        )
    layers = _learners.trained(key, data[0], data[1], hidden)
    judged, margins, signs = data[1]
    deeper: Any = margins + np.asarray(_learners.added(layers, judged.T))  # type: ignore[arg-type]
    better = np.logaddexp(0, -margins * signs) - np.logaddexp(0, -deeper * signs)
    error = better.std() / np.sqrt(len(better))
    if better.mean() <= CLEARLY * error:
        return None
    return _learners.unfolded(layers, centre, spread)


# Outputs per dataset that suffice if outputs hardly repeat, as with continuous noise.
FEW_OUTPUTS = 2**16


class Categories(Attack, name="categories"):
    """ln of the ratio of the output's frequencies in the fit stream, D′ over D.

    Outputs of any shape are compared as a whole: two are equal if all their coordinates are equal
    bit for bit (except that all NaN are equal, and 0 equals −0). With counts c the logarithm is
    r = ln((c₁ + s)/(n₁ + sk)) − ln((c₀ + s)/(n₀ + sk)), and its standard error about
    e = √(1/(c₁ + s) + 1/(c₀ + s)). The score is r shrunk towards 0 by `caution` times e; otherwise
    rare outputs, whose r is mostly noise, would rank above informative ones. Outputs that were seen
    fewer than `least` times in both streams together, or not at all, form one category. So if
    outputs hardly repeat, as with continuous noise, all have the same score; use `learned` in that
    case.
    """

    gives = "score"
    portable = True

    values: Annotated[int, Ge(1), Le(65536)] = 1024
    """Largest number of values with a separate score; the most frequent ones get one."""
    least: Annotated[int, Ge(1)] = 5
    """Number of times that a value must be seen to get a separate score."""
    smoothing: Annotated[float, Gt(0)] = 1.0
    """s, added to every count, because a value that is missing on one dataset proves nothing."""
    caution: Annotated[float, Ge(0)] = 2.0
    """Standard errors by which a ratio must differ from 1 to count."""

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        sides = few = [_whole_digests(outputs[:FEW_OUTPUTS]) for outputs in train]
        if 2 * len(np.unique(few[0])) <= len(few[0]) == FEW_OUTPUTS < max(map(len, train)):
            sides = [_whole_digests(outputs) for outputs in train]
        seen, counts = _columns.tallied(sides)
        kept, counts = _columns.frequent(counts, self.values, self.least)
        ratios = self.ratios(counts)
        # Empty places have the score of the rest, so a match there does no harm.
        first = np.full(self.values, 2**32 - 1, np.uint32)
        second = np.zeros(self.values, np.uint32)
        scores = np.full(self.values + 1, ratios[-1])
        first[: len(kept)], second[: len(kept)] = seen[kept] >> 32, seen[kept] & 0xFFFFFFFF
        scores[: len(kept)] = ratios[:-1]
        return {"first": first, "second": second, "scores": scores}

    def ratios(self, counts: Ints) -> HostArray:
        """Return shrunken logarithms of ratios of smoothed shares, from counts of shape [2, k]."""
        smooth = counts + self.smoothing
        plain = np.diff(np.log(smooth / smooth.sum(axis=1, keepdims=True)), axis=0)[0]
        error = np.sqrt((1 / smooth).sum(axis=0))
        drawn: HostArray = np.sign(plain) * np.maximum(np.abs(plain) - self.caution * error, 0)
        return drawn

    def score(self, state: Tree, outputs: Array) -> Array:
        first, second = _columns.digests(_columns.words(outputs))
        xp = first.__array_namespace__()
        at = xp.minimum(_columns.place_in(state["first"], first), self.values - 1)
        known = (state["first"][at] == first) & (state["second"][at] == second)
        scores: Array = state["scores"].astype(float)[xp.where(known, at, self.values)]
        return scores


def _whole_digests(outputs: HostArray) -> HostArray:
    """Return one digest of 64 bits for each output."""
    first, second = _columns.digests(_columns.words(outputs))
    digests: HostArray = first.astype(np.uint64) << np.uint64(32) | second
    return digests


class HistogramRatio(Attack, name="histogram-ratio"):
    """ln of the ratio of the frequencies of the output's bin in the fit stream, D′ over D.

    For single numbers whose likelihood ratio need not rise with the output. Bins are cut at order
    statistics of both datasets together, close together in the tails; the outer two are open.
    With counts c the score is ln((c₁ + s)/(n₁ + sk)) − ln((c₀ + s)/(n₀ + sk)), so it has at most k
    values. A NaN output scores NaN.
    """

    gives = "score"
    portable = True

    bins: Annotated[int, Ge(2), Le(4096)] = 128
    """k, the number of bins; fewer are used if outputs repeat."""
    smoothing: Annotated[float, Gt(0)] = 1.0
    """s, added to every count, because a bin that one dataset did not hit proves nothing."""

    def unsuited(self, target: Target) -> str | None:
        return _columns.not_one_number(target)

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        seen = [x[~np.isnan(x)] for x in map(_columns.host_numbers, train)]
        pooled = np.sort(np.concatenate(seen))
        edges = np.full(self.bins - 1, np.inf)
        if len(pooled):
            cuts = _columns.cuts(pooled, self.bins - 1)
            edges[: len(cuts)] = cuts
        logs = []
        for x in seen:
            counts = np.bincount(np.searchsorted(edges, x, side="right"), minlength=self.bins)
            total = len(x) + self.smoothing * self.bins
            logs.append(np.log((counts + self.smoothing) / total))
        return {"edges": edges, "ratios": logs[1] - logs[0]}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = _columns.numbers(outputs)
        edges = state["edges"].astype(x.dtype)
        xp, bins = x.__array_namespace__(), _columns.place_in(edges, x, side="right")
        ratios: Array = xp.where(xp.isnan(x), np.nan, state["ratios"].astype(x.dtype)[bins])
        return ratios
