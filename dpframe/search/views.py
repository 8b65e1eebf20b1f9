"""What the attacks of a search see in answers, and the events that they make of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.checks import arrays, guarded, learns, unsuited
from dpframe.engine.sanity import check_rows_alone
from dpframe.engine.trace import check_scores, unstacked
from dpframe.errors import CellError
from dpframe.interfaces.attack import Target
from dpframe.sampling import programs
from dpframe.sampling.address import LEARNER, base_key, precision_of
from dpframe.search.arms import Cuts
from dpframe.search.wealth import Seen
from dpframe.workers.trial_call import check_seen_alone, seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpframe.common.types import Floats, HostArray, Tree
    from dpframe.interfaces.attack import Attack
    from dpframe.interfaces.mechanism import HostMechanism
    from dpframe.interfaces.pair import Pair
    from dpframe.sampling.address import Shape, Stream
    from dpframe.spec.audit import Choice, RunSettings


FLOAT = np.dtype(np.float64)
"""In which what a box answers is scored."""

CUTS = 64
"""Events of an attack in one direction, at most."""

DEAR = 1 << 12
"""Answers per dataset before an attack is asked that has to be compiled, and is slow to learn."""

WIDE = 64
"""Numbers of an answer beyond which such an attack is not asked."""

TRIED = 64
"""Answers by which it is tried whether each is scored alone."""

BLOCK = 1 << 14
"""Answers that are scored at a time."""


class View(NamedTuple):
    """One attack, and what it has learned."""

    place: int
    """Of the attack, in the search."""
    attack: Attack
    state: Tree
    cuts: Floats
    """Scores from which on an answer belongs to an event, ascending; of decisions, 1 alone."""


class Views:
    """Attacks that have learned from some answers of a pair.

    Args:
        attacks: of the search.
        mechanism: the box.
        pair: of the arm.
        run: settings; boxes are scored in float64.
        stream: gives the learners' own randomness.
        prng: name of the generator.
        tried: attacks that were found to score rows alone.
    """

    def __init__(
        self,
        attacks: Sequence[Choice[Attack]],
        mechanism: HostMechanism,
        pair: Pair,
        run: RunSettings,
        stream: Stream,
        prng: str,
        tried: set[Any],
    ) -> None:
        self.attacks, self.mechanism, self.pair, self.tried = attacks, mechanism, pair, tried
        self.run, self.stream, self.prng = run._replace(precision="float64"), stream, prng
        self.views: list[View] = []
        self._of_learners: Any = None

    def learn(self, train: tuple[HostArray, HostArray], shape: Shape) -> None:
        """Every attack learns anew.

        Args:
            train: rows of answers on D and on D′; they also say where cuts stand.
            shape: of the answers.
        """
        self.shape = shape
        cheap = [choice.value.scores_on_host() for choice in self.attacks]
        dear = len(train[0]) >= DEAR and shape.width <= WIDE
        self.views = [
            self._learned(place, choice, train)
            for place, choice in enumerate(self.attacks)
            if cheap[place] or dear or not any(cheap)
        ]

    def seen(self, rows: tuple[HostArray, HostArray]) -> Seen:
        """How often the events of all attacks came in some answers."""
        above = [np.stack([self._above(view, of_one) for of_one in rows]) for view in self.views]
        return Seen(np.concatenate(above, axis=1), len(rows[0]))

    def event(self, cut: int, *, above: bool, words: Mapping[int, str]) -> tuple[int, str | None]:
        """Which attack a cut belongs to, and the event in words, if the attack has any.

        Args:
            cut: number of a column of `seen`.
            above: whether the event is "at or above the cut".
            words: what codes of kinds and values stand for.
        """
        view, edge = self._at(cut)
        told = partial(view.attack.words, view.state, edge, above, words)
        found: Any = guarded("words", told)
        return view.place, None if found is None else " ".join(str(found).split())

    def plain(self, cut: int, *, above: bool) -> str:
        """The same for an attack without words."""
        view, edge = self._at(cut)
        if view.attack.gives == "decision":
            return "decides D′" if above else "decides D"
        return f"scores {edge:.6g} or more" if above else f"scores less than {edge:.6g}"

    def _at(self, cut: int) -> tuple[View, float]:
        for view in self.views:
            if cut < len(view.cuts):
                return view, float(view.cuts[cut])
            cut -= len(view.cuts)
        raise IndexError(cut)

    def _learned(
        self, place: int, choice: Choice[Attack], rows: tuple[HostArray, HostArray]
    ) -> View:
        attack = choice.value
        train = self._looked(attack, rows[0]), self._looked(attack, rows[1])
        target = Target(self.mechanism, self.pair, train[0].shape[1:])
        if (reason := unsuited(attack, target)) is not None:
            raise CellError(f"{choice.label}: {reason}")
        state: Tree = ()
        with precision_of(self.run):
            if attack.has_fit():
                key = self._key()
                given = train if learns(attack) else (train[0][:0], train[1][:0])
                state = arrays("fit", guarded("fit", lambda: attack.fit(key, target, given)))
            self._try(attack, state, rows)
            if attack.gives == "decision":
                return View(place, attack, state, np.ones(1))
            scores = [self._scores(attack, state, part) for part in train]
        values = np.unique(np.concatenate(scores))
        values = values[~np.isnan(values)]
        if len(values) > CUTS:
            values = np.unique(Cuts(CUTS).bind(scores[0], scores[1]))
        # At the lowest value there is no event: all answers lie above it.
        cuts = values[1:].astype(np.float64) if len(values) > 1 else np.array([np.inf])
        return View(place, attack, state, cuts)

    def _key(self) -> Any:
        if self._of_learners is None:
            self._of_learners = base_key(self.stream.of(LEARNER), self.prng)
        return self._of_learners

    def _try(self, attack: Attack, state: Tree, rows: tuple[HostArray, HostArray]) -> None:
        """Finds out once whether an attack sees and scores every answer alone."""
        few = min(TRIED, *map(len, rows))
        if few < 2 or (attack, self.mechanism) in self.tried:
            return
        self.tried.add((attack, self.mechanism))

        def score(part: HostArray) -> HostArray:
            found = self._scores(attack, state, self._looked(attack, part))
            return found.astype(np.float64) if found.dtype == bool else found

        check_seen_alone(attack, rows[0][:few], self.shape, FLOAT)
        check_rows_alone(score, (rows[0][:few], rows[1][:few]))

    def _looked(self, attack: Attack, rows: HostArray) -> HostArray:
        return seen(attack, rows, self.shape, FLOAT)

    def _above(self, view: View, rows: HostArray) -> Any:
        total = np.zeros(len(view.cuts), np.int64)
        with precision_of(self.run):
            for at in range(0, len(rows), BLOCK):
                looked = self._looked(view.attack, rows[at : at + BLOCK])
                ordered = np.sort(self._scores(view.attack, view.state, looked).astype(float))
                ordered = ordered[~np.isnan(ordered)]
                total += len(ordered) - np.searchsorted(ordered, view.cuts, side="left")
        return total

    def _scores(self, attack: Attack, state: Tree, looked: HostArray) -> HostArray:
        if attack.scores_on_host():
            call = partial(attack.score_on_host, state, looked)
            found: HostArray = np.asarray(guarded("score_on_host", call))
            check_scores(found, len(looked), attack.gives)
            return found
        leaves = unstacked(attack, FLOAT)

        def score(rows: HostArray) -> HostArray:
            # One program serves any number.
            size = max(64, 1 << max(0, len(rows) - 1).bit_length())
            whole = np.resize(rows, (size, *rows.shape[1:]))
            call = partial(programs.score_given, leaves, state, whole)
            scores: HostArray = np.asarray(guarded("score", call))
            check_scores(scores, size, attack.gives)
            return scores[: len(rows)]

        return np.concatenate(
            [score(looked[at : at + BLOCK]) for at in range(0, len(looked), BLOCK)]
        )
