"""The commands `dpframe watch` and `dpframe disclose`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpframe import DpframeError, load
from dpframe.plugins import notified

watch_app = typer.Typer(add_completion=False, rich_markup_mode=None)
disclose_app = typer.Typer(add_completion=False, rich_markup_mode=None)

_STATE = "Directory of all records so far. Default: REGISTRY.state, beside it."
_PRIVATE = "Also show violations without a public report."
_SOURCE = "Also build packages from source, which runs their code."
_CELL = "A violated cell, by its id or the label of its mechanism."
_MODULE = (
    "Another folder that may contain the mechanism's module, besides the record's and this one."
)
_NOTIFY = "Run this command at the end, without a shell; it has the outcome on standard input."
_OUT = "Default: standard output."

VIOLATED, MISSING = 1, 3
"""Exit codes of `watch`: an unreported violation; something could not be audited."""


@watch_app.command()
def watch(
    registry: Annotated[Path, typer.Argument(metavar="REGISTRY", help="A TOML file.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the site.")],
    state: Annotated[Path | None, typer.Option(metavar="DIR", help=_STATE)] = None,
    private: Annotated[bool, typer.Option("--private", help=_PRIVATE)] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat audits that failed.")] = False,
    allow_source: Annotated[bool, typer.Option("--allow-source", help=_SOURCE)] = False,
    notify: Annotated[str | None, typer.Option(metavar="COMMAND", help=_NOTIFY)] = None,
) -> None:
    """Audit the new versions in a registry of libraries, and write a static site of all results.

    This installs the libraries and runs the adapters that the registry names. Records of earlier
    runs are kept, and an interrupted run continues from its counts. Equal states give equal sites.

    Exit code: 0; 1 if a violation has no public report; 2 if the call is wrong; 3 if something
    could not be audited; 130 after an interruption.
    """
    from dpframe_watch.audits import Watch, WatchState
    from dpframe_watch.registry import LibraryRegistry
    from dpframe_watch.site import Site

    with notified(notify, _notify) as outcome:
        read = LibraryRegistry(registry)
        place = WatchState(state if state is not None else registry.with_suffix(".state"))
        with place.alone():
            try:
                Watch(read, place, _notify, retry=retry, allow_source=allow_source).run()
            except KeyboardInterrupt:
                _notify("finished audits are kept; repeat the command to continue")
                raise
            site = Site(read, place, private=private)
            site.write(out)
        outcome.update(site.outcome(), site=str(out.resolve()))
        for row in site.unreported:
            hint = "" if private else "; it is not on the site: the registry names no public report"
            _notify(f"{' '.join(row.task)}: {row.words}{hint}")
            _notify(f"   dpframe disclose {place.record_of(row.key)}")
        if site.unreported:
            raise typer.Exit(VIOLATED)
        if place.problems:
            raise typer.Exit(MISSING)


@disclose_app.command()
def disclose(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="Or the directory of a run.")],
    cell: Annotated[str | None, typer.Option(metavar="ID", help=_CELL)] = None,
    module: Annotated[list[Path] | None, typer.Option(metavar="DIR", help=_MODULE)] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help=_OUT)] = None,
) -> None:
    """Write a private report of a violation for the authors of a library, as Markdown.

    Nothing is sent or published. The command refuses records without a violation.
    """
    from dpframe_watch.disclosure import cell_to_report, report, source_of

    loaded = load(record)
    chosen = cell_to_report(loaded, cell)
    beside = record if record.is_dir() else record.parent
    folders = [*(module or ()), beside, beside / "sources", Path()]
    text = report(loaded, chosen, folders)
    if source := source_of(chosen, folders):
        _notify(f"the report contains the file {source[0]}")
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.touch(mode=0o600)
        out.chmod(0o600)  # it is private
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DpframeError(f"{out}: {(error.strerror or str(error)).lower()}") from None
    _notify(f"{out}: share it only with the authors of the library")


def _notify(text: str) -> None:
    """Print a progress message, without control characters that a package might contain."""
    print("".join(c if c.isprintable() else " " for c in text), file=sys.stderr)  # noqa: T201
