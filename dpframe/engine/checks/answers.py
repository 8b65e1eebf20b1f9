"""What authors' code hands over, looked at before anything is made of it.

A wrong answer is told as what it is and by whom, here, rather than as whatever NumPy or JAX say
when they meet it. An estimator's answer is looked at in `dpframe.record.answer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.attack import KINDS_OF_SCORES
from dpframe.engine.checks.guard import guarded
from dpframe.errors import CellError
from dpframe.printable import shown
from dpframe.statistic import Statistic

if TYPE_CHECKING:
    from dpframe.attack import Attack, Target
    from dpframe.claims import Claim
    from dpframe.estimator import Estimator
    from dpframe.mechanism import HostMechanism, Mechanism
    from dpframe.types import Tree


KINDS = ", ".join(f'"{kind}"' for kind in KINDS_OF_SCORES)


def statistic_of(estimator: Estimator) -> Statistic:
    """The statistic of an estimator, hashable and with scores that it accepts."""
    statistic = guarded("statistic", estimator.statistic)
    if not isinstance(statistic, Statistic):
        raise CellError(f"statistic returned {shown(statistic)}; a Statistic is wanted")
    guarded("the statistic cannot be hashed (a frozen dataclass can): it", lambda: hash(statistic))
    accepts = guarded("accepts", lambda: statistic.accepts)
    if not isinstance(accepts, set | frozenset) or not accepts <= set(KINDS_OF_SCORES):
        raise CellError(f"accepts is {shown(accepts)}; a frozenset of {KINDS}")
    return statistic


def certifies(estimator: Estimator, claim: Claim | None) -> bool:
    """Whether an estimator promises a bound against a claim."""
    return bool(guarded("certifies_against", lambda: bool(estimator.certifies_against(claim))))


def unsuited(attack: Attack, target: Target) -> str | None:
    """Why an attack cannot be played, in its own words."""
    reason = guarded("unsuited", lambda: attack.unsuited(target))
    if not isinstance(reason, str | None):
        raise CellError(f"unsuited returned {shown(reason)}; a reason is a text, else None")
    return reason


def learns(attack: Attack) -> bool:
    """Whether an attack needs draws to learn from."""
    return bool(guarded("learns", lambda: bool(attack.learns())))


def nan_allowed(mechanism: Mechanism | HostMechanism) -> bool:
    """Whether NaN is a legitimate output of a mechanism."""
    allowed = guarded("may_be_nan", lambda: mechanism.may_be_nan)
    if not isinstance(allowed, bool | np.bool_):
        raise CellError(f"may_be_nan is {shown(allowed)}; True or False is wanted")
    return bool(allowed)


def holds_canaries(mechanism: Mechanism | HostMechanism) -> bool:
    """Whether releases of a mechanism hold canaries."""
    given = guarded("canaries", lambda: mechanism.canaries)
    if not isinstance(given, bool | np.bool_):
        raise CellError(f"canaries is {shown(given)}; True or False is wanted")
    return bool(given)


def mismatch(mechanism: Mechanism | HostMechanism, gives: str) -> str | None:
    """Why an attack that gives such scores says nothing of a mechanism; None if it does."""
    holds = holds_canaries(mechanism)
    if holds == (gives == "canaries"):
        return None
    if holds:
        return "each of its releases holds many canaries, for attacks that give canaries"
    return "its releases hold no canaries: one of them is one draw"


def arrays(what: str, tree: Tree) -> Tree:
    """A tree with every leaf a NumPy array of numbers.

    Args:
        what: which method returned it.
        tree: an attack's state or a statistic's layout.
    """

    def array(leaf: Any) -> Any:
        found = guarded(what, lambda: np.asarray(leaf))
        if not (jnp.issubdtype(found.dtype, jnp.number) or found.dtype == np.bool_):
            raise CellError(f"{what} returned {shown(leaf)}; a pytree of arrays is wanted")
        return found

    return jax.tree.map(array, tree)


def zero_of(statistic: Statistic, layout: Tree) -> Tree:
    """Counts of no draws: at least one array of integers, first axis the dataset."""
    zero = arrays("zero", guarded("zero", lambda: statistic.zero(layout)))
    leaves = jax.tree.leaves(zero)
    if not leaves:
        raise CellError("zero returned no counts at all")
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.integer):
            raise CellError(f"zero returned {leaf.dtype}; counts are integers")
        if leaf.shape[:1] != (2,):
            raise CellError(f"zero returned shape {leaf.shape}; the first axis is the dataset")
    return zero


def check_updated(before: Tree, after: Tree) -> None:
    """Raises CellError unless counts have the structure, shapes and types that they had; traced."""

    def described(tree: Tree) -> tuple[Any, list[tuple[Any, Any]]]:
        leaves, structure = jax.tree.flatten(tree)
        return structure, [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]

    old, new = described(before), guarded("update", lambda: described(after))
    if old[0] != new[0]:
        raise CellError("update returned counts of another structure than zero")
    for (shape, dtype), (found, kind) in zip(old[1], new[1], strict=True):
        if (shape, dtype) != (found, kind):
            raise CellError(f"update returned {kind}{list(found)}, not {dtype}{list(shape)}")
