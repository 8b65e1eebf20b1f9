"""The public boundary for neighbourhoods: they propose the pairs that a search plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from dpframe.pair import Pair
from dpframe.plugin import Plugin, gives, require, require_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


class Earned(NamedTuple):
    """What a proposed pair has shown so far."""

    pair: Pair
    draws: int
    """Draws per dataset that were spent on it."""
    growth: float
    """Estimated ln wealth that it earns against the claim per draw, at least 0: the best of its
    attacks. It is a guess for the search to go by, and no evidence."""


class Neighbourhood(Plugin, kind="neighbourhood"):
    """Proposes neighbouring pairs (D, D′), for a search of the worst.

    A claim is about every neighbouring pair. A search plays many of them, each for few draws, and
    spends the rest where evidence grows. A subclass gives `propose`, and says in `adjacency` under
    which relation its pairs are neighbours: a class attribute, a property or a parameter.

    A pair counts for both orders of D and D′, so nobody needs to propose both. What is proposed has
    to be a pair that a spec can name, with parameters that say all: the record then has the worst
    one in full. `Values` is one whose datasets are its parameters.
    """

    may_be_parameters = frozenset({"adjacency"})

    if TYPE_CHECKING:  # as a property, because a parameter or an attribute may stand for that

        @property
        def adjacency(self) -> str:
            """The relation in which D and D′ are neighbours, in words."""
            raise NotImplementedError

    else:
        adjacency: ClassVar[str]

    one_shape: ClassVar[bool] = True
    """Whether all its pairs are of one shape and type, so that a traced mechanism is compiled once.
    False where the size of the datasets differs from pair to pair, or they are no arrays: black
    boxes do not mind."""

    @classmethod
    def check_definition(cls) -> None:
        if cls.propose is Neighbourhood.propose:
            raise TypeError(f"{cls.__name__}: a neighbourhood gives propose(rng, history)")
        if not gives(cls, "adjacency"):
            raise TypeError(f"{cls.__name__}: a neighbourhood gives adjacency")
        require_text(cls, "adjacency")
        require(cls, "one_shape", bool)

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        """Proposes pairs; every one of them once, and all of one shape unless `one_shape` is False.

        The same randomness and history give the same pairs: a run that was interrupted asks again.

        Args:
            rng: where all randomness comes from.
            history: what was proposed earlier and what it has earned, in the order in which it was
                proposed; empty on the first call. A pair that nothing was spent on yet is in it
                with 0 draws.

        Returns:
            Pairs that are not in the history, in neither order; empty if there is nothing more to
            propose.
        """
        raise NotImplementedError
