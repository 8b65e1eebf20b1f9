"""The shape of a spec: what TOML must look like before any plugin is asked.

The docstring under each field is its meaning; `dpframe schema` prints it.
"""

import inspect
import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from dpframe.common.text import Described
from dpframe.interfaces.plugin import json_schema
from dpframe.interfaces.registry import Entry, Registry

Verdict = Literal["violated", "consistent", "inconclusive"]

MOST_TRIALS = 2**53  # counts beyond this are no longer exact in float64

MOST_REPEATS = 1_000_000


def _one_line(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("should be one line of printable text without blanks around it")
    return text


def _part_of_a_leak(text: str) -> str:
    # Names of leaks are compared without their values, so a mere value would match them all.
    if not re.search(r"[^\W\d_]", re.sub(r"'[^']*'|\"[^\"]*\"|“[^”]*”|\b\d\w*", "", text)):
        raise ValueError("should hold a word of the leak's name outside of quotes")
    return _one_line(text)


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):  # true equals 1, and a literal would take it
        raise ValueError("should be 1")
    return value


def _power_of_two(number: int) -> int:
    if number & (number - 1):
        raise ValueError("should be a power of two")
    return number


def _as_table(value: Any) -> Any:
    return {"requirements": value} if isinstance(value, list) else value


_REQUIREMENT = r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9., _-]*\])?( *[<>=!~][^@/\\\n]{1,100})?"


def _requirement(text: str) -> str:
    # A spec sets neither the source of packages nor pip's options, except for this one.
    if not re.fullmatch(_REQUIREMENT, text.removeprefix("--no-deps ")):
        raise ValueError('should be a name with a version, such as "opendp==0.14.2"')
    return text


def _version(text: str) -> str:
    if not re.fullmatch(r"3\.\d+(\.\d+)?", text):
        raise ValueError('should be a version of Python 3, such as "3.11"')
    return text


Label = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(_one_line)]
# The name of an audit becomes the name of a directory.
FileName = Annotated[
    str, Field(max_length=100, pattern=r"^\w[\w .+-]*$"), AfterValidator(_one_line)
]
Draws = Annotated[int, Field(ge=1, le=MOST_TRIALS)]


class TomlTable(Described, BaseModel):
    """A TOML table; it refuses unknown keys and converts no value."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class AuditTable(TomlTable):
    """Settings of the audit as a whole."""

    name: FileName
    """Name of the audit, and of the directory of its record under `runs/`."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of all random draws."""
    trials: Draws | None = None
    """Draws per dataset of the pair; required here or by --trials."""
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The δ at which ε is estimated; default: the claim's own, else 0."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence of all verdicts together."""
    multiplicity: Literal["holm", "bonferroni", "none"] = "holm"
    """Correction for multiple claims."""
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    """Independent replicates of every cell, reported as mean and standard deviation."""


class PairTable(TomlTable):
    """The neighbouring datasets."""

    use: str
    """Name of a pair plugin, or distribution/name."""
    params: dict[str, Any] = {}
    """Its parameters."""


Leaks = list[Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_part_of_a_leak)]]
Findings = Annotated[int, Field(ge=1, le=100)]


class SearchTable(TomlTable):
    """A search for the pair that refutes a claim, in place of [pair]."""

    use: str
    """Name of a neighbourhood plugin, or distribution/name."""
    params: dict[str, Any] = {}
    """Its parameters."""
    ignore: Leaks = []
    """Known leaks: their names in a record, or parts of names. A pair that shows one earns
    nothing by it. `dpframe show --next` prints them."""
    findings: Findings = 1
    """Number of distinct leaks to list. If it is above 1, the search ends when all are found."""
    parameters: dict[str, Any] = {}
    """Parameters of the mechanism that the search varies: keys such as "mechanism.C", each a list
    of values or { low = …, high = …, log = true }."""


class EntryTable(TomlTable):
    """One mechanism, attack or estimator."""

    use: str
    """Name of a plugin, or distribution/name."""
    label: Label | None = None
    """Name in reports and [[expect]]; unique; default: the plugin's name."""
    params: dict[str, Any] = {}
    """Its parameters. A swept key takes precedence."""


class OwnSearchTable(TomlTable):
    """Keys of [search] for one mechanism, which has data of its own."""

    use: str | None = None
    """Name of a neighbourhood plugin, or distribution/name; default: that of [search]."""
    params: dict[str, Any] = {}
    """Its parameters. If the plugin is the same, parameters of [search] apply unless they are given
    here."""
    ignore: Leaks | None = None
    """Leaks that are known; default: those of [search]."""
    findings: Findings | None = None
    """Number of distinct leaks to list; default: that of [search]."""
    parameters: dict[str, Any] | None = None
    """Parameters of the mechanism that the search varies; default: those of [search]."""


class OutputsTable(TomlTable):
    """Parts of a black box's answer besides its return value."""

    time: bool = False
    """If true, the time that an answer took is part of it. Evidence from time holds for one
    machine."""
    bits: bool = False
    """If true, a search looks at the last bits of floating-point numbers. Even a correct mechanism
    with floating-point noise leaks through them if all digits are published."""
    messages: bool = False
    """If true, the message of an exception is part of it, besides its type and the line that raised
    it. A message may contain the data that caused an error."""
    only: list[Annotated[str, Field(min_length=1, max_length=200)]] = []
    """The parts of an answer that count, for instance ["count", "means.0"]: keys, positions and
    attributes, joined by dots. Default: all of it."""


class MechanismTable(EntryTable):
    """A mechanism."""

    raises: Literal["answer", "fail"] | None = None
    """For a black box: an exception is an answer, or makes its cells fail. Default: "answer" if it
    defines `release`, in a search, and for attacks on answers; else "fail"."""
    limit: Annotated[float, Field(gt=0)] | None = None
    """For a black box: time limit of one answer in seconds; a longer one becomes a TimeoutError.
    Default: only `[run] seconds`."""
    outputs: OutputsTable | None = None
    """For a black box: the parts of its answer."""
    constant: bool | None = None
    """For a black box: true if all its answers may be equal. Default: false; if they all are, on
    all pairs, nothing was tested and the verdict is inconclusive."""
    environment: str | None = None
    """Environment of a separate program: a name in [environments] or of --python. Default: this
    interpreter."""

    search: OwnSearchTable | None = None
    """Keys of [search] for this mechanism alone."""


class EnvironmentTable(TomlTable):
    """A set of packages in which a mechanism runs; `dpframe environments build` installs it."""

    requirements: list[Annotated[str, AfterValidator(_requirement)]]
    """Packages to install, as pip takes them: names with versions, such as "opendp==0.14.2". Those
    that begin with "--no-deps " are installed last, without their dependencies."""
    python: Annotated[str, AfterValidator(_version)] | None = None
    """Version of Python, such as "3.11"; default: that of dpframe."""


class ExpectTable(TomlTable):
    """A rule about verdicts; the last rule that matches a cell counts."""

    where: dict[str, Any] = {}
    """Conditions, all of which must hold: mechanism, attack, estimator (labels), pair (its name),
    or a swept key in quotes; each a value or a list of values. Empty: every cell."""
    verdict: Verdict
    """The verdict these cells must get."""


class RunTable(TomlTable):
    """Settings of the draws. Only the precision changes what is measured."""

    precision: Literal["float32", "float64"] = "float32"
    """Floating-point type of the simulation."""
    fit: Draws | None = None
    """Draws per dataset from which attacks learn; default: 100,000, and for a black box a tenth of
    `trials`, at least 1,000 but never more than `trials`."""
    pilot: Draws | None = None
    """Draws per dataset from which statistics choose thresholds and edges; default: as `fit`."""
    chunk: Annotated[int, Field(ge=1, le=2**30), AfterValidator(_power_of_two)] | None = None
    """Draws made at a time, a power of two; default: from the size of one output."""
    prng: Literal["default", "threefry2x32-13", "threefry2x32"] = "default"
    """Pseudo-random number generator of traced mechanisms."""
    seconds: Annotated[float, Field(gt=0)] | None = None
    """Time budget of a pass; after this many seconds, cells are judged by the trials so far. The
    first batch on each dataset is drawn even if it takes longer. On a machine with more work than
    cores, seconds are stretched by its load, at most fourfold."""
    stop: Literal["never", "decided"] = "never"
    """"decided" ends a cell of an anytime estimator once its claim is violated or out of reach,
    "never" only at `trials`. Other estimators need all of their trials."""
    power: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Probability, such as 0.8: consistent cells state the loss they would have detected."""
    device: Literal["cpu", "gpu"] | None = None
    """Device of traced mechanisms; default: the fastest available."""


Environments = dict[Label, Annotated[EnvironmentTable, BeforeValidator(_as_table)]]
ENVIRONMENTS: TypeAdapter[dict[str, EnvironmentTable]] = TypeAdapter(Environments)
Entries = Annotated[list[EntryTable], Field(min_length=1)]
Mechanisms = Annotated[list[MechanismTable], Field(min_length=1)]


class SpecTable(TomlTable):
    """An audit of differential privacy, as dpframe reads it."""

    schema_: Annotated[Literal[1], BeforeValidator(_no_boolean), Field(alias="schema")]
    """Version of this format."""
    audit: AuditTable
    """Settings of the audit as a whole."""
    pair: PairTable
    """The neighbouring datasets."""
    search: SearchTable | None = None
    """A search for a pair, instead of [pair]; attacks and estimator then have defaults."""
    mechanism: Mechanisms
    """Mechanisms to audit."""
    attack: Entries
    """Attacks, which tell outputs on D from outputs on D′."""
    estimator: Entries
    """Estimators, which turn counts into estimates and bounds."""
    sweep: dict[str, Any] = {}
    """Keys such as "mechanism.epsilon", each with a list of values; cells are the cross product."""
    expect: list[ExpectTable] = []
    """Verdicts that make the spec a regression test."""
    environments: Environments = {}
    """Named environments, each a list of requirements or a table that also sets the version of
    Python. Only `dpframe environments build` installs packages."""
    run: RunTable = RunTable()
    """Settings of the draws."""


VIEWS = (
    *("kinds", "values", "thresholds", "numbers", "bits", "residues"),
    *("equalities", "spread", "labels", "time"),
)
"""Parts of a black box's answers that a search looks at."""

OBSERVED = ("bits", "time")
"""Parts that count only if the spec says so, because correct mechanisms leak through them too."""

SEARCHED_BY: dict[str, list[dict[str, Any]]] = {
    "attack": [
        {"use": "categories"},
        {"use": "learned"},
        *({"use": "answers", "label": view, "params": {"look": view}} for view in VIEWS),
    ],
    "estimator": [{"use": "betting"}],
}
"""Defaults of a spec with [search]; each mechanism gets the attacks that suit its kind."""

SWEEPABLE = ("seed", "trials", "delta", "confidence")
"""Keys of [audit] that may differ between cells."""

LISTED = ("mechanism", "attack", "estimator")
"""Kinds that a spec lists; it has only one pair."""

ENTRIES = {"mechanism": MechanismTable, "attack": EntryTable, "estimator": EntryTable}
"""The tables of these kinds."""

PLACES = {"pair": "pair", "neighbourhood": "search"}
"""Kinds that a spec has only once, and their tables."""


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def spec_schema(registry: Registry) -> dict[str, Any]:
    """Return the schema as plain JSON values.

    A name shared by several distributions is offered as `distribution/name` as well.
    """
    plain = SpecTable.model_json_schema(by_alias=True)
    schema: dict[str, Any] = {"$schema": _DIALECT, **plain, "title": "dpframe audit"}
    definitions, properties = schema["$defs"], schema["properties"]
    used = {of: definitions.pop(of.__name__) for of in {*ENTRIES.values(), PairTable, SearchTable}}
    tables = {"pair": used[PairTable], "search": used[SearchTable]}
    for kind, of in ENTRIES.items():
        definitions[kind] = _with_plugins(used[of], kind, registry, definitions)
        properties[kind] = {**properties[kind], "items": {"$ref": f"#/$defs/{kind}"}}
    for kind, at in PLACES.items():
        definitions[kind] = _with_plugins(tables[at], kind, registry, definitions)
        properties[at] = {"$ref": f"#/$defs/{kind}"}
    properties["sweep"] = _sweep(registry, properties["sweep"], definitions)
    # A search has default attacks and a default estimator.
    given = {*schema["required"]} - {"pair", *SEARCHED_BY}
    schema["required"] = [name for name in schema["required"] if name in given]
    searched: dict[str, Any] = {"required": ["search"], "properties": {"pair": False}}
    paired = {"required": ["pair", *SEARCHED_BY], "properties": {"search": False}}
    return {**schema, "if": {"required": ["search"]}, "then": searched, "else": paired}


def _with_plugins(
    table: dict[str, Any], kind: str, registry: Registry, definitions: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of an entry: `use` is one of the names and determines `params`."""
    names: dict[str, Entry] = {}
    for entry in registry.of_kind(kind):
        names.setdefault(entry.name, entry)  # the built-in comes first
        names[f"{entry.distribution}/{entry.name}"] = entry
    rules = []
    for name, entry in names.items():
        key = f"{kind}:{entry.distribution}:{entry.name}"
        definitions[key] = _params(entry, key, definitions)
        rules.append(
            {
                "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
                "then": {"properties": {"params": {"$ref": f"#/$defs/{_pointer(key)}"}}},
            }
        )
    use = {**table["properties"]["use"], "enum": list(names)}
    properties = {**table["properties"], "use": use}
    return {**table, "title": kind, "properties": properties, "allOf": rules}


def _params(entry: Entry, key: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a plugin's parameters; none is required, because a sweep may set it."""
    own = dict(json_schema(entry.cls))
    own.pop("required", None)
    for name, definition in own.pop("$defs", {}).items():
        definitions[f"{key}:{name}"] = _moved(definition, key)
    described = {"description": inspect.getdoc(entry.cls) or "", "title": entry.name}
    moved: dict[str, Any] = _moved(own, key)
    return {**moved, **described}


def _moved(schema: Any, key: str) -> Any:
    """Return a schema with its references renamed to the new names of its definitions."""
    if isinstance(schema, list):
        return [_moved(part, key) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _moved(part, key) for name, part in schema.items()}
    if isinstance(reference := schema.get("$ref"), str):
        moved["$ref"] = reference.replace("#/$defs/", f"#/$defs/{_pointer(key)}:", 1)
    return moved


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _sweep(
    registry: Registry, plain: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of the sweep, with dotted keys in quotes or as nested tables.

    A value must suit one of the plugins with the parameter, because a schema cannot know which of
    them the spec uses.
    """
    values: dict[str, dict[str, Any]] = {}
    for kind in (*LISTED, "pair"):
        owners: dict[str, list[str]] = {}
        for entry in registry.of_kind(kind):
            key = f"{kind}:{entry.distribution}:{entry.name}"
            for name in definitions[key].get("properties", {}):
                owners.setdefault(name, []).append(key)
        values[kind] = {name: _list(name, owners[name], definitions) for name in sorted(owners)}
    values["audit"] = {name: _list(name, ["AuditTable"], definitions) for name in SWEEPABLE}
    quoted = {f"{group}.{name}": each for group, of in values.items() for name, each in of.items()}
    nested = {
        group: {"type": "object", "properties": of, "additionalProperties": False}
        for group, of in values.items()
    }
    return {**plain, "properties": {**quoted, **nested}, "additionalProperties": False}


def _list(name: str, owners: list[str], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of values for a parameter of these definitions."""
    apart: dict[str, str] = {}
    for key in owners:
        described = {**definitions[key]["properties"][name]}
        for remark in ("description", "title", "default"):
            described.pop(remark, None)
        apart.setdefault(json.dumps(described, sort_keys=True), key)
    references = [{"$ref": f"#/$defs/{_pointer(key)}/properties/{name}"} for key in apart.values()]
    items = references[0] if len(references) == 1 else {"anyOf": references}
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": items}
