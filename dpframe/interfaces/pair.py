"""Neighbouring datasets, and neighbourhoods that propose pairs for a search."""

import inspect
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import is_jax_array
from dpframe.common.types import Floats, HostArray, Tree
from dpframe.interfaces.plugin import Plugin, gives, require, require_text

BLOCK = 1 << 20
"""Coordinates compared at a time, because two datasets may fill most of the memory."""


def same(one: Any, other: Any) -> bool:
    """Compare two values bit for bit, types included.

    NaN equals NaN, −0.0 is not 0.0, and 1 is not 1.0. Values of unknown types are equal if their
    pickles are; in doubt they differ, so that the pair is still tested.
    """
    return _same(one, other, {}, {})


def _same(one: Any, other: Any, within: dict[int, int], beside: dict[int, int]) -> bool:
    """Compare two values that may be inside containers.

    `within` and `beside` map the containers around both values, by identity, to their depths,
    because a container may hold itself.
    """
    one, other = (np.asarray(data) if is_jax_array(data) else data for data in (one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, dict | list | tuple | np.ndarray):
        if id(one) in within or id(other) in beside:
            return within.get(id(one)) == beside.get(id(other))
        within, beside = {**within, id(one): len(within)}, {**beside, id(other): len(beside)}
    if isinstance(one, np.generic) or type(one) in _ARRAYS:  # other types may have masks
        return _same_arrays(np.asarray(one), np.asarray(other), within, beside)
    if isinstance(one, dict | list | tuple):
        attributes = [(getattr(one, "__dict__", None), getattr(other, "__dict__", None))]
        if isinstance(one, dict):  # the order of items is data too
            one, other = ([x for item in each.items() for x in item] for each in (one, other))
        parts = [*zip(one, other, strict=False), *attributes]
        return len(one) == len(other) and all(_same(x, y, within, beside) for x, y in parts)
    if isinstance(one, set | frozenset) and one == other:
        mates = {member: member for member in other}  # 1.0 finds 1
        return all(_same(x, mates[x], within, beside) for x in one)
    if isinstance(one, float):
        one, other = repr(one), repr(other)
    known = isinstance(one, int | str | bytes | bytearray | set | frozenset | None)
    return bool(one == other) if known else _same_objects(one, other)


_ARRAYS = np.ndarray, np.memmap, np.matrix, np.recarray


def _same_arrays(
    one: HostArray, other: HostArray, within: dict[int, int], beside: dict[int, int]
) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.hasobject:
        return _same(one.tolist(), other.tolist(), within, beside)
    parts = [(one[name], other[name]) for name in one.dtype.names or ()]
    if one.dtype.kind == "c":
        parts = [(one.real, other.real), (one.imag, other.imag)]
    if parts:
        return all(_same_arrays(x, y, within, beside) for x, y in parts)
    one, other = np.atleast_1d(one), np.atleast_1d(other)
    rows = max(1, BLOCK * len(one) // max(1, one.size))
    for first in range(0, len(one), rows):
        x, y = one[first : first + rows], other[first : first + rows]
        equal = x == y
        if x.dtype.kind == "f":
            equal = (equal & (np.signbit(x) == np.signbit(y))) | ((x != x) & (y != y))  # noqa: PLR0124
        elif x.dtype.kind not in "biu":
            equal = equal | ((x != x) & (y != y))  # noqa: PLR0124
        if not np.all(equal):
            return False
    return True


def _same_objects(one: Any, other: Any) -> bool:
    """Compare tables of pandas and polars column by column, anything else by its pickle."""
    if hasattr(one, "columns") and hasattr(one, "to_dict"):
        try:
            return same(_columns(one), _columns(other))
        except Exception:  # two columns of one name, another library's table
            return False
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:  # values that cannot be pickled are refused elsewhere, with the reason
        return one is other


def _columns(table: Any) -> list[Any]:
    """Return the index of a table, and the name, type and values of each column."""
    parts = [(str(name), str(table[name].dtype), np.asarray(table[name])) for name in table.columns]
    return [list(getattr(table, "index", ())), *parts]


class Pair(Plugin, kind="pair"):
    """Two neighbouring datasets (D, D′).

    A subclass gives `d0` and `d1`, and names in `adjacency` the relation in which they are
    neighbours ("replace one record", "add or remove one record", …).

    For black boxes a dataset is any Python value that can be pickled: an array, a table, a list of
    records, a dict, a text; D and D′ may differ in size and type. For traced mechanisms it is an
    array or a pytree of arrays (a tuple, a NamedTuple, a dict), of the same structure and types in
    D and D′. If these differ in their number of rows, the mechanism gets both as `Padded`.
    """

    may_be_parameters = frozenset({"adjacency", "description"})

    if TYPE_CHECKING:  # a property, because a parameter or an attribute may take its place

        @property
        def adjacency(self) -> str:
            """The relation in which D and D′ are neighbours, in words."""
            raise NotImplementedError

        @property
        def description(self) -> str:
            """The difference of D and D′ in a few words, or ""."""
            raise NotImplementedError

    else:
        adjacency: ClassVar[str]

        description: ClassVar[str] = ""
        """The difference of D and D′ in a few words, such as "NaN in record 0, column age"; shown
        in reports. A class attribute, a property or a parameter."""

    parameters_say_all: ClassVar[bool] = False
    """True if D and D′ depend only on the parameters and on this version of the code.

    Their content is then left out of the address of the draws, so that a release that changes only
    their form makes the same draws. Counts are stored by content in any case.
    """

    @classmethod
    def check_definition(cls) -> None:
        missing = [part for part in ("d0", "d1", "adjacency") if not gives(cls, part)]
        if missing:
            raise TypeError(f"{cls.__name__}: a pair must define {', '.join(missing)}")
        require_text(cls, "adjacency")
        require(cls, "parameters_say_all", bool)

    @property
    def d0(self) -> Tree:
        """The dataset D: an array of shape [*dims], or a pytree of arrays."""
        raise NotImplementedError

    @property
    def d1(self) -> Tree:
        """The dataset D′, like D."""
        raise NotImplementedError

    def distance(self, p: float) -> float:
        """Return the l_p distance of D and D′, p ≥ 1 or inf: the sensitivity of the identity query.

        For pytrees it is the distance of the concatenation of all their arrays.
        """
        d0, d1 = trees.leaves(self.d0), trees.leaves(self.d1)
        parts = (part for both in zip(d0, d1, strict=True) for part in _differences(*both))
        if sum(map(np.size, d0)) <= BLOCK:
            return float(np.linalg.norm(np.concatenate(list(parts)), ord=p))
        return float(np.linalg.norm([np.linalg.norm(part, ord=p) for part in parts], ord=p))


class Padded(NamedTuple):
    """A dataset of a traced mechanism whose D and D′ differ in their number of rows.

    Both are padded to as many rows as the larger has, so that one program serves both.
    """

    values: Tree
    """The array, or the pytree of arrays, each of shape [rows, *dims]; rows that do not exist are
    0."""
    exists: HostArray
    """Existing rows: booleans of shape [rows]."""


def as_traced(d0: Any, d1: Any) -> tuple[Tree, Tree]:
    """Return D and D′ as a traced mechanism gets them: `Padded` if their sizes differ."""
    one, other = trees.leaves(d0), trees.leaves(d1)
    if list(map(np.shape, one)) == list(map(np.shape, other)):
        return d0, d1
    sizes = len(one[0]), len(other[0])
    return _padded(d0, sizes[0], max(sizes)), _padded(d1, sizes[1], max(sizes))


def _padded(data: Tree, size: int, rows: int) -> Padded:
    def longer(leaf: Any) -> HostArray:
        array = np.asarray(leaf)
        return np.concatenate([array, np.zeros((rows - size, *array.shape[1:]), array.dtype)])

    return Padded(trees.map(longer, data), np.arange(rows) < size)


def unusable(pair: Pair) -> str | None:
    """Return why no mechanism can use the datasets of a pair; None if one can.

    Raises whatever the pair raises.
    """
    for name, data in (("D", pair.d0), ("D′", pair.d1)):
        if callable(data) or inspect.isgenerator(data):
            return f"{name} is a {type(data).__name__}, which is not data"
    return None


def unmade(pair: Pair) -> str | None:
    """Return why only a black box in another environment can use a pair; None if any can.

    A dataset whose library is missing here has the reason in an attribute `unmade`.
    """
    messages = (getattr(type(data), "unmade", None) for data in (pair.d0, pair.d1))
    return next((text for text in messages if isinstance(text, str)), None)


def untraceable(pair: Pair) -> str | None:
    """Return why a traced mechanism cannot use the datasets of a pair; None if it can.

    Raises whatever the pair raises.
    """
    d0, d1 = pair.d0, pair.d1
    for name, data in (("D", d0), ("D′", d1)):
        try:
            leaves = trees.leaves(data, is_leaf=lambda leaf: leaf is None)
            types = [np.asarray(leaf).dtype for leaf in leaves]
        except Exception:  # keys without an order, lists of unequal length
            leaves, types = [None], []
        # For JAX a None is structure and not data, and arrays lose their masks.
        lost = any(leaf is None or isinstance(leaf, np.ma.MaskedArray) for leaf in leaves)
        bfloat16 = {at for at in types if at.kind == "V" and at.names is None}
        if lost or any(at.kind not in "biufc" and at not in bfloat16 for at in types):
            return f"{name} does not consist of arrays of numbers, so only a black box accepts it"
    structures: list[Any] = [trees.structure(data) for data in (d0, d1)]
    if structures[0] != structures[1]:
        return "D and D′ are pytrees with different structures"
    both = [[np.asarray(leaf) for leaf in trees.leaves(data)] for data in (d0, d1)]
    same_shapes = [x.shape for x in both[0]] == [y.shape for y in both[1]]
    for x, y in zip(*both, strict=True):
        rows_alone = x.ndim == y.ndim > 0 and x.shape[1:] == y.shape[1:]
        if x.dtype != y.dtype or not (same_shapes or rows_alone):
            of = [f"{array.dtype} of shape {array.shape}" for array in (x, y)]
            return f"D is {of[0]}, D′ is {of[1]}: they may differ only in the number of rows"
    if not same_shapes and any(len({len(leaf) for leaf in leaves}) > 1 for leaves in both):
        return "the arrays of D and D′ differ in their number of rows"
    return None


EQUAL = "D and D′ are equal, so there is nothing to test"


def equal(pair: Pair) -> bool:
    """True if D and D′ are equal bit for bit, types included; NaN equals NaN."""
    return same(pair.d0, pair.d1)


def _differences(d0: Any, d1: Any) -> Iterator[Floats]:
    """Yield D′ − D of one array, flat, in blocks."""
    if np.shape(d0) != np.shape(d1):
        raise ValueError(f"D has the shape {np.shape(d0)}, D′ has {np.shape(d1)}")
    arrays = np.atleast_1d(d0), np.atleast_1d(d1)
    rows = max(1, BLOCK * len(arrays[0]) // max(1, arrays[0].size))
    for first in range(0, len(arrays[0]), rows):
        before, after = (np.asarray(a[first : first + rows], np.float64) for a in arrays)
        yield np.ravel(after - before)


class Earned(NamedTuple):
    """The evidence of a proposed pair so far."""

    pair: Pair
    draws: int
    """Draws per dataset that were spent on it."""
    growth: float
    """Estimated growth of ln(wealth) against the claim per draw, at least 0, by its best attack. It
    guides the search and is not evidence."""


class Neighbourhood(Plugin, kind="neighbourhood"):
    """Proposes neighbouring pairs (D, D′), among which a search looks for the worst.

    A claim is about every neighbouring pair. A search tries many pairs with few draws each, and
    spends the other draws on those whose evidence grows. A subclass gives `propose`, and in
    `adjacency` the relation of its pairs: a class attribute, a property or a parameter.

    A pair counts for both orders of D and D′, so only one order is proposed. A spec must be able to
    name every proposed pair by its parameters alone, because the record stores the worst pair.
    `Values` is such a pair, whose parameters are its datasets.
    """

    may_be_parameters = frozenset({"adjacency"})

    if TYPE_CHECKING:  # a property, because a parameter or an attribute may take its place

        @property
        def adjacency(self) -> str:
            """The relation in which D and D′ are neighbours, in words."""
            raise NotImplementedError

    else:
        adjacency: ClassVar[str]

    one_shape: ClassVar[bool] = True
    """True if all its pairs have one shape and type, so that a traced mechanism is compiled once.
    False if the datasets differ in size between pairs or are not arrays; black boxes accept any."""

    one_pair: ClassVar[bool] = False
    """True if it proposes one pair in all, so that a search bets its whole wealth on that pair."""

    @classmethod
    def check_definition(cls) -> None:
        if cls.propose is Neighbourhood.propose:
            raise TypeError(f"{cls.__name__}: a neighbourhood must define propose(rng, history)")
        if not gives(cls, "adjacency"):
            raise TypeError(f"{cls.__name__}: a neighbourhood must define adjacency")
        require_text(cls, "adjacency")
        require(cls, "one_shape", bool)
        require(cls, "one_pair", bool)

    def for_mechanism(self, mechanism: Any) -> Self:
        """Return the neighbourhood for a search of this mechanism; itself, unless overridden."""
        return self

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        """Propose pairs, each of them once, all of one shape unless `one_shape` is False.

        The same randomness and history must give the same pairs, because an interrupted run calls
        it again.

        Args:
            rng: the source of all randomness.
            history: the earlier proposals and their evidence, in order; empty on the first call. A
                pair without draws so far is included with 0 draws.

        Returns:
            Pairs that are not in the history in either order; empty if there are no more.
        """
        raise NotImplementedError

    def features(self, pair: Pair) -> Sequence[str]:
        """Return the features that a pair tests, each in a few words, such as "NULL in age".

        Args:
            pair: one that it proposed.

        Returns:
            Texts. The record lists those of all pairs that were drawn from. Default: none.
        """
        return ()

    def all_features(self) -> Sequence[str]:
        """Return the features of all pairs that it could propose, the most important first.

        The record lists as untried those that no drawn pair has. Default: none.
        """
        return ()

    def own_data(self) -> Sequence[Tree]:
        """Return the datasets that the user gave, as a mechanism gets them: D, or D and D′.

        A black box must answer on them before other pairs are tried: if it only raises exceptions,
        the search ends without a verdict. Default: none.
        """
        return ()

    def needs(self, pair: Pair) -> Mapping[str, Mapping[str, Any]]:
        """Return the features of a pair that a user may want to exclude.

        The report of a violation on this pair names them, and explains how to search without them.

        Args:
            pair: one that it proposed.

        Returns:
            For each feature, named by a few words such as "NaN", the parameters of this
            neighbourhood that exclude it. Default: none.
        """
        return {}
