"""A plain training function and its data, as the mechanism and the pair of an audit."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np

from dpframe.commands.function_digest import function_digest
from dpframe.engine.addresses.content import data_digest
from dpframe.errors import CellError, DpframeError
from dpframe.mechanism import HostMechanism
from dpframe.pair import EQUAL, Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.claims import Claim
    from dpframe.types import HostArray, Tree

LARGEST_SEED = 2**63
"""Seeds are below."""


class Training(NamedTuple):
    """What is handed to an audit, as classes and their parameters."""

    mechanism: type[HostMechanism]
    code: str
    """Digest of the function: its mechanism's parameter."""
    pair: type[Pair]
    digest: str
    """Digest of the data: the pair's parameter."""


def training(
    train: Callable[..., Any],
    pair: Any,
    *,
    claim: Claim | None,
    seedable: bool,
    may_be_nan: bool,
) -> Training:
    """Makes a mechanism of a training function, and a pair of its data.

    The data travel with the function, as they are: D and D′ may be of any kind and differ in size.

    Args:
        train: called as `train(seed, *data)`; returns scores.
        pair: a pair, or D and D′.
        claim: what is claimed for it.
        seedable: whether all randomness comes from the seed.
        may_be_nan: whether NaN is a score like any other.

    Raises:
        DpframeError: the function or the data cannot be used.
    """
    if not callable(train):
        raise DpframeError(f"train: {train!r} is not a function")
    data = datasets(pair)
    for one in data:
        _check_call(train, one)
    nan, seeds = may_be_nan, seedable

    class Trained(HostMechanism, name=name_of(train)):
        """A training function; one draw is one trained model."""

        rows = 1
        seedable = seeds
        may_be_nan = nan
        code: str
        """Digest of the function and of what it refers to."""

        def claim(self, pair: Pair) -> Claim | None:
            return claim

        def sample(self, rng: np.random.Generator, which: HostArray, n: int) -> HostArray:
            return np.stack([_scores(train, rng, data[int(which)]) for _ in range(n)])

    class Trainset(Pair, name="training-data"):
        """Which of the two datasets a model is trained on; the data are the mechanism's."""

        adjacency = getattr(pair, "adjacency", "as given")
        digest: str
        """Digest of D and D′."""

        @property
        def d0(self) -> Tree:
            return np.int64(0)

        @property
        def d1(self) -> Tree:
            return np.int64(1)

    return Training(Trained, _digest_of(train), Trainset, data_digest(data))


def datasets(pair: Any) -> tuple[Any, Any]:
    """D and D′ of a pair, or the two members of a tuple.

    Raises:
        DpframeError: there are not two of them, or they are the same.
    """
    if isinstance(pair, Pair):
        data = (pair.d0, pair.d1)
    elif isinstance(pair, tuple | list) and len(pair) == 2:
        data = (pair[0], pair[1])
    else:
        raise DpframeError("pair: two datasets are wanted, (D, D′), each such as (x, y); or a Pair")
    digests = []
    for name, one in zip(("D", "D′"), data, strict=True):
        try:
            digests.append(data_digest((one, one)))
        except CellError as error:
            raise DpframeError(f"pair: {name}: {error}") from error
    if digests[0] == digests[1]:
        raise DpframeError(f"pair: {EQUAL}")
    return data


def name_of(train: Callable[..., Any]) -> str:
    """What reports call a function."""
    inner = getattr(train, "func", train)  # of a partial
    found = str(getattr(inner, "__name__", type(inner).__name__))
    return "train" if not found.isidentifier() else found


def _check_call(train: Callable[..., Any], data: Any) -> None:
    try:
        signature = inspect.signature(train)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    parts = _parts(data)
    try:
        signature.bind(0, *parts)
    except TypeError as error:
        raise DpframeError(
            f"train: it is called with a seed and the {len(parts)} parts of a dataset: {error}"
        ) from None


def _parts(data: Any) -> tuple[Any, ...]:
    return tuple(data) if isinstance(data, tuple | list) else (data,)


def _scores(train: Callable[..., Any], rng: np.random.Generator, data: Any) -> HostArray:
    """The scores of one model; the function gets data of its own, which it may change."""
    seed = int(rng.integers(LARGEST_SEED))
    found = np.asarray(train(seed, *_parts(copy.deepcopy(data))))
    if found.dtype.kind not in "fiub":
        raise TypeError(f"train returned {found.dtype}; scores are numbers")
    return found.astype(np.float64)


def _digest_of(train: Callable[..., Any]) -> str:
    """Digest of what a function does; raises DpframeError where no worker could get it."""
    try:
        cloudpickle.dumps(train)
        return function_digest(train)
    except Exception as error:  # a lock, an open file, a generator
        raise DpframeError(
            f"train: it cannot be handed to a worker process: {type(error).__name__}: {error}"
        ) from error
