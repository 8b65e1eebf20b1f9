"""The public interface of mechanisms: randomised functions of a dataset."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import inspect
import os
import shlex
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from annotated_types import Ge

from dpframe.common.arrays import jax
from dpframe.common.text import PARSING
from dpframe.interfaces.plugin import Plugin, gives, require

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from dpframe.claims import Claim
    from dpframe.common.types import Array, HostArray, Key
    from dpframe.interfaces.pair import Pair
    from dpframe.interfaces.plugin_files import SpecFile


class _AnyMechanism(Plugin, kind="mechanism"):
    may_be_parameters = frozenset({"norm"})

    def resolve(self, pair: Pair) -> Self:
        """Fill parameters whose default depends on the pair, once, before anything is traced.

        Returns:
            A copy (`dataclasses.replace`) or the mechanism itself.
        """
        return self

    def claim(self, pair: Pair) -> Claim | None:
        """Return the claim for this pair; None claims nothing, and then there is no verdict."""
        return None

    def truth(self, pair: Pair) -> Claim | None:
        """Return the exact trade-off curve of its outputs for this pair, if it is known.

        Optional; never used for a verdict. Comparisons and calibrations measure bounds against
        it. The curve is that of the worse direction, as for a claim.
        """
        return None

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        """Return P(output ≤ x), if an output is one number and its distribution is known.

        Optional; never used for a verdict. Figures of the outputs draw it beside the counts.

        Args:
            data: the dataset, shape [*dims].
            x: numbers, shape [k].

        Returns:
            Shape [k], non-decreasing in x. If NaN is a legitimate output, the limit for large x is
            the probability of a number.
        """
        return None

    @property
    def may_be_nan(self) -> bool:
        """True if NaN is a legitimate output; otherwise a NaN fails the cell."""
        return False

    def query(self, data: Any) -> Any:
        """Return the value that the mechanism would release without its noise.

        Optional. A mechanism that gives it also has `sensitivity`, for which its noise is scaled: a
        parameter, an attribute, a property, or a method `sensitivity(pair)`. Every pair is then
        checked without any draw: a larger change of the query, in the norm `norm`, is a certain
        violation.

        Args:
            data: the dataset, as the pair makes it.

        Returns:
            A number, or arrays, lists, tuples and dicts of numbers. The same data always give the
            same answer.
        """
        raise NotImplementedError

    def has_query(self) -> bool:
        """True if the mechanism gives a `query`."""
        return type(self).query is not _AnyMechanism.query

    def choices(self, data: Any) -> Any:
        """Return the distribution of an output whose places are chosen independently.

        Optional, for a softmax over a vocabulary, an exponential mechanism or another choice with
        known probabilities. The loss of every pair is then computed without draws, which decides
        claims of any ε: a verdict about the distribution that is stated here. Some outputs are
        drawn to test that the mechanism samples from it; the cell fails if it does not.

        Args:
            data: the dataset, as the pair makes it.

        Returns:
            Logarithms of probabilities: a dict of them by output; a list of such dicts, one for
            each place of an output (a list, or a text of words); or an array, [outcomes] or
            [places, outcomes], for outputs that are numbers 0, 1, … The same data always give the
            same answer.
        """
        raise NotImplementedError

    def has_choices(self) -> bool:
        """True if the mechanism states its `choices`."""
        return type(self).choices is not _AnyMechanism.choices

    @property
    def norm(self) -> float:
        """Norm of the sensitivity: 1, 2 or inf. A class attribute or a property."""
        return 1.0

    @property
    def canaries(self) -> bool:
        """True if one release is a run with many canaries, each in by a fair coin of its own.

        A class attribute or a property. An output is then [2, m]: the scores of m canaries, larger
        for likelier members, and 1 or 0 for those that were in or out; or anything that an attack
        with `gives = "canaries"` turns into these. The claim is about the presence of one canary.
        Both datasets of the pair may be equal, because the coins make the difference.
        """
        return False

    @property
    def rows(self) -> int | None:
        """Releases per chunk, for a mechanism whose releases are slow or large.

        A class attribute or a property of the parameters. A chunk is drawn in one piece: progress,
        checkpoints and Ctrl-C wait for its end. None: a few thousand, which is fast for small
        outputs. It is part of the address of every draw, so it must not depend on the machine.
        """
        return None


def _require_one(cls: type, base: type, title: str, source: str) -> None:
    """Raise TypeError unless a class defines either `sample` or `release`."""
    given = [m for m in ("sample", "release") if getattr(cls, m) is not getattr(base, m)]
    if len(given) != 1:
        raise TypeError(
            f"{cls.__name__}: {title} must define either sample({source}, data, n) or "
            f"release({source}, data), not {'both' if given else 'neither'}"
        )


class Mechanism(_AnyMechanism, kind="mechanism"):
    """A mechanism that JAX traces: give `sample`, or `release` for one output at a time.

    Both must be pure functions of their arguments and of the fields: no Python side effects, no
    NumPy random numbers, no branching on array values (`jax.numpy.where` instead).
    """

    @classmethod
    def check_definition(cls) -> None:
        _require_one(cls, Mechanism, "a mechanism", "key")

    def sample(self, key: Key, data: Array, n: int) -> Array:
        """Run the mechanism n times.

        Args:
            key: a JAX key; draw all randomness from it.
            data: the dataset, shape [*dims].
            n: number of runs, static.

        Returns:
            Independent outputs, shape [n, *output dims].
        """
        return jax.vmap(self.release, in_axes=(0, None))(jax.random.split(key, n), data)

    def release(self, key: Key, data: Array) -> Array:
        """Run the mechanism once.

        Args:
            key: a JAX key; draw all randomness from it.
            data: the dataset, shape [*dims].

        Returns:
            One output, shape [*output dims].
        """
        raise NotImplementedError

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Return the log of the output density, up to a term that does not depend on the data.

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
        """True if the mechanism gives a `log_density`."""
        return cls.log_density is not Mechanism.log_density


class HostMechanism(_AnyMechanism, kind="mechanism"):
    """A black box in plain Python: never traced, may call any library.

    Give either `release`, one answer at a time, which may be anything, or `sample`, many at once.
    """

    seedable: ClassVar[bool] = True
    """False for a mechanism that ignores the generator; its record is not replayable."""

    attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes to read from an answer that is an object; default: all public ones."""

    @classmethod
    def check_definition(cls) -> None:
        _require_one(cls, HostMechanism, "a host mechanism", "rng")
        if not isinstance(inspect.getattr_static(cls, "seedable"), property):
            require(cls, "seedable", bool)
        names: object = getattr(cls, "attributes", None)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"{cls.__name__}: attributes is a tuple of names, not {names!r}")

    def prepare(self, data: Any) -> Any:
        """Build the state that every release needs, once per process and dataset.

        Its state must not let one release influence another: the cell fails if a release changes
        the data, or plain values, arrays or frames in the state.

        Args:
            data: the dataset.

        Returns:
            The value that `release` or `sample` get in place of the dataset. Default: the dataset.
        """
        return data

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        """Run the mechanism once.

        Args:
            rng: draw all randomness from it.
            data: the dataset, or the result of `prepare`.

        Returns:
            Any value: a number, a text, None, an array, a data frame, a tuple, a table, an object.
            An exception is an answer too, unless the spec says `raises = "fail"`.
        """
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> HostArray | list[Any]:
        """Run the mechanism n times.

        Args:
            rng: draw all randomness from it.
            data: the dataset, or the result of `prepare`.
            n: number of runs.

        Returns:
            Independent outputs: an array of numbers, shape [n, *output dims], or a list of n
            answers of any kind.
        """
        return [self.release(rng, data) for _ in range(n)]

    @classmethod
    def gives_releases(cls) -> bool:
        """True if the mechanism gives one answer at a time."""
        return cls.release is not HostMechanism.release

    @classmethod
    def prepares(cls) -> bool:
        """True if the mechanism has its own `prepare`."""
        return cls.prepare is not HostMechanism.prepare


DEFAULTS = "_defaults"
"""Attribute of a function's mechanism: names of arguments of which only the default is tried."""


def settings(values: Mapping[str, Any]) -> list[str]:
    """Return the names of numbers, and of lists of numbers.

    Texts and booleans are left out, because they usually name something or change what is claimed.
    """
    lists = {name: one if isinstance(one, tuple | list) else [one] for name, one in values.items()}
    return [name for name, own in lists.items() if own and {*map(type, own)} <= {int, float}]


def host_mechanism(
    fn: Callable[[np.random.Generator, Any, int], HostArray | list[Any]] | None = None,
    *,
    release: Callable[[np.random.Generator, Any], Any] | None = None,
    name: str | None = None,
    claim: Claim | None = None,
    seedable: bool = True,
    may_be_nan: bool = False,
    attributes: tuple[str, ...] = (),
    every: int = 1,
) -> type[HostMechanism]:
    """Wrap a function as a mechanism without parameters.

    Args:
        fn: called as `fn(rng, data, n)`; returns n independent outputs, shape [n, *output dims],
            or a list of n answers.
        release: instead of `fn`, called as `release(rng, data)`; returns one answer, any value.
        name: its name in specs and reports; default: the function's.
        claim: what is claimed for it; None claims nothing.
        seedable: False when the function draws randomness from elsewhere than `rng`.
        may_be_nan: True if NaN is a legitimate output.
        attributes: attributes to read from an answer that is an object.
        every: use only one of this many releases as an output. The bound is then valid if releases
            this far apart are independent. A number above 1 becomes a parameter, `every`, which a
            spec may set and sweep.

    Returns:
        A class, ready for a `dpframe_mechanisms` hook or for `dpframe.audit(plugins=[...])`.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
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
    if every != 1:
        body |= {"__annotations__": {"every": Annotated[int, Ge(1)]}, "every": every}

    def released(self: Any, rng: np.random.Generator, data: Any) -> Any:
        for _ in range(self.every - 1):
            with contextlib.suppress(Exception):  # of an answer that is left out
                given(rng, data)
        return given(rng, data)

    def sampled(self: Any, rng: np.random.Generator, data: Any, n: int) -> Any:
        return given(rng, data, n * self.every)[self.every - 1 :: self.every]

    if release is not None:
        body["release"] = released if every > 1 else lambda self, rng, data: given(rng, data)
    else:
        body["sample"] = sampled if every > 1 else lambda self, rng, data, n: given(rng, data, n)
    title = name or str(getattr(given, "__name__", "host-mechanism"))
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))


# Programs are plain modules that a worker runs, often in another interpreter. Such a file defines
# `prepare(params, data)`, which returns a function of no arguments that makes one release.


class ProgramFile(NamedTuple):
    """The file of a program."""

    path: Path
    """Absolute."""

    @property
    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of its bytes."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]


_given: set[ProgramFile] = set()  # programs named on the command line


def is_program(source: bytes) -> bool:
    """True if a source text defines `prepare` and does not import dpframe; does not run it."""
    statements = _statements(source)
    imported = {
        name.partition(".")[0]
        for one in statements
        if isinstance(one, ast.Import | ast.ImportFrom)
        for name in [getattr(one, "module", None) or "", *(alias.name for alias in one.names)]
    }
    return defines(source, "prepare") and "dpframe" not in imported


def defines(source: bytes, name: str) -> bool:
    """True if a source text binds a name at its top level; does not run it."""
    return any(name in _names(statement) for statement in _statements(source))


def _names(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _statements(source: bytes) -> list[ast.stmt]:
    try:
        with PARSING:
            return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []


def consent(path: Path) -> None:
    """Allow specs to name a program."""
    _given.add(ProgramFile(path.resolve()))


class ForeignMechanism(HostMechanism):
    """A black box that is a plain module without dpframe, and so runs in any interpreter.

    The module defines `prepare(params, data)`, which returns a function of no arguments that makes
    one release, or an object with `releases(n)` that makes n of them at a time, as a list or an
    array. It may define `seed(n)`, called before every chunk of releases; otherwise it may use any
    source of randomness. If it defines `query(params, data)`, its release without noise, and
    `sensitivity(params)`, for which the noise is scaled, changes of the query are checked exactly;
    the class may give `sensitivity` instead. `choices(params, data)` states the distribution of an
    output, as a method `choices` does. It runs in a worker process of its own with one thread,
    under Python 3.8 or later, and needs only the packages that it imports.

    An author names the module: `class Mine(ForeignMechanism, name="mine")` with `module =
    "mine_box.py"`, a path beside the file that defines the class.
    """

    environment: str | None = None
    """Name of the environment in [environments] or --python; default: this interpreter."""

    module: ClassVar[str | os.PathLike[str]]
    """Path of the module; if relative, beside the file that defines the class."""

    seedable: ClassVar[bool] = False
    """True if all randomness of the module comes from `random`, `numpy.random` or `seed`."""

    @classmethod
    def check_definition(cls) -> None:
        super().check_definition()
        if not gives(cls, "module"):
            raise TypeError(f'{cls.__name__}: a foreign mechanism must set module = "FILE.py"')

    def has_query(self) -> bool:
        """True if the module defines `query`, and the module or the class gives a sensitivity."""
        try:
            source = self.program().path.read_bytes()
        except (OSError, ValueError):
            return False
        defined = gives(type(self), "sensitivity") or defines(source, "sensitivity")
        return defined and defines(source, "query")

    def program(self) -> ProgramFile:
        """Return the module's file; raises ValueError if it is not known."""
        home = getattr(sys.modules.get(type(self).__module__), "__file__", None)
        return ProgramFile(Path(home or ".").parent / type(self).module)

    @staticmethod
    def consented(path: Path) -> ProgramFile:
        """Return a file if the command line names it too; raises ValueError otherwise."""
        program = ProgramFile(path.resolve())
        if program not in _given:
            with contextlib.suppress(ValueError):
                path = path.relative_to(Path.cwd())
            raise ValueError(
                f"{path.name} is code, and a spec never runs code on its own: also name the file "
                f"on the command line, --plugin {path}"
            )
        return program

    @staticmethod
    def consented_to(command: tuple[SpecFile, ...]) -> None:
        """Raise ValueError unless whoever runs the spec of a command allows it."""
        if not all(one.allow_command for one in command):
            raise ValueError(
                f"{shlex.join(command)} is code, and a spec never runs code on its own: if you "
                "trust it, add --allow-command (in Python allow_command=True)"
            )

    def code(self) -> str:
        """Return a digest of the program, which is part of the key of stored counts."""
        return self.program().digest

    def arguments(self) -> dict[str, Any]:
        """Return the `params` of `prepare`: by default the parameters, without the environment."""
        return {name: value for name, value in self.params().items() if name != "environment"}

    def prepare(self, data: Any) -> Any:
        """Prepare as the module does, in dpframe's own process."""
        if self.environment is not None:
            raise RuntimeError(f"it runs in the environment {self.environment!r} only")
        return _imported(self.program().path).prepare(self.arguments(), data)

    def has_choices(self) -> bool:
        """True if the module defines `choices`."""
        try:
            return defines(self.program().path.read_bytes(), "choices")
        except (OSError, ValueError):
            return False

    def choices(self, data: Any) -> Any:
        """Return the module's `choices(params, data)`: the distribution of its output."""
        return _imported(self.program().path).choices(self.arguments(), data)

    def query(self, data: Any) -> Any:
        """Return the module's `query(params, data)`: its release without noise."""
        return _imported(self.program().path).query(self.arguments(), data)

    def release(self, rng: np.random.Generator, data: Any) -> Any:
        """Return one release of the result of `prepare`; `rng` is not used."""
        return data() if callable(data) else data.releases(1)[0]


def _imported(path: Path) -> Any:
    name = f"dpframe_program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
