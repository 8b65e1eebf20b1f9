"""The record as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from dpframe.record.model.cell import CellRecord, Verdict
from dpframe.record.model.values import Amount, Count, FreeTable, Part, Position, Probability

SCHEMA = 1

Multiplicity = Literal["holm", "bonferroni", "none"]


class SpecRecord(Part):
    """The spec of a run."""

    path: str
    """its path as given; empty for a spec that was no file"""
    sha256: str
    """hash of its bytes"""
    text: str
    """the whole text"""
    overrides: list[str]
    """changes from the command line, as `KEY=VALUE`, `--trials` and `--seed` included"""


class AuditRecord(Part):
    """What holds for a whole audit."""

    name: str
    """its name"""
    confidence: Probability
    """confidence of all verdicts together; if it is swept, the lowest"""
    multiplicity: Multiplicity
    """`holm`, `bonferroni` or `none`"""
    looks: Position
    """the largest number of looks at any cell's draws, this one included"""


class EnvironmentRecord(Part):
    """What a run ran on."""

    dpframe: str
    """version of dpframe"""
    jax: str
    """version of JAX"""
    numpy: str
    """version of NumPy"""
    scipy: str
    """version of SciPy"""
    python: str
    """version of Python"""
    platform: str
    """operating system and processor"""
    devices: list[str]
    """kind of each device that JAX used"""
    prng: str
    """name of the pseudo-random number generator of traced mechanisms"""


class PluginRecord(Part):
    """A plugin that was used."""

    kind: str
    """`mechanism`, `attack`, `estimator` or `pair`"""
    name: str
    """its name"""
    distribution: str
    """where it comes from; `local` for a class handed to `dpframe.audit`, the name of the file for
    one given with `--plugin`"""
    version: str
    """version of the distribution; of a file the digest of its bytes"""
    code: str
    """digest of the Python files of the package that defines it"""
    reference: str | None = None
    """the theorem, or another source, that an estimator's numbers rest on, as its author names it;
    null if none is named, and for other kinds. Old records lack it"""


class InstalledRecord(Part):
    """An environment that black boxes ran in."""

    name: str
    """its name in the spec"""
    requirements: list[str]
    """what the spec lists; empty for an interpreter that only the command line names"""
    python: str
    """version of its Python; empty if it could not be used"""
    installed: list[str]
    """names and versions of all that was installed, `name==version`"""


class SkipRecord(Part):
    """A combination that was left out."""

    mechanism: str
    """label of the mechanism"""
    pair: str
    """name of the pair"""
    attack: str
    """label of the attack"""
    estimator: str
    """label of the estimator"""
    swept: FreeTable
    """swept keys and values; empty if all are meant"""
    reason: str
    """why"""
    expected: Verdict | None = None
    """the verdict that `[[expect]]` names, which is then not met; null if no rule matches"""


class SummaryRecord(Part):
    """Totals."""

    m: Count
    """tests planned: cells with a claim and a certifying estimator, failed ones included"""
    violated: Count
    """cells with this verdict"""
    consistent: Count
    """cells with this verdict"""
    inconclusive: Count
    """cells with this verdict"""
    failed: Count
    """cells that could not be run"""
    seconds: Amount
    """duration of the run, in seconds"""
    draws: Count
    """draws counted, each one release of a mechanism; those that cells share are counted once"""
    calls: Count | None = None
    """releases that black boxes were asked for, whatever for: learning, choosing, checking and
    counting; null if no mechanism is a black box. Old records lack it"""
    peak_rss_bytes: Count | None
    """largest resident memory of the process, in bytes; null where the system does not tell"""


class Record(Part):
    """What a run was, found and cost: complete, replayable, the only thing that reports read.

    ε is in nats. Index 0 is D, index 1 is D′. Numbers that are not finite are the strings "inf",
    "-inf" and "nan" in JSON.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    """version of this format: 1"""
    spec: SpecRecord
    """the spec of the run"""
    audit: AuditRecord
    """what holds for the whole audit"""
    environment: EnvironmentRecord
    """what the run ran on"""
    seed: int
    """the seed; if it is swept, that of the first cell"""
    plugins: list[PluginRecord]
    """every plugin used"""
    environments: list[InstalledRecord] = Field(default_factory=list)
    """the environments that black boxes ran in, beside that of dpframe. Old records lack it"""
    cells: list[CellRecord]
    """the cells, in the order of the spec"""
    skipped: list[SkipRecord]
    """combinations that were left out"""
    summary: SummaryRecord
    """totals"""
    digest: str | None = None
    """hash of everything else, so that a change is noticed. Old records lack it"""

    in_notebooks: ClassVar[Callable[[Record], str] | None] = None
    """What a notebook shows, as HTML. Reports know records, and not the other way round; so
    `dpframe.audit` sets it."""

    def _repr_html_(self) -> str | None:
        show = type(self).in_notebooks
        return None if show is None else show(self)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield "audit", self.audit.name
        yield "cells", len(self.cells)
        yield "violated", self.summary.violated

    def as_dict(self) -> dict[str, Any]:
        """The record as dictionaries and lists; numbers that are not finite stay floats."""
        return self.model_dump(by_alias=True)

    def as_json(self) -> dict[str, Any]:
        """The same as strict JSON values: numbers that are not finite are words."""
        return self.model_dump(mode="json", by_alias=True)


def record_schema() -> dict[str, Any]:
    """JSON Schema of a record, with the meaning of every field."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **Record.model_json_schema(), "title": "dpframe record"}
