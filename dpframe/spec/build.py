"""Build an audit: find every mistake, fill every default, name every cell."""

import functools
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from dpframe import environments as places
from dpframe.common import machine, text
from dpframe.environments import Environment, Wanted
from dpframe.interfaces.registry import Registry
from dpframe.spec import expect, sweep
from dpframe.spec.audit import Audit, RunSettings, SpecSource
from dpframe.spec.cells import CellGrid, environment_of
from dpframe.spec.document import Document, SpecValueError, findings, plain
from dpframe.spec.members import Member, Members, Variants, find_members, make_variants
from dpframe.spec.model import ENVIRONMENTS, SEARCHED_BY, AuditTable, EnvironmentTable
from dpframe.spec.tables import from_mapping, read, read_environments, read_sections

T = TypeVar("T")

MOST_CELLS = 200_000
"""Largest number of cells, because a mistake in a sweep must not fill the memory."""


def load_audit(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    registry: Registry,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    pythons: Mapping[str, str] | None = None,
    allow_command: bool = False,
) -> Audit:
    """Read a spec.

    Args:
        spec: path of a TOML file, or the tables that a TOML parser would return, as a notebook has
            them; tuples and NumPy scalars are accepted.
        registry: the plugins it may name, see `dpframe.interfaces.registry.load`.
        overrides: `KEY=VALUE` texts as `--set` takes them, applied in order.
        trials: takes precedence over `audit.trials`, swept or not.
        seed: takes precedence over `audit.seed`, swept or not.
        pythons: paths of interpreters, by the names of the environments that they stand for.
        allow_command: True if the spec may run the commands that it names.

    Raises:
        SpecError: the file cannot be read or is not a valid spec; lists every mistake.
    """
    document = from_mapping(spec) if isinstance(spec, Mapping) else read(spec)
    document.allow_command = allow_command
    changes, texts = sweep.parse(overrides, document), [*overrides]
    for name, value in (("trials", trials), ("seed", seed)):
        if value is None:
            continue
        try:
            changes.append(sweep.Override(f"audit.{name}", plain(value), f"--{name} {value}"))
            texts.append(f"audit.{name}={value}")
        except SpecValueError as error:
            document.note((), error.message, option=f"--{name}")
    sweep.apply(document, changes, registry)

    if "search" in document.data:
        document.data = {**SEARCHED_BY, **document.data}
    sections = read_sections(document, registry)
    members = find_members(sections, registry, document)
    axes = sweep.read_axes(document, members)
    _check_size(members, axes, sections.audit, document)
    seconds = sections.run.seconds if sections.run is not None else None
    variants = _limited(lambda: make_variants(members, axes, document), seconds, document)
    if sections.run is not None and sections.run.stop != "never":
        _check_anytime(members, document)
    wanted = wanted_of(sections.environments, document)
    environments = environments_in_use(document, wanted, pythons or {}, variants)
    rules = expect.read_rules(document, sections, members, axes)
    document.raise_noted()

    # With no problem so far, every table is whole.
    assert sections.audit is not None
    assert sections.run is not None
    grid = CellGrid(document, sections.audit, members, axes, variants, environments)
    cells = _limited(lambda: grid.cells(rules), seconds, document)
    skipped = grid.skips(rules)
    if not cells and not document.mistakes:
        reasons = dict.fromkeys(skip.reason for skip in skipped)
        document.note(("sweep",), "no cell is left", *reasons)
    if not document.mistakes:
        rules.check_all_matched(axes, document)
    document.raise_noted()
    return Audit(
        name=sections.audit.name,
        multiplicity=sections.audit.multiplicity,
        cells=tuple(cells),
        skipped=tuple(skipped),
        run=RunSettings(**sections.run.model_dump()),
        source=SpecSource(document.path, document.sha256, document.text, tuple(texts)),
        wanted=wanted,
        environments=environments,
    )


def environments_of(path: str | os.PathLike[str]) -> tuple[Wanted, ...]:
    """Return the environments that the spec in a file describes, without reading the rest.

    Raises:
        SpecError: the file cannot be read, or the table is not valid; lists every mistake.
    """
    document = read(path)
    tables = document.data.get("environments", {})
    try:
        ENVIRONMENTS.validate_python(tables)
    except ValidationError as error:
        for finding in findings(error, tables, "key"):
            document.note(("environments", *finding.path), finding.message, finding.hint)
    wanted = wanted_of(read_environments(document.data), document)
    document.raise_noted()
    return wanted


def _limited(work: Callable[[], T], seconds: float | None, document: Document) -> T:
    """Run plugin code with a time limit; a call that takes longer is a mistake."""
    try:
        return machine.with_timeout(work, seconds)
    except machine.StuckError as stuck:
        document.note(stuck.place, str(stuck))
        document.raise_noted()
        raise


def _check_anytime(members: Members, document: Document) -> None:
    """Note a mistake if no estimator allows its cells to stop early."""
    classes: list[Any] = [member.entry.cls for member in members.of_kind["estimator"]]
    if "estimator" not in members.broken and not any(cls.anytime for cls in classes):
        document.note(
            ("run", "stop"),
            'is "decided", but no estimator is valid at every number of trials',
            'add the estimator "betting", or another anytime estimator',
        )


def _check_size(
    members: Members, axes: list[sweep.SweptKey], audit: AuditTable | None, document: Document
) -> None:
    of_pairs = ("pair", "neighbourhood")  # each mechanism has one of them
    sizes = [len(of_kind) for kind, of_kind in members.of_kind.items() if kind not in of_pairs]
    sizes += [len(axis.values) for axis in axes]
    cells = math.prod(filter(None, sizes)) * (audit.repeats if audit else 1)
    if cells > MOST_CELLS:
        document.note(("sweep",), f"makes {cells:,} cells; dpframe takes up to {MOST_CELLS:,}")
        document.raise_noted()  # examining each of them would take too long


def wanted_of(tables: Mapping[str, EnvironmentTable], document: Document) -> tuple[Wanted, ...]:
    """Return the environments that a spec describes."""
    environments = [Wanted(name, tuple(t.requirements), t.python) for name, t in tables.items()]
    slugs: dict[str, str] = {}
    for one in environments:
        first = slugs.setdefault(one.slug.lower(), one.name)
        if first != one.name:
            message = (
                f"its files would have the same names as those of {first!r}; give it another name"
            )
            document.note(("environments", one.name), message)
    return tuple(environments)


def environments_in_use(
    document: Document,
    wanted: tuple[Wanted, ...],
    pythons: Mapping[str, str],
    variants: Mapping[Member, Variants],
) -> tuple[Environment, ...]:
    """Find the environments that mechanisms name."""
    described = {one.name: one for one in wanted}
    how = f"dpframe environments build {shlex.quote(document.path or 'SPEC')}"
    in_use: dict[str, Environment] = {}
    for member, of_member in variants.items():
        for name in map(environment_of, of_member.values()):
            if name is None or name in in_use:
                continue
            if name in pythons:
                requirements = described[name].requirements if name in described else ()
                in_use[name] = _named(name, pythons[name])._replace(requirements=requirements)
            elif name in described:
                in_use[name] = places.found(described[name], how)
            else:
                known = [*described, *pythons]
                document.note(
                    member.path,
                    f"there is no environment {name!r}",
                    f"[environments] has: {text.listed(known)}{text.did_you_mean(known, name)}",
                    f"--python {shlex.quote(name)}=PATH names an interpreter of your own",
                )
    for name in pythons:
        if name not in in_use:
            message = "no mechanism runs in an environment of that name"
            document.note((), message, option=f"--python {name}=…")
    return tuple(in_use.values())


# Starting an interpreter is slow, so each is asked only once.
_named = functools.lru_cache(maxsize=64)(places.named)
