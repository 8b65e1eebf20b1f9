"""The cells of an audit: every combination of the sweep, or the reason it is skipped."""

import dataclasses
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from dpframe.claims import Claim
from dpframe.claims.relation import is_zero, other_relation, states_relation
from dpframe.common.machine import at_work, free_bytes, within
from dpframe.common.text import raised_in, shown
from dpframe.environments import Environment
from dpframe.interfaces.mechanism import ForeignMechanism, HostMechanism
from dpframe.interfaces.pair import EQUAL, Pair, equal, unmade, untraceable, unusable
from dpframe.spec.audit import Cell, Choice, Search, Skip, cell_ids
from dpframe.spec.document import Document, describe, dotted, findings
from dpframe.spec.expect import Coordinates, Rules
from dpframe.spec.members import Member, Members, Picks, Variants, explain
from dpframe.spec.model import LISTED, OBSERVED, SEARCHED_BY, SWEEPABLE, AuditTable
from dpframe.spec.sweep import Range, SweptKey, freeze, planned, read_ranges, varied


class ResolvedPlugin(NamedTuple):
    """A chosen plugin, and the values that identify it in ids of cells."""

    choice: Choice[Any]
    identity: list[Any]


class ClaimedMechanism(NamedTuple):
    """A mechanism resolved for a pair, with its claim."""

    mechanism: ResolvedPlugin
    claim: Claim | None
    delta: float  # the claim's own δ


class Combination(NamedTuple):
    """The plugins of a cell except the pair."""

    mechanism: Member
    attack: Member
    estimator: Member


class CellGrid:
    """All combinations of members and swept values.

    Each plugin, and each mechanism with each pair, is prepared once and then shared by the
    cells that use it. In a search, each cell uses all attacks, and starts with the first pair that
    the neighbourhood proposes, so that mechanisms that do not fit its pairs are reported here.
    """

    def __init__(
        self,
        document: Document,
        audit: AuditTable,
        members: Members,
        axes: list[SweptKey],
        variants: dict[Member, Variants],
        environments: Sequence[Environment],
    ) -> None:
        self._audit, self._members, self._axes = audit, members, axes
        self._variants, self._document = variants, document
        self._combinations = [
            Combination(*chosen) for chosen in product(*(members.of_kind[kind] for kind in LISTED))
        ]
        self._fixed: Coordinates = {key: freeze(value) for key, value in document.fixed.items()}
        self._digests = {one.name: one.digest for one in environments}
        self._free = free_bytes()
        self._equal: dict[tuple[Member, Picks], bool | None] = {}
        self._nothing_to_tell: list[tuple[Combination, Picks]] = []
        self._choices: dict[tuple[Member, Picks], ResolvedPlugin] = {}
        self._targets: dict[tuple[Member, Picks, Picks], ClaimedMechanism | None] = {}
        self._axes_of = {
            member: [at for at, axis in enumerate(axes) if axis.is_of(member)]
            for of_kind in members.of_kind.values()
            for member in of_kind
        }
        self._neighbourhoods: dict[Member, Any] = {}
        if members.of_kind["neighbourhood"]:
            self._prepare_search()

    def _prepare_search(self) -> None:
        """Replace each neighbourhood by its first pair, and check the estimators."""
        members = self._members.of_kind
        first = members["attack"][0]  # it represents all attacks
        self._combinations = [one for one in self._combinations if one.attack is first]
        for estimator in members["estimator"]:
            if not getattr(estimator.entry.cls, "anytime", False):
                self._document.note(
                    (*estimator.path, "use"),
                    f"{estimator} is for one pair and a fixed number of trials; a search "
                    "needs an estimator that is valid at any time",
                    "for example: betting, which is the default without [[estimator]]",
                )
                self._document.raise_noted()
        for member in members["neighbourhood"]:
            for picks, neighbourhood in self._variants[member].items():
                self._variants[member][picks] = self._first_pair(member, neighbourhood)
                self._neighbourhoods[member] = neighbourhood

    def _pair_of(self, mechanism: Member) -> Member:
        """Return the pair, or the neighbourhood of the mechanism itself, or else the shared one."""
        if not self._neighbourhoods:
            return self._members.of_kind["pair"][0]
        members = {member.path: member for member in self._neighbourhoods}
        return members.get((*mechanism.path, "search")) or members["search",]

    def cells(self, rules: Rules) -> list[Cell]:
        """Make the cells, by mechanism, then in the order of the sweep, then attack, estimator."""
        cells: list[Cell] = []
        complete: dict[Member, list[Combination]] = {}
        for one in self._combinations:
            if not self._lacking(one):
                complete.setdefault(one.mechanism, []).append(one)
        for mechanism, combinations in complete.items():
            for index in product(*(range(len(axis.values)) for axis in self._axes)):
                target = self._target(mechanism, index)
                if target is None:
                    continue
                pair = self._pair_of(mechanism)
                same = self._equal[pair, self._picks(pair, index)]
                for one in combinations:
                    # With canaries the coins differ, so D and D′ may be equal.
                    if same and getattr(one.attack.entry.cls, "gives", None) != "canaries":
                        self._nothing_to_tell.append((one, index))
                    else:
                        cells += self._repeats(one, target, index, rules)
        return cells

    def skips(self, rules: Rules) -> list[Skip]:
        """Return the combinations without a cell; call it after `cells`.

        A plugin lacks a swept parameter that others have, or D and D′ are equal.
        """
        left_out: list[tuple[Combination, list[tuple[str, Any]], str]] = [
            (one, [], "; ".join(reasons))
            for one in self._combinations
            if (reasons := self._lacking(one))
        ]
        left_out += [(one, self._swept(index), EQUAL) for one, index in self._nothing_to_tell]
        return [
            Skip(
                mechanism=one.mechanism.label,
                pair=self._pair_of(one.mechanism).entry.name,
                attack=one.attack.label,
                estimator=one.estimator.label,
                swept=tuple(swept),
                reason=reason,
                expected=rules.verdict(self._coordinates(one, swept), skipped=True),
            )
            for one, swept, reason in left_out
        ]

    def _swept(self, index: Picks) -> list[tuple[str, Any]]:
        return [(axis.key, axis.values[at]) for axis, at in zip(self._axes, index, strict=True)]

    def _lacking(self, combination: Combination) -> list[str]:
        return [
            f"{member} has no parameter {axis.name!r}, which the sweep varies"
            for member in combination
            for axis in self._axes
            if axis.group == member.kind and not axis.is_of(member)
        ]

    def _picks(self, member: Member, index: Picks) -> Picks:
        return tuple(index[at] for at in self._axes_of[member])

    def _choice(self, member: Member, index: Picks) -> ResolvedPlugin:
        key = (member, self._picks(member, index))
        if key not in self._choices:
            resolved = self._chosen(member, self._variants[member][key[1]])
            if member in self._neighbourhoods:  # not the first proposed pair identifies the cell
                entry, first = member.entry, type(resolved.choice.value).name
                choice = dataclasses.replace(resolved.choice, use=first, label=first)
                params = self._neighbourhoods[member].params()
                resolved = ResolvedPlugin(choice, [entry.distribution, entry.name, params])
            self._choices[key] = resolved
        return self._choices[key]

    def _chosen(self, member: Member, value: Any) -> ResolvedPlugin:
        entry, where = member.entry, environment_of(value)
        known = (entry.name, member.label, entry.distribution, entry.version)
        packages = self._digests[where] if where and member.kind == "mechanism" else ""
        choice = Choice(*known, value, **member.asked, environment=packages)
        return ResolvedPlugin(choice, [entry.distribution, entry.name, value.params()])

    def _target(self, mechanism: Member, index: Picks) -> ClaimedMechanism | None:
        """Return a mechanism resolved for its pair; None after noting a mistake."""
        source = self._pair_of(mechanism)
        key = (mechanism, self._picks(mechanism, index), self._picks(source, index))
        if key not in self._targets:
            plain = self._choice(mechanism, index).choice.value
            pair = self._choice(source, index).choice.value
            known = (source, key[2])
            if known not in self._equal:
                # The first access to the data shows if they fit into memory.
                with within(self._free):
                    self._equal[known] = self._compare(source, pair)
            usable = self._equal[known] is not None
            if usable and not isinstance(plain, HostMechanism) and (why := untraceable(pair)):
                usable = False
                hint = f"{mechanism} is one that JAX traces"
                self._document.note(source.path, f"{source}: {why}", _with(_of(pair)), hint)
            if usable and not isinstance(plain, ForeignMechanism) and (why := unmade(pair)):
                usable = False
                hint = f"{mechanism} runs in this interpreter"
                self._document.note(source.path, f"{source}: {why}", hint)
            for whole in _stated_whole(plain) if mechanism.asked.get("only") else ():
                message = (
                    f"{mechanism} defines {whole}, which is compared for whole answers, never for "
                    "a part"
                )
                hint = f"run it without outputs.only, or without {whole}"
                self._document.note((*mechanism.path, "outputs", "only"), message, hint)
            self._targets[key] = self._meet(mechanism, plain, source, pair) if usable else None
        return self._targets[key]

    def _compare(self, source: Member, pair: Any) -> bool | None:
        """True if D and D′ are equal; None, with a mistake noted, if they cannot be used."""
        try:
            with at_work(f"{source}: D or D′", source.path):
                problem = unusable(pair)
                if problem is None:
                    return equal(pair)
        except (Exception, SystemExit) as error:  # exit() would end the program
            problem = self._explained(error)
        self._document.note(source.path, f"{source}: {problem}", _with(_of(pair)))
        return None

    def _meet(
        self, member: Member, mechanism: Any, source: Member, pair: Any
    ) -> ClaimedMechanism | None:
        """Resolve the mechanism and its claim; an exception of plugin code is a mistake."""
        try:
            with at_work(f"{member}: resolve", member.path):
                resolved = mechanism.resolve(pair)
            if not isinstance(resolved, type(mechanism)):
                raise TypeError(f"resolve returned {shown(resolved)}, which is not the mechanism")
            with at_work(f"{member}: claim", member.path):
                claim = resolved.claim(pair)
            if not isinstance(claim, Claim | None):
                raise TypeError(f"claim returned {shown(claim)}, which is neither a claim nor None")
            if states_relation(claim):  # else the data, which may be too large, are not made yet
                other = other_relation(claim, str(self._adjacency(source, pair)))
                if other is not None:
                    raise ValueError(other)
            with at_work(f"{member}: claim", member.path):
                delta = 0.0 if claim is None else float(claim.default_delta)
            return ClaimedMechanism(self._chosen(member, resolved), claim, delta)
        except (Exception, SystemExit) as error:  # exit() would end the program
            of_pair = _of(pair)
            if raised_in(error, type(pair)):  # its distance, for one
                message = f"{source}: {self._explained(error)}"
                self._document.note(source.path, message, _with(of_pair))
            else:
                message = f"{member} does not fit pair {pair.name!r}: {self._explained(error)}"
                self._document.note(member.path, message, _with({**mechanism.params(), **of_pair}))
            return None

    def _adjacency(self, source: Member, pair: Any) -> Any:
        """Return the relation of the neighbours, in words.

        A pair of one null record and another has no record of its own beside it, so every relation
        may be meant.
        """
        if source in self._neighbourhoods:
            return self._neighbourhoods[source].adjacency
        return "as given" if is_zero(pair.d0) or is_zero(pair.d1) else pair.adjacency

    def _explained(self, error: BaseException) -> str:
        if not isinstance(error, MemoryError):
            return explain(error)
        there_is = f"; {self._free / 2**30:.3g} GiB is free" if self._free is not None else ""
        return f"does not fit into the memory of this machine: {explain(error)}{there_is}"

    def _repeats(
        self, combination: Combination, target: ClaimedMechanism, index: Picks, rules: Rules
    ) -> list[Cell]:
        """Make the cells of one combination at one point of the sweep."""
        swept = self._swept(index)
        pair = self._choice(self._pair_of(combination.mechanism), index)
        attack = self._choice(combination.attack, index)
        estimator = self._choice(combination.estimator, index)
        ids = cell_ids(
            [member.label for member in combination],
            [target.mechanism.identity, pair.identity, attack.identity, estimator.identity],
            swept,
            self._audit.repeats,
        )
        settings = {name: getattr(self._audit, name) for name in SWEEPABLE}
        settings |= {key.partition(".")[2]: v for key, v in swept if key.startswith("audit.")}
        delta = settings["delta"]
        first = Cell(
            id=ids[0],
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
            search=self._search(combination.mechanism, index),
        )
        return [first] + [
            dataclasses.replace(first, id=ids[repeat], repeat=repeat)
            for repeat in range(1, self._audit.repeats)
        ]

    def _coordinates(self, combination: Combination, swept: list[tuple[str, Any]]) -> Coordinates:
        labels = {member.kind: member.label for member in combination}
        values = {key: freeze(value) for key, value in swept}
        pair = self._pair_of(combination.mechanism).entry.name
        return {**labels, "pair": pair, **self._fixed, **values}

    def _first_pair(self, member: Member, neighbourhood: Any) -> Pair:
        try:
            with at_work(f"{member}: propose", member.path):
                proposed = list(neighbourhood.propose(np.random.default_rng(0), ()))
            if not proposed or not all(isinstance(pair, Pair) for pair in proposed):
                raise ValueError(f"propose gave {shown(proposed)}; it must return pairs")
            different = (p for p in proposed if unusable(p) is not None or not equal(p))
            first: Pair = next(different, proposed[0])
        except (Exception, SystemExit) as error:  # exit() would end the program
            self._document.note(member.path, f"{member}: {explain(error)}")
            self._document.raise_noted()
            raise
        return first

    def _search(self, mechanism: Member, index: Picks) -> Search | None:
        source = self._pair_of(mechanism)
        if source not in self._neighbourhoods:
            return None
        plain = self._choice(mechanism, index).choice
        attacks = [self._choice(attack, index).choice for attack in self._members.of_kind["attack"]]
        if self._document.data["attack"] == SEARCHED_BY["attack"]:
            if isinstance(plain.value, HostMechanism):
                # For black boxes, the view of exact values replaces "categories".
                left_out = {"categories", *(view for view in OBSERVED if not getattr(plain, view))}
                attacks = [one for one in attacks if one.label not in left_out]
            else:
                attacks = [one for one in attacks if one.use != "answers"]
        neighbourhood = self._chosen(source, self._neighbourhoods[source]).choice
        assert source.search is not None
        about = tuple(source.search.ignore), source.search.findings
        ranges = self._ranges(mechanism, source, plain.value)
        return Search(plain, neighbourhood, tuple(attacks), *about, ranges)

    def _ranges(self, member: Member, source: Member, mechanism: Any) -> tuple[Range, ...]:
        """Return the ranges of a mechanism's parameters, after checking all of their ends."""
        assert source.search is not None
        place, key = (*source.path, "parameters"), ""
        try:
            ranges = read_ranges(source.search.parameters)
            for one in ranges:
                name = one.key.split(".")[1]
                if not any(name in other.names for other in self._members.of_kind["mechanism"]):
                    raise ValueError(f"no mechanism of this spec has a parameter {name!r}")
                if any(axis.group == "mechanism" and axis.name == name for axis in self._axes):
                    raise ValueError(f"{one.key}: is swept too")
            own = tuple(one for one in ranges if one.key.split(".")[1] in member.names)
            for setting in planned(own):
                if len(setting) == 1:
                    key = setting[0][0]
                    with at_work(f"parameters of {member}: check", place):
                        varied(mechanism, setting)
        except ValidationError as error:
            for finding in findings(error, {}, "parameter"):
                self._document.note(place, f"{dotted(finding.path) or key}: {finding.message}")
        except (Exception, SystemExit) as error:  # `check` is a plugin's own code
            self._document.note(place, explain(error))
        else:
            return own
        return ()


def _stated_whole(mechanism: Any) -> list[str]:
    """Name what a mechanism states about its answers and is compared without draws."""
    given = {"query": mechanism.has_query(), "choices": mechanism.has_choices()}
    return [name for name, defined in given.items() if defined]


def _of(pair: Any) -> dict[str, Any]:
    return {f"pair.{name}": value for name, value in pair.params().items()}


def _with(params: dict[str, Any]) -> str:
    return f"with {describe(params)}" if params else ""


def environment_of(plugin: Any) -> str | None:
    """Return the name of the environment that a mechanism runs in; None for this interpreter."""
    name = getattr(plugin, "environment", None)
    return name if isinstance(name, str) else None
