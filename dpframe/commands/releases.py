"""A plain function and two datasets, as what a search takes: a mechanism and a neighbourhood."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.commands.trainer import name_of
from dpframe.engine.addresses.content import data_digest
from dpframe.errors import CellError, DpframeError
from dpframe.mechanism import HostMechanism
from dpframe.neighbourhood import Neighbourhood
from dpframe.pair import EQUAL, Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.claims import Claim
    from dpframe.neighbourhood import Earned
    from dpframe.types import Tree

RNG = ("rng", "generator", "random_state", "random", "key", "seed")
"""Names of a first argument that is no dataset."""


class Noiseless(NamedTuple):
    """What a function would release without its noise."""

    query: Callable[[Any], Any]
    sensitivity: float | None
    """What the noise is made for."""
    norm: float


def mechanism_of(
    release: Callable[..., Any],
    claim: Claim,
    noiseless: Noiseless | None = None,
    attributes: tuple[str, ...] = (),
) -> type[HostMechanism]:
    """A mechanism of a function that makes one release.

    Args:
        release: called as `release(data)`, or as `release(rng, data)`.
        claim: what is claimed for it.
        noiseless: what it would release without its noise, where that is at hand.
        attributes: what is read of an answer that is an object.

    Raises:
        DpframeError: it cannot be called in either way.
    """
    seeded = takes_generator(release)

    def one(self: Any, rng: np.random.Generator, data: Any) -> Any:
        return release(rng, data) if seeded else release(data)

    body: dict[str, Any] = {
        "__doc__": "A function that makes one release.",
        # Where its code is: a worker that cannot import that gets it handed over.
        "__module__": module_of(release),
        "seedable": seeded,
        "claim": lambda self, pair: claim,
        "attributes": attributes,
        "release": one,
    }
    if noiseless is not None:
        body["query"] = lambda self, data: noiseless.query(data)
        body["sensitivity"], body["norm"] = noiseless.sensitivity, noiseless.norm
    found = name_of(release)
    title = "release" if found == "train" else found
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))


def module_of(release: Callable[..., Any]) -> str:
    """The module of a function, of a method's function, of a callable object's class."""
    inner: Any = release
    while isinstance(inner, functools.partial):
        inner = inner.func
    found = getattr(inner, "__module__", None) or type(inner).__module__
    return str(found)


def takes_generator(release: Callable[..., Any]) -> bool:
    """Whether a function is called with a generator before the data.

    Raises:
        DpframeError: it takes neither one nor two arguments, or is no function.
    """
    if not callable(release):
        raise DpframeError(f"release: {release!r} is not a function")
    try:
        parameters = list(inspect.signature(release).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    in_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in in_place if p.default is p.empty]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_name:
        raise DpframeError(
            f"release: it wants {', '.join(by_name)} by name; give them with functools.partial or "
            "a lambda"
        )
    if len(needed) == 2 or (in_place and in_place[0].name in RNG and len(in_place) > 1):
        return True
    if len(needed) == 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    if in_place and not needed:
        return False
    raise DpframeError(
        f"release: it takes {len(needed)} arguments; it is called as release(data) or as "
        "release(rng, data), with one run for each call"
    )


def pair_of(data: tuple[Any, Any]) -> tuple[type[Neighbourhood], type[Pair], str]:
    """A neighbourhood that proposes one pair.

    Args:
        data: D and D′.

    Returns:
        The neighbourhood and the pair, and the digest of the data, which is the parameter of both.

    Raises:
        DpframeError: the data are the same, or cannot be read.
    """
    digests = []
    for name, one in zip(("d0", "d1"), data, strict=True):
        try:
            digests.append(data_digest((one, one)))
        except CellError as error:
            raise DpframeError(f"{name}: {error}") from error
    if digests[0] == digests[1]:
        raise DpframeError(EQUAL)

    class Given(Pair, name="given"):
        """Two datasets of a test."""

        adjacency = "as given"
        digest: str
        """Digest of D and D′."""

        @property
        def d0(self) -> Tree:
            return data[0]

        @property
        def d1(self) -> Tree:
            return data[1]

    class Both(Neighbourhood, name="given"):
        """Proposes the two datasets of a test, and nothing else."""

        adjacency = "as given"
        digest: str
        """Digest of D and D′."""

        def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
            return () if history else (Given(digest=self.digest),)

    return Both, Given, data_digest(data)
