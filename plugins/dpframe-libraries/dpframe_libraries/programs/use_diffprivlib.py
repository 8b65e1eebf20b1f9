"""Releases by the tools, models and mechanisms of diffprivlib."""

from __future__ import annotations

import os
import sys
import warnings

import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from diffprivlib import mechanisms, models, tools
from library_tables import codes, matrix, numbers, rounded

warnings.filterwarnings("ignore")  # would be repeated in every release


def prepare(params, data):
    """Return a function that makes one release of `params["release"]`."""
    release = RELEASES[params["release"]](params, data)
    digits = params.get("digits")
    return release if digits is None else lambda: rounded(release(), digits)


def _tool(params, data):
    tool, x = getattr(tools, params["tool"]), np.array(numbers(params, data))
    more = {"quant": params["quant"]} if params["tool"] == "quantile" else {}
    bounds, epsilon = tuple(params["bounds"][0]), params["epsilon"]
    return lambda: float(tool(x, epsilon=epsilon, bounds=bounds, **more))


def _histogram(params, data):
    x, span = np.array(numbers(params, data)), tuple(params["bounds"][0])
    return lambda: tools.histogram(x, epsilon=params["epsilon"], bins=params["bins"], range=span)[0]


def _count(params, data):
    above = np.array(numbers(params, data)) >= params["threshold"]
    return lambda: int(tools.count_nonzero(above, epsilon=params["epsilon"]))


def _features(params, data):
    """Return all columns of numbers, and their lower and upper bounds."""
    low, high = zip(*params["bounds"])
    x = np.array(matrix(params, data)).reshape(-1, len(params["bounds"]))
    return x, (np.array(low), np.array(high))


def _linear_regression(params, data):
    x, (low, high) = _features(params, data)  # the last column is what is predicted

    def release():
        model = models.LinearRegression(
            epsilon=params["epsilon"],
            bounds_X=(low[:-1], high[:-1]),
            bounds_y=(low[-1], high[-1]),
            fit_intercept=params["fit_intercept"],
        ).fit(x[:, :-1], x[:, -1])
        return {"coef": model.coef_, "intercept": model.intercept_}

    return release


def _classifier(make, answer):
    """Return a classifier's release; the last column has the class names."""

    def of(params, data):
        x, bounds = _features(params, data)
        y = np.array(codes(params, data, len(params["bounds"])))
        return lambda: answer(make(params, bounds).fit(x, y))

    return of


def _unsupervised(make, answer):
    def of(params, data):
        x, bounds = _features(params, data)
        return lambda: answer(make(params, bounds).fit(x))

    return of


def _norm(bounds):
    """Return the largest l2 norm of a record within the bounds."""
    return float(np.linalg.norm(np.maximum(*np.abs(bounds))))


def _clipped_sum(params, data):
    """Return the sum, always of cleaned values, that additive mechanisms release."""
    return float(sum(numbers({**params, "clean": True}, data)))


def _mechanism(params, data):
    name, sum_ = params["mechanism"], _clipped_sum(params, data)
    low, high = params["bounds"][0]
    whole = name in ("Geometric", "GeometricTruncated", "GeometricFolded", "GaussianDiscrete")
    told = {"sensitivity": (int if whole else float)(high - low)}
    if name != "Uniform":
        told["epsilon"] = params["epsilon"]
    if name in ("Gaussian", "GaussianAnalytic", "GaussianDiscrete", "LaplaceBoundedNoise"):
        told["delta"] = params["delta"]
    if name == "Uniform":
        told["delta"] = params["delta"]
    if name.endswith(("Truncated", "Folded", "BoundedDomain")) or name == "Snapping":
        kind, n = type(told["sensitivity"]), len(data)
        told.update(lower=kind(n * low), upper=kind(n * high))
    value = round(sum_) if whole else sum_
    box = getattr(mechanisms, name)(**told)
    return lambda: box.randomise(value)


def _choice(params, data):
    """Return a release of the first category or of a frequent one."""
    name, categories = params["mechanism"], list(params["categories"])
    found = codes({**params, "clean": True}, data)
    if name == "Binary":
        box = mechanisms.Binary(epsilon=params["epsilon"], value0="0", value1="1")
        return lambda: box.randomise(str(min(found[0], 1)))
    if name == "ExponentialCategorical":
        far = [
            (a, b, abs(i - j)) for i, a in enumerate(categories) for j, b in enumerate(categories)
        ]
        box = mechanisms.ExponentialCategorical(epsilon=params["epsilon"], utility_list=far)
        return lambda: box.randomise(categories[found[0]])
    counts = [found.count(at) for at in range(len(categories))]
    box = getattr(mechanisms, name)(
        epsilon=params["epsilon"], sensitivity=1.0, utility=counts, candidates=categories
    )
    return box.randomise


def _bingham(params, data):
    x = np.array(matrix({**params, "clean": True}, data)).reshape(-1, len(params["bounds"]))
    norm = np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    box = mechanisms.Bingham(epsilon=params["epsilon"], sensitivity=1.0)
    value = (x / norm).T @ (x / norm)
    return lambda: box.randomise(value)


RELEASES = {
    "tool": _tool,
    "histogram": _histogram,
    "count_nonzero": _count,
    "LinearRegression": _linear_regression,
    "GaussianNB": _classifier(
        lambda p, bounds: models.GaussianNB(epsilon=p["epsilon"], bounds=bounds),
        lambda m: {"theta": m.theta_, "var": m.var_, "prior": m.class_prior_},
    ),
    "LogisticRegression": _classifier(
        lambda p, bounds: models.LogisticRegression(epsilon=p["epsilon"], data_norm=_norm(bounds)),
        lambda m: {"coef": m.coef_, "intercept": m.intercept_},
    ),
    "RandomForestClassifier": _classifier(
        lambda p, bounds: models.RandomForestClassifier(
            n_estimators=1,
            max_depth=2,
            epsilon=p["epsilon"],
            bounds=bounds,
            classes=list(range(len(p["categories"]))),
        ),
        lambda m: m.estimators_[0].tree_.value.ravel(),
    ),
    "KMeans": _unsupervised(
        lambda p, bounds: models.KMeans(n_clusters=2, epsilon=p["epsilon"], bounds=bounds),
        lambda m: m.cluster_centers_,
    ),
    "PCA": _unsupervised(
        lambda p, bounds: models.PCA(
            1, epsilon=p["epsilon"], bounds=bounds, data_norm=_norm(bounds)
        ),
        lambda m: {"components": m.components_, "mean": m.mean_, "variance": m.explained_variance_},
    ),
    "StandardScaler": _unsupervised(
        lambda p, bounds: models.StandardScaler(epsilon=p["epsilon"], bounds=bounds),
        lambda m: {"mean": m.mean_, "var": m.var_},
    ),
    "mechanism": _mechanism,
    "choice": _choice,
    "Bingham": _bingham,
}
