"""The cells of an audit: every combination of the sweep, or the reason it is skipped."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common.machine import at_work, free_bytes, within
from dpframe.common.text import raised_in, shown
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import EQUAL, Pair, equal, unplayable, untraceable
from dpframe.spec.audit import Cell, Choice, Identity, Search, Skip
from dpframe.spec.model import KINDS, OBSERVED, SEARCHED_BY, SWEEPABLE
from dpframe.spec.problems import describe
from dpframe.spec.sweep import freeze
from dpframe.spec.uses import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.interfaces.attack import Attack
    from dpframe.spec.document import Document
    from dpframe.spec.expect import Coordinates, Rules
    from dpframe.spec.model import AuditTable
    from dpframe.spec.problems import Problems
    from dpframe.spec.sweep import Axis
    from dpframe.spec.uses import Member, Members, Picks, Variants


# The cross product: every combination of the sweep becomes a cell or is skipped with a reason.


class Chosen(NamedTuple):
    """A chosen plugin and what identifies it."""

    choice: Choice[Any]
    identity: list[Any]


class Target(NamedTuple):
    """A mechanism as it meets the pair."""

    mechanism: Chosen
    claim: Claim | None
    delta: float
    """The claim's own δ."""


class Combination(NamedTuple):
    """Plugins of a cell but the pair."""

    mechanism: Member
    attack: Member
    estimator: Member


class Grid:
    """All combinations of members and swept values.

    Each plugin, and each mechanism with each pair, is prepared once and then shared by the
    cells that use it.
    """

    def __init__(
        self,
        document: Document,
        audit: AuditTable,
        members: Members,
        axes: list[Axis],
        *,
        variants: dict[Member, Variants],
        problems: Problems,
    ) -> None:
        self._audit, self._members, self._axes = audit, members, axes
        self._variants, self._problems = variants, problems
        self._look_at_pairs()
        self._fixed: Coordinates = {key: freeze(value) for key, value in document.fixed.items()}
        self._free = free_bytes()
        self._alike: dict[tuple[Member, Picks], bool | None] = {}
        self._nothing_to_tell: list[tuple[Combination, Picks]] = []
        self._choices: dict[tuple[Member, Picks], Chosen] = {}
        self._targets: dict[tuple[Member, Picks, Picks], Target | None] = {}
        self._axes_of = {
            member: [at for at, axis in enumerate(axes) if _owns(member, axis)]
            for of_kind in members.of_kind.values()
            for member in of_kind
        }

    def _look_at_pairs(self) -> None:
        """What has to be known of the pairs before anything else."""

    def _pair_of(self, mechanism: Member) -> Member:
        """What gives the pairs that a mechanism meets."""
        return self._members.of_kind["pair"][0]

    def cells(self, rules: Rules) -> list[Cell]:
        """The cells, by mechanism, then in the order of the sweep, then attack and estimator."""
        cells: list[Cell] = []
        positions = [range(len(axis.values)) for axis in self._axes]
        complete: dict[Member, list[Combination]] = {}
        for one in self._combinations():
            if not self._lacking(one):
                complete.setdefault(one.mechanism, []).append(one)
        for mechanism, combinations in complete.items():
            for index in product(*positions):
                target = self._target(mechanism, index)
                if target is None:
                    continue
                pair = self._pair_of(mechanism)
                alike = self._alike[pair, self._picks(pair, index)]
                for combination in combinations:
                    if alike and not _plays_canaries(combination.attack):
                        self._nothing_to_tell.append((combination, index))
                        continue
                    cells += self._repeats(combination, target, index, rules)
        return cells

    def skips(self, rules: Rules) -> list[Skip]:
        """Combinations that make no cell; to be asked for after the cells.

        A plugin lacks a swept parameter that others have, or D and D′ are equal.
        """
        lacking = [
            self._skip(one, [], "; ".join(reasons), rules.of_skipped(self._coordinates(one, [])))
            for one in self._combinations()
            if (reasons := self._lacking(one))
        ]
        alike = []
        for one, index in self._nothing_to_tell:
            swept = self._swept(index)
            expected = rules.of_skipped(self._coordinates(one, swept))
            alike.append(self._skip(one, swept, EQUAL, expected))
        return lacking + alike

    def _skip(
        self,
        one: Combination,
        swept: list[tuple[str, Any]],
        reason: str,
        expected: str | None,
    ) -> Skip:
        pair = self._pair_of(one.mechanism).entry.name
        labels = (one.mechanism.label, pair, one.attack.label, one.estimator.label)
        return Skip(*labels, swept=tuple(swept), reason=reason, expected=expected)

    def _swept(self, index: Picks) -> list[tuple[str, Any]]:
        return [(axis.key, axis.values[at]) for axis, at in zip(self._axes, index, strict=True)]

    def _combinations(self) -> Iterator[Combination]:
        for chosen in product(*(self._members.of_kind[kind] for kind in KINDS)):
            yield Combination(*chosen)

    def _lacking(self, combination: Combination) -> list[str]:
        return [
            f"{member} has no parameter {axis.name!r}, which the sweep varies"
            for member in combination
            for axis in self._axes
            if axis.group == member.kind and axis.name not in member.names
        ]

    def _picks(self, member: Member, index: Picks) -> Picks:
        return tuple(index[at] for at in self._axes_of[member])

    def _choice(self, member: Member, index: Picks) -> Chosen:
        key = (member, self._picks(member, index))
        if key not in self._choices:
            self._choices[key] = _choose(member, self._variants[member][key[1]])
        return self._choices[key]

    def _target(self, mechanism: Member, index: Picks) -> Target | None:
        of_pair = self._pair_of(mechanism)
        key = (mechanism, self._picks(mechanism, index), self._picks(of_pair, index))
        if key not in self._targets:
            plain, pair = self._choice(mechanism, index).choice, self._choice(of_pair, index)
            known = (of_pair, key[2])
            if known not in self._alike:
                # Whoever asks for the data first learns whether there is room for them.
                with within(self._free):
                    self._alike[known] = self._look_at(of_pair, pair.choice.value)
            usable = self._alike[known] is not None
            if usable and not isinstance(plain.value, HostMechanism):
                usable = self._can_be_traced(mechanism, of_pair, pair.choice.value)
            met = self._meet(mechanism, plain.value, of_pair, pair.choice.value) if usable else None
            self._targets[key] = met
        return self._targets[key]

    def _look_at(self, member: Member, pair: Any) -> bool | None:
        """Whether D and D′ are the same; None where they are of no use, which is a mistake."""
        try:
            with at_work(f"{member}: D or D′", member.path):
                problem = unplayable(pair)
                if problem is None:
                    return equal(pair)
        except (Exception, SystemExit) as error:  # exit() would end the program
            problem = self._explained(error)
        self._problems.add(member.path, f"{member}: {problem}", _with(_of(pair)))
        return None

    def _can_be_traced(self, member: Member, giver: Member, pair: Any) -> bool:
        problem = untraceable(pair)
        if problem is not None:
            message = f"{giver}: {problem}"
            self._problems.add(
                giver.path, message, _with(_of(pair)), f"{member} is one that JAX traces"
            )
        return problem is None

    def _meet(self, member: Member, mechanism: Any, giver: Member, pair: Any) -> Target | None:
        """Runs the authors' own code; whatever it raises is a mistake at its entry."""
        try:
            with at_work(f"{member}: resolve", member.path):
                resolved = mechanism.resolve(pair)
            if not isinstance(resolved, type(mechanism)):
                raise TypeError(f"resolve returned {shown(resolved)}, which is not the mechanism")
            with at_work(f"{member}: claim", member.path):
                claim = resolved.claim(pair)
            if not isinstance(claim, Claim | None):
                raise TypeError(f"claim returned {shown(claim)}, which is neither a claim nor None")
            with at_work(f"{member}: claim", member.path):
                delta = 0.0 if claim is None else float(claim.default_delta)
            return Target(_choose(member, resolved), claim, delta)
        except (Exception, SystemExit) as error:  # exit() would end the program
            of_pair = _of(pair)
            if raised_in(error, type(pair)):  # its distance, for one
                message = f"{giver}: {self._explained(error)}"
                self._problems.add(giver.path, message, _with(of_pair))
            else:
                message = f"{member} does not go with pair {pair.name!r}: {self._explained(error)}"
                self._problems.add(member.path, message, _with({**mechanism.params(), **of_pair}))
            return None

    def _explained(self, error: BaseException) -> str:
        if not isinstance(error, MemoryError):
            return explain(error)
        there_is = f"; {self._free / 2**30:.3g} GiB is free" if self._free is not None else ""
        return f"does not fit into the memory of this machine: {explain(error)}{there_is}"

    def _repeats(
        self, combination: Combination, target: Target, index: Picks, rules: Rules
    ) -> Iterator[Cell]:
        """The cells of one combination at one point of the sweep."""
        swept = self._swept(index)
        pair = self._choice(self._pair_of(combination.mechanism), index)
        attack = self._choice(combination.attack, index)
        estimator = self._choice(combination.estimator, index)
        identity = Identity(
            [member.label for member in combination],
            [target.mechanism.identity, pair.identity, attack.identity, estimator.identity],
            swept,
        )
        settings = {name: getattr(self._audit, name) for name in SWEEPABLE}
        settings |= {key.partition(".")[2]: v for key, v in swept if key.startswith("audit.")}
        delta = settings["delta"]
        first = Cell(
            id=identity.of_repeat(0),
            repeat=0,
            mechanism=target.mechanism.choice,
            pair=pair.choice,
            attack=attack.choice,
            estimator=estimator.choice,
            swept=tuple(swept),
            claim=target.claim,
            delta=float(target.delta if delta is None else delta),
            confidence=float(settings["confidence"]),
            trials=settings["trials"],
            seed=settings["seed"],
            expected=rules.verdict(self._coordinates(combination, swept)),
        )
        yield first
        for repeat in range(1, self._audit.repeats):
            yield dataclasses.replace(first, id=identity.of_repeat(repeat), repeat=repeat)

    def _coordinates(self, combination: Combination, swept: list[tuple[str, Any]]) -> Coordinates:
        labels = {member.kind: member.label for member in combination}
        values = {key: freeze(value) for key, value in swept}
        pair = self._pair_of(combination.mechanism).entry.name
        return {**labels, "pair": pair, **self._fixed, **values}


def _of(pair: Any) -> dict[str, Any]:
    return {f"pair.{name}": value for name, value in pair.params().items()}


def _with(params: dict[str, Any]) -> str:
    return f"with {describe(params)}" if params else ""


def _owns(member: Member, axis: Axis) -> bool:
    return axis.group == member.kind and axis.name in member.names


def _plays_canaries(attack: Member) -> bool:
    """Whether an attack looks at canaries, which differ by their coins and need no pair."""
    return getattr(attack.entry.cls, "gives", None) == "canaries"


def _choose(member: Member, value: Any) -> Chosen:
    entry = member.entry
    known = (entry.name, member.label, entry.distribution, entry.version)
    choice = Choice(
        *known, value, raises=member.raises, limit=member.limit, time=member.time, bits=member.bits
    )
    return Chosen(choice, [entry.distribution, entry.name, value.params()])


# Cells that are searched: one per mechanism with its parameters, and estimator.


class SearchGrid(Grid):
    """All combinations of mechanisms, estimators and swept values; attacks are played together.

    A cell begins with the first pair that is proposed, so that mechanisms that go with no pair of
    the neighbourhood are found here.
    """

    def __init__(self, document: Document, *args: Any, **more: Any) -> None:
        self._attacks_are_default = document.data["attack"] == SEARCHED_BY["attack"]
        super().__init__(document, *args, **more)

    def _look_at_pairs(self) -> None:
        for estimator in self._members.of_kind["estimator"]:
            if not getattr(estimator.entry.cls, "anytime", False):
                self._problems.add(
                    (*estimator.path, "use"),
                    f"{estimator} is for one pair and a number of trials that is fixed beforehand; "
                    "a search needs one that may be asked at any time",
                    "for example: betting, which is taken where there is no [[estimator]]",
                )
                self._problems.raise_if_any()
        self._neighbourhoods: dict[Member, Any] = {}
        for member in self._members.of_kind["neighbourhood"]:
            for picks, neighbourhood in self._variants[member].items():
                first = self._first(member, neighbourhood)
                if first is not None:
                    self._variants[member][picks] = first
                    self._neighbourhoods[member] = neighbourhood

    def _pair_of(self, mechanism: Member) -> Member:
        """Its own neighbourhood, or else the one that all share."""
        members = {member.path: member for member in self._members.of_kind["neighbourhood"]}
        return members.get((*mechanism.path, "search")) or members["search",]

    def _first(self, member: Member, neighbourhood: Any) -> Pair | None:
        try:
            with at_work(f"{member}: propose", member.path):
                proposed = list(neighbourhood.propose(np.random.default_rng(0), ()))
            if not proposed or not all(isinstance(pair, Pair) for pair in proposed):
                raise ValueError(f"propose gave {shown(proposed)}; pairs are wanted")
            first: Pair = next((p for p in proposed if not _alike(p)), proposed[0])
        except (Exception, SystemExit) as error:  # exit() would end the program
            self._problems.add(member.path, f"{member}: {explain(error)}")
            self._problems.raise_if_any()
            return None
        return first

    def _choice(self, member: Member, index: Picks) -> Chosen:
        """A cell is known by its neighbourhood, not by what that happens to propose first."""
        found = super()._choice(member, index)
        if member.kind != "neighbourhood":
            return found
        entry, params = member.entry, self._neighbourhoods[member].params()
        return found._replace(identity=[entry.distribution, entry.name, params])

    def _combinations(self) -> Iterator[Combination]:
        """One attack stands for all."""
        for one in super()._combinations():
            if one.attack is self._members.of_kind["attack"][0]:
                yield one

    def _repeats(
        self, combination: Combination, target: Target, index: Picks, rules: Rules
    ) -> Iterator[Cell]:
        member = self._pair_of(combination.mechanism)
        pair = self._choice(member, index).choice
        first: Any = pair.value
        search = Search(
            mechanism=self._choice(combination.mechanism, index).choice,
            neighbourhood=Choice(
                pair.use, pair.label, pair.distribution, pair.version, self._neighbourhoods[member]
            ),
            attacks=self._attacks(self._choice(combination.mechanism, index).choice, index),
        )
        named = dataclasses.replace(pair, use=type(first).name, label=type(first).name)
        for cell in super()._repeats(combination, target, index, rules):
            yield dataclasses.replace(cell, pair=named, search=search)

    def _attacks(self, mechanism: Choice[Any], index: Picks) -> tuple[Choice[Attack], ...]:
        """All that the spec names; where it names none, those that are for such a mechanism."""
        found = [self._choice(attack, index).choice for attack in self._members.of_kind["attack"]]
        if not self._attacks_are_default:
            return tuple(found)
        if not isinstance(mechanism.value, HostMechanism):
            return tuple(one for one in found if one.use != "answers")
        # Exact answers are what "categories" has of arrays.
        left_out = {"categories"}
        left_out |= {view for view in OBSERVED if not getattr(mechanism, view)}
        return tuple(one for one in found if one.label not in left_out)


def _alike(pair: Pair) -> bool:
    return unplayable(pair) is None and equal(pair)
