"""A plain module as a black box."""

import json
from typing import Annotated, Any, NewType

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from dpframe.plugins import ApproxDP, Claim, ForeignMechanism, Ge, Lt, Pair, PureDP, SpecFile

Table = NewType("Table", str)  # a table of plain values, as JSON text: it has to be hashable


def _written(given: Any) -> Table:
    if not isinstance(given, dict):
        raise ValueError("should be a table")
    return Table(json.dumps(given, sort_keys=True))


Given = Annotated[
    Table,
    BeforeValidator(_written),
    PlainSerializer(json.loads),
    WithJsonSchema({"type": "object"}),
]


class Program(ForeignMechanism, name="program"):
    """A plain module as a black box, without a class of dpframe.

    The module defines `prepare(params, data)`, which returns a function of no arguments that makes
    one release, or an object with `releases(n)` that makes n at a time; with `query(params, data)`
    and `sensitivity(params)` its query is checked exactly. A spec alone never runs code: the
    command line names the file too, `--plugin FILE.py`. It runs in a process of its own, in any
    environment.
    """

    module: SpecFile  # type: ignore[misc]  # a class variable elsewhere
    """The file, relative to the spec; the command line names it too, with --plugin."""
    given: Given = Table("{}")
    """The `params` that `prepare` gets."""
    epsilon: Annotated[float, Ge(0)] | None = None
    """The claim; default: nothing is claimed, and there is no verdict."""
    delta: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The claim's δ."""
    seeded: bool = False
    """True if all its randomness comes from `random`, `numpy.random` or the argument of
    `seed(n)`."""

    spec_names = {"given": "params"}  # noqa: RUF012  # a class variable of every plugin

    @property
    def seedable(self) -> bool:  # type: ignore[override]  # a class variable elsewhere
        return self.seeded

    def check(self) -> None:
        self.program()

    def claim(self, pair: Pair) -> Claim | None:
        if self.epsilon is None:
            return None
        return ApproxDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)

    def program(self) -> Any:
        return self.consented(self.module.path)

    def arguments(self) -> dict[str, Any]:
        parameters: dict[str, Any] = json.loads(self.given)
        return parameters
