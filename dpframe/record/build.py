"""Assembles the record of a run: the one place where that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dpframe.record.cell import cell_record, skip_record
from dpframe.record.digest import digest_of
from dpframe.record.model import (
    AuditRecord,
    EnvironmentRecord,
    InstalledRecord,
    PluginRecord,
    Record,
    SpecRecord,
    SummaryRecord,
)
from dpframe.record.plain import text
from dpframe.record.totals import totals
from dpframe.record.verdict import judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.record.model import Multiplicity
    from dpframe.record.result import CellResult
    from dpframe.spec.audit import Audit, Skip, Source


def build(
    audit: Audit,
    results: Sequence[CellResult],
    *,
    m: int,
    skipped: Iterable[Skip],
    environment: EnvironmentRecord,
    plugins: list[PluginRecord],
    seconds: float,
    peak_rss_bytes: int | None,
    calls: int | None = None,
) -> Record:
    """Judges the results of a run and puts everything into a record.

    Args:
        audit: what was asked for.
        results: one per cell that was planned, in the order of the spec.
        m: tests planned, failed ones included.
        skipped: combinations that were left out.
        environment: what the run ran on.
        plugins: every plugin that was used.
        seconds: duration of the run.
        peak_rss_bytes: largest resident memory of the process, if the system tells.
        calls: releases that black boxes were asked for; None if there is none.
    """
    cells = judged([cell_record(result) for result in results], m, audit.multiplicity)
    record = Record(
        spec=spec_record(audit.source),
        audit=AuditRecord(
            name=text(audit.name),
            confidence=min((cell.confidence for cell in audit.cells), default=0.95),
            multiplicity=cast("Multiplicity", audit.multiplicity),
            looks=max((result.looks.number for result in results), default=1),
        ),
        environment=environment,
        seed=first_seed(audit),
        plugins=plugins,
        environments=installed_records(audit),
        cells=cells,
        skipped=[skip_record(skip) for skip in skipped],
        summary=SummaryRecord(
            m=m,
            **totals(cells)._asdict(),
            seconds=seconds,
            calls=calls,
            peak_rss_bytes=peak_rss_bytes,
        ),
    )
    return record.model_copy(update={"digest": digest_of(record.as_json())})


def installed_records(audit: Audit) -> list[InstalledRecord]:
    """The environments of an audit, by name; where they lie is nobody else's business."""
    return [
        InstalledRecord(
            name=text(one.name),
            requirements=list(one.requirements),
            python=text(one.python),
            installed=[text(package) for package in one.installed],
        )
        for one in sorted(audit.environments)
    ]


def first_seed(audit: Audit) -> int:
    """The seed, or the first of those that are swept."""
    return audit.cells[0].seed if audit.cells else 0


def spec_record(source: Source) -> SpecRecord:
    """Where a spec came from."""
    return SpecRecord(
        path=text(source.path),
        sha256=source.sha256,
        text=text(source.text),
        overrides=[text(override) for override in source.overrides],
    )
