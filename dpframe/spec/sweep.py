"""The axes of a sweep: each key with its values, checked against what has such a key."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dpframe.spec.document import dotted, flatten
from dpframe.spec.model import KINDS, SWEEPABLE, AuditTable
from dpframe.spec.problems import accepts, show
from dpframe.spec.wording import findings
from dpframe.suggest import cut

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dpframe.spec.document import Document
    from dpframe.spec.locate import Path
    from dpframe.spec.problems import Problems
    from dpframe.spec.uses import Members


@dataclasses.dataclass(frozen=True)
class Axis:
    """One swept key."""

    key: str
    """For example "mechanism.epsilon"."""
    path: Path
    values: tuple[Any, ...]

    @property
    def group(self) -> str:
        """What has the key: a kind of plugin, "pair" or "audit"."""
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """The parameter."""
        return self.key.partition(".")[2]


def read_axes(document: Document, members: Members, problems: Problems) -> list[Axis]:
    """The axes in the order of the spec."""
    sweep = document.data.get("sweep")
    names = {kind: dict.fromkeys(members.names(kind)) for kind in (*KINDS, "pair")}
    names["audit"] = dict.fromkeys(SWEEPABLE)
    axes: dict[str, Axis] = {}
    for key, path, values in flatten(sweep, ("sweep",)) if isinstance(sweep, dict) else ():
        group, _, name = key.partition(".")
        if name not in names.get(group, ()):
            # A plugin that could not be found may have the key.
            if group not in members.broken:
                _unknown(key, path, names, problems)
            continue
        if not isinstance(values, list):
            problems.add(path, f"should be a list of values, got {show(values)}")
        elif not values:
            problems.add(path, "is an empty list, so there is nothing to run")
        elif key in axes:
            problems.add(path, f"is already swept by {dotted(axes[key].path)}")
        else:
            axes[key] = Axis(key, path, tuple(values))
            _check_values(axes[key], problems)
    return list(axes.values())


def _unknown(key: str, path: Path, names: dict[str, dict[str, None]], problems: Problems) -> None:
    """Notes a key that nothing has."""
    group, _, name = key.partition(".")
    every = [f"{group}.{name}" for group, of in names.items() for name in of]
    if group in KINDS or group == "pair":
        message = f"no {group} of this spec has a parameter {cut(name)!r}"
        problems.add(path, message, accepts([k for k in every if k.startswith(f"{group}.")], key))
    else:
        problems.add(path, "cannot be swept", accepts(every, key))


def _check_values(axis: Axis, problems: Problems) -> None:
    """Repetitions, and the values of [audit]; a plugin's are checked where it is made."""
    first: dict[Hashable, int] = {}
    for position, value in enumerate(axis.values):
        earlier = first.setdefault(freeze(value), position)
        if earlier != position:
            message = f"{show(value)} is already entry {earlier} of this list"
            problems.add((*axis.path, position), message)
        if axis.group == "audit":
            table = {"name": "audit", axis.name: value}
            try:
                AuditTable.model_validate(table)
            except ValidationError as error:
                for finding in findings(error, table, "key"):
                    place = (*axis.path, position, *finding.path[1:])
                    problems.add(place, finding.message, finding.hint)


def freeze(value: Any) -> Hashable:
    """A hashable stand-in; equal for equal numbers (1 and 1.0), different for 1 and true."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float | str):
        return value
    return ("json", json.dumps(value, sort_keys=True, default=str))
