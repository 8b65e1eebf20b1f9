"""The [[expect]] rules: which verdict a cell should get."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from dpframe.common.text import listed
from dpframe.spec.document import flatten
from dpframe.spec.model import KINDS
from dpframe.spec.problems import accepts, show
from dpframe.spec.sweep import freeze

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from dpframe.spec.document import Document, Path
    from dpframe.spec.model import ExpectTable
    from dpframe.spec.problems import Problems
    from dpframe.spec.sweep import Axis
    from dpframe.spec.tables import Sections
    from dpframe.spec.uses import Members


Coordinates = dict[str, "Hashable"]
"""What a rule can ask of a cell: labels, the pair's name, and frozen values of swept keys."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """One key of a `where` and what it may be."""

    key: str
    path: Path
    accepted: frozenset[Hashable]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One [[expect]] table."""

    path: Path
    conditions: tuple[Condition, ...]
    verdict: str
    idle: bool
    """An override narrowed one of its keys, so that it may match nothing."""

    def matches(self, cell: Coordinates) -> bool:
        """Whether all conditions hold."""
        return all(
            condition.key in cell and cell[condition.key] in condition.accepted
            for condition in self.conditions
        )


class Rules:
    """All rules of a spec; remembers which have matched a cell."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = list(rules)
        self._matched: set[Path] = set()
        # Each rule under the values of one of its keys, so that a cell meets few of them.
        self._of: dict[tuple[str, Hashable], list[int]] = {}
        self._of_all: list[int] = []
        wanted = Counter(
            (condition.key, value)
            for rule in self._rules
            for condition in rule.conditions
            for value in condition.accepted
        )
        for number, rule in enumerate(self._rules):
            if not rule.conditions:
                self._of_all.append(number)
                continue
            rarest = min(
                rule.conditions,
                key=lambda condition: sum(wanted[condition.key, v] for v in condition.accepted),
            )
            for value in rarest.accepted:
                self._of.setdefault((rarest.key, value), []).append(number)

    def verdict(self, cell: Coordinates) -> str | None:
        """What the last rule that matches says."""
        last = -1
        of_value = (self._of.get(item, ()) for item in cell.items())
        for number in itertools.chain(self._of_all, *of_value):
            rule = self._rules[number]
            if rule.matches(cell):
                self._matched.add(rule.path)
                last = max(last, number)
        return self._rules[last].verdict if last >= 0 else None

    def of_skipped(self, combination: Coordinates) -> str | None:
        """The same for what is left out; that is no match, since nothing can be found there."""
        verdicts = [rule.verdict for rule in self._rules if rule.matches(combination)]
        return verdicts[-1] if verdicts else None

    def check_all_matched(self, axes: list[Axis], problems: Problems) -> None:
        """Notes the rules that have matched no cell; call it after the last cell."""
        for rule in self._rules:
            if not rule.idle and rule.path not in self._matched:
                hint = functools.partial(_what_there_is, rule, axes)
                problems.add((*rule.path, "where"), "matches no cell", hint)


def _what_there_is(rule: Rule, axes: list[Axis]) -> str:
    """The values that its keys take, where it names none of them."""
    values = {axis.key: axis.values for axis in axes}
    return "\n".join(
        f"{condition.key} takes: {listed(map(show, values[condition.key]))}"
        for condition in rule.conditions
        if condition.key in values
        and condition.accepted.isdisjoint(map(freeze, values[condition.key]))
    )


def read_rules(
    document: Document, sections: Sections, members: Members, axes: list[Axis], problems: Problems
) -> Rules:
    """Reads the rules and checks the keys and labels that they name."""
    labels = {kind: dict.fromkeys(m.label for m in members.of_kind[kind]) for kind in KINDS}
    of_pair = members.of_kind["pair"] or members.of_kind["neighbourhood"]
    labels["pair"] = dict.fromkeys(member.entry.name for member in of_pair)
    reader = _Reader(document, labels, members.broken, axes, problems)
    return Rules(reader.rule(position, table) for position, table in sections.expect.items())


class _Reader:
    """Reads rules in the light of what the spec names and sweeps."""

    def __init__(
        self,
        document: Document,
        labels: dict[str, dict[str, None]],
        broken: frozenset[str],
        axes: list[Axis],
        problems: Problems,
    ) -> None:
        self.labels, self.broken, self.problems = labels, broken, problems
        self.swept = {axis.key: {freeze(value) for value in axis.values} for axis in axes}
        self.narrowed = document.narrowed
        # A sweep with a mistake in it is still one that rules may name.
        sweep = document.data.get("sweep")
        named = flatten(sweep, ("sweep",)) if isinstance(sweep, dict) else ()
        self.keys = dict.fromkeys([*labels, *(key for key, _, _ in named), *document.fixed])

    def rule(self, position: int, table: ExpectTable) -> Rule:
        path: Path = ("expect", position)
        conditions = []
        for key, place, value in flatten(table.where, (*path, "where")):
            if key not in self.keys:
                self.problems.add(place, "is no label and not swept", accepts(self.keys, key))
            elif key in self.labels:
                conditions.append(Condition(key, place, self._labels(key, place, value)))
            else:
                conditions.append(Condition(key, place, self._values(key, value)))
        idle = any(condition.key in self.narrowed for condition in conditions)
        return Rule(path, tuple(conditions), table.verdict, idle)

    def _labels(self, key: str, place: Path, value: Any) -> frozenset[Hashable]:
        listed = isinstance(value, list)
        names = value if listed else [value]
        if key == "pair":
            names = [n.rpartition("/")[2] if isinstance(n, str) else n for n in names]
        for position, name in enumerate(names):
            known = isinstance(name, str) and name in self.labels[key]
            if not known and key not in self.broken:
                at = (*place, position) if listed else place
                hint = accepts(self.labels[key], name)
                self.problems.add(at, f"no {key} is called {show(name)}", hint)
        return frozenset(map(freeze, names))

    def _values(self, key: str, value: Any) -> frozenset[Hashable]:
        """A list is a choice of values, unless it is itself one of the swept values."""
        one = freeze(value)
        if not isinstance(value, list) or one in self.swept.get(key, ()):
            return frozenset({one})
        return frozenset(map(freeze, value))
