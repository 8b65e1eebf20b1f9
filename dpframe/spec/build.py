"""From a document to an audit: every mistake found, every default filled, every cell named."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from dpframe.common.machine import StuckError, patiently
from dpframe.spec.audit import Audit, RunSettings, Source
from dpframe.spec.cells import Grid, SearchGrid
from dpframe.spec.document import UnfitError, plain
from dpframe.spec.expect import read_rules
from dpframe.spec.model import SEARCHED_BY
from dpframe.spec.problems import Problems
from dpframe.spec.sweep import Override, apply, parse, read_axes
from dpframe.spec.tables import read_sections
from dpframe.spec.uses import find_members, look, make_variants, settled, wanted_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpframe.interfaces.registry import Registry
    from dpframe.spec.document import Document
    from dpframe.spec.model import AuditTable, RunTable
    from dpframe.spec.sweep import Axis
    from dpframe.spec.uses import Member, Members, Variants


T = TypeVar("T")

MOST_CELLS = 200_000
"""More cells than anybody reads; a slip in a sweep should not fill the memory."""


def build(
    document: Document,
    registry: Registry,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    pythons: Mapping[str, str] | None = None,
) -> Audit:
    """Builds the audit that a document describes.

    Args:
        document: a spec; overrides change its tables.
        registry: where plugins are looked up.
        overrides: `KEY=VALUE` texts, applied in order.
        trials: takes precedence over `audit.trials`, swept or not.
        seed: takes precedence over `audit.seed`, swept or not.
        pythons: paths of interpreters, by the names of the environments that they stand for.

    Raises:
        SpecError: with every mistake found.
    """
    problems = Problems(document)
    options = {"trials": trials, "seed": seed}
    given = {name: value for name, value in options.items() if value is not None}
    changes = parse(overrides, problems)
    for name, value in given.items():
        try:
            changes.append(Override(f"audit.{name}", plain(value), f"--{name} {value}"))
        except UnfitError as error:
            problems.add((), error.message, option=f"--{name}")
    apply(document, changes, registry, problems)

    if "search" in document.data:
        document.data = {**SEARCHED_BY, **document.data}
    sections = read_sections(document, registry, problems)
    members = find_members(sections, registry, problems)
    axes = read_axes(document, members, problems)
    _check_size(members, axes, sections.audit, problems)
    seconds = sections.run.seconds if sections.run is not None else None
    variants = _patiently(lambda: _make_all_variants(members, axes, problems), seconds, problems)
    _check_stop(sections.run, members, problems)
    wanted = wanted_of(sections.environments, problems)
    environments = look(document, wanted, pythons or {}, variants, problems)
    rules = read_rules(document, sections, members, axes, problems)
    problems.raise_if_any()

    # With no problem so far, every table is whole.
    assert sections.audit is not None
    assert sections.run is not None
    kind = SearchGrid if sections.search is not None else Grid
    grid = kind(document, sections.audit, members, axes, variants=variants, problems=problems)
    cells = _patiently(lambda: grid.cells(rules), seconds, problems)
    skipped = grid.skips(rules)
    if not cells and not problems:
        reasons = dict.fromkeys(skip.reason for skip in skipped)
        problems.add(("sweep",), "no cell is left", *reasons)
    if not problems:
        rules.check_all_matched(axes, problems)
    problems.raise_if_any()
    texts = (*overrides, *(f"audit.{name}={value}" for name, value in given.items()))
    return Audit(
        name=sections.audit.name,
        multiplicity=sections.audit.multiplicity,
        cells=tuple(settled(cells, environments)),
        skipped=tuple(skipped),
        run=RunSettings(**sections.run.model_dump()),
        source=Source(document.path, document.sha256, document.text, texts),
        wanted=wanted,
        environments=environments,
    )


def _patiently(work: Callable[[], T], seconds: float | None, problems: Problems) -> T:
    """What authors' code is called for; a call that takes longer than a budget is a mistake."""
    try:
        return patiently(work, seconds)
    except StuckError as stuck:
        problems.add(stuck.place, str(stuck))
        problems.raise_if_any()
        raise


def _check_stop(run: RunTable | None, members: Members, problems: Problems) -> None:
    """Whether a cell can stop at all: only anytime estimators may be asked before the end."""
    if run is None or run.stop == "never" or "estimator" in members.broken:
        return
    classes: list[Any] = [member.entry.cls for member in members.of_kind["estimator"]]
    if not any(cls.anytime for cls in classes):
        problems.add(
            ("run", "stop"),
            'is "decided", and no estimator is valid at every number of trials',
            'add the estimator "betting", or another one that is anytime',
        )


def _check_size(
    members: Members, axes: list[Axis], audit: AuditTable | None, problems: Problems
) -> None:
    of_pairs = ("pair", "neighbourhood")  # each mechanism goes with one
    sizes = [
        len(found) for kind, found in members.of_kind.items() if found and kind not in of_pairs
    ]
    sizes += [len(axis.values) for axis in axes]
    cells = math.prod(sizes) * (audit.repeats if audit else 1)
    if cells > MOST_CELLS:
        problems.add(("sweep",), f"makes {cells:,} cells; dpframe takes up to {MOST_CELLS:,}")
        problems.raise_if_any()  # looking at each of them would take too long


def _make_all_variants(
    members: Members, axes: list[Axis], problems: Problems
) -> dict[Member, Variants]:
    made = {}
    for kind, of_kind in members.of_kind.items():
        for member in of_kind:
            own = [axis for axis in axes if axis.group == kind and axis.name in member.names]
            made[member] = make_variants(member, own, problems)
    return made
