"""A validated audit, with every choice made and every default filled in."""

import dataclasses
import functools
import hashlib
import json
import re
import unicodedata
from typing import Any, Generic, NamedTuple, TypeVar

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
    time: bool = False  # True if the time of an answer is part of it
    limit: float | None = None  # seconds that one answer may take
    bits: bool = False  # True if a search without attacks of its own examines last bits
    messages: bool = False  # True if the message of an exception is part of its answer
    only: tuple[str, ...] = ()  # paths of the parts of an answer that count; all if empty
    constant: bool = False  # True if all its answers may be equal
    environment: str = ""  # digest of its environment's packages; "" for this interpreter


@dataclasses.dataclass(frozen=True)
class Search:
    """The neighbourhood and attacks with which a cell is searched for a refuted pair."""

    mechanism: Choice[Mechanism | HostMechanism]  # as the spec gives it, not resolved for a pair
    neighbourhood: Choice[Neighbourhood]
    attacks: tuple[Choice[Attack], ...]  # all of them score every draw
    ignore: tuple[str, ...] = ()  # known leaks
    findings: int = 1  # number of distinct leaks to find
    parameters: tuple[Any, ...] = ()  # ranges of the mechanism's parameters

    @property
    def one_pair(self) -> bool:
        """True if the search has one pair, and one setting of the mechanism."""
        return self.neighbourhood.value.one_pair and not self.parameters


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
    """Chooses pair and attack; the cell has the first ones, and after the search its witness's."""


@dataclasses.dataclass(frozen=True)
class Skip:
    """A combination that is left out, with the reason."""

    mechanism: str
    pair: str
    attack: str
    estimator: str
    swept: tuple[tuple[str, Any], ...]
    reason: str
    expected: str | None = None  # the verdict that [[expect]] names, which cannot be met


class SpecSource(NamedTuple):
    """The file that the audit came from."""

    path: str
    sha256: str
    text: str
    overrides: tuple[str, ...]  # `KEY=VALUE` as given on the command line


class RunSettings(NamedTuple):
    """The [run] table."""

    precision: str = "float32"
    fit: int | None = None
    """Draws per dataset; None: the engine chooses."""
    pilot: int | None = None
    chunk: int | None = None
    prng: str = "default"
    seconds: float | None = None
    device: str | None = None
    stop: str = "never"
    power: float | None = None
    extended: float | None = None
    """Seconds that a search gets in all as long as no answers could have refuted the claim; set by
    tests that state no time."""


@dataclasses.dataclass(frozen=True)
class Audit:
    """A validated audit."""

    name: str
    multiplicity: str
    cells: tuple[Cell, ...]
    skipped: tuple[Skip, ...]
    run: RunSettings
    source: SpecSource
    wanted: tuple[Wanted, ...] = ()  # the environments that the spec describes
    environments: tuple[Environment, ...] = ()  # the environments of mechanisms, as found here

    @property
    def interpreters(self) -> dict[str, str]:
        """Path of the Python of each environment that can be used, by its name."""
        return {one.name: one.interpreter for one in self.environments if not one.problem}


_LONGEST_SLUG = 100
_HASH_DIGITS = 12


def cell_ids(
    labels: list[str], plugins: list[Any], swept: list[tuple[str, Any]], repeats: int
) -> list[str]:
    """Return the ids of all repeats of a cell; those after the first contain `-r` and a number.

    An id stays the same if the spec changes elsewhere. It hashes the plugins, labels, effective
    parameters, swept values and the repeat. It depends neither on the position of the cell nor on
    settings of the whole audit, such as trials, seed, δ and confidence, unless they are swept.
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
    """Return whole floats as integers, because a spec may write 10 or 10.0."""
    if isinstance(value, list):
        return [_same_if_equal(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@functools.lru_cache(4096)
def _slug(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9.]+", "-", ascii_text.lower()).strip("-.")
