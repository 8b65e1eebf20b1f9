"""A validated audit: every choice made, every default filled."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.environments import Environment, Wanted
    from dpframe.interfaces.attack import Attack
    from dpframe.interfaces.estimator import Estimator
    from dpframe.interfaces.mechanism import HostMechanism, Mechanism
    from dpframe.interfaces.pair import Neighbourhood, Pair


P = TypeVar("P")


@dataclasses.dataclass(frozen=True)
class Choice(Generic[P]):
    """A plugin with its parameters, as one cell uses it.

    All fields after `value` concern black boxes only.
    """

    use: str  # the plugin's bare name
    label: str
    distribution: str
    version: str
    value: P
    raises: str | None = None
    """An exception is an "answer" or makes the cells "fail". None: it is an answer in a search and
    from a black box that gives releases."""
    time: bool = False  # whether the time that an answer takes is part of it
    limit: float | None = None  # seconds that one answer may take
    bits: bool = False  # whether a search without attacks of its own looks at last bits
    messages: bool = False  # whether the message of an exception is part of it
    environment: str = ""  # digest of what is installed where it runs; "" for this interpreter


@dataclasses.dataclass(frozen=True)
class Search:
    """The neighbourhood and attacks with which a cell is searched for a refuted pair."""

    mechanism: Choice[Mechanism | HostMechanism]  # as the spec gives it, not resolved for a pair
    neighbourhood: Choice[Neighbourhood]
    attacks: tuple[Choice[Attack], ...]  # all are played on every draw
    ignore: tuple[str, ...] = ()  # leaks that are known
    findings: int = 1  # distinct leaks that are wanted
    parameters: tuple[Any, ...] = ()  # ranges of the mechanism's parameters


@dataclasses.dataclass(frozen=True)
class Cell:
    """One combination of the sweep."""

    id: str
    """Stable slug plus hash; does not depend on the cell's position in the spec."""
    repeat: int
    mechanism: Choice[Mechanism | HostMechanism]  # resolved for the pair
    pair: Choice[Pair]
    attack: Choice[Attack]
    estimator: Choice[Estimator]
    swept: tuple[tuple[str, Any], ...]
    """Swept keys and this cell's values, in the order of the spec."""
    claim: Claim | None
    delta: float
    confidence: float
    """Family-wise level of the audit this cell belongs to, not of the cell alone."""
    trials: int
    seed: int
    expected: str | None  # the verdict that the last matching [[expect]] rule names
    search: Search | None = None
    """Replaces pair and attack, which are the first of the search and, after it, its witness."""


@dataclasses.dataclass(frozen=True)
class Skip:
    """A combination that is left out, with the reason."""

    mechanism: str
    pair: str
    attack: str
    estimator: str
    swept: tuple[tuple[str, Any], ...]
    reason: str
    expected: str | None = None  # the verdict that [[expect]] names all the same; it cannot be met


class Source(NamedTuple):
    """The file that the audit came from."""

    path: str
    sha256: str
    text: str
    overrides: tuple[str, ...]  # `KEY=VALUE` as given on the command line


class RunSettings(NamedTuple):
    """The [run] table."""

    precision: str = "float32"
    fit: int | None = None
    """Draws per dataset; None leaves it to the engine, which knows what they cost."""
    pilot: int | None = None
    chunk: int | None = None
    prng: str = "default"
    seconds: float | None = None
    device: str | None = None
    stop: str = "never"
    verify: float = 2
    """Results of others that are worked out again here: a number, or as a float a share."""
    power: float | None = None


@dataclasses.dataclass(frozen=True)
class Audit:
    """A validated audit."""

    name: str
    multiplicity: str
    cells: tuple[Cell, ...]
    skipped: tuple[Skip, ...]
    run: RunSettings
    source: Source
    wanted: tuple[Wanted, ...] = ()  # the environments that the spec describes
    environments: tuple[Environment, ...] = ()  # those that mechanisms run in, as found here

    @property
    def interpreters(self) -> dict[str, str]:
        """Path of the Python of each environment that can be used, by its name."""
        return {one.name: one.interpreter for one in self.environments if not one.problem}


_LONGEST_SLUG = 100
_HASH_DIGITS = 12


def cell_ids(
    labels: list[str], plugins: list[Any], swept: list[tuple[str, Any]], repeats: int
) -> list[str]:
    """Return the ids of all repeats of a cell, which differ in their ends; the first has no `-r`.

    An id outlives every change to the spec that leaves the cell alone. It hashes what the cell
    *is*: plugins, labels, effective parameters, swept values, repeat. Position does not count, nor
    does what the whole audit has in common, such as trials, seed, δ and confidence, unless swept.
    """
    swept = [(key, _same_if_equal(value)) for key, value in swept]
    values = [
        f"{key.partition('.')[2]}-{value if isinstance(value, str) else _json(value)}"
        for key, value in swept
    ]
    slug = "-".join(filter(None, map(_slug, [*labels, *values])))[:_LONGEST_SLUG]
    content = _json([labels, plugins, sorted(swept, key=lambda pair: pair[0])], sort_keys=True)
    ids = []
    for repeat in range(repeats):
        digest = hashlib.sha256(f"{content}|{repeat}".encode()).hexdigest()[:_HASH_DIGITS]
        ids.append(f"{slug}{f'-r{repeat}' if repeat else ''}-{digest}")
    return ids


_json = functools.partial(json.dumps, default=str)


def _same_if_equal(value: Any) -> Any:
    """Return 10 for 10.0: a spec may write either."""
    if isinstance(value, list):
        return [_same_if_equal(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@functools.lru_cache(4096)
def _slug(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9.]+", "-", ascii_text.lower()).strip("-.")
