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

# Bits of the NaN that marks a missing number; any other NaN belongs to the answer.
ABSENT = 0x7FF80000_0000AB5E


class Answers(NamedTuple):
    """Answers of a black box, which may be anything, including exceptions.

    Two answers have the same value if and only if they are equal bit for bit, types included; the
    codes of different answers are equal with probability 2⁻⁶⁴. The kind of an answer is its type
    and shape, the positions of NaN, infinite and masked entries, and, for an exception, its class
    and the line that raised it.
    """

    rows: HostArray
    """Shape [n, 3 + width], 64-bit words: code of the kind, code of the value, bits of the time in
    seconds, and bits of the numbers."""
    words: Mapping[int, str] = {}
    """Texts of known codes, of kinds and of short values."""

    @property
    def kinds(self) -> HostArray:
        """Codes of the kinds, shape [n], 64-bit words."""
        return self.rows[:, 0]

    @property
    def raised(self) -> HostArray:
        """True for exceptions and for answers that could not be read; shape [n]."""
        raised: HostArray = (self.rows[:, 0] & np.uint64(1)) == 1
        return raised

    @property
    def values(self) -> HostArray:
        """Codes of the exact values, shape [n], 64-bit words."""
        return self.rows[:, 1]

    @property
    def seconds(self) -> Floats:
        """Time of each answer in seconds, shape [n]; 0 if it is not part of the answer."""
        return np.ascontiguousarray(self.rows[:, SECONDS]).view(np.float64)

    @property
    def numbers(self) -> Floats:
        """The numbers in each answer, shape [n, width]; NaN where there is none.

        Tables are in alphabetical order of their keys, sequences and arrays in their own order,
        data frames column by column. Booleans are 0 or 1, bytes are bits, and a text is a number
        that identifies it.
        """
        return np.ascontiguousarray(self.rows[:, BEFORE:]).view(np.float64)

    @property
    def absent(self) -> HostArray:
        """True for places without a number; shape [n, width]."""
        absent: HostArray = self.rows[:, BEFORE:] == np.uint64(ABSENT)
        return absent


# The kinds of scores that an attack may give and a statistic accept.
KINDS_OF_SCORES = ("decision", "score", "canaries")


def in_words(kinds: Iterable[str]) -> str:
    """Return the kinds of scores as messages name them."""
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

    portable: ClassVar[bool] = False
    """True if `score` also takes NumPy arrays, because it uses the array API
    (`xp = outputs.__array_namespace__()`) or suits black boxes alone. Black boxes are then scored
    without JAX, and searches use the attack from the first answers on."""

    slow_to_learn: ClassVar[bool] = False
    """True if searches should use the attack only once there are thousands of answers."""

    @property
    def observer(self) -> str:
        """The ability that an observer needs for this attack, such as "measures time".

        Reports of a violation name it. Default: "", because every observer can use the attack.
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
        require(cls, "portable", bool)
        require(cls, "slow_to_learn", bool)

    def unsuited(self, target: Target) -> str | None:
        """Return why this attack cannot be used on a target; None if it can.

        Such cells are skipped with the reason, before anything runs.
        """
        return None

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        """Learn from draws that are used for nothing else. Optional; runs on the host.

        An attack that needs no draws, because the target is enough, returns False in `learns`;
        `train` is then empty.

        Args:
            key: a JAX key for the learner's own randomness; of a portable attack on a black box,
                the two words of it, uint32 [2].
            target: the mechanism and the pair.
            train: outputs on D and on D′, each of shape [n, *output dims]; n is 0 for an attack
                that does not learn.

        Returns:
            The state that `score` receives: a pytree of arrays.
        """
        return ()

    @classmethod
    def has_fit(cls) -> bool:
        """True if the attack has its own `fit`, and so a state."""
        return cls.fit is not Attack.fit

    def learns(self) -> bool:
        """True if `fit` needs draws; otherwise none are made. Default: True if there is a `fit`."""
        return self.has_fit()

    def see(self, answers: Answers) -> HostArray:
        """Return the part of a black box's answers that this attack uses.

        The engine calls it first: `fit` and `score` get its result in place of outputs. It runs on
        the host, in NumPy, and must treat every answer independently, as `score` does. Default: the
        numbers, NaN for missing ones.

        Args:
            answers: of a chunk or several.

        Returns:
            Shape [n, *dims], numbers or booleans. The dims depend only on the attack's parameters
            and on the width of `answers`.
        """
        return answers.numbers

    def words(self, state: Tree, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
        """Describe an event for the report.

        Args:
            state: what `fit` returned.
            edge: a score.
            above: True if the event is "score ≥ edge", False if it is "score < edge".
            words: texts of known codes of kinds and values.

        Returns:
            For example "raises ValueError" or "output 3 equals output 7". None: the report
            describes the event by its scores.
        """
        return None

    def score(self, state: Tree, outputs: Array) -> Array:
        """Score every output independently of the others; traced, and of a `portable` attack not.

        Each call gets a chunk of one dataset, and bounds assume independent outputs. So the score
        of a row must not depend on other rows (no means, sorting or comparison over the first
        axis), on its position, or on n. The engine tests this before it counts, and
        fails the cell if it finds a dependence.

        Args:
            state: what `fit` returned.
            outputs: shape [n, *output dims].

        Returns:
            Shape [n]: booleans or floats, as the class says in `gives`; for canaries [n, 2, m].
        """
        raise NotImplementedError
