"""The public boundary for mechanisms: randomised functions of a dataset."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax

from dpframe.plugin import Plugin, require

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from dpframe.claims import Claim
    from dpframe.pair import Pair
    from dpframe.types import Array, HostArray, Key


class _AnyMechanism(Plugin, kind="mechanism"):
    may_be_parameters = frozenset({"norm"})

    def resolve(self, pair: Pair) -> Self:
        """Fills parameters whose default depends on the pair, once, before anything is traced.

        Returns:
            A copy (`dataclasses.replace`) or the mechanism itself.
        """
        return self

    def claim(self, pair: Pair) -> Claim | None:
        """What is claimed for this pair; None claims nothing, and then there is no verdict."""
        return None

    def truth(self, pair: Pair) -> Claim | None:
        """The exact trade-off curve of its outputs for this pair, where it is known.

        Optional; never used for a verdict. Comparisons and calibrations measure bounds against
        it. Both directions count: the curve is that of the worse one, as for a claim.
        """
        return None

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        """P(output ≤ x), where an output is one number and its distribution is known.

        Optional; never used for a verdict. Figures of the outputs draw it beside what was counted.

        Args:
            data: the dataset, shape [*dims].
            x: numbers, shape [k].

        Returns:
            Shape [k], ascending where x is. If NaN is a legitimate output the limit for large x is
            the probability that there is a number.
        """
        return None

    @property
    def may_be_nan(self) -> bool:
        """Whether NaN is a legitimate output; otherwise a NaN fails the cell."""
        return False

    def query(self, data: Any) -> Any:
        """What the mechanism would release without its noise, where it knows.

        Optional. A mechanism that gives it also says what its noise is made for, in `sensitivity`:
        a parameter, an attribute, a property, or a method `sensitivity(pair)`. Every pair is then
        checked without a single draw: a change of the query that is larger, in the norm `norm`,
        is a violation that no chance takes part in.

        Args:
            data: the dataset, as the pair makes it.

        Returns:
            A number, or arrays, lists, tuples and dicts of numbers. The same data always give the
            same answer.
        """
        raise NotImplementedError

    def has_query(self) -> bool:
        """Whether the mechanism gives a `query`."""
        return type(self).query is not _AnyMechanism.query

    @property
    def norm(self) -> float:
        """In which the sensitivity is measured: 1, 2 or inf. A class attribute or a property."""
        return 1.0

    @property
    def canaries(self) -> bool:
        """Whether one release is a run with many canaries, each in by a fair coin of its own.

        A class attribute or a property. An output is then [2, m]: the scores of m canaries, larger
        if more like a member, and which of them were in, 1 or 0; or whatever an attack that gives
        "canaries" makes that of. The claim is about the presence of one canary. Both datasets of
        the pair may be the same, since the coins are what differs.
        """
        return False

    @property
    def rows(self) -> int | None:
        """Releases per chunk, for a mechanism whose releases are slow or large.

        A class attribute or a property of the parameters. A chunk is drawn in one piece: progress
        is shown, counts are kept and Ctrl-C is answered after each. None: as many as are fast for
        small outputs, some thousands. It is part of the address of every draw, so it must not
        depend on the machine.
        """
        return None


class Mechanism(_AnyMechanism, kind="mechanism"):
    """A mechanism that JAX traces: give `sample`, or `release` for one output at a time.

    Both must be pure functions of their arguments and of the fields: no Python side effects, no
    NumPy random numbers, no branching on array values (`jax.numpy.where` instead).
    """

    @classmethod
    def check_definition(cls) -> None:
        given = [m for m in ("sample", "release") if getattr(cls, m) is not getattr(Mechanism, m)]
        if len(given) != 1:
            raise TypeError(
                f"{cls.__name__}: a mechanism gives either sample(key, data, n) or "
                f"release(key, data), not {'both' if given else 'neither'}"
            )

    def sample(self, key: Key, data: Array, n: int) -> Array:
        """Runs the mechanism n times.

        Args:
            key: a JAX key; draw all randomness from it.
            data: the dataset, shape [*dims].
            n: number of runs, static.

        Returns:
            Independent outputs, shape [n, *output dims].
        """
        return jax.vmap(self.release, in_axes=(0, None))(jax.random.split(key, n), data)

    def release(self, key: Key, data: Array) -> Array:
        """Runs the mechanism once.

        Args:
            key: a JAX key; draw all randomness from it.
            data: the dataset, shape [*dims].

        Returns:
            One output, shape [*output dims].
        """
        raise NotImplementedError

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Log of the output density, up to a term that does not depend on the data.

        The density may be with respect to any measure, as long as it is the same for all
        datasets; with an atom on one side of a pair only, −inf or inf are right.

        Args:
            data: the dataset, shape [*dims].
            outputs: shape [n, *output dims].

        Returns:
            Shape [n]. Optional: it enables the exact likelihood-ratio attack.
        """
        raise NotImplementedError

    @classmethod
    def has_log_density(cls) -> bool:
        """Whether the mechanism gives a `log_density`."""
        return cls.log_density is not Mechanism.log_density


class HostMechanism(_AnyMechanism, kind="mechanism"):
    """A black box in plain Python: never traced, may call any library.

    Give either `release`, one answer at a time, which may be anything, or `sample`, many at once.
    """

    seedable: ClassVar[bool] = True
    """False for a mechanism that ignores the generator; its record is not replayable."""

    attributes: ClassVar[tuple[str, ...]] = ()
    """What is read of an answer that is an object of some class; default: all that its public
    attributes show."""

    @classmethod
    def check_definition(cls) -> None:
        given = [m for m in ("sample", "release") if getattr(cls, m) is not _own(m)]
        if len(given) != 1:
            raise TypeError(
                f"{cls.__name__}: a host mechanism gives either sample(rng, data, n) or "
                f"release(rng, data), not {'both' if given else 'neither'}"
            )
        if not isinstance(inspect.getattr_static(cls, "seedable"), property):
            require(cls, "seedable", bool)
        names: object = getattr(cls, "attributes", None)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"{cls.__name__}: attributes is a tuple of names, not {names!r}")

    def prepare(self, data: Any) -> Any:
        """Builds what every release needs, once per process and dataset.

        Nothing that it keeps may change what later releases answer.

        Args:
            data: the dataset.

        Returns:
            What `release` or `sample` get in place of the dataset. Default: the dataset.
        """
        return data

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        """Runs the mechanism once.

        Args:
            rng: draw all randomness from it.
            data: the dataset, or what `prepare` made of it.

        Returns:
            Any value: a number, a text, None, an array, a data frame, a tuple, a table, an object.
            An exception is an answer too, unless the spec says `raises = "fail"`.
        """
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> HostArray | list[Any]:
        """Runs the mechanism n times.

        Args:
            rng: draw all randomness from it.
            data: the dataset, or what `prepare` made of it.
            n: number of runs.

        Returns:
            Independent outputs: an array of numbers, shape [n, *output dims], or a list of n
            answers of any kind.
        """
        return [self.release(rng, data) for _ in range(n)]

    @classmethod
    def gives_releases(cls) -> bool:
        """Whether the mechanism gives one answer at a time."""
        return cls.release is not HostMechanism.release

    @classmethod
    def prepares(cls) -> bool:
        """Whether the mechanism has a `prepare` of its own."""
        return cls.prepare is not HostMechanism.prepare


def _own(method: str) -> object:
    return getattr(HostMechanism, method)


def host_mechanism(
    fn: Callable[[np.random.Generator, Any, int], HostArray | list[Any]] | None = None,
    *,
    release: Callable[[np.random.Generator, Any], Any] | None = None,
    name: str | None = None,
    claim: Claim | None = None,
    seedable: bool = True,
    may_be_nan: bool = False,
    attributes: tuple[str, ...] = (),
) -> type[HostMechanism]:
    """Wraps a function as a mechanism without parameters.

    Args:
        fn: called as `fn(rng, data, n)`; returns n independent outputs, shape [n, *output dims],
            or a list of n answers.
        release: instead of `fn`, called as `release(rng, data)`; returns one answer, any value.
        name: its name in specs and reports; default: the function's.
        claim: what is claimed for it; None claims nothing.
        seedable: False when the function draws randomness from elsewhere than `rng`.
        may_be_nan: whether NaN is a legitimate output.
        attributes: what is read of an answer that is an object.

    Returns:
        A class, ready for a `dpframe_mechanisms` hook or for `dpframe.audit(plugins=[...])`.
    """
    given: Any = fn or release
    if (fn is None) == (release is None):
        raise TypeError("host_mechanism takes either a function fn(rng, data, n) or release=")
    body = {
        "__doc__": given.__doc__,
        "__module__": given.__module__,
        "seedable": seedable,
        "may_be_nan": may_be_nan,
        "attributes": attributes,
        "claim": lambda self, pair: claim,
    }
    if release is not None:
        body["release"] = lambda self, rng, data: release(rng, data)
    else:
        body["sample"] = lambda self, rng, data, n: given(rng, data, n)
    title = name or str(getattr(given, "__name__", "host-mechanism"))
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))
