"""The conformance suite: try out on a plugin what every plugin of its kind must do.

For an author's tests: `check_mechanism(NoisySum(epsilon=1.0))` raises `NotKeptError`, an
AssertionError that names every promise that is broken. The built-ins are checked by the same
functions. A correct plugin is accused with a probability below 1e-5, and not again with the same
version of dpframe, because nothing here depends on the time.
"""

from __future__ import annotations

from typing import Any

from dpframe.interfaces.attack import Attack
from dpframe.interfaces.estimator import Estimator
from dpframe.interfaces.mechanism import HostMechanism, Mechanism
from dpframe.interfaces.pair import Neighbourhood, Pair
from dpframe.testing import attacks, estimators, mechanisms, neighbourhoods
from dpframe.testing import neighbourhoods as pairs
from dpframe.testing.plugins import Finding as Finding
from dpframe.testing.plugins import NotKeptError as NotKeptError
from dpframe.testing.plugins import demand, examine, instance

__all__ = [
    "Finding",
    "NotKeptError",
    "check_attack",
    "check_estimator",
    "check_mechanism",
    "check_neighbourhood",
    "check_pair",
    "examined",
]


def check_mechanism(
    mechanism: Mechanism | HostMechanism | type[Mechanism] | type[HostMechanism],
    pair: Pair | None = None,
) -> list[Finding]:
    """Checks a mechanism, traced or a black box.

    Args:
        mechanism: an instance, or a class, tried with 1 wherever it requires a number.
        pair: the datasets; default: `zeros-ones` with two coordinates.

    Returns:
        The result of each promise.

    Raises:
        NotKeptError: a promise is broken.
    """
    return demand(_title(mechanism), examined(mechanism, pair=pair))


def check_attack(
    attack: Attack | type[Attack],
    mechanism: Mechanism | HostMechanism | None = None,
    pair: Pair | None = None,
) -> list[Finding]:
    """Checks an attack against a leak that it should see.

    Args:
        attack: an instance or a class.
        mechanism: one that leaks much; default: `laplace` with ε = 8.
        pair: the datasets; default: `zeros-ones` with two coordinates, or with one for an attack
            on single numbers.

    Returns:
        The result of each promise.

    Raises:
        NotKeptError: a promise is broken.
    """
    return demand(_title(attack), examined(attack, mechanism=mechanism, pair=pair))


def check_estimator(estimator: Estimator | type[Estimator]) -> list[Finding]:
    """Checks an estimator on scores whose loss is known exactly.

    Args:
        estimator: an instance or a class.

    Returns:
        The result of each promise.

    Raises:
        NotKeptError: a promise is broken.
    """
    return demand(_title(estimator), examined(estimator))


def check_pair(pair: Pair | type[Pair]) -> list[Finding]:
    """Checks a pair of neighbouring datasets.

    Args:
        pair: an instance or a class.

    Returns:
        The result of each promise.

    Raises:
        NotKeptError: a promise is broken.
    """
    return demand(_title(pair), examined(pair))


def check_neighbourhood(neighbourhood: Neighbourhood | type[Neighbourhood]) -> list[Finding]:
    """Checks a neighbourhood by asking it a few times, as a search does.

    Args:
        neighbourhood: an instance or a class.

    Returns:
        The result of each promise.

    Raises:
        NotKeptError: a promise is broken.
    """
    return demand(_title(neighbourhood), examined(neighbourhood))


def examined(
    plugin: Any,
    *,
    mechanism: Mechanism | HostMechanism | None = None,
    pair: Pair | None = None,
) -> list[Finding]:
    """Try every promise of a plugin of any kind, without raising for a broken one.

    Args:
        plugin: an instance or a class.
        mechanism: that an attack attacks; see `check_attack`.
        pair: the datasets; see `check_mechanism`.
    """
    subject = instance(plugin)
    if subject.kind == "pair":
        return examine(subject, pairs.TRIALS)
    if subject.kind == "neighbourhood":
        return examine(neighbourhoods.Asked(subject), neighbourhoods.trials())
    if subject.kind == "estimator":
        return examine(estimators.Asked(subject), estimators.trials())
    if subject.kind == "mechanism":
        return examine(_played(subject, pair or _datasets(2)), mechanisms.trials())
    leak = mechanism or _leak()
    playing = [
        attacks.Playing(subject, _played(leak, datasets))
        for datasets in ([pair] if pair is not None else map(_datasets, DIMS))
    ]
    suited = (one for one in playing if subject.unsuited(one.target) is None)
    return examine(next(suited, playing[0]), attacks.trials())


# Coordinates of the outputs that attacks are tried on, unless somebody names the target.
DIMS = (2, 1)


def _played(mechanism: Any, pair: Pair) -> mechanisms.Played:
    return mechanisms.Played(mechanism.resolve(pair), pair)


def _datasets(dim: int) -> Pair:
    from dpframe.builtin.pairs.pairs import ZerosOnes

    return ZerosOnes(dim=dim)


def _leak() -> Mechanism:
    from dpframe.builtin.mechanisms.laplace import Laplace

    return Laplace(epsilon=8.0)


def _title(plugin: Any) -> str:
    return f"{plugin.kind} {plugin.name!r}"
