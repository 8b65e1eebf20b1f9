"""An attack on answers that are a fixed list of named numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from dpframe.plugins import (
    Array,
    Attack,
    Floats,
    HostArray,
    HostMechanism,
    Ints,
    Key,
    Pair,
    Target,
    Tree,
    find_plugin,
)
from dpframe_pipelines.programs.queries import BEFORE, TOTAL

UNORDERED = "sort the rows in the adapter if the engine promises no order"

KEPT = 24
"""Number of features whose intervals are learned: those that differ most between D and D′."""

CLEAR = 2.0
"""Standard errors by which a feature differs clearly."""

MOST_ODDS = 8.0
"""Largest log-odds of one feature."""

NAMED = 3
"""Features that an event of several features names."""

CUTS = 64
"""At most this many cuts of one feature."""


class Named(Protocol):
    """A mechanism whose outputs are lists of named numbers."""

    def names_of(self, pair: Pair) -> Sequence[str]:
        """Return the name of each number in an answer."""
        ...


class NamedFeatures(Attack, name="features"):
    """Distinguishes D from D′ by the named features of an output.

    It learns on separate outputs which features differ most between D and D′. The events of the
    score are then cuts of one feature, or unions of intervals.
    """

    gives = "score"
    portable = True

    look: Literal["cut", "intervals", "together"] = "cut"
    """"cut": the feature that differs most, oriented to be larger on D′; it needs few outputs.
    "intervals": log-odds of intervals of one feature, or of a weighted sum of several, as the
    attack `answers` learns them. "together": sum of the log-odds of all features that differ
    clearly, each as if its noise were Laplace noise, independent of the others."""

    @cached_property
    def _learner(self) -> Any:
        return find_plugin("attack", "answers").from_params({"look": "numbers"})

    def unsuited(self, target: Target) -> str | None:
        if isinstance(target.mechanism, HostMechanism) and hasattr(target.mechanism, "names_of"):
            return None
        return "the outputs of this mechanism have no named features"

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        kept = telling(train, 1 if self.look == "cut" else KEPT)
        mechanism: Any = target.mechanism
        known = mechanism.names_of(target.pair)
        names = [known[at] if at < len(known) else f"feature {at + 1}" for at in kept]
        if self.look == "together":  # a sum would count its parts again
            alone = [at for at, name in enumerate(names) if not name.startswith(TOTAL)] or [0]
            kept, names = kept[alone], [names[at] for at in alone]
        seen = train[0][:, kept], train[1][:, kept]
        if self.look == "intervals":
            state = self._learner.fit(key, target, seen)
        else:
            state = _cuts(seen) if self.look == "cut" else _shifts(seen)
        text = "\n".join(names)
        return {**state, "kept": kept, "names": np.frombuffer(text.encode(), np.uint8)}

    def score(self, state: Tree, outputs: Array) -> Array:
        seen = outputs[:, state["kept"]]
        score = self._learner.score if self.look == "intervals" else _SCORES[self.look]
        scores: Array = score(state, seen)
        return scores

    def words(self, state: Tree, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
        names = bytes(np.asarray(state["names"], np.uint8)).decode().split("\n")
        if self.look == "cut":
            return f"the {names[0]} {_side(state, edge, above)}{_hint(names[0])}"
        if self.look == "together":
            return _together(names, state, edge, above=above)
        sentence = self._learner.words(state, edge, above, words)
        if sentence is None:
            return None
        column, event = int(state["column"]), sentence.partition(" is ")[2]
        if column < 0:
            return f"a weighted sum of features is {event}"
        return f"the {names[column]} is {event}{_hint(names[column])}"


def _together(names: Sequence[str], state: Tree, edge: float, *, above: bool) -> str:
    """Describe an event of the log-odds of several features by those that weigh most."""
    weight = np.asarray(state["weight"])
    most = np.argsort(-abs(weight), kind="stable")[:NAMED]
    named = [f"the {names[at]}" for at in most if weight[at]]
    more = int((weight != 0).sum()) - len(named)
    listed = " and ".join(named) + (f" and {more} more" if more else "")
    side = f"{'above' if above else 'below'} {edge:.6g}"
    together = ", taken together," if len(named) > 1 else ""
    return f"the log-odds of D′ by {listed}{together} are {side}"


def _hint(name: str) -> str:
    """Return the remedy if the feature that differs is the order of an answer."""
    return f" ({UNORDERED})" if name.startswith(BEFORE) else ""


def _cuts(sides: tuple[HostArray, HostArray]) -> dict[str, Any]:
    """Learn the cuts of one feature, halfway between its values, and the side more likely on D′."""
    x, y = (part[:, 0] for part in sides)
    values = np.unique(np.concatenate([x, y]))
    values = values[np.isfinite(values)]
    if len(values) > CUTS:
        values = values[np.linspace(0, len(values) - 1, CUTS).astype(int)]
    cuts = np.full(CUTS, np.inf)
    cuts[: max(0, len(values) - 1)] = values[:-1] + np.diff(values) / 2
    places = [np.searchsorted(cuts, part[~np.isnan(part)], side="right") for part in (x, y)]
    means = [float(part.mean()) if len(part) else 0.0 for part in places]
    sign = 1.0 if means[1] >= means[0] else -1.0
    missing = 1.0 if np.isnan(y).mean() >= np.isnan(x).mean() else -1.0
    return {
        "cuts": cuts,
        "sign": np.float64(sign),
        "missing": np.float64(missing * 2 * CUTS),
        "some missing": np.bool_(np.isnan(np.concatenate([x, y])).any()),
    }


def _place(state: Tree, seen: Any) -> Any:
    """Return the number of cuts below a feature, negated if D′ has smaller values."""
    xp = seen.__array_namespace__()
    place = xp.searchsorted(xp.asarray(state["cuts"]), seen[:, 0], side="right")
    return xp.where(xp.isnan(seen[:, 0]), state["missing"], state["sign"] * place)


def _shifts(sides: tuple[HostArray, HostArray]) -> dict[str, Any]:
    """Learn the medians of features on D and D′, and the scale of their noise."""
    there = [np.where(np.isfinite(part), part, np.nan) for part in sides]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a feature without numbers
        x, y = (np.nan_to_num(np.nanmedian(part, axis=0)) for part in there)
        apart = [abs(part - at) for part, at in zip(there, (x, y), strict=True)]
        scale = np.nan_to_num(np.nanmean(np.concatenate(apart), axis=0))
    gap, clear = abs(y - x), difference(list(sides))
    used = clear >= min(CLEAR, clear.max(initial=0.0))
    scale = np.maximum(scale, np.maximum(gap / MOST_ODDS, 1e-300))
    weight = np.where(used & (gap > 0), np.sign(y - x) / scale, 0.0)
    return {"low": np.minimum(x, y), "high": np.maximum(x, y), "weight": weight}


def _log_odds(state: Tree, seen: Any) -> Any:
    """Return the sum of log-odds; those of Laplace noise are constant beyond both medians."""
    xp, low, high = seen.__array_namespace__(), state["low"], state["high"]
    inside = xp.clip(xp.where(xp.isnan(seen), (low + high) / 2, seen), low, high)
    return ((2 * inside - low - high) * state["weight"]).sum(axis=1)


_SCORES = {"cut": _place, "together": _log_odds}


def _side(state: Tree, edge: float, above: bool) -> str:
    """Describe the event that a score is at least `edge`, or less if not `above`."""
    cuts, sign = np.asarray(state["cuts"]), float(state["sign"])
    missing = (float(state["missing"]) >= edge) == above
    inside = [place for place in range(CUTS) if ((sign * place) >= edge) == above]
    parts = []
    if inside and np.isfinite(cuts[max(0, inside[0] - 1)]):
        low, high = inside[0], inside[-1]
        if low > 0:
            parts.append(f"above {cuts[low - 1]:.6g}")
        elif np.isfinite(cuts[high]):
            parts.append(f"below {cuts[high]:.6g}")
        else:
            parts.append("any number")
    parts += ["no number"] if missing and state["some missing"] else []
    return f"is {' or '.join(parts)}" if parts else "is an impossible value"


def telling(train: tuple[HostArray, HostArray], most: int) -> Ints:
    """Return the positions of the features that differ most between D and D′, at most `most`.

    Differences of the mean, of the spread, and of the share of missing numbers count, each in
    standard errors. Equal features are kept once.
    """
    both = np.concatenate(train)
    varies = ((both != both[:1]) & ~(np.isnan(both) & np.isnan(both[:1]))).any(axis=0)
    places = np.flatnonzero(varies)
    if not len(places):
        return np.arange(min(1, both.shape[1]))
    _, first = np.unique(np.nan_to_num(both[:, places], nan=-np.pi), axis=1, return_index=True)
    places = np.sort(places[first])
    apart = difference([part[:, places] for part in train])
    return places[np.sort(np.argsort(-apart, kind="stable")[:most])]


def difference(train: Sequence[HostArray]) -> Floats:
    """Return how far each column differs between two samples, in standard errors."""
    finite = [np.isfinite(part) for part in train]
    whole = np.concatenate(
        [np.where(t, part, np.nan) for t, part in zip(finite, train, strict=True)]
    )
    with np.errstate(all="ignore"):
        centre = np.nan_to_num(np.nanmedian(np.where(np.isfinite(whole), whole, np.nan), axis=0))
    largest: Any = 0.0
    for values in (
        [np.where(t, part, centre) for t, part in zip(finite, train, strict=True)],
        [np.where(t, abs(part - centre), 0.0) for t, part in zip(finite, train, strict=True)],
        [np.isnan(part).astype(float) for part in train],
    ):
        x, y = (np.clip(part, -1e150, 1e150) for part in values)
        error = np.sqrt(x.var(axis=0) / len(x) + y.var(axis=0) / len(y))
        gap = abs(y.mean(axis=0) - x.mean(axis=0))
        least = 0.05 * np.maximum(abs(x).max(axis=0), abs(y).max(axis=0)) / len(x) + 1e-12
        largest = np.maximum(largest, gap / np.maximum(error, least))
    return np.asarray(largest, np.float64)
