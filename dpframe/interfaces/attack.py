"""The public interface of attacks: they turn an output into a score or a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from dpframe.interfaces.plugin import Plugin, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpframe.common.types import Array, Floats, HostArray, Key, Tree
    from dpframe.interfaces.mechanism import HostMechanism, Mechanism
    from dpframe.interfaces.pair import Pair


SECONDS = 2  # column of the time that an answer took
BEFORE = 3  # columns before the numbers: code of the kind, code of the value, seconds

# Bits of the NaN that stands where an answer has no number; another NaN is the answer's own.
ABSENT = 0x7FF80000_0000AB5E


class Answers(NamedTuple):
    """Answers of a black box that may answer with anything, an exception among them.

    Two answers have the same value if and only if they are the same to the bit, types included;
    the codes of two different ones are equal with a chance of 2⁻⁶⁴. The kind is what sort of answer
    it is: its type and shape, where it is NaN, infinite or masked, the class of an exception and
    the line that raised it.
    """

    rows: HostArray
    """Shape [n, 3 + width], 64-bit words: code of the kind, code of the value, bits of the seconds
    that it took, and bits of the numbers."""
    words: Mapping[int, str] = {}
    """Return the texts of known codes, of kinds and of short values."""

    @property
    def kinds(self) -> HostArray:
        """Codes of the kinds, shape [n], 64-bit words."""
        return self.rows[:, 0]

    @property
    def raised(self) -> HostArray:
        """Mark exceptions, and answers that could not be read, shape [n], booleans."""
        found: HostArray = (self.rows[:, 0] & np.uint64(1)) == 1
        return found

    @property
    def values(self) -> HostArray:
        """Codes of the exact values, shape [n], 64-bit words."""
        return self.rows[:, 1]

    @property
    def seconds(self) -> Floats:
        """Time that each answer took, shape [n], seconds; 0 if it is no part of the answer."""
        return np.ascontiguousarray(self.rows[:, SECONDS]).view(np.float64)

    @property
    def numbers(self) -> Floats:
        """The numbers in each answer, shape [n, width]; NaN where there is none.

        Keys of tables are in order of the alphabet, sequences and arrays in their own, data frames
        column by column. Booleans are 0 or 1, bytes their bits, texts a number that marks the text.
        """
        return np.ascontiguousarray(self.rows[:, BEFORE:]).view(np.float64)

    @property
    def absent(self) -> HostArray:
        """Mark places without a number, shape [n, width], booleans."""
        found: HostArray = self.rows[:, BEFORE:] == np.uint64(ABSENT)
        return found


# The kinds of scores that an attack may give and a statistic accept.
KINDS_OF_SCORES = ("decision", "score", "canaries")


def in_words(kinds: Iterable[str]) -> str:
    """Kinds of scores as messages call them."""
    return " or ".join(kind if kind == "canaries" else f"a {kind}" for kind in sorted(kinds))


class Target(NamedTuple):
    """The target of an attack: the mechanism, resolved for the pair, and the pair."""

    mechanism: Mechanism | HostMechanism
    pair: Pair
    dims: tuple[int, ...]
    """Shape of one output."""


class Attack(Plugin, kind="attack"):
    """Tells outputs on D from outputs on D′; **larger scores mean more like D′**.

    A subclass says in `gives` whether it decides or scores, and gives `score`.

    The engine owns the split of the draws: `fit` sees one stream, the pilot of a statistic a
    second, and the bound is computed from a third.
    """

    gives: ClassVar[Literal["decision", "score", "canaries"]]
    """The kind of score: "decision" (booleans, True: D′), "score" (floats, ranked), or
    "canaries": of each release [2, m], the scores of m canaries and which of them were in (0 or
    1), for mechanisms that include each canary by a fair coin of its own."""

    hands_out: ClassVar[bool] = False
    """True if the score of an output that is one number is that number. The exact distribution of
    a mechanism's outputs is then that of the scores, and figures draw it."""

    @property
    def observer(self) -> str:
        """The effort by which an observer sees what this attack sees, unless everybody does.

        Such as "measures time"; a report of a violation then says so. Default: nothing.
        """
        return ""

    @classmethod
    def check_definition(cls) -> None:
        if cls.score is Attack.score:
            raise TypeError(f"{cls.__name__}: an attack must define score(state, outputs)")
        if getattr(cls, "gives", None) not in KINDS_OF_SCORES:
            raise TypeError(
                f'{cls.__name__}: an attack must declare the result of score: gives = "decision" '
                '(booleans, True: D′), gives = "score" (floats) or gives = "canaries" (scores and '
                "memberships of many canaries in each release)"
            )
        require(cls, "hands_out", bool)

    def unsuited(self, target: Target) -> str | None:
        """Why this attack cannot be played against a target; None if it can.

        Such cells are skipped with the reason, before anything runs.
        """
        return None

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        """Learns from draws that are used for nothing else. Optional; runs on the host.

        An attack that needs no draws, because the target says everything, returns False in
        `learns`; `train` is then empty.

        Args:
            key: a JAX key for the learner's own randomness.
            target: the mechanism and the pair.
            train: outputs on D and on D′, each of shape [n, *output dims]; n is 0 for an attack
                that does not learn.

        Returns:
            The state that `score` receives: a pytree of arrays.
        """
        return ()

    @classmethod
    def has_fit(cls) -> bool:
        """True if the attack has a `fit` of its own, and so a state."""
        return cls.fit is not Attack.fit

    def learns(self) -> bool:
        """True if `fit` needs draws; else none are made. Default: True if there is a `fit`."""
        return self.has_fit()

    def see(self, answers: Answers) -> HostArray:
        """Return what this attack looks at in the answers of a black box.

        The engine calls it first: `fit` and `score` get what it returns in place of outputs. It
        runs on the host, in NumPy, and sees every answer alone, as `score` does. Default: the
        numbers, NaN where there is none.

        Args:
            answers: of a chunk or several.

        Returns:
            Shape [n, *dims], numbers or booleans. The dims depend on nothing but the attack's
            parameters and on how many numbers wide `answers` is.
        """
        return answers.numbers

    def words(self, state: Tree, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
        """The event on which a search bet, as a reader of its report would say it.

        Args:
            state: what `fit` returned.
            edge: a score.
            above: whether the event is "score ≥ edge"; else it is "score < edge".
            words: what codes of kinds and values stand for, as far as it is known.

        Returns:
            Such as "raises ValueError" or "output 3 equals output 7". None: the engine says of
            which scores it is.
        """
        return None

    def score(self, state: Tree, outputs: Array) -> Array:
        """Scores outputs, every one of them alone; traced.

        A chunk of one dataset comes at a time, and bounds are about outputs that are independent.
        So a row's score must not depend on the rows beside it (no means, no order, no comparison
        over the first axis), nor on its place, nor on n. The engine tries that out before it
        counts, and fails the cell.

        Args:
            state: what `fit` returned.
            outputs: shape [n, *output dims].

        Returns:
            Shape [n]: booleans or floats, as the class says in `gives`; for canaries [n, 2, m].
        """
        raise NotImplementedError

    def score_on_host(self, state: Tree, seen: HostArray) -> HostArray:
        """The same as `score`, in NumPy. Optional: it spares a search to compile a program.

        Args:
            state: what `fit` returned.
            seen: what `see` returned, shape [n, *dims].

        Returns:
            Shape [n], as `score`.
        """
        raise NotImplementedError

    @classmethod
    def scores_on_host(cls) -> bool:
        """True if the attack gives a `score_on_host`."""
        return cls.score_on_host is not Attack.score_on_host
