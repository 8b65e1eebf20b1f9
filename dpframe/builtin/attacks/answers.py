"""Attacks on the answers of black boxes, whatever these are: one view of them at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np

from dpframe import Attack, HostMechanism
from dpframe.builtin.attacks.views import learners, telling
from dpframe.builtin.attacks.views.bits import Bits
from dpframe.builtin.attacks.views.equalities import Equalities
from dpframe.builtin.attacks.views.kinds import Kinds
from dpframe.builtin.attacks.views.labels import Labels
from dpframe.builtin.attacks.views.numbers import Numbers
from dpframe.builtin.attacks.views.residues import Residues
from dpframe.builtin.attacks.views.spread import Spread
from dpframe.builtin.attacks.views.time import Time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe import Answers, Array, HostArray, Key, Target, Tree

VIEWS: dict[str, Any] = {
    "kinds": Kinds(),
    "values": Kinds(exact=True),
    "numbers": Numbers(),
    "bits": Bits(),
    "residues": Residues(),
    "equalities": Equalities(),
    "spread": Spread(),
    "labels": Labels(),
    "time": Time(),
}

OBSERVERS = {
    "bits": "sees every bit of a float",
    "time": "measures how long an answer takes, on a machine like this one",
}
"""What it takes to see what not everybody sees."""

FEWEST = 2
"""Answers per dataset; fewer teach nothing."""


class OfAnswers(Attack, name="answers"):
    """Log-odds of D′ from one view of answers of any kind, learned from their shares.

    A view has one column or many, each of categories: which kind of answer it is, which exact
    value, the exponent of the last bit, a residue, an interval of numbers. The column that lies
    farthest outside of the claim is chosen, by draws that its shares were not learned from; the
    score of an answer is the logarithm of the ratio of the shares of its category, D′ over D,
    drawn in to 0 by what chance does to it. What was never seen is a category too.
    """

    gives = "score"

    look: Literal[
        "kinds",
        "values",
        "numbers",
        "bits",
        "residues",
        "equalities",
        "spread",
        "labels",
        "time",
    ] = "kinds"
    """What is looked at: "kinds": type, shape, where it is NaN, which exception. "values": the
    exact value. "numbers": each number in it, and a weighted sum of all. "bits": the last bits of
    the numbers. "residues": whole numbers modulo 2 to 16. "equalities": which numbers are equal, to
    each other or to the sum, mean or extreme of the others. "spread": standard deviation, norms and
    extremes of the numbers. "labels": how often texts and whole numbers come among several outputs,
    and where first. "time": how long it took, with outputs.time."""

    @property
    def observer(self) -> str:
        return OBSERVERS.get(self.look, "")

    def unsuited(self, target: Target) -> str | None:
        if isinstance(target.mechanism, HostMechanism):
            return None
        return "answers are what black boxes give; outputs of a traced mechanism are arrays"

    def see(self, answers: Answers) -> HostArray:
        seen: HostArray = VIEWS[self.look].see(answers)
        return seen

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        number = train[0].shape[1]
        if min(map(len, train)) < FEWEST:
            train = (np.zeros((4, number), train[0].dtype),) * 2
        view = VIEWS[self.look]
        if view.columns == "codes":
            return learners.learn_codes(target, train)
        if view.columns == "hashes":
            return learners.learn_hashes(target, train)
        return learners.learn_numbers(target, train, view.sums, view.beside)

    def score(self, state: Tree, outputs: Array) -> Array:
        scores: Array = SCORE[VIEWS[self.look].columns](state, outputs, jnp)
        return scores

    def score_on_host(self, state: Tree, seen: HostArray) -> HostArray:
        found: HostArray = SCORE[VIEWS[self.look].columns](state, seen, np)
        return found

    def words(self, state: Tree, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
        return telling.told(VIEWS[self.look], state, edge, above, words)


SCORE = {
    "codes": learners.score_codes,
    "hashes": learners.score_hashes,
    "numbers": learners.score_numbers,
}
