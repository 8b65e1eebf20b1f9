"""Train and score estimators with `fit`, as those of scikit-learn and diffprivlib are."""

import copy
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from dpframe.common.types import HostArray
from dpframe.errors import DpframeError

LEAST = 1e-300  # probability, so that its logarithm is finite
LARGEST_STATE = 2**32  # random states of scikit-learn are smaller


def is_estimator(train: Any) -> bool:
    """True for an object with `fit` that is no function; raises DpframeError for its class."""
    if isinstance(train, type) and hasattr(train, "fit"):
        raise DpframeError(
            f"train: {train.__name__} is a class; pass an estimator, {train.__name__}()"
        )
    return hasattr(train, "fit") and not isinstance(train, types.FunctionType)


def training_of(estimator: Any, data: tuple[Any, Any]) -> Callable[..., float]:
    """Return a function that fits a copy of an estimator, and scores it at the record that differs.

    The score is larger if the model fits the record better that only D′ has, and smaller if it fits
    the one better that only D has. Every `random_state` is replaced by a number from the seed.

    Args:
        estimator: with `fit` and one of `decision_function`, `predict_proba` and `predict`; not
            fitted yet.
        data: D and D′, each (X, y).

    Raises:
        DpframeError: the estimator lacks these or is fitted, or D and D′ differ in more than one
            record.
    """
    name = type(estimator).__name__
    parts = _parameters(estimator)
    if any(_is_fitted(one) for one in (estimator, *parts.values())):
        raise DpframeError(
            f"train: this {name} is fitted already, and may keep what it learned: pass an unfitted "
            "one, such as sklearn.base.clone(estimator)"
        )
    if not any(
        hasattr(estimator, how) for how in ("decision_function", "predict_proba", "predict")
    ):
        raise DpframeError(
            f"train: {name} has fit, but no decision_function, predict_proba or predict: pass a "
            "function that fits it and returns a score"
        )
    gone, added = _differing(data)
    states = [key for key in parts if key.split("__")[-1] == "random_state"]

    def train(seed: int, x: Any, y: Any) -> float:
        model = copy.deepcopy(estimator)
        if states:
            numbers = np.random.default_rng(seed).integers(LARGEST_STATE, size=len(states))
            model.set_params(**dict(zip(states, map(int, numbers), strict=True)))
        model.fit(x, y)
        better, worse = (sum(_fit_of(model, *one) for one in some) for some in (added, gone))
        return better - worse

    train.__name__ = name if name.isidentifier() else "fit"
    return train


def _parameters(estimator: Any) -> dict[str, Any]:
    return dict(estimator.get_params(deep=True)) if hasattr(estimator, "get_params") else {}


def _is_fitted(estimator: Any) -> bool:
    """True if there are learned attributes, whose names end with "_"."""
    names = vars(estimator) if hasattr(estimator, "fit") and hasattr(estimator, "__dict__") else ()
    return any(name.endswith("_") and not name.startswith("_") for name in names)


def _differing(data: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the records (x, y) that only D has, and those that only D′ has; at most one each."""
    tables, keys = [], []
    for name, one in zip(("D", "D′"), data, strict=True):
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise DpframeError(f"pair: {name} of an estimator is (X, y)")
        x, y = (np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in one)
        if not x.ndim or x.shape[:1] != y.shape[:1]:
            raise DpframeError(f"pair: {name} has X of shape {x.shape} and y of shape {y.shape}")
        tables.append((getattr(one[0], "iloc", x), y))  # a row of a frame keeps its names
        keys.append([_key(*record) for record in zip(x, y, strict=True)])
    counts = [Counter(one) for one in keys]
    gone, added = (
        [(x[i : i + 1], y[i]) for i in map(own.index, rest.elements())]
        for (x, y), own, rest in zip(
            tables, keys, (counts[0] - counts[1], counts[1] - counts[0]), strict=True
        )
    )
    if max(len(gone), len(added)) != 1:
        raise DpframeError(
            "pair: D and D′ of an estimator must differ in one record, which is added, removed or "
            f"replaced; {len(gone):,} are only in D and {len(added):,} only in D′"
        )
    return gone, added


def _key(*parts: Any) -> str:
    """Return the same text for equal records, also if one has integers and the other floats."""
    values = map(np.asarray, parts)
    return repr([(v.astype(float) if v.dtype.kind in "biuf" else v).tolist() for v in values])


def _fit_of(model: Any, x: Any, y: Any) -> float:
    """Return how well a model fits a record: larger is better.

    The margin of its label, its log-odds, minus the squared error of a number, or 1 if the label is
    right.
    """
    classes = getattr(model, "classes_", None)
    if classes is not None and hasattr(model, "decision_function"):
        values = np.ravel(model.decision_function(x))
        own = np.ravel(np.asarray(classes) == y)
        if len(values) == 1 < len(own):
            return float(values[0] if own[-1] else -values[0])
        return _margin(values, own)
    if classes is not None and hasattr(model, "predict_proba"):
        values = np.ravel(model.predict_proba(x))
        return _margin(np.log(np.maximum(values, LEAST)), np.ravel(np.asarray(classes) == y))
    predicted = np.asarray(model.predict(x))[0]
    if classes is not None or np.asarray(predicted).dtype.kind not in "fiu":
        return float(np.all(predicted == y))
    return -float(np.sum((predicted - y) ** 2))


def _margin(values: HostArray, own: HostArray) -> float:
    """Return the value of the record's label minus the largest other one."""
    if not own.any():  # a label that the model does not know
        return float(-np.max(values))
    others = values[~own]
    return float(values[own][0] - (others.max() if len(others) else 0.0))
