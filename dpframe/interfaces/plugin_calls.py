"""Run plugin code and check its results.

A wrong result is reported here, with the name of the method, rather than as an error of NumPy or
JAX further on. Answers of estimators are checked in `dpframe.results.estimate_checks`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import is_floating, jax
from dpframe.common.machine import at_work
from dpframe.common.text import error_message, shown
from dpframe.errors import CellError
from dpframe.interfaces.attack import KINDS_OF_SCORES, Attack, Target
from dpframe.interfaces.mechanism import HostMechanism, Mechanism
from dpframe.interfaces.statistic import Statistic

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.claims import Claim
    from dpframe.common.types import Floats, HostArray, Tree
    from dpframe.interfaces.estimator import Estimator
    from dpframe.spec.audit import Cell


SCORE_KINDS = ", ".join(f'"{kind}"' for kind in KINDS_OF_SCORES)
WITHOUT_CDF = (Mechanism.cdf, HostMechanism.cdf)  # `cdf` of mechanisms that do not define it
MOST_EXACT_BINS = 256
"""Bins with exact shares; more would enlarge the record, and no figure shows them."""
ROUNDING_ERROR = 1e-9  # rounding of probabilities


def call_plugin(what: str, call: Callable[..., Any], *args: Any) -> Any:
    """Call plugin code and return its result; an exception fails a cell, never the run.

    Raises:
        CellError: it raised something; a CellError passes as it is.
    """
    try:
        with at_work(what):
            return call(*args)
    except CellError:
        raise
    except (Exception, SystemExit) as error:  # exit() would end the run
        raise CellError(f"{what} raised {error_message(error)}{_hint(error)}") from error


def _hint(error: BaseException) -> str:
    if "jax" not in sys.modules or not isinstance(
        error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
    ):
        return ""
    return " (parameters and arrays are traced: jax.numpy.where instead of if, jax.numpy for numpy)"


def statistic_of(estimator: Estimator) -> Statistic:
    """Return the statistic of an estimator; it must be hashable and accept known scores."""
    statistic = call_plugin("statistic", estimator.statistic)
    if not isinstance(statistic, Statistic):
        raise CellError(f"statistic returned {shown(statistic)}; it must return a Statistic")
    call_plugin("the statistic cannot be hashed (a frozen dataclass can): it", hash, statistic)
    accepts = call_plugin("accepts", getattr, statistic, "accepts")
    if not isinstance(accepts, set | frozenset) or not accepts <= set(KINDS_OF_SCORES):
        raise CellError(f"accepts is {shown(accepts)}; a frozenset of {SCORE_KINDS}")
    return statistic


def certifies(estimator: Estimator, claim: Claim | None) -> bool:
    """True if an estimator promises a bound against a claim."""
    return bool(call_plugin("certifies_against", lambda: bool(estimator.certifies_against(claim))))


def unsuited(attack: Attack, target: Target) -> str | None:
    """Return an attack's own reason why it cannot be used; None if it can."""
    reason = call_plugin("unsuited", attack.unsuited, target)
    if not isinstance(reason, str | None):
        raise CellError(f"unsuited returned {shown(reason)}; it must return a text or None")
    return reason


def learns(attack: Attack) -> bool:
    """True if an attack needs draws to learn from."""
    return bool(call_plugin("learns", lambda: bool(attack.learns())))


def nan_allowed(mechanism: Mechanism | HostMechanism) -> bool:
    """True if NaN is a legitimate output of a mechanism."""
    return _flag(mechanism, "may_be_nan")


def _flag(mechanism: Mechanism | HostMechanism, name: str) -> bool:
    flag = call_plugin(name, getattr, mechanism, name)
    if not isinstance(flag, bool | np.bool_):
        raise CellError(f"{name} is {shown(flag)}; it must be True or False")
    return bool(flag)


def mismatch(mechanism: Mechanism | HostMechanism, gives: str) -> str | None:
    """Return why scores of this kind do not suit a mechanism; None if they do."""
    holds = _flag(mechanism, "canaries")
    if holds == (gives == "canaries"):
        return None
    if holds:
        return "each of its releases contains many canaries, for attacks that return canaries"
    return "its releases contain no canaries: each release is one draw"


def arrays(what: str, tree: Tree) -> Tree:
    """Return a tree with every leaf a NumPy array of numbers."""

    def array(leaf: Any) -> Any:
        converted = call_plugin(what, np.asarray, leaf)
        if converted.dtype.kind not in "biufc" and not is_floating(converted.dtype):
            raise CellError(f"{what} returned {shown(leaf)}; it must return a pytree of arrays")
        return converted

    return trees.map(array, tree)


def zero_of(statistic: Statistic, layout: Tree) -> Tree:
    """Return counts of no draws: at least one array of integers, first axis the dataset."""
    zero = arrays("zero", call_plugin("zero", statistic.zero, layout))
    leaves = trees.leaves(zero)
    if not leaves:
        raise CellError("zero returned no counts at all")
    for leaf in leaves:
        if leaf.dtype.kind not in "iu":
            raise CellError(f"zero returned {leaf.dtype}; counts must be integers")
        if leaf.shape[:1] != (2,):
            raise CellError(f"zero returned shape {leaf.shape}; the first axis is the dataset")
    return zero


def check_updated(before: Tree, after: Tree) -> None:
    """Raise CellError if counts changed in structure, shape or type; traced."""

    def described(tree: Tree) -> tuple[Any, list[tuple[Any, Any]]]:
        leaves, structure = trees.flatten(tree)
        return structure, [(np.shape(leaf), _dtype(leaf)) for leaf in leaves]

    old, new = described(before), call_plugin("update", lambda: described(after))
    if old[0] != new[0]:
        raise CellError("update returned counts with a different structure than zero")
    for (shape, dtype), (new_shape, kind) in zip(old[1], new[1], strict=True):
        if (shape, dtype) != (new_shape, kind):
            raise CellError(f"update returned {kind}{list(new_shape)}, not {dtype}{list(shape)}")


def _dtype(leaf: Any) -> Any:
    return leaf.dtype if hasattr(leaf, "dtype") else jax.numpy.result_type(leaf)


def exact_shares(cell: Cell, counts: Any, statistic: dict[str, Any]) -> list[list[float]] | None:
    """Return the probability of each bin on D and on D′; None if it is not known.

    Figures draw it beside the counts; no verdict uses it.

    Args:
        cell: the cell.
        counts: counts of bins, the first of NaN, shape [2][k + 2]; or of scores below a threshold,
            NaN among them, and of the others, shape [2][2].
        statistic: description of the statistic: `edges` of the bins, shape [k], or `threshold`.

    Raises:
        CellError: `cdf` raised something, or gave no distribution function.
    """
    mechanism, pair = cell.mechanism.value, cell.pair.value
    if not cell.attack.value.hands_out or type(mechanism).cdf in WITHOUT_CDF:
        return None
    places = _places(counts, statistic)
    if places is None or np.isnan(places).any():
        return None
    # A score at an edge counts as above it, so the probability strictly below is needed.
    below = np.nextafter(places, -np.inf, dtype=np.float32)
    x = np.append(np.maximum.accumulate(below.astype(float)), np.inf)
    shares = []
    for data in (pair.d0, pair.d1):
        if (values := call_plugin("cdf", mechanism.cdf, data, x.copy())) is None:
            return None
        cumulated = np.concatenate([[0.0], _checked(values, len(x))])
        nan, bins = 1 - float(cumulated[-1]), np.diff(cumulated).tolist()
        shares.append([nan, *bins] if "edges" in statistic else [nan + bins[0], bins[1]])
    return shares


def _places(counts: Any, statistic: dict[str, Any]) -> HostArray | None:
    """Return the edges between bins, shape [k]."""
    edges, threshold = statistic.get("edges"), statistic.get("threshold")
    if isinstance(edges, list) and len(edges) + 2 <= MOST_EXACT_BINS:
        known = np.shape(counts) == (2, len(edges) + 2)
        return np.array([float(edge) for edge in edges], np.float32) if known else None
    if edges is None and isinstance(threshold, int | float):
        return np.array([threshold], np.float32) if np.shape(counts) == (2, 2) else None
    return None


def _checked(given: Any, length: int) -> Floats:
    """Return the values of a distribution function; raise CellError if they are not of one."""
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (length,):
        raise CellError(f"cdf gave shape {values.shape} for {length} numbers")
    steps = np.diff(np.concatenate([[0.0], values, [1.0]]))
    if not (steps >= -ROUNDING_ERROR).all():
        raise CellError("cdf is not a distribution function: it must rise from 0 to at most 1")
    return np.maximum.accumulate(np.clip(values, 0, 1))
