"""A record as one self-contained page in HTML, which needs no script and no network.

What labels, parameters, reasons and notes hold is escaped, and what moves a cursor or turns the
direction of writing is written as its number. A policy in the page forbids whatever else a browser
would fetch or run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dpframe.printable import printable
from dpframe.report.files.html.content import values

if TYPE_CHECKING:
    from dpframe.record.model import Record


def document(record: Record) -> str:
    """The whole page."""
    return _environment().get_template("page.html").render(values(record)) + "\n"


def summary(record: Record) -> str:
    """The verdict and a small table, for a notebook: an element, not a page."""
    return _environment().get_template("summary.html").render(values(record, brief=True))


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """What an expression of a template prints; markup of our own stays as it is."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value, "\n\t")
