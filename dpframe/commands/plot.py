"""Draws a figure of a record, for a notebook or into a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.errors import DpframeError, OutputError
from dpframe.files import NotReadableError, read_regular
from dpframe.record.file import as_record, read
from dpframe.record.model import Record
from dpframe.report import figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from dpframe.report.figures.picture import Picture
    from dpframe.report.figures.published import Published

MOST_BYTES = 64 << 20
"""Of a table of numbers from elsewhere."""
FORMATS = ("svg", "png", "pdf")


def plot(
    record: Record | Mapping[str, Any] | str | os.PathLike[str],
    kind: str | None = None,
    *,
    where: Mapping[str, object] | None = None,
    panels: Sequence[Sequence[str]] = (),
    beside: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws a figure of a record; needs the extra `plot`.

    The figure shows itself in a notebook, has a `caption`, and knows nothing of pyplot.

    Args:
        record: what `dpframe.audit` returned, or the path of a record or of the directory of a run.
        kind: the kind of figure; default: the first that fits the record.
        where: only these cells: `mechanism`, `attack` or `estimator` with a label, or a swept key
            with a value; a list stands for any of its items.
        panels: for the kind `sweep`, labels of mechanisms that share a panel; default: a panel
            for each.
        beside: a CSV file of numbers from elsewhere, a paper's for example, for the kind `sweep`:
            columns `mechanism`, `epsilon` and swept keys.

    Raises:
        DpframeError: matplotlib is not there, or no such figure can be made of this record.
        RecordError: it is no record.
    """
    return figures.draw(_read(record), kind, where=where, panels=panels, beside=_beside(beside))


def save(
    record: Path,
    out: Path,
    kind: str | None = None,
    *,
    where: Mapping[str, object] | None = None,
    panels: Sequence[Sequence[str]] = (),
    beside: str | os.PathLike[str] | None = None,
) -> Picture:
    """Draws a figure into a file, which is there as a whole or not at all.

    Args:
        record: path of a record, or of the directory of a run.
        out: a name that ends in .svg, .png or .pdf.
        kind: as for `plot`.
        where: as for `plot`.
        panels: as for `plot`.
        beside: as for `plot`.

    Raises:
        DpframeError: as for `plot`, or the name has another ending.
        OutputError: the file cannot be written.
    """
    ending = out.suffix[1:].lower()
    if ending not in FORMATS:
        raise DpframeError(f"{out}: a figure is written as .svg, .png or .pdf")
    picture = figures.draw(read(record), kind, where=where, panels=panels, beside=_beside(beside))
    from dpframe.report.figures.picture import content

    _write(out, content(picture, ending))
    return picture


def _beside(path: str | os.PathLike[str] | None) -> Published | None:
    if path is None:
        return None
    from dpframe.report.figures.published import Published

    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, NotReadableError, UnicodeDecodeError) as error:
        raise DpframeError(f"{path}: cannot be read: {error}") from None
    return Published(text, Path(path).name)


def _read(record: Record | Mapping[str, Any] | str | os.PathLike[str]) -> Record:
    if isinstance(record, str | os.PathLike):
        return read(Path(record))
    return as_record(record)


def _write(out: Path, data: bytes) -> None:
    """Under another name first; what was there before is replaced."""
    try:
        descriptor, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(out)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
