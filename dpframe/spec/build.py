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
from dpframe.spec.cells import CellGrid, SearchGrid, environment_of
from dpframe.spec.document import Document, Problems, SpecValueError, findings, plain
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

    Raises:
        SpecError: the file cannot be read or is not a valid spec; lists every mistake.
    """
    document = from_mapping(spec) if isinstance(spec, Mapping) else read(spec)
    return _build(document, registry, overrides, {"trials": trials, "seed": seed}, pythons or {})


def environments_of(path: str | os.PathLike[str]) -> tuple[Wanted, ...]:
    """Return the environments that the spec in a file describes, without reading the rest.

    Raises:
        SpecError: the file cannot be read, or the table is not valid; lists every mistake.
    """
    document = read(path)
    problems = Problems(document)
    tables = document.data.get("environments", {})
    try:
        ENVIRONMENTS.validate_python(tables)
    except ValidationError as error:
        for finding in findings(error, tables, "key"):
            problems.add(("environments", *finding.path), finding.message, finding.hint)
    found = wanted_of(read_environments(document.data), problems)
    problems.raise_if_any()
    return found


def _build(
    document: Document,
    registry: Registry,
    overrides: Sequence[str],
    options: Mapping[str, int | None],
    pythons: Mapping[str, str],
) -> Audit:
    problems = Problems(document)
    changes, texts = sweep.parse(overrides, problems), [*overrides]
    for name, value in options.items():
        if value is None:
            continue
        try:
            changes.append(sweep.Override(f"audit.{name}", plain(value), f"--{name} {value}"))
            texts.append(f"audit.{name}={value}")
        except SpecValueError as error:
            problems.add((), error.message, option=f"--{name}")
    sweep.apply(document, changes, registry, problems)

    if "search" in document.data:
        document.data = {**SEARCHED_BY, **document.data}
    sections = read_sections(document, registry, problems)
    members = find_members(sections, registry, problems)
    axes = sweep.read_axes(document, members, problems)
    _check_size(members, axes, sections.audit, problems)
    seconds = sections.run.seconds if sections.run is not None else None
    variants = _limited(lambda: make_variants(members, axes, problems), seconds, problems)
    if sections.run is not None and sections.run.stop != "never":
        _check_anytime(members, problems)
    wanted = wanted_of(sections.environments, problems)
    environments = environments_in_use(document, wanted, pythons, variants, problems)
    rules = expect.read_rules(document, sections, members, axes, problems)
    problems.raise_if_any()

    # With no problem so far, every table is whole.
    assert sections.audit is not None
    assert sections.run is not None
    kind = SearchGrid if sections.search is not None else CellGrid
    grid = kind(document, sections.audit, members, axes, variants, environments, problems)
    cells = _limited(lambda: grid.cells(rules), seconds, problems)
    skipped = grid.skips(rules)
    if not cells and not problems:
        reasons = dict.fromkeys(skip.reason for skip in skipped)
        problems.add(("sweep",), "no cell is left", *reasons)
    if not problems:
        rules.check_all_matched(axes, problems)
    problems.raise_if_any()
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


def _limited(work: Callable[[], T], seconds: float | None, problems: Problems) -> T:
    """Run plugin code with a time limit; a call that takes longer is a mistake."""
    try:
        return machine.with_timeout(work, seconds)
    except machine.StuckError as stuck:
        problems.add(stuck.place, str(stuck))
        problems.raise_if_any()
        raise


def _check_anytime(members: Members, problems: Problems) -> None:
    """Note a mistake if no estimator allows its cells to stop early."""
    classes: list[Any] = [member.entry.cls for member in members.of_kind["estimator"]]
    if "estimator" not in members.broken and not any(cls.anytime for cls in classes):
        problems.add(
            ("run", "stop"),
            'is "decided", but no estimator is valid at every number of trials',
            'add the estimator "betting", or another anytime estimator',
        )


def _check_size(
    members: Members, axes: list[sweep.SweptKey], audit: AuditTable | None, problems: Problems
) -> None:
    of_pairs = ("pair", "neighbourhood")  # each mechanism has one of them
    sizes = [len(found) for kind, found in members.of_kind.items() if kind not in of_pairs]
    sizes += [len(axis.values) for axis in axes]
    cells = math.prod(filter(None, sizes)) * (audit.repeats if audit else 1)
    if cells > MOST_CELLS:
        problems.add(("sweep",), f"makes {cells:,} cells; dpframe takes up to {MOST_CELLS:,}")
        problems.raise_if_any()  # examining each of them would take too long


def wanted_of(tables: Mapping[str, EnvironmentTable], problems: Problems) -> tuple[Wanted, ...]:
    """Return the environments that a spec describes."""
    found = [Wanted(name, tuple(t.requirements), t.python) for name, t in tables.items()]
    taken: dict[str, str] = {}
    for one in found:
        first = taken.setdefault(one.slug.lower(), one.name)
        if first != one.name:
            message = (
                f"its files would have the same names as those of {first!r}; give it another name"
            )
            problems.add(("environments", one.name), message)
    return tuple(found)


def environments_in_use(
    document: Document,
    wanted: tuple[Wanted, ...],
    pythons: Mapping[str, str],
    variants: Mapping[Member, Variants],
    problems: Problems,
) -> tuple[Environment, ...]:
    """Find the environments that mechanisms name."""
    described = {one.name: one for one in wanted}
    how = f"dpframe environments build {shlex.quote(document.path or 'SPEC')}"
    found: dict[str, Environment] = {}
    for member, of_member in variants.items():
        for name in map(environment_of, of_member.values()):
            if name is None or name in found:
                continue
            if name in pythons:
                requirements = described[name].requirements if name in described else ()
                found[name] = _named(name, pythons[name])._replace(requirements=requirements)
            elif name in described:
                found[name] = places.found(described[name], how)
            else:
                known = [*described, *pythons]
                problems.add(
                    member.path,
                    f"there is no environment {name!r}",
                    f"[environments] has: {text.listed(known)}{text.did_you_mean(known, name)}",
                    f"--python {shlex.quote(name)}=PATH names an interpreter of your own",
                )
    for name in pythons:
        if name not in found:
            message = "no mechanism runs in an environment of that name"
            problems.add((), message, option=f"--python {name}=…")
    return tuple(found.values())


# Starting an interpreter is slow, so each is asked only once.
_named = functools.lru_cache(maxsize=64)(places.named)
