"""Cells of anytime estimators, fed round by round."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.common.text import shown
from dpframe.engine.checkpoint import Saved
from dpframe.engine.checks import guarded
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate
from dpframe.results.verdict import FIRST_LOOK, Looks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.common.types import Tree
    from dpframe.engine.checkpoint import Store
    from dpframe.engine.plan import Pass, Place
    from dpframe.engine.rounds import Rounds
    from dpframe.interfaces.estimator import Estimator, Query, Settled
    from dpframe.spec.audit import Cell


MOST_POINTS = 200
"""Points of the growth of a wealth in a record."""


@dataclasses.dataclass
class Player:
    """An anytime estimator and what it was shown."""

    estimator: Estimator
    layout: Tree
    query: Query
    """What is asked; `trials` are set for each call."""
    state: Any = None
    trials: int = 0
    rounds: int = 0

    def observe(self, counts: Tree, trials: int) -> None:
        """Shows one round."""
        query = self.query._replace(trials=(trials, trials))

        def observed() -> Any:
            return self.estimator.observe(self.state, self.layout, counts, query)

        self.state = guarded("observe", observed)
        self.trials += trials
        self.rounds += 1

    @property
    def asked(self) -> Query:
        """What is asked of all rounds so far."""
        return self.query._replace(trials=(self.trials, self.trials))

    def concluded(self) -> Estimate:
        """What the estimator says; the growth of its wealth in as many points as a plot shows."""
        found = self.estimator.conclude(self.state, self.layout, self.asked)
        if isinstance(found, Estimate) and len(found.wealth) > MOST_POINTS:
            chosen = np.linspace(0, len(found.wealth) - 1, MOST_POINTS).round().astype(int)
            return found._replace(wealth=tuple(found.wealth[n] for n in chosen.tolist()))
        return found

    def settled(self) -> Settled | None:
        """What the estimator says of its verdict."""
        call = self.estimator.settled
        found = guarded("settled", lambda: call(self.state, self.layout, self.asked))
        if found not in (None, "violated", "unreachable"):
            raise CellError(
                f'settled returned {shown(found)}; "violated", "unreachable" or None is wanted'
            )
        return found  # type: ignore[no-any-return]


class Loudest:
    """The most extreme counts, played in the same rounds: could they refute the claim yet?

    Cells with one claim and nothing learned share it, also those of passes that threads prepare at
    the same time.
    """

    def __init__(self, player: Player) -> None:
        self._players = [dataclasses.replace(player, state=None, trials=0, rounds=0)]
        """After no round, after one, …"""
        self.estimates: dict[int, Estimate] = {}
        """By number of rounds."""
        self._lock = threading.Lock()

    def after(self, ends: list[int]) -> Player:
        """Once it was shown rounds with these ends; of those that were cut, only the last."""
        with self._lock:
            for end in ends[len(self._players) - 1 :]:
                self._players.append(self._next(end))
        player = self._players[len(ends)]
        return player if player.trials == ends[-1] else self._next(ends[-1], len(ends) - 1)

    def _next(self, end: int, after: int = -1) -> Player:
        player = dataclasses.replace(self._players[after])
        size = end - player.trials
        extreme = player.estimator.extreme
        counts = guarded("extreme", lambda: extreme(player.layout, (size, size)))
        player.observe(jax.tree.map(np.asarray, counts), size)
        return player


@dataclasses.dataclass
class Watch:
    """One cell."""

    cell: Cell
    place: Place
    player: Player
    loudest: Loudest
    looks: Looks = FIRST_LOOK
    """At which look at its draws it is asked."""
    counts: Any = None
    """Of all rounds that it was shown."""
    ends: list[int] = dataclasses.field(default_factory=list)
    """Draws on each dataset after each of them."""
    settled: Settled | None = None
    problem: CellError | None = None
    """What its estimator could not do."""

    @property
    def over(self) -> bool:
        """Whether it takes no more rounds."""
        return self.settled is not None or self.problem is not None

    def feed(self, rounds: Rounds, *, stops: bool) -> None:
        """Shows it the rounds that its lane has and that it has not seen.

        Args:
            rounds: counted so far.
            stops: whether it stops once it is settled.
        """
        while self.player.rounds < rounds.upto[self.place.lane] and not self.over:
            number = self.player.rounds
            part = rounds.parts[number]
            own = jax.tree.map(np.array, _own(rounds.counts[number], self.place))
            more = own if self.counts is None else jax.tree.map(np.add, self.counts, own)
            try:
                # A copy: an estimator that writes into its counts must not change the sum.
                self.player.observe(jax.tree.map(np.copy, own), part.end - part.start)
                self.counts = more
                self.ends.append(part.end)
                if stops:
                    self._ask()
            except CellError as error:
                self.problem = error

    def _ask(self) -> None:
        found = self.player.settled()
        # No violation is nothing to report before the loudest counts would have been one.
        if found == "unreachable" and self.loudest.after(self.ends).settled() != "violated":
            found = None
        self.settled = found


class Watches:
    """All cells of a pass in rounds.

    Args:
        the_pass: the pass.
        query_of: what is asked of each cell and at which look, given its rounds that are stored.
        loudest: the most extreme counts of all passes.
        stops: whether cells stop once they are settled.
    """

    def __init__(
        self,
        the_pass: Pass,
        query_of: Callable[[Cell, Sequence[Tree]], tuple[Query, Looks]],
        loudest: dict[Any, Loudest],
        *,
        stops: bool,
    ) -> None:
        self.the_pass, self.query_of, self.stops = the_pass, query_of, stops
        self.loudest = loudest
        self.of: dict[str, Watch] = {}

    def begin(
        self, rounds: Rounds, layouts: tuple[Tree, ...], keys: dict[str, str], store: Store
    ) -> None:
        """Finds what was counted before, and shows it.

        Args:
            rounds: nothing counted yet; the stored rounds are put in.
            layouts: what the statistics fixed, per scorer, leaves [lanes, attacks, …].
            keys: what each cell's counts are stored under.
            store: where they may be.
        """
        self.rounds, self.keys, self.store = rounds, keys, store
        self._load()
        ends = self.the_pass.rows, self.the_pass.dear  # what rounds depend on
        for cell, place in self.the_pass.cells:
            layout = _own(layouts, place)
            stored = self._rounds_of(place, rounds.upto[place.lane])
            query, looks = self.query_of(cell, stored)
            player = Player(cell.estimator.value, layout, query)
            shared = (ends, _key_of(player)) if not _size(layout) else cell.id
            extreme = self.loudest.setdefault(shared, Loudest(player))
            self.of[cell.id] = Watch(cell, place, player, extreme, looks)
        self.advance()

    def advance(self) -> None:
        """Shows the cells what was counted, and decides what is counted next."""
        for watch in self.of.values():
            watch.feed(self.rounds, stops=self.stops)
        left = [watch.place.lane for watch in self.of.values() if not watch.over]
        self.rounds.go_on(sorted(set(left)))

    def shown_to(self, watch: Watch) -> list[Tree]:
        """Counts of each round that a cell was shown."""
        return self._rounds_of(watch.place, watch.player.rounds)

    def _rounds_of(self, place: Place, upto: int) -> list[Tree]:
        return [_own(counts, place) for counts in self.rounds.counts[:upto]]

    def save(self) -> None:
        """Hands all rounds that have come to their end to the store."""
        for cell, place in self.the_pass.cells:
            upto = self.rounds.upto[place.lane]
            own = [
                [
                    leaf[place.lane, place.attack].tolist()
                    for leaf in jax.tree.leaves(counts[place.scorer])
                ]
                for counts, part in zip(self.rounds.counts[:upto], self.rounds.parts, strict=False)
                if part.full
            ]
            if own:
                saved = Saved((len(own), len(own)), own)
                self.store.save(self.the_pass.stream, _key(self.keys[cell.id]), saved)

    def forget(self) -> None:
        """Takes back what was handed to the store."""
        for key in self.keys.values():
            self.store.forget(self.the_pass.stream, _key(key))

    def _load(self) -> None:
        known: dict[int, list[list[Any]]] = {}
        upto: dict[int, int] = {}
        for cell, place in self.the_pass.cells:
            stored = self.store.load(self.the_pass.stream, _key(self.keys[cell.id]))
            found = [] if stored is None else self._usable(stored.leaves, place)
            known.setdefault(place.lane, []).append([place, found])
            upto[place.lane] = min(upto.get(place.lane, len(found)), len(found))
        for lane, cells in known.items():
            self.rounds.take_stored(
                lane, upto[lane], {(place.scorer, place.attack): found for place, found in cells}
            )

    def _usable(self, stored: list[Any], place: Place) -> list[Any]:
        """Counts of the first rounds, as far as they are possible."""
        zero = jax.tree.map(lambda leaf: leaf[0, 0], self.rounds.zero[place.scorer])
        structure, shapes = jax.tree.structure(zero), [x.shape for x in jax.tree.leaves(zero)]
        usable = []
        for part, leaves in zip(self.rounds.parts, stored, strict=False):
            try:
                arrays = [np.asarray(leaf) for leaf in leaves]
            except (ValueError, TypeError):
                break
            fine = [a.shape for a in arrays] == shapes and part.full
            if not fine or any(a.dtype.kind != "i" or np.any(a < 0) for a in arrays):
                break
            usable.append(jax.tree.unflatten(structure, arrays))
        return usable


def _own(trees: tuple[Tree, ...], place: Place) -> Tree:
    return jax.tree.map(lambda leaf: leaf[place.lane, place.attack], trees[place.scorer])


def _key_of(player: Player) -> Any:
    """What tells one question from another; the player itself where that cannot be a key."""
    key = (player.estimator, player.query)
    try:
        hash(key)
    except TypeError:  # an author's
        return id(player)
    return key


def _size(layout: Tree) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(layout))


def _key(key: str) -> str:
    return f"rounds-{key}"
