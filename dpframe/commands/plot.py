"""Draw a figure of a record, for a notebook or into a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dpframe.common.files import NotReadableError, read_regular, write_whole
from dpframe.errors import DpframeError, OutputError
from dpframe.report import figures
from dpframe.results.model import Record
from dpframe.results.store import subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpframe.report.figures.drawing import Picture
    from dpframe.report.figures.points import Published


MOST_BYTES = 64 << 20  # the largest table of published numbers, in bytes
FORMATS = ("svg", "png", "pdf")


def plot(
    record: Record | Mapping[str, Any] | str | os.PathLike[str],
    kind: str | None = None,
    *,
    where: Mapping[str, object] | None = None,
    panels: Sequence[Sequence[str]] = (),
    beside: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw a figure of a record, or of scores made elsewhere; this needs the extra `plot`.

    A notebook shows the figure. It has a `caption`, and does not use pyplot.

    Args:
        record: what `dpframe.audit`, `dpframe.score` or `dpframe.score_one_run` returned, or the
            path of a record, of the directory of a run, or of what `dpframe score --json` printed.
        kind: the kind of figure; default: the first that fits the record.
        where: only these cells: `mechanism`, `attack` or `estimator` with a label, or a swept key
            with a value; a list stands for any of its items.
        panels: for the kind `sweep`, labels of mechanisms that share a panel; default: a panel
            for each.
        beside: a CSV file of numbers from elsewhere, a paper's for example, for the kinds `sweep`
            and `compositions`: columns `mechanism`, `epsilon` and swept keys, or other parameters.

    Raises:
        DpframeError: matplotlib is missing, or no such figure can be made of this record.
        RecordError: it is not a record.
    """
    drawn = subject(record)
    if isinstance(drawn, Record):
        return figures.draw(drawn, kind, where=where, panels=panels, beside=_beside(beside))
    if where or panels or beside:
        raise DpframeError(
            "cells, panels and other numbers can be selected only for a record, not for scores"
        )
    return figures.draw_scores(drawn, kind)


def save(
    record: Path | Mapping[str, Any],
    out: Path,
    kind: str | None = None,
    **chosen: Any,
) -> Picture:
    """Write a figure into a file, as a whole or not at all; arguments are as for `plot`.

    The name ends in .svg, .png or .pdf. Raises DpframeError as `plot` does, or if the name has
    another ending, OutputError if the file cannot be written.
    """
    check_name(out)
    picture = cast("Picture", plot(record, kind, **chosen))
    write(picture, out)
    return picture


def write(picture: Picture | str, out: Path) -> None:
    """Write a picture, or a page, into a file of a checked name; raise OutputError if it fails."""
    from dpframe.report.figures.drawing import content

    mask = os.umask(0)
    os.umask(mask)
    try:
        if isinstance(picture, str):
            data = picture.encode()
        else:
            data = content(picture, out.suffix[1:].lower())
        write_whole(out, data, 0o666 & ~mask)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error


def check_name(out: Path, more: str = "") -> None:
    """Raise DpframeError if nothing can be drawn into a file of this name.

    The message ends with `more`, the other endings that the command takes.
    """
    if out.suffix[1:].lower() not in FORMATS:
        raise DpframeError(f"{out}: a figure is written as .svg, .png or .pdf{more}")
    figures.need_matplotlib()


def _beside(path: str | os.PathLike[str] | None) -> Published | None:
    if path is None:
        return None
    from dpframe.report.figures.points import Published

    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, NotReadableError, UnicodeDecodeError) as error:
        raise DpframeError(f"{path}: cannot be read: {error}") from None
    return Published(text, Path(path).name)
