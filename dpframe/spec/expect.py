"""The [[expect]] rules: the verdicts that cells should get."""

import functools
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from dpframe.common.text import listed
from dpframe.spec.document import Document, Path, accepts, flatten, show
from dpframe.spec.members import Members
from dpframe.spec.model import LISTED
from dpframe.spec.sweep import SweptKey, freeze
from dpframe.spec.tables import Sections

Coordinates = dict[str, Hashable]
"""Labels, the pair's name, and frozen values of swept keys, which rules may test."""


class Rule(NamedTuple):
    """One [[expect]] table."""

    path: Path
    conditions: dict[str, frozenset[Hashable]]  # keys of its `where`, with the accepted values
    verdict: str
    idle: bool  # an override narrowed one of its keys, so that it may match nothing

    def matches(self, cell: Coordinates) -> bool:
        """True if all conditions hold."""
        return all(
            key in cell and cell[key] in accepted for key, accepted in self.conditions.items()
        )


class Rules:
    """All rules of a spec; remembers which have matched a cell."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = list(rules)
        self._matched: set[Path] = set()

    def verdict(self, cell: Coordinates, *, skipped: bool = False) -> str | None:
        """Return the verdict of the last rule that matches.

        A skipped combination does not count as a match of the rule.
        """
        matching = [rule for rule in self._rules if rule.matches(cell)]
        if not skipped:
            self._matched.update(rule.path for rule in matching)
        return matching[-1].verdict if matching else None

    def check_all_matched(self, axes: list[SweptKey], document: Document) -> None:
        """Report the rules that matched no cell; call it after the last cell."""
        for rule in self._rules:
            if not rule.idle and rule.path not in self._matched:
                hint = functools.partial(_values_to_choose, rule, axes)
                document.note((*rule.path, "where"), "matches no cell", hint)


def _values_to_choose(rule: Rule, axes: list[SweptKey]) -> str:
    """List the values of each swept key that the rule tests without naming one of them."""
    values = {axis.key: axis.values for axis in axes}
    return "\n".join(
        f"{key} takes: {listed(map(show, values[key]))}"
        for key, accepted in rule.conditions.items()
        if key in values and accepted.isdisjoint(map(freeze, values[key]))
    )


def read_rules(
    document: Document, sections: Sections, members: Members, axes: list[SweptKey]
) -> Rules:
    """Read the rules and check the keys and labels that they name."""
    labels = {kind: dict.fromkeys(m.label for m in members.of_kind[kind]) for kind in LISTED}
    of_pair = members.of_kind["pair"] or members.of_kind["neighbourhood"]
    labels["pair"] = dict.fromkeys(member.entry.name for member in of_pair)
    swept = {axis.key: {freeze(value) for value in axis.values} for axis in axes}
    # Rules may also name the key of a sweep that has a mistake.
    keys = dict.fromkeys([*labels, *(key for key, _, _ in document.swept), *document.fixed])

    def names(key: str, place: Path, value: Any) -> frozenset[Hashable]:
        several = isinstance(value, list)
        labelled = value if several else [value]
        if key == "pair":
            labelled = [n.rpartition("/")[2] if isinstance(n, str) else n for n in labelled]
        for position, name in enumerate(labelled):
            known = isinstance(name, str) and name in labels[key]
            if not known and key not in members.broken:
                at = (*place, position) if several else place
                message = f"no {key} is called {show(name)}"
                document.note(at, message, accepts(labels[key], name))
        return frozenset(map(freeze, labelled))

    rules = []
    for position, table in sections.expect.items():
        path: Path = ("expect", position)
        conditions: dict[str, frozenset[Hashable]] = {}
        for key, place, value in flatten(table.where, (*path, "where")):
            if key not in keys:
                document.note(place, "is neither a label nor swept", accepts(keys, key))
                continue
            one = freeze(value)
            if key in labels:
                accepted = names(key, place, value)
            elif isinstance(value, list) and one not in swept.get(key, ()):
                accepted = frozenset(map(freeze, value))
            else:  # also a list that is one of the swept values
                accepted = frozenset({one})
            # The same key may occur in quotes and as nested tables.
            conditions[key] = accepted & conditions.get(key, accepted)
        idle = not document.narrowed.isdisjoint(conditions)
        rules.append(Rule(path, conditions, table.verdict, idle))
    return Rules(rules)
