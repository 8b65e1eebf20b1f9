"""Plugins with one fault each: the rules of the boundary, broken one by one.

A fault is the source of a plugin module, with a right class of each kind in which one member is
wrong, and what must come of it.
"""

from __future__ import annotations

from typing import NamedTuple

LISTED, MISTAKE, FAILED, SKIPPED, FINE = "listed", "mistake", "failed", "skipped", "fine"
"""Not loaded, a line in `dpframe plugins`; a mistake in the spec; the cell failed; it was skipped;
nothing that matters."""


class Fault(NamedTuple):
    """A plugin module, and what becomes of an audit that uses it."""

    kind: str
    """The spec's faulty plugin, called "bad"."""
    source: str
    outcome: str
    says: str
    """Part of the line that says it; a regular expression."""
    params: str = ""
    """Its parameters in the spec."""


HEAD = """\
import dataclasses
import enum
import math
from typing import Annotated, Any
import jax
import jax.numpy as jnp
import numpy as np
from dpframe import *
from dpframe.plugins import *

"""

SIGNATURES = {
    "claim": "self, pair",
    "resolve": "self, pair",
    "truth": "self, pair",
    "check": "self",
    "release": "self, key, data",
    "log_density": "self, data, outputs",
    "fit": "self, key, target, train",
    "learns": "self",
    "unsuited": "self, target",
    "score": "self, state, outputs",
    "statistic": "self",
    "estimate": "self, layout, counts, query",
    "extreme": "self, layout, trials",
    "certifies_against": "self, claim",
    "distance": "self, p",
    "bind": "self, pilot0, pilot1",
    "zero": "self, layout",
    "update": "self, layout, counts, dataset, scores, keep",
    "describe": "self, layout",
    "__post_init__": "self",
    "__repr__": "self",
    "__hash__": "self",
    "__eq__": "self, other",
}
PROPERTIES = ("d0", "d1", "may_be_nan", "rows")
RIGHT = {
    "mechanism": {
        "claim": "return PureDP(1.0)",
        "sample": "return data + jax.random.laplace(key, (n, *data.shape))",
    },
    "host": {"claim": "return PureDP(1.0)", "sample": "return data + rng.laplace(size=(n, 1))"},
    "attack": {"score": "return outputs[:, 0] > 0.5"},
    "pair": {"d0": "return np.zeros(1)", "d1": "return np.ones(1)"},
    "estimator": {
        "statistic": "return DecisionCounts()",
        "estimate": (
            "return Estimate(epsilon=1.0, epsilon_lower=0.5, p_value=0.5, p_resolved=0.5,"
            " contrast=None)"
        ),
        "extreme": "return np.array([[trials[0], 0], [0, trials[1]]])",
    },
    "statistic": {
        "zero": "return jnp.zeros((2, 2), jnp.int32)",
        "update": "return DecisionCounts().update(layout, counts, dataset, scores, keep)",
    },
}
FIRST = {
    "attack": 'gives = "decision"',
    "pair": 'adjacency = "replace one record"',
    "estimator": 'certifies = True\nassumption = "independent outputs"',
    "statistic": 'accepts = frozenset({"decision"})',
}
BASES = {
    "mechanism": "Mechanism",
    "host": "HostMechanism",
    "attack": "Attack",
    "pair": "Pair",
    "estimator": "Estimator",
    "statistic": "Statistic",
}


def body(kind: str, first: str | None = None, **members: str) -> str:
    """Members of a class that is right but for the given ones."""
    lines = [FIRST.get(kind, "") if first is None else first]
    signatures = {
        **SIGNATURES,
        "sample": "self, rng, data, n" if kind == "host" else "self, key, data, n",
    }
    for name, code in {**RIGHT[kind], **members}.items():
        if not code:
            continue
        if name in PROPERTIES:
            lines.append("@property")
        lines.append(f"def {name}({signatures.get(name, 'self')}):")
        lines.append(f"    {code}")
    return "\n".join(f"    {line}" for line in "\n".join(lines).split("\n") if line) + "\n"


def module(kind: str, first: str | None = None, *, before: str = "", **members: str) -> str:
    """A module with one plugin called "bad"."""
    hooked = "mechanism" if kind == "host" else kind
    return (
        f"{HEAD}{before}\n"
        f'class Bad({BASES[kind]}, name="bad"):\n{body(kind, first, **members)}\n'
        f"dpframe_{hooked}s = hookimpl(lambda: [Bad])\n"
    )


def of(kind: str, outcome: str, says: str, first: str | None = None, **members: str) -> Fault:
    """A fault in one member of one kind."""
    params = members.pop("params", "")
    return Fault(
        "mechanism" if kind == "host" else kind,
        module(kind, first, **members),
        outcome,
        says,
        params,
    )


def counting(outcome: str, says: str, **members: str) -> Fault:
    """A fault in the statistic of an estimator."""
    first = members.pop("first", FIRST["statistic"])
    decorated = members.pop("decorated", "@dataclasses.dataclass(frozen=True)")
    own = f"{decorated}\nclass Own(Statistic):\n{body('statistic', first, **members)}"
    return Fault(
        "estimator", module("estimator", before=own, statistic="return Own()"), outcome, says
    )


def raw(source: str, says: str) -> Fault:
    """A module that does not load."""
    return Fault("attack", HEAD + source, LISTED, says)


ATTACK = f'class Bad(Attack, name="bad"):\n{body("attack")}\n'
"""An attack that is right, as source."""
