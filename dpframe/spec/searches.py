"""Cells that are searched: one per mechanism with its parameters, and estimator."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.mechanism import HostMechanism
from dpframe.pair import Pair, equal, unplayable
from dpframe.patience import at_work
from dpframe.printable import shown
from dpframe.spec.audit import Cell, Choice, Search
from dpframe.spec.cells import Grid
from dpframe.spec.instances import explain
from dpframe.spec.model import OBSERVED, SEARCHED_BY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.attack import Attack
    from dpframe.spec.cells import Chosen, Combination, Target
    from dpframe.spec.document import Document
    from dpframe.spec.expect import Rules
    from dpframe.spec.instances import Picks
    from dpframe.spec.uses import Member


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
