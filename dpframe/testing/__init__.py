"""The conformance suite: test that a plugin does what every plugin of its kind must do.

For an author's tests: `check_mechanism(NoisySum(epsilon=1.0))` raises `NotKeptError`, an
AssertionError that names every promise that is broken. The built-ins are checked by the same
functions. A correct plugin is accused with a probability below 1e-5. Runs of the same version of
dpframe give the same result, because nothing here depends on the time.
"""

import dataclasses
from typing import Any

from dpframe.interfaces.attack import Attack
from dpframe.interfaces.estimator import Estimator
from dpframe.interfaces.mechanism import HostMechanism, Mechanism
from dpframe.interfaces.pair import Neighbourhood, Pair
from dpframe.testing import attacks, estimators, mechanisms, neighbourhoods, plugins
from dpframe.testing.plugins import Finding, NotKeptError, demand, examine, instance

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
    """Check a mechanism, traced or a black box.

    Args:
        mechanism: an instance, or a class, tried with 1 wherever it requires a number.
        pair: the datasets; default: `zeros-ones` with two coordinates.

    Returns:
        The result of each promise.

    Raises:
        NotKeptError: a promise is broken.
    """
    return demand(mechanism, examined(mechanism, pair=pair))


def check_attack(
    attack: Attack | type[Attack],
    mechanism: Mechanism | HostMechanism | None = None,
    pair: Pair | None = None,
) -> list[Finding]:
    """Check an attack against a leak that it should see; returns and raises as `check_mechanism`.

    Args:
        attack: an instance or a class.
        mechanism: one that leaks much; default: `laplace` with ε = 8, or a noisy index if the
            attack raises on numbers.
        pair: the datasets; default: `zeros-ones` with two coordinates, or with one for an attack
            on single numbers.
    """
    return demand(attack, examined(attack, mechanism=mechanism, pair=pair))


def check_estimator(estimator: Estimator | type[Estimator]) -> list[Finding]:
    """Check an estimator on scores of exactly known loss; the rest is as for `check_mechanism`."""
    return demand(estimator, examined(estimator))


def check_pair(pair: Pair | type[Pair]) -> list[Finding]:
    """Check a pair of neighbouring datasets; the rest is as for `check_mechanism`."""
    return demand(pair, examined(pair))


def check_neighbourhood(neighbourhood: Neighbourhood | type[Neighbourhood]) -> list[Finding]:
    """Check a neighbourhood by calling `propose` a few times; the rest as for `check_mechanism`."""
    return demand(neighbourhood, examined(neighbourhood))


def examined(
    plugin: Any,
    *,
    mechanism: Mechanism | HostMechanism | None = None,
    pair: Pair | None = None,
) -> list[Finding]:
    """Try every promise of a plugin of any kind, without raising for a broken one.

    Args:
        plugin: an instance or a class.
        mechanism: the target of an attack; see `check_attack`.
        pair: the datasets; see `check_mechanism`.
    """
    subject = instance(plugin)
    if subject.kind == "mechanism":
        on_pair = _on_pair(subject, pair or _datasets(2))
        findings = examine(on_pair.mechanism, plugins.TRIALS) + examine(on_pair, mechanisms.TRIALS)
        return findings if pair else _with_hint(findings, "--set pair.use=…")
    common = examine(subject, plugins.TRIALS)
    if subject.kind == "pair":
        return common + examine(subject, neighbourhoods.OF_PAIRS)
    if subject.kind == "neighbourhood":
        return common + examine(neighbourhoods.ProposedPairs(subject), neighbourhoods.TRIALS)
    if subject.kind == "estimator":
        return common + examine(estimators.ScoredEstimator(subject), estimators.TRIALS)
    # Without a named target: vectors, single numbers, and indices.
    leaks = [(mechanism, dim) for dim in (2, 1)] if mechanism else [(_leak(), 2), (_leak(), 1)]
    leaks += [] if mechanism else [(attacks.NoisyIndex(), 1)]
    on_pairs = [
        attacks.AttackOnPair(subject, _on_pair(leak, pair or _datasets(n))) for leak, n in leaks
    ]
    suited = (one for one in on_pairs if one.is_possible())
    findings = common + examine(next(suited, on_pairs[0]), attacks.TRIALS)
    named = mechanism and pair
    return findings if named else _with_hint(findings, "--set mechanism.use=… --set pair.use=…")


def _with_hint(findings: list[Finding], options: str) -> list[Finding]:
    """Add to the first broken promise a hint on how to choose the test's mechanism or pair."""
    broken = [finding for finding in findings if finding.result == "broken"]
    hint = f"; if it needs other data, name them: dpframe check --plugin NAME {options}"
    return [
        dataclasses.replace(one, detail=one.detail + hint) if one in broken[:1] else one
        for one in findings
    ]


def _on_pair(mechanism: Any, pair: Pair) -> mechanisms.MechanismOnPair:
    return mechanisms.MechanismOnPair(mechanism.resolve(pair), pair)


def _datasets(dim: int) -> Pair:
    from dpframe.builtin.pairs import ZerosOnes

    return ZerosOnes(dim=dim)


def _leak() -> Mechanism:
    from dpframe.builtin.pure_mechanisms import Laplace

    return Laplace(epsilon=8.0)
